"""Claims: with two threads on two cores that others keep busy, nothing takes much longer than with one thread.

    python benchmarks/shared_machine.py [PART ...]     # of busy_cores, idle_cores

Two processes compute beside this one, all on the same two cores, as the workers of a data loader do beside a
validation; wall time. With idle cores the second thread must pay. Linux only, for this process is bound to two cores.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable

import torch

from harness.claims import compare, main
from harness.competitors import competing
from harness.detection_peers import fed
from harness.detection_problems import VAL2017, detection_problem
from harness.load import set_threads
from harness.problems import NOISE, Problem, market1501
from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.retrieval import (
    average_precision,
    evaluate,
    find_relevance,
    mean_over_queries,
    rank_positives,
    score_embeddings,
)
from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw
from reid_torchmetrics.functional.retrieval.ranking import count_ranks, nearest
from reid_torchmetrics.tasks.draws import expect_draws
from reid_torchmetrics.tasks.reranking import rerank_k_reciprocal
from reid_torchmetrics.tasks.verification import verify

NUM_CORES, REPEATS = 2, 5
MOST_REPEATS = 21
"""rounds of a work of fractions of a second"""

Work = Callable[[], object]


def few_queries() -> Work:
    """Rank 100 queries in a gallery of 100,000 items of dimension 64."""
    generator = torch.Generator().manual_seed(0)
    query, gallery = (torch.randn(size, 64, generator=generator) for size in (100, 100_000))
    identities = [torch.randint(0, 5000, (len(side),), generator=generator) for side in (query, gallery)]
    return lambda: rank_positives(query, gallery, *identities)


def evaluation() -> Work:
    """Evaluate 100 queries in a gallery of 100,000 items of dimension 64."""
    generator = torch.Generator().manual_seed(0)
    sides = [torch.randn(size, 64, generator=generator) for size in (100, 100_000)]
    identities = [torch.randint(0, 5000, (len(side),), generator=generator) for side in sides]

    def work() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluate(*sides, *identities)

    return work


def many_queries() -> Work:
    """Rank 1,500 queries in Market-1501's gallery, dimension 512, and average their precision."""
    problem = first_of_market1501(1500)
    return lambda: mean_over_queries(average_precision(rank_positives(*problem)))


def rank_lists() -> Work:
    """The first 10 candidates of 1,500 queries in Market-1501's gallery, dimension 512, and their first positive."""
    query, gallery, *labels = first_of_market1501(1500)

    def work() -> object:
        relevance = find_relevance(*labels)
        return nearest(score_embeddings(query, gallery, relevance), relevance, 10)

    return work


def verification() -> Work:
    """ROC points of all pairs of 1,500 queries and Market-1501's gallery, dimension 512."""
    query, gallery, *labels = first_of_market1501(1500)

    def work() -> object:
        relevance = find_relevance(*labels)
        return verify(score_embeddings(query, gallery, relevance), relevance)

    return work


def first_of_market1501(num_queries: int) -> Problem:
    """The first queries of Market-1501, and its gallery, by a good model of dimension 512."""
    query, gallery, query_identities, gallery_identities, query_cameras, gallery_cameras = market1501(
        512, NOISE["good"][512]
    )
    query, query_identities, query_cameras = (each[:num_queries] for each in (query, query_identities, query_cameras))
    return query, gallery, query_identities, gallery_identities, query_cameras, gallery_cameras


def drawn_galleries() -> Work:
    """The expectation over galleries of one image of each of 600 identities, of about 4,500 images."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(3, 13, (600,), generator=generator)
    identities = torch.arange(600).repeat_interleave(sizes)
    embeddings = torch.randn(600, 128, generator=generator)[identities]
    embeddings += 1.25 * torch.randn(embeddings.shape, generator=generator)
    relevance = find_relevance(identities, identities, self_index=torch.arange(len(identities)))
    scores = score_embeddings(embeddings, embeddings, relevance)
    return lambda: expect_draws(scores, relevance, GalleryDraw(1), queries_in_draw=True)


def reranking() -> Work:
    """Re-rank 1,000 queries and 5,000 items of Market-1501's gallery, dimension 256."""
    *sides, query_identities, gallery_identities, query_cameras, gallery_cameras = market1501(256, 1.7)
    query, query_identities, query_cameras = sides[0][:1000], query_identities[:1000], query_cameras[:1000]
    gallery, gallery_identities, gallery_cameras = sides[1][:5000], gallery_identities[:5000], gallery_cameras[:5000]
    relevance = find_relevance(query_identities, gallery_identities, query_cameras, gallery_cameras)

    def work() -> object:
        scores = rerank_k_reciprocal(query, gallery, kept=relevance.kept)
        return average_precision(count_ranks(scores, relevance, ties="pessimistic"))

    return work


def detection() -> Work:
    """`DetectionMAP` of COCO val2017's size, fed by batches of 32."""
    detections, target = detection_problem(VAL2017)
    return lambda: fed(DetectionMAP(), detections, target, 32).compute()


WORKS: dict[str, Callable[[], Work]] = {
    "A ranking of 100 x 100,000 x 64": few_queries,
    "`evaluate` of 100 x 100,000 x 64": evaluation,
    "A ranking of 1,500 x 15,913 x 512": many_queries,
    "A search for the first 10 candidates of 1,500 x 15,913 x 512": rank_lists,
    "Verification of all pairs of 1,500 x 15,913 x 512": verification,
    "The expectation over drawn galleries of 4,500 images": drawn_galleries,
    "k-reciprocal re-ranking of 1,000 x 5,000 x 256": reranking,
    "`DetectionMAP` of COCO val2017": detection,
}


SHORT = ("A ranking of 100 x 100,000 x 64", "`evaluate` of 100 x 100,000 x 64")


def measured(work: Work, repeats: int = REPEATS) -> dict[int, list[float]]:
    """Seconds of each round with one thread and with two, which take turns."""
    seconds: dict[int, list[float]] = {1: [], NUM_CORES: []}
    for _ in range(repeats):
        for num_threads, times in seconds.items():
            set_threads(num_threads)
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    return seconds


def busy_cores() -> None:
    """Two threads beside two processes that compute."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:NUM_CORES])
    works = {name: make() for name, make in WORKS.items()}
    for work in works.values():
        work()  # libraries are loaded, threads started
    with competing(NUM_CORES):
        for name, work in works.items():
            seconds = measured(work, MOST_REPEATS if name in SHORT else REPEATS)
            text = f"{name} takes hardly longer with two threads than with one, on two cores that others keep busy."
            compare(text, seconds[NUM_CORES], seconds[1], 1.2 if name in SHORT else 1.3)


def idle_cores() -> None:
    """Two threads on two cores that nobody else needs."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:NUM_CORES])
    for name in SHORT:
        work = WORKS[name]()
        work()
        seconds = measured(work, MOST_REPEATS)
        text = f"{name} takes less time with two threads than with one, on two idle cores."
        compare(text, seconds[NUM_CORES], seconds[1], 0.65)


if __name__ == "__main__":
    main(busy_cores, idle_cores)
