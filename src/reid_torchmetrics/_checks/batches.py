"""Checks of a batch of images with boxes: they go image by image, so they can say which one is wrong.

`metrics._boxes` runs them only on a batch that its checks of all images at once found wrong.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from reid_torchmetrics._checks.kinds import kind

BOX_DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)
LABEL_DTYPES = BOX_DTYPES[4:]
SCORE_DTYPES = BOX_DTYPES[:4]
FLAG_DTYPES = (*BOX_DTYPES, torch.bool)


def same_number_of_images(preds: object, target: object) -> None:
    """Raise unless both are sequences of one item for each image."""
    for argument, items in (("preds", preds), ("target", target)):
        if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
            raise TypeError(f"`{argument}` must be a list with one dict for each image; got {kind(items)}.")
    if len(preds) != len(target):  # type: ignore[arg-type]
        raise ValueError(
            f"`preds` and `target` must have one dict for each image; got {len(preds)} and {len(target)}."  # type: ignore[arg-type]
        )


def each_image(preds: Sequence[object], target: Sequence[object], box_format: str) -> None:
    """Raise for the first image, and of it the first key, that is wrong."""
    device: torch.device | None = None
    for position, items in enumerate(zip(preds, target, strict=True)):
        for name, item in zip((f"preds[{position}]", f"target[{position}]"), items, strict=True):
            device = _image(name, item, box_format, device, has_scores=name.startswith("preds"))
    numbered = [item for item in target if isinstance(item, Mapping) and "image_id" in item]
    all_or_no_image(["image_id" in item for item in target if isinstance(item, Mapping)])
    for position, item in enumerate(numbered):
        image_number(position, item["image_id"])


def all_or_no_image(given: Sequence[bool]) -> None:
    """Raise if only some images of a batch have an `image_id`."""
    if len(set(given)) > 1:
        missing = f"target[{given.index(False)}]"
        raise ValueError(f"`{missing}['image_id']` must be given because `target` gives it elsewhere; got nothing.")


def image_number(position: int, value: object) -> int | Tensor:
    """The `image_id` of an image, as an int or as a tensor of one int.

    Raises:
        TypeError: it is neither.
        ValueError: several ints, or one that does not fit int64.
    """
    if isinstance(value, Tensor) and value.numel() == 1 and value.dtype in LABEL_DTYPES:
        return value.reshape(1)
    name = f"target[{position}]['image_id']"
    if isinstance(value, Tensor):
        if value.dtype not in LABEL_DTYPES:
            raise TypeError(f"`{name}` must have an integer dtype; got {value.dtype}.")
        raise ValueError(f"`{name}` must be one int; got {_shape(value)}.")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"`{name}` must be an int or a tensor of one int; got {kind(value)}.") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"`{name}` must fit int64; got {number}.")
    return number


def _image(
    name: str, item: object, box_format: str, device: torch.device | None, *, has_scores: bool
) -> torch.device | None:
    """Check one dict; returns the device of the first tensor, of all dicts, that is not empty."""
    if not isinstance(item, Mapping):
        raise TypeError(f"`{name}` must be a dict of tensors; got {kind(item)}.")
    for key in ("boxes", "scores", "labels") if has_scores else ("boxes", "labels"):
        if key not in item:
            raise ValueError(f"`{name}` must have the key {key!r}; got {list(item)}.")
    boxes = _boxes(f"{name}['boxes']", item["boxes"])
    columns = {"labels": (LABEL_DTYPES, "an integer dtype")}
    if has_scores:
        columns["scores"] = (SCORE_DTYPES, "a floating point dtype of 16 to 64 bits")
    else:
        columns |= {key: (FLAG_DTYPES, "a real dtype") for key in ("iscrowd", "area") if item.get(key) is not None}
    for key, (dtypes, wanted) in columns.items():
        _column(f"{name}['{key}']", item[key], boxes, dtypes, wanted)
    for key in ("boxes", *columns):
        device = _device(f"{name}['{key}']", item[key], device)
    _values(name, boxes, item["scores"] if has_scores else None, box_format)
    return device


def _boxes(name: str, value: object) -> Tensor:
    """The boxes of an image as [boxes, 4]."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a tensor; got {kind(value)}.")
    if not value.numel():
        return value.new_empty((0, 4))
    if value.ndim != 2 or value.shape[1] != 4:  # noqa: PLR2004
        raise ValueError(f"`{name}` must have shape [boxes, 4]; got {_shape(value)}.")
    if value.dtype not in BOX_DTYPES:
        raise TypeError(
            f"`{name}` must have an integer dtype or a floating point dtype of 16 to 64 bits; got {value.dtype}."
        )
    return value


def _column(name: str, value: object, boxes: Tensor, dtypes: Sequence[torch.dtype], wanted: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a tensor; got {kind(value)}.")
    if value.numel() == len(boxes) == 0:
        return
    if value.shape != (len(boxes),):
        raise ValueError(f"`{name}` must have shape [{len(boxes)}], one for each box; got {_shape(value)}.")
    if value.dtype not in dtypes:
        raise TypeError(f"`{name}` must have {wanted}; got {value.dtype}.")


def _device(name: str, value: Tensor, device: torch.device | None) -> torch.device | None:
    if not value.numel():
        return device
    if device not in (None, value.device):
        raise ValueError(f"`{name}` must be on the device of the other tensors, {device}; got {value.device}.")
    return value.device


def _values(name: str, boxes: Tensor, scores: Tensor | None, box_format: str) -> None:
    if not len(boxes):
        return
    bad = (~boxes.isfinite()).any(1).nonzero()[:, 0].tolist()
    if bad:
        raise ValueError(f"`{name}['boxes']` must be finite; got {boxes[bad[0]].tolist()} in row {bad[0]}.")
    sides = sides_of(boxes, box_format)
    bad = (~(sides >= 0)).any(1).nonzero()[:, 0].tolist()
    if bad:
        came = " x ".join(f"{side:g}" for side in sides[bad[0]].tolist())
        raise ValueError(f"`{name}['boxes']` must have a width and height of at least 0; got {came} in row {bad[0]}.")
    bad = (~sides.isfinite()).any(1).nonzero()[:, 0].tolist()
    if bad:
        raise ValueError(f"`{name}['boxes']` must have a width and height that fit {sides.dtype}; got row {bad[0]}.")
    bad = [] if scores is None else (~scores.isfinite()).nonzero()[:, 0].tolist()
    if bad:
        raise ValueError(f"`{name}['scores']` must be finite; got {float(scores[bad[0]])} in row {bad[0]}.")  # type: ignore[index]


def sides_of(boxes: Tensor, box_format: str) -> Tensor:
    """Width and height of boxes as they are given."""
    return boxes[:, 2:] - boxes[:, :2] if box_format == "xyxy" else boxes[:, 2:]


def _shape(value: Tensor) -> str:
    return str(list(value.shape))
