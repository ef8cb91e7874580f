"""Binary codes: packed bits, bools, integers or floats become the numbers 1 and -1.

Whether 0 and 1 are codes is a property of a whole data set: queries and gallery, of all batches, blocks and processes.
So embeddings are first read as they are, with marks for each row, and converted when all marks are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Int, Int8
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._registries import Registry

from .rows import Rows

CODE_READERS: Registry[Callable[..., Any]] = Registry("CODE_READERS", {})
"""functions of an argument, its value, the similarity and a device, which tasks add: they return what `read_with_marks`
returns, "packed" for bits that are packed into bytes, and "marked" for what may be codes"""
HAS_ZERO, HAS_ONE, HAS_OTHER, IS_CODE = 1, 2, 4, 8  # marks of a row
_NUM_MARKS = 4


class BlocksOfRows(NamedTuple):
    """Embeddings in blocks, such as files, one after the other."""

    blocks: Sequence[Any]
    kept: Int[Tensor, " kept"] | None = None
    """positions of the rows that count; None for all"""

    def as_signs(self) -> BlocksOfRows:
        """Return the blocks of codes of 0 and 1 as codes of -1 and 1."""
        return BlocksOfRows([as_signs(block) for block in self.blocks], self.kept)


def read_with_marks(
    argument: str,
    value: object,
    similarity: object,
    device: Any = None,
    *,
    packed: bool = False,
    may_be_codes: bool = False,
) -> tuple[Tensor, Int8[Tensor, " rows"] | None]:
    """Return embeddings [N, D] of a floating point dtype, with 0 and 1 as they are, and the marks of their rows.

    A mark is a bit: for a row with a 0, with a 1, with another number, and for a row that must be a code, as it was
    integers or bools, or comes under "hamming". There are no marks where 0 is no bit.

    Args:
        argument: the user's argument, for messages.
        value: embeddings, or codes.
        similarity: the similarity of the evaluation.
        device: device for arrays and lists.
        packed: whether each byte holds eight bits of a code, the highest bit first, as `numpy.packbits` has them.
        may_be_codes: whether embeddings of integers, of bools, or of 0 and 1 are codes under another similarity, too.

    Raises:
        TypeError: a dtype that is not for embeddings, or not for codes under "hamming".
        ValueError: another shape, or values that are not codes under "hamming".
    """
    if not (packed or may_be_codes or similarity == "hamming"):
        return _checks.embeddings(argument, value, device), None
    if packed and similarity != "hamming":
        raise ValueError(f"`packed` must come with `similarity='hamming'`; got {similarity!r}.")
    read: Callable[..., tuple[Tensor, Tensor | None]] = CODE_READERS["packed" if packed else "marked"]
    return read(argument, value, similarity, device)


def read_pair(
    query: object, gallery: object, similarity: object, *, packed: bool = False, may_be_codes: bool = False
) -> tuple[Rows, Rows]:
    """Return the embeddings of queries and gallery, with codes as 1 and -1; without a gallery the queries are both.

    Both are matrices or `BlocksOfRows`. Arguments and errors are those of `read_with_marks` and `are_bits`.
    """
    read = partial(_read_blocks, similarity=similarity, packed=packed, may_be_codes=may_be_codes)
    query_blocks, query_marks = read("query", query)
    items, item_marks = query_blocks, query_marks
    if gallery is not None:
        items, item_marks = read("gallery", gallery)
    if are_bits(query_marks, item_marks):
        query_blocks = query_blocks.as_signs()
        items = query_blocks if gallery is None else items.as_signs()
    return Rows(query_blocks.blocks, query_blocks.kept), Rows(items.blocks, items.kept)


def _read_blocks(argument: str, value: object, **options: Any) -> tuple[BlocksOfRows, int]:
    """Return the blocks of embeddings as they are, and their marks."""
    if not isinstance(value, BlocksOfRows):
        value = BlocksOfRows([value])
    parts = [read_with_marks(argument, block, **options) for block in value.blocks]
    marks = [part for _, part in parts if part is not None]
    own_marks = 0
    if marks:
        all_marks = torch.cat(marks)
        own_marks = union_of_marks(all_marks if value.kept is None else all_marks[value.kept])
    blocks = [embeddings for embeddings, _ in parts]
    for block in blocks[1:]:
        _checks.same_dimension(argument, block.shape[1], f"{argument} in earlier blocks", blocks[0].shape[1])
    return BlocksOfRows(blocks, value.kept), own_marks


def union_of_marks(marks: Int8[Tensor, " rows"]) -> int:
    """Return the marks that some row has, as one number."""
    bits = 1 << torch.arange(_NUM_MARKS, dtype=torch.int8, device=marks.device)
    is_there = (marks[:, None] & bits > 0).any(0)
    return sum(1 << place for place, found in enumerate(is_there.tolist()) if found)


def are_bits(query: int, gallery: int) -> bool:
    """Return whether the embeddings of a data set are codes of 0 and 1, by the marks of all queries and all items.

    Real numbers may contain rows of 0 and 1. So floats are codes if the whole data set consists of 0 and 1.

    Raises:
        ValueError: codes of 0 and 1 beside codes of 1 and -1, or beside other numbers.
    """
    marks = query | gallery
    if not marks & HAS_OTHER:
        return bool(marks & HAS_ZERO)
    if marks & IS_CODE and marks & HAS_ZERO:
        raise _mixture("some with 0, and some with -1 or other numbers")
    for (side, own), (other_side, other) in (
        (("queries", query), ("gallery items", gallery)),
        (("gallery items", gallery), ("queries", query)),
    ):
        if not own & HAS_OTHER and own & HAS_ZERO and own & HAS_ONE and not other & HAS_ZERO:
            raise _mixture(f"{side} of 0 and 1, and {other_side} without a 0")
    return False


def as_signs(bits: Tensor) -> Tensor:
    """Return codes of 0 and 1 as -1 and 1."""
    return bits * 2 - 1


def _mixture(got: str) -> ValueError:
    return ValueError(
        "`embeddings` of all batches, queries and gallery items must be codes of 0 and 1, or all be codes of 1 and -1;"
        f" got {got}: where they are no codes, `similarity='dot'` ranks floats by their product."
    )
