"""Compares masks and keypoints with pycocotools on many random problems: `python -m tests.fuzz_shapes [problems]`.

Not a part of the test suite. It writes what it compared and the largest difference for both, and exits with 1 where
that is above 1e-12.
"""

import argparse
import sys
import time
from collections import Counter
from random import Random

import torch

from tests.fuzz_coco import TOLERANCE
from tests.shape_problems import draw_shapes

IOU_TYPES = ("segm", "keypoints")


def compared(iou_type: str, problems: range) -> tuple[str, bool]:
    """What was compared, and whether all of it agrees."""
    counts, largest, failed, start = Counter(), 0.0, [], time.perf_counter()
    for seed in problems:
        problem = draw_shapes(Random(seed), iou_type)  # noqa: S311 - no secret
        difference = problem.largest_difference()
        counts.update(problem.kinds())
        largest = max(largest, difference)
        if difference > TOLERANCE:
            failed.append(seed)
    seconds = time.perf_counter() - start
    lines = [f"{iou_type}: {len(problems):,} problems in {seconds:.0f} s, from seed {problems.start} on, of which:"]
    lines += [f"{count:9,} {name}" for name, count in counts.most_common()]
    lines += [f"largest difference {largest:.3g}; above {TOLERANCE}: {len(failed)}", *map(str, failed[:20])]
    return "\n".join(lines) + "\n", not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="?", type=int, default=20_000)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("--iou-type", choices=IOU_TYPES, nargs="+", default=IOU_TYPES)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    agrees = True
    for iou_type in asked.iou_type:
        text, all_agree = compared(iou_type, range(asked.first, asked.first + asked.problems))
        sys.stdout.write(text)
        sys.stdout.flush()
        agrees &= all_agree
    return int(not agrees)


if __name__ == "__main__":
    sys.exit(main())
