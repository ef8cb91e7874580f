"""Tables of the objects in COCO's files: columns of arrays, without a dict for each object."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray

from reid_torchmetrics._collector import collector_paused
from reid_torchmetrics.functional.detection.batches import SMALLEST_AREA, ImageColumns
from reid_torchmetrics.functional.detection.inputs import RunMasks

from .coco_columns import Row, is_image_id
from .coco_masks import RunLengthRow, is_side, masks_of_column
from .json_blocks import NO_JSON, RowDecoder, UnreadRowsError, blocks_of

_TOO_LONG = 2**31  # pixels, for a side of an image
NO_AREA = math.nan  # no area of a file, since JSON that is decoded by type has no NaN


class _ColumnType(NamedTuple):
    """The values under a key of the rows of a file."""

    type: Any
    """the type of JSON's values; a pair with a default for keys that rows may lack"""
    dtype: Any
    width: int = 1
    """numbers in a value"""


_TYPES = {
    "id": _ColumnType(int, np.int64),
    "category_id": _ColumnType(int, np.int64),
    "score": _ColumnType(float, np.float64),
    "bbox": _ColumnType(tuple[float, float, float, float], np.float64, width=4),
    "iscrowd": _ColumnType((bool | int, 0), np.int64),
    "area": _ColumnType((float, NO_AREA), np.float64),
    "file_name": _ColumnType((str | None, None), object),
    "category_name": _ColumnType((str | None, None), object),
}
_MASK_TYPES = {
    "bbox": (tuple[float, float, float, float], (math.nan,) * 4),
    "segmentation": list[list[float]] | RunLengthRow,
}
"""types where masks are read"""
RESULT_COLUMNS = ("category_id", "score", "bbox")
_RESULT_NAMES = {"file_name", "category_name"}
ANNOTATION_COLUMNS = ("category_id", "iscrowd", "area", "bbox")
_KEYS_OF_UPDATE = {
    "category_id": "labels",
    "score": "scores",
    "bbox": "boxes",
    **{key: key for key in ("iscrowd", "area", "detection_area", "keypoints", "num_keypoints")},
}
"""keys of images by the keys of rows"""
_OTHER_KEYS = ("id", "segmentation")  # of most files


@dataclass(frozen=True)
class ObjectTable:
    """The objects in a file, in the order of its rows."""

    references: list[Any]
    """the distinct values of `image_id`"""
    images: NDArray[np.int64]
    """for each object the place of its image in `references`"""
    columns: Mapping[str, Any]
    """values by the keys of rows, arrays [objects] or [objects, 4], with NaN for no box"""
    masks: RunMasks | None
    """None if they are not read"""
    other_keys: set[str] = field(default_factory=set)
    """keys of rows that are no columns"""

    def at(self, rows: NDArray[np.int64]) -> ObjectTable:
        """Return some objects."""
        columns = {key: column[rows] for key, column in self.columns.items()}
        masks = None if self.masks is None else self.masks.at(rows)
        return replace(self, images=self.images[rows], columns=columns, masks=masks)


class DataSetTable(NamedTuple):
    """The lists of a data set."""

    lists: dict[str, Any]
    """the images, and the categories if the data set has them"""
    annotations: ObjectTable


class _DataSet(msgspec.Struct):
    """The texts of the lists of a data set."""

    images: list[Any]
    annotations: msgspec.Raw
    categories: Any = None


def read_data_set(
    text: bytes, columns: Iterable[str], *, has_masks: bool, images: Iterable[Any] | None = None
) -> DataSetTable:
    """Read a data set of annotations with boxes, or with masks and maybe boxes; errors as in `read_table`.

    `images` have the sizes of polygons; None for the images of the data set.
    """
    with collector_paused():
        try:
            data_set = msgspec.json.decode(text, type=_DataSet)
        except NO_JSON as error:
            raise UnreadRowsError from error
    sizes = sizes_by_id(data_set.images if images is None else images) if has_masks else None
    annotations = read_table(io.BytesIO(data_set.annotations), columns, sizes)
    lists = {"images": data_set.images}
    if data_set.categories is not None:
        lists["categories"] = data_set.categories
    return DataSetTable(lists, annotations)


def sizes_by_id(images: Iterable[Any]) -> dict[Any, Any]:
    """Return the height and width of the images that have them."""
    sizes = {}
    for image in images:
        if isinstance(image, dict) and is_image_id(image.get("id")):
            size = (image.get("height"), image.get("width"))
            if all(map(is_side, size)):
                sizes[image["id"]] = size
    return sizes


