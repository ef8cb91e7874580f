"""The boxes of single images, to be drawn, and how users ask for images: by number or by name."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

from reid_torchmetrics import _checks

from .images import Images

Asked: TypeAlias = Tensor | Sequence[str]
"""images by their `image_id`, those with names also by number: ints in a tensor, or names"""
DictsOfSides: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]

_OF_DETECTIONS = ("boxes", "scores", "labels")
_OF_GROUND_TRUTHS = ("boxes", "labels", "crowds")


class ImageBoxes(NamedTuple):
    """The boxes of one image, as `update` takes them."""

    detections: dict[str, Any]
    ground_truths: dict[str, Any]
    """with the `image_id`, a tensor or a str"""

    @classmethod
    def listed(cls, ids: Tensor, images: Images) -> list[Tensor]:
        """The tensors of images with these ids, that `by_image` takes."""
        columns = [getattr(images, f"detection_{name}") for name in _OF_DETECTIONS]
        columns += [getattr(images, f"ground_truth_{name}") for name in _OF_GROUND_TRUTHS]
        return [ids, images.detection_counts, images.ground_truth_counts, *columns]

    @classmethod
    def by_image(cls, listed: Sequence[Tensor], names: Sequence[str] | None) -> dict[int, ImageBoxes]:
        """The boxes of each image, by its id, which is the place of its name where images have names."""
        ids, detection_counts, ground_truth_counts, *columns = listed
        num = len(_OF_DETECTIONS)
        found = _split(("boxes", "scores", "labels"), columns[:num], detection_counts)
        true = _split(("boxes", "labels", "iscrowd"), columns[num:], ground_truth_counts)
        given = ids if names is None else [names[place] for place in ids.tolist()]
        for each, image in zip(true, given, strict=True):
            each["image_id"] = image
        return dict(zip(ids.tolist(), map(cls, found, true), strict=True))


def _split(keys: Sequence[str], columns: Sequence[Tensor], counts: Tensor) -> list[dict[str, Any]]:
    """The rows of each image."""
    parts = zip(*(column.split(counts.tolist()) for column in columns), strict=True)
    return [dict(zip(keys, each, strict=True)) for each in parts]


def check_asked(image: object) -> None:
    """Raise unless images are asked for by integers in a tensor, or by a list of names."""
    if isinstance(image, Tensor):
        _checks.integer_labels("image", image)
        return
    came = type(image).__name__
    if isinstance(image, (tuple, list)):
        others = [type(each).__name__ for each in image if not isinstance(each, str)]
        if not others:
            return
        came = f"a {came} with {others[0]}"
    raise TypeError(f"`image` must be a tensor of integers or a list of names; got {came}.")


def listed_ids(image: Asked) -> list[int] | list[str]:
    """The ids that were asked for."""
    return image.tolist() if isinstance(image, Tensor) else [*image]


def places_of(image: Asked, names: Sequence[str] | None) -> list[int | None]:
    """Where boxes of images are found, see `ImageBoxes.by_image`; None for a name that no image has."""
    return [each if isinstance(each, int) else _place(each, names or ()) for each in listed_ids(image)]


def _place(name: str, names: Sequence[str]) -> int | None:
    place = bisect_left(names, name)
    return place if place < len(names) and names[place] == name else None


def choose_boxes(image: Asked, boxes: Mapping[int, ImageBoxes], names: Sequence[str] | None) -> DictsOfSides:
    """The detections and the ground truths of some images.

    Raises:
        ValueError: an image that is not among those of `update`.
    """
    places = places_of(image, names)
    for asked, place in zip(listed_ids(image), places, strict=True):
        if place not in boxes:
            raise ValueError(f"`image` must hold images that were given to `update`; got {asked!r}.")
    chosen = [boxes[place] for place in places if place is not None]
    return [each.detections for each in chosen], [each.ground_truths for each in chosen]
