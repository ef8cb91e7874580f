"""Arithmetic of segments, ragged rows of entries laid end to end; of ranges, and of running sums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise, starmap

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


def starts(lengths: Int[Tensor, " segments"]) -> Int[Tensor, " segments"]:
    """The first entry of each segment: 0, 2, 2 for the lengths 2, 0, 3."""
    return lengths.cumsum(0) - lengths


def edges(lengths: Int[Tensor, " segments"]) -> Int[Tensor, " segments+1"]:
    """The first entry of each segment, and behind the last the number of all entries: 0, 2, 2, 5 for 2, 0, 3."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def numbers(lengths: Int[Tensor, " segments"], total: int | None = None) -> Int[Tensor, " entries"]:
    """The segment of each entry: 0, 0, 2, 2, 2 for the lengths 2, 0, 3; `total`, their sum, spares computing it."""
    return torch.repeat_interleave(lengths, output_size=total)


def runs(
    first: Int[Tensor, " segments"] | int, lengths: Int[Tensor, " segments"], total: int | None = None
) -> tuple[Int[Tensor, " entries"], Int[Tensor, " entries"]]:
    """Count on from each of `first`: the segment of each entry, and its number `first`, `first` + 1, ... there.

    From 7, 8, 9 the lengths 2, 0, 3 give the segments 0, 0, 2, 2, 2 and the numbers 7, 8, 9, 10, 11.
    """
    segment = numbers(lengths, total)
    shifts = (first - starts(lengths)).index_select(0, segment)  # in half the time of `[segment]` on a CPU
    return segment, torch.arange(len(segment), device=lengths.device).add_(shifts)


def ranks(keys: Int[Tensor, " entries"]) -> Int[Tensor, " entries"]:
    """The number of earlier entries with the same key: 0, 0, 1, 1 for 5, 3, 5, 3."""
    by_key, order = keys.sort(stable=True)
    places = runs(0, by_key.unique_consecutive(return_counts=True)[1])[1]
    return torch.empty_like(order).scatter_(0, order, places)


def reduce(
    values: Shaped[Tensor, "entries ..."], how: str, lengths: Int[Tensor, " segments"]
) -> Shaped[Tensor, "segments ..."]:
    """Reduce each segment of floats: `how` is "sum", "prod", "max" or another of `torch.segment_reduce`."""
    return torch.segment_reduce(values, how, lengths=lengths, unsafe=True)


def running_sums(values: Float[Tensor, "*shape"], dim: int = 0) -> Float[Tensor, "*shape"]:
    """The sums of the first 1, 2, ... floats along an axis, the same on every run.

    On the CPU `cumsum`. That of a GPU adds in an order that differs between runs, and `use_deterministic_algorithms`
    refuses it: elsewhere sums of 1, 2, 4, ... neighbors are added up, in passes over all values.
    """
    if values.device.type == "cpu":
        return values.cumsum(dim)
    num_values, reach = values.shape[dim], 1
    while reach < num_values:
        # Before: at each place the sum of the `reach` values up to there; after: of twice as many.
        first, others = values.split([reach, num_values - reach], dim)
        values = torch.cat([first, others + values.narrow(dim, 0, num_values - reach)], dim)
        reach *= 2
    return values


def ranges_within(lengths: Int[Tensor, " segments"], most: int) -> Iterator[slice]:
    """Ranges of segments, in order, with about `most` entries each, and one segment at least."""
    part = (lengths.cumsum(0) - 1).div(most, rounding_mode="floor")
    sizes = part.unique_consecutive(return_counts=True)[1].tolist()
    return starmap(slice, pairwise(accumulate(sizes, initial=0)))


def ranges(total: int, length: int) -> list[slice]:
    """Cover 0, 1, ... `total` - 1 by ranges of `length`; the last may be shorter."""
    return [slice(first, min(first + length, total)) for first in range(0, total, length)]


def equal_ranges(whole: slice, length: int) -> list[slice]:
    """Cover a range by ranges of one length; the last overlaps its neighbor.

    Matrix products of one shape give identical rows identical scores, so a tie stays a tie across the ranges.
    """
    length = min(length, whole.stop - whole.start)
    if length <= 0:
        return []
    starts = [*range(whole.start, whole.stop - length, length), whole.stop - length]
    return [slice(start, start + length) for start in starts]
