"""Claim: where the memory bound cuts the gallery into panels, ranking takes about as long as without.

    python benchmarks/panel_cost.py

1,008 queries x 15,913 gallery items of Market-1501's labels, one thread, CPU seconds: `rank_positives` with `max_bytes`
of 32, 4 and 1 MiB over the default of 256 MiB. The ranks are the same.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

from harness.claims import claim
from harness.problems import NOISE, Problem, market1501
from reid_torchmetrics.functional.retrieval import rank_positives

ROUNDS, QUERIES = 5, 1008
LIMITS = {32: 1.15, 4: 1.5, 1: 1.5}
"""by MiB"""


def seconds(problem: Problem, mebibytes: int) -> float:
    """CPU seconds of a ranking."""
    start = time.process_time()
    rank_positives(*problem, max_bytes=mebibytes << 20)
    return time.process_time() - start


def main() -> None:
    """Measure all bounds in turns; exit with 1 if a claim fails."""
    torch.set_num_threads(1)
    holds = []
    for dimension in (512, 2048):
        query, gallery, *labels = market1501(dimension, NOISE["good"][dimension])
        labels[0], labels[2] = labels[0][:QUERIES], labels[2][:QUERIES]
        problem = (query[:QUERIES], gallery, *labels)
        expected = rank_positives(*problem).rank
        rounds = [{bound: seconds(problem, bound) for bound in (256, *LIMITS)} for _ in range(ROUNDS)]
        for bound, limit in LIMITS.items():
            ratio = statistics.median(each[bound] / each[256] for each in rounds)
            holds.append(claim(f"dimension {dimension}, {bound} MiB over the default", ratio, limit))
            holds.append(torch.equal(rank_positives(*problem, max_bytes=bound << 20).rank, expected))
    sys.exit(not all(holds))


if __name__ == "__main__":
    main()
