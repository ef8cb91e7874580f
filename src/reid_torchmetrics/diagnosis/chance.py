"""Whether a trial has more right answers than luck explains."""

from __future__ import annotations

import math

_LEAST_SURPRISE = 15
"""logarithm of the odds against luck"""


def is_beyond_chance(num_right: float, number: int, chance: float) -> bool:
    """Return whether so many of a number of answers are right by luck once in exp(15) times at most.

    This is Chernoff's bound, for answers that are right by luck with the probability `chance` each.
    """
    share = num_right / max(1, number)
    chance = max(chance, 1e-9)
    if share <= chance:
        return False
    surprise = share * math.log(share / chance)
    if share < 1:
        surprise += (1 - share) * math.log((1 - share) / (1 - chance))
    return number * surprise >= _LEAST_SURPRISE
