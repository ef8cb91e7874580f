"""Claims: a ranking costs little more than the bare matrix product, and no more than what others do, but for tiny ones.

    python benchmarks/ranking_speed.py [PART ...]     # of market, others, one_query, few, positives, tied

`query @ gallery.T` in float32 is what the ranking of Market-1501's labels is compared with, by a good model (the usual
case, where few negatives come before the last positive) and by a useless one: wall time with two threads, CPU time with
one. The functions take turns in one process. Others are faiss' flat index for lists, and what torchreid and fast-reid
do, compiled by numba: a distance matrix, `argsort`, and a loop over the queries that finds the average precision alone.

What is not installed is left out, and so are the claims about it: pip install --group bench.
"""

from __future__ import annotations

import time
from functools import partial

import torch

from harness.claims import compare, interleaved, is_there, main
from harness.load import set_threads
from harness.problems import NOISE, Problem, market1501
from harness.retrieval_peers import faiss_lists, sorted_and_compiled
from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import (
    average_precision,
    cmc_curve,
    find_relevance,
    inverse_negative_penalty,
    mean_over_queries,
    rank_positives,
    score_embeddings,
)
from reid_torchmetrics.functional.retrieval.ranking import nearest

LIMITS = (
    (1, 512, "good", 1.25),
    (1, 512, "useless", 1.25),
    (1, 2048, "good", 1.2),
    (2, 512, "good", 1.7),
    (2, 512, "useless", 1.7),
    (2, 2048, "good", 1.3),
    (2, 2048, "useless", 1.3),
)
"""threads, dimension, model, and times the product"""
REPEATS = 5
THREADS = {1: ("one thread", time.process_time), 2: ("two threads", time.perf_counter)}


def product(problem: Problem) -> torch.Tensor:
    """What no ranking can do without."""
    return problem[0] @ problem[1].T


def ranked(problem: Problem) -> list[float]:
    """MAP by both rules, mINP and rank-1."""
    ranks = rank_positives(*problem)
    values = [average_precision(ranks, rule=rule) for rule in ("rectangle", "trapezoid")]
    values.append(inverse_negative_penalty(ranks))
    return [*(float(mean_over_queries(value)) for value in values), float(cmc_curve(ranks, 50)[0])]


def metric(problem: Problem) -> dict[str, torch.Tensor]:
    """`ReIDMetrics`, from construction to `compute`, queries and gallery in an update each."""
    metrics = ReIDMetrics()
    for side, is_query in enumerate((True, False)):
        metrics.update(*problem[side::2], is_query=is_query)
    return metrics.compute()


def listed(problem: Problem, k: int) -> torch.Tensor:
    """Lists of `k` and the first right answer."""
    relevance = find_relevance(*problem[2:])
    return nearest(score_embeddings(*problem[:2], relevance), relevance, k, ties="pessimistic").first_rank


def market() -> None:
    """A ranking with all measures, and the first 10 candidates of every query, beside the product."""
    for num_threads, dimension, model, limit in LIMITS:
        problem = market1501(dimension, NOISE[model][dimension])
        ways = {"product": partial(product, problem), "All measures": partial(ranked, problem)}
        if num_threads > 1:
            ways["The first 10 candidates"] = partial(listed, problem, 10)
        words, clock = THREADS[num_threads]
        set_threads(num_threads)
        seconds = interleaved(ways, REPEATS, clock)
        bare, of = seconds.pop("product"), f"Market-1501 by a {model} model of dimension {dimension}, with {words}"
        for what, own in seconds.items():
            compare(f"{what} cost little more than the bare product: {of}.", own, bare, limit)


def others() -> None:
    """Of Market-1501 by a good model of dimension 512, on one thread: sorting all, and lists of faiss."""
    set_threads(1)
    problem, on = market1501(512, NOISE["good"][512]), "Market-1501, dimension 512, with one thread"
    if is_there("numba"):
        ways = {"ours": partial(ranked, problem), "sorted": partial(sorted_and_compiled, problem)}
        seconds = interleaved(ways, 3, time.process_time)
        text = f"All measures take no longer than sorting every row and a compiled loop for one of them: {on}."
        compare(text, seconds["ours"], seconds["sorted"], 1)
    if is_there("faiss"):
        for k, limit in ((100, 1), (1000, 1.1)):
            ways = {"ours": partial(listed, problem, k), "faiss": partial(faiss_lists, problem, k)}
            seconds = interleaved(ways, REPEATS, time.process_time)
            compare(f"The first {k:,} candidates take no longer than by faiss: {on}.", *seconds.values(), limit)


