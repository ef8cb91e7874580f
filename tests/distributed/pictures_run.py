"""What `lightning_run` does on two processes with pictures: it saves what every process computed."""

from datetime import timedelta
from pathlib import Path

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy

from reid_torchmetrics import DetectionMAP, ReIDMeanAP
from reid_torchmetrics.integrations import EvaluationPictures
from tests.integrations.pictured_module import PicturedModule, image, loader, picture


class BothModule(PicturedModule):
    """Each process sees two of three images with boxes, both that with the id 10, and half of the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.val_boxes = DetectionMAP(metric="map")
        self.unused = ReIDMeanAP()

    def on_validation_epoch_start(self):
        for number in (self.global_rank, 1 + self.global_rank):
            found, true = image(number)
            self.val_boxes.update([found], [true])


def validate(folder: Path, timeout: timedelta) -> None:
    """Validate with three callbacks, the last of which fails to draw."""
    folder.mkdir(exist_ok=True)
    drawn: list[int] = []

    def recorded(number: int):
        drawn.append(number)
        return picture(number)

    def failing(number: int):
        raise OSError("the picture is gone")

    callbacks = [
        EvaluationPictures("val_metrics", pictures=recorded),
        EvaluationPictures("val_boxes", pictures=lambda number: recorded(number // 10)),
        EvaluationPictures(["val_map", "other", "unused"], pictures=failing),
    ]
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=DDPStrategy(timeout=timeout, process_group_backend="gloo"),
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
