"""Detection: mean average precision of boxes as the YOLO family has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.evaluators import YOLO_RULES, YoloResults, match_greedily, yolo_results
from reid_torchmetrics.functional.detection.inputs import COCO_IOU_THRESHOLDS
from reid_torchmetrics.functional.detection.matching import DEFAULT_MAX_BYTES, Matches, match_best_of_all

from .evaluator_metric import EvaluatorMetric, EvaluatorRequest


class _Family(NamedTuple):
    match: Callable[..., Matches]
    rule: str
    """of average precision, by default"""
    confidence: float | None
    """where precision, recall and F1 are taken by default, or None for the best, see `yolo_average_precision`"""


YOLO_MATCHINGS: dict[str, _Family] = {
    "ultralytics": _Family(match_greedily, "ultralytics", None),
    "scaled_yolov4": _Family(partial(match_best_of_all, claim="scaled_yolov4"), "yolo", 0.1),
    "yolov4": _Family(partial(match_best_of_all, claim="yolov4"), "yolo", 0.1),
}
"""How detections are matched, see `YoloMAP`."""


class YoloMAP(EvaluatorMetric):
    """Mean average precision, precision, recall and F1 of boxes by the matching and the rules of the YOLO family.

    It takes the dicts of `DetectionMAP`. Crowds are left out. `precision`, `recall` and `f1` are those of
    `functional.detection.yolo_average_precision` at the first of the thresholds.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_thresholds: overlaps from which on a detection is right; `map` is the mean over them. By default 0.5, 0.55,
            ..., 0.95.
        matching: "ultralytics", a detection takes the best ground truth that is left, see `match_greedily`;
            "scaled_yolov4", it belongs to the best of all, which the first detection above the first threshold claims,
            and must overlap it by more than a threshold; "yolov4", it belongs to the best of all, and no detection with
            a higher score may, see `match_best_of_all`.
        rule: one of `functional.detection.YOLO_RULES`; None for "ultralytics" with the first matching, "yolo" with the
            others.
        confidence: where precision, recall and F1 are taken, on lines between detections; None with the first matching
            for the one where the smoothed mean of F1 is highest, as Ultralytics does, and for 0.1 with the others.
        class_metrics: also give the values of each class that has ground truths.
        metric: the name of one number, such as "map_50", or "map_50/7" for that of the class with the label 7: it is
            then all that `compute` gives, a tensor that `LightningModule.log` takes.
        invalid: what becomes of detected boxes that are not finite or of negative size, see `DetectionMAP`; without
            area ranges, those that "count" are false positives.
        max_bytes: bound on what `compute` holds of pairs of boxes at a time, but for those that overlap.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import YoloMAP
        >>> metric = YoloMAP(matching="scaled_yolov4", metric="recall")
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> found = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([3])}
        >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([3, 3])}])
        >>> metric.compute()  # one of two is found
        tensor(0.5000)
    """

    VALUES = ("map", "map_50", "map_75", "precision", "recall", "f1")

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_thresholds: Sequence[float] = COCO_IOU_THRESHOLDS,
        *,
        matching: str = "ultralytics",
        rule: str | None = None,
        confidence: float | None = None,
        class_metrics: bool = False,
        metric: str | None = None,
        invalid: str = "count",
        max_bytes: int = DEFAULT_MAX_BYTES,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            box_format,
            iou_thresholds,
            class_metrics=class_metrics,
            metric=metric,
            invalid=invalid,
            max_bytes=max_bytes,
            **kwargs,
        )
        _checks.one_of("matching", matching, YOLO_MATCHINGS)
        family = YOLO_MATCHINGS[matching]
        rule = family.rule if rule is None else rule
        _checks.one_of("rule", rule, YOLO_RULES)
        if confidence is None:
            confidence = family.confidence
        else:
            _checks.number("confidence", confidence)
        self.matching, self.rule, self.confidence = matching, rule, confidence

    def _match_request(self) -> EvaluatorRequest:
        return self._request(YOLO_MATCHINGS[self.matching].match)

    def _class_values(self, matches: Matches) -> tuple[Tensor, dict[str, Tensor]]:
        found = yolo_results(matches, rule=self.rule, confidence=self.confidence)
        at_confidence = {"precision": found.precision, "recall": found.recall, "f1": found.f1}
        return found.classes, self._precision_at(found.average_precision) | at_confidence

    def results(self) -> YoloResults:
        """Everything in float64: average precisions, and every detection with what it was found to be.

        The same on all processes; all must ask. `ranked.of_class(label)` is the curve of a class, to be printed or
        drawn.
        """
        matches, with_ids = self._with_origins()
        found = yolo_results(matches, rule=self.rule, confidence=self.confidence)
        return found._replace(ranked=with_ids(found.ranked))
