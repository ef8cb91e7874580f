"""Evaluators of detections, each from lists of tensors to COCO's 12 numbers by the fastest way that it offers.

Those that take arrays get arrays: the tensors are joined once and seen by numpy without a copy. Boxes become left, top,
width and height in float32, as TorchMetrics converts them, so that all see the same bits.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness.detection_problems import Batch, Size, detection_problem
from harness.torchvision_stand_in import as_sides, stand_in_for_torchvision
from reid_torchmetrics import DetectionMAP

from .load import set_threads

BATCH = 32
"""images given to `update` at a time by a validation loop"""

Limits = tuple[int, int, int]
"""of the detections of an image and class"""
COCO_LIMITS: Limits = (1, 10, 100)

LITTLE = Size(num_images=50, num_classes=10, num_ground_truths=400, num_detections=50)


@dataclass(frozen=True)
class Arrays:
    """Detections or ground truths of all images, as the evaluators of COCO files know them; images count from 1."""

    boxes: np.ndarray
    """[n, 4] float64: left, top, width, height"""
    labels: np.ndarray
    images: np.ndarray
    others: dict[str, np.ndarray]
    """what else there is, in float64 if it is of floats"""

    @classmethod
    def of(cls, batch: Batch) -> Arrays:
        """Columns of all images."""
        joined = {name: torch.cat([image[name] for image in batch]) for name in batch[0]}
        joined["boxes"] = as_sides(joined["boxes"])
        columns = {
            name: (column.double() if column.is_floating_point() else column).numpy() for name, column in joined.items()
        }
        counts = [len(image["labels"]) for image in batch]
        return cls(
            columns.pop("boxes"), columns.pop("labels"), np.repeat(np.arange(1, len(batch) + 1), counts), columns
        )

    def results(self) -> np.ndarray:
        """[n, 7], as `loadRes` takes it: image, box, score, class."""
        return np.column_stack((self.images, self.boxes, self.others["scores"], self.labels))

    def annotations(self) -> list[dict[str, object]]:
        """A dictionary for each, as in COCO's files, with numbers of Python."""
        own = zip(self.images.tolist(), self.labels.tolist(), self.boxes.tolist(), strict=True)
        rows = [
            {"id": i, "image_id": image, "category_id": label, "bbox": box}
            for i, (image, label, box) in enumerate(own, start=1)
        ]
        for name, column in self.others.items():
            for row, value in zip(rows, column.tolist(), strict=True):
                row[name] = value
        return rows


def tables(num_images: int, *sides: Arrays) -> dict[str, list[dict[str, object]]]:
    """The images and the classes of a dataset."""
    last = max(side.labels.max() for side in sides)
    images = [{"id": i, "width": 0, "height": 0} for i in range(1, num_images + 1)]
    return {"images": images, "categories": [{"id": i, "name": str(i)} for i in range(1, last + 1)]}


def dataset(num_images: int, found: Arrays, truth: Arrays) -> dict[str, list[dict[str, object]]]:
    """The ground truths as COCO's file would have them."""
    return tables(num_images, found, truth) | {"annotations": truth.annotations()}


def ours(detections: Batch, target: Batch, limits: Limits = COCO_LIMITS) -> list[float]:
    """`DetectionMAP`, given all images at once, as the others are."""
    metric = DetectionMAP(max_detection_thresholds=limits)
    return numbers(fed(metric, detections, target, len(target)).compute(), limits)


def ours_by_batches(detections: Batch, target: Batch, limits: Limits = COCO_LIMITS) -> list[float]:
    """`DetectionMAP`, as a validation loop feeds it."""
    metric = DetectionMAP(max_detection_thresholds=limits)
    return numbers(fed(metric, detections, target, BATCH).compute(), limits)


def hotcoco(detections: Batch, target: Batch, limits: Limits = COCO_LIMITS) -> list[float]:
    """Columns for the ground truths, an array for the detections."""
    from hotcoco import COCO, COCOeval  # noqa: PLC0415

    found, columns = Arrays.of(detections), Arrays.of(target)
    own = (*tables(len(target), found, columns).values(), columns.images, columns.labels, columns.boxes)
    truth = COCO.from_arrays(*own, **columns.others)
    return evaluated(COCOeval(truth, truth.load_res(found.results()), "bbox"), limits)


def ultrafast_pycocotools(detections: Batch, target: Batch, limits: Limits = COCO_LIMITS) -> list[float]:
    """Dictionaries for the ground truths, for which it knows no arrays, and an array for the detections."""
    from ultrafast_pycocotools import COCO, COCOeval  # noqa: PLC0415

    found = Arrays.of(detections)
    truth = COCO(dataset(len(target), found, Arrays.of(target)), verbose=False)
    return evaluated(COCOeval(truth, truth.loadRes(found.results()), "bbox"), limits)


