"""Groups of gallery items from their definition: the score of a group is that of its best member."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def members(groups: Sequence[int]) -> list[list[int]]:
    """Positions of the members of each group, in the order of the groups' first members."""
    found: dict[int, list[int]] = {}
    for position, group in enumerate(groups):
        found.setdefault(group, []).append(position)
    return list(found.values())


def best_members(scores: ArrayLike, groups: Sequence[int]) -> list[list[int]]:
    """For each query the position of the best member of each group, of equal ones the first."""
    return [[max(each, key=lambda item: row[item]) for each in members(groups)] for row in np.asarray(scores)]


def scores_of_groups(scores: ArrayLike, groups: Sequence[int]) -> NDArray[np.float64]:
    """Scores of queries against groups."""
    scores, best = np.asarray(scores), best_members(scores, groups)
    rows = [[row[item] for item in items] for row, items in zip(scores, best, strict=True)]
    return np.asarray(rows, dtype=scores.dtype).reshape(len(scores), len(members(groups)))
