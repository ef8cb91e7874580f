"""The input of the rows of detection: finished matches, facts, and the first images that this process was given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Causes, NotHeldError
from reid_torchmetrics.diagnosis.signs import LEAST_BOXES
from reid_torchmetrics.functional.detection.evaluation import ShownImages
from reid_torchmetrics.functional.detection.matching import Matches

from .given_images import ShownObjects
from .matched_images import MatchedImages
from .points import FOUND, PointSample, kind_of, sample_points

FEW = 0.5
"""fraction of all ground truths that are found"""
STRICT = 0.75
"""overlap for rotated boxes: many are found at 0.5 if only the angle differs"""


class FoundCounts(NamedTuple):
    """Numbers of ground truths that are found at the first threshold, with their labels, in all area ranges."""

    num_found: int
    num_ground_truths: int
    """ground truths that count: no crowds"""


class PairedLabels(NamedTuple):
    """Labels of sampled ground truths that are found without labels, and of the detections that find them."""

    names: Sequence[object]
    """the users' names of different labels"""
    counts: Tensor
    """numbers of pairs, by the place of the ground truth's label, then of the detection's label"""


class DetectionCase:
    """Finished matches of detections, and what they were computed from.

    Suspicions read `recall`, `matches`, `grid`, the facts in `images`, and the numbers of objects; trials read the
    rest, which is computed when it is first read.
    """

    def __init__(self, results: Any, images: MatchedImages) -> None:
        """Take `ImageMatches`, `DetectionResults` or `Matches`."""
        self.images = images
        """facts about the images of all processes, such as `num_without_lists`, `value_names` and `label_names`"""
        self.matches: Matches = results if isinstance(results, Matches) else results.matches
        """matches of the images of all processes; detections beyond the largest limit are left out"""
        self.grid = images.grid
        self.iou_type = images.iou_type
        """"bbox", "segm", "keypoints" or "rotated"; "" for shapes of a user"""
        self.box_format = images.box_format
        """format of the users' boxes in `shown` and `objects`"""

    @cached_property
    def recall(self) -> FoundCounts:
        """The numbers of ground truths that are found, and of all."""
        num_found = self.matches.true_positive[0, 0].sum()
        return FoundCounts(*torch.stack([num_found, self.matches.num_positives[0].sum()]).tolist())

    @property
    def overlap_of_few(self) -> float | None:
        """The overlap at which few of many ground truths are found; None if there is none."""
        num_found, num_ground_truths = self.recall
        if num_ground_truths < LEAST_BOXES:
            return None
        if num_found < FEW * num_ground_truths:
            return FOUND
        if self.iou_type == "rotated" and STRICT in self.grid.iou_thresholds:
            is_found = self.matches.true_positive[0, self.grid.iou_thresholds.index(STRICT)]
            return STRICT if int(is_found.sum()) < FEW * num_ground_truths else None
        return None

    @cached_property
    def recall_of_classes(self) -> tuple[Tensor, Tensor]:
        """The numbers of ground truths of each class that are found, and of all."""
        true_positives = self.matches.columns[self.matches.true_positive[0, 0]]
        num_found = self.matches.class_index[true_positives].bincount(minlength=len(self.matches.classes))
        return num_found, self.matches.num_positives[0]

    @cached_property
    def shown(self) -> ShownImages:
        """The first images that this process was given, at most 256; `boxes` are in `box_format`."""
        return self.images.shown()

    @cached_property
    def objects(self) -> dict[str, ShownObjects]:
        """The objects of `shown`, by `preds` and `target`."""
        sides = {"preds": self.shown.preds, "target": self.shown.target}
        return {argument: ShownObjects.of(side, self.box_format) for argument, side in sides.items()}

    @cached_property
    def counted_ground_truths(self) -> ShownObjects:
        """The ground truths of `shown` that count, with their boxes."""
        objects = self.objects["target"]
        if "boxes" not in objects.values:
            raise NotHeldError("boxes")
        return objects.at(objects.is_counted)

    @cached_property
    def image_sizes(self) -> Tensor:
        """Width and height of the images in `shown`, [images, 2]; NaN if unknown, as users may give anything."""
        known = []
        for size in self.shown.sizes:
            known.append((math.nan, math.nan))
            with suppress(TypeError, ValueError):
                height, width = map(float, size)
                if min(height, width) > 0:
                    known[-1] = (width, height)
        return torch.tensor(known, dtype=torch.float64, device="cpu").view(-1, 2)

    @cached_property
    def points(self) -> PointSample:
        """The objects as points, without crowds, of as many images as can be compared."""
        kind = kind_of(self.iou_type, self.box_format, self.images.sigmas)
        return sample_points(self.objects["preds"], self.objects["target"], self.image_sizes, kind)

    @cached_property
    def paired_labels(self) -> PairedLabels:
        """The labels of sampled detections that find a ground truth."""
        sample = self.points
        rows, true_rows = sample.pairs_found(FOUND)
        pairs = torch.stack([sample.true.column("labels")[true_rows], sample.found.column("labels")[rows]]).long()
        labels, places = pairs.unique(return_inverse=True)
        names = self.images.label_names
        counts = (places[0] * len(labels) + places[1]).bincount(minlength=len(labels) ** 2)
        return PairedLabels(
            names=labels.tolist() if names is None else [names[label] for label in labels.tolist()],
            counts=counts.view(len(labels), len(labels)),
        )


def has_many_objects(case: DetectionCase) -> bool:
    """Return whether there are enough objects to infer their units."""
    return len(case.matches.scores) >= LEAST_BOXES <= case.recall.num_ground_truths


def few_are_found(case: DetectionCase) -> bool:
    """Return whether few of many ground truths are found."""
    return case.overlap_of_few is not None


DETECTION_CAUSES: Causes[DetectionCase] = Causes()
"""rows by name, in the order in which they are asked"""
cause = DETECTION_CAUSES.decorator
