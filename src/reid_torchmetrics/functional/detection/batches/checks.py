"""Checks of a batch of images with boxes: they go image by image, so they can say which one is wrong.

`metrics.detection.packing` runs them only on a batch that its checks of all images at once found wrong. Where
TorchMetrics has a check, too, the error is of its type and begins with its words, which users may match; the rest is
ours.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

BOX_DTYPES = (
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)
LABEL_DTYPES = BOX_DTYPES[4:]
SCORE_DTYPES = BOX_DTYPES[:4]
FLAG_DTYPES = (*BOX_DTYPES, torch.bool)
_FEW = 1 << 7  # numbers that are listed in less time than their ends are found
_REQUIRED = {"preds": ("boxes", "scores", "labels"), "target": ("boxes", "labels")}


def check_lengths(preds: object, target: object) -> None:
    """Raise unless both are sequences of one item for each image."""
    for argument, items in (("preds", preds), ("target", target)):
        if isinstance(items, (str, bytes)) or not isinstance(items, Sequence):
            raise ValueError(f"Expected argument `{argument}` to be of type Sequence; got {type(items).__name__}.")  # noqa: TRY004
    if len(preds) != len(target):  # type: ignore[arg-type]
        raise ValueError(
            "Expected argument `preds` and `target` to have the same length, one dict for each image;"
            f" got {len(preds)} and {len(target)}."  # type: ignore[arg-type]
        )


def check_each_image(
    preds: Sequence[Mapping[str, object]],
    target: Sequence[Mapping[str, object]],
    box_format: str,
    *,
    any_detected: bool = False,
) -> None:
    """Raise for the first image that lacks a key or has no tensor there, else for the first that is wrong otherwise.

    With `any_detected` boxes of `preds` may hold any values.
    """
    for argument, items in (("preds", preds), ("target", target)):
        check_keys(argument, items, _REQUIRED[argument])
    for argument, items in (("preds", preds), ("target", target)):
        _check_tensors(argument, items)
    device: torch.device | None = None
    for position, items in enumerate(zip(preds, target, strict=True)):
        for name, item in zip((f"preds[{position}]", f"target[{position}]"), items, strict=True):
            is_found = name.startswith("preds")
            looked_at = None if any_detected and is_found else box_format
            device = _check_image(name, item, looked_at, device, has_scores=is_found)
    check_all_or_none(["image_id" in item for item in target])
    for position, item in enumerate(target):
        if "image_id" in item:
            image_id(position, item["image_id"])


def check_keys(argument: str, items: Sequence[Mapping[str, object]], keys: Sequence[str]) -> None:
    """Raise unless all images are dicts with some keys."""
    for position, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise TypeError(f"`{argument}[{position}]` must be a dict of tensors; got {type(item).__name__}.")
    for key in keys:
        for position, item in enumerate(items):
            if key not in item:
                raise ValueError(
                    f"Expected all dicts in `{argument}` to contain the `{key}` key;"
                    f" got `{argument}[{position}]` with the keys {', '.join(map(str, item)) or 'of an empty dict'}."
                )


def _check_tensors(argument: str, items: Sequence[Mapping[str, object]]) -> None:
    for key in _REQUIRED[argument]:
        for position, item in enumerate(items):
            if not isinstance(item[key], Tensor):
                raise ValueError(  # noqa: TRY004 - as in TorchMetrics
                    f"Expected all {key} in `{argument}` to be of type Tensor;"
                    f" got {type(item[key]).__name__} in `{argument}[{position}]['{key}']`."
                )
            check_dense(f"{argument}[{position}]['{key}']", item[key])


def check_dense(name: str, value: Any) -> None:
    """Raise unless a tensor holds its values as one block."""
    if value.is_nested or value.layout != torch.strided:
        kind = "nested" if value.is_nested else "sparse"
        raise TypeError(f"`{name}` must be a dense tensor; got a {kind} one.")


def check_held(name: str, value: Tensor) -> None:
    """Raise unless a tensor holds values, and as one block."""
    check_dense(name, value)
    if value.is_meta:
        raise TypeError(f"`{name}` must have values; got a meta tensor.")


def check_all_or_none(given: Sequence[bool]) -> None:
    """Raise if only some images of a batch have an `image_id`."""
    if len(set(given)) > 1:
        name = f"target[{given.index(False)}]['image_id']"
        raise ValueError(f"`{name}` must be given because `target` gives it elsewhere; got nothing.")


def check_all_names(ids: Sequence[object]) -> None:
    """Raise if only some images of a batch have an `image_id` that is a str."""
    are_names = [isinstance(value, str) for value in ids]
    if len(set(are_names)) > 1:
        place = are_names.index(not are_names[0])
        wanted = "a str" if are_names[0] else "an int"
        raise TypeError(
            f"`target[{place}]['image_id']` must be {wanted} like `target[0]['image_id']`; got {ids[place]!r}."
        )


def image_id(position: int, value: object) -> int | Tensor | str:
    """The `image_id` of an image, as an int, as a tensor of one int or as a name.

    Raises:
        TypeError: it is none of these, or a tensor without values.
        ValueError: several ints, or one that does not fit int64.
    """
    if isinstance(value, str):
        return value
    name = f"target[{position}]['image_id']"
    if isinstance(value, Tensor):
        check_held(name, value)
    if isinstance(value, Tensor) and value.numel() == 1 and value.dtype in LABEL_DTYPES:
        return value.reshape(1)
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise ValueError(f"`{name}` must be one int; got {_shape(value)}.")
        raise TypeError(f"`{name}` must have an integer dtype; got {value.dtype}.")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"`{name}` must be an int, a tensor of one int or a str; got {type(value).__name__}.") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"`{name}` must fit int64; got {number}.")
    return number


def check_flags(key: str, target: Sequence[Mapping[str, Any]], device: torch.device) -> None:
    """Raise unless the images that have a key have a flag there for each ground truth."""
    for position, item in enumerate(target):
        if item.get(key) is not None:
            name = f"target[{position}]['{key}']"
            _check_column(name, item[key], item["labels"], (*LABEL_DTYPES, torch.bool), "an integer or bool dtype")
            _check_device(name, item[key], device)


def check_crowds(target: Sequence[Mapping[str, Any]]) -> None:
    """Raise unless the crowds of all images, which are right otherwise, are 0 or 1."""
    for position, item in enumerate(target):
        if item.get("iscrowd") is not None:
            _check_crowds(f"target[{position}]['iscrowd']", item["iscrowd"])


def _check_crowds(name: str, value: Tensor) -> None:
    if (row := _first((value != 0) & (value != 1))) is not None:
        raise ValueError(f"`{name}` must be 0 or 1; got {value[row].item()} in row {row}.")


def _check_image(
    name: str, item: Mapping[str, Any], box_format: str | None, device: torch.device | None, *, has_scores: bool
) -> torch.device | None:
    """Check one dict; returns the device of the first tensor, of all dicts, that is not empty.

    Without a format, the values of boxes are not looked at.
    """
    boxes = _check_boxes(f"{name}['boxes']", item["boxes"])
    columns: dict[str, tuple[Sequence[torch.dtype], str]] = {"labels": (LABEL_DTYPES, "an integer dtype")}
    if has_scores:
        columns["scores"] = (SCORE_DTYPES, "a floating point dtype of 16 to 64 bits")
    else:
        columns |= {key: (FLAG_DTYPES, "a real dtype") for key in ("iscrowd", "area") if item.get(key) is not None}
    # Shapes and dtypes of all first, then devices, then values: what comes first can be said without looking.
    for key, (dtypes, wanted) in columns.items():
        _check_column(f"{name}['{key}']", item[key], boxes, dtypes, wanted)
    for key in ("boxes", *columns):
        device = _check_device(f"{name}['{key}']", item[key], device)
    if box_format is not None:
        _check_finite(f"{name}['boxes']", boxes)
        _check_sizes(f"{name}['boxes']", sides_of(boxes, box_format))
    for key in ("scores", "iscrowd", "area"):
        if key in columns:
            _check_finite(f"{name}['{key}']", item[key])
    if "iscrowd" in columns:
        _check_crowds(f"{name}['iscrowd']", item["iscrowd"])
    return device


def _check_boxes(name: str, value: Tensor) -> Tensor:
    """The boxes of an image as [boxes, 4]."""
    if not value.numel():
        return value.new_empty((0, 4))
    if value.ndim != 2 or value.shape[1] != 4:
        raise ValueError(f"`{name}` must have shape [boxes, 4]; got {_shape(value)}.")
    if value.dtype not in BOX_DTYPES:
        raise TypeError(
            f"`{name}` must have an integer dtype or a floating point dtype of 16 to 64 bits; got {value.dtype}."
        )
    return value if value.is_floating_point() else value.double()


def _check_column(name: str, value: object, boxes: Tensor, dtypes: Sequence[torch.dtype], wanted: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a tensor; got {type(value).__name__}.")
    check_dense(name, value)
    if value.numel() == len(boxes) == 0:
        return
    if value.shape != (len(boxes),):
        raise ValueError(f"`{name}` must have shape [{len(boxes)}], one for each box; got {_shape(value)}.")
    if value.dtype not in dtypes:
        raise TypeError(f"`{name}` must have {wanted}; got {value.dtype}.")


def _check_device(name: str, value: Tensor, device: torch.device | None) -> torch.device | None:
    if not value.numel():
        return device
    if device not in (None, value.device):
        raise ValueError(f"`{name}` must be on the device of the other tensors, {device}; got {value.device}.")
    check_held(name, value)
    return value.device


def _check_finite(name: str, value: Tensor) -> None:
    is_wrong = ~value.isfinite()
    if (row := _first(is_wrong.any(1) if is_wrong.ndim > 1 else is_wrong)) is not None:
        raise ValueError(f"`{name}` must be finite; got {value[row].tolist()} in row {row}.")


def _check_sizes(name: str, sides: Tensor) -> None:
    if (row := _first((sides < 0).any(1))) is not None:
        came = " x ".join(f"{side:g}" for side in sides[row].tolist())
        raise ValueError(f"`{name}` must have a width and height of at least 0; got {came} in row {row}.")
    if (row := _first((~sides.isfinite()).any(1))) is not None:
        raise ValueError(f"`{name}` must have a width and height that fit {sides.dtype}; got more in row {row}.")


def _first(is_wrong: Tensor) -> int | None:
    rows = is_wrong.nonzero()[:1, 0].tolist()
    return rows[0] if rows else None


def sides_of(boxes: Tensor, box_format: str) -> Tensor:
    """Width and height of boxes as they are given."""
    return boxes[:, 2:] - boxes[:, :2] if box_format == "xyxy" else boxes[:, 2:]


def are_sound(batch: Mapping[str, Tensor], box_format: str) -> bool:
    """Whether all values are finite, no box has a negative size, and crowds are 0 or 1, if they are not yet bool.

    A NaN is the least and the largest where it is.
    """
    crowds = batch["ground_truth_crowds"]
    is_open, on_host = crowds.dtype != torch.bool and len(crowds) > 0, crowds.device.type == "cpu"
    ends = [*crowds.float().aminmax()] if is_open and not on_host else []
    num_flags = len(ends)
    for boxes in (batch["detection_boxes"], batch["ground_truth_boxes"]):
        if len(boxes):
            ends += sides_of(boxes, box_format).aminmax()
    num_sides = len(ends)
    for name in ("detection_boxes", "ground_truth_boxes", "detection_scores", "ground_truth_areas"):
        if len(batch[name]):
            ends += batch[name].aminmax()
    if not ends:
        return True
    if ends[0].dtype not in (torch.float32, torch.float64):
        ends[0] = ends[0].float()  # in float16 an area of 65536 is infinite
    values = torch.stack(ends).tolist()  # the one synchronization
    flags = _some_values(crowds) if is_open and on_host else values[:num_flags]
    return {*flags} <= {0, 1} and all(map(math.isfinite, values)) and min(values[num_flags:num_sides]) >= 0


def _some_values(flags: Tensor) -> list[Any]:
    """All values of a few, and the least and the largest of many."""
    few: list[Any] = (flags if len(flags) <= _FEW else torch.stack(flags.aminmax())).tolist()
    return few


def _shape(value: Tensor) -> str:
    return str(list(value.shape))
