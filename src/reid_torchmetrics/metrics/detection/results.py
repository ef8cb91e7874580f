"""All that there is to know after an evaluation of detections."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from reid_torchmetrics.functional.detection.curves import (
    ImageErrors,
    OperatingPoints,
    PrecisionRecallCurve,
    at_confidence,
    best_f1,
    image_errors,
    precision_recall_curve,
)
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, CocoResults
from reid_torchmetrics.functional.detection.matching import Matches


@dataclass(frozen=True)
class MatchedDetections:
    """Which ground truth each detection took: a row for each detection, by image, then by its place in the image.

    Detections beyond the largest limit of an image and class were not matched and are not here.
    """

    image: Tensor
    """its `image_id`, or the number of the image where there are none, int64 [detections]"""
    index: Tensor
    """place among the detections of the image, int64 [detections]"""
    label: Tensor
    """int64 [detections]"""
    score: Tensor
    """[detections]"""
    iou_thresholds: tuple[float, ...]
    ground_truth: Tensor
    """the one that it took, as its place among the ground truths of the image; -1 for none, int64 like the others"""
    is_true_positive: Tensor
    """bool [thresholds, detections]"""
    is_ignored: Tensor
    """whether it counts neither as right nor as wrong: it took a crowd, or a ground truth outside the first area range,
    or took none and its own box is outside; bool [thresholds, detections]"""

    def __len__(self) -> int:
        """Number of detections."""
        return len(self.index)


@dataclass(frozen=True)
class DetectionResults:
    """Results of `DetectionMAP.results`, in float64; the same on all processes."""

    coco: CocoResults
    """precision, recall and scores on COCO's whole grid"""
    averages: ClassAverages
    """average precision, by the interpolation of the metric, and recall of every class"""
    matches: Matches
    """rows are counted in each image, of detections and of ground truths; under "micro" there is one class"""
    images: Tensor
    """the `image_id` of each image by its number, or the number itself where there are none"""
    labels: Tensor
    """of the detections of `matches`, also under "micro" """
    num_positives: Tensor
    """ground truths of each image that count in the first area range"""

    def summary(self) -> dict[str, Tensor]:
        """The numbers that `DetectionMAP.compute` gives in float32; see `ClassAverages.summary`."""
        return self.averages.summary()

    def detections(self) -> MatchedDetections:
        """The list of matches, in the first area range."""
        matches = self.matches
        shape = (matches.matched.shape[1], len(matches.rows))
        inside = (matches.area_bits & 1).bool().expand(shape)
        # Where nothing is matched, a detection is ignored if it is outside the range; columns overwrite that.
        taken = matches.columns.new_full(shape, -1)
        true_positive, ignored = torch.zeros_like(inside), ~inside
        if matches.ground_truths is not None:
            taken[:, matches.columns] = matches.ground_truths[0].to(taken.dtype)
        true_positive[:, matches.columns] = matches.true_positive[0]
        of_columns = torch.where(matches.matched[0], ~matches.true_positive[0], ignored[:, matches.columns])
        ignored[:, matches.columns] = of_columns
        # By image, and in it by row: the last key first.
        by_row = matches.rows.argsort()
        order = by_row[matches.images[by_row].argsort(stable=True)]
        return MatchedDetections(
            image=self.images.to(order.device)[matches.images[order].long()],
            index=matches.rows[order].long(),
            label=self.labels[order],
            score=matches.scores[order],
            iou_thresholds=tuple(self.coco.grid.iou_thresholds),
            ground_truth=taken[:, order],
            is_true_positive=true_positive[:, order],
            is_ignored=ignored[:, order],
        )

    def at_confidence(self, confidence: float) -> OperatingPoints:
        """Precision, recall and F1 of every class at each IoU threshold, with detections that score so much or more."""
        return at_confidence(self.matches, confidence)

    def best_f1(self) -> OperatingPoints:
        """The confidence with the highest F1 of every class at each IoU threshold, and what is reached there."""
        return best_f1(self.matches)

    def best_confidences(self, *, iou_threshold: float = 0.5) -> dict[int, float]:
        """The confidence with the highest F1 for each label that was detected: infinity where nothing is right.

        Under "micro" it is the same for all labels.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        confidence = self.best_f1().confidence[self.coco.grid.threshold_index(iou_threshold)]
        of_rows = confidence[self.matches.class_index.long()]
        return dict(zip(self.labels.tolist(), of_rows.tolist(), strict=True))

    def image_errors(self, *, iou_threshold: float = 0.5, confidence: float | None = None) -> ImageErrors:
        """Right and wrong detections and misses of each image, in the order of `images`, with detections that count.

        Args:
            iou_threshold: one of the metric's.
            confidence: the least score that counts, for all classes; None for that with the highest F1 of each class.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: a threshold that is not one of the metric's.
        """
        threshold = self.coco.grid.threshold_index(iou_threshold)
        points = self.best_f1() if confidence is None else self.at_confidence(confidence)
        counted = image_errors(self.matches, self.num_positives, points.confidence[threshold], threshold=threshold)
        return replace(counted, image=self.images)

    def worst_images(self, n: int, *, iou_threshold: float = 0.5, confidence: float | None = None) -> ImageErrors:
        """Up to `n` images with the most false positives and misses, the worst first: see `image_errors`.

        Of images with as many errors those with more misses come first, then those with a lower number. Images without
        errors are left out.

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: `n` is below 1, or a threshold that is not one of the metric's.
        """
        return self.image_errors(iou_threshold=iou_threshold, confidence=confidence).worst(n)

    def precision_recall_curve(self, label: int | Tensor, *, iou_threshold: float = 0.5) -> PrecisionRecallCurve:
        """Precision and recall of one class at each of its scores; under "micro" the only class is 0.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: no box has the label, or the threshold is not one of the metric's.
        """
        threshold = self.coco.grid.threshold_index(iou_threshold)
        if isinstance(label, Tensor):  # one of `coco.classes`
            label = operator.index(label)
        return precision_recall_curve(self.matches, label, threshold=threshold)
