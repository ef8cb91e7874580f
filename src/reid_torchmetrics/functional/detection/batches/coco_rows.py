"""The rows of COCO's files of results and of data sets, with boxes, masks, keypoints and rotated boxes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import torch

from reid_torchmetrics._files import readable
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional.detection.inputs import RunLengths, checked_masks, to_xywh

from .checks import LISTS
from .images import Images, NumberedImages

Row: TypeAlias = Mapping[str, Any]

_LEAST_AREA = torch.finfo(torch.float32).tiny
"""stands for the area 0 of a file in dicts, where 0 means none: the ranges and overlaps are the same"""
_LEAST_BOXES = 10  # of results, that all can be two corners
_MOST_SHOWN, _MOST_IDS = 60, 5  # characters of a value, and ids, in a message
_SWAPPED = (
    "; of `detect` the first file is the data set, the second the detections, and of `coco_to_tm` it is the other way"
    " round"
)
_DTYPES = dict.fromkeys(("labels", "iscrowd", "num_keypoints"), torch.int64) | {"difficult": torch.bool}
_WIDTHS = {"boxes": 4, "rotated_boxes": 5}


def image_dict(**columns: Sequence[Any]) -> dict[str, Any]:
    """The dict of an image for `update`, from a list for each key: of numbers, of flags, or of boxes."""
    tensors = {}
    for key, values in columns.items():
        tensor = torch.tensor(values, dtype=_DTYPES.get(key, torch.float64), device="cpu")
        tensors[key] = tensor.view(-1, _WIDTHS[key]) if key in _WIDTHS and not values else tensor
    return tensors


def write_coco(numbered: NumberedImages, name: str, kept: Sequence[Any] = (), *, has_boxes: bool = True) -> None:
    """Write images to `{name}_preds.json`, a list of results, and `{name}_target.json`, a data set.

    `kept` are of each image more columns of its results and of its annotations, such as masks; without `has_boxes`
    results have no `bbox`.
    """
    images = numbered.images
    ids = numbered.numbers if images.image_ids is None else images.image_ids
    boxes = {"bbox": to_xywh(images.detection_boxes, images.detection_format).tolist()} if has_boxes else {}
    results = _rows(
        image_id=ids.repeat_interleave(images.detection_counts).tolist(),
        category_id=images.detection_labels.tolist(),
        **boxes,
        score=images.detection_scores.tolist(),
    )
    data_set = _data_set(images, ids)
    for rows, of_images in zip((results, data_set["annotations"]), zip(*kept, strict=True), strict=bool(kept)):
        for row, more in zip(rows, chain.from_iterable(of_images), strict=True):
            row.update(more)
    for image, sides in zip(data_set["images"], kept, strict=bool(kept)):
        sizes = [row["segmentation"]["size"] for row in chain(*sides) if "segmentation" in row]
        if sizes:
            image["height"], image["width"] = sizes[0]
    for side, content in (("preds", results), ("target", data_set)):
        Path(f"{name}_{side}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")


def _data_set(images: Images, ids: torch.Tensor) -> dict[str, Any]:
    labels, names = sorted({*images.detection_labels.tolist(), *images.ground_truth_labels.tolist()}), images.names()
    return {
        "info": {},  # some versions of COCO's API read it
        "images": _rows(id=ids.tolist(), **({} if names is None else {"file_name": names})),
        "categories": _rows(id=labels, name=[*map(str, labels)]),
        "annotations": _rows(
            id=range(1, len(images.ground_truth_labels) + 1),  # 0 means unmatched to COCO's API
            image_id=ids.repeat_interleave(images.ground_truth_counts).tolist(),
            category_id=images.ground_truth_labels.tolist(),
            bbox=images.ground_truth_boxes.tolist(),
            area=[area if area > _LEAST_AREA else 0 for area in images.ground_truth_areas.tolist()],
            iscrowd=images.ground_truth_crowds.int().tolist(),
        ),
    }


def _rows(**columns: Sequence[Any]) -> list[dict[str, Any]]:
    """A dict for each row of a table, by the names of the columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def read_coco(
    results_path: str, data_set_path: str, iou_type: Sequence[str], *, is_federated: bool, guesses: list[str] | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read detections and ground truths of each image, in the order of the data set, for `DetectionMAP.update`.

    With `is_federated` images have LVIS' lists of classes, and annotations without area are left out. Where
    results have the `file_name` of images without suffix as `image_id`, they get the ids, and `guesses` a line.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: a result in an image that the data set does not have, a row without a box where boxes are read, an
            id that is neither an int nor, of an image, a str, a negative area, or polygons in an image without size.
    """
    results, data_set = parsed(results_path), parsed(data_set_path)
    detections = _objects(results_path, results)
    images, annotations = (_objects(data_set_path, data_set, name) for name in ("images", "annotations"))
    for image in images:
        _check_image(image, data_set_path, is_federated=is_federated)
    if is_federated:  # to lvis-api an object without area is none
        annotations = [row | {"iscrowd": row.get("ignore", 0)} for row in annotations if row.get("area", 1) != 0]
    _find_images(detections, results_path, images, guesses)
    categories = dict.fromkeys(each["id"] for each in data_set.get("categories", []))
    detected = _by_image(detections, results_path, images, categories)
    true = _by_image(annotations, data_set_path, images, categories)
    # Results of masks have boxes only where these are evaluated; COCO's API takes areas of results from them.
    has_boxes, has_true_boxes = "bbox" in iou_type, tuple(iou_type) != ("segm",)
    if has_true_boxes:
        _check_boxes(annotations, data_set_path)
    if has_boxes:
        _add_boxes(detections, {image["id"]: image for image in images})
        _check_boxes(detections, results_path)
        _warn_of_corners(detections, results_path, images)
    preds, target = [], []
    for image in images:
        boxes, objects = detected[image["id"]], true[image["id"]]
        scores = [row.get("score", 0) for row in boxes]
        preds.append(_columns(boxes, image, iou_type, has_boxes=has_boxes, scores=scores))
        more = {"num_keypoints": [*map(_num_keypoints, objects)]} if "keypoints" in iou_type else {}
        more["iscrowd"] = [row.get("iscrowd", 0) for row in objects]
        more["area"] = [max(row["area"], _LEAST_AREA) if "area" in row else 0 for row in objects]
        target.append(_columns(objects, image, iou_type, has_boxes=has_true_boxes, **more))
        target[-1] |= {"image_id": image["id"]} | {name: image[name] for name in LISTS if is_federated}
    return preds, target


def parsed(path: str | PathLike[str]) -> Any:
    """What a file of JSON holds.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: it holds something else.
    """
    try:
        return json.loads(readable(path).read_text(encoding="utf-8"))
    except ValueError as error:  # of the text, or of its encoding
        raise ValueError(f"`{path}` must be a file of JSON; got {error}.") from error


def _objects(path: str, content: Any, name: str | None = None) -> list[dict[str, Any]]:
    """The objects that a file lists, or that it lists by a name."""
    rows = content if name is None else content.get(name) if isinstance(content, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        rule = "a list of objects" if name is None else f"`{name}`, a list of objects"
        also = _SWAPPED if name is None and isinstance(content, dict) else ""
        raise ValueError(f"`{path}` must hold {rule}; got {_shortened(content)}{also}.")
    return rows


def _check_image(image: Row, path: str, *, is_federated: bool) -> None:
    """Raise unless an image has an id, and LVIS' lists of classes if the evaluation is federated, else none."""
    if "id" not in image:
        raise ValueError(f"`{path}` must have an `id` of every image; got {_shortened(image)}.")
    for name in LISTS:
        labels = image.get(name)
        if is_federated and not (isinstance(labels, list) and all(map(_is_whole, labels))):
            came = f"{_shortened(labels)} in image {image['id']!r}"
            raise ValueError(f"`{path}` must have `{name}`, a list of ids, in every image; got {came}.")
        if labels and not is_federated:  # COCO's rules would count what nobody annotated as wrong
            came = f"`{name}` of image {image['id']!r}; `LvisMAP` reads it, and `--evaluator lvis`"
            raise ValueError(f"`{path}` must be annotated in full, as COCO is and LVIS is not; got {came}.")


def _find_images(rows: Sequence[dict[str, Any]], path: str, images: Sequence[Row], guesses: list[str] | None) -> None:
    """Give results the ids of their images where all have names of files without suffix, as Ultralytics writes them.

    It writes a name of digits as an integer: integers are names where not all are ids, and all are names.

    Raises:
        ValueError: a name of several images.
    """
    ids = {image["id"] for image in images}
    names = [row.get("image_id") for row in rows]
    stems = [(PurePath(str(image["file_name"])).stem, image["id"]) for image in images if "file_name" in image]
    by_name: dict[Any, list[Any]] = {}
    for stem, number in stems:
        by_name.setdefault(stem, []).append(number)
        if stem.isdecimal():
            by_name.setdefault(int(stem), []).append(number)
    are_texts = all(isinstance(name, str) and name not in ids for name in names)
    are_numbers = all(isinstance(name, int) and name in by_name for name in names) and not ids.issuperset(names)
    if not names or not (are_texts or are_numbers):
        return
    for row in rows:
        fitting = by_name.get(row["image_id"], [row["image_id"]])
        if len(fitting) > 1:
            came = f"{row['image_id']!r}, the `file_name` without suffix of images {_listed(fitting)}"
            raise ValueError(f"`{path}` must have an `image_id` of one image; got {came}.")
        (row["image_id"],) = fitting
    if guesses is not None:
        guesses.append(f"{path}: `image_id` as `file_name` without suffix")


def _by_image(rows: list[Any], path: str, images: list[Any], categories: Collection[Any]) -> dict[Any, list[Row]]:
    """The rows of each image by its id, checked."""
    by_image: dict[Any, list[Row]] = {image["id"]: [] for image in images}
    of_data_set = (
        ("image_id", None, by_image.__contains__, _OF_IMAGES),
        ("category_id", 0, categories.__contains__ if categories else _is_whole, _OF_CATEGORIES),
    )
    # A field of all rows at a time: files have rows by the hundred thousand.
    for key, default, is_kept, rule in (*_FIELDS, *of_data_set):
        are_kept = [*map(is_kept, [row.get(key, default) for row in rows])]
        if not all(are_kept):
            wrong = rows[are_kept.index(False)]
            value, ids = wrong.get(key), _listed(categories if key == "category_id" else by_image)
            also = "; are yours counted from 0?" if key == "category_id" and value == 0 else "."
            came = rule.format(value=value, image=wrong.get("image_id"), ids=ids)
            raise ValueError(f"`{path}` must have {came}{also}")
    for row in rows:
        by_image[row["image_id"]].append(row)
    return by_image


def _is_whole(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and value % 1 == 0)


def _is_id(value: object) -> bool:
    return isinstance(value, (str, int)) or _is_whole(value)


def _is_box(value: object) -> bool:  # `bbox: []` stands for none
    return not value or (isinstance(value, list) and len(value) == 4 and {*map(type, value)} <= {int, float})


_FIELDS: tuple[tuple[str, Any, Callable[[Any], bool], str], ...] = (
    ("bbox", None, _is_box, "four numbers as `bbox`; got {value!r} for image {image!r}"),
    ("score", 0, lambda score: isinstance(score, (int, float)), "numbers as `score`; got {value!r}"),
    ("image_id", None, _is_id, "whole numbers or names as `image_id`; got {value!r}"),
    ("category_id", 0, _is_whole, "whole numbers as `category_id`; got {value!r}"),
    ("area", 0, lambda area: not area < 0, "areas of at least 0; got {value!r} for image {image!r}"),
)
"""fields of rows: what is read where a row lacks it, what it may be, and how a message says it"""
_OF_IMAGES = "boxes of images of the data set only; got one of image {value!r}; ids of the data set: {ids}"
_OF_CATEGORIES = (
    "a `category_id` of the data set's `categories`; got {value!r} in image {image!r}; ids of the data set: {ids}"
)


def _listed(ids: Iterable[object]) -> str:
    """The first ids, for a message."""
    first = [*map(repr, islice(ids, _MOST_IDS + 1))]
    return ", ".join(first[:_MOST_IDS] + ["..."] * (len(first) > _MOST_IDS)) or "none"


def _shortened(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _add_boxes(results: Iterable[dict[str, Any]], images: Mapping[Any, Row]) -> None:
    """Give results without a box the box of their mask, as COCO's API does."""
    bare = [row for row in results if not row.get("bbox") and row.get("segmentation")]
    masks = [run_lengths(row, images[row["image_id"]]) for row in bare]
    for row, (_, box) in zip(bare, areas_and_boxes(masks), strict=True):
        row["bbox"] = box


def areas_and_boxes(masks: Sequence[Row]) -> list[tuple[int, list[float]]]:
    """The pixels of each mask, and the box around them; masks are run lengths of images of any sizes."""
    by_size: dict[tuple[int, ...], list[int]] = {}
    for place, mask in enumerate(masks):
        by_size.setdefault(tuple(mask["size"]), []).append(place)
    measured: dict[int, tuple[int, list[float]]] = {}
    for places in by_size.values():
        counted = checked_masks("segmentation", RunLengths.from_coco([masks[place] for place in places]))
        pairs = zip(counted.areas.long().tolist(), counted.boxes().tolist(), strict=True)
        measured.update(zip(places, pairs, strict=True))
    return [measured[place] for place in range(len(masks))]


def _check_boxes(rows: Iterable[Row], path: str) -> None:
    for row in rows:
        if not row.get("bbox"):
            came = "a mask alone" if "segmentation" in row else "the keys " + ", ".join(row)
            raise ValueError(f"`{path}` must have a `bbox` in every row; got {came} for image {row['image_id']!r}.")


def _warn_of_corners(rows: Sequence[Row], path: str, images: Iterable[Row]) -> None:
    """Warn if boxes of results are corners beyond doubt: read as sizes one in ten leaves its image, as corners none."""
    sizes = {image["id"]: [image.get(name) for name in ("width", "height")] for image in images}
    sizes = {number: size for number, size in sizes.items() if all(isinstance(side, int) for side in size)}
    known = [(*row["bbox"], *sizes[row["image_id"]]) for row in rows if row["image_id"] in sizes]
    if len(known) < _LEAST_BOXES or not all(x <= a <= w + 1 and y <= b <= h + 1 for x, y, a, b, w, h in known):
        return
    num_out = sum(x + a > w + 1 or y + b > h + 1 for x, y, a, b, w, h in known)
    if 10 * num_out >= len(known):
        warn(f"`{path}` seems to have corners as `bbox`: {num_out} of {len(known)} boxes leave their image otherwise.")


def _columns(
    rows: Sequence[Row], image: Row, iou_type: Sequence[str], *, has_boxes: bool, **more: Sequence[Any]
) -> dict[str, Any]:
    """What an image has of detections and of ground truths alike, and `more` of one of them."""
    if has_boxes:
        more["boxes"] = [row["bbox"] for row in rows]
    if "rotated" in iou_type:
        more["rotated_boxes"] = [_given(row, "rotated_box") for row in rows]
        if (lengths := {*map(len, more["rotated_boxes"])}) not in (set(), {5}, {8}):
            came = f"{' and '.join(map(str, sorted(lengths)))} for image {image['id']!r}"
            raise ValueError(f"`rotated_box` must have 5 numbers, or 8, in every row of an image; got {came}.")
    columns = image_dict(labels=[row.get("category_id", 0) for row in rows], **more)
    if "segm" in iou_type:
        columns["masks"] = [run_lengths(row, image) for row in rows]
    if "keypoints" in iou_type:
        points = torch.tensor([_given(row, "keypoints") for row in rows], dtype=torch.float64, device="cpu")
        columns["keypoints"] = points.view(len(rows), -1, 3) if rows else points
    return columns


def _num_keypoints(row: Row) -> int:
    """As given, else of the visible ones: COCO's API ignores objects with 0."""
    return int(row.get("num_keypoints", sum(visibility > 0 for visibility in _given(row, "keypoints")[2::3])))


def _given(row: Row, key: str) -> Any:
    if key not in row:
        raise ValueError(f"`{key}` must be in every row; got the keys {', '.join(row)} for image {row['image_id']!r}.")
    return row[key]


def run_lengths(row: Row, image: Row) -> dict[str, Any]:
    """The mask of a row as run lengths in any form, of its box where it has no mask.

    Raises:
        ValueError: neither, or an image without height and width where the mask is polygons or a box.
    """
    segmentation = row.get("segmentation")
    if "bbox" in row and (segmentation is None or not len(segmentation)):  # corners in the order of COCO's API
        x, y, width, height = row["bbox"]
        segmentation = [[x, y, x, y + height, x + width, y + height, x + width, y]]
    if isinstance(segmentation, Mapping):
        return dict(segmentation)
    if segmentation is None:
        came = f"the keys {', '.join(row)} in image {row['image_id']!r} for annotation {row.get('id', 'without an id')}"
        raise ValueError(f"`annotations` must have a `segmentation` or a `bbox`; got {came}.")
    if not {"height", "width"} <= image.keys():
        raise ValueError(f"`images` must have height and width where masks are polygons; got {dict(image)!r}.")
    return RunLengths.from_polygons([segmentation], (image["height"], image["width"])).to_coco()[0]


def read_frequencies(path: str, letters: Collection[str]) -> dict[int, str]:
    """The frequency of each category of LVIS' data set by its id.

    Raises:
        ValueError: the file has no `categories`, or one without a whole `id` or with another frequency.
    """
    rows = _objects(path, parsed(path), "categories")
    for row in rows:
        if not _is_whole(row.get("id")) or row.get("frequency") not in letters:
            names = ", ".join(map(repr, letters))
            raise ValueError(f"`{path}` must have an `id` and a `frequency` of {names}; got {_shortened(row)}.")
    return {int(row["id"]): row["frequency"] for row in rows}
