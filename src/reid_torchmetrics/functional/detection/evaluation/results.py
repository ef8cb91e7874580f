"""Results of an evaluation of detections: numbers, curves, tables, and the outcome of each detection."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import GenericAlias, MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Bool, Int, Real
from torch import Tensor

from reid_torchmetrics import _checks, _extras
from reid_torchmetrics._names import ConfusionMatrixRule, ErrorRule
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.detection import evaluators, inputs, matching
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.model_tables import Number
from reid_torchmetrics.functional.named_numbers import ByName, NamedNumbers
from reid_torchmetrics.functional.saved_results import Part, SavedResults

from . import result_text
from .image_matches import MATCH_PARTS, MatchPart

ImageIds: TypeAlias = Tensor | _checks.Integers | Sequence[str]
"""images by `image_id`, ints or names; images with names also by number"""
ImageDicts: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""dicts of detections and dicts of ground truths, one for each image"""

DETECTION_KEYS = ("boxes", "scores", "labels")
GROUND_TRUTH_KEYS = ("boxes", "labels", "iscrowd", "difficult")
CORNERS_KEY = "rotated_boxes"  # in place of `boxes`, for boxes with more than four numbers
_BOX_SIZE = 4


class ImageBoxes(NamedTuple):
    """The boxes of one image, as `update` takes them."""

    detections: dict[str, Any]
    ground_truths: dict[str, Any]
    """with the `image_id`, a tensor or a str"""

    @classmethod
    def by_image(cls, listed: Sequence[Tensor], names: Sequence[str] | None) -> dict[int, ImageBoxes]:
        """Return the boxes by id of the image, or by the place of its name if images have names."""
        ids, detection_counts, ground_truth_counts, *columns = listed
        num_columns = len(DETECTION_KEYS)
        detections = _split(DETECTION_KEYS, columns[:num_columns], detection_counts)
        ground_truths = _split(GROUND_TRUTH_KEYS, columns[num_columns:], ground_truth_counts)

        image_ids = ids if names is None else [names[place] for place in ids.tolist()]
        for target, image_id in zip(ground_truths, image_ids, strict=True):
            target["image_id"] = image_id
        return dict(zip(ids.tolist(), map(cls, detections, ground_truths), strict=True))


def _split(keys: Sequence[str], columns: Sequence[Tensor], counts: Tensor) -> list[dict[str, Any]]:
    """Return a dict for each image; the last keys may lack a column, such as `difficult` in metrics without it."""
    if columns and columns[0].shape[1] > _BOX_SIZE:
        keys = (CORNERS_KEY, *keys[1:])
    sizes = counts.tolist()
    parts = zip(*(column.split(sizes) for column in columns), strict=True)
    return [dict(zip(keys, tensors, strict=False)) for tensors in parts]


# Columns of saved boxes; the last one of ground truths is a flag that only some evaluators have.
_IMAGE_COLUMNS = (Int[Tensor, " boxed"],) * 3
_DETECTION_COLUMNS = (Real[Tensor, "detected numbers"], Real[Tensor, " detected"], Int[Tensor, " detected"])
_GROUND_TRUTH_COLUMNS = (
    Real[Tensor, "true numbers"],
    Int[Tensor, " true"],
    Bool[Tensor, " true"],
    Bool[Tensor, " true"],
)
_BOXES = GenericAlias(tuple, (*_IMAGE_COLUMNS, *_DETECTION_COLUMNS, *_GROUND_TRUTH_COLUMNS))
_SAVED_AS: Mapping[str, Any] = MappingProxyType(
    {
        "evaluator": tuple[str, Mapping[str, Any]],
        "boxes": _BOXES | None,
        "grid": inputs.CocoGrid,
        "rule": str,
        "labels": Int[Tensor, " detections"] | None,
        "objects": Part | None,
    }
)
"""annotations of fields that are saved in another form, or instead of averages"""

RESULT_METHODS: Registry[Callable[..., Any]] = Registry("RESULT_METHODS", {})
"""methods of `DetectionResults` and of metrics by name, which tasks add: functions of results, of their matches, or of
the images of a metric, and of options"""


