"""Outcomes of the boxes of one image: right, wrong, missed or ignored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection import COCO_AREA_RANGES, Detections, GroundTruths, inputs
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator, own_options
from reid_torchmetrics.tasks.rotated_boxes import rotated_corners

_ROTATED = inputs.shape_types(("rotated",), None)["rotated"]


class JudgedBox(NamedTuple):
    """A detection, or a ground truth that is missed or ignored."""

    outcome: str
    """"ignored", "right", "missed" or "wrong", in the order of drawing: errors are on top"""
    corners: list[list[float]]
    """x and y of two opposite corners, of a rotated box of all four; they may be infinite or NaN"""
    label: int
    score: float | None
    """None for a ground truth"""
    remark: str = ""
    """why a ground truth is ignored: "crowd" or "difficult" """


@dataclass(frozen=True)
class Judgment:
    """Rules that judge boxes, by the matching of an evaluator."""

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
        scores = self.min_score.values() if isinstance(self.min_score, Mapping) else [self.min_score]
        for score in scores:
            _checks.number("min_score", score)

    def judge(self, detections: Mapping[str, Any], ground_truths: Mapping[str, Any], end: str = "") -> list[JudgedBox]:
        """Match the boxes of one image, and return them in the order of drawing, without low scores.

        All detections take part in matching, also beyond the limits of an evaluation. Errors name the arguments with
        `end` behind.
        """
        # Boxes of the image.
        evaluator = self.evaluator or EVALUATORS["coco"]
        is_rotated = _has_rotated_boxes(detections) or _has_rotated_boxes(ground_truths)
        key = "rotated_boxes" if is_rotated else "boxes"
        columns, corners = self._read_columns(f"detections{end}", detections, (key, "scores", "labels"))
        true_columns, true_corners = self._read_columns(f"ground_truths{end}", ground_truths, (key, "labels"))
        is_crowd = _read_flags(ground_truths, "iscrowd", len(true_corners))
        is_difficult = _read_flags(ground_truths, "difficult", len(true_corners)) & evaluator.has_difficult
        options = own_options(evaluator)
        if evaluator.has_difficult:
            options["is_difficult"] = is_difficult
        if is_rotated:
            shapes = _overlap_rotated(corners.flatten(1), true_corners.flatten(1), is_crowd)
            columns["boxes"], true_columns["boxes"] = shapes
        predicted = Detections(**columns)
        true = GroundTruths(**true_columns, is_crowd=is_crowd)

        # Matching.
        limit = max(1, len(predicted.labels))
        grid = inputs.CocoGrid((self.iou_threshold,), (0.0,), (limit,), {"all": COCO_AREA_RANGES["all"]})
        matches = evaluator.match(
            predicted.as_one_class() if self.average == "micro" else predicted,
            true.as_one_class() if self.average == "micro" else true,
            grid,
            keep_ground_truths=True,
            **options,
        )
        assert matches.ground_truths is not None  # noqa: S101 - they are kept

        # Outcomes; matches are in an order of their own.
        has_score = self._has_min_score(predicted)
        is_right, is_ignored = (flags[matches.rows.argsort()] & has_score for (flags,) in matches.outcomes())
        is_wrong = has_score & ~is_right & ~is_ignored
        matched_truths = matches.ground_truths[0, 0][is_right[matches.rows[matches.columns]]].long()
        is_missed = ~is_crowd & ~is_difficult
        is_missed[matched_truths] = False
        return [
            *_select(true, true_corners, "ignored", is_crowd, "crowd"),
            *_select(true, true_corners, "ignored", is_difficult & ~is_crowd, "difficult"),
            *_select(predicted, corners, "ignored", is_ignored),
            *_select(predicted, corners, "right", is_right),
            *_select(true, true_corners, "missed", is_missed),
            *_select(predicted, corners, "wrong", is_wrong),
        ]

    def _read_columns(
        self, argument: str, tensors: Mapping[str, Any], keys: Sequence[str]
    ) -> tuple[dict[str, Any], Tensor]:
        """Return the columns of boxes on the CPU, and two or, for rotated boxes, four corners [boxes, corners, 2].

        Without boxes the tensors may have any shape and dtype. The first of `keys` is the one of the boxes.
        """
        if not isinstance(tensors, Mapping):
            raise TypeError(f"`{argument}` must be a dict of tensors; got {type(tensors).__name__}.")
        columns: dict[str, Any] = {}
        for key in keys:
            value = tensors.get(key)
            if not isinstance(value, Tensor):
                got = type(value).__name__ if key in tensors else "none"
                raise TypeError(f"`{argument}` must have a tensor of {key}; got {got}.")
            value = value.detach().cpu()
            if not value.numel():
                value = torch.zeros((0, 4) if key == "boxes" else 0, dtype=torch.int64, device="cpu")
            if key != "labels" and not value.is_floating_point():
                value = value.double()
            columns[key] = value
        box_key = keys[0]
        columns["images"] = torch.zeros(len(columns[box_key]), dtype=torch.int64, device="cpu")
        if box_key == "boxes":
            columns["boxes"] = inputs.to_xywh(columns["boxes"], self.box_format)
            start, size = columns["boxes"].double().split(2, 1)
            return columns, torch.stack([start, start + size], 1)
        shapes = _ROTATED.read(f"{argument}['{box_key}']", columns.pop(box_key), is_true=False, any_values=True)
        return columns, rotated_corners(shapes)

    def _has_min_score(self, detections: Detections) -> Tensor:
        """Return which detections reach the least score for their label."""
        labels = detections.labels.tolist()
        if isinstance(self.min_score, Mapping):
            for label in labels:
                if label not in self.min_score:
                    raise ValueError(f"`min_score` must have a score for each label; got none for {label}.")
            min_scores = [self.min_score[label] for label in labels]
        else:
            min_scores = [self.min_score] * len(labels)
        # Rounded as in `at_confidence`: a float32 score of 0.7 reaches 0.7.
        rounded = torch.tensor(min_scores, dtype=torch.float64, device="cpu").to(detections.scores.dtype)
        return detections.scores >= rounded


def _has_rotated_boxes(tensors: object) -> bool:
    return isinstance(tensors, Mapping) and "rotated_boxes" in tensors


def _read_flags(ground_truths: Mapping[str, Any], key: str, num_boxes: int) -> Tensor:
    """Return flags of ground truths on the CPU; without flags all are False."""
    flags = ground_truths.get(key)
    if flags is None:
        return torch.zeros(num_boxes, dtype=torch.bool, device="cpu")
    result: Tensor = flags.cpu().bool()
    return result


def _overlap_rotated(
    corners: Tensor, true_corners: Tensor, is_crowd: Tensor
) -> tuple[inputs.TableShapes, inputs.TableShapes]:
    """Return the rotated boxes of an image with the table of their overlaps, as matching takes them."""
    shapes = _ROTATED.measurable(corners)
    true_shapes = _ROTATED.measurable(true_corners)
    areas = _ROTATED.areas(shapes)
    true_areas = _ROTATED.areas(true_shapes)
    columns = inputs.ObjectColumns(true_corners, true_areas, is_crowd)
    table = _ROTATED.overlaps(shapes, true_shapes, columns).flatten()
    num_boxes = torch.tensor([len(shapes)], device="cpu")
    num_truths = torch.tensor([len(true_shapes)], device="cpu")
    return inputs.TableShapes.of_images(table, areas, true_areas, num_boxes, num_truths)


def _select(
    boxes: Detections | GroundTruths, corners: Tensor, outcome: str, is_selected: Tensor, remark: str = ""
) -> list[JudgedBox]:
    """Return the selected boxes with their outcome."""
    labels = boxes.labels[is_selected].tolist()
    scores = boxes.scores[is_selected].tolist() if isinstance(boxes, Detections) else [None] * len(labels)
    judged = []
    for box_corners, label, score in zip(corners[is_selected].tolist(), labels, scores, strict=True):
        judged.append(JudgedBox(outcome, box_corners, label, score, remark))
    return judged
