"""Open-set identification from its definitions: one query at a time, every threshold tried, no cleverness.

The package is compared with this module, so nothing here may come from the package.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.reference.nearest import nearest
from tests.reference.retrieval import Candidates


class Search(NamedTuple):
    """Best score of a query, minus infinity without candidates; score and rank of its best mate, None and 0 if none."""

    best: float
    mate: float | None
    rank: int


def search(scores: Sequence[float], found: Candidates, ties: str) -> Search:
    everything = nearest(scores, found, len(scores), ties)
    mates = [score for _, score, is_mate in everything.listed if is_mate]
    best = everything.listed[0][1] if everything.listed else -math.inf
    return Search(best, mates[0] if mates else None, everything.first_rank)


def alarms(searches: Sequence[Search]) -> list[float]:
    """Best scores of the non-mated queries, descending."""
    return sorted((each.best for each in searches if not each.rank), reverse=True)


def rates(searches: Sequence[Search], threshold: float, rank: int) -> tuple[Fraction, Fraction]:
    """FPIR and TPIR where what scores at least `threshold` is accepted."""
    mated = [each for each in searches if each.rank]
    accepted = sum(each.rank <= rank and each.mate >= threshold for each in mated)
    best = alarms(searches)
    return Fraction(sum(score >= threshold for score in best), len(best)), Fraction(accepted, len(mated))


def tpir_at_fpir(searches: Sequence[Search], fpir: float, rank: int, rule: str) -> float:
    """TPIR at an FPIR by a rule, as its source words it."""
    best = alarms(searches)
    mated = [each for each in searches if each.rank]
    if rule == "largest":  # of all thresholds
        observed = [math.inf, -math.inf, *(each.mate for each in mated)]
        return max(
            float(tpir) for false, tpir in (rates(searches, at, rank) for at in observed) if float(false) <= fpir
        )
    if rule == "strict":  # insightface: more than the max(int(n f), 1)-th best score
        limit = best[max(int(len(best) * fpir), 1) - 1]
        return sum(each.rank <= rank and each.mate > limit for each in mated) / len(mated)
    # PFE, OpenGait: at least the k-th best score, or 1e-8 more than the best one for k = 0
    k = {"nearest": round, "floor": int}[rule](len(best) * fpir)
    return float(rates(searches, best[k - 1] if k else best[0] + 1e-8, rank)[1])


def balanced_accuracy(
    searches: Sequence[Search], identities: Sequence[int], threshold: float
) -> tuple[float | None, float | None]:
    """Mean over known, and over unknown identities of the share of their queries that are judged rightly."""
    shares = []
    for is_known in (True, False):
        verdicts: dict[int, list[bool]] = {}
        for each, identity in zip(searches, identities, strict=True):
            if bool(each.rank) == is_known:
                accepted = each.best >= threshold
                verdicts.setdefault(identity, []).append(accepted and each.rank == 1 if is_known else not accepted)
        means = [sum(right) / len(right) for right in verdicts.values()]
        shares.append(sum(means) / len(means) if means else None)
    return shares[0], shares[1]
