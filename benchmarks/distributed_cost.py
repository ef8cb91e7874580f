"""Claims: processes share the work of a ranking, and send each other little more than the queries.

    python benchmarks/distributed_cost.py [--market] [--msmt17] [--sweep]

Processes of one thread each, on this machine, in a gloo group; samples are dealt out in turn and come in batches of 64.
Counted is what `compute` costs the process that pays most: CPU seconds and bytes received in the second epoch, and in
the first the peak of resident memory.

Market-1501's labels: CPU seconds of 4 processes are at most 0.35 of those of one; received are at most 1.2 times the
query embeddings of the other processes; CMC, mAP and mINP together cost at most 1.1 times one of them. Beside it, the
default of TorchMetrics: list states that are gathered, whereupon every process ranks everything, by the same function.

Rank lists: `nearest(10)` receives at most the query embeddings of the other processes, and for every query 10 pairs, of
16 bytes each, for every process.

MSMT17's size, 4 processes, dimension 512: the peak is at most 600 MB over what the metric holds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace

from harness.claims import claim, median_ratio
from harness.distributed_problem import WAYS, Problem, feed
from harness.problems import NOISE
from harness.processes import MIB, Cost, measured, run

CPU_LIMIT, RECEIVED_LIMIT, COLLECTION_LIMIT, PEAK_LIMIT = 0.35, 1.2, 1.1, 600
SIZES = (1, 2, 4)
NEAREST, BYTES_PER_PAIR = 10, 16
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

Configuration = tuple[str, int]
"""a way and a number of processes"""


def cost_of_rank(rank: int, size: int, way: str, problem: Problem) -> tuple[float, Cost]:
    """MAP, and the cost of `compute` in one process: the peak of a first epoch, the rest of a second."""
    little = Problem(problem.labels, problem.dimension, problem.noise, num_queries=200, num_gallery=1000)
    metrics, batches = WAYS[way](), list(problem.batches(rank, size))
    feed(metrics, little.batches(rank, size)).compute()  # libraries are loaded, processes connected
    _, first = measured(feed(metrics, batches).compute, trim=True)
    values, second = measured(feed(metrics, batches).compute)
    return float(values["map"]), replace(second, peak=first.peak, process=first.process)


def cost_of_nearest(rank: int, size: int, problem: Problem) -> Cost:
    """The cost of `nearest` in one process, with nothing ranked before."""
    metric = feed(WAYS["ours"](), problem.batches(rank, size))["map"]
    return measured(lambda: metric.nearest(NEAREST))[1]


def rounds(configurations: list[Configuration], problem: Problem, repeats: int) -> dict[Configuration, Costs]:
    """Costs of ways with numbers of processes, which take turns; all must find the same mAP."""
    costs: dict[Configuration, Costs] = {configuration: [] for configuration in configurations}
    maps = []
    for _ in range(repeats):
        for way, size in configurations:
            outcomes = run(size, cost_of_rank, way, problem)
            maps += [value for value, _ in outcomes]
            costs[way, size].append([cost for _, cost in outcomes])
    assert max(maps) - min(maps) < 1e-5, maps  # noqa: S101, PLR2004
    return costs


def most(costs: Costs, what: str) -> list[float]:
    """What the process that pays most pays, in every round."""
    return [max(getattr(cost, what) for cost in of_ranks) for of_ranks in costs]


def row(costs: Costs) -> list[str]:
    """Cells of a table: medians over the rounds."""
    mean = statistics.median(statistics.mean(cost.cpu for cost in of_ranks) for of_ranks in costs)
    cpu, wall, received, collectives, peak, process = (
        statistics.median(most(costs, what)) for what in ("cpu", "wall", "received", "collectives", "peak", "process")
    )
    cells = [f"{cpu:.2f}", f"{mean:.2f}", f"{wall:.2f}", f"{received:.2f}", f"{collectives:.0f}"]
    return [*cells, f"{peak:.0f}", f"{process:.0f}"]


HEADER = ("CPU s", "mean", "wall s", "recv MB", "calls", "peak MB", "process MB")


def print_table(titles: tuple[str, ...], rows: list[list[str]]) -> None:
    """Print right-aligned columns under their titles."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for cells in (titles, *rows):
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))


