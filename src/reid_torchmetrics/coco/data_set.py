"""Data sets in COCO's format, and results on them."""

from __future__ import annotations

import copy
import io
import os
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics._extras import require
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.files import (
    ANNOTATION_COLUMNS,
    TABLES,
    Column,
    ObjectTable,
    RowList,
    UnreadRowsError,
    are_results,
    check_category_names,
    check_flags,
    check_keys,
    check_kind_of_ids,
    decoded_json,
    fill_boxes_and_areas,
    find_images,
    masks_of_annotations,
    on_images,
    parsed,
    read_data_set,
    read_results,
    readable,
    repeated_id,
    shortened,
    sizes_by_id,
    unknown_id,
    with_ids_of_images,
)

Row: TypeAlias = dict[str, Any]
Ids: TypeAlias = Any
"""an id, or a sequence of ids"""

_COLUMNS = {(name, column.key): column for name, columns in TABLES.items() for column in columns}
_INDEXED_COLUMNS = (
    Column("id", _COLUMNS["images", "id"].kind),
    _COLUMNS["annotations", "image_id"],
    _COLUMNS["annotations", "iscrowd"],
)
"""columns of annotations that are checked"""
_READ_COLUMNS = ("id", *ANNOTATION_COLUMNS)
"""columns of annotations that are read without dicts"""
_TABLES = ("dataset", "anns", "imgToAnns", "catToImgs")
"""attributes with the dicts of annotations"""


