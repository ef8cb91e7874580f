"""A module whose numbers can be checked by hand, and the pictures of its samples."""

from pathlib import Path

import lightning
import numpy as np
import torch
from lightning.pytorch import loggers
from torch.utils.data import DataLoader, TensorDataset

from reid_torchmetrics import DetectionMAP, ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.plot import FIGURES

SAMPLES = TensorDataset(
    torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.8, 0.3], [0.1, 0.9]]),
    torch.tensor([7, 3, 7, 3, 7]),  # identities
    torch.tensor([True, True, False, False, False]),  # queries
    torch.arange(5),
)
MAP = 2 / 3
"""the first query has hits at ranks 1 and 3, (1/1 + 2/3) / 2 = 5/6, and the second one at rank 2, 1/2"""
HARDEST = [1, 0]
COLORS = np.arange(5, dtype=np.uint8) * 50
"""gray of the picture of each sample"""


def picture(number: int) -> np.ndarray:
    """A picture of one color, 8 x 6 pixels."""
    return np.full((8, 6, 3), COLORS[number])


def loader(batch_size: int = 3, **options) -> DataLoader:
    return DataLoader(SAMPLES, batch_size, **options)


class PicturedModule(lightning.LightningModule):
    """Embeds by what is learned in no step, for the learning rate is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.val_metrics = ReIDMetrics(ranks=(1,), prefix="val/")
        self.val_map = ReIDMeanAP()
        self.other = torch.nn.ModuleDict({"here": ReIDMeanAP(), "there": torch.nn.Identity()})
        self.same = torch.nn.Identity()

    def training_step(self, batch):
        return 0 * self.scale

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        embeddings, identities, is_query, index = batch
        for metric in (self.val_metrics, self.val_map, self.other["here"]):
            metric.update(self.scale * embeddings, identities, is_query=is_query, index=index)
        if dataloader_idx == 0:
            self.log("logged_in_step", self.val_map, add_dataloader_idx=False)

    def on_validation_epoch_end(self):
        self.log_dict(self.val_metrics)
        self.other["here"].reset()

    def test_step(self, batch, batch_idx):
        self.validation_step(batch, batch_idx)

    on_test_epoch_end = on_validation_epoch_end

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def image(number: int) -> tuple[dict, dict]:
    """What was detected in an image, and what is there: of two objects `number` are found."""
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [10.0, 10.0, 14.0, 16.0]])
    labels = torch.tensor([1, 2])
    found = {"boxes": boxes[:number], "scores": torch.full((number,), 0.9), "labels": labels[:number]}
    return found, {"boxes": boxes, "labels": labels, "image_id": 10 * number}


class DetectingModule(PicturedModule):
    """Sees three images: in that with the id 0 no object is found, in 10 one, in 20 both."""

    def __init__(self) -> None:
        super().__init__()
        self.val_boxes = DetectionMAP(metric="map")

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        for number in range(3):
            found, true = image(number)
            self.val_boxes.update([found], [true])

    def on_validation_epoch_end(self):
        self.log("val/map", self.val_boxes)


def trainer(callback, logger, **options) -> lightning.Trainer:
    chosen = {"max_epochs": 2, "num_sanity_val_steps": 1, "enable_checkpointing": False, "log_every_n_steps": 1}
    chosen |= {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(logger=logger, callbacks=[callback], **(chosen | options))


def fit(callback, *, module=None, **options) -> lightning.Trainer:
    """Train for two epochs of two steps; pictures are in files."""
    run = trainer(callback, loggers.CSVLogger(".", name="", version=""), **options)
    run.fit(PicturedModule() if module is None else module, loader(), loader())
    return run


def files(folder=".") -> list[str]:
    return sorted(path.relative_to(Path(folder, "pictures")).as_posix() for path in Path(folder).rglob("*.png"))


def named(names, *steps) -> list[str]:
    return sorted(f"{name}_step_{step:06d}.png" for name in names for step in steps)


CURVES = sorted(FIGURES[RetrievalResults])


def tags(stage: str, *more: str) -> list[str]:
    return [f"{stage}/{name}" for name in (*CURVES, *more)]


def pixels() -> np.ndarray:
    return np.zeros((2, 2, 3), np.uint8)
