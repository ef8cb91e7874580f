"""Verification and recognition from their definitions: all pairs in two lists, fractions, no cleverness.

The package is compared with this module, so nothing here may come from the package.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

Point = tuple[Fraction, Fraction]


def rates(genuine: Sequence[float], impostors: Sequence[float], threshold: float) -> Point:
    """FAR and TAR where a pair that scores at least `threshold` is accepted."""
    far = Fraction(sum(score >= threshold for score in impostors), len(impostors))
    return far, Fraction(sum(score >= threshold for score in genuine), len(genuine))


def counts(genuine: Sequence[float], impostors: Sequence[float]) -> list[tuple[float, int, int, int]]:
    """Every distinct genuine score, descending, genuine pairs and impostors at or above it, and impostors above it."""
    counted = []
    for threshold in sorted({*genuine}, reverse=True):
        num_genuine_at = sum(score >= threshold for score in genuine)
        num_impostors_at = sum(score >= threshold for score in impostors)
        num_impostors_above = sum(score > threshold for score in impostors)
        counted.append((threshold, num_genuine_at, num_impostors_at, num_impostors_above))
    return counted


def roc(genuine: Sequence[float], impostors: Sequence[float]) -> list[Point]:
    """FAR and TAR at every observed score, after the point that accepts nothing."""
    observed = sorted({*genuine, *impostors}, reverse=True)
    return [(Fraction(0), Fraction(0)), *(rates(genuine, impostors, score) for score in observed)]


def corners(points: Sequence[Point]) -> list[Point]:
    """The points of a line at which it changes its direction, and its ends."""
    kept: list[Point] = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        while len(kept) > 1 and _are_in_line(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    return kept


def _are_in_line(first: Point, middle: Point, last: Point) -> bool:
    run, rise = last[0] - first[0], last[1] - first[1]
    return (middle[0] - first[0]) * rise == (middle[1] - first[1]) * run


def tar_at_far(genuine: Sequence[float], impostors: Sequence[float], far: float) -> float:
    """The largest TAR among all observed thresholds, and accepting nothing, whose FAR is at most `far`."""
    return max(float(tar) for accepted, tar in roc(genuine, impostors) if float(accepted) <= far)


def equal_error_rate(genuine: Sequence[float], impostors: Sequence[float]) -> float:
    """FAR where the ROC, drawn with straight lines, meets FAR = 1 - TAR."""
    points = roc(genuine, impostors)
    for (far, tar), (next_far, next_tar) in pairwise(points):
        if next_far >= 1 - next_tar:
            share = (1 - tar - far) / (next_far - far + next_tar - tar)
            return float(far + share * (next_far - far))
    raise AssertionError


def area_under_curve(genuine: Sequence[float], impostors: Sequence[float]) -> float:
    """How often a genuine pair scores higher than an impostor; a tie is half a win."""
    wins = sum(Fraction((g > i) + (g >= i), 2) for g in genuine for i in impostors)
    return float(wins / (len(genuine) * len(impostors)))


def average_precision(genuine: Sequence[float], impostors: Sequence[float], ties: str) -> float:
    """AP of one list of all pairs, read pair by pair, or group by group under "grouped"."""
    total = Fraction(0)
    if ties == "grouped":
        for score in genuine:
            hits, misses = (sum(other >= score for other in group) for group in (genuine, impostors))
            total += Fraction(hits, hits + misses)
        return float(total / len(genuine))
    first = ties == "optimistic"
    pairs = [(-score, not first, True) for score in genuine] + [(-score, first, False) for score in impostors]
    hits = 0
    for place, (_, _, is_genuine) in enumerate(sorted(pairs), start=1):
        hits += is_genuine
        total += Fraction(hits, place) if is_genuine else 0
    return float(total / len(genuine))


def non_match_rate(genuine: Sequence[float], impostors: Sequence[float], fmr: float) -> tuple[float, float]:
    """FNMR at `fmr`, and the threshold: the linear `fmr`-quantile of impostor distances, turned into a score."""
    distances = sorted(-score for score in impostors)
    position = fmr * (len(distances) - 1)
    low, high = distances[math.floor(position)], distances[math.ceil(position)]
    limit = low if low == high else low + (position - math.floor(position)) * (high - low)
    return sum(-score >= limit for score in genuine) / len(genuine), -limit


def global_average_precision(
    confidence: Sequence[float], correct: Sequence[bool], has_target: Sequence[bool], ties: str
) -> float:
    """GAP of one prediction per query, read from the most confident on."""
    goes_first = {"pessimistic": False, "optimistic": True, "stable": None}[ties]
    predictions = [
        (-value, query if goes_first is None else right is not goes_first, right)
        for query, (value, right) in enumerate(zip(confidence, correct, strict=True))
    ]
    hits, total = 0, Fraction(0)
    for place, (_, _, right) in enumerate(sorted(predictions), start=1):
        hits += right
        total += Fraction(hits, place) if right else 0
    return float(total / sum(has_target)) if any(has_target) else math.nan


def min_dcf(
    genuine: Sequence[float], impostors: Sequence[float], p_target: float, c_miss: float, c_false_alarm: float
) -> float:
    """The least expected cost of an observed threshold, and of accepting nothing, over that of the better constant."""
    miss, false_alarm = c_miss * p_target, c_false_alarm * (1 - p_target)
    costs = [miss * float(1 - tar) + false_alarm * float(far) for far, tar in roc(genuine, impostors)]
    return min(costs) / min(miss, false_alarm)


def scikit_learn_points(genuine: Sequence[float], impostors: Sequence[float]) -> list[tuple[float, float]]:
    """FAR and TAR of the points of scikit-learn's curve.

    It counts what scores at least each observed score, drops a point, other than the first and the last, whose step is
    as long as the next one, and puts (0, 0) in front.
    """
    counts = [
        (sum(score >= limit for score in impostors), sum(score >= limit for score in genuine))
        for limit in sorted({*genuine, *impostors}, reverse=True)
    ]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(counts)]
    inner = [point for point, (before, behind) in zip(counts[1:], pairwise(steps)) if before != behind]  # noqa: B905
    points = [(0, 0), *dict.fromkeys([counts[0], *inner, counts[-1]])]
    return [(far / len(impostors), tar / len(genuine)) for far, tar in points]


def tar_at_nearest_far(genuine: Sequence[float], impostors: Sequence[float], far: float) -> float:
    """The largest TAR of the points whose FAR is closest to `far`."""
    return -min((abs(at - far), -tar) for at, tar in scikit_learn_points(genuine, impostors))[1]


def closest_error_rate(genuine: Sequence[float], impostors: Sequence[float]) -> float:
    """The larger error at the first point where both errors are closest."""
    errors = [(far, 1 - tar) for far, tar in scikit_learn_points(genuine, impostors)]
    return max(min(errors, key=lambda each: abs(each[1] - each[0])))


def mean_error_rates(genuine: Sequence[float], impostors: Sequence[float]) -> list[tuple[Fraction, Fraction]]:
    """The mean of both errors at each observed score, and their difference: the smallest difference first."""
    errors = [(far, 1 - tar) for far, tar in roc(genuine, impostors)[1:]]
    means = [((far + frr) / 2, abs(far - frr)) for far, frr in errors]
    return sorted(means, key=lambda mean: mean[1])  # stable: of equal differences that of the highest score


def accuracy_over_folds(
    distances: Sequence[float], same: Sequence[bool], folds: int, step: float
) -> list[tuple[float, float]]:
    """Accuracy and threshold of each fold, a run of pairs; the first ones are longer by one where they must."""
    grid = [place * step for place in range(math.ceil(4 / step))]
    size, more = divmod(len(distances), folds)
    starts = [fold * size + min(fold, more) for fold in range(folds + 1)]

    def num_right(pairs: Sequence[int], threshold: float) -> int:
        return sum((distances[pair] < threshold) == same[pair] for pair in pairs)

    found = []
    for first, end in pairwise(starts):
        others = [*range(first), *range(end, len(distances))]
        threshold = max(grid, key=lambda at: num_right(others, at))
        found.append((num_right(range(first, end), threshold) / (end - first), threshold))
    return found
