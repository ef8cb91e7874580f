"""The metric of LVIS: images are annotated for some classes only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection.batches import read_frequencies
from reid_torchmetrics.functional.detection.inputs import COCO_IOU_THRESHOLDS, CocoGrid

from .box_metric import BoxOptions, spelled_out
from .evaluator_metric import EvaluatorMetric

LVIS_IOU_TYPES = ("bbox", "segm")
FREQUENCIES = {"r": "rare", "c": "common", "f": "frequent"}
"""LVIS' letters, and the names of these groups of classes"""


class LvisMAP(EvaluatorMetric):
    """Mean average precision and recall of boxes or masks as LVIS defines them: the numbers of lvis-api.

    It takes the dicts of `DetectionMAP`. In LVIS each image is annotated for some classes only: `target` may have
    `neg_category_ids`, the labels of classes that are surely absent, and `not_exhaustive_category_ids`, those with
    more objects than annotated, both lists of ints. A detection counts only if its class has a ground truth or is
    absent for sure; of a class with more objects it is right or ignored. `iscrowd` says which ground truths are
    ignored, each taken once: LVIS has no crowds. Boxes without area vanish on both sides.

    The area of a detected mask is its own; lvis-api takes that of the box for results that also have a `bbox`, which
    changes `map_small`, `map_medium` and `map_large`. With `fixed`, of equal scores at the limit those of the first
    images count. Pictures know no lists: there a detection of a class without ground truths is ignored.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_type: "bbox", boxes; "segm", masks.
        iou_thresholds: least overlaps of a match; by default 0.5, 0.55, ..., 0.95.
        fixed: fixed AP: no limit of an image, but one of a class in all images (Dave et al., "Evaluating
            Large-Vocabulary Object Detectors: The Devil is in the Details", 2021).
        max_detections: the most detections of an image over all classes, or with `fixed` of a class; None for 300, and
            for 10,000 with `fixed`.
        frequencies: "r", "c" or "f" by label, for `map_rare`, `map_common` and `map_frequent`, which are -1 without;
            `frequencies_of` reads them from a data set.
        class_metrics: also give the values of each class.
        metric: the name of one number, such as "map_rare", or "map_50/7" for that of the class with the label 7: it is
            then all that `compute` gives, a tensor that `LightningModule.log` takes.
        options: see `DetectionMAP` and `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import LvisMAP
        >>> metric = LvisMAP(metric="map")
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> labels = torch.tensor([3, 7])  # nobody looked for 7
        >>> detections = {"boxes": boxes, "scores": torch.tensor([0.8, 0.9]), "labels": labels}
        >>> metric.update([detections], [{"boxes": boxes[:1], "labels": labels[:1], "neg_category_ids": [5]}])
        >>> metric.compute()
        tensor(1.)
    """

    _row = "lvis"

    @spelled_out
    def __init__(
        self,
        box_format: _names.BoxFormat = "xyxy",
        iou_type: _names.LvisIouType = "bbox",
        iou_thresholds: Iterable[float] = COCO_IOU_THRESHOLDS,
        *,
        fixed: bool = False,
        max_detections: int | None = None,
        frequencies: Mapping[int, str] | None = None,
        class_metrics: bool = False,
        metric: str | None = None,
        **options: Unpack[BoxOptions],
    ) -> None:
        _checks.boolean("fixed", fixed)
        _checks.one_of("iou_type", iou_type, LVIS_IOU_TYPES)
        if max_detections is not None:
            _checks.positive_int("max_detections", max_detections)
        super().__init__(box_format, iou_thresholds, iou_type=iou_type, class_metrics=class_metrics, **options)
        self.fixed, self.max_detections = bool(fixed), max_detections
        self._row = "lvis_fixed" if fixed else "lvis"
        self.frequencies = _checked_frequencies(frequencies)
        # Names of the values follow from all of these.
        self.VALUES = tuple(self._grid().value_names)
        self._set_metric(metric)

    def _grid(self) -> CocoGrid:
        groups: dict[str, list[int]] = {name: [] for name in FREQUENCIES.values()}
        for label, letter in self.frequencies.items():
            groups[FREQUENCIES[letter]].append(label)
        limits = None if self.max_detections is None else (self.max_detections,)
        return self._evaluator().grid(tuple(self.iou_thresholds), max_detections=limits, class_groups=groups)

    @staticmethod
    def frequencies_of(path: str) -> dict[int, str]:
        """The `frequency` of each category of a data set, "r", "c" or "f", by its id.

        Raises:
            ValueError: the file has no such `categories`.
        """
        return read_frequencies(path, FREQUENCIES)


def _checked_frequencies(frequencies: Mapping[int, str] | None) -> dict[int, str]:
    if frequencies is not None and not isinstance(frequencies, Mapping):
        came = type(frequencies).__name__
        raise TypeError(f"`frequencies` must be a mapping of labels to letters; got {came}.")
    held = dict(frequencies or {})
    _checks.integers("frequencies", held)
    for letter in held.values():
        _checks.one_of("frequencies", letter, FREQUENCIES)
    return held
