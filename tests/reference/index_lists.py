"""Lists of a search engine, from their definition: one query at a time, Python values."""

import math
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any

LARGEST_FLOAT32 = 3.4028234663852886e38


def ends_nothing(items: Sequence[Hashable], distances: Sequence[float] | None, place: int) -> bool:
    """Return whether an entry is padding if it stands at the end of a list."""
    if items[place] in (-1, 2**64 - 1) or items[place] in items[:place]:
        return True
    if distances is None:
        return False
    return not math.isfinite(distances[place]) or abs(distances[place]) >= LARGEST_FLOAT32


def index_list(items: Sequence[Any], distances: Sequence[float] | None = None, count: int | None = None) -> list[Any]:
    """Return the items of a list before the padding at its end."""
    end = len(items) if count is None else count
    while end and ends_nothing(items, distances, end - 1):
        end -= 1
    return list(items[:end])


def direction(lists: Sequence[Sequence[float]]) -> str | None:
    """Return the direction in which distances run along all lists, without their padding; None if they run in both."""
    steps = [after - before for row in lists for before, after in pairwise(row)]
    rises, falls = any(step > 0 for step in steps), any(step < 0 for step in steps)
    if rises and falls:
        return None
    return "rising" if rises else "falling" if falls else "unknown"
