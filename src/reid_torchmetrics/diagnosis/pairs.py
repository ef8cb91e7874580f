"""Causes that the results of given pairs show: another sign, or distances beyond the thresholds of LFW."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.tasks.verification import (
    LARGEST_DISTANCE,
    ComparedPairs,
    FoldAccuracies,
    Verification,
    count_given_pairs,
    find_accuracies,
)

from .causes import Causes, Values, is_beyond_chance

_MOST_AREA = 0.1  # under the ROC curve: the opposite order has 0.9 at least
_CHANCE = 0.25  # the area of a random order where the pairs without `same` are the nearer half, as hard ones are
_LEAST_PAIRS = 10  # of each kind, with an area of 0, are no luck: one of 184,756 orders has it
_DEVIATIONS = 3  # of the area below that of chance, in its standard deviations
_SUSPECT = 0.95  # a higher accuracy over folds raises no suspicion
_ROUNDING = 0.01  # of distances in 16 bits
_GAIN = 0.05  # of accuracy, by a threshold that the grid lacks


@dataclass(frozen=True)
class PairCase:
    """The results of given pairs, and the pairs."""

    results: Verification | FoldAccuracies
    pairs: ComparedPairs


PAIR_CAUSES: Causes[PairCase] = Causes()
"""rows by name, in the order in which they are tried"""
cause = PAIR_CAUSES.decorator


def _is_poor(case: PairCase) -> bool:
    if isinstance(case.results, FoldAccuracies):
        return float(case.results.accuracy.mean()) < _SUSPECT
    return case.results.is_defined and float(case.results.area_under_curve()) <= _MOST_AREA


_REMEDIES = {
    "scores": "Scores must be higher for closer pairs, so pass distances as `distances`. ",
    "distances": "Distances must be lower for closer pairs, such as 2 - 2 c for a cosine c. ",
    "embeddings": "",
}


@cause(
    message="The {pairs} with `same` are farther apart than the {other_pairs} without: the area under the ROC"
    " curve is {area}. {remedy}`same` must be True for pairs of one identity.",
    suspect=_is_poor,
)
def opposite_pairs(case: PairCase) -> Values | None:
    """Look for distances of pairs as scores, cosines as distances, or `same` with the opposite meaning.

    The area under the ROC curve is at most {_MOST_AREA}, and {_DEVIATIONS} standard deviations below {_CHANCE}, which
    is that of a random order where the pairs without `same` are the nearer half; or it is 0, of {_LEAST_PAIRS} pairs of
    each kind or more.
    """
    counts = case.results
    if not isinstance(counts, Verification):
        counts = count_given_pairs(case.pairs.scores, case.pairs.same)
    area = float(counts.area_under_curve())
    num_genuine, num_impostors = counts.num_genuine, counts.num_impostors
    if not area <= _MOST_AREA:  # NaN if there are pairs of one kind alone
        return None
    deviation = math.sqrt((num_genuine + num_impostors + 1) / (12 * num_genuine * num_impostors))
    is_close = _CHANCE - area < _DEVIATIONS * deviation
    if is_close and (area > 0 or min(num_genuine, num_impostors) < _LEAST_PAIRS):
        return None
    return {
        "pairs": counted(num_genuine, "pair"),
        "other_pairs": f"{num_impostors:,}",
        "area": f"{area:.4f}",
        "remedy": _REMEDIES[case.pairs.given],
    }


@cause(
    message="Thresholds are from 0 to 4, the largest squared distance of two unit vectors, but distances are from"
    " {lowest} to {highest}: with thresholds in this range the accuracy is {better} in the place of {accuracy}."
    " Normalize the embeddings, and pass squared distances, 2 - 2 c for a cosine c.",
    suspect=_is_poor,
    explained_by=("opposite_pairs",),
)
def thresholds_beyond(case: PairCase) -> Values | None:
    """Look for distances beyond the thresholds of LFW's accuracy.

    Distances are below 0 or above 4, and with thresholds there the accuracy is higher by at least {_GAIN}, and by more
    than luck explains.
    """
    distances, same = -case.pairs.scores, case.pairs.same
    lowest, highest = float(distances.min()), float(distances.max())
    is_within = lowest >= -_ROUNDING and highest <= LARGEST_DISTANCE + _ROUNDING
    if not isinstance(case.results, FoldAccuracies) or is_within or not 0 < highest - lowest < math.inf:
        return None
    # The grid would cover distances that are scaled to its length.
    scaled = (distances - lowest) * (LARGEST_DISTANCE / (highest - lowest))
    accuracy = float(case.results.accuracy.mean())
    better = float(find_accuracies(scaled, same, len(case.results.accuracy)).accuracy.mean())
    if better - accuracy < _GAIN or not is_beyond_chance(better * len(same), len(same), accuracy):
        return None
    return {
        "lowest": f"{lowest:.4g}",
        "highest": f"{highest:.4g}",
        "accuracy": f"{accuracy:.4f}",
        "better": f"{better:.4f}",
    }


REGISTRIES = {ComparedPairs: (PairCase, PAIR_CAUSES)}
