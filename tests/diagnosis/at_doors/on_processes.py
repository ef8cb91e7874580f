"""Metrics on several processes, each with a part of an example, which the test computes."""

from collections.abc import Callable
from typing import Any

from reid_torchmetrics import DetectionMAP, PairVerification, ReIDMetrics
from tests.diagnosis.at_doors import image_doors
from tests.diagnosis.at_doors.doors import Data, filled, options_of, part_of


def of_samples(data: Data, process: int, size: int) -> Any:
    part = part_of(data, process, size)
    return filled(ReIDMetrics(**options_of(part)), part)


def of_pairs(data: Data, process: int, size: int) -> Any:
    metric = PairVerification()
    metric.update(*(data[name][process::size] for name in ("first", "second", "same")))
    return metric


def of_batches(data: Data, process: int, size: int) -> Any:
    metric = ReIDMetrics(**data["options"])
    for batch in data["batches"]:
        if batch is None:
            metric.compute()
        else:
            is_query = {"is_query": batch["is_query"]} if "is_query" in batch else {}
            labels = {name: values for name, values in batch.items() if name != "is_query"}
            metric.update(**{name: values[process::size] for name, values in labels.items()}, **is_query)
    return metric


def of_images(data: Data, process: int, size: int) -> Any:
    metric = DetectionMAP(**image_doors.options_of(data), **data.get("options", {}))
    metric.update(data["preds"][process::size], data["target"][process::size])
    return metric


def of_image_batches(data: Data, process: int, size: int) -> Any:
    metric = DetectionMAP()
    for batch in data["batches"]:
        if batch is None:
            metric.compute()
        else:
            metric.update(*(images[process::size] for images in batch))
    return metric


def of_given_parts(data: Data, process: int, _: int) -> Any:
    """Each process has samples or images of its own."""
    metric: Any = DetectionMAP() if "images" in data else ReIDMetrics()
    if "images" in data:
        metric.update(*data["images"][process])
    else:
        metric.update(**data["samples"][process])
    return metric


ON_PROCESSES: dict[str, Callable[[Data, int, int], Any]] = {
    "samples": of_samples,
    "pairs": of_pairs,
    "batches": of_batches,
    "images": of_images,
    "image batches": of_image_batches,
    "parts": of_given_parts,
}
"""by the kind of the example"""
