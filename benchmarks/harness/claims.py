"""Measure functions in turns, and say whether a claim about them holds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def interleaved(
    functions: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each function in each round; the functions take turns, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for repeat in range(repeats + 1):
        for name, function in functions.items():
            start = clock()
            function()
            if repeat:
                seconds[name].append(clock() - start)
    return seconds


def median_ratio(seconds: list[float], baseline: list[float]) -> float:
    """Median over the rounds of a function's time over the baseline's."""
    return statistics.median(own / other for own, other in zip(seconds, baseline, strict=True))


def claim(text: str, value: float, limit: float) -> bool:
    """Print a claim with the value seen, and say whether it holds."""
    print(f"{'holds' if value <= limit else 'FAILS':>6}  {text}: {value:.2f} (limit {limit:g})")
    return value <= limit
