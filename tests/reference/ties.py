"""Tied scores from their definition: every order of the tied items, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, product
from typing import NamedTuple

from tests.reference.measures import Groups, walk


class TiedPositive(NamedTuple):
    """A positive and its group: the rank it has if all negatives of the group go first."""

    rank: int
    better: int
    num_positives: int
    num_negatives: int


def groups_of_scores(items: Sequence[tuple[float, bool]]) -> Groups:
    """Return the groups of equal scores, best first, from (score, whether it is a positive)."""
    levels = sorted({score for score, _ in items}, reverse=True)
    return tuple(
        (
            sum(score == level and positive for score, positive in items),
            sum(score == level and not positive for score, positive in items),
        )
        for level in levels
    )


def tied_positives(groups: Groups) -> list[TiedPositive]:
    """Return the positives, best first."""
    found = []
    for step in walk(groups):
        num_negatives = step.read - step.read_before - step.num_positives
        for place in range(1, step.num_positives + 1):
            rank = step.read_before + num_negatives + place
            found.append(TiedPositive(rank, step.found_before, step.num_positives, num_negatives))
    return found


def expectation(measure: Callable[[Groups], Fraction | float], groups: Groups) -> Fraction | float:
    """Return the mean of a measure over all orders of the items of each group."""
    values = [measure(order) for order in orders(tuple(groups))]
    return sum(values) / len(values)


@cache
def orders(groups: tuple[tuple[int, int], ...]) -> list[Groups]:
    """Return every ranked list without ties that the groups allow."""
    return [tuple(chain.from_iterable(parts)) for parts in product(*map(_orders_of_group, groups))]


def _orders_of_group(group: tuple[int, int]) -> Iterator[Groups]:
    num_positives, num_negatives = group
    length = num_positives + num_negatives
    for places in combinations(range(length), num_positives):  # each of them comes equally often
        yield tuple((1, 0) if place in places else (0, 1) for place in range(length))
