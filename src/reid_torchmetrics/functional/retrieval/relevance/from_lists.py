"""Relevance from lists of positives and junk, as the benchmarks of landmarks name them for each query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Integer
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional import segments

from .relevance import Relevance


def find_listed_relevance(
    positives: Sequence[Integer[Tensor, " _"] | _checks.Integers],
    junk: Sequence[Integer[Tensor, " _"] | _checks.Integers] | None = None,
    *,
    num_gallery: int,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
) -> Relevance:
    """Prepare lists for ranking: gallery positions of every query's positives and junk.

    Oxford, Paris and their revisited versions define relevance by such lists; all other items are negatives. Lists are
    checked and sorted on the CPU; the relevance is on their device, and moves by its method `to`.

    Args:
        positives: for every query gallery positions, possibly none.
        junk: the same for gallery items that are dropped for the query; None for none.
        num_gallery: number of gallery items.
        self_index: for every query its own position in the gallery, or -1: it is dropped, listed or not.

    Raises:
        TypeError: lists that are not sequences of integer tensors.
        ValueError: lists of different lengths, positions outside the gallery or listed twice for a query.
    """
    _checks.positive_int("num_gallery", num_gallery, least=0)
    listed = positions_on_cpu("positives", positives, num_gallery)
    junk = [part[:0] for part in listed] if junk is None else junk
    dropped = positions_on_cpu("junk", junk, num_gallery, len(listed))
    if self_index is not None:
        self_index = _checks.integer_labels("self_index", self_index, len(listed)).cpu()
        _checks.in_range("self_index", self_index, -1, num_gallery)
        listed, dropped = _without_self(listed, dropped, self_index)
    relevance = _by_runs(listed, dropped, self_index, num_gallery)
    return relevance.to(getattr(positives[0], "device", "cpu")) if len(positives) else relevance


def positions_on_cpu(argument: str, values: object, size: int, length: int | None = None) -> list[Tensor]:
    """The positions listed for each query, on the CPU.

    Raises:
        TypeError: no sequence of integer tensors.
        ValueError: other than `length` tensors if it is given, tensors that are not 1-D and on one device, or positions
            not below `size`.
    """
    if isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of tensors, one per query; got {type(values).__name__}.")
    if length not in (None, len(values)):
        raise ValueError(f"`{argument}` must hold one tensor for each of {length} queries; got {len(values)}.")
    values = _arrays.as_tensors(*values)
    for query, value in enumerate(values):
        _checks.integer_labels(f"{argument}[{query}]", value, device=values[0].device if query else None)
    # All at once: a copy of each list would wait for a GPU.
    lists = [*torch.cat([*values]).cpu().split([len(value) for value in values])] if values else []
    for query, positions in enumerate(lists):
        _checks.in_range(f"{argument}[{query}]", positions, 0, size)
    return lists


def check_listed_once(
    argument: str, positives: Sequence[Tensor], junk: Sequence[Tensor], *, name: Callable[[int], object] = int
) -> None:
    """Raise if a query, by its place or its `name`, lists a position twice, in one list or in both."""
    for query, both in enumerate(zip(positives, junk, strict=True)):
        items = torch.cat(both).sort().values
        repeated = items[1:][items[1:] == items[:-1]]
        if len(repeated):
            came = f"item {int(repeated[0])} twice for query {name(query)}"
            raise ValueError(f"`{argument}` must list a gallery item once for a query; got {came}.")


def _by_runs(positives: list[Tensor], junk: list[Tensor], self_index: Tensor | None, num_gallery: int) -> Relevance:
    """Relevance by lists of valid positions on the CPU."""
    check_listed_once("positives` and `junk", positives, junk)
    # A run of its own for each query: its positives and its junk in ascending order, with a mark on the junk.
    parts = [torch.cat([part.long() for part in pair]) for pair in zip(positives, junk, strict=True)]
    sorted_parts = [part.sort() for part in parts]
    none = torch.empty(0, dtype=torch.int64, device="cpu")
    run_length = torch.tensor([len(part) for part in parts], dtype=torch.int64, device="cpu")
    is_junk = [part.indices >= len(listed) for part, listed in zip(sorted_parts, positives, strict=True)]
    return Relevance(
        num_gallery=num_gallery,
        kept=None,
        num_kept=num_gallery,
        order=torch.cat([none, *(part.values for part in sorted_parts)]),
        run_start=segments.starts(run_length),
        run_length=run_length,
        is_junk=torch.zeros(len(parts), dtype=torch.bool, device="cpu"),
        listed_junk=torch.cat([none.bool(), *is_junk]),
        self_index=None if self_index is None else self_index.long(),
    )


def _without_self(positives: list[Tensor], junk: list[Tensor], self_index: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Make each query's own position junk."""
    items = self_index.long().split(1)  # -1 is in no list
    positives = [part[part != item] for part, item in zip(positives, items, strict=True)]
    junk = [torch.cat([part[part != item].long(), item[item >= 0]]) for part, item in zip(junk, items, strict=True)]
    return positives, junk
