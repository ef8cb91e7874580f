"""Claims: COCO's 12 numbers at val2017's size need at most 100 MB over the boxes, and the pairs of a crowd no more.

    python benchmarks/detection_memory.py [--all]

Each evaluator runs in a process of its own with one thread, whose peak of resident memory (VmHWM, so Linux only) is
compared with what it held when it had the lists of tensors. Those that are not installed are left out. The crowd is one
image with 60 million pairs of boxes of one class, of which few overlap: it shows whether `max_bytes` holds.
"""

from __future__ import annotations

import argparse
import sys

import torch

from harness.claims import claim
from harness.detection_peers import COMPILED, OURS, evaluate, installed, prepare
from harness.detection_problems import VAL2017, Size, detection_problem
from harness.processes import Cost, measured, run
from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import find_pairs

LIMIT = 100
MANY = ("faster-coco-eval", "pycocotools", "TorchMetrics, faster-coco-eval", "TorchMetrics")
"""take seconds and gigabytes"""


def cost_of(_rank: int, _size: int, name: str, threads: int, size: Size) -> Cost:
    """What one of the contestants needs in a process of its own, when its libraries are loaded."""
    prepare([name], threads)
    problem = detection_problem(size)
    return measured(lambda: evaluate(name, *problem), trim=True)[1]


def cost_of_a_crowd(_rank: int, _size: int) -> Cost:
    """What finding the overlapping pairs of 3,000 ground truths and 20,000 detections of one image needs."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)

    def boxes(number: int) -> torch.Tensor:
        return torch.cat([4000 * torch.rand(number, 2, generator=generator), torch.full((number, 2), 20.0)], 1)

    detections, ground_truths = boxes(20_000), boxes(3_000)
    zeros = [torch.zeros(len(each), dtype=torch.int64) for each in (detections, ground_truths)]
    found = Detections(detections, torch.rand(len(detections), generator=generator), zeros[0], zeros[0])
    true = GroundTruths(ground_truths, zeros[1], zeros[1])
    return measured(lambda: find_pairs(found, true, at_least=0.5), trim=True)[1]


def main() -> None:
    """Measure all; exit with 1 if ours needs more."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="those that take seconds, too")
    names = installed([*OURS, *COMPILED, *(MANY if parser.parse_args().all else ())])
    costs = {name: run(1, cost_of, name, 1, VAL2017)[0] for name in names}
    for name, cost in costs.items():
        print(f"  {name}: {cost.peak:.0f} MB over the inputs, {cost.process:.0f} MB in all")
    holds = [claim("MB over the inputs, at once or by batches", max(costs[name].peak for name in OURS), LIMIT)]
    holds.append(claim("MB over the inputs for a crowd", run(1, cost_of_a_crowd)[0].peak, LIMIT))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
