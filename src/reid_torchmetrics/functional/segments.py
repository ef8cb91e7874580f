"""Arithmetic for segments (rows of unequal length, stored end to end), for ranges, and running sums."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise, starmap

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


def starts(lengths: Int[Tensor, " segments"]) -> Int[Tensor, " segments"]:
    """Return the first entry of each segment: 0, 2, 2 for the lengths 2, 0, 3."""
    return lengths.cumsum(0) - lengths


def edges(lengths: Int[Tensor, " segments"]) -> Int[Tensor, " segments+1"]:
    """Return the first entry of each segment, then the number of all entries: 0, 2, 2, 5 for the lengths 2, 0, 3."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def numbers(lengths: Int[Tensor, " segments"], total: int | None = None) -> Int[Tensor, " entries"]:
    """Return the segment of each entry: 0, 0, 2, 2, 2 for the lengths 2, 0, 3.

    `total`, the sum of the lengths, spares a wait for the device.
    """
    return torch.repeat_interleave(lengths, output_size=total)


def runs(
    first: Int[Tensor, " segments"] | int, lengths: Int[Tensor, " segments"], total: int | None = None
) -> tuple[Int[Tensor, " entries"], Int[Tensor, " entries"]]:
    """Return the segment of each entry, and its number: `first`, `first` + 1, ... within each segment.

    With `first` 7, 8, 9 the lengths 2, 0, 3 give the segments 0, 0, 2, 2, 2 and the numbers 7, 8, 9, 10, 11.
    """
    segment = numbers(lengths, total)
    shifts = (first - starts(lengths)).index_select(0, segment)  # takes half the time of `[segment]` on a CPU
    return segment, torch.arange(len(segment), device=lengths.device).add_(shifts)


def ranks(keys: Int[Tensor, " entries"]) -> Int[Tensor, " entries"]:
    """Return the number of earlier entries with the same key: 0, 0, 1, 1 for 5, 3, 5, 3."""
    by_key, order = keys.sort(stable=True)
    _, lengths = by_key.unique_consecutive(return_counts=True)
    _, places = runs(0, lengths)
    return torch.empty_like(order).scatter_(0, order, places)


def reduce(
    values: Shaped[Tensor, "entries ..."], how: str, lengths: Int[Tensor, " segments"]
) -> Shaped[Tensor, "segments ..."]:
    """Reduce each segment of floats: `how` is "sum", "prod", "max" or another of `torch.segment_reduce`."""
    return torch.segment_reduce(values, how, lengths=lengths, unsafe=True)


def running_sums(values: Float[Tensor, "*shape"], dim: int = 0) -> Float[Tensor, "*shape"]:
    """Return the sums of the first 1, 2, ... floats along an axis, with the same bits on every run.

    `cumsum` on a GPU adds in an order that differs between runs, and `use_deterministic_algorithms` refuses it. So
    there sums of 1, 2, 4, ... neighbors are added up, in passes over all values.
    """
    if values.device.type == "cpu":
        return values.cumsum(dim)
    num_values = values.shape[dim]
    reach = 1
    while reach < num_values:
        # Each place has the sum of `reach` values up to it; add the sum of the `reach` values before these.
        first, rest = values.split([reach, num_values - reach], dim)
        values = torch.cat([first, rest + values.narrow(dim, 0, num_values - reach)], dim)
        reach *= 2
    return values


def ranges_within(lengths: Int[Tensor, " segments"], most: int) -> Iterator[slice]:
    """Iterate over ranges of segments with about `most` entries each, and at least one segment."""
    part = (lengths.cumsum(0) - 1).div(most, rounding_mode="floor")
    _, sizes = part.unique_consecutive(return_counts=True)
    bounds = accumulate(sizes.tolist(), initial=0)
    return starmap(slice, pairwise(bounds))


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
    last = whole.stop - length
    starts = [*range(whole.start, last, length), last]
    return [slice(start, start + length) for start in starts]
