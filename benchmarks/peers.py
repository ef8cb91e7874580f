"""Claim: on no shape of retrieval is another evaluator much faster, and at every real size all are slower.

    python benchmarks/peers.py            # needs faiss-cpu, pytorch-metric-learning, scikit-learn and numba beside

One thread, CPU seconds, medians of functions that take turns. Beside ours: the bare product, fast-reid's Cython where
its `rank_cy` is built and on the path, the average precision of its rule compiled by numba (distance matrix, `argsort`,
loop), pytorch-metric-learning with faiss, TorchMetrics' `RetrievalMAP` (where its memory allows), and faiss' flat index
for lists.
"""

from __future__ import annotations

import functools
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from harness.claims import claim, interleaved, median_ratio
from harness.problems import NOISE, Problem, market1501
from harness.retrieval_peers import faiss_lists, fast_reid, metric_learning, retrieval_map, sorted_and_compiled
from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import (
    average_precision,
    find_relevance,
    mean_over_queries,
    rank_positives,
    score_embeddings,
)
from reid_torchmetrics.functional.retrieval.ranking import nearest


def drawn(num_queries: int, num_items: int, dimension: int, num_identities: int) -> Problem:
    """Random embeddings and labels, 6 cameras."""
    generator = torch.Generator().manual_seed(0)
    sizes = (num_queries, num_items)
    embeddings = [torch.randn(size, dimension, generator=generator) for size in sizes]
    identities, cameras = (
        [torch.randint(0, high, (size,), generator=generator) for size in sizes] for high in (num_identities, 6)
    )
    return (*embeddings, *identities, *cameras)


def ranked(problem: Problem) -> float:
    """The mean average precision by `rank_positives`."""
    return float(mean_over_queries(average_precision(rank_positives(*problem))))


def metric(problem: Problem) -> dict[str, torch.Tensor]:
    """`ReIDMetrics`, from construction to `compute`, queries and gallery in an update each."""
    query, gallery, query_identities, gallery_identities, query_cameras, gallery_cameras = problem
    metrics = ReIDMetrics()
    metrics.update(query, query_identities, query_cameras, is_query=True)
    metrics.update(gallery, gallery_identities, gallery_cameras, is_query=False)
    return metrics.compute()


def listed(problem: Problem, k: int) -> torch.Tensor:
    """Lists of `k` and the first right answer."""
    relevance = find_relevance(*problem[2:])
    return nearest(score_embeddings(*problem[:2], relevance), relevance, k, ties="pessimistic").first_rank


def in_turns(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each function in each round; medians are printed."""
    seconds = interleaved(functions, rounds, time.process_time)
    print("  CPU ms: " + ", ".join(f"{name} {1e3 * statistics.median(values):.4g}" for name, values in seconds.items()))
    return seconds


def main() -> None:
    """Measure every shape, or the ones that are named; exit with 1 if a claim fails."""
    torch.set_num_threads(1)
    _one_thread_of_faiss()
    chosen = sys.argv[1:] or [*_SHAPES]
    holds = [held for name in chosen for held in _measured(name)]
    sys.exit(not all(holds))


def _one_thread_of_faiss() -> None:
    import faiss  # noqa: PLC0415

    faiss.omp_set_num_threads(1)


class Limit(NamedTuple):
    """A claim: one function costs at most so many times what another does."""

    ours: str
    other: str
    value: float


class Shape(NamedTuple):
    """A problem, the rounds that it is measured in, and the claims; the others have a twentieth of the rounds."""

    problem: Callable[[], Problem]
    rounds: int
    limits: tuple[Limit, ...]


_SHAPES = {
    "tiny": Shape(
        lambda: drawn(50, 200, 64, 20), 200, (Limit("ranked", "fast-reid", 1.5), Limit("metric", "fast-reid", 4))
    ),
    "one": Shape(
        lambda: drawn(1, 1_000_000, 64, 1000), 9, (Limit("ranked", "product", 3), Limit("metric", "product", 6))
    ),
    "market-512": Shape(
        lambda: market1501(512, NOISE["good"][512]),
        5,
        (
            Limit("ranked", "product", 1.25),
            Limit("listed 100", "faiss 100", 1),
            Limit("listed 1000", "faiss 1000", 1.1),
        ),
    ),
    "market-512-useless": Shape(lambda: market1501(512, NOISE["useless"][512]), 5, (Limit("ranked", "product", 1.5),)),
    "market-2048": Shape(lambda: market1501(2048, NOISE["good"][2048]), 5, (Limit("ranked", "product", 1.2),)),
}


def _measured(name: str) -> list[bool]:
    """Measure a shape; for each claim, whether it holds."""
    shape = _SHAPES[name]
    problem = shape.problem()
    print(f"{name}: {len(problem[0])} x {len(problem[1])} x {problem[0].shape[1]}")
    functions: dict[str, Callable[[], object]] = {
        "product": lambda: problem[0] @ problem[1].T,
        "ranked": lambda: ranked(problem),
        "metric": lambda: metric(problem),
        "fast-reid": lambda: fast_reid(problem),
        "sorted and compiled": lambda: sorted_and_compiled(problem),
        "metric learning": lambda: metric_learning(problem),
    }
    for k in (100, 1000):
        functions[f"listed {k}"] = functools.partial(listed, problem, k)
        functions[f"faiss {k}"] = functools.partial(faiss_lists, problem, k)
    functions["RetrievalMAP"] = lambda: retrieval_map(problem)
    if importlib.util.find_spec("rank_cy") is None:
        del functions["fast-reid"]
    limits = [limit for limit in shape.limits if {limit.ours, limit.other} <= functions.keys()]
    claimed = {name for limit in limits for name in limit[:2]}
    seconds = in_turns({name: function for name, function in functions.items() if name in claimed}, shape.rounds)
    others = {name: function for name, function in functions.items() if name not in claimed}
    in_turns(others, max(1, shape.rounds // 20))
    return [
        claim(f"{ours} over {other}", median_ratio(seconds[ours], seconds[other]), limit)
        for ours, other, limit in limits
    ]


if __name__ == "__main__":
    main()
