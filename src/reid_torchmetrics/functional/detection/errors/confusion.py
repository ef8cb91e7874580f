"""Which classes a detector takes for which, and for background: detections matched without regard to class.

Pairs that are gone through in an order: each is taken if both of its ends are free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import place_of_labels

from .object_pairs import ObjectPairs


def take_in_order(
    detection: Int[Tensor, " pairs"],
    ground_truth: Int[Tensor, " pairs"],
    *,
    num_detections: int,
    is_shared: Bool[Tensor, " ground_truths"],
) -> Int[Tensor, " detections"]:
    """The ground truth that each detection takes, -1 for none; the pairs are in the order in which they are looked at.

    A pair that comes before all others of both its ends is taken whatever becomes of the others. So in each round all
    such pairs are taken at once, and those that share an end with one are dropped; there are fewer rounds than the
    largest number of matches in an image.

    Args:
        detection: of each pair.
        ground_truth: of each pair.
        num_detections: how many there are.
        is_shared: ground truths that any number of detections may take.
    """
    taken = detection.new_full((num_detections,), -1)
    is_gone = torch.zeros_like(is_shared)
    first = detection.new_full((num_detections,), len(detection))
    first_true = ground_truth.new_full((len(is_shared),), len(detection))
    left = torch.arange(len(detection), device=detection.device)
    while len(left):
        found, true = detection.index_select(0, left), ground_truth.index_select(0, left)
        is_first = _first(first, found, left) == left
        is_taken = is_first & ((_first(first_true, true, left) == left) | is_shared.index_select(0, true))
        places = is_taken.nonzero()[:, 0]
        taken[found.index_select(0, places)] = true.index_select(0, places)
        is_gone[true.index_select(0, places)] = True
        is_open = ~is_gone.index_select(0, true) | is_shared.index_select(0, true)
        left = left[(taken.index_select(0, found) < 0) & is_open]
    return taken


def _first(least: Tensor, ends: Tensor, places: Tensor) -> Tensor:
    """The first of the places with the same end as each; `least` is room for one number of each end."""
    least.index_fill_(0, ends, torch.iinfo(least.dtype).max)
    return least.scatter_reduce_(0, ends, places, "amin").index_select(0, ends)


_LARGEST_THRESHOLD = 1 - 1e-10  # COCO's, see `match_images`


class ConfusionRule(NamedTuple):
    """Who takes whom where classes do not decide who may."""

    by_score: bool
    """detections choose by descending score, each what it overlaps most; else pairs are taken by descending overlap,
    those of one class before all others"""
    is_strict: bool
    """whether an overlap must be above the threshold, not at it"""
    is_strict_confidence: bool
    """whether a score must be above the confidence, not at it"""
    takes_last: bool
    """which of equal overlaps is taken, the last or the first ground truth of the image"""
    by_class: bool
    """whether the objects of an image are ordered by label before all that is said of their order"""
    has_ignored: bool
    """whether crowds and what is outside the area range ignore the detections that take them, as in COCO; else crowds
    are left out, so that detections on them are on background"""


CONFUSION_RULES: dict[str, ConfusionRule] = {
    "coco": ConfusionRule(
        by_score=True,
        is_strict=False,
        is_strict_confidence=False,
        takes_last=True,
        by_class=False,
        has_ignored=True,
    ),
    "hotcoco": ConfusionRule(
        by_score=True,
        is_strict=False,
        is_strict_confidence=False,
        takes_last=True,
        by_class=True,
        has_ignored=False,
    ),
    "ultralytics": ConfusionRule(
        by_score=True,
        is_strict=True,
        is_strict_confidence=True,
        takes_last=False,
        by_class=False,
        has_ignored=False,
    ),
    "supervision": ConfusionRule(
        by_score=False,
        is_strict=True,
        is_strict_confidence=False,
        takes_last=False,
        by_class=False,
        has_ignored=False,
    ),
}
"""COCO's matching as if all labels were one, and what others do"""


