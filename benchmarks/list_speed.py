"""Claims: 100,000 queries' lists of 100 take less than 2 seconds of CPU, and strings little more than pytrec_eval does.

    python benchmarks/list_speed.py [PART ...]     # of ints, strings

The lists are a matrix of ints, as faiss gives it, of a gallery of a million; every query has five positives, those of
every second query among its 100. pytrec_eval has a run, a mapping of items to scores, of 3,000 of the queries; it is
left out where it is not installed: pip install --group bench.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

import numpy as np

from harness.claims import claim, compare, interleaved, is_there, main
from harness.load import set_threads
from reid_torchmetrics.tasks import evaluate_lists

NUM_QUERIES, LENGTH, NUM_GALLERY, NUM_POSITIVES = 100_000, 100, 1_000_000, 5


def problem() -> tuple[np.ndarray, list[list[int]]]:
    """Lists, and the positives of each query."""
    random = np.random.default_rng(0)
    lists = random.integers(0, NUM_GALLERY, (NUM_QUERIES, LENGTH))
    others = random.integers(0, NUM_GALLERY, (NUM_QUERIES, NUM_POSITIVES))
    places = random.integers(0, LENGTH // NUM_POSITIVES, (NUM_QUERIES, NUM_POSITIVES))
    inside = np.take_along_axis(lists, places + np.arange(0, LENGTH, LENGTH // NUM_POSITIVES), 1)
    positives = np.where(np.arange(NUM_QUERIES)[:, None] % 2, inside, others)
    return lists, [[*dict.fromkeys(row)] for row in positives.tolist()]


def ints() -> None:
    """Average precision and nDCG at 10."""
    set_threads(1)
    work = partial(evaluate_lists, *problem(), reports=("map", "ndcg_10"))
    seconds = interleaved({"lists": work}, 3, time.process_time)["lists"]
    text = "mAP and nDCG at 10 of 100,000 lists of 100 numbers take at most two seconds of the CPU, with one thread."
    claim(text, statistics.median(seconds), 2, "s")


def strings() -> None:
    """Average precision and nDCG at 10 of lists of strings, and of the same as a run."""
    if not is_there("pytrec_eval"):
        return
    import pytrec_eval  # noqa: PLC0415

    set_threads(1)
    lists, positives = ([[f"d{item}" for item in row] for row in rows[:3000]] for rows in problem())
    run = {
        f"q{query}": dict(zip(row, map(float, range(LENGTH, 0, -1)), strict=True)) for query, row in enumerate(lists)
    }
    truth = {f"q{query}": dict.fromkeys(row, 1) for query, row in enumerate(positives)}
    work = partial(evaluate_lists, reports=("map", "ndcg_10"))
    peer = pytrec_eval.RelevanceEvaluator(truth, {"map", "ndcg_cut_10"})
    ways = {
        "Lists of strings": partial(work, lists, positives),
        "A run": partial(work, run, truth),
        "pytrec_eval": partial(peer.evaluate, run),
    }
    seconds = interleaved(ways, 9, time.process_time)
    for name, limit in (("Lists of strings", 1.5), ("A run", 2)):
        text = f"{name}, 3,000 of 100, take little more time than pytrec_eval takes for a run, with one thread."
        compare(text, seconds[name], seconds["pytrec_eval"], limit)


if __name__ == "__main__":
    main(ints, strings)
