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
from .image_columns import Dicts, ImageColumns, values_of

NAME_BYTES = "image_name_bytes"
NAME_LENGTHS = "image_name_lengths"
_STATES_OF_KINDS = {"int": "image_ids", "str": NAME_LENGTHS}
"""for each kind of ids, the state with a row for each image"""
_INT64 = range(-(2**63), 2**63)


def kind_of_ids(states: Mapping[str, Any]) -> str | None:
    """Return the kind of the ids in the states of a metric, "int" or "str"; None without ids."""
    for kind, name in _STATES_OF_KINDS.items():
        rows = states.get(name)
        if rows is not None and len(rows):
            return kind
    return None


def check_kind(batch: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    """Raise unless the ids of a batch are of the same kind as in all earlier batches.

    Raises:
        ValueError: only the batch or only earlier batches have ids, or their kinds differ.
    """
    kind = kind_of_ids(batch)
    earlier_kind = kind_of_ids(states)
    _checks.given_throughout("image_id", given=kind is not None, given_before=earlier_kind is not None)
    if kind != earlier_kind:
        raise ValueError(
            "`image_id` must be an int in every batch or a str in every batch;"
            f" got {kind} after batches of {earlier_kind}."
        )


def joined_ids(columns: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
    """Return the columns of ids among all columns of a metric, with None for a column without rows.

    Raises:
        ValueError: only some of merged metrics were given `image_id`, or some as an int and others as a str.
    """
    counts = {kind: len(columns[name]) for kind, name in _STATES_OF_KINDS.items()}
    if all(counts.values()):
        got = " and ".join(f"{kind} for {count}" for kind, count in counts.items())
        raise ValueError(f"`image_id` must be an int for all samples or a str for all; got {got}.")
    if any(counts.values()):
        _checks.given_for_all("image_id", sum(counts.values()), len(columns["detection_counts"]))
    joined: dict[str, Tensor | None] = dict.fromkeys(("image_ids", NAME_BYTES, NAME_LENGTHS))
    if counts["int"]:
        joined["image_ids"] = columns["image_ids"]
    if counts["str"]:
        joined[NAME_BYTES] = columns[NAME_BYTES]
        joined[NAME_LENGTHS] = columns[NAME_LENGTHS]
    return joined


def pack_ids(preds: Dicts, target: Dicts, device: torch.device) -> dict[str, Tensor]:
    """Return the ids or names of the images of a batch as states on a device; nothing without ids.

    Raises:
        TypeError: an id of another type, a tensor without values, or ints and names.
        ValueError: only some images have an id, detections have another one than the ground truths, several ints, or
            one that does not fit int64.
    """
    values = values_of(target, "image_id")
    ids = values
    types = set(map(type, values))
    if types == {type(None)}:
        return {}
    # Most batches have strings or ints alone, which need no further check.
    is_plain = types == {str} or (types == {int} and min(ids) in _INT64 and max(ids) in _INT64)
    if not is_plain:
        values = list(map(plain_id, values))
        ids = [_checked_id(f"target[{position}]['image_id']", value) for position, value in enumerate(values)]
        types = set(map(type, ids))
    _check_same_ids(preds, target)

    if type(None) in types:
        name = f"target[{ids.index(None)}]['image_id']"
        raise ValueError(f"`{name}` must be given because `target` gives it elsewhere; got nothing.")
    if any(issubclass(kind, str) for kind in types):
        _check_all_names(values)
        name_bytes, name_lengths = pack_names(ids)
        return {
            NAME_BYTES: name_bytes.to(device, non_blocking=True),
            NAME_LENGTHS: name_lengths.to(device, non_blocking=True),
        }
    if not any(issubclass(kind, Tensor) for kind in types):
        return {"image_ids": torch.tensor(ids, dtype=torch.int64, device="cpu").to(device, non_blocking=True)}
    tensors = [torch.as_tensor(value, device=getattr(value, "device", "cpu")).view(1) for value in ids]
    if len({tensor.device for tensor in tensors}) > 1:
        tensors = [tensor.to(device) for tensor in tensors]
    return {"image_ids": torch.cat(tensors).to(device, torch.int64, non_blocking=True)}


def _check_same_ids(preds: Dicts, target: Dicts) -> None:
    """Raise if detections have another `image_id` than the ground truths; ids on a device are not compared."""
    if isinstance(preds, ImageColumns) and "image_id" not in preds.keys:
        return
    for position, item in enumerate(preds):
        if "image_id" not in item or "image_id" not in target[position]:
            continue
        detection_id = _on_host(item["image_id"])
        true_id = _on_host(target[position]["image_id"])
        if detection_id is not None and true_id is not None and detection_id != true_id:
            raise ValueError(
                f"`preds[{position}]['image_id']` must be that of `target[{position}]`, {true_id!r};"
                f" got {detection_id!r}."
            )


def _on_host(value: Any) -> Any:
    """Return an `image_id`; None if it is on a device, or malformed, as other checks say."""
    if not isinstance(value, Tensor):
        return plain_id(value)
    if value.numel() == 1 and value.device.type == "cpu":
        return value.item()
    return None


def _check_all_names(ids: Sequence[object]) -> None:
    """Raise unless all ids are names, or none is."""
    are_names = [isinstance(value, str) for value in ids]
    if len(set(are_names)) > 1:
        position = are_names.index(not are_names[0])
        kind = "a str" if are_names[0] else "an int"
        raise TypeError(
            f"`target[{position}]['image_id']` must be {kind} like `target[0]['image_id']`; got {ids[position]!r}."
        )


def _checked_id(name: str, value: Any) -> int | Tensor | str | None:
    """Return a name, an int of Python or NumPy, or a tensor of one; None for no id."""
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
        got = repr(value) if isinstance(value, float) else type(value).__name__
        raise TypeError(
            f"`{name}` must be an int, a whole float below 2^53, a tensor of one int, a str or a path; got {got}."
        ) from None
    if number not in _INT64:
        raise ValueError(f"`{name}` must fit int64; got {number}.")
    return number
