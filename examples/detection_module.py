"""Object detection with Lightning from end to end: train a small detector, log numbers and pictures, write a report.

    python examples/detection_module.py               # drawn shapes: nothing to download, about a minute
    python examples/detection_module.py --devices 2   # on two GPUs; with --accelerator cpu in two processes
    python examples/detection_module.py --wandb       # log to Weights & Biases; without an account into files
    tensorboard --logdir detection_example_output

All that concerns the metrics is in three methods of `DetectionModule`: `__init__` makes them, `validation_step` fills
them and `on_validation_epoch_end` logs what is more than one number and keeps the results, of which `show` makes a
report. The callback that `main` makes logs the pictures: curves, which shapes are detected as which, what each kind of
error costs, and the images with the most errors. A target carries the `image_id` of its scene, so that on several
devices, whose sampler may repeat scenes, the numbers are those of one.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import lightning
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from detection.drawn_shapes import CLASSES, SIDE, Scene, Target, collate, draw_scene
from loggers import WANDB_HELP, how_to_look, make_logger, settings
from reid_torchmetrics import DetectionMAP, write_report
from reid_torchmetrics.integrations import EvaluationPictures
from reid_torchmetrics.plot import draw_box_grid, plot_detection_precision_recall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightning.pytorch.utilities.types import OptimizerLRScheduler

    from reid_torchmetrics.functional.detection.evaluation import DetectionResults

STRIDE = 4  # pixels of a cell of the network's output
LOGGED = ("map_50", "map_75", "map_small", "map_medium", "mar_100", "f1")


class DetectionModule(lightning.LightningModule):
    """A detector of drawn shapes."""

    results: DetectionResults

    def __init__(self, *, learning_rate: float = 4e-3) -> None:
        """Make the network and the metrics."""
        super().__init__()
        self.network = Detector()
        self.learning_rate = learning_rate

        self.val_map = DetectionMAP(metric="map")  # one number
        self.val_metrics = DetectionMAP(class_names=CLASSES)  # a dict of numbers

    def validation_step(self, batch: tuple[Tensor, list[Target]], batch_idx: int) -> None:
        """Hand detections and targets to the metrics; one number is logged as the metric itself."""
        images, targets = batch
        detections = self.network.detect(images)
        self.val_map.update(detections, targets)
        self.val_metrics.update(detections, targets)
        self.log("val/map", self.val_map, prog_bar=True)  # which Lightning computes and resets

    def on_validation_epoch_end(self) -> None:
        """Log the numbers of a dict, and keep what a report tells of every class and image."""
        numbers = self.val_metrics.compute()  # in all processes, as all that follows
        self.results = self.val_metrics.results(across_classes=True)  # so that it knows which classes are confused
        self.val_metrics.reset()
        numbers["f1"] = self.results.best_f1().f1[0].nanmean().float()  # of classes, each at its best confidence
        self.log_dict({f"val/{name}": numbers[name] for name in LOGGED}, sync_dist=True)  # the same in all processes

    def training_step(self, batch: tuple[Tensor, list[Target]], batch_idx: int) -> Tensor:
        """Teach every cell how near the center of a shape it is, and those near one what box it has."""
        images, targets = batch
        logits, boxes = self.network(images)
        nearness, goals, weights = map(torch.stack, zip(*map(cells_of, targets), strict=True))
        error = functional.binary_cross_entropy_with_logits(logits, nearness, reduction="none")
        surprise = (logits.sigmoid() - nearness) ** 2
        loss = (surprise * error).sum() / (nearness == 1).sum()
        loss = loss + 2 * (weights * (1 - overlap(boxes, goals))).sum() / weights.sum()
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """AdamW, with a learning rate that rises and falls once."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.learning_rate, weight_decay=1e-3)
        num_steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.learning_rate, total_steps=num_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Detector(nn.Module):
    """For every cell of 4 x 4 pixels the classes whose center it may be, and the distances to the edges of a box."""

    def __init__(self, width: int = 32) -> None:
        """Make a network that sees far enough to see a whole shape."""
        super().__init__()
        self.stem = _convolutions(3, width // 2, width, stride=2)
        self.blocks = nn.ModuleList(_convolutions(width, width, width, dilation=far) for far in (1, 2, 4, 2))
        self.head = nn.Conv2d(width, len(CLASSES) + 4, 1)
        nn.init.constant_(self.head.bias[: len(CLASSES)], -3)  # shapes are rare

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Give logits [images, classes, rows, columns] and boxes [images, rows, columns, 4]."""
        features = functional.relu(self.stem(images.float() / 127.5 - 1))
        for block in self.blocks:
            features = functional.relu(features + block(features))
        logits, distances = self.head(features).split([len(CLASSES), 4], dim=1)
        distances = STRIDE * distances.clamp(max=4).exp().permute(0, 2, 3, 1)
        centers = cell_centers().to(distances)
        return logits, torch.cat([centers - distances[..., :2], centers + distances[..., 2:]], dim=-1)

    @torch.no_grad()
    def detect(self, images: Tensor, most: int = 30) -> list[dict[str, Tensor]]:
        """Give the cells that look more like a center than all cells around them, in the form of the metric."""
        logits, boxes = self(images)
        scores = logits.sigmoid()
        scores = scores * (functional.max_pool2d(scores, 3, stride=1, padding=1) == scores)
        best, places = scores.flatten(1).topk(most)
        labels, cells = places // scores[0, 0].numel(), places % scores[0, 0].numel()
        boxes = boxes.flatten(1, 2).gather(1, cells[..., None].expand(-1, -1, 4))
        found = zip(boxes, best, labels, strict=True)
        return [dict(zip(("boxes", "scores", "labels"), image, strict=True)) for image in found]


def _convolutions(*widths: int, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """Make two normalized convolutions, only the first with a dilation."""
    first, middle, last = widths
    return nn.Sequential(
        nn.Conv2d(first, middle, 3, stride, padding=dilation, dilation=dilation, bias=False),
        nn.BatchNorm2d(middle),
        nn.ReLU(),
        nn.Conv2d(middle, last, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(last),
    )


def cell_centers() -> Tensor:
    """Give x and y of the centers of the cells, [rows, columns, 2], in pixels."""
    steps = torch.arange(STRIDE / 2, SIDE, STRIDE)
    return torch.stack(torch.meshgrid(steps, steps, indexing="xy"), dim=-1)


def cells_of(target: Target) -> tuple[Tensor, Tensor, Tensor]:
    """Give how near cells are to the center of a shape, by class, the box of the nearest shape, and its weight."""
    boxes, labels = target["boxes"], target["labels"]
    centers, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    away = (cell_centers().to(boxes) - centers[:, None, None]) / (sizes / 6).clamp(min=2)[:, None, None]
    near = torch.exp(-away.square().sum(-1) / 2)
    near = near / near.amax((1, 2), keepdim=True)  # 1 at the nearest cell
    of_class = [(near * (labels == label)[:, None, None]).amax(0) for label in CLASSES]
    weight, shape = near.max(0)
    return torch.stack(of_class), boxes[shape], weight * (weight > 0.5)


def overlap(boxes: Tensor, others: Tensor) -> Tensor:
    """Give the intersection over union of each box and the one at its place."""
    edges = torch.minimum(boxes[..., 2:], others[..., 2:]) - torch.maximum(boxes[..., :2], others[..., :2])
    shared = edges.clamp(min=0).prod(-1)
    return shared / ((boxes[..., 2:] - boxes[..., :2]).prod(-1) + (others[..., 2:] - others[..., :2]).prod(-1) - shared)


def main() -> None:
    """Validate the untrained detector, train it, validate it once more; show both.

    On several devices Lightning starts this script once more for each of them, so that all do the same up to the end.
    """
    options = parse_options()
    quieten_lightning()
    lightning.seed_everything(options.seed, workers=True)
    scenes = [draw_scene(number, seed=options.seed) for number in range(options.train_images + options.test_images)]
    train, test = scenes[: options.train_images], scenes[options.train_images :]
    train_loader = DataLoader(train, 8, shuffle=True, collate_fn=collate, num_workers=options.workers)
    test_loader = DataLoader(test, 50, collate_fn=collate, num_workers=options.workers)
    model = DetectionModule()
    model.save_hyperparameters(settings(options))
    pictures = EvaluationPictures(
        "val_metrics",
        pictures=lambda image_id: scenes[image_id][0],
        every_n_epochs=max(1, options.epochs // 3),  # to draw takes longer than to evaluate
    )
    trainer = make_trainer(options, pictures)

    trainer.validate(model, test_loader, verbose=False)
    results = {"before training": dict(trainer.callback_metrics)}
    trainer.fit(model, train_loader, test_loader)
    results["after training"] = dict(trainer.callback_metrics)
    if trainer.is_global_zero:
        print_numbers(results)
        show(model, test, options)


def show(model: DetectionModule, scenes: Sequence[Scene], options: argparse.Namespace) -> None:
    """Save the pictures and the report, and say where they are."""
    output, results = options.output, model.results
    plot_detection_precision_recall(results, class_names=CLASSES)[0].savefig(output / "precision_recall.png", dpi=150)
    images, targets = zip(*scenes, strict=True)
    found = model.eval().network.detect(torch.stack(images).to(model.device))
    confidences = results.best_confidences()
    sheet = draw_box_grid(images[:12], found[:12], targets[:12], columns=4, class_names=CLASSES, min_score=confidences)
    Image.fromarray(sheet).save(output / "detections.png")
    numbers = [int(target["image_id"]) for target in targets]
    write_report(
        results,
        output / "report.html",
        pictures=dict(zip(numbers, images, strict=True)),
        detections=dict(zip(numbers, found, strict=True)),
        ground_truths=dict(zip(numbers, targets, strict=True)),
    )
    print(f"\n{results.class_table()}")
    print_files(options)


def quieten_lightning() -> None:
    """Leave the progress bar and true warnings."""
    for part in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(part).setLevel(logging.WARNING)
    # Scenes that lie in memory need no worker processes; for those that do not there is `--workers`.
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    # The metrics count a repeated scene once, by its `image_id`.
    warnings.filterwarnings("ignore", message=".*DistributedSampler")
    # Between some versions of Lightning and PyTorch, and nothing that this script could change.
    warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated")


def make_trainer(options: argparse.Namespace, pictures: EvaluationPictures) -> lightning.Trainer:
    """Make a trainer that writes into `options.output` only."""
    return lightning.Trainer(
        max_epochs=options.epochs,
        accelerator=options.accelerator,
        devices=options.devices,
        strategy="ddp" if options.devices > 1 else "auto",
        default_root_dir=options.output,
        logger=make_logger(options),
        callbacks=[pictures],
        log_every_n_steps=1,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_model_summary=False,
    )


def print_numbers(results: dict[str, dict[str, Tensor]]) -> None:
    """Print a line per validation, in per cent."""
    titles = {"map": "mAP", "map_50": "mAP50", "map_75": "mAP75", "map_small": "small", "map_medium": "medium"}
    titles |= {"mar_100": "recall"}
    print(f"\n{'per cent':<16}" + "".join(f"{title:>9}" for title in titles.values()))
    for name, values in results.items():
        print(f"{name:<16}" + "".join(f"{100 * values[f'val/{key}'].item():>9.1f}" for key in titles))


def print_files(options: argparse.Namespace) -> None:
    """Say where the report, the pictures and the logs are."""
    files = {"Report": "report.html", "Curves": "precision_recall.png", "Detections": "detections.png"}
    print()
    for name, file in files.items():
        print(f"{name + ':':<16}{options.output / file}")
    print(f"{'Logs:':<16}{how_to_look(options)}")


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-images", type=int, default=640, metavar="N", help="scenes drawn for training (640)")
    parser.add_argument("--test-images", type=int, default=200, metavar="N", help="scenes drawn for the test (200)")
    parser.add_argument("--epochs", type=int, default=8, metavar="N", help="default 8")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--output", type=Path, default=Path("detection_example_output"), metavar="DIR")
    parser.add_argument("--wandb", action="store_true", help=WANDB_HELP)
    parser.add_argument("--accelerator", default="auto", help="as for lightning.Trainer")
    parser.add_argument("--devices", type=int, default=1, metavar="N", help="train and validate on N at once (1)")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes that read scenes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
    if torch.distributed.is_initialized():  # there are several processes, whose threads are to end before they do
        torch.distributed.destroy_process_group()
