"""The results of an evaluation of detections: numbers, curves, tables, and what becomes of each detection."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import ConfusionMatrixRule, ErrorRule
from reid_torchmetrics.functional.detection import curves, errors, evaluators, inputs, matching
from reid_torchmetrics.functional.model_tables import Heading, ModelTable, results_table
from reid_torchmetrics.functional.named_numbers import ByName, NamedNumbers
from reid_torchmetrics.functional.result_files import SavedResults

from . import result_text
from .image_boxes import Asked, DictsOfSides, ImageBoxes, MatchedDetections, choose_boxes, list_matches
from .paired_detections import PairedDetections
from .result_checks import SAVED_AS, check_stored


@dataclass(frozen=True, eq=False)
class DetectionResults(NamedNumbers, SavedResults):
    """Results of any evaluator, in float64; the same on all processes.

    `results["map"]` is a number of the evaluator, as in `means`. A file of `save` holds the matches, labels, options,
    and boxes and pairs of boxes where the results hold them; `load` computes the numbers from these.
    """

    _ROWS = "class"
    _PARTS = (inputs.CocoGrid, matching.Matches, errors.ObjectPairs)
    _COMPUTED = ("averages",)
    _SAVED_AS = SAVED_AS

    averages: evaluators.ClassAverages
    """average precision by the rule of the metric, and recall, of every class"""
    matches: matching.Matches
    """rows are counted in each image, of detections and of ground truths; under "micro" there is one class"""
    images: Int[Tensor, " images"]
    """the `image_id` of each image by its number, or the number itself where there are none, or names"""
    labels: Int[Tensor, " detections"]
    """of the detections of `matches`, also under "micro" """
    positives: Int[Tensor, "positives 3"]
    """ground truths that count in some area range: number of the image, label, and the ranges, bit 0 for the first"""
    class_names: Mapping[int, str] = field(default_factory=dict)
    """by label"""
    objects: errors.ObjectPairs | None = None
    """pairs of boxes that overlap, across classes; None unless `results` was asked for them"""
    boxes: Mapping[int, ImageBoxes] | None = None
    """all boxes by image; None unless `results` was asked for them"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """of each image by its number, ascending: their `image_id` where it is a str, else None"""
    evaluator: evaluators.Evaluator = evaluators.EVALUATORS["coco"]

    __str__ = __format__ = result_text.summary_text

    def model_table(self, name: str = "model") -> ModelTable:
        """A table of papers with one row, that of the model, by its name."""
        headings = {each: Heading(result_text.title_of(each)) for each in self.means}
        return results_table(self, name, headings, f"{self.evaluator.title}, {len(self.images)} images")

    def class_table(self, *, iou_threshold: float | None = None) -> str:
        """A table of the numbers of each class, to be printed: see `class_numbers`.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        return result_text.table(self.class_numbers(iou_threshold=iou_threshold))

    def class_numbers(self, *, iou_threshold: float | None = None) -> dict[str, dict[str, float | int]]:
        """The numbers of each class by its name: ground truths, detections, average precision and recall, best F1.

        Undefined ones are NaN. Under "micro" all labels are one class.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        threshold = self._index(iou_threshold)
        # Under "micro" one row stands for all labels.
        names = ["all classes together"]
        if not self.is_micro:
            names = [result_text.name_of(label, self.class_names) for label in self.averages.classes.tolist()]
        return result_text.class_numbers(self.averages, self.matches, names, threshold)

    def to_dict(self, *, iou_threshold: float | None = None) -> dict[str, Any]:
        """Numbers with their conventions, the numbers of each class, and the options: all of it goes into JSON.

        Undefined and infinite numbers are None.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        return {
            "num_images": len(self.images),
            **result_text.numbers_as_dict(self.averages),
            "classes": result_text.finite(self.class_numbers(iou_threshold=iou_threshold)),
        }

    @cached_property
    def coco(self) -> evaluators.PrecisionGrid:
        """Precision, recall and scores on COCO's whole grid, made when asked for: it is large for many classes."""
        return evaluators.evaluate_matches(self.matches, self.averages.grid)

    @cached_property
    def num_positives(self) -> Tensor:
        """Ground truths of each image that count in the first area range."""
        image, _, bits = self.positives.unbind(1)
        return image[bits & 1 == 1].bincount(minlength=len(self.images))

    @property
    def classes(self) -> Tensor:
        """The labels of all classes, ascending."""
        return self.averages.classes

    @property
    def average_precision(self) -> Tensor:
        """Average precision [thresholds, classes] in the first area range; NaN for a class without ground truths."""
        return self.averages.headline

    @property
    def image_ids(self) -> list[int | str]:
        """`images`, as names where images have names."""
        return inputs.name_images(self.images, self.image_names)

    @property
    def is_micro(self) -> bool:
        """Whether one class stands for all."""
        return self.averages.classes.tolist() == [0] and bool((self.labels != 0).any())

    @cached_property
    def means(self) -> dict[str, float]:
        """The numbers of `summary` at the metric's thresholds, as floats: -1 without a class to average over."""
        return ByName({name: float(value) for name, value in self.averages.known().items()})

    @cached_property
    def conventions(self) -> dict[str, str]:
        """How each number was computed, in words."""
        return ByName({name: result_text.convention_of(name, self.averages) for name in self.averages.known_names})

    def _columns(self) -> dict[str, Any]:
        numbers = self.class_numbers()
        names = next(iter(numbers.values()), {})
        return {"class": [*numbers], **{name: [of[name] for of in numbers.values()] for name in names}}

    def _to_fields(self) -> dict[str, Any]:
        # The boxes of thousands of images are a few tensors.
        return super()._to_fields() | {
            "grid": self.averages.grid,
            "rule": self.averages.rule,
            "evaluator": evaluators.to_name_and_options(self.evaluator),
            "boxes": None if self.boxes is None else ImageBoxes.columns(self.boxes),
            "labels": self.labels if self.is_micro else None,  # else those of the classes
        }

    @classmethod
    def _from_fields(cls, saved: dict[str, Any]) -> DetectionResults:
        evaluator = evaluators.from_name_and_options(*saved.pop("evaluator"))
        rule, confidence = evaluator.checked(saved.pop("rule"), evaluator.confidence)
        check_stored(saved)
        grid, matches = saved.pop("grid"), saved["matches"]
        if saved["labels"] is None:
            saved["labels"] = matches.classes[matches.class_index.long()]
        if saved["boxes"] is not None:
            saved["boxes"] = ImageBoxes.by_image(saved["boxes"], saved["image_names"])
        averages = evaluator.average(matches, grid, rule=rule, confidence=confidence)
        return cls(averages=averages, evaluator=evaluator, **saved)

    @classmethod
    def _num_bytes(cls, saved: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        grid = saved["grid"].saved
        axes = grid["iou_thresholds"], grid["area_ranges"], grid["max_detection_thresholds"]
        return 8 * sizes["classes"] * math.prod(map(len, axes))

    def summary(self) -> dict[str, Tensor]:
        """The numbers that `DetectionMAP.compute` gives in float32; see `ClassAverages.summary`."""
        return self.averages.summary()

    def detections(self) -> MatchedDetections:
        """The list of matches, in the first area range, with the boxes of the detections where there are boxes."""
        return list_matches(self)

    @property
    def ranked(self) -> curves.RankedDetections:
        """Every detection by class and descending score; `ranked.of_class(label)` is the curve of a class."""
        ranked = curves.ranked_detections(self.matches)
        image, thresholds = self.images.to(ranked.image.device)[ranked.image], tuple(self.averages.grid.iou_thresholds)
        return replace(ranked, image=image, image_names=self.image_names, iou_thresholds=thresholds)

    def boxes_of(self, image: Asked) -> DictsOfSides:
        """The detections and the ground truths of some images, to be drawn, without asking other processes.

        Args:
            image: int [N], the `image_id` of each, such as `worst_images(9).image`; of images with names their numbers
                likewise, or a list of names.

        Raises:
            TypeError: `image` is neither an integer tensor nor a list of names.
            ValueError: the results hold no boxes, or no such image.
        """
        if self.boxes is None:
            raise ValueError("`boxes` must be True in `results(...)` to use `boxes_of`; got False.")
        return choose_boxes(image, self.boxes, self.image_names)

    def confusion_matrix(
        self,
        *,
        iou_threshold: float | None = None,
        confidence: float | None = None,
        rule: ConfusionMatrixRule | None = None,
        num_classes: int | None = None,
    ) -> errors.ConfusionMatrix:
        """Count the classes of ground truths (rows) and of the detections that took them (columns), and background.

        Args:
            iou_threshold: any from 0.1 on; one of the metric's where `confidence` is None.
            confidence: the least score that counts, for all classes; None for `best_confidences`.
            rule: how detections are matched across classes: "coco", as if all labels were one; "hotcoco",
                "ultralytics" or "supervision", as these libraries do; None for that of the evaluator, which is "coco"
                for all but Ultralytics.
            num_classes: the most classes of the matrix, the most confused ones; None for all.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: the results were made without `across_classes`, an unknown `rule`, a `num_classes` below 1, or a
                threshold that cannot be asked for.
        """
        objects = self._objects("a confusion matrix")
        # A confidence for each class; under "micro" the only one is for all labels.
        least = self._best_confidence(iou_threshold) if confidence is None else confidence
        if isinstance(least, Tensor) and self.is_micro:
            least = least.expand(len(objects.classes))
        at, rule = self._at(iou_threshold), self.evaluator.confusion_rule if rule is None else rule
        return errors.confusion_matrix(objects, least, iou_threshold=at, rule=rule, num_classes=num_classes)

    def error_breakdown(
        self, *, iou_threshold: float | None = None, background_threshold: float = 0.1, rule: ErrorRule | None = None
    ) -> errors.ErrorBreakdown:
        """Errors of each kind and their cost in average precision, after TIDE: see `ERROR_KINDS`.

        Average precision is that of the metric's `rule` in the first area range, with all detections; under "micro"
        nothing is an error of classification.

        Args:
            iou_threshold: the overlap from which on a detection may take a ground truth, any from 0.1 on.
            background_threshold: the overlap up to which a detection lies on background.
            rule: "tidecv" for the numbers of tidecv 1.0.1, as shares of 1; None for the metric's.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: the results were made without `across_classes`, or by an evaluator whose detections do not take
                the best ground truth that is left or that knows lists of classes, an unknown `rule`, or a threshold
                that cannot be asked for.
        """
        # An evaluator whose errors have kinds, and pairs of boxes across classes.
        if why := self.evaluator.why_no_breakdown:
            raise ValueError(
                "`error_breakdown` must be called on results of an evaluator that matches greedily and knows all"
                f" classes of each image, such as COCO; got {self.evaluator.title}: {why}."
            )
        objects = self._objects("a breakdown of errors")
        objects = objects.without_classes() if self.is_micro else objects
        at, rule = self._at(iou_threshold), self.averages.rule if rule is None else rule
        return errors.error_breakdown(objects, iou_threshold=at, background_threshold=background_threshold, rule=rule)

    def _objects(self, what: str) -> errors.ObjectPairs:
        if self.objects is None:
            raise ValueError(f"`across_classes` must be True in `results(...)` for {what}; got False.")
        return self.objects

    def at_confidence(self, confidence: float) -> curves.OperatingPoints:
        """Precision, recall and F1 of every class at each IoU threshold, with detections of at least this score."""
        return curves.at_confidence(self.matches, confidence)

    def best_f1(self) -> curves.OperatingPoints:
        """The confidence with the highest F1 of every class at each IoU threshold, with precision and recall there."""
        return curves.best_f1(self.matches)

    def best_confidences(self, *, iou_threshold: float | None = None) -> dict[int, float]:
        """The confidence with the highest F1 for each label that was detected.

        Of a class in which nothing is right it is the confidence with the highest mean F1 over classes, or minus
        infinity where nothing is right at all: its false positives count. Under "micro" it is the same for all labels.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        # A confidence for each class, handed to the labels of its detections.
        of_rows = self._best_confidence(iou_threshold)[self.matches.class_index.long()]
        return dict(zip(self.labels.tolist(), of_rows.tolist(), strict=True))

    def _at(self, iou_threshold: float | None) -> float:
        """The IoU threshold that is asked for; for None the one that pictures and reports show, the nearest to 0.5."""
        return self.averages.grid.shown_threshold if iou_threshold is None else iou_threshold

    def _index(self, iou_threshold: float | None) -> int:
        return self.averages.grid.threshold_index(self._at(iou_threshold))

    def _best_confidence(self, iou_threshold: float | None) -> Tensor:
        return curves.best_confidence(self.matches, threshold=self._index(iou_threshold))

    def image_errors(
        self, *, iou_threshold: float | None = None, confidence: float | None = None
    ) -> curves.ImageErrors:
        """Right and wrong detections and misses of each image, in the order of `images`, with detections that count.

        Args:
            iou_threshold: one of the metric's.
            confidence: the least score that counts, for all classes; None for `best_confidences`.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: a threshold that is not one of the metric's.
        """
        # The least score that counts, for each class.
        threshold = self._index(iou_threshold)
        points = None if confidence is None else self.at_confidence(confidence)
        least = self._best_confidence(iou_threshold) if points is None else points.confidence[threshold]
        counted = curves.image_errors(self.matches, self.num_positives, least, threshold=threshold)
        return replace(counted, image=self.images, image_names=self.image_names)

    def worst_images(
        self, n: int, *, iou_threshold: float | None = None, confidence: float | None = None
    ) -> curves.ImageErrors:
        """Up to `n` images with the most false positives and misses, the worst first: see `image_errors`.

        Of images with as many errors, more misses come first, then the lower number. None is without errors.

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: `n` is below 1, or a threshold that is not one of the metric's.
        """
        return self.image_errors(iou_threshold=iou_threshold, confidence=confidence).worst(n)

    def paired_with(self, other: DetectionResults, names: tuple[str, str]) -> PairedDetections:
        """Pair with the results of another model on the same images, for `compare`; `names` of both are for messages.

        Raises:
            ValueError: results of other images or ground truths, or with other options.
        """
        return PairedDetections.of((self, other), names)

    def confidence_curve(
        self, label: int | None = None, *, iou_threshold: float | None = None
    ) -> curves.ConfidenceCurve:
        """Precision, recall and F1 at every confidence: means over classes, or the numbers of one class.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: no box has the label, or the threshold is not one of the metric's.
        """
        return curves.confidence_curve(self.matches, label, threshold=self._index(iou_threshold))

    def localization_errors(
        self, *, iou_threshold: float | None = None, area: str | None = None
    ) -> curves.LocalizationErrors:
        """Optimal localization recall precision of each class, in the order of `classes`.

        Args:
            iou_threshold: one of the metric's, below 1.
            area: the name of an area range; None for the first.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: the results were made without `localization`, or a threshold or area that is not the metric's.
        """
        grid, threshold = self.averages.grid, self._index(iou_threshold)
        names = [*grid.area_ranges]
        if area is not None:
            _checks.one_of("area", area, names)
        place = 0 if area is None else names.index(area)
        return curves.localization_errors(self.matches, grid.iou_thresholds[threshold], threshold=threshold, area=place)

    def precision_recall_curve(
        self, label: int | Tensor, *, iou_threshold: float | None = None
    ) -> curves.PrecisionRecallCurve:
        """Precision and recall of one class at each of its scores; under "micro" the only class is 0.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: no box has the label, or the threshold is not one of the metric's.
        """
        label = operator.index(label) if isinstance(label, Tensor) else label  # as one of `coco.classes`
        return curves.precision_recall_curve(self.matches, label, threshold=self._index(iou_threshold))
