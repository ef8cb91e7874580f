"""Measures of one ranked list of items, as loops: what is not retrieved counts, and a repeated item scores once."""

import math
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence

Grades = Mapping[Hashable, float]
GAINS: dict[str, Callable[[float], float]] = {"linear": lambda grade: grade, "exponential": lambda grade: 2**grade - 1}


def ranked(scores: Mapping[Hashable, float]) -> list[Hashable]:
    """Return the items by falling score in single precision, equal ones by the falling item as a string."""
    return sorted(scores, key=lambda item: (in_single(scores[item]), str(item)), reverse=True)


def in_single(score: float) -> float:
    """Return a score in single precision, beyond which it is infinite."""
    try:
        return struct.unpack("f", struct.pack("f", score))[0]
    except OverflowError:
        return math.copysign(math.inf, score)


def hits(items: Sequence[Hashable], grades: Grades) -> list[tuple[int, Hashable]]:
    """Return the places of positives, from 1, each at its first one."""
    return [
        (place, item)
        for place, item in enumerate(items, 1)
        if grades.get(item, 0) > 0 and item not in items[: place - 1]
    ]


def num_positives(grades: Grades) -> int:
    """Return how many items have a grade above 0."""
    return sum(grade > 0 for grade in grades.values())


def average_precision(items: Sequence[Hashable], grades: Grades) -> float:
    """Return the precisions at the hits, over all positives."""
    found = hits(items, grades)
    return math.fsum(ordinal / place for ordinal, (place, _) in enumerate(found, 1)) / num_positives(grades)


def normalized_dcg(items: Sequence[Hashable], grades: Grades, k: int, gain: str) -> float:
    """Return the discounted gains of the first k items, over those of the list that begins with the best."""
    ideal = sorted((GAINS[gain](grade) for grade in grades.values() if grade > 0), reverse=True)[:k]
    gained = math.fsum(GAINS[gain](grades[item]) / math.log2(place + 1) for place, item in hits(items[:k], grades))
    return gained / math.fsum(each / math.log2(place + 1) for place, each in enumerate(ideal, 1))


def binary_preference(items: Sequence[Hashable], grades: Grades) -> float:
    """Return bpref: 1 for a hit, less the share of judged negatives before it."""
    total, wrong = num_positives(grades), {item for item, grade in grades.items() if grade == 0}
    terms = []
    for place, _ in hits(items, grades):
        before = len(wrong & {*items[: place - 1]})
        terms.append(1 - min(before, total) / min(total, len(wrong)) if before else 1)
    return math.fsum(terms) / total
