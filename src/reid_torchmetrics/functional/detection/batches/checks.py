"""Checks of a batch of images with boxes, image by image, so that an error names the image.

`packing` runs them only on a batch that failed its checks of all images at once. If TorchMetrics has the same check,
the error has its type and begins with its words, because users may match them.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _hints
from reid_torchmetrics._arrays import as_tensors
from reid_torchmetrics._checks import FLOATING_DTYPES, INTEGER_DTYPES

from .image_columns import Dicts, ImageColumns
from .invalid_objects import sides_of
from .key_names import KNOWN_KEYS, meant_key

BOX_DTYPES = (*FLOATING_DTYPES, *INTEGER_DTYPES)
FLAG_DTYPES = (*BOX_DTYPES, torch.bool)
_REQUIRED = {"preds": ("boxes", "scores", "labels"), "target": ("boxes", "labels")}
_LABELS = (INTEGER_DTYPES, "an integer dtype")
_COLUMNS: dict[str, dict[str, tuple[Sequence[torch.dtype], str]]] = {
    "preds": {
        "labels": _LABELS,
        "scores": (FLOATING_DTYPES, "a floating point dtype of 16 to 64 bits"),
        "detection_area": (FLAG_DTYPES, "a real dtype"),
    },
    "target": {
        "labels": _LABELS,
        "iscrowd": (FLAG_DTYPES, "a real dtype"),
        "area": (FLAG_DTYPES, "a real dtype"),
    },
}
"""columns of each argument beside the boxes, with their dtypes; columns that are not required may be None"""
_SHAPES = ("masks", "keypoints", "rotated_boxes")
_KEYS = (*_REQUIRED["preds"], *_SHAPES, "iscrowd", "area", "detection_area", "difficult", "num_keypoints", "image_id")


def with_tensors(preds: Dicts, target: Dicts) -> tuple[Any, Any, bool]:
    """Replace arrays and lists in dicts by tensors on the device of the first tensor; columns are tensors already.

    Returns:
        The dicts of `preds` and of `target`, and whether any value was replaced.
    """
    if isinstance(preds, ImageColumns) and isinstance(target, ImageColumns):
        return preds, target, False
    items = [dict(item) if isinstance(item, Mapping) else item for item in (*preds, *target)]
    places = []
    values = []
    for item in items:
        if not isinstance(item, dict):
            continue
        for key in _KEYS:
            if key in item:
                places.append((item, key))
                values.append(item[key])
    tensors = as_tensors(*values)
    for (item, key), tensor in zip(places, tensors, strict=True):
        item[key] = tensor
    is_new = any(map(operator.is_not, values, tensors))
    return items[: len(preds)], items[len(preds) :], is_new


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


def check_each_image(preds: Dicts, target: Dicts, box_format: str, *, any_detected: bool) -> None:
    """Raise for the first image with a missing key or tensor, else for the first with another fault.

    With `any_detected`, boxes of `preds` may hold any values.
    """
    # In TorchMetrics' order: keys of both arguments, then types, then all else.
    arguments = {"preds": preds, "target": target}
    for argument, items in arguments.items():
        check_keys(argument, items, _REQUIRED[argument])
    for argument, items in arguments.items():
        _check_tensors(argument, items)
    formats = {"preds": None if any_detected else box_format, "target": box_format}
    device: torch.device | None = None
    for position in range(len(target)):
        for argument, items in arguments.items():
            device = _check_image(argument, position, items[position], formats[argument], device)


def check_keys(argument: str, items: Sequence[Mapping[str, object]], keys: Sequence[str]) -> None:
    """Raise unless all images are dicts with these keys."""
    for position, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise TypeError(f"`{argument}[{position}]` must be a dict of tensors; got {type(item).__name__}.")
    for key, (position, item) in product(keys, enumerate(items)):
        if key not in item:
            unknown_keys = [other for other in item if other not in KNOWN_KEYS]
            similar_key = next((other for other in unknown_keys if meant_key(other, (key,))), None)
            hint = "" if similar_key is None else f"; `{similar_key}` may be meant"
            if similar_key == "class_labels":
                hint += ", beside which the boxes of DETR's targets are centers and sizes, as shares of the image"
            keys_text = _hints.listed(item, str) or "of an empty dict"
            raise ValueError(
                f"Expected all dicts in `{argument}` to contain the `{key}` key;"
                f" got `{argument}[{position}]` with the keys {keys_text}{hint}."
            )


def _check_tensors(argument: str, items: Sequence[Mapping[str, object]]) -> None:
    """Raise unless the required values of all images are dense tensors."""
    for key, (position, item) in product(_REQUIRED[argument], enumerate(items)):
        name = f"{argument}[{position}]['{key}']"
        value = item[key]
        if not isinstance(value, Tensor):
            got = type(value).__name__
            labels = value if key == "labels" and isinstance(value, (list, tuple)) else ()
            if any(isinstance(label, str) for label in labels):
                got += " of names, which must be numbered, such as `data.number_identities` does,"
            raise ValueError(  # noqa: TRY004 - as in TorchMetrics
                f"Expected all {key} in `{argument}` to be of type Tensor; got {got} in `{name}`."
            )
        check_dense(name, value)


def check_dense(name: str, value: Any) -> None:
    """Raise unless a tensor is dense."""
    if value.is_nested or value.layout != torch.strided:
        kind = "nested" if value.is_nested else "sparse"
        raise TypeError(f"`{name}` must be a dense tensor; got a {kind} one.")


def check_has_values(name: str, value: Tensor) -> None:
    """Raise unless a tensor is dense and has values."""
    check_dense(name, value)
    if value.is_meta:
        raise TypeError(f"`{name}` must have values; got a meta tensor.")


def checked_flags(key: str, target: Dicts, device: torch.device) -> Sequence[Tensor | None]:
    """Return the flags of each image, or None; raise unless images with the key have a flag for each ground truth."""
    flags = as_tensors(*(item.get(key) for item in target), device=device)
    for position, flag in enumerate(flags):
        if flag is not None:
            name = f"target[{position}]['{key}']"
            labels = target[position]["labels"]
            _check_column(name, flag, labels, (*INTEGER_DTYPES, torch.bool), "an integer or bool dtype")
            _check_device(name, flag, device)
    return flags


def check_crowds(target: Dicts) -> None:
    """Raise unless the crowds of all images are 0 or 1, after all other checks of them."""
    for position, item in enumerate(target):
        value = item.get("iscrowd")
        if value is None:
            continue
        name = f"target[{position}]['iscrowd']"
        _check_finite(name, value)
        row = _first((value != 0) & (value != 1))
        if row is not None:
            raise ValueError(f"`{name}` must be 0 or 1; got {value[row].item()} in row {row}.")


def _check_image(
    argument: str, position: int, item: Mapping[str, Any], box_format: str | None, device: torch.device | None
) -> torch.device | None:
    """Check one dict, and return the device of the first tensor of all dicts that is not empty.

    The values of boxes are not checked without a format.
    """
    columns = {key: rule for key, rule in _COLUMNS[argument].items() if item.get(key) is not None}
    names = {key: f"{argument}[{position}]['{key}']" for key in ("boxes", *columns)}
    boxes = _check_boxes(names["boxes"], item["boxes"])
    # Shapes and dtypes of all first, then devices, then values: the first two need no synchronization.
    for key, rule in columns.items():
        _check_column(names[key], item[key], boxes, *rule)
    for key, name in names.items():
        device = _check_device(name, item[key], device)
    if box_format is not None:
        _check_finite(names["boxes"], boxes)
        _check_sizes(names["boxes"], sides_of(boxes, box_format))
    for key in columns.keys() & {"scores", "area"}:
        _check_finite(names[key], item[key])
    return device


def _check_boxes(name: str, value: Tensor) -> Tensor:
    """Return the boxes of an image as [boxes, 4]; raise unless their shape and dtype fit."""
    if not value.numel():
        return value.new_empty((0, 4))
    if value.ndim != 2 or value.shape[1] != 4:
        raise ValueError(f"`{name}` must have shape [boxes, 4]; got {list(value.shape)}.")
    if value.dtype not in BOX_DTYPES:
        raise TypeError(
            f"`{name}` must have an integer dtype or a floating point dtype of 16 to 64 bits; got {value.dtype}."
        )
    return value if value.is_floating_point() else value.double()


def _check_column(name: str, value: object, boxes: Tensor, dtypes: Sequence[torch.dtype], dtype_rule: str) -> None:
    """Raise unless a column is a dense tensor of the right dtype, with a value for each box."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a tensor; got {type(value).__name__}.")
    check_dense(name, value)
    if value.numel() == len(boxes) == 0:  # `torch.tensor([])` is a float, for labels too
        return
    if value.shape != (len(boxes),):
        raise ValueError(f"`{name}` must have shape [{len(boxes)}], one for each box; got {list(value.shape)}.")
    if value.dtype not in dtypes:
        raise TypeError(f"`{name}` must have {dtype_rule}; got {value.dtype}.")


