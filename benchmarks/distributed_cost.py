"""Claims: processes share the work of a ranking, and send each other little more than the queries.

    python benchmarks/distributed_cost.py [PART ...]     # of market, market_512, msmt17; sweep on request

Processes of one thread each, on this machine, in a gloo group; samples are dealt out in turn and come in batches of 64.
Counted is what `compute` costs the process that pays most: CPU seconds and bytes received in the second epoch, and in
the first the peak of resident memory over what the metric holds. `sweep` prints a table to fit the model of
`docs/scaling.md` to, and claims nothing.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from harness.claims import claim, compare, main
from harness.distributed_problem import WAYS, Problem, feed
from harness.problems import NOISE
from harness.processes import MIB, Cost, measured, run

REPEATS = 3
DIMENSION = 2048
NEAREST, BYTES_PER_ITEM = 10, 24  # score and number, identity, camera
USELESS = 100.0  # noise over the identities
SWEEP = (  # queries, gallery items, dimension, processes
    (3_000, 16_000, 128, 1),
    (3_000, 16_000, 512, 4),
    (3_000, 41_000, 128, 4),
    (3_000, 82_161, 512, 2),
    (11_659, 16_000, 512, 1),
    (11_659, 16_000, 128, 2),
    (11_659, 41_000, 128, 2),
    (11_659, 41_000, 512, 4),
    (11_659, 82_161, 128, 4),
)

Costs = list[list[Cost]]
"""of every process in every round"""


def cost_of_rank(rank: int, size: int, way: str, problem: Problem) -> tuple[float, Cost]:
    """MAP, and the cost of `compute` in one process: the peak of a first epoch, the rest of a second."""
    little = Problem(problem.labels, problem.dimension, problem.noise, num_queries=200, num_gallery=1000)
    metrics, batches = WAYS[way](), list(problem.batches(rank, size))
    feed(metrics, little.batches(rank, size)).compute()  # libraries are loaded, processes connected
    _, first = measured(feed(metrics, batches).compute, trim=True)
    values, second = measured(feed(metrics, batches).compute)
    return float(values["map"]), replace(second, peak=first.peak)


def bytes_of_nearest(rank: int, size: int, problem: Problem) -> float:
    """MB that `nearest` brings to one process, with nothing ranked before."""
    metric = feed(WAYS["one metric"](), problem.batches(rank, size))["map"]
    return measured(lambda: metric.nearest(NEAREST))[1].received


def rounds(configurations: list[tuple[str, int]], problem: Problem, repeats: int) -> list[Costs]:
    """Costs of ways with numbers of processes, which take turns; all must find the same mAP."""
    costs: list[Costs] = [[] for _ in configurations]
    maps = []
    for _ in range(repeats):
        for own, (way, size) in zip(costs, configurations, strict=True):
            outcomes = run(size, cost_of_rank, way, problem)
            maps += [value for value, _ in outcomes]
            own.append([cost for _, cost in outcomes])
    assert max(maps) - min(maps) < 1e-5, maps  # noqa: S101, PLR2004
    return costs


def most(costs: Costs, what: str) -> list[float]:
    """What the process that pays most pays, in every round."""
    return [max(getattr(cost, what) for cost in of_ranks) for of_ranks in costs]


def market() -> None:
    """Market-1501's labels: work, bytes received, and more metrics of the same samples."""
    problem = Problem("market1501", DIMENSION, NOISE["good"][DIMENSION])
    num_queries, *_ = problem.count()
    of = f"Market-1501, dimension {DIMENSION}"
    ways = [("one metric", 1), ("one metric", 2), ("one metric", 4), ("three metrics", 2)]
    alone, two, four, three_metrics = rounds(ways, problem, REPEATS)
    text = f"Each of 4 processes does little more than a quarter of the work of one alone: {of}, CPU time."
    compare(text, most(four, "cpu"), most(alone, "cpu"), 0.35)
    text = f"CMC, mAP and mINP together cost as much as one of them on 2 processes: {of}, CPU time."
    compare(text, most(three_metrics, "cpu"), most(two, "cpu"), 1.1)
    for size, costs in ((2, two), (4, four)):
        queries = (size - 1) / size * num_queries * DIMENSION * 4 / MIB
        text = f"Each of {size} processes receives little more than the queries of the others: {of}."
        compare(text, [statistics.median(most(costs, "received"))], [queries], 1.2, unit="MB")
        items = 2 * NEAREST * num_queries * BYTES_PER_ITEM / MIB
        received = max(run(size, bytes_of_nearest, problem))
        text = f"For `nearest({NEAREST})` each of {size} processes receives no more than the others' queries and"
        text = f"{text} {2 * NEAREST} items of a query, in {BYTES_PER_ITEM} bytes with their labels: {of}."
        compare(text, [received], [queries + items], 1, unit="MB")


def market_512() -> None:
    """Market-1501's labels, where the product is a smaller part of the work."""
    problem = Problem("market1501", 512, NOISE["good"][512])
    alone, four = rounds([("one metric", 1), ("one metric", 4)], problem, REPEATS)
    text = "Each of 4 processes does at most a third of the work of one alone: Market-1501, dimension 512, CPU time."
    compare(text, most(four, "cpu"), most(alone, "cpu"), 0.33)


def msmt17() -> None:
    """MSMT17's size."""
    (costs,) = rounds([("one metric", 4)], Problem("msmt17", 512, USELESS), 1)
    cpu, received, peak = (statistics.median(most(costs, what)) for what in ("cpu", "received", "peak"))
    text = "`compute` on 4 processes needs little memory over what the metric holds: MSMT17's size, dimension 512."
    claim(text, peak, 600, "MB", detail=f"each {cpu:.1f} s of the CPU, {received:.0f} MB received")


def sweep() -> None:
    """What the constants of the model are fitted to; nothing is claimed."""
    for num_queries, num_gallery, dimension, size in SWEEP:
        problem = Problem("msmt17", dimension, USELESS, num_queries, num_gallery)
        (costs,) = rounds([("one metric", size)], problem, REPEATS)
        cpu, received, peak = (statistics.median(most(costs, what)) for what in ("cpu", "received", "peak"))
        *_, positives = problem.count()
        print(
            f"{num_queries:6,} queries {num_gallery:6,} items {dimension:3} dimensions {size} processes "
            f"{positives:7,} positives: {cpu:.2f} CPU s, {received:.1f} MB received, {peak:.0f} MB"
        )


if __name__ == "__main__":
    main(market, market_512, msmt17, more=(sweep,))
