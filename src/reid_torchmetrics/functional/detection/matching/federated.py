"""LVIS' federated matching: of each image only some classes are annotated, and of some of these not all objects.

Each image has the classes of its ground truths, classes that are surely absent, and classes with more objects than
annotated. A detection of any other class is neither right nor wrong; one of a class with more objects is right or
ignored. All else is COCO's matching, without crowds. Source: `LVISEval` of lvis-api.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import (
    CocoGrid,
    Detections,
    GroundTruths,
    distinct_labels,
    order_by_class_and_score,
    place_of_labels,
)

from .matches import Matches
from .matching import match_on_grid
from .pairs import DEFAULT_MAX_BYTES

_OUTSIDE = -1.0  # an area in no range


@torch.no_grad()
def match_federated(
    detections: Detections,
    ground_truths: GroundTruths,
    grid: CocoGrid,
    *,
    lists: Int[Tensor, "entries 3"] | None = None,
    keep_ground_truths: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Matches:
    """Match as LVIS does; objects and detections without area vanish.

    Args:
        detections: of all images; where the limit of the grid is of an image, the best of each image over all classes
            are matched. Otherwise detections of classes that an image does not list are kept, as ignored ones.
        ground_truths: of all images; `is_crowd` says which are ignored, each may be taken once.
        grid: thresholds, limits and area ranges.
        lists: number of an image, label, and 0 where the class is surely absent, 1 where it has more objects.
        keep_ground_truths: see `match_images`.
        max_bytes: see `match_images`.
    """
    device = detections.labels.device
    lists = torch.empty((0, 3), dtype=torch.int64, device=device) if lists is None else lists
    # Ground truths with an area; ignored ones are outside of all ranges.
    areas = (ground_truths.shapes.areas() if ground_truths.areas is None else ground_truths.areas).double()
    has_area = areas > 0
    if ground_truths.is_crowd is not None:
        areas = areas.masked_fill(ground_truths.is_crowd, _OUTSIDE)
    true = GroundTruths.unchecked(**vars(ground_truths) | {"is_crowd": None, "areas": areas})
    # Detections with an area whose class the image lists; under a limit of an image only those are matched.
    absent, partly = (lists[lists[:, 2] == kind, :2].T for kind in (0, 1))
    columns = zip((true.images, true.labels), absent, strict=True)
    listed = _Pairs.of(*(torch.cat([column[has_area], others]) for column, others in columns))

    areas = detections.shapes.areas()
    counts = listed.hold(detections.images, detections.labels) & (areas > 0) & (areas < torch.inf)
    is_candidate = None
    if grid.limited == "image":
        counts = is_candidate = _exclude_beyond(detections, max(grid.max_detections), counts)
    options: dict[str, Any] = {"keep_ground_truths": keep_ground_truths, "max_bytes": max_bytes}
    matches = match_on_grid(detections, true, grid, candidates=(is_candidate, has_area), **options)
    # Without a match these are ignored, as are detections outside of all area ranges.
    is_ignored = _Pairs.of(*partly).hold(matches.images, matches.classes[matches.class_index])
    is_ignored |= ~counts.index_select(0, matches.rows)
    return replace(matches, area_bits=matches.area_bits.masked_fill(is_ignored, 0))


def _exclude_beyond(detections: Detections, most: int, counts: Bool[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
    """Drop the detections that are not among the best of their image, over all classes."""
    is_full = (detections.images.bincount() > most).index_select(0, detections.images)
    if not bool(is_full.any()):
        return counts
    rows = is_full.nonzero()[:, 0]
    order, image = order_by_class_and_score(detections.images[rows].int(), detections.scores[rows])
    ranks = segments.runs(0, image.long().bincount())[1]
    beyond = rows[order[ranks >= most]]
    return counts.index_fill(0, beyond, value=False)


class _Pairs(NamedTuple):
    """Pairs of an image and a class."""

    classes: Int[Tensor, " classes"]
    keys: Int[Tensor, " pairs"]
    """image * classes + place of the class, ascending"""

    @classmethod
    def of(cls, images: Int[Tensor, " listed"], labels: Int[Tensor, " listed"]) -> _Pairs:
        classes = distinct_labels(labels)
        if not len(classes):
            return cls(classes, classes)
        return cls(classes, (images * len(classes)).add_(place_of_labels(labels.contiguous(), classes)).unique())

    def hold(self, images: Int[Tensor, " rows"], labels: Int[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Whether each image and class are one of the pairs."""
        labels = labels.long()
        if not len(self.keys):
            return torch.zeros_like(labels, dtype=torch.bool)
        place = torch.searchsorted(self.classes, labels).clamp_(max=len(self.classes) - 1)
        key = (images.long() * len(self.classes)).add_(place)
        nearest = torch.searchsorted(self.keys, key).clamp_(max=len(self.keys) - 1)
        return (self.keys.index_select(0, nearest) == key) & (self.classes.index_select(0, place) == labels)
