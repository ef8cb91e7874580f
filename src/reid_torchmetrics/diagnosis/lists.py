"""Causes that ranked lists show: names in another spelling, items that are shifted, the opposite order."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.evaluation import ListedSamples

from .causes import Causes, Values, is_beyond_chance
from .spellings import spelling_that_fits

Array: TypeAlias = NDArray[Any]

MOST_QUERIES = 256
_FIRST = 10  # entries of a list that a trial looks at
_MOST_PAIRS = 1 << 14  # of a query and a positive
_LEAST_SHARE = 0.2  # of queries that a shift must explain
_SUSPECT = 0.5  # of the queries have a positive first; more raise no suspicion
_FEW = 0.5  # positives among the first two entries, as a factor of their share in whole lists
_GOOD = 0.25  # of the lists, at least, end with a positive where they are worst first
_ODDS, _ODDS_OF_SCORES = 20, 4  # of that, as a factor of the odds by luck; where scores rise in the order given
_RISING = 0.6  # of the neighbors in the order given, lists included


def different_queries(items: Int[Tensor, "queries longest"]) -> Array:
    """Return at most 256 queries with lists that begin with different items.

    A model that gives one list to all queries, or a few lists, is right or wrong with all of them together.
    """
    first = items[:, 0].cpu().numpy()
    _, queries = np.unique(first, return_index=True)
    queries = np.sort(queries[first[queries] >= 0])
    return queries[:: -(-len(queries) // MOST_QUERIES) or 1]


class ListCase:
    """A sample of ranked lists and their positives, as arrays."""

    def __init__(self, _: Any, samples: ListedSamples) -> None:
        """Take what results were computed from."""
        self.samples = samples

    @cached_property
    def queries(self) -> Array:
        """Some queries with a positive, see `different_queries`."""
        items, truth = self.samples.items, self.samples.truth
        has_positive = truth.query[truth.is_right].bincount(minlength=len(items)) > 0
        return different_queries(items.where(has_positive[:, None], -1))

    @cached_property
    def items(self) -> Array:
        """The lists, [queries, longest], -1 behind each."""
        return self.samples.items[self.queries].cpu().numpy()

    @cached_property
    def hits(self) -> Array:
        """Mask of the positives in the lists, [queries, longest]."""
        return self.samples.hits[self.queries].cpu().numpy()

    @cached_property
    def positives(self) -> tuple[Array, Array] | None:
        """Numbers of queries in the sample, and their positives; None if these are too many."""
        query, item, *_ = (values.cpu().numpy() for values in self.samples.truth[:2])
        number = np.full(len(self.samples.items), -1)
        number[self.queries] = np.arange(len(self.queries))
        kept = (number[query] >= 0) & self.samples.truth.is_right.cpu().numpy()
        return (number[query[kept]], item[kept]) if 0 < kept.sum() <= _MOST_PAIRS else None


LIST_CAUSES: Causes[ListCase] = Causes()
"""rows by name, in the order in which they are tried"""
cause = LIST_CAUSES.add


def _finds_little(case: ListCase) -> bool:
    return float(case.samples.hits[:, 0].double().mean()) <= _SUSPECT


@cause(
    message="Lists and positives have no item in common, but {num} of {total} items that come first are among the"
    " positives where names are read {reading}. Spell both in one way.",
    suspect=_finds_little,
)
def other_names(case: ListCase) -> Values | None:
    """Look for lists and positives that spell the names of items in two ways.

    No item of any list is in the ground truth, and where names are read in another way, such as without folders or
    extensions, half of the first items of at most {MOST_QUERIES} lists are among the positives, or a quarter where
    different things keep different names.
    """
    reader, items = case.samples.reader, case.samples.items
    if not reader.unnumbered or int(items[items >= 0].min()) < reader.num_numbered:
        return None  # some item is in the truth
    names = [reader.name_of_unknown(item) for item in case.items[:, 0].tolist()]
    spelling = spelling_that_fits(names, list(reader.names))
    if spelling is None:
        return None
    return {"num": spelling.num_common, "total": len(names), "reading": spelling.words}


@cause(
    message="Few lists have an item in common with the positives of their query: {num_given} of {queries} find one"
    " among their first items, but {num} find one first where {change}. Positions count from 0.",
    suspect=_finds_little,
)
def shifted_items(case: ListCase) -> Values | None:
    """Look for positions that count from 1, or items that are shifted by another number.

    With one number added to all items at least twice as many of at most {MOST_QUERIES} queries find a positive first as
    find one among their first {_FIRST} without, a share of {_LEAST_SHARE} or more, and more than by luck.
    """
    if case.samples.reader.names or case.positives is None:
        return None
    # How far the first items are behind each positive of their query, earlier ones counting more.
    query, item = case.positives
    entries = case.items[:, :_FIRST]
    if (entries[:, 0] == case.queries).mean() > _SUSPECT:  # queries that are items stand first in their own lists
        return None
    weights = (entries >= 0) / np.arange(1, entries.shape[1] + 1)
    offsets, numbers = np.unique(entries[query] - item[:, None], return_inverse=True)
    offset = int(offsets[np.bincount(numbers.ravel(), weights[query].ravel()).argmax()])
    distance = entries[query, 0] - item
    num_right, num_opposite = int((distance == offset).sum()), int((distance == -offset).sum())
    num_given, num_queries = int(case.hits[:, :_FIRST].any(1).sum()), len(entries)
    if offset == 0 or num_right < max(2 * num_given, 2 * num_opposite, _LEAST_SHARE * num_queries):
        return None
    num_items = max(len(np.unique(case.items)), len(np.unique(item)))
    if not is_beyond_chance(num_right, num_queries, len(item) / num_queries / num_items):
        return None
    return {
        "num_given": num_given,
        "queries": counted(num_queries, "query"),
        "num": num_right,
        "change": f"{abs(offset)} is {'subtracted from' if offset > 0 else 'added to'} each item",
    }


@cause(
    message="Lists seem to be worst first: right answers come last, and first in the opposite order for {num} of"
    " {queries}. Lists must be best first, and scores higher for closer items: pass minus the distances.",
    suspect=_finds_little,
)
def worst_first(case: ListCase) -> Values | None:
    """Look for distances as scores of lists, or lists in the opposite order.

    Of at most {MOST_QUERIES} lists a share of {_GOOD} or more end with a positive, with {_ODDS} times the odds of luck,
    or {_ODDS_OF_SCORES} times where scores rise in the order in which they were given; and the first two entries of the
    lists have at most {_FEW} times the share of positives of all.
    """
    lengths = (case.items >= 0).sum(1)
    _, kept = np.unique(case.items[np.arange(len(lengths)), lengths - 1], return_index=True)
    kept = kept[lengths[kept] > 2]
    if not len(kept):
        return None
    hits, last = case.hits[kept], lengths[kept] - 1
    num_right = int(hits[np.arange(len(kept)), last].sum())
    share, by_luck = num_right / len(kept), float((hits.sum(1) / (last + 1)).mean())
    order = case.samples.reader.order
    is_rising = order is not None and np.mean(np.diff(order) == -1) >= _RISING
    odds = (_ODDS_OF_SCORES if is_rising else _ODDS) * by_luck * (1 - share)
    is_better = share >= _GOOD and share * (1 - by_luck) >= odds
    is_better &= float(hits[:, :2].mean()) <= _FEW * by_luck
    if not is_better or not is_beyond_chance(num_right, len(kept), by_luck):
        return None
    return {"num": num_right, "queries": counted(len(kept), "query")}
