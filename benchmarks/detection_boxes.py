"""Claims: COCO's 12 numbers of boxes take half the time of the fastest compiled evaluator, and little memory.

    python benchmarks/detection_boxes.py [PART ...]     # of coco, memory, growth, shapes, step, earlier

From lists of tensors of every image to the 12 numbers, each evaluator in its fastest way in, in turns in one process:
wall time with two threads, CPU time with one. Memory is the peak of a process for each evaluator (VmHWM, so Linux only)
over what it held when it had the tensors. hotcoco, ultrafast-pycocotools and vernier are in Rust and take arrays;
TorchMetrics has pycocotools or faster-coco-eval behind it, and takes one round. On shapes unlike COCO's no other
evaluator is to need less time or memory. One image is given to a metric that is there already, as in a training loop.
Batches of 16 images are to cost what they did at an earlier commit.

Evaluators that are not installed are left out, and so are the claims about them: pip install --group bench.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from harness.claims import claim, compare, main
from harness.detection_peers import COMPILED, CONTESTANTS, OURS, Limits, evaluate, fed, installed, prepare, quiet
from harness.detection_problems import VAL2017, Batch, detection_problem
from harness.detection_shapes import COCO, SHAPES, SINGLE
from harness.load import set_threads
from harness.processes import measured, run
from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection import Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import find_pairs

REPEATS, STEPS = 5, 50
EQUAL = 1e-7
"""which float32 takes"""
LEAST_PEAK = 5.0
"""MB; less is noise"""

ROOT, EARLIER = Path(__file__).parents[1], "7b1fff1ae80f"

BACKENDS = {
    "TorchMetrics with faster-coco-eval": (0.04, "a 25th"),
    "TorchMetrics with pycocotools": (0.01, "a hundredth"),
}
"""take seconds, so that one round has to do"""

Rounds = dict[str, list[float]]


def timed(_rank: int, _size: int, names: list[str], kinds: list[str], threads: int) -> list[tuple[Rounds, Rounds]]:
    """Seconds of each contestant in each round, in turns, and its 12 numbers; the round before does not count."""
    prepare(names, threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    outcomes = []
    for kind in kinds:
        problem, limits = SHAPES[kind].problem(), SHAPES[kind].limits
        seconds: Rounds = {name: [] for name in names}
        numbers = {}
        for repeat in range(REPEATS + 1):
            for name in names:
                if name in BACKENDS and repeat != 1:
                    continue
                gc.collect()  # nobody pays for the dictionaries of another
                start = clock()
                numbers[name] = evaluate(name, *problem, limits)
                seconds[name] += [clock() - start] if repeat else []
        outcomes.append((seconds, numbers))
    return outcomes


def peaks_of(_rank: int, _size: int, name: str, kinds: list[str]) -> list[float]:
    """MB over the inputs that one of the contestants needs in a process of its own."""
    prepare([name], threads=1)
    peaks = []
    for kind in kinds:
        problem, limits = SHAPES[kind].problem(), SHAPES[kind].limits
        peaks.append(measured(partial(evaluate, name, *problem, limits), trim=True)[1].peak)
    return peaks


def difference(numbers: Rounds, first: int = 0) -> float:
    """The largest that two evaluators have in one of the numbers."""
    return float(np.ptp(np.array([*numbers.values()])[:, first:], 0).max())


def coco() -> None:
    """COCO val2017, fed at once as the others are; by batches of 32 it is shown beside."""
    for threads, words in ((2, "two threads"), (1, "one thread")):
        names = installed([*OURS, *COMPILED, *(BACKENDS if threads > 1 else ())])
        (((seconds, numbers),),) = run(1, timed, names, [COCO], threads)
        print(", ".join(f"{name} {statistics.median(each):.3f} s" for name, each in seconds.items()))
        claim(f"All evaluators find the same 12 numbers on {COCO}, with {words}.", difference(numbers), EQUAL)
        there = [name for name in names if name in COMPILED]
        if there:
            fastest = min(there, key=lambda name: statistics.median(seconds[name]))
            text = f"`DetectionMAP` takes half the time of the fastest compiled evaluator on {COCO}, with {words}."
            compare(text, seconds["ours"], seconds[fastest], 0.5, peer=fastest)
        for name, (limit, share) in BACKENDS.items():
            if name in seconds:
                text = f"`DetectionMAP` takes {share} of the time of {name}, on {COCO}, with {words}."
                compare(text, seconds["ours"], seconds[name], limit)


def memory() -> None:
    """Of ours, at once and by batches, and of one image with 60 million pairs of boxes, of which few overlap."""
    for name, way in zip(OURS, ("at once", "by batches of 32"), strict=True):
        ((peak,),) = run(1, peaks_of, name, [COCO])
        claim(f"`DetectionMAP` needs little memory over the boxes of {COCO}, given {way}.", peak, 100, "MB")
    text = "Overlaps of 3,000 ground truths and 20,000 detections of one image need little memory over the boxes."
    claim(text, run(1, peak_of_a_crowd)[0], 100, "MB")


def peak_of_a_crowd(_rank: int, _size: int) -> float:
    """MB that finding the overlapping pairs of an image needs."""
    generator = torch.Generator().manual_seed(0)

    def boxes(number: int) -> torch.Tensor:
        return torch.cat([4000 * torch.rand(number, 2, generator=generator), torch.full((number, 2), 20.0)], 1)

    detections, ground_truths = boxes(20_000), boxes(3_000)
    zeros = [torch.zeros(len(each), dtype=torch.int64) for each in (detections, ground_truths)]
    found = Detections(detections, torch.rand(len(detections), generator=generator), zeros[0], zeros[0])
    true = GroundTruths(ground_truths, zeros[1], zeros[1])
    return measured(lambda: find_pairs(found, true, at_least=0.5), trim=True)[1].peak


def growth() -> None:
    """Of the time with the number of images."""
    (took,) = run(1, per_detection)
    text = "A detection of `DetectionMAP` costs as much in 20,000 images of COCO's kind as in 5,000, with one thread."
    compare(text, took[4.0], took[1.0], 1.3, unit="us")


def per_detection(_rank: int, _size: int) -> dict[float, list[float]]:
    """CPU microseconds per detection of COCO val2017 and of four times as many images, in turns."""
    prepare(["ours"], threads=1)
    problems = {factor: detection_problem(VAL2017.times(factor)) for factor in (1.0, 4.0)}
    took: dict[float, list[float]] = {factor: [] for factor in problems}
    for repeat in range(REPEATS + 1):
        for factor, problem in problems.items():
            gc.collect()
            start = time.process_time()
            evaluate("ours", *problem)
            number = sum(len(image["labels"]) for image in problem[0])
            took[factor] += [1e6 * (time.process_time() - start) / number] if repeat else []
    return took


def shapes() -> None:
    """Time and memory beside those of the compiled evaluators."""
    names, kinds = installed(["ours", *COMPILED]), [kind for kind in SHAPES if kind != COCO]
    (outcomes,) = run(1, timed, names, kinds, 1)
    peaks_by_name = {name: run(1, peaks_of, name, kinds)[0] for name in names}
    differences = []
    for number, (kind, (seconds, numbers)) in enumerate(zip(kinds, outcomes, strict=True)):
        differences.append(difference(numbers, first=0 if 100 in SHAPES[kind].limits else 1))  # or some have no `map`
        if names[1:]:
            peaks = {name: max(LEAST_PEAK, each[number]) for name, each in peaks_by_name.items()}
            fastest = min(names[1:], key=lambda name: statistics.median(seconds[name]))
            text = f"`DetectionMAP` takes no longer than the fastest compiled evaluator on {kind}."
            compare(text, seconds["ours"], seconds[fastest], 1, peer=fastest)
            least = min(names[1:], key=peaks.__getitem__)
            text = f"`DetectionMAP` needs no more memory than the least of the compiled evaluators on {kind}."
            compare(text, [peaks["ours"]], [peaks[least]], 1, peer=least, unit="MB")
    claim(f"All evaluators find the same 12 numbers on {len(kinds)} problems unlike COCO's.", max(differences), EQUAL)


def step() -> None:
    """Reset, update and compute with one image."""
    (took,) = run(1, milliseconds_of_steps, installed(["ours", *COMPILED, *BACKENDS]))
    medians = {name: statistics.median(values) for name, values in took.items()}
    others = ", ".join(f"{name} {value:.2f} ms" for name, value in medians.items() if name != "a step")
    text = "A step of `DetectionMAP` with one image of 5 ground truths and 10 detections is short."
    claim(text, medians["a step"], 2, "ms", detail=f"from lists to numbers: {others}")
    if "hotcoco" in took:
        text = "`DetectionMAP` takes at most half as long again as hotcoco for an image, from lists to numbers."
        compare(text, took["ours"], took["hotcoco"], 1.5, unit="ms")


def milliseconds_of_steps(_rank: int, _size: int, names: list[str]) -> Rounds:
    """CPU milliseconds of a metric that is there already, and of the contestants from lists to numbers."""
    prepare(names, threads=1)
    metric = DetectionMAP()

    def whole_step(preds: Batch, target: Batch, _limits: Limits) -> None:
        metric.reset()
        metric.update(preds, target)
        metric.compute()

    ways = {"a step": whole_step} | {name: CONTESTANTS[name][0] for name in names}
    took: Rounds = {name: [] for name in ways}
    problems = map(SINGLE.problem, itertools.count())  # another each time: nothing is remembered
    for _ in range(STEPS):
        for name, way in ways.items():
            problem = next(problems)
            with quiet():
                start = time.process_time()
                way(*problem, SINGLE.limits)
                took[name].append(1e3 * (time.process_time() - start))
    return {name: values[1:] for name, values in took.items()}


def earlier() -> None:
    """Of batches of 16 images, beside a commit that stays the same, in new processes in turns."""
    seconds: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", EARLIER, "src"], capture_output=True, check=True, cwd=ROOT).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        for source in REPEATS * (ROOT, Path(folder)):
            paths = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (source / "src", ROOT / "benchmarks")))}
            words = [sys.executable, "-c", "import detection_boxes; detection_boxes.by_batches()"]
            printed = subprocess.run(words, capture_output=True, check=True, env=paths).stdout
            seconds.append([*map(float, printed.split())])
    for place, part in enumerate(("`update`", "`compute`", "both")):
        own, other = ([each[place] for each in seconds[first::2]] for first in range(2))
        compare(f"By batches of 16 of {COCO}, one thread, {part} costs what it did at {EARLIER}.", own, other, 1.03)


def by_batches() -> None:
    """Print the least CPU seconds of `update`, of `compute` and of both."""
    set_threads(1)
    problem, rounds = detection_problem(VAL2017), []
    for _ in range(REPEATS):
        gc.collect()  # a metric that is still there would share its matches
        start = time.process_time()
        metric = fed(DetectionMAP(), *problem, 16)
        updated = time.process_time()
        metric.compute()
        rounds.append((updated - start, time.process_time() - updated, time.process_time() - start))
        del metric
    print(*map(min, zip(*rounds, strict=True)))


if __name__ == "__main__":
    main(coco, memory, growth, shapes, step, earlier)
