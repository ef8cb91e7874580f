"""Claims: from masks to COCO's numbers in at most half the time of the fastest peer, and in 300 MB over one batch.

    python benchmarks/detection_masks.py [PART ...]     # of bool_masks, run_lengths, many_images

Where masks come as run lengths the claim is half of pycocotools' time: evaluators in Rust take a fifth of ours.

Images of 640 x 480 with 15 ground truths and 50 detections of 10 classes, with one thread: `update`, or encoding to run
lengths, is a part of the time, for that is where it goes. Batches of 8 images are drawn, given to one evaluator after
the other in one process, and let go; drawing is no part of the time. The peak of resident memory is that of a process
of ours alone, over what that held when it had drawn the first batch (VmHWM, so Linux only).

Evaluators that are not installed are left out, and so are the claims about them: pip install --group bench.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from harness.claims import claim, compare, main
from harness.detection_peers import is_installed, quiet
from harness.load import set_threads
from harness.mask_peers import CONTESTANTS
from harness.mask_problems import batches
from harness.memory import reset_peak, resident
from harness.processes import run

NUM_IMAGES, MANY_IMAGES = 96, 5000
"""beside others, and as many as COCO val2017 has"""

Numbers = dict[str, list[float]]


def timed(_rank: int, _size: int, names: list[str], *, run_lengths: bool) -> tuple[dict[str, float], Numbers]:
    """CPU milliseconds for an image of each contestant, which take turns batch by batch, and its 12 numbers."""
    prepare(names, run_lengths=run_lengths)
    evaluations = {name: CONTESTANTS[name][0]() for name in names}
    seconds = dict.fromkeys(names, 0.0)

    def measure(name: str, work: Callable[[], object]) -> object:
        start = time.process_time()
        result = work()
        seconds[name] += time.process_time() - start
        return result

    with quiet():
        for batch in batches(NUM_IMAGES, run_lengths=run_lengths):
            for name, evaluation in evaluations.items():
                measure(name, lambda evaluation=evaluation, batch=batch: evaluation.update(*batch))
        found = {}
        for name in names:
            gc.collect()
            found[name] = measure(name, evaluations.pop(name).numbers)
    return {name: 1e3 * total / NUM_IMAGES for name, total in seconds.items()}, found


def peak_of(_rank: int, _size: int, num_images: int, *, run_lengths: bool) -> float:
    """MB that ours needs over those with the first batch; drawing does not count."""
    prepare(["ours"], run_lengths=run_lengths)
    evaluation, before, most = CONTESTANTS["ours"][0](), 0.0, 0.0

    def watched(work: Callable[[], object]) -> None:
        nonlocal before, most
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        now = reset_peak()
        before = before or now
        work()
        most = max(most, resident("VmHWM") - before)

    with quiet():
        for batch in batches(num_images, run_lengths=run_lengths):
            watched(partial(evaluation.update, *batch))
        watched(evaluation.numbers)
    return most


def prepare(names: list[str], *, run_lengths: bool) -> None:
    """One thread, and all libraries loaded."""
    set_threads(1)
    os.environ["RAYON_NUM_THREADS"] = "1"
    (batch,) = batches(2, run_lengths=run_lengths)
    with quiet():
        for name in names:
            evaluation = CONTESTANTS[name][0]()
            evaluation.update(*batch)
            evaluation.numbers()


def beside_others(form: str, *, run_lengths: bool) -> dict[str, float]:
    """Claim that numbers are the same, and that memory is small; return the milliseconds."""
    names = [name for name, (_, packages) in CONTESTANTS.items() if all(map(is_installed, packages))]
    ((took, found),) = run(1, partial(timed, run_lengths=run_lengths), names)
    print(", ".join(f"{name} {value:.2f} ms" for name, value in took.items()))
    difference = np.ptp(np.array([*found.values()]), 0).max()
    claim(f"All evaluators find the same 12 numbers from {form}.", difference, 1e-7)
    (peak,) = run(1, partial(peak_of, run_lengths=run_lengths), NUM_IMAGES)
    claim(f"Masks of {NUM_IMAGES} images need little memory over one batch, from {form}.", peak, 300, "MB")
    return took


def bool_masks() -> None:
    """As a model gives them."""
    took = beside_others("bool masks", run_lengths=False)
    if [*took] != ["ours"]:
        fastest = min([*took][1:], key=took.__getitem__)
        text = "`DetectionMAP` takes half the time of the fastest evaluator for an image of bool masks."
        compare(text, [took["ours"]], [took[fastest]], 0.5, peer=fastest, unit="ms")


def run_lengths() -> None:
    """As COCO's files have them; pycocotools makes them."""
    if is_installed("pycocotools"):
        took = beside_others("run lengths", run_lengths=True)
        text = "`DetectionMAP` takes half the time of pycocotools for an image of run lengths."
        compare(text, [took["ours"]], [took["pycocotools"]], 0.5, unit="ms")


def many_images() -> None:
    """Ours alone."""
    (peak,) = run(1, partial(peak_of, run_lengths=False), MANY_IMAGES)
    claim(f"Bool masks of {MANY_IMAGES:,} images need little memory over one batch of 8.", peak, 300, "MB")


if __name__ == "__main__":
    main(bool_masks, run_lengths, many_images)
