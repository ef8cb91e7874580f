"""Claim: on Market-1501's labels, ranking tracks costs at most 1.2 times ranking the items.

    python benchmarks/groups_cost.py

In one process, by `evaluate`, at dimensions 512 and 2048, float32: groups of an identity in a camera (tracks), and
groups of one item, at most 1.5 times, as they save nothing.
"""

from __future__ import annotations

import statistics
import sys

import torch

from harness.claims import claim, interleaved, median_ratio
from harness.problems import NOISE, market1501
from reid_torchmetrics.functional.retrieval import evaluate

LIMITS = {"tracks": 1.2, "single items": 1.5}


def main() -> None:
    """Measure every claim; exit with 1 if one fails."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    holds = []
    for dimension in (512, 2048):
        problem = market1501(dimension, NOISE["good"][dimension])
        groups = {"tracks": 10 * problem[3] + problem[5], "single items": torch.arange(len(problem[3]))}
        ways = {"items": lambda problem=problem: evaluate(*problem)}
        ways |= {
            name: lambda problem=problem, each=each: evaluate(*problem, gallery_groups=each)
            for name, each in groups.items()
        }
        assert evaluate(*problem).means == evaluate(*problem, gallery_groups=groups["single items"]).means  # noqa: S101
        seconds = interleaved(ways, repeats=9)
        numbers = ", ".join(f"{name} {statistics.median(each):.3f}" for name, each in seconds.items())
        print(f"\ndimension {dimension}; seconds: {numbers}")
        for name, each in groups.items():
            text = f"times the items, {name} ({len(each.unique())} groups)"
            holds.append(claim(text, median_ratio(seconds[name], seconds["items"]), LIMITS[name]))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
