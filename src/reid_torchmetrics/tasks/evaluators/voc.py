"""Pascal VOC's evaluator of boxes, DOTA's of rotated boxes, and their rules for the area under a curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.batches import EXTRAS, Dicts, ExtraColumns, checked_flags, join_optional
from reid_torchmetrics.functional.detection.curves import AP_RULES, Curves, Rule, mean_at_recalls
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator, average_without_limits
from reid_torchmetrics.functional.detection.inputs import Shapes

from .best_of_all import match_best_of_all, with_edges

VOC_RULES = ("voc", "voc07")
"""the rules of `average_precision` that Pascal VOC had: all points since 2010, eleven points before"""


def _mean_over_positives(
    curves: Curves, envelope: Float[Tensor, " points"], _: Float[Tensor, " recalls"]
) -> Float[Tensor, " curves"]:
    """Return the area under the steps of the envelope: its sum at all true positives by the number of ground truths."""
    return segments.reduce(envelope, "sum", curves.num_true_positives.flatten()) / curves.num_positives.flatten()


@dataclass(frozen=True)
class VocEvaluator(Evaluator):
    """Pascal VOC's evaluator; in results it has the options of the evaluation."""

    claim: _names.ClaimRule = "voc"
    """the rule for the detections that claim a ground truth, one of `CLAIMS`"""
    whole_pixels: bool = True
    """whether a box has width + 1 times height + 1 pixels, both edges inclusive"""


def with_voc_options(
    evaluator: VocEvaluator, iou_type: str | Sequence[str], *, whole_pixels: bool | None
) -> VocEvaluator:
    """Return the evaluator with an option, None for its default; for rotated boxes return DOTA's evaluator.

    Raises:
        TypeError: `whole_pixels` is not a bool.
        ValueError: `whole_pixels` is True for rotated boxes.
    """
    is_dota = "rotated" in iou_type
    if whole_pixels is None:
        whole_pixels = not is_dota
    _checks.boolean("whole_pixels", whole_pixels)
    if not is_dota:
        return replace(evaluator, whole_pixels=bool(whole_pixels))
    if whole_pixels:
        raise ValueError(f"`whole_pixels` must be False with iou_type 'rotated'; got {whole_pixels}.")
    return replace(evaluator, title="DOTA", claim="dota", whole_pixels=False)


def _with_edges(evaluator: VocEvaluator, shapes: Shapes) -> Shapes:
    """Return boxes with the edges that the evaluator counts."""
    return with_edges(shapes, whole_pixels=True) if evaluator.whole_pixels else shapes


def _pack_difficult(target: Dicts, device: torch.device) -> dict[str, Tensor]:
    """Return whether each ground truth of a batch is difficult, after all other checks of the batch.

    Raises:
        TypeError: a flag of the wrong type or dtype.
        ValueError: flags of another shape or device than the ground truths.
    """
    counts = [item["labels"].numel() for item in target]
    flags = join_optional(checked_flags("difficult", target, device), counts)
    if flags is None:
        is_difficult = torch.zeros(sum(counts), dtype=torch.bool, device=device)
    else:
        is_difficult = flags != 0
    return {"ground_truth_difficult": is_difficult}


EXTRAS["difficult"] = ExtraColumns(
    states={"ground_truth_difficult": torch.empty(0, dtype=torch.bool, device="cpu")},
    pack=_pack_difficult,
    options=lambda numbered: {"is_difficult": numbered.images.extras["ground_truth_difficult"]},
)
AP_RULES["voc07"] = Rule(mean_at_recalls, num_recalls=11, title="Pascal VOC 2007")
AP_RULES["voc"] = Rule(_mean_over_positives, num_recalls=0, title="Pascal VOC")
VOC_EVALUATOR = VocEvaluator(
    title="Pascal VOC",
    match=match_best_of_all,
    average=average_without_limits,
    rules=VOC_RULES,
    rule="voc",
    iou_thresholds=(0.5,),
    iou_types=("bbox", "rotated"),
    with_options=with_voc_options,
    with_edges=_with_edges,
    has_difficult=True,
    has_breakdown=False,
)
EVALUATORS["voc"] = VOC_EVALUATOR