def vernier(detections: Batch, target: Batch, limits: Limits = COCO_LIMITS) -> list[float]:
    """Columns for the ground truths, an array for the detections."""
    from vernier.instance import Bbox, CocoDataset, Evaluator  # noqa: PLC0415

    found, truth = Arrays.of(detections), Arrays.of(target)
    ids = np.arange(1, len(target) + 1)
    columns = {"image_id": truth.images, "category_id": truth.labels, "bbox": truth.boxes} | truth.others
    truths = CocoDataset.from_arrays(
        {"id": ids, "width": np.zeros_like(ids), "height": np.zeros_like(ids)},
        {"id": np.arange(1, len(truth.labels) + 1)} | columns,
        tables(len(target), found, truth)["categories"],
    )
    evaluation = Evaluator(Bbox(), parity_mode="strict", max_dets=limits)
    return [*evaluation.evaluate(truths, found.results(), num_threads=torch.get_num_threads()).stats]


def torchmetrics_default(detections: Batch, target: Batch, limits: Limits = COCO_LIMITS) -> list[float]:
    """`MeanAveragePrecision` with pycocotools behind it, but for thresholds that are not rounded to float32."""
    metric = mean_average_precision("pycocotools", limits)
    return numbers(fed(metric, detections, target, len(target)).compute(), limits)


def torchmetrics_faster(detections: Batch, target: Batch, limits: Limits = COCO_LIMITS) -> list[float]:
    """`MeanAveragePrecision` with faster-coco-eval behind it, likewise."""
    metric = mean_average_precision("faster_coco_eval", limits)
    return numbers(fed(metric, detections, target, len(target)).compute(), limits)


def evaluated(evaluation, limits: Limits) -> list[float]:
    """What an evaluation by pycocotools' interface finds; the first is -1 unless 100 is among the limits."""
    evaluation.params.maxDets = [*limits]
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return np.asarray(evaluation.stats, dtype=np.float64)[:12].tolist()


def fed(metric, detections: Batch, target: Batch, size: int):
    """A metric that has seen all images, by batches of a size."""
    for start in range(0, len(target), size):
        metric.update(detections[start : start + size], target[start : start + size])
    return metric


def numbers(values: dict[str, Tensor], limits: Limits) -> list[float]:
    """The 12 of the values of a metric."""
    sizes = ("small", "medium", "large")
    names = ("map", "map_50", "map_75", *(f"map_{size}" for size in sizes))
    return [float(values[name]) for name in (*names, *(f"mar_{each}" for each in (*limits, *sizes)))]


def mean_average_precision(backend: str, limits: Limits):
    """TorchMetrics' metric with COCO's thresholds in float64."""
    stand_in_for_torchvision()
    from torchmetrics.detection.mean_ap import MeanAveragePrecision  # noqa: PLC0415

    thresholds = {"iou_thresholds": np.linspace(0.5, 0.95, 10), "rec_thresholds": np.linspace(0, 1, 101)}
    lists = {name: values.tolist() for name, values in thresholds.items()}
    return MeanAveragePrecision(backend=backend, max_detection_thresholds=[*limits], **lists)


Contestant = Callable[[Batch, Batch, Limits], list[float]]

CONTESTANTS: dict[str, tuple[Contestant, tuple[str, ...]]] = {
    "ours": (ours, ()),
    f"ours, batches of {BATCH}": (ours_by_batches, ()),
    "hotcoco": (hotcoco, ("hotcoco",)),
    "ultrafast-pycocotools": (ultrafast_pycocotools, ("ultrafast-pycocotools",)),
    "vernier": (vernier, ("vernier", "pyarrow")),
    "TorchMetrics with faster-coco-eval": (torchmetrics_faster, ("faster-coco-eval",)),
    "TorchMetrics with pycocotools": (torchmetrics_default, ("pycocotools",)),
}
"""the functions, and the packages that they need"""

OURS = tuple(name for name, (_, packages) in CONTESTANTS.items() if not packages)

COMPILED = ("hotcoco", "ultrafast-pycocotools", "vernier")
"""in Rust; the fastest besides ours"""


def installed(names: list[str]) -> list[str]:
    """Those of the contestants whose packages are there, with a message about the others."""
    found = []
    for name in names:
        missing = [package for package in CONTESTANTS[name][1] if not is_installed(package)]
        if missing:
            print(f"{name} is left out: {', '.join(missing)} is not installed (pip install --group bench)")
        else:
            found.append(name)
    return found


def is_installed(package: str) -> bool:
    """Whether there is a distribution of this name."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(package))
    return False


def evaluate(name: str, detections: Batch, target: Batch, limits: Limits = COCO_LIMITS) -> list[float]:
    """The 12 numbers, by one of the contestants, in silence."""
    with quiet():
        return CONTESTANTS[name][0](detections, target, limits)


def prepare(names: list[str], threads: int) -> None:
    """Give every contestant of this process so many threads and a little problem, so that all libraries are loaded."""
    set_threads(threads)
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    for name in names:
        evaluate(name, *detection_problem(LITTLE))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what is printed, and without warnings of images of more than 100 detections."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
