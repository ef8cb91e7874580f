"""COCO's files of results and of data sets, for boxes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.metrics.detection.images import Images


def write(images: Images, name: str) -> None:
    """Write images to `{name}_preds.json`, a list of results, and `{name}_target.json`, a data set."""
    ids = range(len(images)) if images.image_ids is None else images.image_ids.tolist()
    results = [
        {"image_id": image, "category_id": label, "bbox": box, "score": score}
        for image, label, box, score in zip(
            _repeated(ids, images.detection_counts),
            images.detection_labels.tolist(),
            images.detection_boxes.tolist(),
            images.detection_scores.tolist(),
            strict=True,
        )
    ]
    Path(f"{name}_preds.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    Path(f"{name}_target.json").write_text(json.dumps(_data_set(images, ids), indent=1), encoding="utf-8")


def _data_set(images: Images, ids: Sequence[int]) -> dict[str, Any]:
    columns = zip(
        _repeated(ids, images.ground_truth_counts),
        images.ground_truth_labels.tolist(),
        images.ground_truth_boxes.tolist(),
        images.ground_truth_areas.tolist(),
        images.ground_truth_crowds.int().tolist(),
        strict=True,
    )
    annotations = [
        {"id": number, "image_id": image, "category_id": label, "bbox": box, "area": area, "iscrowd": is_crowd}
        for number, (image, label, box, area, is_crowd) in enumerate(
            columns, start=1
        )  # 0 means unmatched to COCO's API
    ]
    labels = sorted({*images.detection_labels.tolist(), *images.ground_truth_labels.tolist()})
    return {
        "info": {},  # some versions of COCO's API read it
        "images": [{"id": image} for image in dict.fromkeys(ids)],
        "categories": [{"id": label, "name": str(label)} for label in labels],
        "annotations": annotations,
    }


def _repeated(ids: Sequence[int], counts: Tensor) -> list[int]:
    return [image for image, count in zip(ids, counts.tolist(), strict=True) for _ in range(count)]


def read(results_path: str, data_set_path: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Detections and ground truths of each image of a data set, in its order, as `DetectionMAP.update` takes them.

    Raises:
        ValueError: a result is of an image that the data set does not have, or a row has no box or an id that is no
            int.
    """
    results = json.loads(Path(results_path).read_text(encoding="utf-8"))
    data_set = json.loads(Path(data_set_path).read_text(encoding="utf-8"))
    ids = [image["id"] for image in data_set["images"]]
    found: dict[int, list[Mapping[str, Any]]] = {image: [] for image in ids}
    true: dict[int, list[Mapping[str, Any]]] = {image: [] for image in ids}
    for rows, images, path in ((results, found, results_path), (data_set["annotations"], true, data_set_path)):
        for row in rows:
            _check_row(row, path)
            image = row["image_id"]
            if image not in images:
                raise ValueError(
                    f"`{path}` must have boxes of images of the data set only; got one of image {image!r}."
                )
            images[image].append(row)
    return [_detections(found[image]) for image in ids], [_ground_truths(true[image], image) for image in ids]


def _check_row(row: Mapping[str, Any], path: str) -> None:
    """Raise unless a row has a box, and ids that are ints."""
    if "bbox" not in row:
        came = "a mask alone" if "segmentation" in row else "the keys " + ", ".join(row)
        raise ValueError(f"`{path}` must have a `bbox` in every row; got {came} for image {row.get('image_id')!r}.")
    for key, value in (("image_id", row["image_id"]), ("category_id", row.get("category_id", 0))):
        if not isinstance(value, (int, float)) or value != int(value):
            raise ValueError(f"`{path}` must have whole numbers as `{key}`; got {value!r}.")


def _detections(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    return _boxes(rows) | {"scores": _column(rows, "score", torch.float64)}


def _ground_truths(rows: list[Mapping[str, Any]], image: int) -> dict[str, Any]:
    optional = {"iscrowd": _column(rows, "iscrowd", torch.int64), "area": _column(rows, "area", torch.float64)}
    return _boxes(rows) | optional | {"image_id": image}


def _boxes(rows: list[Mapping[str, Any]]) -> dict[str, Tensor]:
    boxes = torch.tensor([row["bbox"] for row in rows], dtype=torch.float64)
    return {"boxes": boxes.view(-1, 4), "labels": _column(rows, "category_id", torch.int64)}


def _column(rows: list[Mapping[str, Any]], key: str, dtype: torch.dtype) -> Tensor:
    return torch.tensor([row.get(key, 0) for row in rows], dtype=dtype)
