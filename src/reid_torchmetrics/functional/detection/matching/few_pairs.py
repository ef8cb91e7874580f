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

from .assignment import Assignments
from .kinds import Kinds
from .pairs import Pairs

_FEW_STEPS = 1 << 12  # pairs for each threshold and area range

Choices = tuple[tuple[float, int], ...]
"""overlaps with ground truths and the numbers of these, of a detection, best first"""


def are_few(pairs: Pairs, kinds: Kinds, thresholds: Sequence[float]) -> bool:
    """Whether there are any, and steps of Python are faster; those of another device would wait for it."""
    num_steps = len(pairs.iou) * len(kinds.ignored) * len(thresholds)
    return pairs.iou.device.type == "cpu" and 0 < num_steps <= _FEW_STEPS


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
    choices = _choices(pairs, detections, ground_truths.is_crowd)
    found: dict[tuple[Choices, ...], list[list[int]]] = {}
    taken = np.empty((len(kinds.ignored), len(thresholds), len(choices)), np.int64)
    for area, ignored in enumerate(kinds.ignored.tolist()):
        ordered = tuple(_counting_first(each, ignored) for each in choices.values())
        if ordered not in found:  # most lists are the same in all area ranges
            found[ordered] = [ground_truths.taken(ordered, least) for least in thresholds]
        taken[area] = found[ordered]
    matched = taken >= 0
    of_areas = np.arange(len(taken))[:, None, None]
    counts = ~kinds.ignored.numpy()[of_areas, np.searchsorted(ground_truths.last, taken)]
    is_column = matched.any((0, 1))
    columns = np.fromiter(choices, np.int64, len(choices))
    rows = np.where(matched, kinds.rows.numpy()[taken], -1) if keep_ground_truths else matched
    cells = [torch.from_numpy(each.compress(is_column, -1)) for each in (columns, matched, matched & counts, rows)]
    return Assignments(cells[0], cells[1], cells[2], cells[3] if keep_ground_truths else None)


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

    def taken(self, choices: Sequence[Choices], least: float) -> list[int]:
        """The place of the ground truth that each detection takes, -1 for none."""
        left = self.copies.copy()
        return [self._take(each, left, least) for each in choices]

    def _take(self, choices: Choices, left: list[int], least: float) -> int:
        for overlap, kind in choices:
            if overlap >= least and left[kind]:
                if self.is_crowd[kind]:
                    return self.last[kind]
                left[kind] -= 1
                return self.last[kind] - self.copies[kind] + left[kind] + 1
        return -1


def _choices(pairs: Pairs, detections: OrderedDetections, is_crowd: Sequence[bool]) -> dict[int, Choices]:
    """By the place of each detection, in order: what it may take; equal overlaps from the last one, only one crowd."""
    places = detections.grouped.index_select(0, pairs.detection).tolist()
    found = defaultdict(list)
    for place, overlap, kind in zip(places, pairs.iou.tolist(), pairs.ground_truth.tolist(), strict=True):
        found[place].append((overlap, kind))
    return {place: _with_one_crowd(sorted(found[place], reverse=True), is_crowd) for place in sorted(found)}


def _with_one_crowd(choices: list[tuple[float, int]], is_crowd: Sequence[bool]) -> Choices:
    """Without the crowds that come after another: there is enough of that."""
    crowds = [choice for choice in choices if is_crowd[choice[1]]]
    return tuple(choice for choice in choices if choice not in crowds[1:])


def _counting_first(choices: Choices, ignored: Sequence[bool]) -> Choices:
    if len(choices) == 1:
        return choices
    return tuple(sorted(choices, key=lambda choice: ignored[choice[1]]))
