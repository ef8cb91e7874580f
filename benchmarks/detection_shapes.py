"""Claims: no more time or memory than the fastest compiled evaluator on shapes unlike COCO's, and 2 ms for one image.

    python benchmarks/detection_shapes.py [--repeats 5] [--only WORD]

Crowded images of one class, crowds, chains of overlaps, equal boxes, a hundred thousand detections: from lists of
tensors of every image to the 12 numbers, in one process and one thread, in turns; medians of CPU time, which other jobs
disturb less. The memory is the peak over the inputs (VmHWM, so Linux only), each evaluator in a process of its own. One
image is given to a metric that is there already, as at a step of a training loop: reset, update and compute.

Evaluators that are not installed are left out, and so are the claims about them: pip install --group bench.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time

import numpy as np

from harness.claims import claim
from harness.detection_peers import CONTESTANTS, evaluate, installed, prepare, quiet, versions
from harness.detection_shapes import SHAPES, SINGLE, Shape
from harness.processes import measured, run
from reid_torchmetrics import DetectionMAP

PEERS = ("ultrafast-pycocotools", "hotcoco", "vernier", "faster-coco-eval")
SLOW = ("faster-coco-eval",)
"""takes seconds, so that one round has to do"""
EQUAL, STEP, STEPS, LEAST_PEAK = 1e-7, 2.0, 50, 5.0
"""difference of a number, which float32 takes; milliseconds; rounds; megabytes that are no more than noise"""

Numbers = dict[str, list[float]]


def timed(_rank: int, _size: int, names: list[str], kind: str, repeats: int) -> tuple[Numbers, Numbers]:
    """CPU seconds of each contestant in each round, in turns, and its numbers; the round before does not count."""
    prepare(names, threads=1)
    shape = SHAPES[kind]
    problem = shape.problem()
    seconds: Numbers = {name: [] for name in names}
    numbers = {}
    for repeat in range(repeats + 1):
        for name in names:
            if name in SLOW and repeat != 1:
                continue
            gc.collect()
            start = time.process_time()
            numbers[name] = evaluate(name, *problem, shape.limits)
            seconds[name] += [time.process_time() - start] if repeat else []
    return seconds, numbers


def peak(_rank: int, _size: int, name: str, kind: str) -> float:
    """Megabytes over the inputs that one of the contestants needs in a process of its own."""
    prepare([name], threads=1)
    problem = SHAPES[kind].problem()
    return measured(lambda: evaluate(name, *problem, SHAPES[kind].limits), trim=True)[1].peak


def steps(_rank: int, _size: int, names: list[str]) -> dict[str, float]:
    """CPU milliseconds of the contestants for one image, and of a metric that is there already."""
    prepare(names, threads=1)
    problem, metric = SINGLE.problem(), DetectionMAP()

    def step() -> None:
        metric.reset()
        metric.update(*problem)
        metric.compute()

    ways = {"ours, a step": step} | {
        name: lambda name=name: CONTESTANTS[name][0](*problem, SINGLE.limits) for name in names
    }
    took: Numbers = {name: [] for name in ways}
    for _ in range(STEPS):
        for name, way in ways.items():
            with quiet():
                start = time.process_time()
                way()
                took[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.median(values[1:]) for name, values in took.items()}


def claims_of(kind: str, shape: Shape, names: list[str], repeats: int) -> list[bool]:
    """Whether the numbers are the same, and the time and the memory no more than those of the others."""
    ((seconds, numbers),) = run(1, timed, names, kind, repeats)
    peaks = {name: run(1, peak, name, kind)[0] for name in names}
    print(f"\n{kind}")
    for name in names:
        print(f"  {name}: {statistics.median(seconds[name]):.3f} s, {peaks[name]:.0f} MB over the inputs")
    values = np.array([*numbers.values()])[:, 0 if 100 in shape.limits else 1 :]  # some have no `map` without 100
    holds = [claim("largest difference of a number, in 1e-7", np.ptp(values, 0).max() / EQUAL, 1)]
    others = [name for name in names if name != "ours"]
    if others:
        medians = {name: statistics.median(seconds[name]) for name in names}
        fastest, least = (min(others, key=each.__getitem__) for each in (medians, peaks))
        holds.append(claim(f"times what {fastest} takes", medians["ours"] / medians[fastest], 1))
        ratio = max(peaks["ours"], LEAST_PEAK) / max(peaks[least], LEAST_PEAK)
        holds.append(claim(f"times the memory of {least}", ratio, 1))
    return holds


def main() -> None:
    """Measure every claim; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="shapes that have this in their name")
    given = parser.parse_args()
    names = installed(["ours", *PEERS])
    print(versions())
    holds = []
    for kind, shape in SHAPES.items():
        if given.only in kind:
            holds += claims_of(kind, shape, names, given.repeats)
    metrics = installed(["TorchMetrics, faster-coco-eval"])
    (took,) = run(1, steps, [*names, *metrics])
    print("\none image of 5 x 10")
    for name, milliseconds in took.items():
        print(f"  {name}: {milliseconds:.2f} ms")
    holds.append(claim("milliseconds of a step", took["ours, a step"], STEP))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
