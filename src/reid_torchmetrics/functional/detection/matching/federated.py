"""LVIS' federated matching: of each image only some classes are annotated, and of some of these not all objects.

Each image has the classes of its ground truths, classes that are surely absent, and classes with more objects than
annotated. A detection of any other class is neither right nor wrong; one of a class with more objects is right or
ignored. All else is COCO's matching, without crowds. Source: `LVISEval` of lvis-api.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection import inputs

from .matches import Matches
from .matching import match_on_grid

_OUTSIDE = -1.0  # an area in no range
_ROWS = 1 << 15  # that are looked at together on a CPU


@torch.no_grad()
def match_federated(
    detections: inputs.Detections,
    ground_truths: inputs.GroundTruths,
    grid: inputs.CocoGrid,
    *,
    lists: Int[Tensor, "entries 3"] | None = None,
    keep_ground_truths: bool = False,
    max_bytes: int | None = None,
) -> Matches:
    """Match as LVIS does; objects and detections without area vanish.

    Args:
        detections: of all images; where the limit of the grid is of an image, the best of each image over all classes
            are matched. Otherwise detections of classes that an image does not list are kept, as ignored ones.
        ground_truths: of all images; `is_crowd` says which are ignored, each may be taken once.
        grid: thresholds, limits and area ranges.
        lists: number of an image, label, and 0 where the class is surely absent, 1 where it has more objects.
        keep_ground_truths: see `match_on_grid`.
        max_bytes: see `match_on_grid`.
    """
    device = detections.labels.device
    lists = torch.empty((0, 3), dtype=torch.int64, device=device) if lists is None else lists
    # Ground truths with an area; ignored ones are outside of all ranges.
    areas = (ground_truths.shapes.areas() if ground_truths.areas is None else ground_truths.areas).double()
    has_area = areas > 0
    if ground_truths.is_crowd is not None:
        areas = areas.masked_fill(ground_truths.is_crowd, _OUTSIDE)
    true = inputs.GroundTruths.unchecked(**vars(ground_truths) | {"is_crowd": None, "areas": areas})
    # Detections with an area whose class the image lists; under a limit of an image only those are matched.
    absent, partly = (lists[lists[:, 2] == kind, :2].T.contiguous() for kind in (0, 1))
    listed = torch.cat([torch.stack([true.images.long(), true.labels.long()])[:, has_area], absent], 1)
    counts = _are_listed(detections.images, detections.labels, listed)

    def exclude_without_area(some: slice) -> None:
        areas = detections.shapes[torch.arange(some.start, some.stop, device=device)].areas()
        counts[some] &= (areas > 0) & (areas < torch.inf)

    workers.share(exclude_without_area, _blocks(counts))
    is_candidate = None
    if grid.limited == "image":
        counts = is_candidate = _exclude_beyond(detections, max(grid.max_detection_thresholds), counts)
    options: dict[str, Any] = {"keep_ground_truths": keep_ground_truths, "max_bytes": max_bytes}
    matches = match_on_grid(detections, true, grid, candidates=(is_candidate, has_area), **options)
    # Without a match these are ignored, as are detections outside of all area ranges.
    partly = partly[:, torch.isin(partly[1], matches.classes)]
    partly[1] = inputs.place_of_labels(partly[1], matches.classes)
    is_ignored = _are_listed(matches.images, matches.class_index, partly)
    is_ignored |= ~counts.index_select(0, matches.rows)
    return replace(matches, area_bits=matches.area_bits.masked_fill(is_ignored, 0))


def _exclude_beyond(detections: inputs.Detections, most: int, counts: Bool[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
    """Drop the detections that are not among the best of their image, over all classes."""
    is_full = (detections.images.bincount() > most).index_select(0, detections.images)
    if not bool(is_full.any()):
        return counts
    rows = is_full.nonzero()[:, 0]
    order, image = inputs.order_by_class_and_score(detections.images[rows].int(), detections.scores[rows])
    ranks = segments.runs(0, image.long().bincount())[1]
    beyond = rows[order[ranks >= most]]
    return counts.index_fill(0, beyond, value=False)


def _are_listed(
    images: Int[Tensor, " rows"], labels: Int[Tensor, " rows"], listed: Int[Tensor, "2 pairs"]
) -> Bool[Tensor, " rows"]:
    """Whether each image and label are one of the listed pairs."""
    are_listed, classes = torch.zeros_like(images, dtype=torch.bool), listed[1].unique()
    keys = (listed[0] * len(classes)).add_(inputs.place_of_labels(listed[1], classes)).unique()

    def look(some: slice) -> None:
        place = torch.searchsorted(classes, labels[some].long()).clamp_(max=len(classes) - 1)
        key = images[some].long() * len(classes) + place
        nearest = torch.searchsorted(keys, key).clamp_(max=len(keys) - 1)
        is_known = classes.index_select(0, place) == labels[some]
        are_listed[some] = is_known.logical_and_(keys.index_select(0, nearest) == key)

    workers.share(look, _blocks(images) if len(keys) else [])
    return are_listed


def _blocks(rows: Tensor) -> list[slice]:
    """Ranges of rows that need little memory at a time; all of them on a GPU."""
    return segments.ranges(len(rows), _ROWS if rows.device.type == "cpu" else max(len(rows), 1))
