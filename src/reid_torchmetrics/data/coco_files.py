"""COCO's files of results and of data sets, with boxes, masks, keypoints and rotated boxes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._files import readable
from reid_torchmetrics.functional.detection.batches import Images, NumberedImages
from reid_torchmetrics.functional.detection.inputs import RunLengths, checked_masks, to_xywh

KeptRows: TypeAlias = Sequence[Sequence[Mapping[str, Any]]]
"""of detections and of ground truths"""

_LEAST_AREA = torch.finfo(torch.float32).tiny
"""stands for the area 0 of a file in dicts, where 0 means none: the ranges and overlaps are the same"""
_LISTS = ("neg_category_ids", "not_exhaustive_category_ids")
_MOST_SHOWN, _MOST_IDS = 60, 5  # characters of a value, and ids, in a message
_SWAPPED = (
    "; of `detect` the first file is the data set, the second the detections, and of `coco_to_tm` it is the other way"
    " round"
)


def write(numbered: NumberedImages, name: str, kept: Sequence[KeptRows] = (), *, has_boxes: bool = True) -> None:
    """Write images to `{name}_preds.json`, a list of results, and `{name}_target.json`, a data set.

    `kept` are more columns of the rows of each image, such as masks; without `has_boxes` results have no `bbox`.
    """
    images = numbered.images
    ids = (numbered.numbers if images.image_ids is None else images.image_ids).tolist()
    boxes = {"bbox": to_xywh(images.detection_boxes, images.detection_format).tolist()} if has_boxes else {}
    results = _rows(
        image_id=_repeated(ids, images.detection_counts),
        category_id=images.detection_labels.tolist(),
        **boxes,
        score=images.detection_scores.tolist(),
    )
    data_set = _data_set(images, ids)
    for side, rows in enumerate((results, data_set["annotations"])):
        for row, more in zip(rows, (each for image in kept for each in image[side]), strict=bool(kept)):
            row.update(more)
    for image, sides in zip(data_set["images"], kept, strict=bool(kept)):
        for row in (row for side in sides for row in side if "segmentation" in row):
            image["height"], image["width"] = row["segmentation"]["size"]
    Path(f"{name}_preds.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    Path(f"{name}_target.json").write_text(json.dumps(data_set, indent=1), encoding="utf-8")


def _data_set(images: Images, ids: Sequence[int]) -> dict[str, Any]:
    annotations = _rows(
        id=range(1, len(images.ground_truth_labels) + 1),  # 0 means unmatched to COCO's API
        image_id=_repeated(ids, images.ground_truth_counts),
        category_id=images.ground_truth_labels.tolist(),
        bbox=images.ground_truth_boxes.tolist(),
        area=[area if area > _LEAST_AREA else 0 for area in images.ground_truth_areas.tolist()],
        iscrowd=images.ground_truth_crowds.int().tolist(),
    )
    labels, names = sorted({*images.detection_labels.tolist(), *images.ground_truth_labels.tolist()}), images.names()
    return {
        "info": {},  # some versions of COCO's API read it
        "images": _rows(id=ids) if names is None else _rows(id=ids, file_name=names),
        "categories": _rows(id=labels, name=[*map(str, labels)]),
        "annotations": annotations,
    }


def _rows(**columns: Sequence[Any]) -> list[dict[str, Any]]:
    """A dict for each row of a table, by the names of the columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _repeated(ids: Sequence[int], counts: Tensor) -> list[int]:
    return [image for image, count in zip(ids, counts.tolist(), strict=True) for _ in range(count)]