class COCO:
    """A data set of images, categories and annotations, with the methods of pycocotools' class of this name.

    It prints nothing. The attributes are `dataset` (the parsed file), `anns`, `imgs` and `cats` (its rows by id),
    `imgToAnns` and `catToImgs`. After an assignment to `dataset`, call `createIndex` to update the others.

    Args:
        annotation_file: path of a file in COCO's format, or its parsed contents; None for a data set without images.

    Raises:
        OSError: there is no such file, or it cannot be read.
        ValueError: a file that holds no dict, rows without an `id`, annotations without an `image_id`, annotations
            without a `category_id` in a data set with categories, or an invalid value; the message names the row.
    """

    def __init__(self, annotation_file: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> None:
        self._source = _source_name(annotation_file, "annotation_file")
        self._file: _File | None = None
        if isinstance(annotation_file, (str, os.PathLike)) and type(self).createIndex is COCO.createIndex:
            with suppress(UnreadRowsError):
                self._read(annotation_file)
                return
        self.dataset: Any = _content({} if annotation_file is None else annotation_file)
        if not isinstance(self.dataset, Mapping):
            got = type(self.dataset).__name__
            hint = "; `loadRes` reads results" if isinstance(self.dataset, list) else ""
            raise ValueError(f"`annotation_file` must hold a data set of COCO, an object; got a {got}{hint}.")  # noqa: TRY004
        self.createIndex()

    def _read(self, path: str | os.PathLike[str]) -> None:
        """Read a file without a dict for each annotation; `UnreadRowsError` for files that are unlike most."""
        file = _File(readable(path).read_bytes())
        file.lists, file.table = read_data_set(file.text, _READ_COLUMNS, has_masks=False)
        if "categories" not in file.lists:  # a data set of captions
            raise UnreadRowsError
        check_keys("annotations", file.table, [_COLUMNS["annotations", "iscrowd"]])
        check_flags(file.table)
        self._index_images(file.lists)
        self._file = file

    def __getattr__(self, name: str) -> Any:
        """Return an attribute with the dicts of annotations, which are made when somebody looks at them."""
        file = vars(self).get("_file")
        if name not in _TABLES or file is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._file = None
        content = decoded_json(file.text)
        if file.truth is None:
            self.dataset = {**content, **file.lists}
        else:
            with warnings.catch_warnings():  # they were given when the file was read
                warnings.simplefilter("ignore")
                self.dataset = _data_set_of_results(self._source, content, file.truth)
        self._index_annotations(self.dataset["annotations"])
        return vars(self)[name]

    def table(self, *, has_masks: bool) -> ObjectTable | None:
        """Return the annotations as columns; None if they have dicts, which a user may have changed.

        Raises:
            UnreadRowsError: masks that are unlike most, or that cannot be read.
        """
        file = self._file
        if file is None or not vars(self).keys().isdisjoint(_TABLES):
            return None
        if not has_masks or file.table.masks is not None:
            return file.table
        return replace(file.table, masks=file.read(self.imgs.values(), has_masks=True).masks)

    def createIndex(self) -> None:
        """Compute the other attributes from `dataset`."""
        self._file = None
        self._index_images(self.dataset)
        columns = list(_INDEXED_COLUMNS)
        if "categories" in self.dataset:  # data sets of captions have none
            columns.append(_COLUMNS["annotations", "category_id"])
        self._index_annotations(self._rows(self.dataset, "annotations", columns).rows)

    def _index_images(self, lists: Mapping[str, Any]) -> None:
        """Compute `imgs` and `cats`."""
        images = self._rows(lists, "images", [_COLUMNS["images", "id"]])
        check_kind_of_ids(images)
        categories = self._rows(lists, "categories", TABLES["categories"])
        for row_list in (images, categories):
            _warn_of(repeated_id(row_list))  # pycocotools takes the last row
        self.imgs = {row["id"]: row for row in images.rows}
        self.cats = {row["id"]: row for row in categories.rows}

    def _index_annotations(self, annotations: Iterable[Row]) -> None:
        """Compute `anns`, `imgToAnns` and `catToImgs` from annotations that were checked."""
        self.anns = {row["id"]: row for row in annotations}
        self.imgToAnns: dict[Any, list[Row]] = defaultdict(list)
        self.catToImgs: dict[Any, list[Any]] = defaultdict(list)
        for row in annotations:
            self.imgToAnns[row["image_id"]].append(row)
            if "category_id" in row:
                self.catToImgs[row["category_id"]].append(row["image_id"])

    def _rows(self, lists: Mapping[str, Any], name: str, columns: Sequence[Column]) -> RowList:
        """Return the rows of a list of the data set after a check of some columns; none if it has no such list."""
        rows = lists.get(name, [])
        if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
            raise ValueError(f"`{self._source}` must hold `{name}`, a list of objects; got {shortened(rows)}.")
        row_list = RowList(self._source, name, rows)
        if rows:
            row_list.check(columns)
        return row_list

    def info(self) -> None:
        """Print the `info` of the data set."""
        for key, value in self.dataset.get("info", {}).items():
            print(f"{key}: {value}")  # noqa: T201

    def getAnnIds(
        self, imgIds: Ids = (), catIds: Ids = (), areaRng: Sequence[float] = (), iscrowd: bool | None = None
    ) -> list[Any]:
        """Return ids of annotations, filtered by images, categories, area (between two ends) and `iscrowd`."""
        images = _as_list(imgIds)
        categories = set(_as_list(catIds))
        rows = self.dataset.get("annotations", [])
        if images:
            rows = []
            for image in images:
                rows += self.imgToAnns.get(image, ())
        return [
            row["id"]
            for row in rows
            if (not categories or row["category_id"] in categories)
            and (not len(areaRng) or areaRng[0] < row["area"] < areaRng[1])
            and (iscrowd is None or row["iscrowd"] == iscrowd)
        ]

    def getCatIds(self, catNms: Ids = (), supNms: Ids = (), catIds: Ids = ()) -> list[Any]:
        """Return ids of categories, filtered by names, supercategories and ids."""
        rows = self.dataset.get("categories", []) if self._file is None else list(self.cats.values())
        for key, filters in (("name", catNms), ("supercategory", supNms), ("id", catIds)):
            allowed = _as_list(filters)
            if allowed:
                rows = [row for row in rows if row[key] in allowed]
        return [row["id"] for row in rows]

    def getImgIds(self, imgIds: Ids = (), catIds: Ids = ()) -> list[Any]:
        """Return ids of images, filtered by ids; the images must have annotations of all the categories."""
        images = _as_list(imgIds)
        categories = _as_list(catIds)
        if not images and not categories:
            return list(self.imgs)
        sets = [set(images)] if images else []
        sets += [set(self.catToImgs.get(category, ())) for category in categories]
        return list(set.intersection(*sets))

    def loadAnns(self, ids: Ids = ()) -> list[Row]:
        """Return the annotations with these ids."""
        return [self.anns[annotation_id] for annotation_id in _as_list(ids)]

    def loadCats(self, ids: Ids = ()) -> list[Row]:
        """Return the categories with these ids."""
        return [self.cats[category_id] for category_id in _as_list(ids)]

    def loadImgs(self, ids: Ids = ()) -> list[Row]:
        """Return the images with these ids."""
        return [self.imgs[image_id] for image_id in _as_list(ids)]

    def loadRes(self, resFile: str | os.PathLike[str] | list[Row] | NDArray[Any]) -> COCO:
        """Return results on the images of this data set, as a separate data set.

        Its annotations are copies of the results, with ids from 1 on, boxes and areas. The boxes are those of the
        results if the first result has one; otherwise they enclose the masks or the keypoints.

        Args:
            resFile: a list of dicts with `image_id`, `category_id`, `score`, and `bbox`, `segmentation` or `keypoints`;
                the path of such a file; or an array [results, 7] of image, x, y, width, height, score and category.

        Raises:
            OSError: there is no such file, or it cannot be read.
            IndexError: no results, as in pycocotools; its callers catch this error.
            ValueError: no list, a result in an image that the data set does not have, or a row without a `category_id`
                or with an invalid value; the message names the row.

        Results that name the files of images, by `file_name` or as `image_id`, get the ids of the images. If the names
        may be ids as well, a warning says how they were read.
        """
        results: COCO = COCO.__new__(COCO)  # of images and categories that were checked
        results._source = _source_name(resFile, "resFile")
        results._file = None
        if isinstance(resFile, (str, os.PathLike)):
            with suppress(UnreadRowsError):
                results._file = _read_results(results._source, resFile, self.imgs, self)
                results.imgs = dict(self.imgs)
                results.cats = copy.deepcopy(self.cats)
                return results
        rows = self.loadNumpyAnnotations(resFile) if isinstance(resFile, np.ndarray) else _content(resFile)
        # `self` may be a data set of pycocotools.
        results.dataset = _data_set_of_results(results._source, rows, self)
        results.imgs = {row["id"]: row for row in results.dataset["images"]}
        results.cats = {row["id"]: row for row in results.dataset["categories"]}
        results._index_annotations(results.dataset["annotations"])
        return results

    @staticmethod
    def loadNumpyAnnotations(data: NDArray[Any]) -> list[Row]:
        """Return results from an array [results, 7], see `loadRes`.

        Raises:
            ValueError: another shape.
        """
        if data.ndim != 2 or data.shape[1] != 7:
            raise ValueError(f"`data` must have shape [results, 7]; got {list(data.shape)}.")
        return [
            {"image_id": int(image), "bbox": box, "score": score, "category_id": int(category)}
            for image, *box, score, category in data.tolist()
        ]

    def download(self, tarDir: str | None = None, imgIds: Ids = ()) -> None:
        """Raise an error, because nothing is downloaded.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("`download` must not be called: nothing is downloaded; get images by `coco_url`.")

    def showAnns(self, anns: Sequence[Row], draw_bbox: bool = False) -> None:  # noqa: FBT002 - theirs
        """Draw masks, keypoints and optionally boxes into the current axes of Matplotlib; print captions.

        Colors are those of Matplotlib's cycle; pycocotools draws them at random.

        Raises:
            ModuleNotFoundError: Matplotlib is not installed.
            ValueError: an annotation with neither a mask, keypoints nor a caption.
        """
        for ann in anns:
            if not {"segmentation", "keypoints", "caption"} & ann.keys():
                rule = "must have a `segmentation`, `keypoints` or a `caption`"
                raise ValueError(f"`anns` {rule}; got the keys {list(ann)} of annotation {ann.get('id')!r}.")
        for ann in anns:
            if "caption" in ann:
                print(ann["caption"])  # noqa: T201 - as pycocotools
            else:
                self._draw(ann, draw_bbox=draw_bbox)

    def _draw(self, ann: Row, *, draw_bbox: bool) -> None:
        """Draw the shapes of an annotation in the next color."""
        require("`showAnns`", "matplotlib")
        from matplotlib import pyplot as plt  # noqa: PLC0415 - optional
        from matplotlib.colors import to_rgb  # noqa: PLC0415
        from matplotlib.patches import Polygon, Rectangle  # noqa: PLC0415

        axes = plt.gca()
        axes.set_autoscale_on(False)
        color = f"C{len(axes.patches) + len(axes.lines) + len(axes.images)}"

        segmentation = ann.get("segmentation", [])
        if isinstance(segmentation, Mapping):
            mask = self.annToMask(ann)
            opacity = mask / 2  # transparent outside of the mask
            axes.imshow(np.dstack([np.full((*mask.shape, 3), to_rgb(color)), opacity]))
        else:
            for polygon in segmentation:
                corners = np.reshape(polygon, (-1, 2))
                axes.add_patch(Polygon(corners, facecolor=(*to_rgb(color), 0.4), edgecolor=color, linewidth=2))

        x, y, visibility = np.reshape(ann.get("keypoints", []), (-1, 3)).T
        is_visible = visibility > 0
        skeleton = self.cats.get(ann.get("category_id"), {}).get("skeleton", [])
        for ends in np.array(skeleton, dtype=int) - 1:
            if len(x) and is_visible[ends].all():
                axes.plot(x[ends], y[ends], color=color, linewidth=3)
        axes.plot(x[is_visible], y[is_visible], "o", color=color, markersize=8, markeredgecolor="black")

        if draw_bbox:
            left, top, width, height = ann["bbox"]
            axes.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=color, linewidth=2))

    def annToRLE(self, ann: Row) -> Row:
        """Return the mask of an annotation, also for polygons: `size` and `counts`, bytes in COCO's compressed form."""
        masks = masks_of_annotations([ann], self.imgs)
        segmentation = ann.get("segmentation")
        if isinstance(segmentation, Mapping) and isinstance(segmentation.get("counts"), (str, bytes)):
            return dict(segmentation)
        (mask,) = masks.to_coco()
        return {**mask, "counts": mask["counts"].encode()}

    def annToMask(self, ann: Row) -> NDArray[np.uint8]:
        """Return the mask of an annotation as pixels, 0 or 1, [height, width]."""
        (pixels,) = masks_of_annotations([ann], self.imgs)[:1].to_bits().pixels
        flags: NDArray[np.bool_] = pixels.numpy()
        return flags.astype(np.uint8)


def _source_name(source: Any, argument: str) -> str:
    """Return the path of a file for messages; the name of the argument for contents in memory."""
    return str(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else argument


def _content(source: Any) -> Any:
    """Return the contents of a JSON file; contents in memory are returned unchanged."""
    return parsed(source) if isinstance(source, (str, os.PathLike)) else source


def _as_list(ids: Ids) -> list[Any]:
    """Return ids in a list; a single id in a list of one."""
    is_sequence = hasattr(ids, "__len__") and hasattr(ids, "__iter__") and not isinstance(ids, str)
    return list(ids) if is_sequence else [ids]


@dataclass
class _File:
    """A file in memory, and its annotations or results as columns."""

    text: bytes
    truth: Any = None
    """the data set that results are on; None for a data set"""
    lists: Mapping[str, Any] = field(default_factory=dict)
    """the images and categories of a data set"""
    table: ObjectTable = field(init=False)

    def read(self, images: Iterable[Row], *, has_masks: bool) -> ObjectTable:
        """Read the annotations or results, with masks in some images."""
        if self.truth is None:
            return read_data_set(self.text, _READ_COLUMNS, has_masks=has_masks, images=images).annotations
        return read_results(io.BytesIO(self.text), sizes_by_id(images) if has_masks else None)


def _read_results(source: str, path: str | os.PathLike[str], images: Mapping[Any, Row], truth: Any) -> _File:
    """Read a file of results as columns, with boxes and areas; `UnreadRowsError` for files that are unlike most."""
    file = _File(readable(path).read_bytes(), truth)
    try:
        table = file.read(images.values(), has_masks=False)
    except UnreadRowsError:  # results of masks may have no boxes
        table = file.read(images.values(), has_masks=True)
    has_boxes = ~np.isnan(table.columns["bbox"][:, 0])
    if not len(has_boxes) or "caption" in table.other_keys or (has_boxes.any() and not has_boxes.all()):
        raise UnreadRowsError
    table, notes = with_ids_of_images(source, table, list(images.values()))
    table = on_images(table, images, truth.cats)
    check_category_names(table, truth.cats.values())
    for note in notes:
        if note.is_doubtful:
            warn(note.text)
    columns = dict(table.columns)
    boxes = columns.pop("bbox")
    columns["id"] = np.arange(1, len(boxes) + 1)
    columns["iscrowd"] = np.zeros(len(boxes), dtype=np.int64)
    if has_boxes[0]:
        columns |= {"bbox": boxes, "area": boxes[:, 2] * boxes[:, 3]}
    file.table = replace(table, columns=columns)
    return file


def _data_set_of_results(source: str, rows: Any, truth: Any) -> dict[str, Any]:
    """Return results on a data set as a data set of their own, see `COCO.loadRes`."""
    if not isinstance(rows, list):
        hint = ": is it the data set?" if isinstance(rows, Mapping) else "."
        if are_results(rows):
            hint = " with results as `annotations`: `DetectionMAP.coco_to_tm` reads them by the names of its images."
        raise ValueError(f"`resFile` must hold a list of results; got a {type(rows).__name__}{hint}")  # noqa: TRY004
    if not rows:
        raise IndexError("`resFile` must hold at least one result; got an empty list.")
    for position, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueError(f"`{source}` must hold a list of objects; got {shortened(row)} in row {position}.")  # noqa: TRY004
    numbered = [{**row, "id": number} for number, row in enumerate(rows, start=1)]
    results = RowList(source, "results", numbered)
    _check_results(results, truth.dataset, truth.imgs)
    fill_boxes_and_areas(results, truth.imgs)
    return {
        "info": copy.deepcopy(truth.dataset.get("info", [])),
        "categories": copy.deepcopy(truth.dataset.get("categories", [])),
        "images": list(truth.dataset.get("images", [])),
        "annotations": numbered,
    }


def _check_results(results: RowList, data_set: Mapping[str, Any], images: Mapping[Any, Row]) -> None:
    """Check the images and categories of results, and find images by the names of their files.

    Categories are those of `category_id`, as in pycocotools; a warning tells of a `category_name` of another one.
    """
    columns = [_COLUMNS["results", "image_id"]]
    names = {}
    if "categories" in data_set and "caption" not in results.rows[0]:
        names = {row["id"]: row.get("name") for row in data_set["categories"]}
        columns.append(_COLUMNS["results", "category_id"])
    for note in find_images(results, list(images.values())):
        if note.is_doubtful:
            warn(note.text)
    results.check(columns)
    message = unknown_id(results, "image_id", images)
    if message:
        raise ValueError(message)
    _warn_of(unknown_id(results, "category_id", names))
    for position, row in enumerate(results.rows if names else ()):
        name = names.get(row["category_id"])
        if name is not None and row.get("category_name") not in (None, name):
            rule = f"the name of the `category_id`, {name!r}, which counts,"
            warn(str(results.invalid(position, "category_name", rule)))
            break


def _warn_of(message: str) -> None:
    """Warn of something in which pycocotools is followed, unless there is nothing to be said."""
    if message:
        warn(message)
