"""What became of the boxes of one image: right, wrong, missed or ignored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection import COCO_AREA_RANGES, Detections, GroundTruths, match_images, to_xywh

OUTCOMES = ("ignored", "right", "missed", "wrong")
"""in the order in which they are drawn: errors are on top"""
_DETECTIONS = ("boxes", "scores", "labels")
_GROUND_TRUTHS = ("boxes", "labels")


class JudgedBox(NamedTuple):
    """A detection, or a ground truth that is missed or ignored."""

    outcome: str
    """one of `OUTCOMES`"""
    corners: tuple[float, float, float, float]
    """left, top, right and bottom edge; those of inverted boxes are put in order, and may be infinite or NaN"""
    label: int
    score: float | None
    """None for a ground truth"""


@dataclass(frozen=True)
class Judgment:
    """How boxes are judged."""

    min_score: float | Mapping[int, float]
    iou_threshold: float
    box_format: str
    class_agnostic: bool

    def __post_init__(self) -> None:
        """Check the options."""
        _checks.fraction("iou_threshold", self.iou_threshold)
        _checks.boolean("class_agnostic", self.class_agnostic)
        scores = self.min_score.values() if isinstance(self.min_score, Mapping) else [self.min_score]
        for score in scores:
            _checks.number("min_score", score)

    def judge(
        self, detections: Mapping[str, Any], ground_truths: Mapping[str, Any], which: str = ""
    ) -> list[JudgedBox]:
        """Match the boxes of one image as COCO does, in the order of `OUTCOMES`, without those that score too little.

        All detections take part in matching, also those beyond the limits of an evaluation. Errors name the arguments
        with `which` behind.
        """
        found, true = self._packed(detections, ground_truths, which)
        is_crowd = torch.zeros_like(true.labels, dtype=torch.bool) if true.is_crowd is None else true.is_crowd
        taken, is_right, is_ignored = self._matched(found, true)
        is_shown = self._score_enough(found)
        is_missed = ~is_crowd
        is_missed[taken[is_shown & is_right]] = False
        return [
            *_judged("ignored", true, is_crowd),
            *_judged("ignored", found, is_shown & is_ignored),
            *_judged("right", found, is_shown & is_right),
            *_judged("missed", true, is_missed),
            *_judged("wrong", found, is_shown & ~is_right & ~is_ignored),
        ]

    def _packed(
        self, detections: Mapping[str, Any], ground_truths: Mapping[str, Any], which: str
    ) -> tuple[Detections, GroundTruths]:
        found = _columns(f"detections{which}", detections, _DETECTIONS)
        true = _columns(f"ground_truths{which}", ground_truths, _GROUND_TRUTHS)
        crowds = ground_truths.get("iscrowd")
        boxes, true_boxes = (to_xywh(_floats(each["boxes"]), self.box_format) for each in (found, true))
        images = [torch.zeros(len(each), dtype=torch.int64, device="cpu") for each in (boxes, true_boxes)]
        return (
            Detections(boxes, _floats(found["scores"]), found["labels"], images[0]),
            GroundTruths(true_boxes, true["labels"], images[1], None if crowds is None else crowds.cpu().bool()),
        )

    def _matched(self, found: Detections, true: GroundTruths) -> tuple[Tensor, Tensor, Tensor]:
        """The ground truth that each detection took, and whether the detection is right or ignored."""
        labels = [torch.zeros_like(each.labels) if self.class_agnostic else each.labels for each in (found, true)]
        matches = match_images(
            Detections(found.boxes, found.scores, labels[0], found.images),
            GroundTruths(true.boxes, labels[1], true.images, true.is_crowd),
            iou_thresholds=(self.iou_threshold,),
            max_detections=(max(1, len(found.labels)),),
            area_ranges={"all": COCO_AREA_RANGES["all"]},
            keep_ground_truths=True,
        )
        rows = matches.rows[matches.columns]
        taken = torch.full((len(found.labels),), -1, device="cpu")
        is_right, is_ignored = (torch.zeros(len(found.labels), dtype=torch.bool, device="cpu") for _ in range(2))
        assert matches.ground_truths is not None  # noqa: S101 - they are kept
        taken[rows] = matches.ground_truths[0, 0].long()
        is_right[rows] = matches.true_positive[0, 0]
        is_ignored[matches.rows[matches.area_bits == 0]] = True  # such as a negative area
        is_ignored[rows] = matches.matched[0, 0] & ~matches.true_positive[0, 0]
        return taken, is_right, is_ignored

    def _score_enough(self, found: Detections) -> Tensor:
        labels = found.labels.tolist()
        if isinstance(self.min_score, Mapping):
            lacking = [label for label in labels if label not in self.min_score]
            if lacking:
                raise ValueError(f"`min_score` must have a score for each label; got none for {lacking[0]}.")
            least = [self.min_score[label] for label in labels]
        else:
            least = [self.min_score] * len(labels)
        # Rounded as in `at_confidence`: a float32 score of 0.7 reaches 0.7.
        return found.scores >= torch.tensor(least, dtype=torch.float64, device="cpu").to(found.scores.dtype)


def _judged(outcome: str, boxes: Detections | GroundTruths, chosen: Tensor) -> list[JudgedBox]:
    assert isinstance(boxes.boxes, Tensor)  # noqa: S101 - not other shapes
    near, size = boxes.boxes[chosen].double().split(2, 1)
    corners = torch.cat([near.minimum(near + size), near.maximum(near + size)], 1).tolist()
    labels = boxes.labels[chosen].tolist()
    scores = boxes.scores[chosen].tolist() if isinstance(boxes, Detections) else [None] * len(labels)
    return [
        JudgedBox(outcome, tuple(edges), label, score)
        for edges, label, score in zip(corners, labels, scores, strict=True)
    ]


def _columns(argument: str, given: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Tensor]:
    """The tensors of a dict on the CPU; those without entries have the shapes and dtypes of no boxes."""
    if not isinstance(given, Mapping):
        raise TypeError(f"`{argument}` must be a dict of tensors; got {type(given).__name__}.")
    columns = {}
    for key in keys:
        if not isinstance(given.get(key), Tensor):
            came = f"{type(given[key]).__name__}" if key in given else "none"
            raise TypeError(f"`{argument}` must have a tensor of {key}; got {came}.")
        columns[key] = given[key].detach().cpu()
    if not columns["boxes"].numel():
        columns["boxes"] = torch.zeros((0, 4), device="cpu")
    return {
        key: value if value.numel() or key == "boxes" else torch.zeros(0, dtype=torch.int64, device="cpu")
        for key, value in columns.items()
    }


def _floats(values: Tensor) -> Tensor:
    return values if values.is_floating_point() else values.double()
