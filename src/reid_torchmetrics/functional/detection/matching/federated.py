"""LVIS' federated matching: of each image only some classes are annotated, and of some of these not all objects.

Each image has the classes of its ground truths, classes that are surely absent, and classes with more objects than
annotated. A detection of any other class is neither right nor wrong; one of a class with more objects is right or
ignored. All else is COCO's matching, without crowds. Source: `LVISEval` of lvis-api.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers
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
_BLOCK = 1 << 17  # detections whose keys stay in the cache of a CPU


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
    true_rows = (areas > 0).nonzero()[:, 0]
    if ground_truths.is_crowd is not None:
        areas = areas.masked_fill(ground_truths.is_crowd, _OUTSIDE)
    columns = vars(ground_truths) | {"is_crowd": None, "areas": areas}
    true = GroundTruths.unchecked(**columns).at(true_rows)
    # Detections of the limit, then those of an area whose class the image lists.
    rows = torch.arange(len(detections.labels), device=device)
    if grid.limited == "image":
        rows = _best_of_images(detections, max(grid.max_detections))
    listed = torch.cat([torch.stack([true.images.long(), true.labels.long()], 1), lists[lists[:, 2] == 0, :2]])
    held = detections.at(rows) if len(rows) < len(detections.labels) else detections
    areas = held.shapes.areas()
    counts = _are_among(held, listed) & (areas > 0) & (areas < torch.inf)
    if grid.limited == "image":
        rows, held = rows[counts], held.at(counts.nonzero()[:, 0])
    options = {"keep_ground_truths": keep_ground_truths, "max_bytes": max_bytes}
    matches = match_on_grid(held, true, grid, **options)
    # Without a match these are ignored, as are detections outside of all area ranges.
    is_ignored = _are_among(held, lists[lists[:, 2] == 1, :2])
    if grid.limited != "image":
        is_ignored |= ~counts
    bits = matches.area_bits.masked_fill(is_ignored.index_select(0, matches.rows), 0)
    return replace(matches, area_bits=bits).with_rows(rows, true_rows)


def _best_of_images(detections: Detections, most: int) -> Int[Tensor, " rows"]:
    """Rows of the detections with the highest scores of each image, over all classes."""
    images = detections.images.long()
    is_full = (images.bincount() > most).index_select(0, images)
    if not bool(is_full.any()):
        return torch.arange(len(images), device=images.device)
    rows = is_full.nonzero()[:, 0]
    order, image = order_by_class_and_score(images[rows].int(), detections.scores[rows])
    kept = ~is_full
    kept[rows[order[_ranks(image.long()) < most]]] = True
    return kept.nonzero()[:, 0]


def _ranks(groups: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """The place of each row in its group; groups ascend."""
    return segments.runs(0, groups.bincount())[1]


def _are_among(detections: Detections, listed: Int[Tensor, "entries 2"]) -> Bool[Tensor, " detections"]:
    """Whether image and class of each detection are one of the pairs."""
    classes = distinct_labels(listed[:, 1])
    if not len(classes):
        return torch.zeros_like(detections.labels, dtype=torch.bool)
    keys = (listed[:, 0] * len(classes)).add_(place_of_labels(listed[:, 1].contiguous(), classes)).unique()

    def look(columns: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = columns[0].long(), columns[1].long()
        place = torch.searchsorted(classes, labels).clamp_(max=len(classes) - 1)
        key = (images * len(classes)).add_(place)
        found = torch.searchsorted(keys, key).clamp_(max=len(keys) - 1)
        return (keys.index_select(0, found) == key) & (classes.index_select(0, place) == labels)

    blocks = [*zip(detections.images.split(_BLOCK), detections.labels.split(_BLOCK), strict=True)]
    return torch.cat(workers.run(partial(workers.share, look, blocks), classes.device))


def are_best_of_classes(matches: Matches, most: int) -> Bool[Tensor, " detections"]:
    """Whether each detection is one of the best of its class in all images; of equal scores the first are."""
    return _ranks(matches.class_index.long()) < most
