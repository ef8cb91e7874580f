"""Single images: their boxes, to be drawn, and their detections with the ground truth that each of them took.

Users ask for images by number or by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection import batches, inputs, matching

Asked: TypeAlias = Tensor | _checks.Integers | Sequence[str]
"""images by their `image_id`, or images with names also by number: ints, or names"""
DictsOfSides: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]

_OF_DETECTIONS = ("boxes", "scores", "labels")
_OF_GROUND_TRUTHS = ("boxes", "labels", "crowds", "difficult")
_TRUE_KEYS = ("boxes", "labels", "iscrowd", "difficult")  # of the dicts
_NUMBERS, _AS_CORNERS = 4, "rotated_boxes"  # of a box, and in place of `boxes` the key of more numbers


class ImageBoxes(NamedTuple):
    """The boxes of one image, as `update` takes them."""

    detections: dict[str, Any]
    ground_truths: dict[str, Any]
    """with the `image_id`, a tensor or a str"""

    @classmethod
    def listed(cls, ids: Tensor, images: batches.Images) -> list[Tensor]:
        """The tensors of images with these ids, that `by_image` takes."""
        # The ids, the number of objects of each image on both sides, then the columns of all objects.
        columns = [getattr(images, f"detection_{name}") for name in _OF_DETECTIONS]
        columns += [getattr(images, f"ground_truth_{name}") for name in _OF_GROUND_TRUTHS]
        counts = images.detection_counts, images.ground_truth_counts
        return [ids, *counts, *(each for each in columns if each is not None)]

    @classmethod
    def by_image(cls, listed: Sequence[Tensor], names: Sequence[str] | None) -> dict[int, ImageBoxes]:
        """The boxes of each image by its id, or by the place of its name if images have names."""
        ids, detection_counts, ground_truth_counts, *columns = listed
        num = len(_OF_DETECTIONS)
        detections = _split(_OF_DETECTIONS, columns[:num], detection_counts)
        ground_truths = _split(_TRUE_KEYS, columns[num:], ground_truth_counts)
        image_ids = ids if names is None else [names[place] for place in ids.tolist()]
        for each, image in zip(ground_truths, image_ids, strict=True):
            each["image_id"] = image
        return dict(zip(ids.tolist(), map(cls, detections, ground_truths), strict=True))

    @classmethod
    def columns(cls, boxes: Mapping[int, ImageBoxes]) -> list[Tensor]:
        """The inverse of `by_image`."""
        sides = [[each[side] for each in boxes.values()] for side in range(2)]
        lengths = [[len(each["labels"]) for each in side] for side in sides]
        counts = [torch.tensor(each, dtype=torch.int64, device="cpu") for each in lengths]
        named = zip(sides, (_OF_DETECTIONS, _TRUE_KEYS), strict=True)
        known = ((side, key) for side, keys in named for key in (_AS_CORNERS, *keys) if side and key in side[0])
        ids = torch.tensor([*boxes], dtype=torch.int64, device="cpu")
        return [ids, *counts, *(torch.cat([each[key] for each in side]) for side, key in known)]


def _split(keys: Sequence[str], columns: Sequence[Tensor], counts: Tensor) -> list[dict[str, Any]]:
    """The rows of each image; the last keys may have no columns, as `difficult` in metrics without such a flag."""
    # Columns of all images, cut at the same places, become one dict for each image.
    keys = (_AS_CORNERS, *keys[1:]) if columns and columns[0].shape[1] > _NUMBERS else keys
    parts = zip(*(column.split(counts.tolist()) for column in columns), strict=True)
    return [dict(zip(keys, each, strict=False)) for each in parts]


def listed_ids(image: Asked) -> list[int] | list[str]:
    """The ids asked for; raise unless they are integers or a list of names."""
    (image,) = _arrays.as_tensors(image)
    if isinstance(image, Tensor):
        return _checks.integer_labels("image", image).tolist()
    came = type(image).__name__
    if isinstance(image, (tuple, list)):
        others = [type(each).__name__ for each in image if not isinstance(each, str)]
        if not others:
            return [*image]
        came = f"a {came} with {others[0]}"
    raise TypeError(f"`image` must hold integers or be a list of names; got {came}.")


def places_of(ids: Sequence[int | str], names: Sequence[str] | None) -> list[int | None]:
    """The keys of images in `ImageBoxes.by_image`; None for a name that no image has."""
    place_of = {name: place for place, name in enumerate(names or ())}
    return [each if isinstance(each, int) else place_of.get(each) for each in ids]


def choose_boxes(image: Asked, boxes: Mapping[int, ImageBoxes], names: Sequence[str] | None) -> DictsOfSides:
    """The detections and the ground truths of some images.

    Raises:
        TypeError: `image` is neither an integer tensor nor a list of names.
        ValueError: an image that is not among those of `update`.
    """
    # A name that no image has is refused like an unknown number.
    ids = listed_ids(image)
    places = places_of(ids, names)
    for asked, place in zip(ids, places, strict=True):
        if place not in boxes:
            raise ValueError(f"`image` must hold images that were given to `update`; got {asked!r}.")
    chosen = [boxes[place] for place in places if place is not None]
    return [each.detections for each in chosen], [each.ground_truths for each in chosen]


@dataclass(frozen=True)
class MatchedDetections(inputs.ImageRows):
    """Every detection with its ground truth at each threshold, by image and place in the image.

    Detections beyond the largest limit of an image and class were not matched and are not here.
    """

    image: Tensor
    """its `image_id`, or the number of the image where there are none, or names, int64 [detections]"""
    index: Tensor
    """place among the detections of the image, int64 [detections]"""
    label: Tensor
    """int64 [detections]"""
    score: Tensor
    """[detections]"""
    iou_thresholds: tuple[float, ...]
    ground_truth: Tensor
    """its ground truth as a place among the ground truths of the image; -1 for none, int64 [thresholds, detections]"""
    is_true_positive: Tensor
    """bool [thresholds, detections]"""
    is_ignored: Tensor
    """whether it counts neither as right nor as wrong: it took a crowd, or a ground truth outside the first area range,
    or took none and its own box is outside; bool [thresholds, detections]"""
    boxes: Tensor | None = None
    """in the metric's `box_format`, [detections, 4], or corners of rotated boxes, [detections, 8]; None unless the
    results hold boxes"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None where they have none"""