def read(
    results_path: str,
    data_set_path: str,
    iou_type: Sequence[str] = ("bbox",),
    *,
    is_federated: bool = False,
    guesses: list[str] | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read detections and ground truths of each image, in the order of the data set, for `DetectionMAP.update`.

    With `is_federated` images have LVIS' lists of classes, and annotations without area are left out. Where
    results have the `file_name` of images without suffix as `image_id`, they get the ids, and `guesses` a line.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: a result in an image that the data set does not have, a row without a box where boxes are read, an
            id that is neither an int nor, of an image, a str, a negative area, or polygons in an image without size.
    """
    results, data_set = _parsed(results_path), _parsed(data_set_path)
    _check_files(results, results_path, data_set, data_set_path, is_federated=is_federated)
    if is_federated:
        rows = [row for row in data_set["annotations"] if row.get("area", 1) != 0]
        data_set["annotations"] = [row | {"iscrowd": row.get("ignore", 0)} for row in rows]
    ids = [image["id"] for image in data_set["images"]]
    categories = dict.fromkeys(each["id"] for each in data_set.get("categories", []))
    _find_images(results, results_path, data_set["images"], guesses)
    detected: dict[int | str, list[Mapping[str, Any]]] = {image: [] for image in ids}
    true: dict[int | str, list[Mapping[str, Any]]] = {image: [] for image in ids}
    _checks.one_of("iou_type", iou_type[0], ("bbox", *SHAPE_READERS))
    has_boxes = "bbox" in iou_type, "segm" not in iou_type or "bbox" in iou_type
    sides = (results, detected, results_path), (data_set["annotations"], true, data_set_path)
    for (rows, images, path), has_box in zip(sides, has_boxes, strict=True):
        for row in rows:
            _check_row(row, path, has_box=has_box and not (rows is results and row.get("segmentation")))
            _check_ids(row, path, images, categories)
            images[row["image_id"]].append(row)
    if has_boxes[0]:
        _add_boxes(results, {image["id"]: image for image in data_set["images"]})
    shapes = {name: SHAPE_READERS[name] for name in iou_type if name in SHAPE_READERS}
    preds, target = [], []
    for image in data_set["images"]:
        number = image["id"]
        of_detected, of_true = (
            {key: read(rows, image) for key, read in shapes.values()} for rows in (detected[number], true[number])
        )
        preds.append(_detections(detected[number], has_boxes=has_boxes[0]) | of_detected)
        target.append(_ground_truths(true[number], number, has_boxes=has_boxes[1]) | of_true)
        if is_federated:
            target[-1] |= {name: image[name] for name in _LISTS}
        if "keypoints" in shapes:
            visible = [*map(_num_keypoints, true[number])]
            target[-1]["num_keypoints"] = torch.tensor(visible, dtype=torch.int64, device="cpu")
    return preds, target


def _find_images(
    results: Sequence[dict[str, Any]], path: str, images: Sequence[Mapping[str, Any]], guesses: list[str] | None
) -> None:
    """Give results the ids of their images where all have names of files without suffix, as Ultralytics writes them.

    Raises:
        ValueError: a name of several images.
    """
    named, ids = [row.get("image_id") for row in results], {image["id"] for image in images}
    if not all(isinstance(each, str) and each not in ids for each in named):
        return
    by_name: dict[str, list[Any]] = {}
    for image in images:
        if "file_name" in image:
            by_name.setdefault(PurePath(str(image["file_name"])).stem, []).append(image["id"])
    for row in results:
        fitting = by_name.get(row["image_id"], [row["image_id"]])
        if len(fitting) > 1:
            came = f"{row['image_id']!r}, the `file_name` without suffix of images {_listed(fitting)}"
            raise ValueError(f"`{path}` must have an `image_id` of one image; got {came}.")
        (row["image_id"],) = fitting
    if guesses is not None and named:
        guesses.append(f"{path}: `image_id` as `file_name` without suffix")


def _check_ids(row: Mapping[str, Any], path: str, images: Collection[Any], categories: Collection[Any]) -> None:
    """Raise unless a row is of an image and, if there are any, of a category of the data set."""
    image, label = row["image_id"], row.get("category_id")
    if image not in images:
        came = f"one of image {image!r}; ids of the data set: {_listed(images)}"
        raise ValueError(f"`{path}` must have boxes of images of the data set only; got {came}.")
    if categories and (0 if label is None else label) not in categories:
        came = f"{label!r} in image {image!r}; ids of the data set: {_listed(categories)}"
        also = "; are yours counted from 0?" if label == 0 else "."
        raise ValueError(f"`{path}` must have a `category_id` of the data set's `categories`; got {came}{also}")


def _listed(ids: Iterable[object]) -> str:
    """The first ids, for a message."""
    first = [*map(repr, islice(ids, _MOST_IDS + 1))]
    return ", ".join(first[:_MOST_IDS] + ["..."] * (len(first) > _MOST_IDS)) or "none"


def _parsed(path: str) -> Any:
    try:
        return json.loads(readable(path).read_text(encoding="utf-8"))
    except ValueError as error:  # of the text, or of its encoding
        raise ValueError(f"`{path}` must be a file of JSON; got {error}.") from error


def _check_files(
    results: Any, results_path: str, data_set: Any, data_set_path: str, *, is_federated: bool = False
) -> None:
    """Raise unless there are a list of results, and a data set that COCO's rules are for."""
    if not isinstance(results, list) or not all(isinstance(row, dict) for row in results):
        also = _SWAPPED if isinstance(results, dict) else ""
        raise ValueError(f"`{results_path}` must hold a list of objects; got {_shortened(results)}{also}.")
    for name in ("images", "annotations"):
        rows = data_set.get(name) if isinstance(data_set, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"`{data_set_path}` must hold `{name}`, a list of objects; got {_shortened(data_set)}.")
    for image in data_set["images"]:
        if "id" not in image:
            raise ValueError(f"`{data_set_path}` must have an `id` of every image; got {_shortened(image)}.")
        federated = [name for name in _LISTS if image.get(name)]
        for name in _LISTS if is_federated else ():
            labels = image.get(name)
            if not isinstance(labels, list) or not all(map(_is_whole, labels)):
                came = f"{_shortened(labels)} in image {image['id']!r}"
                raise ValueError(f"`{data_set_path}` must have `{name}`, a list of ids, in every image; got {came}.")
        if federated and not is_federated:
            came = f"`{federated[0]}` of image {image['id']!r}; `LvisMAP` reads it, and `--evaluator lvis`"
            raise ValueError(f"`{data_set_path}` must be annotated in full, as COCO is and LVIS is not; got {came}.")


def frequencies(path: str, letters: Collection[str]) -> dict[int, str]:
    """The frequency of each category of LVIS' data set by its id.

    Raises:
        ValueError: the file has no `categories`, or one without a whole `id` or with another frequency.
    """
    data_set = _parsed(path)
    rows = data_set.get("categories") if isinstance(data_set, dict) else None
    if not isinstance(rows, list):
        raise ValueError(f"`{path}` must hold `categories`, a list of objects; got {_shortened(data_set)}.")  # noqa: TRY004
    for row in rows:
        if not isinstance(row, dict) or not _is_whole(row.get("id")) or row.get("frequency") not in letters:
            names = ", ".join(map(repr, letters))
            raise ValueError(f"`{path}` must have an `id` and a `frequency` of {names}; got {_shortened(row)}.")
    return {int(row["id"]): row["frequency"] for row in rows}


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _check_row(row: Mapping[str, Any], path: str, *, has_box: bool) -> None:
    """Raise unless a row has a box, if boxes are read, and ids that are ints; the image's may be a str."""
    if has_box and not row.get("bbox"):
        came = "a mask alone" if "segmentation" in row else "the keys " + ", ".join(row)
        raise ValueError(f"`{path}` must have a `bbox` in every row; got {came} for image {row.get('image_id')!r}.")
    box = row.get("bbox") or [0] * 4
    if not isinstance(box, list) or len(box) != 4 or not all(isinstance(each, (int, float)) for each in box):
        raise ValueError(f"`{path}` must have four numbers as `bbox`; got {box!r} for image {row.get('image_id')!r}.")
    if not isinstance(row.get("score", 0), (int, float)):
        raise ValueError(f"`{path}` must have numbers as `score`; got {row['score']!r}.")  # noqa: TRY004 - of a file
    image, label = row.get("image_id"), row.get("category_id", 0)
    if not isinstance(image, str) and not _is_whole(image):
        raise ValueError(f"`{path}` must have whole numbers or names as `image_id`; got {image!r}.")
    if not _is_whole(label):
        raise ValueError(f"`{path}` must have whole numbers as `category_id`; got {label!r}.")
    if row.get("area", 0) < 0:
        raise ValueError(f"`{path}` must have areas of at least 0; got {row['area']!r} for image {image!r}.")


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, float)) and value == int(value)


