"""Checks of relevance that comes as lists of gallery positions, by name, for every query."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from torch import Tensor

from reid_torchmetrics._checks.kinds import kind

_BESIDE_LISTS = ("bbx", "query")
"""what the files of benchmarks hold beside lists: the box of the query (revisitop, Oxford), its image (Oxford)"""


def lists_by_name(argument: str, values: object, num_queries: int) -> None:
    """Raise unless `values` holds a mapping for each query."""
    if isinstance(values, (str, bytes, Tensor, Mapping)) or not isinstance(values, Sequence):
        raise TypeError(f"`{argument}` must be a sequence of mappings, one per query; got {kind(values)}.")
    for lists in values:
        if not isinstance(lists, Mapping):
            raise TypeError(f"`{argument}` must hold mappings of names to gallery positions; got {kind(lists)}.")
    if len(values) != num_queries:
        raise ValueError(f"`{argument}` must hold one mapping for each of {num_queries} queries; got {len(values)}.")


def named_lists(
    argument: str, values: Sequence[Mapping[str, object]], positive: Collection[str], junk: Collection[str]
) -> None:
    """Raise unless the lists of every query are some of `positive` and `junk`, and one is of `positive` at least.

    A list that nobody names would be a list of negatives, which nobody means.
    """
    for query, lists in enumerate(values):
        if not set(positive) & set(lists):
            wanted = ", ".join(map(repr, positive))
            raise ValueError(f"`{argument}` must name one of {wanted} for every query; got {list(lists)} for {query}.")
        unknown = [name for name in lists if name not in {*positive, *junk, *_BESIDE_LISTS}]
        if unknown:
            known = ", ".join(map(repr, dict.fromkeys((*positive, *junk))))
            raise ValueError(
                f"`{argument}` must hold lists that `positive_lists` or `junk_lists` of the protocol name, {known};"
                f" got {unknown[0]!r} for query {query}."
            )
