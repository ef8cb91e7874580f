"""LVIS' federated matching: in each image only some classes are annotated, and of some of these not all objects.

An image lists the classes of its ground truths, classes that are surely absent, and classes with more objects than
annotated. A detection of any other class is ignored; a detection of a class with more objects is right or ignored. All
else is COCO's matching, without crowds. Source: `LVISEval` of lvis-api.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _checks, _extras
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection import inputs
from reid_torchmetrics.functional.detection.batches import EXTRAS, LISTS, Dicts, ExtraColumns, NumberedImages
from reid_torchmetrics.functional.detection.curves import AP_RULES
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator, average_matches
from reid_torchmetrics.functional.detection.matching import Matches, match_on_grid

FREQUENCIES = {"r": "rare", "c": "common", "f": "frequent"}
"""names of LVIS' groups of classes by letter"""
_OUTSIDE = -1.0  # an area in no range
_ROWS = 1 << 15  # number of rows in a block on a CPU


def _check_no_lists(preds: Sequence[Any]) -> None:
    """Raise if `preds` has lists of classes."""
    for position, item in enumerate(preds):
        for key in LISTS:
            if isinstance(item, Mapping) and key in item:
                raise ValueError(f"`preds[{position}]` must not have `{key}`, a key of `target`; got {item[key]!r}.")


def _checked_list(name: str, value: Any) -> list[int]:
    """Return the labels in a list of classes as ints; see `_pack_lists`."""
    try:
        values = value.tolist() if isinstance(value, Tensor) else value
        # `operator.index` refuses None, which is passed in place of a bool.
        labels = [operator.index(None if isinstance(label, bool) else label) for label in values]  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"`{name}` must hold ints; got {value!r}.") from None
    if labels and not -(2**63) <= min(labels) <= max(labels) < 2**63:
        raise ValueError(f"`{name}` must fit int64; got {labels!r}.")
    return labels


def _pack_lists(target: Dicts, device: torch.device) -> dict[str, Tensor]:
    """Return the lists of classes of each image, first absent ones; empty for images without lists.

    Raises:
        TypeError: a list that does not hold ints.
        ValueError: a label that does not fit int64.
    """
    lists: list[list[int]] = []
    for position, item in enumerate(target):
        lists += [_checked_list(f"target[{position}]['{key}']", item.get(key, ())) for key in LISTS]
    labels = torch.tensor(list(chain.from_iterable(lists)), dtype=torch.int64, device="cpu")
    counts = torch.tensor(list(map(len, lists)), dtype=torch.int64, device="cpu").view(-1, 2)
    return {"listed_labels": labels.to(device), "listed_counts": counts.to(device)}


