"""Claims: LVIS' 13 numbers in at most half the time of the fastest evaluator in Rust, and in 300 MB.

    python benchmarks/lvis_speed.py [--share 0.1] [--repeats 3] [--all]

At the size of LVIS' validation set, 20,000 images with 245,000 ground truths of 1,203 classes and 300 detections of
each image, from lists of tensors of every image to the 13 numbers, beside hotcoco, which takes arrays, and with `--all`
faster-coco-eval, which takes a dictionary for each box: six million need minutes and gigabytes, so give it a share of
the images. Each evaluator has a process of its own with two threads, and seconds are those of the CPU. Memory is the
peak (VmHWM, so Linux only) over what the process held when it had the tensors.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from harness.claims import claim
from harness.detection_peers import Arrays, is_installed, quiet
from harness.detection_problems import Batch, Size, detection_problem
from harness.processes import measured, run
from reid_torchmetrics import LvisMAP

VAL = Size(num_images=20_000, num_classes=1203, num_ground_truths=245_000, num_detections=300)
LISTS = ("neg_category_ids", "not_exhaustive_category_ids")
MORE_OBJECTS = 0.05
"""share of the classes of an image with more objects than annotated"""
TIME_LIMIT, MEMORY_LIMIT, EQUAL = 0.5, 300, 1e-6


def federated_problem(size: Size) -> tuple[Batch, Batch]:
    """A problem without crowds, with ten absent classes in each image and one of twenty with more objects.

    Each image has its 300 best detections, as detectors give them, and none without area, which hotcoco counts.
    """
    detections, target = detection_problem(size)
    for item in detections:
        kept = ((item["boxes"][:, 2:] - item["boxes"][:, :2]) > 0).all(1).nonzero()[:300, 0]
        item |= {name: values[kept] for name, values in item.items()}
    rng = np.random.default_rng(1)
    for item in target:
        held = item["labels"].unique().numpy()
        del item["iscrowd"]
        item[LISTS[0]] = np.setdiff1d(rng.choice(size.num_classes, 10) + 1, held).tolist()
        item[LISTS[1]] = held[rng.random(len(held)) < MORE_OBJECTS].tolist()
    return detections, target


def frequencies(num_classes: int) -> dict[int, str]:
    """As LVIS' shares of frequent, common and rare classes."""
    return {
        label: "fcr"[(label > num_classes // 3) + (label > 0.72 * num_classes)] for label in range(1, num_classes + 1)
    }


def ours(detections: Batch, target: Batch, letters: dict[int, str]) -> list[float]:
    """`LvisMAP`, given all images at once."""
    metric = LvisMAP(frequencies=letters)
    metric.update(detections, target)
    return [float(value) for value in metric.compute().values()]


def tables(target: Batch, letters: dict[int, str]) -> dict[str, list[dict[str, object]]]:
    """The images and categories of LVIS' files."""
    images = [
        {"id": i, "width": 0, "height": 0, **{key: item[key] for key in LISTS}} for i, item in enumerate(target, 1)
    ]
    return {
        "images": images,
        "categories": [{"id": i, "name": str(i), "frequency": each} for i, each in letters.items()],
    }


def columns_of(batch: Batch) -> Arrays:
    """The columns of all images, without the lists."""
    return Arrays.of([{key: value for key, value in item.items() if key not in LISTS} for item in batch])


def hotcoco(detections: Batch, target: Batch, letters: dict[int, str]) -> list[float]:
    """Columns for the ground truths, an array for the detections."""
    from hotcoco import COCO, LVISEval, LVISResults  # noqa: PLC0415

    true = columns_of(target)
    truth = COCO.from_arrays(*tables(target, letters).values(), true.images, true.labels, true.boxes, **true.others)
    evaluation = LVISEval(truth, LVISResults(truth, columns_of(detections).results()), "bbox")
    evaluation.run()
    names = ("AP", "AP50", "AP75", "APs", "APm", "APl", "APr", "APc", "APf", "AR@300", "ARs@300", "ARm@300", "ARl@300")
    return [evaluation.get_results()[name] for name in names]


def faster_coco_eval(detections: Batch, target: Batch, letters: dict[int, str]) -> list[float]:
    """Dictionaries for both; it has no limit of an image, which no image here exceeds by much."""
    from faster_coco_eval import COCO, COCOeval_faster  # noqa: PLC0415

    true, found = columns_of(target), columns_of(detections)
    truths = tables(target, letters) | {"annotations": true.annotations()}
    found.others.update(area=found.boxes[:, 2] * found.boxes[:, 3], iscrowd=np.zeros(len(found.boxes), dtype=np.int64))
    evaluation = COCOeval_faster(
        COCO(truths), COCO(truths | {"annotations": found.annotations(scores="score")}), "bbox", lvis_style=True
    )
    evaluation.params.maxDets = [300]
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return [float(evaluation.stats[0])]


CONTESTANTS: dict[str, Callable[[Batch, Batch, dict[int, str]], list[float]]] = {
    "ours": ours,
    "hotcoco": hotcoco,
    "faster-coco-eval": faster_coco_eval,
}


def cost_of(_rank: int, _size: int, name: str, share: float, repeats: int) -> tuple[list[float], float, list[float]]:
    """Seconds of the CPU of each round but the first, MB over the inputs, and the 13 numbers."""
    torch.set_num_threads(2)
    os.environ["RAYON_NUM_THREADS"] = "2"
    size, letters = VAL.times(share), frequencies(VAL.num_classes)

    def evaluate(given: tuple[Batch, Batch]) -> list[float]:
        with quiet():
            return CONTESTANTS[name](*given, letters)

    evaluate(federated_problem(VAL.times(1e-3)))  # libraries are loaded
    given, seconds = federated_problem(size), []
    numbers, cost = measured(lambda: evaluate(given), trim=True)
    for _ in range(repeats):
        gc.collect()  # a metric that is still there would share its matches
        start = time.process_time()
        evaluate(given)
        seconds.append(time.process_time() - start)
    return seconds or [cost.cpu], cost.peak, numbers


def main() -> None:
    """Measure; exit with 1 if a claim fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the images")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="faster-coco-eval, too")
    given = parser.parse_args()
    names = [name for name in CONTESTANTS if name == "ours" or is_installed(name)]
    found = {}
    for name in names if given.all else [name for name in names if name != "faster-coco-eval"]:
        ((seconds, peak, numbers),) = run(1, cost_of, name, given.share, given.repeats)
        found[name] = statistics.median(seconds), peak, numbers
        print(f"  {name}: {found[name][0]:.2f} s, {peak:.0f} MB over the inputs, AP {numbers[0]:.4f}")
    holds = [claim("MB over the inputs", found["ours"][1], MEMORY_LIMIT)]
    if "hotcoco" in found:
        difference = np.abs(np.subtract(found["ours"][2], found["hotcoco"][2])).max()
        holds.append(claim("largest difference of a number, in 1e-6, which float32 takes", difference / EQUAL, 1))
    others = {name: each for name, (each, _, _) in found.items() if name != "ours"}
    if others:
        fastest = min(others, key=others.__getitem__)
        holds.append(claim(f"times what {fastest} takes", found["ours"][0] / others[fastest], TIME_LIMIT))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