def read_results(file: BinaryIO, sizes: Mapping[Any, Any] | None) -> ObjectTable:
    """Read a list of results, with the names of their images and categories if they have some; see `read_table`."""
    results = read_table(file, RESULT_COLUMNS, sizes)
    names = results.other_keys & _RESULT_NAMES
    if not names:
        return results
    file.seek(0)
    return read_table(file, (*RESULT_COLUMNS, *names), sizes)


@collector_paused()
def read_table(file: BinaryIO, keys: Iterable[str], sizes: Mapping[Any, Any] | None) -> ObjectTable:
    """Read a list of rows with some columns, and masks in images of known sizes.

    Raises:
        UnreadRowsError: the file is no JSON, or a row has other values than most files.
    """
    types = {key: _TYPES[key] for key in keys}
    column_types = {"image_id": int | str, **{key: kind.type for key, kind in types.items()}}
    if sizes is not None:
        column_types |= _MASK_TYPES
    decoder = RowDecoder(column_types, set(_OTHER_KEYS) - column_types.keys())
    places: dict[Any, int] = {}
    masks: list[RunMasks] = []
    images: list[NDArray[np.int64]] = []
    columns: dict[str, list[NDArray[Any]]] = {key: [] for key in types}
    for rows in blocks_of(file, decoder):
        ids = list(map(attrgetter("image_id"), rows))
        for image_id in dict.fromkeys(ids):
            places.setdefault(image_id, len(places))
        images.append(np.fromiter(map(places.__getitem__, ids), np.int64, len(ids)))
        if sizes is not None:
            try:
                image_sizes = np.array([sizes.get(image_id, (0, 0)) for image_id in ids], dtype=np.int64).reshape(-1, 2)
                masks.append(masks_of_column([row.segmentation for row in rows], image_sizes))
            except (OverflowError, ValueError) as error:
                raise UnreadRowsError from error
        for key, kind in types.items():
            columns[key].append(_column(rows, key, kind))
    return ObjectTable(
        references=list(places),
        images=np.concatenate(images),
        columns={key: np.concatenate(columns.pop(key)) for key in types},  # parts and wholes of one key at a time
        masks=RunMasks.joined(masks) if masks else None,
        other_keys=decoder.other_keys - set(_OTHER_KEYS),
    )


def _column(rows: list[Any], key: str, kind: _ColumnType) -> NDArray[Any]:
    """Return the values of a column, [rows] or [rows, width]."""
    values: Any = list(map(attrgetter(key), rows))
    if kind.width > 1:
        numbers = np.fromiter(chain.from_iterable(values), kind.dtype, kind.width * len(rows))
        return numbers.reshape(-1, kind.width)
    try:
        return np.array(values, dtype=kind.dtype)
    except OverflowError as error:
        raise UnreadRowsError from error


def values_of_images(images: Sequence[Row]) -> dict[str, list[Any]]:
    """Return the ids and sizes of images; by the sizes the diagnosis recognizes boxes of resized images."""
    sizes = [None if size is None else torch.tensor(size, dtype=torch.int64, device="cpu") for size in sizes_of(images)]
    return {"image_id": [image["id"] for image in images], "orig_size": sizes}


def images_of(table: ObjectTable, of_images: Mapping[str, list[Any]]) -> ImageColumns:
    """Return the objects of a table in the form of `update`, with values for each image.

    The `references` of the table are all images.
    """
    order = table.images.argsort(kind="stable")
    columns: dict[str, Any] = {}
    for key, key_of_update in _KEYS_OF_UPDATE.items():
        if key in table.columns:
            column = table.columns[key][order]
            if key == "area":  # 0 stands for none
                column = np.where(np.isnan(column), 0, np.maximum(column, SMALLEST_AREA))
            columns[key_of_update] = torch.from_numpy(column)
    if table.masks is not None:
        columns["masks"] = table.masks.at(order)
    counts = np.bincount(table.images, minlength=len(table.references))
    return ImageColumns(torch.from_numpy(counts), columns, of_images)


def sizes_of(images: Iterable[Row]) -> list[list[int | float] | None]:
    """Return heights and widths of images; None where a row does not have both, or they can be no numbers of pixels."""
    sizes: list[list[int | float] | None] = []
    for image in images:
        size: list[Any] = [image.get("height"), image.get("width")]
        is_known = all(isinstance(length, (int, float)) and 1 <= length < _TOO_LONG for length in size)
        sizes.append(size if is_known else None)
    return sizes
