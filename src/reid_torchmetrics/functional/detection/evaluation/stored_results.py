"""The fields of a file of `DetectionResults`: matches, labels and options. All numbers are computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.errors import ObjectPairs
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, ClassAverages, Evaluator
from reid_torchmetrics.functional.detection.inputs import CocoGrid
from reid_torchmetrics.functional.detection.matching import CLAIMS, Matches

from .image_boxes import ImageBoxes

_MOST = 1 << 63
_OPTIONS = ("title", "claim", "whole_pixels", "confidence")  # of an evaluator, which results have as evaluated


@dataclass(frozen=True, eq=False)
class StoredBoxes:
    """The boxes of all images, image by image, as `ImageBoxes.columns` has them; none of no images."""

    images: Int[Tensor, " boxed"]
    num_detections: Int[Tensor, " boxed"]
    num_ground_truths: Int[Tensor, " boxed"]
    boxes: Real[Tensor, "boxed_detections numbers"] | None = None
    scores: Real[Tensor, " boxed_detections"] | None = None
    labels: Int[Tensor, " boxed_detections"] | None = None
    true_boxes: Real[Tensor, "boxed_ground_truths numbers"] | None = None
    true_labels: Int[Tensor, " boxed_ground_truths"] | None = None
    crowds: Bool[Tensor, " boxed_ground_truths"] | None = None
    difficult: Bool[Tensor, " boxed_ground_truths"] | None = None

    def by_image(self, names: tuple[str, ...] | None) -> dict[int, ImageBoxes]:
        """Return the boxes of each image, as results hold them."""
        return ImageBoxes.by_image([column for column in vars(self).values() if column is not None], names)

    def check(self, images: Int[Tensor, " images"], matches: Matches) -> None:
        """Raise unless the boxes are of the images, and each object of a match has a box."""
        _check_equal("boxes.images", self.images.sort().values, images.sort().values)
        columns = vars(self).values()
        if len(self.images) and len([column for column in columns if column is not None]) < len(columns) - 1:
            raise ValueError("`boxes` must have the boxes, scores and labels of all objects; got some of them.")
        if self.boxes is not None and self.boxes.shape[1] not in (4, 8):
            raise ValueError(f"`boxes.boxes` must have 4 numbers, or 8 of corners; got {self.boxes.shape[1]}.")
        if self.scores is not None:
            _checks.no_nan("boxes.scores", self.scores)
        # An image is known by its number in the matches, and by its id among the boxes.
        place = self.images.argsort()[torch.searchsorted(self.images.sort().values, images)]
        _check_rows("matches.rows", matches.rows, self.num_detections[place][matches.images.long()])
        if matches.ground_truths is not None and len(matches.columns):
            num_true = self.num_ground_truths[place][matches.images.long()[matches.columns]]
            _check_rows("matches.ground_truths", matches.ground_truths, num_true)


@dataclass(frozen=True, eq=False)
class StoredDetection:
    """The fields of a file of `DetectionResults`."""

    matches: Matches
    images: Int[Tensor, " images"]
    labels: Int[Tensor, " detections"] | None
    """of the detections of `matches` under "micro", where one class stands for all"""
    positives: Int[Tensor, "positives 3"]
    class_names: Mapping[int, str]
    objects: ObjectPairs | None
    boxes: StoredBoxes | None
    image_names: tuple[str, ...] | None
    grid: CocoGrid
    rule: str
    evaluator: str
    """its name in `EVALUATORS`"""
    title: str
    claim: str
    whole_pixels: bool
    confidence: float | None
    """options of the evaluator, see `Evaluator`"""

    def check(self) -> None:
        """Raise unless the averages can be computed, and all objects, images and classes exist."""
        _checks.one_of("evaluator", self.evaluator, EVALUATORS)
        _checks.one_of("claim", self.claim, CLAIMS)
        EVALUATORS[self.evaluator].checked(self.rule, self.confidence)  # type: ignore[arg-type]
        self._check_matches()
        num_images = len(self.images)
        if len(self.images.unique()) < num_images:
            raise ValueError(f"`images` must have a number of its own for each image; got {self.images[:5].tolist()}.")
        if self.image_names is not None:
            _checks.length("images", num_images, len(self.image_names))
        self._check_positives()
        places = {"positives": self.positives[:, 0], "matches.images": self.matches.images}
        if self.objects is not None:
            _check_objects(self.objects)
            places |= {"objects.images": self.objects.images, "objects.true_images": self.objects.true_images}
        for name, numbers in places.items():
            _checks.in_range(name, numbers, 0, num_images)
        if self.boxes is not None:
            self.boxes.check(self.images, self.matches)

    def _check_matches(self) -> None:
        matches, grid = self.matches, self.grid
        shape = len(grid.area_ranges), len(grid.iou_thresholds)
        if tuple(matches.matched.shape[:2]) != shape or len(matches.num_positives) != shape[0]:
            raise ValueError(f"`matches` must have {shape[0]} area ranges and {shape[1]} thresholds; got others.")
        _check_order(matches)
        _checks.no_nan("matches.scores", matches.scores)
        ends = {
            "class_index": len(matches.classes),
            "limits": len(grid.max_detection_thresholds),
            "rows": _MOST,
            "columns": len(matches.scores),
            "area_bits": 1 << shape[0],
        }
        for name, end in ends.items():
            _checks.in_range(f"matches.{name}", getattr(matches, name).flatten(), 0, end)
        if bool((matches.true_positive & ~matches.matched).any()):
            raise ValueError("`matches.true_positive` must be matched; got detections that are not.")
        if matches.ground_truths is not None:
            _checks.in_range("matches.ground_truths", matches.ground_truths.flatten(), -1, _MOST)
        if matches.overlaps is not None:
            _check_shares("matches.overlaps", matches.overlaps)

    def _check_positives(self) -> None:
        """Raise unless the ground truths that count are of the classes, and as many as counted."""
        classes, num_positives = self.matches.classes, self.matches.num_positives
        _, label, bits = self.positives.unbind(1)
        if self.labels is not None and classes.tolist() != [0]:
            raise ValueError(f"`matches.classes` must be 0 where one class stands for all; got {classes[:5].tolist()}.")
        if not bool(torch.isin(label, classes).all()):
            raise ValueError("`positives` must be of labels in `matches.classes`; got others.")
        _checks.in_range("positives", bits, 1, 1 << len(num_positives))
        _checks.in_range("matches.num_positives", num_positives.flatten(), 0, len(bits) + 1)
        for area, counts in enumerate(num_positives):
            num_here = int((bits >> area & 1).sum())
            if int(counts.sum()) != num_here:
                came = f"{int(counts.sum())} in area range {area}"
                raise ValueError(f"`matches.num_positives` must be those of `positives`, {num_here}; got {came}.")

    @property
    def evaluator_row(self) -> Evaluator:
        """The evaluator with the options of the evaluation."""
        return replace(EVALUATORS[self.evaluator], **{name: getattr(self, name) for name in _OPTIONS})

    def averages(self) -> ClassAverages:
        """Compute the numbers of every class, as the evaluation did."""
        evaluator = self.evaluator_row
        return evaluator.average(self.matches, self.grid, rule=self.rule, confidence=evaluator.confidence)


def evaluator_fields(evaluator: Evaluator) -> dict[str, str | bool | float | None]:
    """Return the fields of `StoredDetection` for an evaluator.

    Raises:
        ValueError: an evaluator that is not in `EVALUATORS`.
    """
    options = {name: getattr(evaluator, name) for name in _OPTIONS}
    for name, row in EVALUATORS.items():
        if replace(row, **options) == evaluator:
            return {"evaluator": name, **options}
    names = ", ".join(EVALUATORS)
    raise ValueError(f"`evaluator` must be one of {names}, with its options, to be saved; got {evaluator.title!r}.")


def _check_order(matches: Matches) -> None:
    """Raise unless detections are by class and descending score: counting relies on it."""
    is_same_class = matches.class_index[1:] == matches.class_index[:-1]
    wrong_places = {
        "classes": matches.classes[1:] <= matches.classes[:-1],
        "columns": matches.columns[1:] <= matches.columns[:-1],
        "class_index": matches.class_index[1:] < matches.class_index[:-1],
        "scores": (matches.scores[1:] > matches.scores[:-1]) & is_same_class,
    }
    for name, is_wrong in wrong_places.items():
        if bool(is_wrong.any()):
            place = int(is_wrong.nonzero()[0])
            raise ValueError(f"`matches.{name}` must be in its order; got place {place} and the next.")


def _check_objects(objects: ObjectPairs) -> None:
    _checks.no_nan("objects.scores", objects.scores)
    _check_shares("objects.iou", objects.iou)
    _checks.in_range("objects.detection", objects.detection, 0, len(objects.scores))
    _checks.in_range("objects.ground_truth", objects.ground_truth, 0, len(objects.true_labels))


def _check_rows(name: str, rows: Tensor, num_rows: Tensor) -> None:
    if bool((rows >= num_rows).any()):
        raise ValueError(f"`{name}` must be those of boxes of the image; got up to {rows.max()}.")


def _check_shares(name: str, values: Tensor) -> None:
    """Raise unless all values are shares of 1, but for rounding."""
    if not bool(((values >= 0) & (values <= 1 + 1e-9)).all()):
        raise ValueError(f"`{name}` must lie in [0, 1]; got {values.min()} to {values.max()}.")


def _check_equal(name: str, values: Tensor, expected: Tensor) -> None:
    if not torch.equal(values, expected):
        raise ValueError(f"`{name}` must be those of the results; got {values[:5].tolist()}.")
