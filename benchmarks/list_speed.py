"""Claim: 100,000 queries' lists of 100 are evaluated in less than 2 seconds of CPU.

    python benchmarks/list_speed.py

The lists are a matrix of ints, as faiss gives it, of a gallery of a million; every query has five positives, those of
every second query among its 100.
"""

from __future__ import annotations

import statistics
import time
from functools import partial

import numpy as np
import torch

from harness.claims import claim, interleaved, main
from reid_torchmetrics.functional.retrieval import evaluate_lists

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
    torch.set_num_threads(1)
    work = partial(evaluate_lists, *problem(), reports=("map", "ndcg_10"))
    seconds = interleaved({"lists": work}, 3, time.process_time)["lists"]
    text = "mAP and nDCG at 10 of 100,000 lists of 100 numbers take at most two seconds of the CPU, with one thread."
    claim(text, statistics.median(seconds), 2, "s")


if __name__ == "__main__":
    main(ints)
