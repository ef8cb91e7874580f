"""Claims: from lists of masks to COCO's numbers in at most half the time of the fastest peer, and in 300 MB.

    python benchmarks/detection_masks.py [--images 24] [--repeats 5]

Images of 640 x 480 with 15 ground truths and 50 detections of 10 classes, as bool masks, with one thread: `update`, or
encoding to run lengths, is a part of the time, for that is where it goes. All take turns in one process. The peak of
resident memory is that of another process, over the masks of all images, which are there from the beginning.

Evaluators that are not installed are left out, and so are the claims about them: pip install -e '.[bench]'.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time

import numpy as np
import torch

from harness.claims import claim, median_ratio
from harness.detection_peers import is_installed, quiet
from harness.mask_peers import CONTESTANTS, mask_problem
from harness.processes import measured, run

LIMIT, MEMORY_LIMIT, EQUAL = 0.5, 300, 1e-7
LITTLE = 2
"""images with which all libraries are loaded"""


def timed(
    _rank: int, _size: int, names: list[str], num_images: int, repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """CPU seconds of each contestant in each round, in turns, and its 12 numbers; the round before does not count."""
    prepare(names)
    problem = mask_problem(num_images)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    found = {}
    for repeat in range(repeats + 1):
        for name in names:
            gc.collect()
            start = time.process_time()
            with quiet():
                found[name] = CONTESTANTS[name][0](*problem)
            seconds[name] += [time.process_time() - start] if repeat else []
    return seconds, found


def peak_of(_rank: int, _size: int, name: str, num_images: int) -> float:
    """MB over the masks that one of the contestants needs."""
    prepare([name])
    problem = mask_problem(num_images)
    with quiet():
        return measured(lambda: CONTESTANTS[name][0](*problem), trim=True)[1].peak


def prepare(names: list[str]) -> None:
    """One thread, and all libraries loaded."""
    torch.set_num_threads(1)
    os.environ["RAYON_NUM_THREADS"] = "1"
    problem = mask_problem(LITTLE)
    with quiet():
        for name in names:
            CONTESTANTS[name][0](*problem)


def main() -> None:
    """Measure every claim; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    names = [name for name, (_, package) in CONTESTANTS.items() if is_installed(package)]
    ((seconds, found),) = run(1, timed, names, given.images, given.repeats)
    print(f"mAP {found['ours'][0]:.3f}; milliseconds of CPU for an image")
    for name in names:
        print(f"  {name}: {1000 * statistics.median(seconds[name]) / given.images:.1f}")
    difference = np.ptp(np.array(list(found.values())), 0).max() / EQUAL
    holds = [claim("largest difference of a number, in 1e-7, which float32 takes", difference, 1)]
    if len(names) > 1:
        fastest = min(names[1:], key=lambda name: statistics.median(seconds[name]))
        holds.append(claim(f"times what {fastest} takes", median_ratio(seconds["ours"], seconds[fastest]), LIMIT))
    peaks = {name: run(1, peak_of, name, given.images)[0] for name in names}
    for name, peak in peaks.items():
        print(f"  {name}: {peak:.0f} MB over the masks")
    holds.append(claim("MB over the masks", peaks["ours"], MEMORY_LIMIT))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
