"""Outcomes of the boxes of one image: right, wrong, missed or ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection import COCO_AREA_RANGES, Detections, GroundTruths, inputs
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator, match_options

_ROTATED = inputs.shape_types(("rotated",), None)["rotated"]


class JudgedBox(NamedTuple):
    """A detection, or a ground truth that is missed or ignored."""

    outcome: str
    """"ignored", "right", "missed" or "wrong", in the order of drawing: errors are on top"""
    corners: tuple[float, float, float, float]
    """left, top, right and bottom edge, in order also for inverted boxes; they may be infinite or NaN"""
    label: int
    score: float | None
    """None for a ground truth"""
    outline: list[list[float]]
    """the corners of a rotated box, between these edges; empty for others"""
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
        is_turned = any(isinstance(each, Mapping) and "rotated_boxes" in each for each in (detections, ground_truths))
        key = "rotated_boxes" if is_turned else "boxes"
        columns, points = self._columns(f"detections{end}", detections, (key, "scores", "labels"))
        true_columns, true_points = self._columns(f"ground_truths{end}", ground_truths, (key, "labels"))
        none = torch.zeros(len(true_points), dtype=torch.bool, device="cpu")
        flags = (ground_truths.get(key) for key in ("iscrowd", "difficult"))
        is_crowd, is_difficult = (none if each is None else each.cpu().bool() for each in flags)
        is_difficult = is_difficult & evaluator.knows_difficult
        if is_turned:
            columns["boxes"], true_columns["boxes"] = _overlaps(points.flatten(1), true_points.flatten(1), is_crowd)
        packed, truths = Detections(**columns), GroundTruths(**true_columns, is_crowd=is_crowd)

        limits = (max(1, len(packed.labels)),)
        options = match_options(evaluator, is_difficult=is_difficult)
        grid = inputs.CocoGrid((self.iou_threshold,), (0.0,), limits, {"all": COCO_AREA_RANGES["all"]})
        sides = [side.of_one_class() if self.average == "micro" else side for side in (packed, truths)]
        matches = evaluator.match(*sides, grid, keep_ground_truths=True, **options)
        assert matches.ground_truths is not None  # noqa: S101 - they are kept
        is_shown = self._score_enough(packed)
        is_right, is_ignored = (flags[matches.rows.argsort()] & is_shown for (flags,) in matches.outcomes())
        is_missed = ~is_crowd & ~is_difficult
        is_missed[matches.ground_truths[0, 0][is_right[matches.rows[matches.columns]]].long()] = False
        found, true = partial(_judged, packed, points), partial(_judged, truths, true_points)
        return [
            *true("ignored", is_crowd, "crowd"),
            *true("ignored", is_difficult & ~is_crowd, "difficult"),
            *found("ignored", is_ignored),
            *found("right", is_right),
            *true("missed", is_missed),
            *found("wrong", is_shown & ~is_right & ~is_ignored),
        ]

    def _columns(self, argument: str, given: Mapping[str, Any], keys: Sequence[str]) -> tuple[dict[str, Any], Tensor]:
        """The columns of packed boxes on the CPU, and two or, of rotated boxes, four corners [boxes, corners, 2].

        Without boxes they may come in any shape and dtype.
        """
        if not isinstance(given, Mapping):
            raise TypeError(f"`{argument}` must be a dict of tensors; got {type(given).__name__}.")
        columns: dict[str, Any] = {}
        for key in keys:
            value = given.get(key)
            if not isinstance(value, Tensor):
                came = type(value).__name__ if key in given else "none"
                raise TypeError(f"`{argument}` must have a tensor of {key}; got {came}.")
            value = value.detach().cpu()
            if not value.numel():
                value = torch.zeros((0, 4) if key == "boxes" else 0, dtype=torch.int64, device="cpu")
            columns[key] = value if key == "labels" or value.is_floating_point() else value.double()
        columns["images"] = torch.zeros(len(columns[keys[0]]), dtype=torch.int64, device="cpu")
        if keys[0] == "boxes":
            columns["boxes"] = inputs.to_xywh(columns["boxes"], self.box_format)
            near, size = columns["boxes"].double().split(2, 1)
            return columns, torch.stack([near, near + size], 1)
        name, shapes = f"{argument}['{keys[0]}']", columns.pop(keys[0])
        return columns, inputs.rotated_corners(_ROTATED.read(name, shapes, is_true=False, any_values=True))

    def _score_enough(self, detections: Detections) -> Tensor:
        labels = detections.labels.tolist()
        by_label = self.min_score if isinstance(self.min_score, Mapping) else dict.fromkeys(labels, self.min_score)
        if lacking := [label for label in labels if label not in by_label]:
            raise ValueError(f"`min_score` must have a score for each label; got none for {lacking[0]}.")
        least = [by_label[label] for label in labels]
        # Rounded as in `at_confidence`: a float32 score of 0.7 reaches 0.7.
        return detections.scores >= torch.tensor(least, dtype=torch.float64, device="cpu").to(detections.scores.dtype)


def _overlaps(corners: Tensor, true_corners: Tensor, is_crowd: Tensor) -> tuple[inputs.TableShapes, inputs.TableShapes]:
    """The rotated boxes of an image as matching takes them."""
    sides = _ROTATED.measurable(corners), _ROTATED.measurable(true_corners)
    areas = [*map(_ROTATED.areas, sides)]
    table = _ROTATED.overlaps(*sides, inputs.ObjectColumns(true_corners, areas[1], is_crowd)).flatten()
    return inputs.TableShapes.of_images(table, *areas, *(torch.tensor([len(each)], device="cpu") for each in sides))


def _judged(
    boxes: Detections | GroundTruths, points: Tensor, outcome: str, rows: Tensor, remark: str = ""
) -> list[JudgedBox]:
    points = points[rows]
    corners = torch.cat([points.amin(1), points.amax(1)], 1).tolist()
    labels = boxes.labels[rows].tolist()
    scores = boxes.scores[rows].tolist() if isinstance(boxes, Detections) else [None] * len(labels)
    outlines = points.tolist() if points.shape[1] > 2 else [[]] * len(labels)
    return [JudgedBox(outcome, *box, remark) for box in zip(map(tuple, corners), labels, scores, outlines, strict=True)]
