"""A script that validates on two processes with pictures, and saves what every process computed.

    python -m tests.distributed.pictures_run FOLDER

Lightning starts it once more, for the second process.
"""

import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.integrations import EvaluationPictures
from tests.distributed.lightning_run import COLLECTIVE_TIMEOUT
from tests.integrations.pictured_module import PicturedModule, image, loader, picture


class BothModule(PicturedModule):
    """Each process sees two of three images with boxes, both that with the id 10, and half of the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.val_boxes = DetectionMAP(metric="map")

    def on_validation_epoch_start(self):
        for number in (self.global_rank, 1 + self.global_rank):
            found, true = image(number)
            self.val_boxes.update([found], [true])


def main(folder: Path) -> None:
    """Validate with two callbacks, the second of which fails to draw."""
    drawn: list[int] = []

    def recorded(number: int):
        drawn.append(number)
        return picture(number)

    def failing(number: int):
        raise OSError("the picture is gone")

    callbacks = [
        EvaluationPictures("val_metrics", pictures=recorded),
        EvaluationPictures("val_boxes", pictures=lambda number: recorded(number // 10)),
        EvaluationPictures(["val_map", "other"], pictures=failing),
    ]
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(timeout=COLLECTIVE_TIMEOUT, process_group_backend="gloo"),
        logger=CSVLogger(folder, name="", version=""),
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    (values,) = trainer.validate(BothModule(), loader(1), verbose=False)
    torch.save({"values": values, "drawn": sorted(drawn)}, folder / f"process_{trainer.global_rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()  # gloo threads that Lightning leaves running may abort the exit


if __name__ == "__main__":
    main(Path(sys.argv[1]))
