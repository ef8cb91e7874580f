"""A data set in COCO's format, or results on one."""

from __future__ import annotations

import copy
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics._extras import require
from reid_torchmetrics.functional.detection.batches import areas_and_boxes, parsed, run_lengths
from reid_torchmetrics.functional.detection.inputs import RunLengths

Row: TypeAlias = dict[str, Any]
Ids: TypeAlias = Any
"""an id, or a sequence of ids"""

_MOST_SHOWN = 3  # ids in a message


class COCO:
    """A data set of images, categories and annotations, with the methods of pycocotools' class of this name.

    It prints nothing. Attributes are `dataset`, the parsed file; `anns`, `imgs` and `cats`, its rows by id; `imgToAnns`
    and `catToImgs`. After an assignment to `dataset`, `createIndex` makes the others.

    Args:
        annotation_file: path of a file in COCO's format, or what such a file holds; None for a data set without images.

    Raises:
        OSError: there is no such file, or it cannot be read.
        ValueError: a file that holds no dict, or rows without an `id`, or annotations without an `image_id`.
    """

    def __init__(self, annotation_file: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> None:
        self.dataset: Any = _content({} if annotation_file is None else annotation_file)
        if not isinstance(self.dataset, Mapping):
            came = type(self.dataset).__name__
            also = "; `loadRes` reads results" if isinstance(self.dataset, list) else ""
            raise ValueError(f"`annotation_file` must hold a data set of COCO, an object; got a {came}{also}.")  # noqa: TRY004
        self.createIndex()

    def createIndex(self) -> None:
        """Make the other attributes from `dataset`."""
        listed = {name: self.dataset.get(name, []) for name in ("annotations", "images", "categories")}
        by_id = ({_given(row, "id", name): row for row in rows} for name, rows in listed.items())
        self.anns, self.imgs, self.cats = by_id
        self.imgToAnns: dict[Any, list[Row]] = defaultdict(list)
        self.catToImgs: dict[Any, list[Any]] = defaultdict(list)
        for row in listed["annotations"]:
            self.imgToAnns[_given(row, "image_id", "annotations")].append(row)
            if "category_id" in row:
                self.catToImgs[row["category_id"]].append(row["image_id"])

    def info(self) -> None:
        """Print what the data set says of itself."""
        for key, value in self.dataset.get("info", {}).items():
            print(f"{key}: {value}")  # noqa: T201

    def getAnnIds(
        self, imgIds: Ids = (), catIds: Ids = (), areaRng: Sequence[float] = (), iscrowd: bool | None = None
    ) -> list[Any]:
        """Ids of the annotations of some images and categories, with an area between two ends, crowds or not."""
        images, categories = _listed(imgIds), {*_listed(catIds)}
        of_images = [row for image in images for row in self.imgToAnns.get(image, ())]
        rows = of_images if images else self.dataset.get("annotations", [])
        return [
            row["id"]
            for row in rows
            if (not categories or row["category_id"] in categories)
            and (not len(areaRng) or areaRng[0] < row["area"] < areaRng[1])
            and (iscrowd is None or row["iscrowd"] == iscrowd)
        ]

    def getCatIds(self, catNms: Ids = (), supNms: Ids = (), catIds: Ids = ()) -> list[Any]:
        """Ids of the categories with some names, supercategories and ids."""
        wanted = {"name": _listed(catNms), "supercategory": _listed(supNms), "id": _listed(catIds)}
        rows = self.dataset.get("categories", [])
        return [row["id"] for row in rows if all(not some or row[key] in some for key, some in wanted.items())]

    def getImgIds(self, imgIds: Ids = (), catIds: Ids = ()) -> list[Any]:
        """Ids of the images among some that have annotations of all of some categories."""
        images, categories = _listed(imgIds), _listed(catIds)
        if not images and not categories:
            return [*self.imgs]
        sets = [{*images}] if images else []
        return [*set.intersection(*sets, *({*self.catToImgs.get(each, ())} for each in categories))]

    def loadAnns(self, ids: Ids = ()) -> list[Row]:
        """The annotations with some ids."""
        return [self.anns[each] for each in _listed(ids)]

    def loadCats(self, ids: Ids = ()) -> list[Row]:
        """The categories with some ids."""
        return [self.cats[each] for each in _listed(ids)]

    def loadImgs(self, ids: Ids = ()) -> list[Row]:
        """The images with some ids."""
        return [self.imgs[each] for each in _listed(ids)]

    def loadRes(self, resFile: str | os.PathLike[str] | list[Row] | NDArray[Any]) -> COCO:
        """Results on the images of this data set, as a data set of their own.

        Its annotations are copies of the results, with ids from 1 on, boxes and areas: of the box where the first
        result has one, else of the mask or around the keypoints.

        Args:
            resFile: a list of dicts of `image_id`, `category_id`, `score`, and `bbox`, `segmentation` or `keypoints`;
                the path of such a file; or an array [results, 7] of image, x, y, width, height, score and category.

        Raises:
            OSError: there is no such file, or it cannot be read.
            IndexError: no results, as in pycocotools; what calls it catches that.
            ValueError: no list, or a result of an image that the data set does not have.
        """
        rows = self.loadNumpyAnnotations(resFile) if isinstance(resFile, np.ndarray) else _content(resFile)
        if not isinstance(rows, list):
            also = ": is it the data set?" if isinstance(rows, Mapping) else "."
            raise ValueError(f"`resFile` must hold a list of results; got a {type(rows).__name__}{also}")  # noqa: TRY004
        if not rows:
            raise IndexError("`resFile` must hold at least one result; got an empty list.")
        for row in rows:
            if row.get("image_id") not in self.imgs:
                first = ", ".join(map(repr, islice(self.imgs, _MOST_SHOWN))) or "none"
                came = f"{row.get('image_id')!r}; ids of the data set begin with {first}"
                raise ValueError(f"`resFile` must hold results of images of the data set; got {came}.")
        results, numbered = COCO(), [row | {"id": number} for number, row in enumerate(rows, start=1)]
        kind = next((each for each in _FILLED if len(rows[0].get(each, ()))), None)
        if kind is not None:
            _FILLED[kind](numbered)
        copied = {name: copy.deepcopy(self.dataset.get(name, [])) for name in ("info", "categories")}
        results.dataset = copied | {"images": [*self.dataset.get("images", [])], "annotations": numbered}
        results.createIndex()
        return results

    @staticmethod
    def loadNumpyAnnotations(data: NDArray[Any]) -> list[Row]:
        """Results from an array [results, 7], see `loadRes`.

        Raises:
            ValueError: another shape.
        """
        if data.ndim != 2 or data.shape[1] != 7:
            raise ValueError(f"`data` must have shape [results, 7]; got {[*data.shape]}.")
        return [
            {"image_id": int(image), "bbox": box, "score": score, "category_id": int(category)}
            for image, *box, score, category in data.tolist()
        ]

    def download(self, tarDir: str | None = None, imgIds: Ids = ()) -> None:
        """Raise: nothing is downloaded.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("`download` must not be called: nothing is downloaded; get images by `coco_url`.")

    def showAnns(self, anns: Sequence[Row], draw_bbox: bool = False) -> None:  # noqa: FBT002 - theirs
        """Draw masks, keypoints and, if asked for, boxes into the current axes of Matplotlib; print captions.

        Colors are those of Matplotlib's cycle, where pycocotools draws them by chance.

        Raises:
            ModuleNotFoundError: Matplotlib is not installed.
            ValueError: an annotation with neither a mask, keypoints nor a caption.
        """
        for ann in anns:
            if not {"segmentation", "keypoints", "caption"} & ann.keys():
                rule = "must have a `segmentation`, `keypoints` or a `caption`"
                raise ValueError(f"`anns` {rule}; got the keys {[*ann]} of annotation {ann.get('id')!r}.")
        for ann in anns:
            if "caption" in ann:
                print(ann["caption"])  # noqa: T201 - as pycocotools
            else:
                self._draw(ann, draw_bbox=draw_bbox)

    def _draw(self, ann: Row, *, draw_bbox: bool) -> None:
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
            axes.imshow(np.dstack([np.full((*mask.shape, 3), to_rgb(color)), mask / 2]))  # clear elsewhere
        for corners in [] if isinstance(segmentation, Mapping) else segmentation:
            points = np.reshape(corners, (-1, 2))
            axes.add_patch(Polygon(points, facecolor=(*to_rgb(color), 0.4), edgecolor=color, linewidth=2))
        x, y, visible = np.reshape(ann.get("keypoints", []), (-1, 3)).T
        for ends in np.array(self.cats.get(ann.get("category_id"), {}).get("skeleton", []), dtype=int) - 1:
            if len(x) and (visible[ends] > 0).all():
                axes.plot(x[ends], y[ends], color=color, linewidth=3)
        axes.plot(x[visible > 0], y[visible > 0], "o", color=color, markersize=8, markeredgecolor="black")
        if draw_bbox:
            left, top, width, height = ann["bbox"]
            axes.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=color, linewidth=2))

    def annToRLE(self, ann: Row) -> Row:
        """The mask of an annotation, also of polygons: its `size` and `counts`, bytes in COCO's compressed form."""
        lengths = mask_of(ann, self.imgs)
        if isinstance(lengths["counts"], (str, bytes)):
            return lengths
        (lengths,) = RunLengths.from_coco([lengths]).to_coco(compressed=True)
        return {**lengths, "counts": lengths["counts"].encode()}

    def annToMask(self, ann: Row) -> NDArray[np.uint8]:
        """The mask of an annotation as pixels, 0 or 1, [height, width]."""
        return RunLengths.from_coco([mask_of(ann, self.imgs)]).to_masks()[0].numpy().astype(np.uint8)


def mask_of(annotation: Row, images: Mapping[Any, Row]) -> Row:
    """The mask of an annotation as run lengths, in any form, or its box as a mask; images by id."""
    return run_lengths(annotation, images.get(annotation["image_id"], {}))


def _content(source: Any) -> Any:
    """What a file of JSON holds, or what such a file would hold as it is."""
    return parsed(source) if isinstance(source, (str, os.PathLike)) else source


def _listed(ids: Ids) -> list[Any]:
    return [*ids] if hasattr(ids, "__len__") and hasattr(ids, "__iter__") and not isinstance(ids, str) else [ids]


def _given(row: Row, key: str, name: str) -> Any:
    if key not in row:
        raise ValueError(f"`{name}` must have an `{key}` in every row; got {row!r}.")
    return row[key]


def _fill_boxes(rows: list[Row]) -> None:
    for row in rows:
        row["area"], row["iscrowd"] = row["bbox"][2] * row["bbox"][3], 0


def _fill_masks(rows: list[Row]) -> None:
    measured = areas_and_boxes([row["segmentation"] for row in rows])
    for row, (area, box) in zip(rows, measured, strict=True):
        row["area"], row["iscrowd"] = area, 0
        row.setdefault("bbox", box)


def _fill_keypoints(rows: list[Row]) -> None:
    for row in rows:
        x, y = row["keypoints"][0::3], row["keypoints"][1::3]
        left, top, width, height = min(x), min(y), max(x) - min(x), max(y) - min(y)
        row |= {"area": width * height, "bbox": [left, top, width, height]}


_FILLED = {"bbox": _fill_boxes, "segmentation": _fill_masks, "keypoints": _fill_keypoints}
"""for the shape that the first result has, the function that gives all of them boxes and areas"""
