"""The `image_id` of each image of a batch: ints or names, checked and packed, and of one kind in all batches."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import pack_names, plain_id

from .checks import check_has_values
from .unsound import Dicts

NAME_BYTES, NAME_LENGTHS = "image_name_bytes", "image_name_lengths"
_STATES_OF_KINDS = {"int": "image_ids", "str": NAME_LENGTHS}  # with a row for each image


def kind_of_ids(states: Mapping[str, Any]) -> str | None:
    """Whether images have ids of kind "int" or "str", given the states with their rows; None without ids."""
    rows = {kind: states.get(name) for kind, name in _STATES_OF_KINDS.items()}
    return next((kind for kind, values in rows.items() if values is not None and len(values)), None)


def check_kind(batch: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    """Raise unless the ids of a batch are of the kind in all batches before it.

    Raises:
        ValueError: only the batch or only earlier batches have ids, or their kinds differ.
    """
    given, before = kind_of_ids(batch), kind_of_ids(states)
    _checks.given_throughout("image_id", given=given is not None, given_before=before is not None)
    if given != before:
        raise ValueError(
            f"`image_id` must be an int in every batch or a str in every batch; got {given} after batches of {before}."
        )


def joined_ids(columns: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
    """The columns of ids among all columns of a metric; None for a column without rows.

    Raises:
        ValueError: only some of merged metrics were given `image_id`, or some as an int and others as a str.
    """
    counts = {kind: len(columns[name]) for kind, name in _STATES_OF_KINDS.items()}
    if all(counts.values()):
        came = " and ".join(f"{kind} for {count}" for kind, count in counts.items())
        raise ValueError(f"`image_id` must be an int for all samples or a str for all; got {came}.")
    if any(counts.values()):
        _checks.given_for_all("image_id", sum(counts.values()), len(columns["detection_counts"]))
    kinds = {"image_ids": "int", NAME_BYTES: "str", NAME_LENGTHS: "str"}
    return {name: columns[name] if counts[kind] else None for name, kind in kinds.items()}


def pack_ids(preds: Dicts, target: Dicts, device: torch.device) -> dict[str, Tensor]:
    """The ids of the images of a batch, or their names, as states on a device; nothing without ids.

    Raises:
        TypeError: an id of another type, a tensor without values, or ints and names.
        ValueError: only some images have an id, detections have another one than the ground truths, several ints, or
            one that does not fit int64.
    """
    given: list[Any] = [item.get("image_id") for item in target]
    ids, kinds = given, {*map(type, given)}
    if kinds == {type(None)}:
        return {}
    if kinds != {str} and (kinds != {int} or min(ids) < -(2**63) or max(ids) >= 2**63):  # else they need no other look
        given = [*map(plain_id, given)]
        ids = [_checked_id(f"target[{position}]['image_id']", value) for position, value in enumerate(given)]
        kinds = {*map(type, ids)}
    _check_same_ids(preds, target)
    if type(None) in kinds:
        name = f"target[{ids.index(None)}]['image_id']"
        raise ValueError(f"`{name}` must be given because `target` gives it elsewhere; got nothing.")
    if any(issubclass(kind, str) for kind in kinds):
        _check_all_names(given)
        packed = zip((NAME_BYTES, NAME_LENGTHS), pack_names(ids), strict=True)
        return {name: values.to(device, non_blocking=True) for name, values in packed}
    if not any(issubclass(kind, Tensor) for kind in kinds):
        return {"image_ids": torch.tensor(ids, dtype=torch.int64, device="cpu").to(device, non_blocking=True)}
    tensors = [torch.as_tensor(value, device=getattr(value, "device", "cpu")).view(1) for value in ids]
    if len({tensor.device for tensor in tensors}) > 1:
        tensors = [tensor.to(device) for tensor in tensors]
    return {"image_ids": torch.cat(tensors).to(device, torch.int64, non_blocking=True)}


def _check_same_ids(preds: Dicts, target: Dicts) -> None:
    """Raise if detections have another `image_id` than the ground truths; ids on a device are not compared."""
    named = [place for place, item in enumerate(preds) if "image_id" in item and "image_id" in target[place]]
    for position in named:
        given, wanted = (_on_host(items[position]["image_id"]) for items in (preds, target))
        if given != wanted and None not in (given, wanted):
            raise ValueError(
                f"`preds[{position}]['image_id']` must be that of `target[{position}]`, {wanted!r}; got {given!r}."
            )


def _on_host(value: Any) -> Any:
    """An `image_id`; None if it is on a device, or malformed, a case for other checks."""
    if not isinstance(value, Tensor):
        return plain_id(value)
    return value.item() if value.numel() == 1 and value.device.type == "cpu" else None


def _check_all_names(ids: Sequence[object]) -> None:
    are_names = [isinstance(value, str) for value in ids]
    if len(set(are_names)) > 1:
        place = are_names.index(not are_names[0])
        wanted = "a str" if are_names[0] else "an int"
        raise TypeError(
            f"`target[{place}]['image_id']` must be {wanted} like `target[0]['image_id']`; got {ids[place]!r}."
        )


def _checked_id(name: str, value: Any) -> int | Tensor | str | None:
    """A name, an int of Python or NumPy, or a tensor of one; None for no id."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Tensor):
        check_has_values(name, value)
        if value.numel() != 1:
            raise ValueError(f"`{name}` must be one int; got {list(value.shape)}.")
        if value.dtype not in _checks.INTEGER_DTYPES:
            raise TypeError(f"`{name}` must have an integer dtype; got {value.dtype}.")
        return value.reshape(1)
    try:
        number = operator.index(value)
    except TypeError:
        came = repr(value) if isinstance(value, float) else type(value).__name__
        raise TypeError(
            f"`{name}` must be an int, a whole float below 2^53, a tensor of one int, a str or a path; got {came}."
        ) from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"`{name}` must fit int64; got {number}.")
    return number
