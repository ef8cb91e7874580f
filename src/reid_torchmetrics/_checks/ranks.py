"""Checks of ranks, and of ranked lists, that did not come from the engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._checks.kinds import kind


def are_ranks(argument: str, value: object, wanted: type) -> None:
    """Raise unless a measure was given ranks of positives, of the class `wanted`."""
    if not isinstance(value, wanted):
        came = f"{value.dtype} of shape {list(value.shape)}" if isinstance(value, Tensor) else kind(value)
        raise TypeError(
            f"`{argument}` must be `{wanted.__name__}`, which `{wanted.__name__}.from_hits` makes of ranked lists of"
            f" hits and `rank_positives` of embeddings; got {came}."
        )


def counts_of_positives(num_positives: Tensor, num_candidates: Tensor) -> None:
    """Raise unless every query has as many candidates as positives, or more."""
    query = _first(num_positives < 0)
    if query is not None:
        raise ValueError(f"`num_positives` must be at least 0; got {int(num_positives[query])} for query {query}.")
    query = _first(num_positives.long() > num_candidates.long())
    if query is not None:
        raise ValueError(
            f"`num_positives` must be at most `num_candidates`; got {int(num_positives[query])} of"
            f" {int(num_candidates[query])} for query {query}."
        )


def ascending_ranks(rank: Tensor, num_positives: Tensor, num_candidates: Tensor) -> None:
    """Raise unless the ranks of each query ascend, each once, from 1 or more to its number of candidates at most."""
    rank, num_positives = rank.long(), num_positives.long()
    query = torch.repeat_interleave(num_positives)
    first = _first(rank < 1)
    if first is not None:
        raise ValueError(f"`rank` must count from 1; got {int(rank[first])} for query {int(query[first])}.")
    first = _first((rank[1:] <= rank[:-1]) & (query[1:] == query[:-1]))
    if first is not None:
        raise ValueError(
            f"`rank` must ascend within a query, each rank once; got {int(rank[first])}, {int(rank[first + 1])} for"
            f" query {int(query[first])}."
        )
    first = _first(rank > num_candidates.long()[query])
    if first is not None:
        raise ValueError(
            f"`rank` must be at most `num_candidates`; got {int(rank[first])} of"
            f" {int(num_candidates[query[first]])} for query {int(query[first])}."
        )


def tied_groups(policies: Sequence[str], policy: object, sizes: Sequence[int], num_positives: int) -> None:
    """Raise unless groups of tied candidates are those of a policy that groups, one for each positive."""
    if policy not in policies:
        raise ValueError(f"`tied` must have the policy {' or '.join(map(repr, policies))}; got {policy!r}.")
    if set(sizes) != {num_positives}:
        raise ValueError(f"`tied` must have one group for each of {num_positives} positives; got {list(sizes)}.")


def groups_hold(*, hold: Tensor) -> None:
    """Raise unless every group of tied candidates holds its positive, at its pessimistic rank."""
    first = _first(~hold)
    if first is not None:
        raise ValueError(
            "`tied` must describe groups that hold their positives at pessimistic ranks; got another for positive"
            f" {first}."
        )


def ranked_lists(argument: str, value: object) -> None:
    """Raise unless `value` has a row for each query: two axes, or a sequence that holds no numbers."""
    if isinstance(value, (Tensor, np.ndarray)):
        if value.ndim != 2:
            raise ValueError(f"`{argument}` must have shape [queries, candidates]; got {list(value.shape)}.")
        return
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"`{argument}` must be a tensor, an array or a list of lists; got {kind(value)}.")
    for row in value:
        if not isinstance(row, (Tensor, np.ndarray, list, tuple)):
            raise TypeError(f"`{argument}` must hold one list for each query; got {kind(row)}, so write [{argument}].")


def list_of_hits(argument: str, value: Tensor) -> None:
    """Raise unless `value` has one axis, and holds bools, or the integers 0 and 1."""
    if value.ndim != 1:
        raise ValueError(f"`{argument}` must be a list of hits; got shape {list(value.shape)}.")
    if not value.numel():
        return
    if value.is_floating_point() or value.is_complex():
        raise TypeError(f"`{argument}` must hold bools, or the integers 0 and 1; got {value.dtype}.")
    if value.dtype != torch.bool and not bool(((value == 0) | (value == 1)).all()):
        raise ValueError(
            f"`{argument}` must hold hits, True or 1, and misses, False or 0; got {int(value.min())} to"
            f" {int(value.max())}."
        )


def declared_positives(argument: str, declared: Tensor, num_hits: Tensor) -> None:
    """Raise unless every query has at least as many positives as hits."""
    query = _first(declared < num_hits)
    if query is not None:
        raise ValueError(
            f"`{argument}` must count the hits, too; got {int(declared[query])} for query {query}, which has"
            f" {int(num_hits[query])} hits."
        )


def _first(is_wrong: Tensor) -> int | None:
    return int(is_wrong.nonzero()[0, 0]) if bool(is_wrong.any()) else None
