"""Claim: the time for COCO's 12 numbers grows with the number of detections, and no faster.

    python benchmarks/detection_scaling.py [--objects365]

A detection of four times as many images takes at most 1.3 times as long as one of val2017's, and one of 1/4 of them is
shown beside it; CPU time of one thread. With `--objects365` the size of that validation split, 30,000 images of 365
classes with three million detections, for ours and the compiled evaluators, seconds and memory, in processes of their
own.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time

from harness.claims import claim, interleaved, median_ratio
from harness.detection_peers import COMPILED, evaluate, installed, prepare
from harness.detection_problems import OBJECTS365, VAL2017, detection_problem
from harness.processes import measured, run

LIMIT = 1.3
FACTORS = (0.25, 1.0, 4.0)


def per_detection(_rank: int, _size: int, repeats: int) -> dict[float, list[float]]:
    """CPU microseconds per detection for each factor in each round, in turns, after one round that does not count."""
    prepare(["ours"], threads=1)
    problems = {factor: detection_problem(VAL2017.times(factor)) for factor in FACTORS}
    numbers = {
        factor: sum(len(image["labels"]) for image in detections) for factor, (detections, _) in problems.items()
    }
    took: dict[float, list[float]] = {factor: [] for factor in FACTORS}
    for repeat in range(repeats + 1):
        for factor, problem in problems.items():
            gc.collect()
            start = time.process_time()
            evaluate("ours", *problem)
            took[factor] += [1e6 * (time.process_time() - start) / numbers[factor]] if repeat else []
    return took


def large(_rank: int, _size: int, name: str, threads: int, repeats: int) -> tuple[float, float]:
    """Seconds of one of the contestants at three million detections, and megabytes over them in a first round."""
    prepare([name], threads)
    problem = detection_problem(OBJECTS365)
    _, cost = measured(lambda: evaluate(name, *problem), trim=True)
    seconds = interleaved({name: lambda: evaluate(name, *problem)}, repeats)
    return statistics.median(seconds[name]), cost.peak


def objects365(repeats: int) -> None:
    """What ours and the compiled evaluators take there."""
    print(f"\nObjects365, {OBJECTS365.num_images:,} images, {OBJECTS365.num_classes} classes")
    for name in installed(["ours", *COMPILED]):
        for threads in (2, 1):
            ((seconds, peak),) = run(1, large, name, threads, repeats)
            print(f"  {name}, threads {threads}: {seconds:.2f} s, {peak:.0f} MB over the inputs")


def main() -> None:
    """Measure the claim; exit with 1 if it fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects365", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    (took,) = run(1, per_detection, given.repeats)
    for factor, microseconds in took.items():
        images = VAL2017.times(factor).num_images
        print(f"  {images:,} images: {statistics.median(microseconds):.3f} CPU microseconds a detection")
    holds = claim("times the cost of a detection, 20,000 images over 5,000", median_ratio(took[4.0], took[1.0]), LIMIT)
    if given.objects365:
        objects365(given.repeats)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
