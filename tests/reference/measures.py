"""Measures of one query from their definitions, in exact fractions, by a walk down its ranked list.

A ranked list is cut into groups, best first, and a group is (positives, negatives). Without ties every group holds one
item; with ties all items of a group are read at once, so that each has the place of the last.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

Groups = Sequence[tuple[int, int]]


class Step(NamedTuple):
    """A group with positives: how many items and how many positives were read before it and up to its end."""

    read_before: int
    found_before: int
    read: int
    found: int

    @property
    def num_positives(self) -> int:
        return self.found - self.found_before


def certain(ranks: Sequence[int], num_candidates: int) -> Groups:
    """Return a list without ties, from the ranks of its positives."""
    return tuple((1, 0) if rank in ranks else (0, 1) for rank in range(1, num_candidates + 1))


def walk(groups: Groups) -> Iterator[Step]:
    """Read group after group and stop at those with positives."""
    read = found = 0
    for num_positives, num_negatives in groups:
        step = Step(read, found, read + num_positives + num_negatives, found + num_positives)
        read, found = step.read, step.found
        if num_positives:
            yield step


def within(groups: Groups, k: int | None) -> list[Step]:
    """Return the steps whose group ends among the first k items."""
    return [step for step in walk(groups) if k is None or step.read <= k]


def count(groups: Groups) -> int:
    """Return n, the number of positives."""
    return sum(num_positives for num_positives, _ in groups)


def hits(groups: Groups, k: int | None) -> int:
    """Return the number of positives among the first k items."""
    return sum(step.num_positives for step in within(groups, k))


def smaller(number: int, k: int | None) -> int:
    """Return min(number, k)."""
    return number if k is None else min(number, k)


def average_precision(
    groups: Groups, rule: str = "rectangle", k: int | None = None, normalizer: str = "positives"
) -> Fraction:
    """Return the area under precision over recall, or the mean of the interpolated precision."""
    if rule.startswith("interpolated"):
        points = interpolated_precision(groups, int(rule.removeprefix("interpolated_")), k)
        return sum(points) / len(points)
    n = count(groups)
    divisor = {"positives": n, "attainable": smaller(n, k), "hits": hits(groups, k), "k": k}[normalizer]
    area = sum(step.num_positives * _height(step, rule) for step in within(groups, k))
    return area / divisor if divisor else Fraction(0)


def _height(step: Step, rule: str) -> Fraction:
    precision = Fraction(step.found, step.read)
    before = Fraction(step.found_before, step.read_before) if step.read_before else Fraction(1)
    return {"rectangle": precision, "trapezoid": (before + precision) / 2}[rule]


def interpolated_precision(groups: Groups, num_points: int, k: int | None = None) -> list[Fraction]:
    """Return for each recall the largest precision at that recall or a higher one, 0 if it is not reached."""
    n = count(groups)
    curve = [(Fraction(step.found, n), Fraction(step.found, step.read)) for step in within(groups, k)]
    recalls = [Fraction(point, num_points - 1) for point in range(num_points)]
    return [max((precision for at, precision in curve if at >= recall), default=Fraction(0)) for recall in recalls]


def average_precision_at_r(groups: Groups, k: int | None = None) -> Fraction:
    """Return the area over the first n items."""
    return average_precision(groups, k=smaller(count(groups), k))


def precision_at(groups: Groups, k: int, divisor: str = "k") -> Fraction:
    """Return the hits among the first k items, or "calibrated" the first min(k, n), over one of the divisors."""
    if divisor == "calibrated":
        return r_precision(groups, k)
    last = list(walk(groups))[-1].read
    return Fraction(
        hits(groups, k), {"k": k, "attainable": min(k, count(groups)), "last_positive": min(k, last)}[divisor]
    )


def recall_at(groups: Groups, k: int) -> Fraction:
    """Return the found share of the positives."""
    return Fraction(hits(groups, k), count(groups))


def r_precision(groups: Groups, k: int | None = None) -> Fraction:
    """Return the precision among as many items as there are positives."""
    cutoff = smaller(count(groups), k)
    return Fraction(hits(groups, cutoff), cutoff)


def first_rank(groups: Groups) -> Fraction:
    """Return the rank of the best positive."""
    return Fraction(next(walk(groups)).read)


def reciprocal_rank(groups: Groups, k: int | None = None) -> Fraction:
    """Return 1 / the rank of the best positive, 0 beyond k."""
    return 1 / first_rank(groups) if k is None or first_rank(groups) <= k else Fraction(0)


def inverse_negative_penalty(groups: Groups) -> Fraction:
    """Return n / the rank of the last positive."""
    return Fraction(count(groups), list(walk(groups))[-1].read)


def normalized_dcg(groups: Groups, k: int | None = None) -> float:
    """Return the discounted hits, over those of a list that begins with all positives."""
    gain = math.fsum(step.num_positives / math.log2(step.read + 1) for step in within(groups, k))
    return gain / math.fsum(1 / math.log2(rank + 1) for rank in range(1, smaller(count(groups), k) + 1))


def retrieval_rank(groups: Groups, most_positives: int, variant: str = "mpeg7") -> Fraction:
    """Return NMRR, item by item: a positive that is not seen early counts a fixed rank."""
    n = count(groups)
    reach = min(4 * n, 2 * most_positives)
    last, late = {"mpeg7": (reach, Fraction(5, 4) * reach), "shrec22": (n, Fraction(reach + 1))}[variant]
    counted = [step.read if step.read <= last else late for step in walk(groups) for _ in range(step.num_positives)]
    average = Fraction(sum(counted)) / n
    best = Fraction(n + 1, 2)
    return (average - best) / (late - best)


def median(values: Sequence[float], rule: str = "mean") -> float:
    """Return the middle value of a sorted list, or of the two middle ones what the rule says."""
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return {"mean": (low + high) / 2, "lower": low, "floor": (low + high) // 2}[rule]


def binary_preference(groups: Groups) -> Fraction:
    """Return bpref where every candidate is judged; the negatives of a group are before its positives."""
    n = count(groups)
    most = min(n, sum(num_negatives for _, num_negatives in groups))
    lost = [Fraction(min(step.read - step.found, n), max(most, 1)) for step in walk(groups)]
    kept = [step.num_positives * (1 - share) for step, share in zip(walk(groups), lost, strict=True)]
    return Fraction(sum(kept)) / n


def hit_rate_at(groups: Groups, k: int) -> Fraction:
    """Return 1 if the best positive is among the first k items."""
    return Fraction(first_rank(groups) <= k)


def all_shots_at(groups: Groups, k: int) -> Fraction:
    """Return the share of positives among the first k items once the better positives are taken out."""
    matched = sum(step.num_positives for step in walk(groups) if step.read - (step.found - 1) <= k)
    return Fraction(matched, count(groups))


def place_by_votes(items: Sequence[tuple[int, float]], own: int, vote: str, temperature: float = 0.07) -> float:
    """Return the place of a label among those that the items (label, score), the nearest first, vote for."""
    votes: dict[int, float] = {}
    for label, score in items:  # a dictionary keeps the order in which labels came
        votes[label] = votes.get(label, 0) + (math.exp(score / temperature) if vote == "weighted" else 1)
    places = {label: place for place, label in enumerate(sorted(votes, key=lambda label: -votes[label]), start=1)}
    return places.get(own, math.inf)


def _average_precision_by_options(groups: Groups, k: int, options: Mapping[str, Any], _: int) -> Fraction:
    rules = {name: options[name] for name in ("rule", "k", "normalizer") if name in options}
    return average_precision(groups, **(rules | {"k": k} if k else rules))


def _cmc_by_options(groups: Groups, k: int, options: Mapping[str, Any], _: int) -> Fraction:
    function = {"first_match": hit_rate_at, "all_shots": all_shots_at}
    return function[options.get("mode", "first_match")](groups, k)


def _precision_by_options(groups: Groups, k: int, options: Mapping[str, Any], _: int) -> Fraction:
    return precision_at(groups, k, options.get("precision_divisor", "k"))


Measure = Callable[[Groups, int, Mapping[str, Any], int], Fraction | float]
"""The value of a query with positives from its list, k, options, and the most positives of a query."""

MEASURES: dict[str, Measure] = {
    "map": _average_precision_by_options,
    "map_at_r": lambda groups, *_: average_precision_at_r(groups),
    "minp": lambda groups, *_: inverse_negative_penalty(groups),
    "rank": _cmc_by_options,
    "hit_rate": lambda groups, k, *_: hit_rate_at(groups, k),
    "precision": _precision_by_options,
    "recall": lambda groups, k, *_: recall_at(groups, k),
    "r_precision": lambda groups, *_: r_precision(groups),
    "mrr": lambda groups, k, options, _: reciprocal_rank(groups, k or options.get("k")),
    "ndcg": lambda groups, k, *_: normalized_dcg(groups, k),
    "acg": lambda groups, k, *_: precision_at(groups, k),  # all grades are 1
    "bpref": lambda groups, *_: binary_preference(groups),
    "mean_rank": lambda groups, *_: first_rank(groups),
    "median_rank": lambda groups, *_: first_rank(groups),
    "median_rank_lower": lambda groups, *_: first_rank(groups),
    "median_rank_floor": lambda groups, *_: first_rank(groups),
    "anmrr": lambda groups, _, __, most: retrieval_rank(groups, most),
    "anmrr_shrec22": lambda groups, _, __, most: retrieval_rank(groups, most, "shrec22"),
}
"""the definitions by the names of reported numbers"""