def market(dimension: int, repeats: int) -> list[bool]:
    """The claims at Market-1501's size."""
    problem = Problem("market1501", dimension, NOISE["good"][dimension])
    num_queries, num_gallery, _ = problem.count()
    print(f"\nMarket-1501, {num_queries:,} queries x {num_gallery:,} gallery items, dimension {dimension}")
    configurations = [(way, size) for size in SIZES for way in ("ours", "default")]
    configurations += [(f"{way}, 3 metrics", 2) for way in ("ours", "default")]
    costs = rounds(configurations, problem, repeats)
    print_table(("way", "processes", *HEADER), [[way, str(size), *row(costs[way, size])] for way, size in costs])

    def ratio(configuration: Configuration, baseline: Configuration) -> float:
        return median_ratio(most(costs[configuration], "cpu"), most(costs[baseline], "cpu"))

    holds = [claim("CPU seconds of 4 processes over one", ratio(("ours", 4), ("ours", 1)), CPU_LIMIT)]
    print(f"        with the default: {ratio(('default', 4), ('default', 1)):.2f}")
    for size in SIZES[1:]:
        others = (size - 1) / size * num_queries * dimension * 4 / MIB
        received, by_default = (statistics.median(most(costs[way, size], "received")) for way in ("ours", "default"))
        text = f"times the other processes' query embeddings, received by each of {size}"
        holds.append(claim(text, received / others, RECEIVED_LIMIT))
        print(f"        with the default: {by_default / others:.2f}")
    for size in SIZES[1:]:
        received = max(cost.received for cost in run(size, cost_of_nearest, problem)) * MIB
        queries = (size - 1) / size * num_queries * dimension * 4
        text = f"times queries and pairs, received by each of {size} for the nearest {NEAREST}"
        holds.append(claim(text, received / (queries + NEAREST * size * num_queries * BYTES_PER_PAIR), 1))
        print(f"        bytes a query beside its embedding: {(received - queries) / num_queries:.0f}")
    text = "CPU seconds of 3 metrics over one, 2 processes"
    holds.append(claim(text, ratio(("ours, 3 metrics", 2), ("ours", 2)), COLLECTION_LIMIT))
    print(f"        with the default: {ratio(('default, 3 metrics', 2), ('default', 2)):.2f}")
    return holds


def msmt17(repeats: int) -> list[bool]:
    """The claim at MSMT17's size."""
    problem = Problem("msmt17", 512, USELESS)
    num_queries, num_gallery, _ = problem.count()
    print(f"\nMSMT17's size, {num_queries:,} queries x {num_gallery:,} gallery items, dimension 512")
    costs = rounds([("ours", 4)], problem, repeats)["ours", 4]
    print_table(("way", "processes", *HEADER), [["ours", "4", *row(costs)]])
    return [claim("MB over what the metric holds", statistics.median(most(costs, "peak")), PEAK_LIMIT)]


def sweep(repeats: int) -> None:
    """A table to fit a model of the cost to; nothing is claimed."""
    rows = []
    for num_queries, num_gallery, dimension, size in SWEEP:
        problem = Problem("msmt17", dimension, USELESS, num_queries, num_gallery)
        *_, positives = problem.count()
        costs = rounds([("ours", size)], problem, repeats)["ours", size]
        rows.append([*(f"{n:,}" for n in (num_queries, num_gallery, dimension, size, positives)), *row(costs)])
    print("\nSweep, ours")
    print_table(("queries", "gallery", "dimension", "processes", "positives", *HEADER), rows)


def main() -> None:
    """Measure what was asked for; exit with 1 if a claim fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_argument_group("parts", "without any of them: --market --msmt17")
    for part in ("market", "msmt17", "sweep"):
        parts.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--dimension", type=int, choices=sorted(NOISE["good"]), default=2048, help="of --market")
    parser.add_argument("--repeats", type=int, default=3, help="rounds; medians are printed")
    given = parser.parse_args()
    if not (given.market or given.msmt17 or given.sweep):
        given.market = given.msmt17 = True
    holds = market(given.dimension, given.repeats) if given.market else []
    holds += msmt17(given.repeats) if given.msmt17 else []
    if given.sweep:
        sweep(given.repeats)
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
