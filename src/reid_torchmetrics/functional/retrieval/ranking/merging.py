"""Whether counters add up: of one problem, without a block in common.

Blocks are gone once they are counted, but for numbers. Every call that counts a block draws one, which later copies of
the counter have, too: two counters with a common number have both counted it. A block of two calls is told by content.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import secrets
from collections.abc import Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from reid_torchmetrics.functional.fingerprints import LEAST_GATHERED
from reid_torchmetrics.functional.retrieval.relevance import LabelValues, packed
from reid_torchmetrics.functional.world import Said

_EMBEDDINGS = 64  # of a block that are compared: to hash all may take half the time of counting


def check_same(mine: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    """Raise unless two counters have the same arguments, `described` by name.

    Raises:
        ValueError: one differs, or only one of them has it.
    """
    for name in {**mine, **theirs}:
        if mine.get(name) != theirs.get(name):
            came = f"{theirs.get(name)} for {mine.get(name)}"
            raise ValueError(f"`other` must have the same `{name}` as the counter; got {came}.")


def described(value: Any) -> str:
    """Text that is equal for equal values, also in other processes; of tensors and of functions it has a hash.

    Functions are equal if they have the same name, code, defaults and values that the code closes over. One that cannot
    be pickled, such as one that closes over a lock, has another text in each call.
    """
    if isinstance(value, Tensor):
        return f"{value.dtype} {list(value.shape)} of hash {_hash(_bytes_of(value.reshape(-1)).data)}"
    if callable(value):
        name, file = getattr(value, "__qualname__", type(value).__qualname__), io.BytesIO()
        try:
            _Pickler(file).dump(value)
            return f"{name} of hash {_hash(file.getbuffer())}"
        except Exception:  # noqa: BLE001 - what objects of users raise
            return f"{name} of hash {secrets.token_hex(8)}"
    return repr(value)


def _hash(content: memoryview) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


class _Pickler(pickle.Pickler):
    """Writes functions by what they do: copies have other names and places, and a lambda has no name to import."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.fast = True  # equal values have equal bytes, whether or not they are one object

    def persistent_id(self, value: Any) -> Any:
        """What stands for a function, its code, a tensor, a module or a set; None for all else."""
        if isinstance(value, FunctionType):
            closed_over = [cell.cell_contents for cell in value.__closure__ or ()]
            return value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__, closed_over
        if isinstance(value, CodeType):
            return value.co_code, value.co_names, value.co_consts
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, Tensor):
            return described(value)  # pickled, it has its address
        return sorted(map(described, value)) if isinstance(value, (set, frozenset)) else None


class CountedBlocks:
    """The blocks that a counter has counted, or surveyed."""

    def __init__(self) -> None:
        """Begin without blocks."""
        self._calls: set[int] = set()
        self._contents: set[bytes] = set()
        self._said = Said(set())

    def copy(self) -> CountedBlocks:
        """The same blocks, for a counter that goes on by itself."""
        copied = CountedBlocks()
        copied.join(self)
        return copied

    def add(self, embeddings: Tensor, labels: LabelValues) -> None:
        """Take a block, and warn if it came before; a block without items may come again and again."""
        if not len(embeddings):
            return
        content = _content(embeddings, labels)
        self._warn_of(content & self._contents)
        self._calls.add(secrets.randbits(64))  # a seeded generator may draw the same in all processes
        self._contents |= content

    def join(self, other: CountedBlocks) -> None:
        """Take the blocks of another counter, and warn if one came to both.

        Raises:
            ValueError: both have a block from one call.
        """
        if self._calls & other._calls:
            raise ValueError(
                "`other` must have seen none of the counter's blocks; got blocks that came to both in one call, as in"
                " a copy that was made after it, or a second `merge`."
            )
        self._warn_of(self._contents & other._contents)
        self._calls |= other._calls
        self._contents |= other._contents

    def _warn_of(self, repeated: set[bytes]) -> None:
        if repeated:
            self._said.tell(
                "same block",
                "A block of the gallery came twice, and its items count twice: all labels, the number of items and up"
                f" to {_EMBEDDINGS} embeddings are the same. Each item must come once, to one counter.",
            )


def _content(embeddings: Tensor, labels: LabelValues) -> set[bytes]:
    """A hash of some embeddings and all labels; none of a block that other blocks may well be equal to."""
    step = -(-len(embeddings) // _EMBEDDINGS)
    rows = _bytes_of(embeddings[::step] + 0)  # 0 and -0 are equal
    if len({row.tobytes() for row in rows}) < LEAST_GATHERED:
        return set()
    digest = hashlib.sha256(rows.data)
    digest.update(_bytes_of(packed(labels, slice(None))).data)
    return {digest.digest()}


def _bytes_of(values: Tensor) -> UInt8[np.ndarray, "*shape"]:
    return values.cpu().contiguous().view(torch.uint8).numpy()
