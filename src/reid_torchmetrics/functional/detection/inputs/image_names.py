"""What images are called.

Names of images, as the states of a metric hold them: states are tensors, so names are bytes and lengths.

The bytes are those of UTF-8, in which names have the order of Python's `str`: that of their code points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks


def name_images(image: Int[Tensor, " images"], names: Sequence[str] | None) -> list[int | str]:
    """The names of images by their numbers; the numbers or ids themselves where there are no names."""
    numbers = image.tolist()
    return numbers if names is None else [names[number] for number in numbers]


NAME_BYTES, NAME_LENGTHS = "image_name_bytes", "image_name_lengths"
_STATES_OF_KINDS = {"int": "image_ids", "str": NAME_LENGTHS}  # with a row for each image
_WORD = 8  # bytes of int64


def pack_names(names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """The bytes of all names, uint8, and the number of bytes of each, int64.

    Names with lone surrogates, which stand for what is no text in names of files, are packed, too.
    """
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    data = bytearray().join(encoded)
    packed = (
        torch.frombuffer(data, dtype=torch.uint8).clone() if data else torch.empty(0, dtype=torch.uint8, device="cpu")
    )
    return packed, torch.tensor([len(each) for each in encoded], dtype=torch.int64, device="cpu")


def unpack_names(packed: Tensor, lengths: Tensor) -> list[str]:
    """What `pack_names` was given; behind its bytes may be others."""
    data, names, end = packed.cpu().numpy().tobytes(), [], 0
    for length in lengths.tolist():
        names.append(data[end : end + length].decode("utf-8", "surrogatepass"))
        end += length
    return names


def number_names(names: Sequence[str]) -> tuple[tuple[str, ...], Tensor]:
    """The distinct names, ascending, and the place among them of each name, int64."""
    distinct = sorted({*names})
    places = {name: place for place, name in enumerate(distinct)}
    return tuple(distinct), torch.tensor([places[name] for name in names], dtype=torch.int64, device="cpu")


def num_words(num_bytes: int) -> int:
    """How many int64 hold so many bytes."""
    return -(-num_bytes // _WORD)


def as_words(packed: Tensor) -> Tensor:
    """Bytes as int64, with zeros behind them."""
    words = torch.zeros(num_words(len(packed)), dtype=torch.int64, device=packed.device)
    words.view(torch.uint8)[: len(packed)] = packed
    return words


def kind_of_ids(states: Mapping[str, Any]) -> str | None:
    """Whether images have ids that are "int" or "str", given the states that they add to or that hold them."""
    return next((kind for kind, name in _STATES_OF_KINDS.items() if name in states and len(states[name])), None)


def check_kind(added: Mapping[str, Any], held: Mapping[str, Any]) -> None:
    """Raise unless a batch has ids as those before it had.

    Raises:
        ValueError: it has, and they had not, or the other way round, or its ids are of another kind.
    """
    given, before = kind_of_ids(added), kind_of_ids(held)
    _checks.given_throughout("image_id", given=given is not None, given_before=before is not None)
    if given != before:
        raise ValueError(
            f"`image_id` must be an int in every batch or a str in every batch; got {given} after batches of {before}."
        )


def joined_ids(columns: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
    """The columns of ids, given all that a metric holds; None for those without rows.

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
    """Raise if detections have another `image_id` than the ground truths, as far as the host knows both."""
    for position, item in enumerate(preds):
        if "image_id" in item and "image_id" in target[position]:
            found, true = _on_host(item["image_id"]), _on_host(target[position]["image_id"])
            if found != true and None not in (found, true):
                raise ValueError(
                    f"`preds[{position}]['image_id']` must be that of `target[{position}]`, {true!r}; got {found!r}."
                )


def _on_host(value: Any) -> Any:
    """An `image_id`, None where it is on another device or is none, which is said elsewhere."""
    if not isinstance(value, Tensor):
        return value
    return value.item() if value.numel() == 1 and value.device.type == "cpu" else None
