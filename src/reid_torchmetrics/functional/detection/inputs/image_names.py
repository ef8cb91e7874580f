"""Names of images, as tensors for the states of a metric: the bytes of all names, and the length of each.

The bytes are UTF-8, which orders names like Python's `str`, by code points.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional import segments

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

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.image)

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