def listed_rows(numbered: NumberedImages) -> Tensor:
    """Return the lists of classes of images as rows of image number, label, and kind.

    The kind is 0 for an absent class, and 1 for a partly annotated one.
    """
    extras = numbered.images.extras
    counts = extras["listed_counts"].flatten()
    list_number = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
    image_numbers = numbered.numbers.long()[list_number // 2]
    return torch.stack([image_numbers, extras["listed_labels"], list_number % 2], 1)


EXTRAS["lists"] = ExtraColumns(
    states={
        "listed_labels": torch.empty(0, dtype=torch.int64, device="cpu"),
        "listed_counts": torch.empty((0, 2), dtype=torch.int64, device="cpu"),
    },
    pack=_pack_lists,
    options=lambda numbered: {"lists": listed_rows(numbered)},
    check_detections=_check_no_lists,
)


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
    """Match as LVIS does; ground truths and detections without area are left out.

    Args:
        detections: detections in all images. If the limit of the grid is per image, only detections that count are
            matched, the best of each image over all classes. Otherwise the others are kept as ignored ones.
        ground_truths: ground truths in all images; those with `is_crowd` are ignored, and each matches one detection.
        grid: thresholds, limits and area ranges.
        lists: number of an image, label, and 0 if the class is surely absent, 1 if it has more objects.
        keep_ground_truths: see `match_on_grid`.
        max_bytes: see `match_on_grid`.
    """
    device = detections.labels.device
    if lists is None:
        lists = torch.empty((0, 3), dtype=torch.int64, device=device)

    # Ground truths with an area. Ignored ones get an area outside all ranges, in place of COCO's crowds.
    areas = ground_truths.range_areas()
    has_area = areas > 0
    if ground_truths.is_crowd is not None:
        areas = areas.masked_fill(ground_truths.is_crowd, _OUTSIDE)
    ground_truths = ground_truths.with_columns(is_crowd=None, areas=areas)

    # A detection counts if its image lists its class, and if it has an area.
    absent = lists[lists[:, 2] == 0, :2].T.contiguous()
    with_more_objects = lists[lists[:, 2] == 1, :2].T.contiguous()
    annotated = torch.stack([ground_truths.images.long(), ground_truths.labels.long()])[:, has_area]
    counts = _are_among(detections.images, detections.labels, torch.cat([annotated, absent], 1))

    def exclude_without_area(some: slice) -> None:
        areas = detections.shapes[torch.arange(some.start, some.stop, device=device)].areas()
        counts[some] &= (areas > 0) & (areas < torch.inf)

    workers.share(exclude_without_area, _blocks(counts))
    is_candidate = None
    if grid.limited == "image":
        counts = _exclude_beyond(detections, max(grid.max_detection_thresholds), counts)
        is_candidate = counts
    matches = match_on_grid(
        detections,
        ground_truths,
        grid,
        candidates=(is_candidate, has_area),
        keep_ground_truths=keep_ground_truths,
        max_bytes=max_bytes,
    )

    # Without a match, a detection that does not count, or of a class with more objects, lies in no area range: ignored.
    with_more_objects = with_more_objects[:, torch.isin(with_more_objects[1], matches.classes)]
    with_more_objects[1] = inputs.place_of_labels(with_more_objects[1], matches.classes)
    is_ignored = _are_among(matches.images, matches.class_index, with_more_objects)
    is_ignored |= ~counts.index_select(0, matches.rows)
    return replace(matches, area_bits=matches.area_bits.masked_fill(is_ignored, 0))


def _exclude_beyond(detections: inputs.Detections, most: int, counts: Bool[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
    """Return `counts` without the detections that are not among the best `most` of their image, over all classes."""
    is_in_full_image = (detections.images.bincount() > most).index_select(0, detections.images)
    if not bool(is_in_full_image.any()):
        return counts
    rows = is_in_full_image.nonzero()[:, 0]
    order, image = inputs.order_by_class_and_score(detections.images[rows].int(), detections.scores[rows])
    ranks = segments.runs(0, image.long().bincount())[1]
    beyond = rows[order[ranks >= most]]
    return counts.index_fill(0, beyond, value=False)


def _are_among(
    images: Int[Tensor, " rows"], labels: Int[Tensor, " rows"], pairs: Int[Tensor, "2 pairs"]
) -> Bool[Tensor, " rows"]:
    """Return whether each image and label is one of the pairs of an image and a label."""
    are_among = torch.zeros_like(images, dtype=torch.bool)
    classes = pairs[1].unique()
    keys = (pairs[0] * len(classes)).add_(inputs.place_of_labels(pairs[1], classes)).unique()
    if not len(keys):
        return are_among

    def search(some: slice) -> None:
        place = torch.searchsorted(classes, labels[some].long()).clamp_(max=len(classes) - 1)
        key = images[some].long() * len(classes) + place
        nearest = torch.searchsorted(keys, key).clamp_(max=len(keys) - 1)
        is_class = classes.index_select(0, place) == labels[some]
        are_among[some] = is_class.logical_and_(keys.index_select(0, nearest) == key)

    workers.share(search, _blocks(images))
    return are_among


def _blocks(rows: Tensor) -> list[slice]:
    """Return ranges of rows that need little memory at a time; on a GPU one range of all rows."""
    most_rows = _ROWS if rows.device.type == "cpu" else max(len(rows), 1)
    return segments.ranges(len(rows), most_rows)


_lvis = partial(
    Evaluator,
    match=match_federated,
    average=average_matches,
    rules=tuple(AP_RULES),
    rule="coco",
    has_limits=True,
    has_crowds=True,
    is_federated=True,
    has_breakdown=False,
)
EVALUATORS["lvis"] = _lvis("LVIS", max_detection_thresholds=(300,), limited="image")
EVALUATORS["lvis_fixed"] = _lvis("LVIS, fixed AP", max_detection_thresholds=(10_000,), limited="class")


def groups_by_frequency(frequencies: Mapping[int, str]) -> dict[str, list[int]]:
    """Return the labels of each group of classes, given the letter of each label."""
    groups: dict[str, list[int]] = {name: [] for name in FREQUENCIES.values()}
    for label, letter in frequencies.items():
        groups[FREQUENCIES[letter]].append(label)
    return groups


def read_frequencies(path: str) -> dict[int, str]:
    """Read the letter of each category of a data set; see `LvisMAP.read_frequencies`."""
    files = _extras.files()
    categories = files.row_list(path, "categories", files.parsed(path))
    categories.check(files.CATEGORIES)
    for position, row in enumerate(categories.rows):
        frequency = row.get("frequency")
        if not isinstance(frequency, str) or frequency not in FREQUENCIES:
            raise categories.invalid(position, "frequency", f"one of {_checks.listed(FREQUENCIES)}")
    return {int(row["id"]): row["frequency"] for row in categories.rows}
