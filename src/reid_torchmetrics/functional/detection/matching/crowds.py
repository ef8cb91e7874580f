"""Crowds, which take any number of detections and so turn nobody away: they are settled without competition.

A detection goes to a crowd if all that it prefers to it is taken. What counts comes before a crowd; of what is ignored
the larger overlap does, and of equal overlaps the last. So of its crowds a detection only needs the best one, and of an
ignored ground truth that comes after it nobody hears:

    detection 0 overlaps the ground truth A by 0.6 and the crowd B by 0.9, detection 1 overlaps A by 0.7;
    where A counts, 0 takes A, if its score is the better one, and nothing is left to 1;
    where A is ignored, 0 lies in B, and 1 takes A.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from .pairs import Pairs


class BestCrowds(NamedTuple):
    """The crowd that each detection prefers to the others."""

    ground_truth: Int[Tensor, " detections"]
    """-1 for none"""
    iou: Float[Tensor, " detections"]
    """-1 for none"""

    def are_preferred(self, pairs: Pairs) -> Bool[Tensor, " pairs"] | None:
        """Whether the crowd comes before the ground truth of a pair if that is ignored, too; None if none does."""
        iou = self.iou.index_select(0, pairs.detection)
        is_last = pairs.ground_truth < self.ground_truth.index_select(0, pairs.detection)
        are_preferred = (iou > pairs.iou).logical_or_(is_last.logical_and_(iou == pairs.iou))
        return are_preferred if bool(are_preferred.any()) else None


def without_crowds(
    pairs: Pairs, is_crowd: Bool[Tensor, " ground_truths"], num_detections: int
) -> tuple[Pairs, BestCrowds | None]:
    """The pairs of other ground truths, and what the detections know of crowds; None if no pair has one."""
    of_crowds = is_crowd.index_select(0, pairs.ground_truth)
    if not bool(of_crowds.any()):
        return pairs, None
    crowds, others = (_at(pairs, mask) for mask in (of_crowds, ~of_crowds))
    best = crowds.iou.new_full((num_detections,), -1).scatter_reduce_(0, crowds.detection, crowds.iou, "amax")
    is_best = (crowds.iou == best.index_select(0, crowds.detection)).nonzero()[:, 0]
    last = crowds.ground_truth.new_full((num_detections,), -1)
    detection, ground_truth = (column.index_select(0, is_best) for column in (crowds.detection, crowds.ground_truth))
    last.scatter_reduce_(0, detection, ground_truth, "amax")
    return others, BestCrowds(last, best)


def _at(pairs: Pairs, mask: Bool[Tensor, " pairs"]) -> Pairs:
    places = mask.nonzero()[:, 0]
    return Pairs(*(column.index_select(0, places) for column in pairs))
