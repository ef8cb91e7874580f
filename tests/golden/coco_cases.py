"""Loads the recorded outputs of evaluators of detection, see `README.md` beside this file."""

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
Array = NDArray[Any]


@dataclass(frozen=True)
class Problem:
    """Detections and ground truths of one data set, and what evaluators returned for them.

    Boxes are x, y, width and height. An array of `expected` is named `<evaluator>/<output>`, such as `coco/stats`.
    """

    detection_boxes: Array
    detection_scores: Array
    detection_labels: Array
    detection_images: Array
    ground_truth_boxes: Array
    ground_truth_labels: Array
    ground_truth_images: Array
    is_crowd: Array
    areas: Array
    num_images: int
    num_classes: int
    """the data set has the images 0 to `num_images` - 1 and the classes 0 to `num_classes` - 1"""
    expected: dict[str, Array]
    yolo: dict[str, Array]
    """what the `yolo` evaluators were given: `true_positive`, `scores`, `labels`, `ground_truth_labels`; or nothing"""

    @property
    def classes(self) -> list[int]:
        """Classes of the data set, the class axis of the arrays of `coco`."""
        return list(range(self.num_classes))


@dataclass(frozen=True)
class RealProblem:
    """100 images of COCO val2014 and the example detections of the COCO API; `stats` are pycocotools' 12 numbers."""

    detection_boxes: Array
    detection_scores: Array
    detection_labels: Array
    detection_images: Array
    ground_truth_boxes: Array
    ground_truth_labels: Array
    ground_truth_images: Array
    is_crowd: Array
    areas: Array
    images: Array
    classes: Array
    stats: Array


@cache
def problems() -> dict[str, Problem]:
    """The random problems by name, with the arrays that pycocotools and others returned."""
    index = _index()
    with np.load(FOLDER / "coco.npz") as file:
        arrays = dict(file)
    recorded = _recorded(index["recorded"], arrays.pop("recorded_values")[arrays.pop("recorded_places")])
    found = {}
    for name, sizes in index["problems"].items():
        inputs, yolo = _of_problem(arrays, name), {}
        for key in [key for key in inputs if key.startswith("yolo_")]:
            yolo[key.removeprefix("yolo_")] = inputs.pop(key)
        found[name] = Problem(**inputs, **sizes, expected=_of_problem(recorded, name), yolo=yolo)
    return found


def options(evaluator: str) -> dict[str, Any]:
    """What an evaluator was asked for: thresholds of `coco_custom` and `voc`."""
    return _index()["outputs"][evaluator]["options"]


def val2014() -> RealProblem:
    with np.load(FOLDER / "coco_val2014_100.npz") as file:
        return RealProblem(**file)


def _index() -> dict[str, Any]:
    return json.loads((FOLDER / "coco.json").read_text(encoding="utf-8"))


def _of_problem(arrays: dict[str, Array], problem: str) -> dict[str, Array]:
    start = f"{problem}/"
    return {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}


def _recorded(shapes: dict[str, list[Any]], values: NDArray[np.float64]) -> dict[str, Array]:
    found, start = {}, 0
    for key, (dtype, shape) in shapes.items():
        stop = start + math.prod(shape)
        found[key] = _with_recalls_second(values[start:stop], shape).astype(dtype)
        start = stop
    return found


def _with_recalls_second(values: NDArray[np.float64], shape: list[int]) -> NDArray[np.float64]:
    """Arrays [T, R, K, A, M] are packed with the recall thresholds last, where neighbours are equal."""
    if len(shape) != 5:
        return values.reshape(shape)
    return np.moveaxis(values.reshape(shape[0], *shape[2:], shape[1]), -1, 1)