@dataclass(frozen=True)
class ConfusionMatrix:
    """Counts of ground truths (rows) that were detected as a class (columns)."""

    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    counts: Int[Tensor, "rows columns"]
    """the last row is background: detections that took nothing; the last column are ground truths that nobody took"""
    iou_threshold: float
    rule: str
    num_left_out: int = 0
    """classes that have neither row nor column"""
    totals: Int[Tensor, " rows"] | None = None
    """counts of each row, with those of classes that are left out; None where none is"""

    @property
    def normalized(self) -> Float[Tensor, "rows columns"]:
        """Shares of each row, which sum to 1 where no class is left out; NaN in a row without counts."""
        totals = self.counts.sum(1) if self.totals is None else self.totals
        return self.counts.double() / totals[:, None]

    def among(self, num_classes: int) -> ConfusionMatrix:
        """The same of the classes that are confused most, see `confusion_matrix`; shares of rows stay as they are."""
        if num_classes >= len(self.classes):
            return self
        row, column = self.counts.nonzero(as_tuple=True)
        kept, counts, totals = _most_confused_part(
            row * len(self.counts) + column, self.counts[row, column], len(self.counts), num_classes
        )
        left_out = self.num_left_out + len(self.classes) - len(kept)
        return replace(self, classes=self.classes[kept], counts=counts, num_left_out=left_out, totals=totals)

    def most_confused(self, n: int) -> Int[Tensor, "pairs 3"]:
        """Up to `n` pairs of classes that are confused most: label, label as which it was detected, and how often.

        Of equal counts those of lower labels come first. Pairs that are never confused are left out.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1.
        """
        _checks.positive_int("n", n)
        among = self.counts[:-1, :-1].clone().fill_diagonal_(0)
        row, column = among.nonzero(as_tuple=True)
        listed = torch.stack([self.classes[row], self.classes[column], among[row, column]], 1)
        return listed[listed[:, 2].argsort(descending=True, stable=True)[:n]]

    @property
    def num_confused(self) -> int:
        """Ground truths that were detected as another class."""
        among = self.counts[:-1, :-1]
        return int(among.sum() - among.diagonal().sum())


@torch.no_grad()
def confusion_matrix(
    objects: ObjectPairs,
    confidence: float | Float[Tensor, " classes"],
    *,
    iou_threshold: float = 0.5,
    rule: str = "coco",
    num_classes: int | None = None,
) -> ConfusionMatrix:
    """Match detections to ground truths without regard to class, and count the pairs of their classes.

    By rule "coco" the matches are those of COCO with all labels as one class, `DetectionMAP(average="micro")`. The
    others differ from it in what `ConfusionRule` says; they are the rules of hotcoco 1.3, Ultralytics 8.4 and
    supervision 0.31, whose overlaps are rounded to float32 in part, and here are exact. Rows are ground truths and
    columns detections, as in scikit-learn; in Ultralytics it is the other way round.

    Args:
        objects: of all images.
        confidence: the least score that counts, or that of each class; it is rounded to the dtype of the scores.
        iou_threshold: the overlap from which on a detection may take a ground truth.
        rule: one of `CONFUSION_RULES`.
        num_classes: the most classes that have a row and a column, those of the pairs that are confused most: of many
            classes a matrix is large, 800 MB of 10,000. None for all.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `num_classes` below 1, an unknown `rule`, an `iou_threshold` below the overlap of the pairs, or a
            `confidence` of another number of classes.
    """
    _checks.one_of("rule", rule, CONFUSION_RULES)
    if num_classes is not None:
        _checks.positive_int("num_classes", num_classes)
    objects.check_threshold("iou_threshold", iou_threshold)
    chosen, classes = CONFUSION_RULES[rule], objects.classes
    is_used = _is_used(objects, classes, confidence, chosen)
    is_left_out = objects.is_ignored if chosen.has_ignored else objects.is_crowd
    taken = _match(objects, is_used, iou_threshold, chosen)
    # Rows and columns, with the number of classes for background.
    found, true = (place_of_labels(labels, classes).long() for labels in (objects.labels, objects.true_labels))
    is_matched = taken >= 0
    row = torch.full_like(found, len(classes))
    row[is_matched] = true[taken[is_matched]]
    counts = is_used.clone()
    if chosen.has_ignored:
        counts &= torch.where(is_matched, ~_at(is_left_out, taken), ~objects.is_outside)
    is_found = torch.zeros_like(is_left_out)
    is_found[taken[is_matched]] = True
    missed = true[~is_found & ~is_left_out]
    size = len(classes) + 1
    cells = torch.cat([row[counts] * size + found[counts], missed * size + len(classes)])
    if num_classes is None or num_classes >= len(classes):
        return ConfusionMatrix(classes, cells.bincount(minlength=size * size).view(size, size), iou_threshold, rule)
    cells, counts = cells.unique(return_counts=True)
    kept, table, totals = _most_confused_part(cells, counts, size, num_classes)
    return ConfusionMatrix(classes[kept], table, iou_threshold, rule, len(classes) - len(kept), totals)


