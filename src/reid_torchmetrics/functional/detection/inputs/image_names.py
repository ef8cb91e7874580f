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

_WHOLE_FLOATS = 2.0**53  # below it floats are as far apart as ints


def plain_id(value: Any) -> Any:
    """Convert an `image_id` to an int or a str if it is a whole float below 2^53 or a path; else return it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE_FLOATS:
        return int(value)
    if isinstance(value, PurePath):
        return str(value)
    return value


def name_images(image: Int[Tensor, " images"], names: Sequence[str] | None) -> list[int | str]:
    """Return the names of images by their numbers; the numbers or ids themselves without names."""
    numbers = image.tolist()
    if names is not None:
        numbers = [names[number] for number in numbers]
    return numbers


def pack_names(names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the bytes of all names, uint8, and the number of bytes of each, int64.

    Lone surrogates, as in names of files that are no text, are packed, too.
    """
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    packed = torch.from_numpy(np.frombuffer(b"".join(encoded), dtype=np.uint8).copy())
    lengths = torch.tensor(list(map(len, encoded)), dtype=torch.int64, device="cpu")
    return packed, lengths


def unpack_names(packed: Tensor, lengths: Tensor) -> list[str]:
    """Return the names that `pack_names` packed; more bytes may follow."""
    data = packed.cpu().numpy().tobytes()
    edges = segments.edges(lengths).tolist()
    return [data[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(edges)]


def number_names(names: Sequence[str]) -> tuple[tuple[str, ...], Tensor]:
    """Return the distinct names, ascending, and the position of each name among them, int64."""
    distinct = sorted(set(names))
    positions = {name: position for position, name in enumerate(distinct)}
    numbers = torch.tensor([positions[name] for name in names], dtype=torch.int64, device="cpu")
    return tuple(distinct), numbers
