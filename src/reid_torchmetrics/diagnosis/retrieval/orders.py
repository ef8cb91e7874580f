"""Ranks of the positives in a sample, in the order of its scores or in the opposite one."""

from __future__ import annotations

import torch

from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks

from .case import Sample

_CANDIDATES_FIRST = 2


def ranks_in(sample: Sample, *, is_opposite: bool = False, positives_first: bool = False) -> PositiveRanks:
    """Rank the positives of a sample; of equal scores negatives come first, unless `positives_first`."""
    scores = -sample.scores if is_opposite else sample.scores
    # Two stable sorts: the first decides between equal scores, and puts candidates before junk.
    precedence = sample.is_positive.int() ^ int(positives_first)
    precedence = precedence.masked_fill(~sample.is_candidate, _CANDIDATES_FIRST)
    order = precedence.argsort(dim=1, stable=True)
    kept_scores = scores.masked_fill(~sample.is_candidate, -torch.inf).gather(1, order)
    order = order.gather(1, kept_scores.argsort(dim=1, descending=True, stable=True))
    place = sample.is_positive.gather(1, order).nonzero()[:, 1]
    return PositiveRanks(place + 1, sample.is_positive.sum(1), sample.is_candidate.sum(1))
