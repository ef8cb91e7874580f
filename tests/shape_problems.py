"""Problems with masks or keypoints for Hypothesis and for long runs, evaluated by the package and by pycocotools.

Equal scores, crowds, areas on the boundaries of the ranges, empty masks, objects without labeled keypoints, more
detections than count, images and classes without anything.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from random import Random
from typing import Any

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.functional.detection.evaluators import PrecisionGrid
from tests.functional.detection import keypoint_samples, mask_samples
from tests.functional.detection.detection_samples import fed
from tests.pycocotools_shapes import largest_difference, run_coco
from tests.reference.detection import IOU_THRESHOLDS, RECALL_THRESHOLDS

Dicts = list[dict[str, Any]]
NUM_IMAGES = (1, 1, 1, 2, 2, 4)
THRESHOLDS = ((0.5, 0.75), (0.5, 0.75), (0.75, 0.5, 0.75), IOU_THRESHOLDS)
RECALLS = ((0.0, 0.25, 0.5, 1.0), (1 / 3, 2 / 3), (0.5, 0.5, 0.9), RECALL_THRESHOLDS)
LIMITS = {"segm": ((1, 10, 100), (1, 2, 100), (1, 2, 3)), "keypoints": ((1, 10, 20), (1, 2, 20), (1, 2, 3))}
_SIGMAS = {"segm": None, "keypoints": keypoint_samples.SIGMAS}
_PRECISIONS = ("map_50", "map_75", "map_small", "map_medium", "map_large")
_RECALLS = ("mar_medium", "mar_large")


@dataclass(frozen=True)
class ShapeProblem:
    """Images with masks or keypoints, and what is evaluated."""

    iou_type: str
    preds: Dicts
    target: Dicts
    thresholds: tuple[float, ...]
    recalls: tuple[float, ...]
    limits: tuple[int, ...]
    batch_size: int

    @cached_property
    def rows(self) -> tuple[Dicts, Dicts, Dicts]:
        """Results, annotations and images of COCO's files."""
        samples = mask_samples if self.iou_type == "segm" else keypoint_samples
        return samples.coco_rows(self.preds, self.target)

    def evaluated(self) -> tuple[PrecisionGrid, dict[str, float]]:
        """The package's arrays and numbers."""
        metric = _metric(self.iou_type, self.thresholds, self.recalls, self.limits)
        metric.reset()
        results = fed(metric, self.preds, self.target, self.batch_size).results()
        return results.coco, {name: float(value) for name, value in results.summary().items()}

    def largest_difference(self) -> float:
        """Over arrays and numbers of the package and of pycocotools; 0 without detections, which it does not read."""
        results, annotations, images = self.rows
        if not results:
            return 0.0
        ours, numbers = self.evaluated()
        options = {"sigmas": _SIGMAS[self.iou_type], "limits": self.limits, "recalls": self.recalls}
        options |= {"images": images, "labels": ours.classes.tolist(), "thresholds": self.thresholds}
        arrays, stats = run_coco(self.iou_type, results, annotations, **options)
        pairs = [(numbers[name], value) for name, value in zip(self._names(), stats, strict=True) if name]
        return max([largest_difference(ours, arrays), *(abs(own - value) for own, value in pairs)])

    def _names(self) -> list[str | None]:
        """The package's names of the stats; None for those that pycocotools looks for at a limit that is not there."""
        if self.iou_type == "segm":
            of_recall = [f"mar_{name}" for name in (*self.limits, "small", "medium", "large")]
            return ["map" if 100 in self.limits else None, *_PRECISIONS, *of_recall]
        if 20 not in self.limits:
            return [None] * 10
        return ["map", *(name for name in _PRECISIONS if name != "map_small"), "mar_20", None, None, *_RECALLS]

    def kinds(self) -> list[str]:
        """What the problem has in it, to show that the hard cases occur."""
        results, annotations, images = self.rows
        scores = [row["score"] for row in results]
        sides, classes = (
            [{row[key] for row in rows} for rows in (results, annotations)] for key in ("image_id", "category_id")
        )
        key = "masks" if self.iou_type == "segm" else "keypoints"
        found = {
            "tied scores": len(set(scores)) < len(scores),
            "crowds": any(row["iscrowd"] for row in annotations),
            "areas on a boundary": any(row["area"] in {1024.0, 9216.0} for row in annotations),
            "nothing in a shape": any(not each.any() for item in self.target for each in item[key]),
            "images without anything on a side": any(image["id"] not in each for image in images for each in sides),
            "classes of one side only": classes[0] != classes[1],
            "more detections than a limit": len(results) > self.limits[-1],
            "several images": len(images) > 1,
            "several batches": self.batch_size < len(images),
        }
        return [name for name, occurs in found.items() if occurs]


@cache
def _metric(iou_type: str, thresholds: tuple[float, ...], recalls: tuple[float, ...], limits: tuple[int, ...]) -> Any:
    options = {"iou_thresholds": list(thresholds), "rec_thresholds": list(recalls), "sigmas": _SIGMAS[iou_type]}
    metric = DetectionMAP("xywh", iou_type, max_detection_thresholds=list(limits), **options)
    metric.warn_on_many_detections = False
    return metric


def draw_shapes(random: Random, iou_type: str, num_images: int | None = None) -> ShapeProblem:
    """Draw a problem of `iou_type` "segm" or "keypoints"."""
    draw = mask_samples.mask_images if iou_type == "segm" else keypoint_samples.keypoint_images
    num_images = random.choice(NUM_IMAGES) if num_images is None else num_images
    preds, target = draw(random.getrandbits(32), num_images, num_classes=random.choice((1, 1, 2, 3)))
    for item, number in zip(target, random.sample(range(1000), num_images), strict=True):
        item["image_id"] = number
    chosen = (random.choice(each) for each in (THRESHOLDS, RECALLS, LIMITS[iou_type], (1, 4, 4)))
    return ShapeProblem(iou_type, preds, target, *chosen)
