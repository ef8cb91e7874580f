"""Outcomes of the boxes of one image: right, wrong, missed or ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection import COCO_AREA_RANGES, Detections, GroundTruths
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator
from reid_torchmetrics.functional.detection.inputs import CocoGrid, to_xywh


class JudgedBox(NamedTuple):
    """A detection, or a ground truth that is missed or ignored."""

    outcome: str
    """"ignored", "right", "missed" or "wrong", in the order of drawing: errors are on top"""
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
    box_format: _names.BoxFormat
    average: _names.Average
    evaluator: Evaluator | None = None
    """None for COCO"""

    def __post_init__(self) -> None:
        """Check the options."""
        _checks.fraction("iou_threshold", self.iou_threshold)
        _checks.one_of("average", self.average, _names.Average)
        _checks.instance("evaluator", self.evaluator, (Evaluator,))
        for score in self.min_score.values() if isinstance(self.min_score, Mapping) else [self.min_score]:
            _checks.number("min_score", score)

    def judge(self, detections: Mapping[str, Any], ground_truths: Mapping[str, Any], end: str = "") -> list[JudgedBox]:
        """Match the boxes of one image, and list them in the order of drawing, without low scores.

        All detections take part in matching, also beyond the limits of an evaluation. Errors name the arguments with
        `end` behind.
        """
        evaluator = self.evaluator or EVALUATORS["coco"]
        columns = self._columns(f"detections{end}", detections, ("boxes", "scores", "labels"))
        true_columns = self._columns(f"ground_truths{end}", ground_truths, ("boxes", "labels"))
        none = torch.zeros(len(true_columns["boxes"]), dtype=torch.bool, device="cpu")
        flags = (ground_truths.get(key) for key in ("iscrowd", "difficult"))
        is_crowd, is_difficult = (none if each is None else each.cpu().bool() for each in flags)
        is_difficult = is_difficult & evaluator.knows_difficult
        packed, truths = Detections(**columns), GroundTruths(**true_columns, is_crowd=is_crowd)

        limits, options = (max(1, len(packed.labels)),), evaluator.options_of_voc(is_difficult)
        grid = CocoGrid((self.iou_threshold,), (0.0,), limits, {"all": COCO_AREA_RANGES["all"]})
        sides = [side.of_one_class() if self.average == "micro" else side for side in (packed, truths)]
        matches = evaluator.match(*sides, grid, keep_ground_truths=True, **options)
        assert matches.ground_truths is not None  # noqa: S101 - they are kept
        is_shown = self._score_enough(packed)
        is_right, is_ignored = (flags[matches.rows.argsort()] & is_shown for (flags,) in matches.outcomes())
        is_missed = ~is_crowd & ~is_difficult
        is_missed[matches.ground_truths[0, 0][is_right[matches.rows[matches.columns]]].long()] = False
        return [
            *_judged("ignored", truths, is_crowd, "crowd"),
            *_judged("ignored", truths, is_difficult & ~is_crowd, "difficult"),
            *_judged("ignored", packed, is_ignored),
            *_judged("right", packed, is_right),
            *_judged("missed", truths, is_missed),
            *_judged("wrong", packed, is_shown & ~is_right & ~is_ignored),
        ]

    def _columns(self, argument: str, given: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Tensor]:
        """The columns of packed boxes on the CPU; without boxes they may come in any shape and dtype."""
        if not isinstance(given, Mapping):
            raise TypeError(f"`{argument}` must be a dict of tensors; got {type(given).__name__}.")
        columns = {}
        for key in keys:
            value = given.get(key)
            if not isinstance(value, Tensor):
                came = type(value).__name__ if key in given else "none"
                raise TypeError(f"`{argument}` must have a tensor of {key}; got {came}.")
            value = value.detach().cpu()
            if not value.numel():
                value = torch.zeros((0, 4) if key == "boxes" else 0, dtype=torch.int64, device="cpu")
            columns[key] = value if key == "labels" or value.is_floating_point() else value.double()
        columns["boxes"] = to_xywh(columns["boxes"], self.box_format)
        return columns | {"images": torch.zeros(len(columns["boxes"]), dtype=torch.int64, device="cpu")}

    def _score_enough(self, detections: Detections) -> Tensor:
        labels = detections.labels.tolist()
        by_label = self.min_score if isinstance(self.min_score, Mapping) else dict.fromkeys(labels, self.min_score)
        if lacking := [label for label in labels if label not in by_label]:
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
    return [JudgedBox(outcome, *box, remark) for box in zip(map(tuple, corners), labels, scores, strict=True)]
