"""Binary codes: packed bits, bools, integers or floats become the numbers 1 and -1.

Whether 0 and 1 are codes is a property of a whole data set: queries and gallery, of all batches, blocks and processes.
So embeddings are first read as they are, with marks for each row, and converted when all marks are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int, Int8
from torch import Tensor

from reid_torchmetrics import _arrays, _checks

from .rows import Rows

_CODE_DTYPE = torch.float16
"""holds 1 and -1 in two bytes; products are computed in float32, where sums of up to 2^24 of them are exact"""
_BITS = 8
_HAS_ZERO, _HAS_ONE, _HAS_OTHER, _IS_CODE = 1, 2, 4, 8  # marks of a row
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
    if packed:
        return _unpacked(argument, value, similarity, device), None
    if similarity != "hamming" and not may_be_codes:
        return _checks.embeddings(argument, value, device), None
    values = _matrix(argument, value, device)
    are_codes = similarity == "hamming" or not values.is_floating_point()
    if not are_codes:
        values = _checks.embeddings(argument, values)
    is_zero = values == 0
    is_one = values == 1
    if are_codes:
        _check_codes(argument, values, is_zero | is_one)
    if not values.is_floating_point():
        values = values.to(_CODE_DTYPE)
    is_other = ~(is_zero | is_one)
    marks = is_zero.any(1) * _HAS_ZERO + is_one.any(1) * _HAS_ONE + is_other.any(1) * _HAS_OTHER
    return values, (marks + _IS_CODE * are_codes).to(torch.int8)


def read_block(
    argument: str, value: object, similarity: object, device: Any = None, *, packed: bool = False, earlier: int = 0
) -> tuple[Tensor, int]:
    """Return a block of embeddings, with codes of 1 and -1 under "hamming", and the marks of all blocks so far.

    Arguments and errors are those of `read_with_marks` and `are_bits`; `earlier` are the marks of the earlier blocks.
    """
    values, marks = read_with_marks(argument, value, similarity, device, packed=packed)
    if marks is None:
        return values, earlier
    own_marks = union_of_marks(marks)
    all_marks = earlier | own_marks
    are_bits(all_marks, all_marks)  # raises for a mixture
    return as_signs(values) if are_bits(own_marks, own_marks) else values, all_marks


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
    for block in blocks:
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
    if not marks & _HAS_OTHER:
        return bool(marks & _HAS_ZERO)
    if marks & _IS_CODE and marks & _HAS_ZERO:
        raise _mixture("some with 0, and some with -1 or other numbers")
    for (side, own), (other_side, other) in (
        (("queries", query), ("gallery items", gallery)),
        (("gallery items", gallery), ("queries", query)),
    ):
        if not own & _HAS_OTHER and own & _HAS_ZERO and own & _HAS_ONE and not other & _HAS_ZERO:
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


def _unpacked(argument: str, value: object, similarity: object, device: Any) -> Tensor:
    if similarity != "hamming":
        raise ValueError(f"`packed` must come with `similarity='hamming'`; got {similarity!r}.")
    values = _matrix(argument, value, device)
    if values.dtype != torch.uint8:
        raise TypeError(f"`{argument}` must have dtype uint8 where `packed` is True; got {values.dtype}.")
    shifts = torch.arange(_BITS - 1, -1, -1, dtype=torch.uint8, device=values.device)
    bits = (values[:, :, None] >> shifts) & 1
    return bits.flatten(1).to(_CODE_DTYPE) * 2 - 1


def _matrix(argument: str, value: object, device: Any) -> Tensor:
    """Return a matrix of numbers or bools."""
    _checks.array_like(argument, value)
    (values,) = _arrays.as_tensors(value, device=device)
    if not isinstance(values, Tensor):
        raise TypeError(f"`{argument}` must hold codes: bools, integers or floats; got {type(value).__name__}.")
    if values.is_complex():
        raise TypeError(f"`{argument}` must hold codes: bools, integers or floats; got {values.dtype}.")
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"`{argument}` must have shape [N, bits]; got {list(values.shape)}.")
    return values


def _check_codes(argument: str, values: Tensor, is_bit: Bool[Tensor, "rows bits"]) -> None:
    """Raise unless a batch has codes of 0 and 1, or codes of 1 and -1."""
    if values.dtype == torch.bool:
        return
    is_code = is_bit | (values == -1)
    has_both = (values == 0).any() & (values == -1).any()
    if bool(is_code.all() & ~has_both):
        return
    got = "0, 1 and -1" if bool(is_code.all()) else str(values[~is_code][0].item())
    remedy = "embeddings that are no codes need another `similarity`, such as 'dot'"
    if values.dtype == torch.uint8:
        remedy = "bits that are packed into bytes need `packed=True`"
    raise ValueError(f"`{argument}` must hold codes of 0 and 1, or of 1 and -1; got {got}: {remedy}.")