def _check_device(name: str, value: Tensor, device: torch.device | None) -> torch.device | None:
    """Return the device of a tensor with values, else `device`; raise if both are known and differ."""
    if not value.numel():
        return device
    if device not in (None, value.device):
        raise ValueError(f"`{name}` must be on the device of the other tensors, {device}; got {value.device}.")
    check_has_values(name, value)
    return value.device


def _check_finite(name: str, value: Tensor) -> None:
    """Raise for the first row with a value that is not finite."""
    is_wrong = ~value.isfinite()
    row = _first(is_wrong.any(1) if is_wrong.ndim > 1 else is_wrong)
    if row is not None:
        raise ValueError(f"`{name}` must be finite; got {value[row].tolist()} in row {row}.")


def _check_sizes(name: str, sizes: Tensor) -> None:
    """Raise for the first box with a negative width or height, else for the first with an infinite one."""
    row = _first((sizes < 0).any(1))
    if row is not None:
        got = " x ".join(f"{length:g}" for length in sizes[row].tolist())
        raise ValueError(
            f"`{name}` must have a width and height of at least 0; got {got} in row {row}, if `box_format` is right."
        )
    row = _first((~sizes.isfinite()).any(1))
    if row is not None:
        raise ValueError(f"`{name}` must have a width and height that fit {sizes.dtype}; got more in row {row}.")


def _first(is_wrong: Tensor) -> int | None:
    """Return the first row with a flag; None without any."""
    rows: list[int] = is_wrong.nonzero()[:1, 0].tolist()
    return rows[0] if rows else None
