"""Compares boxes, masks and keypoints with pycocotools on random problems: `python -m tests.fuzz_coco [problems]`.

Not a part of the test suite. It writes what it compared and the largest difference for each, and exits with 1 where
that is above 1e-12 or a detection took another ground truth.
"""

import argparse
import sys
import time
from collections import Counter
from random import Random

import numpy as np
import torch

from tests.detection_strategies import Problem, draw_problem
from tests.pycocotools_peer import PeerEvaluation
from tests.shape_problems import draw_shapes

IOU_TYPES = ("bbox", "segm", "keypoints")
ARRAYS = ("precision", "recall", "scores")
TOLERANCE = 1e-12
CROWDED = {"num_truths": 120, "num_detections": 240}
"""one problem in ten has so many, which may be more than 100 of one image and class"""


def largest_difference(problem: Problem, theirs: PeerEvaluation) -> float:
    """Over the arrays and the numbers; infinite where a detection took another ground truth."""
    if problem.taken() != theirs.taken:
        return float("inf")
    ours = problem.evaluated()
    differences = [np.abs(getattr(ours.coco, name).numpy() - getattr(theirs, name)).max(initial=0) for name in ARRAYS]
    if theirs.stats is not None:
        numbers = ours.summary()
        differences += [abs(float(numbers[name]) - value) for name, value in theirs.stats.items()]
    return float(max(differences))


def kinds(problem: Problem, theirs: PeerEvaluation) -> list[str]:
    """What the problem has in it, to show that the hard cases occur."""
    scores = [row.score for row in problem.detections]
    between = (theirs.precision > 0) & (theirs.precision < 0.99)
    found = {
        "tied scores": len(set(scores)) < len(scores),
        "crowds": any(row.is_crowd for row in problem.ground_truths),
        "boxes without area": any(0 in row.box[2:] for row in (*problem.detections, *problem.ground_truths)),
        "areas unlike the box's": not problem.has_box_areas,
        "float32": problem.dtype == torch.float32,
        "matches": bool(theirs.taken),
        "precision between 0 and 1": bool(between.any()),
        "nothing defined": bool((theirs.precision == -1).all()),
        "12 numbers": theirs.stats is not None,
    }
    return [name for name, occurs in found.items() if occurs]


def compared(seed: int, iou_type: str) -> tuple[float, list[str]]:
    """The largest difference of a problem, and what it has in it."""
    random = Random(seed)  # noqa: S311 - no secret
    if iou_type != "bbox":
        shapes = draw_shapes(random, iou_type)
        return shapes.largest_difference(), shapes.kinds()
    problem = draw_problem(random, **(CROWDED if seed % 10 == 9 else {}))
    theirs = problem.pycocotools()
    return largest_difference(problem, theirs), kinds(problem, theirs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="?", type=int, default=20_000)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("--iou-type", choices=IOU_TYPES, nargs="+", default=IOU_TYPES)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    num_failed = 0
    for iou_type in asked.iou_type:
        counts, largest, failed, start = Counter(), 0.0, [], time.perf_counter()
        for seed in range(asked.first, asked.first + asked.problems):
            difference, names = compared(seed, iou_type)
            counts.update(names)
            largest = max(largest, difference)
            if difference > TOLERANCE:
                failed.append(seed)
        seconds = time.perf_counter() - start
        lines = [f"{iou_type}: {asked.problems:,} problems in {seconds:.0f} s, from seed {asked.first} on, of which:"]
        lines += [f"{count:9,} {name}" for name, count in counts.most_common()]
        lines += [f"largest difference {largest:.3g}; above {TOLERANCE}: {len(failed)}", *map(str, failed[:20])]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        num_failed += len(failed)
    return int(num_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
