"""Claims: COCO's 12 numbers in at most half the time of the fastest compiled evaluator, and the same numbers.

    python benchmarks/detection_speed.py [--all] [--repeats 7]

At COCO val2017's size, 5,000 images with 36,781 ground truths and half a million detections of 80 classes, from lists
of tensors of every image to the 12 numbers, in one process of two threads and in one of one: at most half the time of
the fastest of hotcoco, ultrafast-pycocotools and vernier, which are in Rust and take arrays, and 1/25 of
faster-coco-eval's, which is in C++. With `--all` also at most 1/100 of TorchMetrics' with pycocotools, which takes some
minutes more. All are given all images at once; `DetectionMAP` given batches of 32, as by a validation loop, is shown
beside it.

Evaluators that are not installed are left out, and so are the claims about them: pip install --group bench.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time

import numpy as np

from harness.claims import claim, median_ratio
from harness.detection_peers import COMPILED, OURS, evaluate, installed, prepare, versions
from harness.detection_problems import VAL2017, detection_problem
from harness.processes import run

SLOW = ("faster-coco-eval", "pycocotools", "TorchMetrics, faster-coco-eval", "TorchMetrics")
"""take seconds, so that one round has to do"""
PER_CENT = {"faster-coco-eval": 4, "TorchMetrics": 1}
"""of the time of these, at most"""
COMPILED_LIMIT, EQUAL = 0.5, 1e-7

Seconds = dict[str, list[float]]


def timed(
    _rank: int, _size: int, names: list[str], threads: int, repeats: int
) -> tuple[Seconds, dict[str, list[float]]]:
    """Seconds of each contestant in each round, in turns, and its 12 numbers; the round before them does not count."""
    prepare(names, threads)
    problem = detection_problem(VAL2017)
    seconds: Seconds = {name: [] for name in names}
    numbers = {}
    for repeat in range(repeats + 1):
        for name in names:
            if name in SLOW and repeat != 1:
                continue
            gc.collect()  # nobody pays for the dictionaries of another
            start = time.perf_counter()
            numbers[name] = evaluate(name, *problem)
            seconds[name] += [time.perf_counter() - start] if repeat else []
    return seconds, numbers


def claims(seconds: Seconds, numbers: dict[str, list[float]]) -> list[bool]:
    """Whether the numbers are the same and the times small, as far as there is somebody to compare with."""
    values = np.array(list(numbers.values()))
    holds = [claim("largest difference of a number, in 1e-7, which float32 takes", np.ptp(values, 0).max() / EQUAL, 1)]
    compiled = {name: statistics.median(seconds[name]) for name in COMPILED if name in seconds}
    if compiled:
        fastest = min(compiled, key=compiled.__getitem__)
        ratio = median_ratio(seconds["ours"], seconds[fastest])
        holds.append(claim(f"times what {fastest} takes", ratio, COMPILED_LIMIT))
    for name, limit in PER_CENT.items():
        if name in seconds:
            ratio = statistics.median(seconds["ours"]) / statistics.median(seconds[name])
            holds.append(claim(f"per cent of what {name} takes", 100 * ratio, limit))
    return holds


def main() -> None:
    """Measure every claim; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="pycocotools and TorchMetrics, too")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    names = installed([*OURS, *COMPILED, *(SLOW if given.all else SLOW[:1])])
    print(versions())
    holds = []
    for threads in (2, 1):
        ((seconds, numbers),) = run(1, timed, names, threads, given.repeats)
        print(f"\n{threads} thread{'s' * (threads > 1)}, mAP {numbers['ours'][0]:.3f}")
        for name in names:
            print(f"  {name}: {statistics.median(seconds[name]):.3f} s")
        holds += claims(seconds, numbers)
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