def _most_confused_part(
    cells: Int[Tensor, " cells"], counts: Int[Tensor, " cells"], size: int, num_classes: int
) -> tuple[Int[Tensor, " classes"], Int[Tensor, "rows columns"], Int[Tensor, " rows"]]:
    """Places of the classes of the pairs that are confused most, ascending, their counts, and those of whole rows.

    `cells` are ascending, row by row of a matrix of `size` rows, and no more than are not 0. Where too few classes are
    confused, those with the largest rows come after them.
    """
    row, column = cells // size, cells % size
    totals = torch.zeros(size, dtype=counts.dtype, device=counts.device).index_add_(0, row, counts)
    among = (row != column) & (row < size - 1) & (column < size - 1)
    pairs = torch.stack([row[among], column[among]], 1)[counts[among].argsort(descending=True, stable=True)]
    ordered = torch.cat([pairs.flatten(), totals[:-1].argsort(descending=True, stable=True)]).tolist()
    kept = torch.tensor(sorted([*dict.fromkeys(ordered)][:num_classes]), device=cells.device)
    background = torch.full_like(kept[:1], size - 1)
    rows = torch.cat([kept, background])
    place = torch.full((size,), -1, device=cells.device)
    place[rows] = torch.arange(len(rows), device=cells.device)
    table = torch.zeros((len(rows), len(rows)), dtype=counts.dtype, device=counts.device)
    is_kept = (place[row] >= 0) & (place[column] >= 0)
    table[place[row[is_kept]], place[column[is_kept]]] = counts[is_kept]
    return kept, table, totals[rows]


def _is_used(
    objects: ObjectPairs, classes: Tensor, confidence: float | Tensor, rule: ConfusionRule
) -> Bool[Tensor, " detections"]:
    """Which detections score enough."""
    if isinstance(confidence, Tensor):
        if confidence.shape != classes.shape:
            raise ValueError(
                f"`confidence` must be a number or have shape [{len(classes)}], one for each class;"
                f" got {list(confidence.shape)}."
            )
        least = confidence.to(objects.scores)[place_of_labels(objects.labels, classes).long()]
    else:
        _checks.number("confidence", confidence)
        least = torch.full_like(objects.scores, confidence)
    return objects.scores > least if rule.is_strict_confidence else objects.scores >= least


def _match(objects: ObjectPairs, is_used: Tensor, threshold: float, rule: ConfusionRule) -> Int[Tensor, " detections"]:
    """The ground truth that each detection takes, -1 for none."""
    least = min(threshold, _LARGEST_THRESHOLD) if rule.has_ignored else threshold
    is_close = objects.iou > least if rule.is_strict else objects.iou >= least
    kept = is_close & is_used[objects.detection]
    if not rule.has_ignored:
        kept &= ~objects.is_crowd[objects.ground_truth]
    return _take(objects, kept, rule)


def match_each_class(objects: ObjectPairs, threshold: float) -> Int[Tensor, " detections"]:
    """The ground truth of its class that each detection takes in COCO's matching, -1 for none."""
    is_same = objects.labels[objects.detection] == objects.true_labels[objects.ground_truth]
    return _take(objects, is_same & (objects.iou >= min(threshold, _LARGEST_THRESHOLD)), CONFUSION_RULES["coco"])


def _take(objects: ObjectPairs, kept: Bool[Tensor, " pairs"], rule: ConfusionRule) -> Int[Tensor, " detections"]:
    places = kept.nonzero()[:, 0]
    order = places[_order(objects, places, rule)]
    return take_in_order(
        objects.detection[order],
        objects.ground_truth[order],
        num_detections=len(objects.labels),
        is_shared=objects.is_crowd,
    )


def _order(objects: ObjectPairs, places: Tensor, rule: ConfusionRule) -> Int[Tensor, " pairs"]:
    """The order in which pairs are looked at: stable sorts, the last key first, of pairs by ground truth."""
    detection, ground_truth = objects.detection[places], objects.ground_truth[places]
    keys = [-ground_truth if rule.takes_last else ground_truth]
    if rule.by_class:
        true_label = objects.true_labels[ground_truth]
        keys.append(-true_label if rule.takes_last else true_label)
    keys.append(-objects.iou[places])
    if rule.has_ignored:
        keys.append(objects.is_ignored[ground_truth].to(torch.int8))
    if rule.by_score:
        keys.append(_rank_by_score(objects, by_class=rule.by_class)[detection])
    else:
        keys.append((objects.labels[detection] != objects.true_labels[ground_truth]).to(torch.int8))
    order = torch.arange(len(places), device=places.device)
    for key in keys:
        order = order[key[order].argsort(stable=True)]
    return order


def _rank_by_score(objects: ObjectPairs, *, by_class: bool) -> Int[Tensor, " detections"]:
    """The place of each detection by descending score, equal scores as they are or by class."""
    labels = objects.labels
    order = labels.argsort(stable=True) if by_class else torch.arange(len(labels), device=labels.device)
    order = order[objects.scores[order].argsort(descending=True, stable=True)]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    return rank


def _at(flags: Bool[Tensor, " ground_truths"], taken: Int[Tensor, " detections"]) -> Bool[Tensor, " detections"]:
    """The flag of what each detection took, False for none."""
    return torch.cat([flags, flags.new_zeros(1)])[taken]
