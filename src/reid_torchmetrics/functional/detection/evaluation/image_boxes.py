"""Single images: their boxes for drawings.

Users name images by number or by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.detection import batches

ImageIds: TypeAlias = Tensor | _checks.Integers | Sequence[str]
"""images by `image_id`, ints or names; images with names also by number"""
ImageDicts: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""dicts of detections and dicts of ground truths, one for each image"""

DETECTION_KEYS = ("boxes", "scores", "labels")
GROUND_TRUTH_KEYS = ("boxes", "labels", "iscrowd", "difficult")
_GROUND_TRUTH_COLUMNS = ("boxes", "labels", "crowds")  # the first of these as fields of `Images`
CORNERS_KEY = "rotated_boxes"  # in place of `boxes`, for boxes with more than four numbers
_BOX_SIZE = 4


class ImageBoxes(NamedTuple):
    """The boxes of one image, as `update` takes them."""

    detections: dict[str, Any]
    ground_truths: dict[str, Any]
    """with the `image_id`, a tensor or a str"""

    @classmethod
    def listed(cls, ids: Tensor, images: batches.Images) -> list[Tensor]:
        """Return the tensors for `by_image`: ids, numbers of objects in each image, and the columns of all objects."""
        columns = [getattr(images, f"detection_{key}") for key in DETECTION_KEYS]
        columns += [getattr(images, f"ground_truth_{name}") for name in _GROUND_TRUTH_COLUMNS]
        columns.append(images.extras.get("ground_truth_difficult"))
        tensors = [ids, images.detection_counts, images.ground_truth_counts]
        tensors += [column for column in columns if column is not None]
        return tensors

    @classmethod
    def by_image(cls, listed: Sequence[Tensor], names: Sequence[str] | None) -> dict[int, ImageBoxes]:
        """Return the boxes by id of the image, or by the place of its name if images have names."""
        ids, detection_counts, ground_truth_counts, *columns = listed
        num_columns = len(DETECTION_KEYS)
        detections = _split(DETECTION_KEYS, columns[:num_columns], detection_counts)
        ground_truths = _split(GROUND_TRUTH_KEYS, columns[num_columns:], ground_truth_counts)

        image_ids = ids if names is None else [names[place] for place in ids.tolist()]
        for target, image_id in zip(ground_truths, image_ids, strict=True):
            target["image_id"] = image_id
        return dict(zip(ids.tolist(), map(cls, detections, ground_truths), strict=True))


def _split(keys: Sequence[str], columns: Sequence[Tensor], counts: Tensor) -> list[dict[str, Any]]:
    """Return a dict for each image; the last keys may lack a column, such as `difficult` in metrics without it."""
    if columns and columns[0].shape[1] > _BOX_SIZE:
        keys = (CORNERS_KEY, *keys[1:])
    sizes = counts.tolist()
    parts = zip(*(column.split(sizes) for column in columns), strict=True)
    return [dict(zip(keys, tensors, strict=False)) for tensors in parts]


def listed_ids(image: ImageIds) -> list[int] | list[str]:
    """Return the ids in a list.

    Raises:
        TypeError: neither integers nor a list of names.
    """
    (image,) = _arrays.as_tensors(image)
    if isinstance(image, Tensor):
        return _checks.integer_labels("image", image).tolist()
    got = type(image).__name__
    if isinstance(image, (tuple, list)):
        other_types = [type(name).__name__ for name in image if not isinstance(name, str)]
        if not other_types:
            return list(image)
        got = f"a {got} with {other_types[0]}"
    raise TypeError(f"`image` must hold integers or be a list of names; got {got}.")


def places_of(ids: Sequence[int | str], names: Sequence[str] | None) -> list[int | None]:
    """Return the keys of images in `ImageBoxes.by_image`; None for a name that no image has."""
    places = {name: place for place, name in enumerate(names or ())}
    return [image if isinstance(image, int) else places.get(image) for image in ids]


def choose_boxes(image: ImageIds, boxes: Mapping[int, ImageBoxes], names: Sequence[str] | None) -> ImageDicts:
    """Return the detections and the ground truths of some images.

    Raises:
        TypeError: `image` is neither an integer tensor nor a list of names.
        ValueError: an image that was not passed to `update`.
    """
    detections = []
    ground_truths = []
    ids = listed_ids(image)
    for image_id, place in zip(ids, places_of(ids, names), strict=True):
        if place is None or place not in boxes:
            raise ValueError(f"`image` must hold images that were given to `update`; got {image_id!r}.")
        detections.append(boxes[place].detections)
        ground_truths.append(boxes[place].ground_truths)
    return detections, ground_truths
