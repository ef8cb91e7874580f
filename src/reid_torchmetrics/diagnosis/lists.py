"""Causes that ranked lists show, and those that lists of a vector index show beside the embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.tasks import IndexRecall
from reid_torchmetrics.tasks.lists import ListedSamples
from reid_torchmetrics.tasks.vector_indexes import SearchedLists, search_lists

from .causes import Causes, NotHeldError, Values, is_beyond_chance
from .signs import share_of
from .spellings import spelling_that_fits

MOST_QUERIES = 256
_FIRST = 10  # entries of a list that are compared with the first one where items are shifted
_LEAST_NAMES = 5  # that are spelled in two ways
_LEAST_SHARE = 0.2  # of queries that a shift must explain
_SUSPECT = 0.5  # of the queries have a positive first; more raise no suspicion
_MOST_TIED = 0.5  # share of scores that equal another one: then names of items order the lists
_LEAST_TIED = 10  # items of a list; fewer may well have one score
_FEW = 0.5  # positives among the first two entries, as a factor of their share in whole lists
_GOOD = 0.25  # of the lists, at least, end with a positive where they are worst first
_ODDS, _ODDS_OF_SCORES = 20, 4  # of that, as a factor of the odds by luck; where scores rise in the order given
_RISING_STEPS = 0.25  # of the steps from item to item of an index; fewer that rise raise no suspicion
_OPPOSITE = 0.75  # of these steps rise in the opposite order
_GAIN = 0.2  # of recall, by a shift
_RISING = 0.6  # of the neighbors in the order given, lists included


def first_of_each(values: Int[Tensor, " values"]) -> Int[Tensor, " different"]:
    """Return the places of the first of equal values, ascending.

    A model that gives one list to all queries, or a few lists, is right or wrong with all of them together.
    """
    return (segments.ranks(values) == 0).nonzero()[:, 0]


def different_queries(items: Int[Tensor, "queries longest"]) -> Int[Tensor, " different"]:
    """Return at most 256 queries with lists that begin with different items."""
    queries = first_of_each(items[:, 0])
    queries = queries[items[queries, 0] >= 0]
    return queries[:: -(-len(queries) // MOST_QUERIES) or 1]


class ListCase:
    """A sample of ranked lists with their positives."""

    def __init__(self, _: Any, samples: ListedSamples) -> None:
        """Take what results were computed from."""
        self.samples = samples

    @cached_property
    def queries(self) -> Int[Tensor, " different"]:
        """Some queries with a positive, see `different_queries`."""
        items, truth = self.samples.items, self.samples.truth
        has_positive = truth.query[truth.is_right].bincount(minlength=len(items)) > 0
        return different_queries(items.where(has_positive[:, None], -1))

    @property
    def items(self) -> Int[Tensor, "different longest"]:
        """Their lists, -1 behind each."""
        return self.samples.items[self.queries]


LIST_CAUSES: Causes[ListCase] = Causes()
"""rows by name, in the order in which they are tried"""
cause = LIST_CAUSES.decorator


def _finds_little(case: ListCase) -> bool:
    return share_of(case.samples.hits[:, 0]) <= _SUSPECT


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
    if not reader.unnumbered or bool(((items >= 0) & (items < reader.num_numbered)).any()):
        return None  # some item is in the truth
    names = [reader.name_of_unknown(item) for item in case.items[:, 0].tolist()]
    spelling = spelling_that_fits(names, list(reader.names))
    if spelling is None:
        return None
    words, num_common = spelling
    return {"num": num_common, "total": len(names), "reading": words} if num_common >= _LEAST_NAMES else None


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
    queries, truth, items = case.queries, case.samples.truth, case.items
    is_sampled = truth.is_right & torch.isin(truth.query, queries)
    query, item = truth.query[is_sampled], truth.item[is_sampled]
    # Queries that are items stand first in their own lists.
    if case.samples.reader.names or not len(item) or share_of(items[:, 0] == queries) > _SUSPECT:
        return None
    distances = case.samples.items[query, 0] - item
    offset = int(distances.mode().values)
    num_right, num_opposite = (int((distances == distance).sum()) for distance in (offset, -offset))
    num_given = int(case.samples.hits[queries, :_FIRST].any(1).sum())
    if offset == 0 or num_right < max(2 * num_given, 2 * num_opposite, _LEAST_SHARE * len(queries)):
        return None
    if not is_beyond_chance(num_right, len(queries), len(item) / len(queries) / len(items.unique())):
        return None
    return {
        "num_given": num_given,
        "queries": counted(len(queries), "query"),
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
    lists have at most {_FEW} times the share of positives of all. At most {_MOST_TIED} of scores are equal to others.
    """
    last = (case.items >= 0).sum(1, keepdim=True) - 1
    kept = first_of_each(case.items.gather(1, last)[:, 0])
    kept = kept[last[kept, 0] > 1]
    if not len(kept) or case.samples.reader.share_tied > _MOST_TIED:
        return None
    hits, last = case.samples.hits[case.queries[kept]], last[kept]
    num_right = int(hits.gather(1, last).sum())
    share, by_luck = num_right / len(kept), float((hits.sum(1) / (last[:, 0] + 1)).mean())
    order = case.samples.reader.order
    is_rising = order is not None and np.mean(np.diff(order) == -1) >= _RISING
    odds = (_ODDS_OF_SCORES if is_rising else _ODDS) * by_luck * (1 - share)
    is_better = share >= _GOOD and share * (1 - by_luck) >= odds
    is_better &= share_of(hits[:, :2]) <= _FEW * by_luck
    if not is_better or not is_beyond_chance(num_right, len(kept), by_luck):
        return None
    return {"num": num_right, "queries": counted(len(kept), "query")}


