"""Claims: from masks to COCO's numbers in at most half the time of the fastest peer, and in 300 MB over one batch.

Where masks come as run lengths the claim is half of pycocotools' time: evaluators in Rust take a fifth of ours.

    python benchmarks/detection_masks.py [--images 500] [--alone 5000]

Images of 640 x 480 with 15 ground truths and 50 detections of 10 classes, with one thread: `update`, or encoding to run
lengths, is a part of the time, for that is where it goes. Batches of 8 images are drawn, given to one evaluator after
the other in one process, and let go; drawing is no part of the time. First as bool masks, then as COCO's dicts of run
lengths on both sides. The peak of resident memory is that of a process for each evaluator, over what that held when it
had drawn the first batch. At last ours alone with as many images as COCO val2017 has.

Evaluators that are not installed are left out, and so are the claims about them: pip install --group bench.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from harness.claims import claim
from harness.detection_peers import is_installed, quiet, versions
from harness.mask_peers import CONTESTANTS
from harness.mask_problems import BATCH, Batch, batches
from harness.memory import reset_peak, resident
from harness.processes import run

LIMIT, MEMORY_LIMIT, EQUAL = 0.5, 300, 1e-7
FORMS = {"bool masks": False, "run lengths": True}

Numbers = dict[str, list[float]]


def timed(
    _rank: int, _size: int, names: list[str], num_images: int, *, run_lengths: bool
) -> tuple[dict[str, float], Numbers]:
    """CPU milliseconds for an image of each contestant, which take turns batch by batch, and its 12 numbers."""
    prepare(names, run_lengths=run_lengths)
    evaluations = {name: CONTESTANTS[name].begin() for name in names}
    seconds = dict.fromkeys(names, 0.0)

    def measure(name: str, work: Callable[[], object]) -> object:
        start = time.process_time()
        result = work()
        seconds[name] += time.process_time() - start
        return result

    with quiet():
        for batch in batches(num_images, run_lengths=run_lengths):
            for name, evaluation in evaluations.items():
                measure(name, lambda evaluation=evaluation, batch=batch: evaluation.update(*batch))
        found = {}
        for name in names:
            gc.collect()
            found[name] = measure(name, evaluations.pop(name).numbers)
    return {name: 1e3 * total / num_images for name, total in seconds.items()}, found


def peak_of(_rank: int, _size: int, name: str, num_images: int, *, run_lengths: bool) -> tuple[float, float]:
    """MB that one of the contestants needs over those with the first batch, and its seconds; drawing does not count."""
    prepare([name], run_lengths=run_lengths)
    evaluation, before, most, seconds = CONTESTANTS[name].begin(), 0.0, 0.0, 0.0

    def watched(work: Callable[[], object]) -> None:
        nonlocal before, most, seconds
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        now = reset_peak()
        before, start = before or now, time.process_time()
        work()
        seconds += time.process_time() - start
        most = max(most, resident("VmHWM") - before)

    def update(batch: tuple[Batch, Batch]) -> None:
        watched(lambda: evaluation.update(*batch))

    with quiet():
        for batch in batches(num_images, run_lengths=run_lengths):
            update(batch)
        watched(evaluation.numbers)
    return most, seconds


def prepare(names: list[str], *, run_lengths: bool) -> None:
    """One thread, and all libraries loaded."""
    torch.set_num_threads(1)
    os.environ["RAYON_NUM_THREADS"] = "1"
    (batch,) = batches(2, run_lengths=run_lengths)
    with quiet():
        for name in names:
            evaluation = CONTESTANTS[name].begin()
            evaluation.update(*batch)
            evaluation.numbers()


def claims_of(form: str, num_images: int) -> list[bool]:
    """Whether the numbers are the same, and time and memory small, of masks in a form."""
    run_lengths = {"run_lengths": FORMS[form]}
    names = [
        name
        for name, (_, packages, takes_run_lengths) in CONTESTANTS.items()
        if all(map(is_installed, packages)) and (takes_run_lengths or not FORMS[form])
    ]
    ((took, found),) = run(1, partial(timed, **run_lengths), names, num_images)
    peaks = {name: run(1, partial(peak_of, **run_lengths), name, num_images)[0][0] for name in names}
    print(f"\n{form}, {num_images} images, mAP {found['ours'][0]:.3f}")
    for name in names:
        print(f"  {name}: {took[name]:.2f} ms of CPU for an image, {peaks[name]:.0f} MB over a batch")
    difference = np.ptp(np.array(list(found.values())), 0).max() / EQUAL
    holds = [claim("largest difference of a number, in 1e-7, which float32 takes", difference, 1)]
    others = [name for name in names[1:] if not FORMS[form] or name == "pycocotools"]
    if others:
        fastest = min(others, key=took.__getitem__)
        holds.append(claim(f"times what {fastest} takes", took["ours"] / took[fastest], LIMIT))
    holds.append(claim("MB over a batch", peaks["ours"], MEMORY_LIMIT))
    return holds


def main() -> None:
    """Measure every claim; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--alone", type=int, default=5000, help="images of ours alone; 0 for none")
    given = parser.parse_args()
    print(versions())
    holds = [held for form in FORMS for held in claims_of(form, given.images)]
    if given.alone:
        peak, took = run(1, partial(peak_of, run_lengths=False), "ours", given.alone)[0]
        print(f"\nours alone, {given.alone} images: {took:.1f} s of CPU")
        holds.append(claim(f"MB over a batch of {BATCH}", peak, MEMORY_LIMIT))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
