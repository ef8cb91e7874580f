"""Claim: at an evaluation's size the host waits for a device a hundred times, not once for every stored batch.

    python benchmarks/device_waits.py

Waits and kernels are what a GPU's time goes into where its arithmetic is quick. They are counted on the simulated
device of `tests/device`, which needs no GPU: of `update`, a batch, and of `compute` over Market-1501's labels in
batches of 64 and over 2,000 images of COCO's kind in batches of 32. Counts are exact; no time is measured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # of the repository, for the device

from harness.claims import claim
from harness.detection_problems import VAL2017, Batch, detection_problem
from harness.problems import market1501
from reid_torchmetrics import DetectionMAP, ReIDMetrics
from tests.device import simulated_device
from tests.device.waiting import counted

BATCH = 64
IMAGES_OF_BATCH = 32
LIMITS = {
    "ReIDMetrics.update": (0, 3),
    "ReIDMetrics.compute": (100, 1_000),
    "DetectionMAP.update": (1, 25),
    "DetectionMAP.compute": (200, 1_800),
}
"""waits and kernels, of an update those of a batch"""


def counts(name: str, work: Callable[[], object], times: int = 1) -> bool:
    """Print what work does on the device, the mean of that many times; return whether its claims hold."""
    found = counted(work)
    waits, kernels = (sum(each.values()) / times for each in found)
    print(name)
    most_waits, most_kernels = LIMITS[name]
    return all([claim("  waits", waits, most_waits), claim("  kernels", kernels, most_kernels)])


def ranking() -> bool:
    """Market-1501 in batches, with an embedding of 64 numbers: its length changes nothing that is counted."""
    query, gallery, *labels = market1501(64, 0.5)
    sides = ((query, labels[0], labels[2], True), (gallery, labels[1], labels[3], False))
    given = [
        ([tensor.to("sim") for tensor in batch], is_query)
        for *tensors, is_query in sides
        for batch in zip(*(tensor.split(BATCH) for tensor in tensors), strict=True)
    ]
    metric = ReIDMetrics().to("sim")

    def update() -> None:
        for batch, is_query in given:
            metric.update(*batch, is_query=is_query)

    return all([counts("ReIDMetrics.update", update, len(given)), counts("ReIDMetrics.compute", metric.compute)])


def detection() -> bool:
    """2,000 images as full as COCO's."""
    on_device = (moved(side) for side in detection_problem(VAL2017.times(0.4)))
    given = list(zip(*on_device, strict=True))
    metric = DetectionMAP().to("sim")
    metric.warn_on_many_detections = False

    def update() -> None:
        for preds, target in given:
            metric.update(preds, target)

    return all([counts("DetectionMAP.update", update, len(given)), counts("DetectionMAP.compute", metric.compute)])


def moved(images: Batch) -> list[Batch]:
    """Batches of images on the device."""
    there = [{name: tensor.to("sim") for name, tensor in image.items()} for image in images]
    return [there[first : first + IMAGES_OF_BATCH] for first in range(0, len(there), IMAGES_OF_BATCH)]


def main() -> None:
    """Count everything; exit with 1 if a claim fails."""
    if simulated_device.MISSING is not None:
        sys.exit(f"this PyTorch has {simulated_device.MISSING}")
    torch.set_num_threads(1)
    simulated_device.install(shape=None)
    sys.exit(not all([ranking(), detection()]))


if __name__ == "__main__":
    main()
