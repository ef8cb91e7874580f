"""Claim: 100,000 queries' lists of 100 are evaluated in less than 2 seconds of CPU.

    python benchmarks/list_speed.py [--queries 100000] [--repeats 3] [--peer-python PYTHON]

The lists are a matrix of ints, as faiss gives it, of a gallery of a million; every query has five positives, those of
every second query among its 100. Lists of ints, and of strings, and a run in TREC's form are measured beside. With the
Python of an environment that has pytrec_eval and ranx, both evaluate the same run by average precision and nDCG at 10.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

LIMIT = 2.0
LENGTH, NUM_GALLERY, NUM_POSITIVES = 100, 1_000_000, 5


def problem(num_queries: int) -> tuple[np.ndarray, list[list[int]]]:
    """Lists, and the positives of each query."""
    random = np.random.default_rng(0)
    lists = random.integers(0, NUM_GALLERY, (num_queries, LENGTH))
    others = random.integers(0, NUM_GALLERY, (num_queries, NUM_POSITIVES))
    places = random.integers(0, LENGTH // NUM_POSITIVES, (num_queries, NUM_POSITIVES))
    inside = np.take_along_axis(lists, places + np.arange(0, LENGTH, LENGTH // NUM_POSITIVES), 1)
    positives = np.where(np.arange(num_queries)[:, None] % 2, inside, others)
    return lists, [[*dict.fromkeys(row)] for row in positives.tolist()]


def trec(lists: np.ndarray, positives: list[list[int]]) -> tuple[dict, dict]:
    """A run and its truth: mappings of strings."""
    scores = np.linspace(1, 0, LENGTH).tolist()
    run = {
        f"q{row}": dict(zip(map("d{}".format, items), scores, strict=True)) for row, items in enumerate(lists.tolist())
    }
    return run, {f"q{row}": {f"d{item}": 1 for item in items} for row, items in enumerate(positives)}


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU."""
    start = time.process_time()
    work()
    return time.process_time() - start


def peers(num_queries: int) -> None:
    """Evaluate by pytrec_eval and ranx; this part runs in their environment."""
    import pytrec_eval  # noqa: PLC0415
    import ranx  # noqa: PLC0415

    run, qrels = trec(*problem(num_queries))
    names = {"map", "ndcg_cut.10"}
    print(f"pytrec_eval          {cpu(lambda: pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)):8.2f} s")
    held: list[object] = []
    print(f"ranx, making its run {cpu(lambda: held.extend([ranx.Qrels(qrels), ranx.Run(run)])):8.2f} s")
    ranx.evaluate(*held, ["map", "ndcg@10"])  # compiles
    print(f"ranx                 {cpu(lambda: ranx.evaluate(*held, ['map', 'ndcg@10'])):8.2f} s")


def ours(num_queries: int, repeats: int) -> bool:
    """Evaluate by this package, in every form."""
    import torch  # noqa: PLC0415

    from harness.claims import claim  # noqa: PLC0415
    from reid_torchmetrics.functional.retrieval import evaluate_lists  # noqa: PLC0415

    torch.set_num_threads(1)
    lists, positives = problem(num_queries)
    reports = {"reports": ("map", "ndcg_10")}
    evaluate_lists(lists[:10], positives[:10], **reports)
    seconds = [cpu(lambda: evaluate_lists(lists, positives, **reports)) for _ in range(repeats)]
    in_lists = lists.tolist()
    print(f"lists of ints        {cpu(lambda: evaluate_lists(in_lists, positives, **reports)):8.2f} s")
    run, qrels = trec(lists, positives)
    names = {query: [*items] for query, items in run.items()}
    print(f"lists of strings     {cpu(lambda: evaluate_lists(names, qrels, **reports)):8.2f} s")
    print(f"a run of TREC        {cpu(lambda: evaluate_lists(run, qrels, **reports)):8.2f} s")
    return claim(f"seconds of CPU for {num_queries:,} lists of {LENGTH}", sorted(seconds)[len(seconds) // 2], LIMIT)


def main() -> int:
    """Measure, and say whether the claim holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer-python")
    parser.add_argument("--peers", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peers:
        peers(options.queries)
        return 0
    if options.peer_python:
        command = [options.peer_python, __file__, "--peers", "--queries", str(options.queries)]
        subprocess.run(command, check=True)
    return 0 if ours(options.queries, options.repeats) else 1


if __name__ == "__main__":
    sys.exit(main())
