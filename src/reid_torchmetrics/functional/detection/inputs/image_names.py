"""Names of images, as tensors for the states of a metric: the bytes of all names, and the length of each.

The bytes are UTF-8, which orders names like Python's `str`, by code points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments

NAME_BYTES, NAME_LENGTHS = "image_name_bytes", "image_name_lengths"
_STATES_OF_KINDS = {"int": "image_ids", "str": NAME_LENGTHS}  # with a row for each image
_WORD = 8  # bytes of int64
_WHOLE_FLOATS = 2.0**53  # below it floats are as far apart as ints


def plain_id(value: Any) -> Any:
    """An `image_id` as an int or a str: whole floats below 2^53 and paths; anything else as it came."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_FLOATS:
        return int(value)
    return str(value) if isinstance(value, PurePath) else value


def name_images(image: Int[Tensor, " images"], names: Sequence[str] | None) -> list[int | str]:
    """The names of images by their numbers; the numbers or ids themselves without names."""
    numbers = image.tolist()
    return numbers if names is None else [names[number] for number in numbers]


class ImageRows:
    """Rows that each belong to an image."""

    image: Int[Tensor, " rows"]
    image_names: tuple[str, ...] | None

    @property
    def image_ids(self) -> list[int | str]:
        """`image`, as names if images have names."""
        return name_images(self.image, self.image_names)


def pack_names(names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The bytes of all names, uint8, and the number of bytes of each, int64.

    Lone surrogates, as in names of files that are no text, are packed, too.
    """
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    packed = torch.from_numpy(np.frombuffer(b"".join(encoded), dtype=np.uint8).copy())
    return packed, torch.tensor([len(each) for each in encoded], dtype=torch.int64, device="cpu")


def unpack_names(packed: Tensor, lengths: Tensor) -> list[str]:
    """The inverse of `pack_names`; more bytes may follow."""
    data, edges = packed.cpu().numpy().tobytes(), segments.edges(lengths).tolist()
    return [data[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(edges)]


def number_names(names: Sequence[str]) -> tuple[tuple[str, ...], Tensor]:
    """The distinct names, ascending, and the place among them of each name, int64."""
    distinct = sorted({*names})
    places = {name: place for place, name in enumerate(distinct)}
    return tuple(distinct), torch.tensor([places[name] for name in names], dtype=torch.int64, device="cpu")


def num_words(num_bytes: int) -> int:
    """Number of int64 for a number of bytes."""
    return -(-num_bytes // _WORD)


def as_words(packed: Tensor) -> Tensor:
    """Bytes as int64, padded with zeros."""
    words = torch.zeros(num_words(len(packed)), dtype=torch.int64, device=packed.device)
    words.view(torch.uint8)[: len(packed)] = packed
    return words


def kind_of_ids(states: Mapping[str, Any]) -> str | None:
    """Whether images have ids of kind "int" or "str", given the states with their rows; None without ids."""
    return next((kind for kind, name in _STATES_OF_KINDS.items() if name in states and len(states[name])), None)


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


def check_same_ids(preds: Sequence[Mapping[str, Any]], target: Sequence[Mapping[str, Any]]) -> None:
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
