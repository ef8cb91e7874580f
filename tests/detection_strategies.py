"""Detection problems for Hypothesis and for long runs, biased to what breaks evaluators.

Ties of scores and of IoUs, IoUs that equal a threshold, crowds, boxes without an area, areas on the boundaries of the
ranges, more detections than count, images and classes without anything, boxes that touch or are identical.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.detection import DetectionResults, Detections, GroundTruths, evaluate_boxes
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches
from tests.found_classes import match_images
from tests.paths import taking
from tests.pycocotools_peer import PeerEvaluation, run_pycocotools
from tests.reference.detection import (
    IOU_THRESHOLDS,
    RECALL_THRESHOLDS,
    Box,
    Detection,
    Evaluation,
    GroundTruth,
    Setting,
    Taken,
    evaluate,
)

Row = TypeVar("Row", Detection, GroundTruth)

LABELS = (7, 1, 90, 0)
IMAGES = (12, 3, 581_929, 0, 139)
SIDES = (0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5)
STEPS = (1, 32, 32, 32, 16, 7.25, 5e4)
"""of the grid of corners and sides: areas of 32 * 32, 96 * 96 and 1e5 * 1e5 are bounds of the area ranges"""
AREAS = (0, 1, 1023.5, 1024, 1024.5, 5000, 9216, 9216.5, 1e10, 2e10)
NUM_TRUTHS = (0, 1, 2, 3, 4, 6, 8, 8, 12, 16)
NUM_DETECTIONS = (0, 1, 2, 6, 12, 16, 20, 30, 30)
LIMITS = ((1, 10, 100), (3, 100, 200), (1, 2, 3), (2, 3, 5), (4,), (1, 3))
THRESHOLDS = (IOU_THRESHOLDS, (0.5,), (0.25, 0.5, 0.75), (1 / 3, 2 / 3, 1.0), (0.75, 0.5), (0.0, 0.6))
RECALLS = (RECALL_THRESHOLDS, (0.0, 0.25, 0.5, 1.0), (1 / 3, 2 / 3))
RANGES = (
    None,
    None,
    None,
    {"all": (0.0, 1e10), "little": (1.0, 4.0), "even": (1024.0, 1024.0)},
    {"narrow": (1000.0, 5000.0)},
)


@dataclass(frozen=True)
class Problem:
    """Detections and ground truths as lists of rows, the images of the data set, and what is evaluated."""

    detections: list[Detection]
    ground_truths: list[GroundTruth]
    images: list[int]
    setting: Setting
    has_box_areas: bool = False
    """every area is that of the box"""
    dtype: torch.dtype = torch.float64

    def evaluated(self, **options: object) -> DetectionResults:
        return evaluate_boxes(*self.tensors, **(self.options | options))

    def matched(self, **options: object) -> Matches:
        unread = {"rec_thresholds"}
        options = {name: value for name, value in self.options.items() if name not in unread} | options
        return match_images(*self.tensors, keep_ground_truths=True, **options)

    def taken(self) -> Taken:
        """What the package lets each detection take."""
        return taken_of(self.matched(), self.setting)

    def reference(self) -> Evaluation:
        return evaluate(self.detections, self.ground_truths, self.setting)

    def pycocotools(self) -> PeerEvaluation:
        return run_pycocotools(self.detections, self.ground_truths, self.setting, images=self.images)

    @property
    def tensors(self) -> tuple[Detections, GroundTruths]:
        return self.packed_detections, self.packed_ground_truths

    @property
    def packed_detections(self) -> Detections:
        rows = self.detections
        scores = torch.tensor([row.score for row in rows], dtype=self.dtype)
        return Detections(_boxes(rows, self.dtype), scores, _integers(rows, "label"), _integers(rows, "image"))

    @property
    def packed_ground_truths(self) -> GroundTruths:
        rows = self.ground_truths
        is_crowd = torch.tensor([row.is_crowd for row in rows], dtype=torch.bool)
        areas = torch.tensor([row.area for row in rows], dtype=torch.float64)
        return GroundTruths(
            _boxes(rows, self.dtype),
            _integers(rows, "label"),
            _integers(rows, "image"),
            is_crowd=is_crowd if is_crowd.any() else None,
            areas=None if self.has_box_areas else areas,
        )

    @property
    def options(self) -> dict[str, object]:
        """What `evaluate_boxes` is asked for."""
        options = {
            "iou_thresholds": self.setting.iou_thresholds,
            "rec_thresholds": self.setting.rec_thresholds,
            "max_detection_thresholds": self.setting.max_detection_thresholds,
            "classes": torch.tensor(self.setting.classes),
        }
        return options if self.setting.area_ranges is None else options | {"area_ranges": self.setting.area_ranges}

    @property
    def grid(self) -> CocoGrid:
        return CocoGrid(**{name: value for name, value in self.options.items() if name != "classes"})

    def mapped(self, change: Callable[[Row], Row]) -> Problem:
        """The problem with every detection and ground truth changed."""
        found, truths = ([change(row) for row in rows] for rows in (self.detections, self.ground_truths))
        return replace(self, detections=found, ground_truths=truths)

    def with_images(self, images: set[int]) -> Problem:
        """Only the boxes of some images."""
        return replace(
            self,
            detections=[row for row in self.detections if row.image in images],
            ground_truths=[row for row in self.ground_truths if row.image in images],
            images=sorted(images),
        )


def taken_of(matches: Matches, setting: Setting) -> Taken:
    """Row of each matched detection, and of what it took, by image, class, area range and place of the threshold."""
    found: Taken = {}
    areas, truths = list(setting.areas), matches.ground_truths.tolist()
    class_index = matches.class_index[matches.columns]
    about = [column.tolist() for column in (matches.images[matches.columns], matches.classes[class_index])]
    rows = matches.rows[matches.columns].tolist()
    for a, t, column in matches.matched.nonzero().tolist():
        image, label = (values[column] for values in about)
        found.setdefault((image, label, areas[a], t), {})[rows[column]] = truths[a][t][column]
    return found


def as_many_proposals() -> AbstractContextManager[object]:
    """Make all proposals of a round at once, however few they are."""
    return taking(few_proposals=-1)


def _boxes(rows: list[Detection] | list[GroundTruth], dtype: torch.dtype) -> Tensor:
    return torch.tensor([row.box for row in rows], dtype=dtype).reshape(-1, 4)


def _integers(rows: list[Detection] | list[GroundTruth], name: str) -> Tensor:
    return torch.tensor([getattr(row, name) for row in rows], dtype=torch.int64)


def draw_problem(
    random: Random, *, num_truths: int | None = None, num_detections: int | None = None, default_setting: bool = False
) -> Problem:
    """Draw a problem; `default_setting` asks for COCO's thresholds, limits and area ranges.

    Boxes are drawn last, ground truths before detections: of two problems from one seed that has fewer detections
    whose first ones the other has, too.
    """
    images = random.sample(IMAGES, random.choice((1, 1, 2, 4)))
    labels = random.sample(LABELS, random.choice((1, 1, 2, 3)))
    setting = Setting(classes=sorted(labels)) if default_setting else _draw_setting(random, labels)
    dtype = random.choice((torch.float32, torch.float64))
    step, num_cells = random.choice(STEPS), random.choice((0, 2, 6))
    has_box_areas, crowds = random.choice((True, False)), random.choice((0, 0, 0.3, 0.8))
    levels, is_float, strangers = random.choice((0, 2, 1000)), random.random() < 0.3, random.choice((0.1, 0.3, 1))
    sizes = random.choice(NUM_TRUTHS), random.choice(NUM_DETECTIONS)
    truths, detections = [], []
    for _ in range(sizes[0] if num_truths is None else num_truths):
        box = _rounded(_box(random, step, num_cells), dtype)
        area = box[2] * box[3] if has_box_areas or random.random() < 0.3 else float(random.choice(AREAS))
        is_crowd = random.random() < crowds
        truths.append(GroundTruth(random.choice(images), random.choice(labels), box, is_crowd, area))
    for _ in range(sizes[1] if num_detections is None else num_detections):
        image, label, box = random.choice(images), random.choice(labels), _box(random, step, num_cells)
        if truths and random.random() >= strangers:
            image, label, box = random.choice(truths)[:3]
            box = _near(random, box, step, is_float=is_float)
        score = (random.randint(0, levels) - 1) / 8
        detections.append(Detection(image, label, _rounded(box, dtype), score))
    return Problem(detections, truths, images, setting, has_box_areas, dtype)


def _draw_setting(random: Random, labels: list[int]) -> Setting:
    return Setting(
        classes=sorted(labels),
        iou_thresholds=random.choice(THRESHOLDS),
        rec_thresholds=random.choice(RECALLS),
        max_detection_thresholds=random.choice(LIMITS),
        area_ranges=random.choice(RANGES),
    )


def _box(random: Random, step: float, num_cells: int) -> Box:
    corner = [step * random.randint(0, num_cells) for _ in range(2)]
    return (*corner, step * random.choice(SIDES), step * random.choice(SIDES))


def _near(random: Random, box: Box, step: float, *, is_float: bool) -> Box:
    """The same box, or one side or corner moved by a step or by a fraction of it."""
    if random.random() < 0.3:
        return box
    moved, place = list(box), random.randint(0, 3)
    share = random.random() if is_float else 1
    moved[place] = max(0.0, moved[place] + random.choice((-1, 1)) * share * step)
    return tuple(moved)


def _rounded(box: Box, dtype: torch.dtype) -> Box:
    """The box that a tensor holds."""
    return tuple(torch.tensor(box, dtype=dtype).tolist())


@st.composite
def problems(draw, *, default_setting: bool = False) -> Problem:
    """What `draw_problem` draws; the numbers of boxes are drawn here, so that a failing problem shrinks to few."""
    random = Random(draw(st.integers(0, 2**32 - 1)))  # noqa: S311 - nothing is to be kept secret
    num_truths, num_detections = draw(st.sampled_from(NUM_TRUTHS)), draw(st.sampled_from(NUM_DETECTIONS))
    return draw_problem(random, num_truths=num_truths, num_detections=num_detections, default_setting=default_setting)
