"""Outcomes of the boxes of one image: right, wrong, missed or ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection import COCO_AREA_RANGES, EVALUATORS, Detections, Evaluator, GroundTruths
from reid_torchmetrics.functional.detection.inputs import to_xywh

OUTCOMES = ("ignored", "right", "missed", "wrong")
"""in the order of drawing: errors are on top"""
_DETECTIONS = ("boxes", "scores", "labels")
_GROUND_TRUTHS = ("boxes", "labels")


class JudgedBox(NamedTuple):
    """A detection, or a ground truth that is missed or ignored."""

    outcome: str
    """one of `OUTCOMES`"""
    corners: tuple[float, float, float, float]
    """left, top, right and bottom edge, in order also for inverted boxes; they may be infinite or NaN"""
    label: int
    score: float | None
    """None for a ground truth"""
    remark: str = ""
    """why a ground truth is ignored: "crowd" or "difficult" """


@dataclass(frozen=True)
class Judgment:
    """How boxes are judged."""

    min_score: float | Mapping[int, float]
    iou_threshold: float
    box_format: str
    class_agnostic: bool
    evaluator: Evaluator | None = None
    """None for COCO"""

    def __post_init__(self) -> None:
        """Check the options."""
        _checks.fraction("iou_threshold", self.iou_threshold)
        _checks.boolean("class_agnostic", self.class_agnostic)
        _checks.instance("evaluator", self.evaluator, (Evaluator,))
        scores = self.min_score.values() if isinstance(self.min_score, Mapping) else [self.min_score]
        for score in scores:
            _checks.number("min_score", score)

    def judge(
        self, detections: Mapping[str, Any], ground_truths: Mapping[str, Any], which: str = ""
    ) -> list[JudgedBox]:
        """Match the boxes of one image, and list them in the order of `OUTCOMES`, without low scores.

        All detections take part in matching, also beyond the limits of an evaluation. Errors name the arguments with
        `which` behind.
        """
        columns = _columns(f"detections{which}", detections, _DETECTIONS)
        true_columns = _columns(f"ground_truths{which}", ground_truths, _GROUND_TRUTHS)
        boxes, true_boxes = (to_xywh(_floats(each["boxes"]), self.box_format) for each in (columns, true_columns))
        images, true_images = (torch.zeros(len(each), dtype=torch.int64, device="cpu") for each in (boxes, true_boxes))
        is_crowd, is_difficult = (_flags(ground_truths.get(key), len(true_boxes)) for key in ("iscrowd", "difficult"))
        is_difficult &= self._evaluator.knows_difficult
        packed = Detections(boxes, _floats(columns["scores"]), columns["labels"], images)
        truths = GroundTruths(true_boxes, true_columns["labels"], true_images, is_crowd)

        matched, is_right, is_ignored = self._match(packed, truths, is_difficult)
        is_shown = self._score_enough(packed)
        is_missed = ~is_crowd & ~is_difficult
        is_missed[matched[is_shown & is_right]] = False
        return [
            *_judged("ignored", truths, is_crowd, "crowd"),
            *_judged("ignored", truths, is_difficult & ~is_crowd, "difficult"),
            *_judged("ignored", packed, is_shown & is_ignored),
            *_judged("right", packed, is_shown & is_right),
            *_judged("missed", truths, is_missed),
            *_judged("wrong", packed, is_shown & ~is_right & ~is_ignored),
        ]

    @property
    def _evaluator(self) -> Evaluator:
        return EVALUATORS["coco"] if self.evaluator is None else self.evaluator

    def _match(
        self, detections: Detections, ground_truths: GroundTruths, is_difficult: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The ground truth of each detection or -1, and whether the detection is right or ignored."""
        num = len(detections.labels)
        if self.class_agnostic:
            detections, ground_truths = detections.of_one_class(), ground_truths.of_one_class()
        grid, options = self._evaluator.grid((self.iou_threshold,)), dict[str, Any]()
        if self._evaluator.has_limits:
            ranges = {"all": COCO_AREA_RANGES["all"]}
            grid = replace(grid, max_detections=(max(1, num),), area_ranges=ranges, limited="image and class")
        if self._evaluator.knows_difficult:
            options |= {"is_difficult": is_difficult, "whole_pixels": self._evaluator.whole_pixels}
        matches = self._evaluator.match(detections, ground_truths, grid, keep_ground_truths=True, **options)
        assert matches.ground_truths is not None  # noqa: S101 - they are kept
        ground_truth = torch.full((num,), -1, device="cpu")
        ground_truth[matches.rows[matches.columns]] = matches.ground_truths[0, 0].long()
        is_right, is_ignored = (of_threshold[matches.rows.argsort()] for (of_threshold,) in matches.outcomes())
        return ground_truth, is_right, is_ignored

    def _score_enough(self, detections: Detections) -> Tensor:
        labels = detections.labels.tolist()
        by_label = self.min_score if isinstance(self.min_score, Mapping) else dict.fromkeys(labels, self.min_score)
        lacking = [label for label in labels if label not in by_label]
        if lacking:
            raise ValueError(f"`min_score` must have a score for each label; got none for {lacking[0]}.")
        least = [by_label[label] for label in labels]
        # Rounded as in `at_confidence`: a float32 score of 0.7 reaches 0.7.
        return detections.scores >= torch.tensor(least, dtype=torch.float64, device="cpu").to(detections.scores.dtype)


def _judged(outcome: str, boxes: Detections | GroundTruths, rows: Tensor, remark: str = "") -> list[JudgedBox]:
    assert isinstance(boxes.boxes, Tensor)  # noqa: S101 - not other shapes
    near, size = boxes.boxes[rows].double().split(2, 1)
    corners = torch.cat([near.minimum(near + size), near.maximum(near + size)], 1).tolist()
    labels = boxes.labels[rows].tolist()
    scores = boxes.scores[rows].tolist() if isinstance(boxes, Detections) else [None] * len(labels)
    return [
        JudgedBox(outcome, tuple(edges), label, score, remark)
        for edges, label, score in zip(corners, labels, scores, strict=True)
    ]


def _columns(argument: str, given: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Tensor]:
    """The tensors of a dict on the CPU; empty ones get the shapes and dtypes of no boxes."""
    if not isinstance(given, Mapping):
        raise TypeError(f"`{argument}` must be a dict of tensors; got {type(given).__name__}.")
    columns = {}
    for key in keys:
        if not isinstance(given.get(key), Tensor):
            came = f"{type(given[key]).__name__}" if key in given else "none"
            raise TypeError(f"`{argument}` must have a tensor of {key}; got {came}.")
        columns[key] = given[key].detach().cpu()
        if not columns[key].numel():
            shape, dtype = ((0, 4), torch.float32) if key == "boxes" else (0, torch.int64)
            columns[key] = torch.zeros(shape, dtype=dtype, device="cpu")
    return columns


def _flags(given: Tensor | None, length: int) -> Tensor:
    return torch.zeros(length, dtype=torch.bool, device="cpu") if given is None else given.cpu().bool()


def _floats(values: Tensor) -> Tensor:
    return values if values.is_floating_point() else values.double()
