"""Detection: mean average precision of boxes as Pascal VOC has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.evaluators import VOC_RULES, VocResults, voc_results
from reid_torchmetrics.functional.detection.matching import DEFAULT_MAX_BYTES, Matches, match_best_of_all

from .evaluator_metric import EvaluatorMetric, EvaluatorRequest

_MATCHINGS = {pixels: partial(match_best_of_all, claim="voc", whole_pixels=pixels) for pixels in (False, True)}


class VocMAP(EvaluatorMetric):
    """Mean average precision of detected boxes by Pascal VOC's own matching; see `functional.detection.voc_evaluate`.

    It takes the dicts of `DetectionMAP`, in which `target` may also have `difficult` [ground truths], bool or int:
    objects that need not be found, and of which a detection is neither right nor wrong. Crowds are left out.

    Args:
        box_format: "xyxy", two corners; "xywh", corner, width and height; "cxcywh", center, width and height.
        iou_thresholds: overlaps from which on a detection is right; `map` is the mean over them.
        rule: "voc", the area under all points, since 2010; "voc07", the mean of eleven.
        whole_pixels: a box has width + 1 times height + 1 pixels, both edges inside, as in VOC's annotations; False
            for boxes that end between pixels.
        class_metrics: also give the values of each class.
        metric: the name of one number, such as "map_50", or "map_50/7" for that of the class with the label 7: it is
            then all that `compute` gives, a tensor that `LightningModule.log` takes.
        invalid: what becomes of detected boxes that are not finite or of negative size, see `DetectionMAP`; without
            area ranges, those that "count" are false positives.
        max_bytes: bound on what `compute` holds of pairs of boxes at a time, but for those that overlap.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import VocMAP
        >>> metric = VocMAP(metric="map")
        >>> boxes = torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 90.0]])
        >>> found = {"boxes": boxes[:1], "scores": torch.tensor([0.9]), "labels": torch.tensor([3])}
        >>> metric.update([found], [{"boxes": boxes, "labels": torch.tensor([3, 3])}])
        >>> metric.compute()  # one of two is found: precision is 1 up to recall 0.5
        tensor(0.5000)
    """

    VALUES = ("map", "map_50", "map_75")
    _flags = ("difficult",)

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_thresholds: Sequence[float] = (0.5,),
        *,
        rule: str = "voc",
        whole_pixels: bool = True,
        class_metrics: bool = False,
        metric: str | None = None,
        invalid: str = "count",
        max_bytes: int = DEFAULT_MAX_BYTES,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            box_format,
            iou_thresholds,
            class_metrics=class_metrics,
            metric=metric,
            invalid=invalid,
            max_bytes=max_bytes,
            **kwargs,
        )
        _checks.one_of("rule", rule, VOC_RULES)
        _checks.boolean("whole_pixels", whole_pixels)
        self.rule, self.whole_pixels = rule, bool(whole_pixels)
        self._add_growing_state("ground_truth_difficult", torch.empty(0, dtype=torch.bool, device="cpu"))

    def _match_request(self) -> EvaluatorRequest:
        return self._request(_MATCHINGS[self.whole_pixels], with_difficult=True)

    def _class_values(self, matches: Matches) -> tuple[Tensor, dict[str, Tensor]]:
        results = voc_results(matches, rule=self.rule)
        return results.classes, self._precision_at(results.average_precision)

    def results(self) -> VocResults:
        """Everything in float64: average precisions, and every detection with what it was found to be.

        The same on all processes; all must ask. `ranked.of_class(label)` is the curve of a class, to be printed or
        drawn.
        """
        matches, with_ids = self._with_origins()
        results = voc_results(matches, rule=self.rule)
        return replace(results, ranked=with_ids(results.ranked))
