"""Claim: COCO's 12 numbers at val2017's size need at most 100 MB over the detections and ground truths.

    python benchmarks/detection_memory.py [--all]

Each evaluator runs in a process of its own with one thread, whose peak of resident memory (VmHWM, so Linux only) is
compared with what it held when it had the lists of tensors. Those that are not installed are left out.
"""

from __future__ import annotations

import argparse
import sys

from detection_peers import COMPILED, OURS, evaluate, installed, prepare
from detection_problems import VAL2017, Size, detection_problem
from problems import claim
from processes import Cost, measured, run

LIMIT = 100
MANY = ("faster-coco-eval", "pycocotools", "TorchMetrics, faster-coco-eval", "TorchMetrics")
"""take seconds and gigabytes"""


def cost_of(_rank: int, _size: int, name: str, threads: int, size: Size) -> Cost:
    """What one of the contestants needs in a process of its own, when its libraries are loaded."""
    prepare([name], threads)
    problem = detection_problem(size)
    return measured(lambda: evaluate(name, *problem), trim=True)[1]


def main() -> None:
    """Measure all; exit with 1 if ours needs more."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="those that take seconds, too")
    names = installed([*OURS, *COMPILED, *(MANY if parser.parse_args().all else ())])
    costs = {name: run(1, cost_of, name, 1, VAL2017)[0] for name in names}
    for name, cost in costs.items():
        print(f"  {name}: {cost.peak:.0f} MB over the inputs, {cost.process:.0f} MB in all")
    holds = claim("MB over the inputs, at once or by batches", max(costs[name].peak for name in OURS), LIMIT)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