def list_matches(results: Any) -> MatchedDetections:
    """The list of matches of `DetectionResults`, in the first area range."""
    matches: matching.Matches = results.matches
    # Columns hold the matched detections alone; all others have no ground truth.
    true_positive, ignored = matches.outcomes()
    ground_truths = matches.columns.new_full(true_positive.shape, -1)
    if matches.ground_truths is not None:
        ground_truths[:, matches.columns] = matches.ground_truths[0].to(ground_truths.dtype)
    # By image, and in it by row: the last key first.
    by_row = matches.rows.argsort()
    order = by_row[matches.images[by_row].argsort(stable=True)]
    # From here on rows are in the order of the list.
    number, index = matches.images[order].long(), matches.rows[order].long()
    boxes_at = None
    if results.boxes is not None:
        # Boxes of an image begin behind those of all images before it.
        columns = ([*results.boxes[image].detections.values()] for image in results.images.tolist())
        listed = [boxes.to(order.device) for boxes, *_ in columns]
        begins = segments.starts(torch.tensor([len(each) for each in listed], dtype=torch.int64, device=order.device))
        boxes_at = torch.cat(listed)[begins[number] + index] if listed else torch.empty((0, 4), device=order.device)
    return MatchedDetections(
        image=results.images.to(order.device)[number],  # users know images by `image_id`, matches by number
        index=index,
        label=results.labels[order],
        score=matches.scores[order],
        iou_thresholds=tuple(results.averages.grid.iou_thresholds),
        ground_truth=ground_truths[:, order],
        is_true_positive=true_positive[:, order],
        is_ignored=ignored[:, order],
        boxes=boxes_at,
        image_names=results.image_names,
    )