@cause(
    message="All scores of a list are equal, in each list, so that names of items order them, as in trec_eval. Pass"
    " lists in the place of scores to keep an order.",
)
def equal_list_scores(case: ListCase) -> Values | None:
    """Look for runs without an order.

    All scores of each list are equal, and the longest list has at least {_LEAST_TIED} items.
    """
    return {} if case.samples.reader.share_tied == 1 and case.samples.items.shape[1] >= _LEAST_TIED else None


class IndexCase:
    """The recall of an index, and a sample of its lists."""

    def __init__(self, results: tuple[IndexRecall, Float[Tensor, "queries longest"]], samples: SearchedLists) -> None:
        """Take the recall and the exact scores of items, and the lists."""
        self.recall, scores = results
        self.samples = samples
        self.queries = different_queries(samples.items).to(scores.device)
        """some queries, see `different_queries`"""
        steps = scores[self.queries].diff(dim=1)
        steps = steps[steps.isfinite() & (steps != 0)]
        self.num_steps, self.num_rising = len(steps), int((steps > 0).sum())
        """steps from one item of a list to the next, and those to a higher exact score"""


INDEX_CAUSES: Causes[IndexCase] = Causes()
"""rows by name, in the order in which they are tried"""
index_cause = INDEX_CAUSES.decorator


def _fit_badly(case: IndexCase) -> bool:
    return case.num_rising >= _RISING_STEPS * case.num_steps  # also for lists of one item


@index_cause(
    message="Lists have their items in the opposite order of exact scores, which rise in {num} of {steps} from one"
    " item to the next. They must be best first, and `similarity` must be that of the index, higher for closer"
    " items.",
    suspect=_fit_badly,
)
def opposite_lists(case: IndexCase) -> Values | None:
    """Look for lists of an index that are worst first, or by another similarity.

    From item to item of at most 256 lists a share of {_OPPOSITE} of the exact scores rise, and more than by luck.
    """
    num_steps, num_rising = case.num_steps, case.num_rising
    if num_rising < _OPPOSITE * num_steps or not is_beyond_chance(num_rising, num_steps, 0.5):
        return None
    return {"num": f"{num_rising:,}", "steps": counted(num_steps, "step")}


@index_cause(
    message="The lists do not fit the embeddings: recall is {recall}, and {better} where 1 is {change} each"
    " position. Positions count from 0, in the order of `gallery`.",
    suspect=_fit_badly,
    explained_by=("opposite_lists",),
)
def shifted_positions(case: IndexCase) -> Values | None:
    """Look for positions of an index that count from 1.

    From item to item a share of {_RISING_STEPS} of the exact scores rise, the gallery can be read again, and the recall
    of at most 256 queries rises by {_GAIN} or more, and by more than luck explains, where 1 is subtracted from all
    positions, or added, and by less than half of it in the other direction.
    """
    gallery, num_gallery, num_queries = case.samples.gallery, case.recall.num_gallery, len(case.queries)
    if not isinstance(gallery, Sequence) and not hasattr(gallery, "shape"):
        raise NotHeldError("gallery that can be read again")
    if not num_queries:
        return None
    # The gallery is read once for both directions.
    items = case.samples.items[case.queries]
    shifted = torch.cat([items - 1, items + 1])
    is_item = (items >= 0).repeat(2, 1) & (shifted < num_gallery)
    lists = case.samples.for_queries(case.queries.repeat(2), shifted.where(is_item, -1))
    recalls = search_lists(lists)[0].per_query.view(2, -1).nanmean(1).tolist()
    recall = float(case.recall.per_query[case.queries].nanmean())
    # Lists of neighboring frames without the query itself are better in both directions.
    worse, better = sorted(recalls)
    by_luck = max(recall, min(1.0, case.recall.k / num_gallery))
    is_better = is_beyond_chance(better * num_queries, num_queries, by_luck)
    if better - recall < max(_GAIN, 2 * (worse - recall)) or not is_better:
        return None
    return {
        "recall": f"{recall:.4f}",
        "better": f"{better:.4f}",
        "change": "subtracted from" if recalls[0] == better else "added to",
    }


REGISTRIES = {
    ListedSamples: (ListCase, LIST_CAUSES),
    SearchedLists: (IndexCase, INDEX_CAUSES),
}
