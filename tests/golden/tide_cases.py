"""Loads what tidecv gave for random problems, see `README.md` beside this file."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
KINDS = ("classification", "localization", "both", "duplicate", "background", "miss")
"""in tidecv's order"""
_COLUMNS = (
    *("ground_truth_boxes", "ground_truth_labels", "ground_truth_images", "is_crowd"),
    *("detection_boxes", "detection_labels", "detection_images", "detection_scores", "whole_images", "whole_labels"),
)
_SIZES = (0,) * 4 + (1,) * 4 + (2,) * 2


@dataclass(frozen=True)
class TideRecord:
    """The numbers of one run; average precision and gains in percent."""

    average_precision: float
    gains: dict[str, float]
    false_positives: float
    false_negatives: float
    counts: dict[str, int]

    @classmethod
    def of(cls, row: list[float]) -> "TideRecord":
        counts = map(int, row[9:])
        return cls(row[0], dict(zip(KINDS, row[1:7], strict=True)), *row[7:9], dict(zip(KINDS, counts, strict=True)))


@dataclass(frozen=True)
class TideProblem:
    """Boxes are x, y, width and height; images are numbered in the order in which tidecv had them."""

    name: str
    ground_truth_boxes: Array
    ground_truth_labels: Array
    ground_truth_images: Array
    is_crowd: Array
    detection_boxes: Array
    detection_labels: Array
    detection_images: Array
    detection_scores: Array
    whole_images: Array
    whole_labels: Array
    records: dict[str, TideRecord]
    range: Array
    """average precision at the IoU thresholds 0.5, 0.55, ..., 0.95"""


VARIANTS = ("tide", "unregistered", "any", "whole", "at_75", "max4")


@cache
def tide_problems() -> list[TideProblem]:
    with np.load(Path(__file__).parent / "tide.npz") as file:
        arrays = dict(file)
    ends = np.cumsum(arrays["sizes"], 0)[:-1]
    columns = {name: np.split(arrays[name], ends[:, place]) for name, place in zip(_COLUMNS, _SIZES, strict=True)}
    recorded = {
        name: [None if np.isnan(row[0]) else TideRecord.of(row.tolist()) for row in arrays[name]] for name in VARIANTS
    }
    return [
        TideProblem(
            name=str(name),
            **{column: rows[number] for column, rows in columns.items()},
            records={variant: rows[number] for variant, rows in recorded.items() if rows[number] is not None},
            range=arrays["range"][number],
        )
        for number, name in enumerate(arrays["names"])
    ]
