"""YOLO's files: for each image a text file of ground truths, and one of detections, a line for each object."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks

_NUM_BOX, _LEAST_POLYGON = 4, 6  # numbers of a box, and of a polygon of three corners
_BOTH_SIDES = 2

Dicts = list[dict[str, Any]]


def read_yolo(
    results: str | PathLike[str],
    labels: str | PathLike[str],
    *,
    image_sizes: tuple[int, int] | Mapping[str, tuple[int, int]] | None = None,
) -> tuple[Dicts, Dicts]:
    """Read detections and ground truths of each image, by ascending name, as `DetectionMAP.update` takes them.

    A line of `labels` is the class, and center, width and height as shares of the image's; a line of `results` has the
    confidence behind them. In place of a box may be the corners of a polygon, x and y each: their bounding box is read.
    Boxes are given as corners, `box_format="xyxy"`. An image may have a file in one folder only, for there are no files
    without objects. Source of the formats: Ultralytics' documentation of its data sets, and `save_txt=True` with
    `save_conf=True` of its `predict`.

    Args:
        results: folder of text files, named like the images.
        labels: folder of text files, named like the images.
        image_sizes: width and height of all images, or of each by its name, in pixels, in which boxes are given then.
            None leaves them as shares, which has the same overlaps, but no areas that COCO's ranges could mean.

    Returns:
        For each image `boxes`, `scores` and `labels`, float64 and int64, and `boxes`, `labels` and `image_id`, the name
        of the image, a str.

    Raises:
        FileNotFoundError: a folder that does not exist.
        TypeError: `image_sizes` are neither a pair of sizes nor such pairs by name.
        ValueError: a line that is not as it must be, which is named with its file, or an image without a size.
    """
    found, true = _by_name(results), _by_name(labels)
    names = sorted({*found, *true})
    preds, target = [], []
    for name in names:
        size = _size(image_sizes, name)
        boxes, classes, confidences = _read("results", found.get(name), size, has_confidence=True)
        preds.append({"boxes": boxes, "scores": confidences, "labels": classes})
        boxes, classes, _ = _read("labels", true.get(name), size, has_confidence=False)
        target.append({"boxes": boxes, "labels": classes, "image_id": name})
    return preds, target


def _by_name(folder: str | PathLike[str]) -> dict[str, Path]:
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}.")
    return {path.stem: path for path in Path(folder).iterdir() if path.suffix == ".txt"}


def _size(sizes: tuple[int, int] | Mapping[str, tuple[int, int]] | None, name: str) -> tuple[int, int]:
    if sizes is None:
        return 1, 1
    if isinstance(sizes, Mapping):
        if name not in sizes:
            raise ValueError(f"`image_sizes` must have the size of each image; got none of {name!r}.")
        sizes = sizes[name]
    _checks.positive_ints("image_sizes", sizes, distinct=False)
    if len(sizes) != _BOTH_SIDES:
        raise ValueError(f"`image_sizes` must be width and height; got {sizes!r}.")
    return sizes


def _read(
    argument: str, path: Path | None, size: tuple[int, int], *, has_confidence: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Corners, classes and confidences of an image, of none where there is no file."""
    boxes, classes, confidences = [], [], []
    lines = [] if path is None else path.read_text(encoding="utf-8").splitlines()
    for place, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            label, *shares = line.split()
            classes.append(int(label))
            numbers = [float(share) for share in shares]
            confidences.append(numbers.pop() if has_confidence else 1.0)
            boxes.append(_corners(numbers))
        except (ValueError, IndexError):
            wanted = "a class, a box or polygon" + (" and a confidence" if has_confidence else "")
            raise ValueError(f"`{argument}` must have {wanted} in a line; got {line!r}, {path}:{place}.") from None
    corners = torch.tensor(boxes, dtype=torch.float64, device="cpu").view(-1, 4)
    return (
        corners * torch.tensor([*size, *size], dtype=torch.float64, device="cpu"),
        torch.tensor(classes, dtype=torch.int64, device="cpu"),
        torch.tensor(confidences, dtype=torch.float64, device="cpu"),
    )


def _corners(numbers: list[float]) -> list[float]:
    """Left, top, right and bottom of a box or of a polygon, as shares."""
    if len(numbers) == _NUM_BOX:
        x, y, width, height = numbers
        return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    if len(numbers) < _LEAST_POLYGON or len(numbers) % 2:
        raise ValueError(numbers)
    return [min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])]
