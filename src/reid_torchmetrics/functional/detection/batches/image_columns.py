"""The objects of many images as columns, in the place of a dict for each image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

Dicts = Sequence[Mapping[str, Any]]
"""the dicts of images in the form of `update`"""


class ImageColumns(Sequence[dict[str, Any]]):
    """The dicts of images in the form of `update`, made from columns when they are looked at.

    Args:
        counts: numbers of objects, int64 [images].
        columns: tensors, or masks, with a row for each object, image by image, by the keys of `update`.
        of_images: lists with a value for each image, such as `image_id`, by the keys of `update`.
    """

    def __init__(
        self, counts: Tensor, columns: Mapping[str, Any], of_images: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        self.counts = counts
        self.columns = columns
        self.of_images = of_images or {}
        self._starts = [0, *counts.cumsum(0).tolist()]

    @property
    def keys(self) -> set[str]:
        """Return the keys of the dicts."""
        return {*self.columns, *self.of_images}

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.counts)

    def __getitem__(self, image: Any) -> Any:
        """Return the dict of an image, with tensors of its own, or the images of a slice: as columns if in a row."""
        if isinstance(image, slice):
            first, end, step = image.indices(len(self))
            if step != 1:
                return [self[place] for place in range(first, end, step)]
            rows = slice(self._starts[first], self._starts[max(first, end)])
            columns = {key: column[rows] for key, column in self.columns.items()}
            of_images = {key: values[image] for key, values in self.of_images.items()}
            return ImageColumns(self.counts[image], columns, of_images)
        if not -len(self) <= image < len(self):
            raise IndexError(image)
        image %= len(self)
        rows = slice(self._starts[image], self._starts[image + 1])
        objects: dict[str, Any] = {}
        for key, column in self.columns.items():
            values = column[rows]
            objects[key] = values.clone() if isinstance(values, Tensor) else values.to_coco()
        for key, values in self.of_images.items():
            if values[image] is not None:
                objects[key] = values[image]
        return objects

    def with_column(self, key: str, column: Tensor) -> ImageColumns:
        """Return the same images with another column."""
        return ImageColumns(self.counts, {**self.columns, key: column}, self.of_images)


def num_objects(items: Dicts) -> list[int]:
    """Return the number of objects of each image."""
    if isinstance(items, ImageColumns):
        counts: list[int] = items.counts.tolist()
        return counts
    return [item["labels"].numel() for item in items]


def parts_of(items: Dicts, key: str, counts: Sequence[int]) -> tuple[list[Any], list[int]]:
    """Return the values under a key, with numbers of objects: for each image, or for all images of columns."""
    if isinstance(items, ImageColumns):
        return [items.columns.get(key)], [sum(counts)]
    return [item.get(key) for item in items], list(counts)


def values_of(items: Dicts, key: str) -> list[Any]:
    """Return the value of each image under a key, such as `image_id`; None for images without it."""
    if isinstance(items, ImageColumns):
        return list(items.of_images.get(key, [None] * len(items)))
    return [item.get(key) for item in items]