def _add_boxes(results: list[dict[str, Any]], images: Mapping[Any, Mapping[str, Any]]) -> None:
    """Give results without a box the box of their mask, as COCO's API does."""
    for row in results:
        if not row.get("bbox"):
            masks = RunLengths.from_coco([_of_polygons(row["segmentation"], images[row["image_id"]])])
            row["bbox"] = checked_masks("segmentation", masks).boxes()[0].tolist()


def _run_lengths(rows: list[Mapping[str, Any]], image: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The masks of an image, as dicts of run lengths."""
    return [_of_polygons(_segmentation(row), image) for row in rows]


def _segmentation(row: Mapping[str, Any]) -> Any:
    """A row's own, or its box as a polygon, in the order of COCO's API."""
    if row.get("segmentation") or "bbox" not in row:
        return _given(row, "segmentation")
    x, y, width, height = row["bbox"]
    return [[x, y, x, y + height, x + width, y + height, x + width, y]]


def _given(row: Mapping[str, Any], key: str) -> Any:
    if key not in row:
        raise ValueError(f"`{key}` must be in every row; got the keys {', '.join(row)} for image {row['image_id']!r}.")
    return row[key]


def _of_polygons(segmentation: Any, image: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(segmentation, Mapping):
        return dict(segmentation)
    if not {"height", "width"} <= image.keys():
        raise ValueError(f"`images` must have height and width where masks are polygons; got {dict(image)!r}.")
    size = image["height"], image["width"]
    return RunLengths.from_polygons([segmentation], size).to_coco()[0]


def _keypoints(rows: list[Mapping[str, Any]], image: Mapping[str, Any]) -> Tensor:  # noqa: ARG001
    """The keypoints of an image, [objects, keypoints, 3]."""
    listed = [torch.tensor(_given(row, "keypoints"), dtype=torch.float64, device="cpu").view(-1, 3) for row in rows]
    return torch.stack(listed) if listed else torch.empty(0, dtype=torch.float64, device="cpu")


def _num_keypoints(row: Mapping[str, Any]) -> int:
    """The number in the row, else the number of visible keypoints: COCO's API ignores objects with 0."""
    return int(row.get("num_keypoints", sum(visibility > 0 for visibility in row["keypoints"][2::3])))


def _rotated_boxes(rows: list[Mapping[str, Any]], image: Mapping[str, Any]) -> Tensor:  # noqa: ARG001
    """The rotated boxes of an image, [objects, 5]."""
    return torch.tensor([_given(row, "rotated_box") for row in rows], dtype=torch.float64, device="cpu").view(-1, 5)


SHAPE_READERS = {
    "segm": ("masks", _run_lengths),
    "keypoints": ("keypoints", _keypoints),
    "rotated": ("rotated_boxes", _rotated_boxes),
}
"""for each `iou_type` but boxes the key of the dicts, and the function that reads its values from rows"""


def _detections(rows: list[Mapping[str, Any]], *, has_boxes: bool) -> dict[str, Any]:
    return _boxes(rows, has_boxes=has_boxes) | {"scores": _column(rows, "score", torch.float64)}


def _ground_truths(rows: list[Mapping[str, Any]], image: int | str, *, has_boxes: bool) -> dict[str, Any]:
    areas = [max(row["area"], _LEAST_AREA) if "area" in row else 0 for row in rows]
    area = torch.tensor(areas, dtype=torch.float64, device="cpu")
    optional = {"iscrowd": _column(rows, "iscrowd", torch.int64), "area": area, "image_id": image}
    return _boxes(rows, has_boxes=has_boxes) | optional


def _boxes(rows: list[Mapping[str, Any]], *, has_boxes: bool) -> dict[str, Any]:
    labels = {"labels": _column(rows, "category_id", torch.int64)}
    if not has_boxes:  # results of masks have none
        return labels
    return {"boxes": _column(rows, "bbox", torch.float64).view(-1, 4)} | labels


def _column(rows: list[Mapping[str, Any]], key: str, dtype: torch.dtype) -> Tensor:
    return torch.tensor([row.get(key, 0) for row in rows], dtype=dtype, device="cpu")
