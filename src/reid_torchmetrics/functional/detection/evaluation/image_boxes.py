"""The boxes of single images, for drawings, which tasks and files make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor

from reid_torchmetrics import _checks

ImageIds: TypeAlias = Tensor | _checks.Integers | Sequence[str]
"""images by `image_id`, ints or names; images with names also by number"""
ImageDicts: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""dicts of detections and dicts of ground truths, one for each image"""

DETECTION_KEYS = ("boxes", "scores", "labels")
GROUND_TRUTH_KEYS = ("boxes", "labels", "iscrowd", "difficult")
CORNERS_KEY = "rotated_boxes"  # in place of `boxes`, for boxes with more than four numbers
_BOX_SIZE = 4


class ImageBoxes(NamedTuple):
    """The boxes of one image, as `update` takes them."""

    detections: dict[str, Any]
    ground_truths: dict[str, Any]
    """with the `image_id`, a tensor or a str"""

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
