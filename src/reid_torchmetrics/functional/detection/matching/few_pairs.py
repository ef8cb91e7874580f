"""Which detection takes which ground truth, of few pairs: step by step, as COCO defines it.

An operation on tensors takes as long for one pair as for a thousand, and matching them all at once takes hundreds. A
training loop evaluates an image at a time, of which steps of Python are done sooner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from reid_torchmetrics.functional.detection.inputs import OrderedDetections
from reid_torchmetrics.functional.detection.matching.assignment import Assignments
from reid_torchmetrics.functional.detection.matching.kinds import Kinds
from reid_torchmetrics.functional.detection.matching.pairs import Pairs

_FEW_STEPS = 1 << 12  # pairs for each threshold and area range

Choices = list[tuple[float, int]]
"""overlaps with ground truths and the numbers of these, of a detection, best first"""


def are_few(pairs: Pairs, kinds: Kinds, thresholds: Sequence[float]) -> bool:
    """Whether steps of Python are faster; those of another device would wait for it."""
    return pairs.iou.device.type == "cpu" and len(pairs.iou) * len(kinds.ignored) * len(thresholds) <= _FEW_STEPS


def assign_few(
    pairs: Pairs,
    detections: OrderedDetections,
    kinds: Kinds,
    thresholds: Sequence[float],
    *,
    keep_ground_truths: bool,
) -> Assignments:
    """What `assign` gives, for few pairs."""
    ground_truths = _GroundTruths.of(kinds)
    choices = _choices(pairs, detections, ground_truths)
    # Detections that are only held up by others have columns, too, as they do in `assign`.
    contested = _contested(choices, ground_truths)
    shape = (len(kinds.ignored), len(thresholds), len(choices))
    matched, true_positive, taken = np.zeros(shape, bool), np.zeros(shape, bool), np.full(shape, -1)
    rows = kinds.rows.tolist()
    for area, ignored in enumerate(kinds.ignored.tolist()):
        counting_first = [sorted(each, key=lambda choice: ignored[choice[1]]) for each in choices.values()]
        for threshold, least in enumerate(thresholds):
            for column, kind, rank in ground_truths.taken(counting_first, least):
                matched[area, threshold, column] = True
                true_positive[area, threshold, column] = not ignored[kind]
                taken[area, threshold, column] = rows[ground_truths.last[kind] - rank]
    is_column = matched.any((0, 1)) | contested
    columns = np.fromiter(choices, np.int64, len(choices))
    kept = [torch.from_numpy(cells.compress(is_column, -1)) for cells in (columns, matched, true_positive, taken)]
    return Assignments(kept[0], kept[1], kept[2], kept[3] if keep_ground_truths else None)


@dataclass(frozen=True)
class _GroundTruths:
    """Kinds of ground truths, as lists."""

    is_crowd: list[bool]
    copies: list[int]
    last: list[int]

    @classmethod
    def of(cls, kinds: Kinds) -> _GroundTruths:
        """Of tensors."""
        is_crowd = kinds.ground_truths.is_crowd.tolist()
        if kinds.copies is None or kinds.last is None:
            return cls(is_crowd, [1] * len(is_crowd), [*range(len(is_crowd))])
        return cls(is_crowd, kinds.copies.tolist(), kinds.last.tolist())

    def taken(self, choices: Sequence[Choices], least: float) -> list[tuple[int, int, int]]:
        """The number of each detection that takes one, the kind that it takes, and how many took one of it before."""
        num_taken = [0] * len(self.copies)
        matches = []
        for number, each in enumerate(choices):
            for overlap, kind in each:
                if overlap >= least and (self.is_crowd[kind] or num_taken[kind] < self.copies[kind]):
                    matches.append((number, kind, 0 if self.is_crowd[kind] else num_taken[kind]))
                    num_taken[kind] += 1
                    break
        return matches


def _choices(pairs: Pairs, detections: OrderedDetections, ground_truths: _GroundTruths) -> dict[int, Choices]:
    """By the place of each detection, in order: what it may take; equal overlaps from the last one, only one crowd."""
    places = detections.grouped.index_select(0, pairs.detection).tolist()
    found = defaultdict(list)
    for place, choice in zip(places, zip(pairs.iou.tolist(), pairs.ground_truth.tolist(), strict=True), strict=True):
        found[place].append(choice)
    choices = {}
    for place in sorted(found):
        choices[place] = ordered = sorted(found[place], reverse=True)
        crowds = [choice for choice in ordered if ground_truths.is_crowd[choice[1]]]
        for worse in crowds[1:]:  # there is enough of the best one
            ordered.remove(worse)
    return choices


def _contested(choices: dict[int, Choices], ground_truths: _GroundTruths) -> np.ndarray:
    """Which detections have a choice, or want what others with a choice want, or one of several of a kind."""
    wanted = {kind for each in choices.values() if len(each) > 1 for _, kind in each}
    wanted |= {kind for kind, copies in enumerate(ground_truths.copies) if copies > 1}
    wanted -= {kind for kind, is_crowd in enumerate(ground_truths.is_crowd) if is_crowd}
    return np.array([len(each) > 1 or each[0][1] in wanted for each in choices.values()], bool)
