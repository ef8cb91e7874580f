"""Checks of ranks, and of ranked lists, that did not come from the engine."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def check_counts(num_positives: Tensor, num_candidates: Tensor) -> None:
    """Raise unless every query has as many candidates as positives, or more."""
    if (query := first_true(num_positives < 0)) is not None:
        raise ValueError(f"`num_positives` must be at least 0; got {int(num_positives[query])} for query {query}.")
    if (query := first_true(num_positives.long() > num_candidates.long())) is not None:
        raise ValueError(
            f"`num_positives` must be at most `num_candidates`; got {int(num_positives[query])} of"
            f" {int(num_candidates[query])} for query {query}."
        )


def check_ascending(rank: Tensor, num_positives: Tensor, num_candidates: Tensor) -> None:
    """Raise unless the ranks of each query ascend, each once, from 1 or more to its number of candidates at most."""
    rank, query = rank.long(), torch.repeat_interleave(num_positives.long())
    if (first := first_true(rank < 1)) is not None:
        raise ValueError(f"`rank` must count from 1; got {int(rank[first])} for query {int(query[first])}.")
    if (first := first_true((rank[1:] <= rank[:-1]) & (query[1:] == query[:-1]))) is not None:
        raise ValueError(
            f"`rank` must ascend within a query, each rank once; got {int(rank[first])}, {int(rank[first + 1])} for"
            f" query {int(query[first])}."
        )
    if (first := first_true(rank > num_candidates.long()[query])) is not None:
        raise ValueError(
            f"`rank` must be at most `num_candidates`; got {int(rank[first])} of"
            f" {int(num_candidates[query[first]])} for query {int(query[first])}."
        )


def check_rows(hits: object) -> None:
    """Raise unless there is a row for each query: two axes, or a sequence that holds no numbers."""
    if isinstance(hits, (Tensor, np.ndarray)):
        if hits.ndim != 2:
            raise ValueError(f"`hits` must have shape [queries, candidates]; got {list(hits.shape)}.")
        return
    if not isinstance(hits, (list, tuple)):
        raise TypeError(f"`hits` must be a tensor, an array or a list of lists; got {type(hits).__name__}.")
    for row in hits:
        if not isinstance(row, (Tensor, np.ndarray, list, tuple)):
            raise TypeError(f"`hits` must hold one list for each query; got {type(row).__name__}, so write [hits].")


def check_hits(argument: str, hits: Tensor) -> None:
    """Raise unless a list has one axis, and holds bools, or the integers 0 and 1."""
    if hits.ndim != 1:
        raise ValueError(f"`{argument}` must be a list of hits; got shape {list(hits.shape)}.")
    if not hits.numel():
        return
    if hits.is_floating_point() or hits.is_complex():
        raise TypeError(f"`{argument}` must hold bools, or the integers 0 and 1; got {hits.dtype}.")
    if hits.dtype != torch.bool and not bool(((hits == 0) | (hits == 1)).all()):
        raise ValueError(
            f"`{argument}` must hold hits, True or 1, and misses, False or 0; got {int(hits.min())} to"
            f" {int(hits.max())}."
        )


def first_true(flags: Tensor) -> int | None:
    """Where the first one is, if there is one."""
    return int(flags.nonzero()[0, 0]) if bool(flags.any()) else None
