"""Claim: the number of collectives of `DetectionMAP` does not depend on the number of images.

    python benchmarks/detection_collectives.py

Two processes in a gloo group, each with half of 50 and of 200 images. Counted are the collectives that `compute` calls
in the process that calls most, barriers included. Beside it TorchMetrics' metric, which gathers the tensors of every
image one by one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from harness.claims import claim
from harness.detection_peers import BATCH, COCO_LIMITS, fed, installed, mean_average_precision, numbers, quiet
from harness.detection_problems import Size, detection_problem
from harness.processes import Cost, measured, run
from reid_torchmetrics import DetectionMAP

METRICS: dict[str, Callable] = {
    "ours": DetectionMAP,
    "TorchMetrics": lambda: mean_average_precision("pycocotools", COCO_LIMITS),
}
FEW, MANY = (
    Size(num_images, num_classes=80, num_ground_truths=7 * num_images, num_detections=100) for num_images in (50, 200)
)


def cost_of_rank(rank: int, size: int, way: str, problem: Size) -> tuple[list[float], Cost]:
    """The 12 numbers of all processes' images, and what `compute` costs this one."""
    detections, target = (batch[rank::size] for batch in detection_problem(problem))
    with quiet():
        metric = fed(METRICS[way](), detections, target, BATCH)
        values, cost = measured(metric.compute)
    return numbers(values, COCO_LIMITS), cost


def collectives(way: str, problem: Size) -> int:
    """Most of any of two processes; both must find what one process finds with all images."""
    ((alone, _),) = run(1, cost_of_rank, way, problem)
    outcomes = run(2, cost_of_rank, way, problem)
    differences = [
        abs(own - all_images) for values, _ in outcomes for own, all_images in zip(values, alone, strict=True)
    ]
    most = max(cost.collectives for _, cost in outcomes)
    received = max(cost.received for _, cost in outcomes)
    print(
        f"  {way}, {problem.num_images} images: {most} collectives, {received:.2f} MB received,"
        f" {max(differences):.1e} off the numbers of one process"
    )
    return most


def main() -> None:
    """Count; exit with 1 if ours grows with the images."""
    counts = {way: [collectives(way, problem) for problem in (FEW, MANY)] for way in installed(list(METRICS))}
    holds = claim("more collectives for 200 images than for 50", counts["ours"][1] - counts["ours"][0], 0)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