@dataclass(frozen=True, eq=False, repr=False)
class DetectionResults(NamedNumbers, SavedResults):
    """Results of any evaluator, in float64; the same on all processes.

    `results["map"]` is a number of the evaluator, as in `means`. A file written by `save` holds the matches, labels and
    options, and boxes and pairs of boxes if the results hold them. `load` computes the numbers from these.
    """

    _ROWS = "class"
    _PARTS = (inputs.CocoGrid, matching.Matches)
    _COMPUTED = ("averages",)
    _SAVED_AS = _SAVED_AS

    averages: evaluators.ClassAverages
    """average precision by the metric's rule, and recall, for every class"""
    matches: matching.Matches
    """rows of detections and of ground truths start at 0 in each image; with "micro" there is one class"""
    images: Int[Tensor, " images"]
    """the `image_id` of each image by its number; the number itself if there are no ids or ids are names"""
    labels: Int[Tensor, " detections"]
    """labels of the detections in `matches`, also with "micro" """
    positives: Int[Tensor, "positives 3"]
    """ground truths that count in some area range: number of the image, label, and the ranges, bit 0 for the first"""
    class_names: Mapping[int, str] = field(default_factory=dict)
    """names of classes by label"""
    objects: MatchPart | None = None
    """pairs of boxes that overlap, across classes; None without `across_classes`"""
    boxes: Mapping[int, ImageBoxes] | None = None
    """all boxes by image; None without `boxes`"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """the `image_id` of each image by its number, ascending, if ids are strings; else None"""
    evaluator: evaluators.Evaluator = evaluators.EVALUATORS["coco"]

    __str__ = __format__ = result_text.summary_text

    @property
    def _setting(self) -> str:
        return f"{self.evaluator.title}, {counted(len(self.images), 'image')}"

    def class_table(self, *, iou_threshold: float | None = None) -> str:
        """Return a table of the numbers of each class as text, see `class_numbers`.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        return result_text.table(self.class_numbers(iou_threshold=iou_threshold))

    def class_numbers(self, *, iou_threshold: float | None = None) -> dict[str, dict[str, float | int]]:
        """Return the numbers of each class by its name: ground truths, detections, average precision, recall, best F1.

        Undefined numbers are NaN. With "micro" all labels are one class.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        threshold = self._index(iou_threshold)
        # With "micro" one row stands for all labels.
        names = ["all classes together"]
        if not self.is_micro:
            names = [result_text.name_of(label, self.class_names) for label in self.averages.classes.tolist()]
        return result_text.class_numbers(self.averages, self.matches, names, threshold)

    def to_dict(self, *, iou_threshold: float | None = None) -> dict[str, Any]:
        """Return numbers with their conventions, numbers of each class, and the options, as values for JSON.

        Undefined and infinite numbers are None.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        averages = self.averages
        grid = averages.grid
        values: dict[str, Any] = {
            "num_images": len(self.images),
            "numbers": {name: number.to_dict() for name, number in self.numbers.items()},
            "evaluator": self.evaluator.title,
            "iou_type": grid.iou_type,
            "average": grid.average,
            "rule": averages.rule,
            "iou_thresholds": list(grid.iou_thresholds),
        }
        if averages.has_limits:
            values["max_detection_thresholds"] = list(grid.max_detection_thresholds)
            values["area_ranges"] = result_text.finite(grid.area_ranges)
        if averages.at_confidence:
            values["confidence"] = averages.confidence
        values["classes"] = result_text.finite(self.class_numbers(iou_threshold=iou_threshold))
        return values

    @cached_property
    def coco(self) -> evaluators.PrecisionGrid:
        """Precision, recall and scores on COCO's whole grid, computed on first use; it is large for many classes."""
        return evaluators.evaluate_matches(self.matches, self.averages.grid)

    @cached_property
    def num_positives(self) -> Tensor:
        """Number of ground truths in each image that count in the first area range."""
        image, _, bits = self.positives.unbind(1)
        is_in_first_range = bits & 1 == 1
        return image[is_in_first_range].bincount(minlength=len(self.images))

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
        """Ids of the images: their names if they have names, else `images`."""
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
    def numbers(self) -> dict[str, Number]:
        """The numbers with their titles and conventions; NaN where `means` has -1."""
        return result_text.numbers_of(self)

    def _columns(self) -> dict[str, Any]:
        numbers = self.class_numbers()
        columns: dict[str, Any] = {"class": list(numbers)}
        for row in numbers.values():
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        return columns

    @classmethod
    def _find_part(cls, name: str) -> type | None:
        return MATCH_PARTS[name] if name in MATCH_PARTS else super()._find_part(name)

    def _to_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = _extras.files().fields_of_detections(self, super()._to_fields())
        return fields

    @classmethod
    def _from_fields(cls, saved: dict[str, Any]) -> DetectionResults:
        results: DetectionResults = _extras.files().detections_of_fields(saved)
        return results

    @classmethod
    def _num_bytes(cls, saved: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        grid = saved["grid"].saved
        num_cells = math.prod(len(grid[axis]) for axis in ("iou_thresholds", "area_ranges", "max_detection_thresholds"))
        return 8 * sizes["classes"] * num_cells

    def summary(self) -> dict[str, Tensor]:
        """Return the numbers that `DetectionMAP.compute` returns in float32; see `ClassAverages.summary`."""
        return self.averages.summary()

    def detections(self) -> Any:
        """Return the `MatchedDetections` in the first area range, with the detected boxes if the results hold boxes."""
        return RESULT_METHODS["detections"](self)

    @property
    def ranked(self) -> Any:
        """`RankedDetections`: all by class and descending score; `ranked.for_class(label)` is the curve of a class."""
        return RESULT_METHODS["ranked"](self)

    def boxes_of(self, image: ImageIds) -> ImageDicts:
        """Return the detections and the ground truths of some images for drawings; other processes need not call this.

        Args:
            image: int [N], the `image_id` of each image, such as `worst_images(9).image`; for images with names either
                their numbers or a list of names.

        Raises:
            TypeError: `image` is neither an integer tensor nor a list of names.
            ValueError: the results hold no boxes, or no such image.
        """
        dicts: ImageDicts = RESULT_METHODS["boxes_of"](self, image)
        return dicts

    def confusion_matrix(
        self,
        *,
        iou_threshold: float | None = None,
        confidence: float | None = None,
        rule: ConfusionMatrixRule | None = None,
        num_classes: int | None = None,
    ) -> Any:
        """Return the `ConfusionMatrix`: classes of ground truths (rows) and of their matches (columns), and background.

        Args:
            iou_threshold: any threshold from 0.1 on; one of the metric's thresholds if `confidence` is None.
            confidence: the least score that counts, for all classes; None for `best_confidences`.
            rule: how detections are matched across classes: "coco", as if all labels were one; "hotcoco",
                "ultralytics" or "supervision", as these libraries do; None for the evaluator's rule, which is "coco"
                for all but Ultralytics.
            num_classes: the largest number of classes in the matrix, the most confused ones; None for all classes.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: the results were made without `across_classes`, an unknown `rule`, a `num_classes` below 1, or a
                threshold that is not available.
        """
        return RESULT_METHODS["confusion_matrix"](
            self,
            iou_threshold=self._threshold(iou_threshold),
            confidence=confidence,
            rule=rule,
            num_classes=num_classes,
        )

    def error_breakdown(
        self, *, iou_threshold: float | None = None, background_threshold: float = 0.1, rule: ErrorRule | None = None
    ) -> Any:
        """Return the `ErrorBreakdown`: errors of each of `ERROR_KINDS` and their cost in average precision, after TIDE.

        Average precision is computed by the metric's `rule` in the first area range, with all detections. With "micro"
        there are no classification errors.

        Args:
            iou_threshold: the least overlap of a match, any from 0.1 on.
            background_threshold: a detection that overlaps no ground truth by more lies on background.
            rule: "tidecv" for the numbers of tidecv 1.0.1, as fractions of 1; None for the metric's rule.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: the results were made without `across_classes`, or by an evaluator that does not match greedily
                or that has lists of classes; an unknown `rule`; or a threshold that is not available.
        """
        return RESULT_METHODS["error_breakdown"](
            self,
            iou_threshold=self._threshold(iou_threshold),
            background_threshold=background_threshold,
            rule=rule,
        )

    def at_confidence(self, confidence: float) -> Any:
        """Return the `OperatingPoints` of every class and IoU threshold, with the detections from this score on."""
        return RESULT_METHODS["at_confidence"](self.matches, confidence)

    def best_f1(self) -> Any:
        """Return the `OperatingPoints` with the highest F1 for every class and IoU threshold."""
        return RESULT_METHODS["best_f1"](self.matches)

    def best_confidences(self, *, iou_threshold: float | None = None) -> dict[int, float]:
        """Return the confidence with the highest F1 for each detected label.

        For a class without true positives, it is the confidence with the highest mean F1 over classes, or minus
        infinity if there are no true positives at all; so its false positives count. With "micro" it is the same for
        all labels.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: it is not one of the metric's.
        """
        confidences: dict[int, float] = RESULT_METHODS["best_confidences"](self, threshold=self._index(iou_threshold))
        return confidences

    def _threshold(self, iou_threshold: float | None) -> float:
        """Return an IoU threshold; for None the one nearest to 0.5, as in pictures and reports."""
        return self.averages.grid.shown_threshold if iou_threshold is None else iou_threshold

    def _index(self, iou_threshold: float | None) -> int:
        """Return the place of an IoU threshold among the metric's thresholds."""
        return self.averages.grid.threshold_index(self._threshold(iou_threshold))

    def image_errors(self, *, iou_threshold: float | None = None, confidence: float | None = None) -> Any:
        """Return the `ImageErrors`: true positives, false positives and misses in each image, in the order of `images`.

        Args:
            iou_threshold: one of the metric's thresholds.
            confidence: the least score that counts, for all classes; None for `best_confidences`.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: a threshold that is not one of the metric's.
        """
        return RESULT_METHODS["image_errors"](self, threshold=self._index(iou_threshold), confidence=confidence)

    def worst_images(self, n: int, *, iou_threshold: float | None = None, confidence: float | None = None) -> Any:
        """Return the `ImageErrors` of up to `n` images with the most false positives and misses, worst first.

        Among images with equally many errors, those with more misses come first, then those with lower numbers. Images
        without errors are left out.

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: `n` is below 1, or a threshold that is not one of the metric's.
        """
        return self.image_errors(iou_threshold=iou_threshold, confidence=confidence).worst(n)

    def confidence_curve(self, label: int | None = None, *, iou_threshold: float | None = None) -> Any:
        """Return the `ConfidenceCurve`: precision, recall and F1 at every confidence, over classes or of one class.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: no box has the label, or the threshold is not one of the metric's.
        """
        return RESULT_METHODS["confidence_curve"](self.matches, label, threshold=self._index(iou_threshold))

    def localization_errors(self, *, iou_threshold: float | None = None, area: str | None = None) -> Any:
        """Return the `LocalizationErrors`: the optimal localization recall precision error of each class.

        Classes are in the order of `classes`.

        Args:
            iou_threshold: one of the metric's thresholds, below 1.
            area: the name of an area range; None for the first.

        Raises:
            TypeError: `iou_threshold` is not a number.
            ValueError: the results were made without `localization`, or a threshold or area that is not the metric's.
        """
        return RESULT_METHODS["localization_errors"](self, iou_threshold=self._threshold(iou_threshold), area=area)

    def precision_recall_curve(self, label: int | Tensor, *, iou_threshold: float | None = None) -> Any:
        """Return the `PrecisionRecallCurve` of one class, at each of its scores; with "micro" the only class is 0.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: no box has the label, or the threshold is not one of the metric's.
        """
        if isinstance(label, Tensor):  # such as an element of `coco.classes`
            label = operator.index(label)
        return RESULT_METHODS["precision_recall_curve"](self.matches, label, threshold=self._index(iou_threshold))
