"""Whether the values of results that come from a file agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import GenericAlias, MappingProxyType
from typing import Any

import torch
from jaxtyping import Bool, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.result_files import check_same

_OF_IMAGES = Int[Tensor, " boxed"], Real[Tensor, " boxed"], Real[Tensor, " boxed"]  # the counts of no images are floats
_OF_DETECTIONS = Real[Tensor, "detected numbers"], Real[Tensor, " detected"], Int[Tensor, " detected"]
_OF_GROUND_TRUTHS = Real[Tensor, "true numbers"], Int[Tensor, " true"], Bool[Tensor, " true"], Bool[Tensor, " true"]
_BOXES = GenericAlias(tuple, (*_OF_IMAGES, *_OF_DETECTIONS, *_OF_GROUND_TRUTHS))
SAVED_AS: Mapping[str, Any] = MappingProxyType({"evaluator": tuple[str, Mapping[str, Any]], "boxes": _BOXES | None})
"""annotations of fields that are saved in another form"""

_MOST = 1 << 63


def sizes_of_axes(grid: Mapping[str, Any], sizes: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """The least and the largest size of each axis: as in the grid, and no more matched detections than detections."""
    axes = {"areas": "area_ranges", "thresholds": "iou_thresholds", "limits": "max_detection_thresholds"}
    yield from ((axis, len(grid[name]), len(grid[name])) for axis, name in axes.items())
    yield "numbers", 4, 8  # of a box, or of the corners of a rotated one
    yield "matched", 0, sizes["detections"]


def check_results(results: Any, *, is_of_this_version: bool) -> None:
    """Raise unless the numbers of images, classes and detections exist, and shares lie in [0, 1]."""
    averages, matches, num_images = results.averages, results.matches, len(results.images)
    shares = {f"averages.average_precision.{limit}": each for limit, each in averages.average_precision.items()}
    shares |= {f"averages.at_confidence.{name}": each for name, each in averages.at_confidence.items()}
    for place, values in {**shares, "averages.recall": averages.recall}.items():
        check_shares(place, values[~values.isnan()])
    _check_matches(matches)
    _check_equal("averages.classes", averages.classes, matches.classes)
    if not results.is_micro:
        _check_equal("labels", results.labels, matches.classes[matches.class_index.long()])
    image, _, bits = results.positives.unbind(1)
    for area, counts in enumerate(matches.num_positives):
        if int(counts.sum()) != int((bits >> area & 1).sum()):
            raise ValueError(f"`positives` must be those of the matches; got {len(bits)} for {int(counts.sum())}.")
    _checks.in_range("positives", bits, 1, 1 << len(averages.grid.area_ranges))
    limits = {"positives": (image, num_images), "matches.images": (matches.images, num_images)}
    limits["matches.limits"] = matches.limits, len(averages.grid.max_detection_thresholds)
    if (objects := results.objects) is not None:
        _checks.no_nan("objects.scores", objects.scores)
        check_shares("objects.iou", objects.iou)
        ends = {"images": num_images, "true_images": num_images}
        ends |= {"detection": len(objects.scores), "ground_truth": len(objects.true_labels)}
        limits |= {f"objects.{name}": (getattr(objects, name), end) for name, end in ends.items()}
    for place, (values, end) in limits.items():
        _checks.in_range(place, values, 0, end)
    if results.image_names is not None:
        _checks.length("images", num_images, len(results.image_names))
    if results.boxes is not None:
        _check_equal("boxes", torch.tensor(sorted(results.boxes), device="cpu"), results.images.sort().values)
    if is_of_this_version:
        rules = {"rule": averages.rule, "confidence": averages.confidence}
        check_same(averages, results.evaluator.average(matches, averages.grid, **rules))


def _check_matches(matches: Matches) -> None:
    is_same_class = matches.class_index[1:] == matches.class_index[:-1]
    for name, is_wrong in {
        "classes": matches.classes[1:] <= matches.classes[:-1],
        "columns": matches.columns[1:] <= matches.columns[:-1],
        "class_index": matches.class_index[1:] < matches.class_index[:-1],
        "scores": (matches.scores[1:] > matches.scores[:-1]) & is_same_class,
    }.items():
        if bool(is_wrong.any()):
            place = int(is_wrong.nonzero()[0])
            raise ValueError(f"`matches.{name}` must be in its order; got place {place} and the next.")
    _checks.no_nan("matches.scores", matches.scores)
    ends = {"class_index": len(matches.classes), "rows": _MOST, "columns": len(matches.scores)}
    for name, end in (ends | {"num_positives": _MOST, "area_bits": 1 << len(matches.num_positives)}).items():
        _checks.in_range(f"matches.{name}", getattr(matches, name).flatten(), 0, end)
    if bool((matches.true_positive & ~matches.matched).any()):
        raise ValueError("`matches.true_positive` must be matched; got detections that are not.")
    if matches.ground_truths is not None:
        _checks.in_range("matches.ground_truths", matches.ground_truths.flatten(), -1, _MOST)
    if matches.overlaps is not None:
        check_shares("matches.overlaps", matches.overlaps)


def check_shares(argument: str, values: Tensor) -> None:
    """Raise unless all values are shares of 1, but for rounding."""
    if not bool(((values >= 0) & (values <= 1 + 1e-9)).all()):
        raise ValueError(f"`{argument}` must lie in [0, 1]; got {values.min()} to {values.max()}.")


def _check_equal(argument: str, values: Tensor, expected: Tensor) -> None:
    if not torch.equal(values.long(), expected.long()):
        raise ValueError(f"`{argument}` must be that of the other arrays; got {values[:5].tolist()}.")