def one_query() -> None:
    """A query and a million items."""
    set_threads(1)
    problem = drawn(1, 1_000_000, 64, 1000)
    ways = {"product": product, "`rank_positives`": ranked, "`ReIDMetrics`": metric}
    seconds = interleaved({name: partial(way, problem) for name, way in ways.items()}, 9, time.process_time)
    for name, limit in (("`rank_positives`", 3), ("`ReIDMetrics`", 6)):
        text = f"{name} of 1 x 1,000,000 x 64 costs little more than the bare product, with one thread."
        compare(text, seconds[name], seconds["product"], limit)


def few() -> None:
    """So few scores that calls of torch take much of the time."""
    if is_there("numba"):
        set_threads(1)
        problem = drawn(1, 50_000, 64, 1000)
        ways = {"ours": partial(ranked, problem), "sorted": partial(sorted_and_compiled, problem)}
        seconds = interleaved(ways, 100, time.process_time)
        text = "`rank_positives` of 1 x 50,000 x 64 takes no longer than sorting every row and a compiled loop."
        compare(text, seconds["ours"], seconds["sorted"], 1)
        problem = drawn(50, 200, 64, 20)
        ways = {"sorted": sorted_and_compiled, "`rank_positives`": ranked, "`ReIDMetrics`": metric}
        seconds = interleaved({name: partial(way, problem) for name, way in ways.items()}, 200, time.process_time)
        for name, limit in (("`rank_positives`", 1.5), ("`ReIDMetrics`", 4)):
            text = f"{name} of 50 x 200 x 64 costs little more than sorting every row and a compiled loop."
            compare(text, seconds[name], seconds["sorted"], limit)


def positives() -> None:
    """A quarter of the gallery is positive, and all of it."""
    if is_there("numba"):
        set_threads(1)
        for share, num_identities, limit in (("a quarter", 4, 0.6), ("all", 1, 1)):
            problem = drawn(500, 4000, 64, num_identities)
            ways = {"ours": partial(ranked, problem), "sorted": partial(sorted_and_compiled, problem)}
            seconds = interleaved(ways, 9, time.process_time)
            of = f"500 x 4,000 x 64 with {share} of the gallery positive"
            text = f"All measures of {of} take less time than sorting every row and a compiled loop for one of them."
            compare(text, seconds["ours"], seconds["sorted"], limit)


def tied() -> None:
    """Equal scores in gallery order: all are equal, by constant embeddings, or many, by codes of a few signs."""
    set_threads(1)
    query, gallery, *labels = drawn(500, 4000, 64, 400)
    constant = torch.ones_like(query), torch.ones_like(gallery)
    codes = query[:, :6].sign(), gallery[:, :6].sign()
    ways = {
        "product": lambda: constant[0] @ constant[1].T,
        "constant": partial(rank_positives, *constant, *labels, ties="stable"),
        "codes": partial(rank_positives, *codes, *labels, ties="stable"),
        "codes, pessimistic": partial(rank_positives, *codes, *labels),
    }
    seconds = interleaved(ways, 25, time.process_time)
    text = 'With `ties="stable"` `rank_positives` of 500 x 4,000 constant embeddings costs little over the product.'
    compare(text, seconds["constant"], seconds["product"], 4)
    text = 'With `ties="stable"` `rank_positives` of 500 x 4,000 codes of 6 signs costs little over "pessimistic".'
    compare(text, seconds["codes"], seconds["codes, pessimistic"], 5)


def drawn(num_queries: int, num_items: int, dimension: int, num_identities: int) -> Problem:
    """Random embeddings and labels, 6 cameras."""
    generator = torch.Generator().manual_seed(0)
    sizes = (num_queries, num_items)
    embeddings = [torch.randn(size, dimension, generator=generator) for size in sizes]
    identities, cameras = (
        [torch.randint(0, high, (size,), generator=generator) for size in sizes] for high in (num_identities, 6)
    )
    return (*embeddings, *identities, *cameras)


if __name__ == "__main__":
    main(market, others, one_query, few, positives, tied)
