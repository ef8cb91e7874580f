"""Causes that ranked lists show: names in another spelling, items that are shifted, the opposite order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cached_property
from itertools import chain
from os.path import commonprefix
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.evaluation import ListedSamples

from .causes import Cause, Values, is_beyond_chance

MOST_QUERIES = 256
_FIRST = 10  # entries of a list that a trial looks at
_MOST_PAIRS = 1 << 14  # of a query and a positive
_LEAST_SHARE = 0.2  # of queries that a shift must explain
_SUSPECT = 0.5  # of the queries have a positive first; more raise no suspicion
_FEW = 0.5  # positives in the first half of lists, as a factor of their share in whole lists
_GOOD = 0.25  # of the lists, at least, end with a positive where they are worst first
_ODDS, _ODDS_OF_SCORES = 20, 4  # of that, as a factor of the odds by luck; where scores rise in the order given


def different_queries(items: Int[Tensor, "queries longest"], kept: Bool[Tensor, " queries"]) -> Int[Tensor, " chosen"]:
    """Return at most 256 of the kept queries with lists that begin with different items.

    A model that gives one list to all queries, or a few lists, is right or wrong with all of them together.
    """
    queries = (kept & (items[:, 0] >= 0)).nonzero()[:, 0]
    _, places = np.unique(items[queries, 0].cpu().numpy(), return_index=True)
    spread = np.linspace(0, len(places) - 1, min(len(places), MOST_QUERIES)).astype(np.int64)
    return queries[torch.from_numpy(np.sort(places)[spread]).to(items.device)]


class ListCase:
    """Ranked lists and their positives, with a sample of the queries."""

    def __init__(self, _: Any, samples: ListedSamples) -> None:
        """Take what results were computed from."""
        self.samples = samples

    @cached_property
    def queries(self) -> Int[Tensor, " queries"]:
        """Some queries with a positive, see `different_queries`."""
        items, truth = self.samples.items, self.samples.truth
        has_positive = torch.zeros(len(items), dtype=torch.bool, device=items.device)
        has_positive[truth.query[truth.is_right]] = True
        return different_queries(items, has_positive)

    @cached_property
    def items(self) -> Int[Tensor, "queries longest"]:
        """The lists of the sample on the CPU, -1 behind each."""
        return self.samples.items[self.queries].cpu()

    @cached_property
    def hits(self) -> Bool[Tensor, "queries longest"]:
        """Mask of the positives in the lists of the sample."""
        return self.samples.hits[self.queries].cpu()

    @cached_property
    def positives(self) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]:
        """The places of queries in the sample, and their positives."""
        truth = self.samples.truth
        place = torch.full((len(self.samples.items),), -1, dtype=torch.int64, device=truth.query.device)
        place[self.queries] = torch.arange(len(self.queries), device=place.device)
        places = place[truth.query]
        kept = truth.is_right & (places >= 0)
        return places[kept].cpu(), truth.item[kept].cpu()


def _finds_little(case: ListCase) -> bool:
    hits = case.samples.hits[:, 0]
    return float(hits.double().mean()) <= _SUSPECT


def _last_part(name: str) -> str:
    return re.split(r"[\\/]", name)[-1]


def _without_extension(name: str) -> str:
    return re.sub(r"\.[A-Za-z]\w{0,4}$", "", name)


def _numbers(name: str) -> str:
    numbers = re.findall(r"\d+", _without_extension(_last_part(name)))
    return " ".join(str(int(number)) for number in numbers) or name


def _without_first_folders(names: list[str]) -> list[str]:
    """Remove the folders that the names of one side begin with."""
    names = [name.replace("\\", "/") for name in names]
    length = commonprefix(names).rfind("/") + 1  # noqa: RUF071 - cut behind a folder
    return [name[length:] for name in names]


def _each(read: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
    return lambda names: [read(name) for name in names]


_READINGS = {
    "with / in the place of \\": _each(lambda name: name.replace("\\", "/")),
    "regardless of case": _each(str.casefold),
    "in one form of Unicode": _each(lambda name: unicodedata.normalize("NFC", name)),
    "without the first folders": _without_first_folders,
    "without folders": _each(_last_part),
    "without extensions": _each(_without_extension),
    "without folders and extensions, regardless of case": _each(
        lambda name: _without_extension(_last_part(name)).casefold()
    ),
    "by their numbers alone": _each(_numbers),
}
"""functions that return the rest of each name of one side, by their description"""


def _read(reading: Callable[[list[str]], list[str]], lists: list[list[str]]) -> list[dict[str, str]]:
    """Return the names of each list by what is left of them."""
    names = [*dict.fromkeys(chain.from_iterable(lists))]
    left = dict(zip(names, reading(names), strict=True))
    return [{left[name]: name for name in row} for row in lists]


def _other_names(case: ListCase) -> Values | None:
    reader, items = case.samples.reader, case.samples.items
    query, item = case.positives
    if not (reader.unnumbered and 0 < len(item) <= _MOST_PAIRS) or int(items[items >= 0].min()) < reader.num_numbered:
        return None  # some item is in the truth
    names = [*reader.names]
    listed = [[reader.name_of_unknown(item) for item in row if item >= 0] for row in case.items[:, :_FIRST].tolist()]
    positives: list[list[str]] = [[] for _ in listed]
    for place, number in zip(query.tolist(), item.tolist(), strict=True):
        positives[place].append(names[number])

    for description, reading in _READINGS.items():
        sides = _read(reading, listed), _read(reading, positives)
        shared = [one.keys() & other.keys() for one, other in zip(*sides, strict=True)]
        num_names = max(len(set(chain.from_iterable(side))) for side in sides)
        by_luck = [min(1.0, len(one) * len(other) / num_names) for one, other in zip(*sides, strict=True)]
        num_right = sum(map(bool, shared))
        if is_beyond_chance(num_right, len(listed), sum(by_luck) / len(listed)):
            place = next(place for place, left in enumerate(shared) if left)
            left = min(shared[place])
            return {
                "num": num_right,
                "queries": counted(len(listed), "query"),
                "reading": description,
                "listed": repr(sides[0][place][left]),
                "positive": repr(sides[1][place][left]),
            }
    return None


def _shifted_items(case: ListCase) -> Values | None:
    query, item = case.positives
    if case.samples.reader.names or not 0 < len(item) <= _MOST_PAIRS:
        return None
    # How far each of the first items is behind each positive of its query, the first ones counting most.
    entries = case.items[:, :_FIRST]
    weights = (entries >= 0) / torch.arange(1, entries.shape[1] + 1, device="cpu")
    offsets, numbers = (entries[query] - item[:, None]).flatten().unique(return_inverse=True)
    offset = int(offsets[numbers.bincount(weights[query].flatten()).argmax()])
    distance = entries[query, 0] - item
    num_right, num_opposite = int((distance == offset).sum()), int((distance == -offset).sum())
    num_given = int(case.hits[:, :_FIRST].any(1).sum())
    num_queries = len(case.queries)
    if offset == 0 or num_right < max(2 * num_given, 2 * num_opposite, _LEAST_SHARE * num_queries):
        return None
    num_items = max(len(case.items.unique()), len(item.unique()))
    if not is_beyond_chance(num_right, num_queries, min(1.0, len(item) / num_queries / num_items)):
        return None
    return {
        "num_given": num_given,
        "queries": counted(num_queries, "query"),
        "num": num_right,
        "change": f"{abs(offset)} is {'subtracted from' if offset > 0 else 'added to'} each item",
    }


def _rise_in_order_given(case: ListCase) -> bool:
    """Return whether nearly all lists were given with scores that rise strictly."""
    order = case.samples.reader.order
    if order is None:
        return False
    num_lists = int((case.samples.items[:, 0] >= 0).sum())
    return int((np.diff(order) == -1).sum()) >= 0.95 * (len(order) - num_lists)


def _worst_first(case: ListCase) -> Values | None:
    lengths = (case.items >= 0).sum(1)
    _, places = np.unique(case.items.gather(1, lengths[:, None] - 1)[:, 0].numpy(), return_index=True)
    kept = torch.from_numpy(places)
    kept = kept[lengths[kept] > 2]
    if not len(kept):
        return None
    hits, lengths = case.hits[kept].double(), lengths[kept, None]
    halves = (lengths // 2).clamp(min=2)
    in_first_half = torch.arange(hits.shape[1], device="cpu") < halves
    by_luck = float((hits.sum(1, keepdim=True) / lengths).mean())
    early = float(((hits * in_first_half).sum(1, keepdim=True) / halves).mean())
    num_right = int(hits.gather(1, lengths - 1).sum())
    share = num_right / len(kept)
    odds = _ODDS_OF_SCORES if _rise_in_order_given(case) else _ODDS
    is_better = share >= _GOOD and share * (1 - by_luck) >= odds * by_luck * (1 - share)
    if early > _FEW * by_luck or not is_better or not is_beyond_chance(num_right, len(kept), by_luck):
        return None
    return {"num": num_right, "queries": counted(len(kept), "query")}


_ROWS = [
    Cause[ListCase](
        name="other_names",
        checks="lists and positives that spell the names of items in two ways",
        fires="No item of any list is in the ground truth, and where names are read in another way, such as without"
        " folders or extensions, more of at most 256 queries find a positive among their first {first} than by luck.",
        message="Lists and positives have no item in common, but {num} of {queries} find a positive among their first"
        " items where names are read {reading}: {listed} and {positive}. Spell both in one way.",
        suspect=_finds_little,
        find=_other_names,
        thresholds={"first": _FIRST},
    ),
    Cause[ListCase](
        name="shifted_items",
        checks="positions that count from 1, or items that are shifted by another number",
        fires="With one number added to all items at least twice as many of at most 256 queries find a positive first"
        " as find one among their first {first} without, a share of {share} or more, and more than by luck.",
        message="Few lists have an item in common with the positives of their query: {num_given} of {queries} find one"
        " among their first items, but {num} find one first where {change}. Positions count from 0.",
        suspect=_finds_little,
        find=_shifted_items,
        thresholds={"first": _FIRST, "share": _LEAST_SHARE},
    ),
    Cause[ListCase](
        name="worst_first",
        checks="distances as scores of lists, or lists in the opposite order",
        fires="Of at most 256 lists a share of {good} or more end with a positive, with {odds} times the odds of luck,"
        " or {odds_of_scores} times where scores rise in the order in which they were given; and the first half of the"
        " lists has at most {few} times the share of positives of all.",
        message="Lists seem to be worst first: right answers come last, and first in the opposite order for {num} of"
        " {queries}. Lists must be best first, and scores higher for closer items: pass minus the distances.",
        suspect=_finds_little,
        find=_worst_first,
        thresholds={"good": _GOOD, "odds": _ODDS, "odds_of_scores": _ODDS_OF_SCORES, "few": _FEW},
    ),
]

LIST_CAUSES = {row.name: row for row in _ROWS}
"""rows by name, in the order in which they are tried"""
