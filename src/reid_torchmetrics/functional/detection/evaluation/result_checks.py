"""Whether the values of results that come from a file agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Bool, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.errors import ObjectPairs
from reid_torchmetrics.functional.detection.evaluators import ClassAverages
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.result_files import check_same

SAVED_AS: Mapping[str, Any] = MappingProxyType(
    {
        "evaluator": tuple[str, Mapping[str, Any]],
        "boxes": tuple[
            Int[Tensor, " boxed"],
            Real[Tensor, " boxed"],
            Real[Tensor, " boxed"],
            Real[Tensor, "detected 4"],
            Real[Tensor, " detected"],
            Int[Tensor, " detected"],
            Real[Tensor, "true 4"],
            Int[Tensor, " true"],
            Bool[Tensor, " true"],
            Bool[Tensor, " true"],
        ]
        | None,
    }
)
"""annotations of fields that are saved in another form; of no images the counts of boxes have any dtype"""

_MOST = 1 << 63


def sizes_of_axes(grid: Mapping[str, Any], sizes: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """The least and the largest size of each axis: as in the grid, and no more matched detections than detections."""
    axes = {"areas": "area_ranges", "thresholds": "iou_thresholds", "limits": "max_detections"}
    yield from ((axis, len(grid[name]), len(grid[name])) for axis, name in axes.items())
    yield "matched", 0, sizes["detections"]


def check_columns(columns: Sequence[Tensor]) -> None:
    """Raise if scores of boxes, the only column of floats, hold NaN; invalid boxes may."""
    for place, column in enumerate(columns):
        if column.ndim == 1:
            _checks.no_nan(f"boxes.{place}", column)


def check_results(results: Any, *, is_of_this_version: bool) -> None:
    """Raise unless the numbers of images, classes and detections exist, and shares lie in [0, 1]."""
    averages, matches, num_images = results.averages, results.matches, len(results.images)
    _check_averages(averages)
    _check_matches(matches, num_images, len(averages.grid.max_detections))
    _check_equal("averages.classes", averages.classes, matches.classes)
    if not results.is_micro:
        _check_equal("labels", results.labels, matches.classes[matches.class_index.long()])
    image, _, bits = results.positives.unbind(1)
    for area, counts in enumerate(matches.num_positives):
        if int(counts.sum()) != int((bits >> area & 1).sum()):
            raise ValueError(f"`positives` must be those of the matches; got {len(bits)} for {int(counts.sum())}.")
    _checks.in_range("positives", image, 0, num_images)
    _checks.in_range("positives", bits, 1, 1 << len(averages.grid.area_ranges))
    if results.objects is not None:
        _check_objects(results.objects, num_images)
    if results.image_names is not None:
        _checks.length("images", num_images, len(results.image_names))
    if results.boxes is not None:
        _check_equal("boxes", torch.tensor(sorted(results.boxes), device="cpu"), results.images.sort().values)
    if is_of_this_version:
        rules = {"rule": averages.rule, "confidence": averages.confidence}
        check_same(averages, results.evaluator.average(matches, averages.grid, **rules))


def _check_averages(averages: ClassAverages) -> None:
    shares = {f"averages.average_precision.{limit}": each for limit, each in averages.average_precision.items()}
    shares |= {f"averages.at_confidence.{name}": each for name, each in averages.at_confidence.items()}
    for place, values in {**shares, "averages.recall": averages.recall}.items():
        check_shares(place, values[~values.isnan()])


def _check_matches(matches: Matches, num_images: int, num_limits: int) -> None:
    num_classes, num_detections = len(matches.classes), len(matches.scores)
    _check_order("matches.classes", matches.classes[1:] <= matches.classes[:-1])
    _check_order("matches.columns", matches.columns[1:] <= matches.columns[:-1])
    _checks.no_nan("matches.scores", matches.scores)
    for name, high in {
        "class_index": num_classes,
        "images": num_images,
        "rows": _MOST,
        "limits": num_limits,
        "columns": num_detections,
    }.items():
        _checks.in_range(f"matches.{name}", getattr(matches, name), 0, high)
    _checks.in_range("matches.num_positives", matches.num_positives.flatten(), 0, _MOST)
    _checks.in_range("matches.area_bits", matches.area_bits, 0, 1 << len(matches.num_positives))
    is_same_class = matches.class_index[1:] == matches.class_index[:-1]
    _check_order("matches.class_index", matches.class_index[1:] < matches.class_index[:-1])
    _check_order("matches.scores", (matches.scores[1:] > matches.scores[:-1]) & is_same_class)
    if bool((matches.true_positive & ~matches.matched).any()):
        raise ValueError("`matches.true_positive` must be matched; got detections that are not.")
    if matches.ground_truths is not None:
        _checks.in_range("matches.ground_truths", matches.ground_truths.flatten(), -1, _MOST)
    if matches.overlaps is not None:
        check_shares("matches.overlaps", matches.overlaps)


def _check_objects(objects: ObjectPairs, num_images: int) -> None:
    _checks.no_nan("objects.scores", objects.scores)
    _checks.in_range("objects.images", objects.images, 0, num_images)
    _checks.in_range("objects.true_images", objects.true_images, 0, num_images)
    _checks.in_range("objects.detection", objects.detection, 0, len(objects.scores))
    _checks.in_range("objects.ground_truth", objects.ground_truth, 0, len(objects.true_labels))
    check_shares("objects.iou", objects.iou)


def check_shares(argument: str, values: Tensor) -> None:
    """Raise unless all values are shares of 1, but for rounding."""
    if not bool(((values >= 0) & (values <= 1 + 1e-9)).all()):
        raise ValueError(f"`{argument}` must lie in [0, 1]; got {values.min()} to {values.max()}.")


def _check_order(argument: str, is_wrong: Tensor) -> None:
    if bool(is_wrong.any()):
        raise ValueError(f"`{argument}` must be in its order; got place {int(is_wrong.nonzero()[0])} and the next.")


def _check_equal(argument: str, values: Tensor, expected: Tensor) -> None:
    if not torch.equal(values.long(), expected.long()):
        raise ValueError(f"`{argument}` must be that of the other arrays; got {values[:5].tolist()}.")
