"""Confusion matrices of detectors: detections matched regardless of class, and counts of the pairs of classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection.inputs import place_of_labels

from .object_pairs import ObjectPairs

LARGEST_THRESHOLD = 1 - 1e-10
"""COCO's, see `match_on_grid`"""


class ConfusionRule(NamedTuple):
    """How detections and ground truths of any classes are matched; the defaults are COCO's."""

    by_score: bool = True
    """detections choose by descending score, each the ground truth with the highest overlap; else pairs are matched by
    descending overlap, pairs of one class first"""
    is_strict: bool = False
    """whether an overlap must be above the threshold, not at it"""
    is_strict_confidence: bool = False
    """whether a score must be above the confidence, not at it"""
    takes_last: bool = True
    """whether the last ground truth of the image wins among equal overlaps, not the first"""
    by_class: bool = False
    """whether objects of an image are ordered by label before anything else"""
    has_ignored: bool = True
    """whether crowds and ground truths outside the area range ignore the detections matched to them, as in COCO; else
    crowds are left out, so that detections on them are on background"""


CONFUSION_RULES: dict[str, ConfusionRule] = {
    "coco": ConfusionRule(),
    "hotcoco": ConfusionRule(by_class=True, has_ignored=False),
    "ultralytics": ConfusionRule(is_strict=True, is_strict_confidence=True, takes_last=False, has_ignored=False),
    "supervision": ConfusionRule(by_score=False, is_strict=True, takes_last=False, has_ignored=False),
}
"""COCO's matching as if all labels were one, and the differences of other libraries"""


@dataclass(frozen=True)
class ConfusionMatrix:
    """Counts of ground truths (rows) that were detected as a class (columns)."""

    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    counts: Int[Tensor, "rows columns"]
    """the last row is background, detections without a match; the last column are ground truths without a match"""
    iou_threshold: float
    rule: _names.ConfusionMatrixRule
    num_left_out: int = 0
    """classes that have neither row nor column"""
    totals: Int[Tensor, " rows"] | None = None
    """counts of each row, including the classes that are left out; None if none is"""

    @property
    def normalized(self) -> Float[Tensor, "rows columns"]:
        """Counts as shares of each row; NaN in a row without counts. A row sums to 1 if no class is left out."""
        totals = self.counts.sum(1) if self.totals is None else self.totals
        return self.counts.double() / totals[:, None]

    def among(self, num_classes: int) -> ConfusionMatrix:
        """The same for the most confused classes, see `confusion_matrix`; shares of rows stay as they are."""
        if num_classes >= len(self.classes):
            return self
        cells, size = self.counts.flatten(), len(self.counts)
        places = cells.nonzero()[:, 0]
        kept, counts, totals = _most_confused_part(places, cells[places], size, num_classes)
        left_out = self.num_left_out + len(self.classes) - len(kept)
        return replace(self, classes=self.classes[kept], counts=counts, num_left_out=left_out, totals=totals)

    def most_confused(self, n: int) -> Int[Tensor, "pairs 3"]:
        """The `n` most confused pairs of classes, or fewer: label, label detected instead, count.

        Of equal counts the lower labels come first. Pairs that are never confused are left out.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1.
        """
        _checks.positive_int("n", n)
        # Off the diagonal, without background; nonzero cells are by label, and the stable sort keeps that.
        confused = self.counts[:-1, :-1].clone().fill_diagonal_(0)
        row, column = confused.nonzero(as_tuple=True)
        listed = torch.stack([self.classes[row], self.classes[column], confused[row, column]], 1)
        return listed[listed[:, 2].argsort(descending=True, stable=True)[:n]]

    @property
    def num_confused(self) -> int:
        """Number of ground truths that were detected as another class."""
        of_classes = self.counts[:-1, :-1]
        return int(of_classes.sum() - of_classes.diagonal().sum())


@torch.no_grad()
def confusion_matrix(
    objects: ObjectPairs,
    confidence: float | Float[Tensor, " classes"],
    *,
    iou_threshold: float = 0.5,
    rule: _names.ConfusionMatrixRule = "coco",
    num_classes: int | None = None,
) -> ConfusionMatrix:
    """Match detections to ground truths regardless of class, and count the pairs of their classes.

    By rule "coco" the matches are COCO's with all labels as one class, `DetectionMAP(average="micro")`. The others
    differ from it in the fields of `ConfusionRule`; they are the rules of hotcoco 1.3, Ultralytics 8.4 and supervision
    0.31, whose overlaps are rounded to float32 in part, and here are exact. Rows are ground truths and columns
    detections, as in scikit-learn; in Ultralytics it is the other way round.

    Args:
        objects: of all images.
        confidence: the least score that counts, or one for each class; it is rounded to the dtype of the scores.
        iou_threshold: the least overlap of a match.
        rule: one of `CONFUSION_RULES`.
        num_classes: the most classes with a row and a column, the classes of the most confused pairs: of many classes a
            matrix is large, 800 MB of 10,000. None for all.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `num_classes` below 1, an unknown `rule`, an `iou_threshold` below the overlap of the pairs, or a
            `confidence` of another number of classes.
    """
    _checks.one_of("rule", rule, CONFUSION_RULES)
    if num_classes is not None:
        _checks.positive_int("num_classes", num_classes)
    objects.check_threshold("iou_threshold", iou_threshold)
    options, classes = CONFUSION_RULES[rule], objects.classes
    is_used = _is_used(objects, classes, confidence, options)
    is_left_out = objects.is_ignored if options.has_ignored else objects.is_crowd
    least = min(iou_threshold, LARGEST_THRESHOLD) if options.has_ignored else iou_threshold
    is_candidate = is_used[objects.detection] & (objects.iou > least if options.is_strict else objects.iou >= least)
    if not options.has_ignored:
        is_candidate &= ~objects.is_crowd[objects.ground_truth]
    match = match_candidates(objects, is_candidate, options)

    # Detections: row of the matched class or, behind the last class, of background.
    column, true_row = (place_of_labels(labels, classes).long() for labels in (objects.labels, objects.true_labels))
    is_matched = match >= 0
    row = torch.full_like(column, len(classes))
    row[is_matched] = true_row[match[is_matched]]
    counts = is_used.clone()
    if options.has_ignored:
        counts &= torch.where(is_matched, ~flag_of_match(is_left_out, match), ~objects.is_outside)

    # Ground truths without a match: the last column.
    is_missed = ~is_left_out
    is_missed[match[is_matched]] = False
    size = len(classes) + 1
    cells = torch.cat([row[counts] * size + column[counts], true_row[is_missed] * size + len(classes)])
    if num_classes is None or num_classes >= len(classes):
        return ConfusionMatrix(classes, cells.bincount(minlength=size * size).view(size, size), iou_threshold, rule)
    cells, counts = cells.unique(return_counts=True)
    kept, table, totals = _most_confused_part(cells, counts, size, num_classes)
    return ConfusionMatrix(classes[kept], table, iou_threshold, rule, len(classes) - len(kept), totals)


def _most_confused_part(
    cells: Int[Tensor, " cells"], counts: Int[Tensor, " cells"], size: int, num_classes: int
) -> tuple[Int[Tensor, " classes"], Int[Tensor, "rows columns"], Int[Tensor, " rows"]]:
    """Places of the most confused classes, ascending, with their counts and the counts of whole rows.

    `cells` are the nonzero cells of a matrix of `size` rows, ascending, row by row. If too few classes are confused,
    classes with the largest rows follow.
    """
    row, column = cells // size, cells % size
    totals = torch.zeros(size, dtype=counts.dtype, device=counts.device).index_add_(0, row, counts)
    # Classes by their most confused pair, then by the size of their rows.
    is_confused = (row != column) & (row < size - 1) & (column < size - 1)
    by_count = counts[is_confused].argsort(descending=True, stable=True)
    pairs = torch.stack([row[is_confused], column[is_confused]], 1)[by_count]
    ordered = torch.cat([pairs.flatten(), totals[:-1].argsort(descending=True, stable=True)]).tolist()
    kept = torch.tensor(sorted([*dict.fromkeys(ordered)][:num_classes]), device=cells.device)
    # The smaller matrix: the kept classes, and background behind them.
    rows = torch.cat([kept, torch.full_like(kept[:1], size - 1)])
    place = torch.full((size,), -1, device=cells.device)
    place[rows] = torch.arange(len(rows), device=cells.device)
    table = torch.zeros((len(rows), len(rows)), dtype=counts.dtype, device=counts.device)
    is_kept = (place[row] >= 0) & (place[column] >= 0)
    table[place[row[is_kept]], place[column[is_kept]]] = counts[is_kept]
    return kept, table, totals[rows]


def _is_used(
    objects: ObjectPairs, classes: Tensor, confidence: float | Tensor, rule: ConfusionRule
) -> Bool[Tensor, " detections"]:
    """Whether each detection scores enough."""
    if isinstance(confidence, Tensor):
        if confidence.shape != classes.shape:
            raise ValueError(
                f"`confidence` must be a number or have shape [{len(classes)}], one for each class;"
                f" got {list(confidence.shape)}."
            )
        # In the dtype of the scores, so that a float32 score of 0.7 reaches 0.7.
        least = confidence.to(objects.scores)[place_of_labels(objects.labels, classes).long()]
    else:
        _checks.number("confidence", confidence)
        least = torch.full_like(objects.scores, confidence)
    return objects.scores > least if rule.is_strict_confidence else objects.scores >= least


def match_candidates(
    objects: ObjectPairs, is_candidate: Bool[Tensor, " pairs"], rule: ConfusionRule
) -> Int[Tensor, " detections"]:
    """Match some pairs in order, each if both of its ends are free; the ground truth of each detection, -1 for none.

    A pair that comes before all others of both its ends is a match whatever becomes of the others. So each round
    accepts all such pairs at once, and drops the pairs that share an end with one. There are fewer rounds than the
    largest number of matches in an image. A crowd may be matched to any number of detections.
    """
    order = _in_order(objects, is_candidate, rule)
    detection, ground_truth = objects.detection[order], objects.ground_truth[order]
    num_detections, is_shared = len(objects.labels), objects.is_crowd
    match = detection.new_full((num_detections,), -1)
    is_closed = torch.zeros_like(is_shared)
    # Room for one number of each end, written anew in each round.
    first = detection.new_full((num_detections,), len(detection))
    first_true = ground_truth.new_full((len(is_shared),), len(detection))
    left = torch.arange(len(detection), device=detection.device)
    while len(left):
        row, true_row = detection.index_select(0, left), ground_truth.index_select(0, left)
        is_shared_pair = is_shared.index_select(0, true_row)
        # Accept: the first pair of its detection and, unless the ground truth is shared, of its ground truth.
        is_first = _first(first, row, left) == left
        is_accepted = is_first & ((_first(first_true, true_row, left) == left) | is_shared_pair)
        places = is_accepted.nonzero()[:, 0]
        match[row.index_select(0, places)] = true_row.index_select(0, places)
        # Drop: pairs of matched detections, and of ground truths that are no longer free.
        is_closed[true_row.index_select(0, places)] = True
        is_open = ~is_closed.index_select(0, true_row) | is_shared_pair
        left = left[(match.index_select(0, row) < 0) & is_open]
    return match


def _in_order(objects: ObjectPairs, is_candidate: Bool[Tensor, " pairs"], rule: ConfusionRule) -> Int[Tensor, " some"]:
    """Some pairs in the order of greedy matching: stable sorts, the last key first, of pairs by ground truth."""
    order = is_candidate.nonzero()[:, 0]
    detection, ground_truth = objects.detection[order], objects.ground_truth[order]
    # Among equal overlaps the place of the ground truth decides, or its label and then its place.
    keys = [ground_truth] + ([objects.true_labels[ground_truth]] if rule.by_class else [])
    keys = [-key for key in keys] if rule.takes_last else keys
    # Then the overlap.
    keys.append(-objects.iou[order])
    if rule.has_ignored:  # they come after all that count, whatever their overlap
        keys.append(objects.is_ignored[ground_truth].to(torch.int8))
    # First of all the detection with the highest score, or pairs of one class.
    if rule.by_score:
        # The rank of each detection, equal scores as they come or by class.
        rows = torch.arange(len(objects.labels), device=order.device)
        ranked = objects.labels.argsort(stable=True) if rule.by_class else rows
        ranked = ranked[objects.scores[ranked].argsort(descending=True, stable=True)]
        keys.append(torch.empty_like(rows).scatter_(0, ranked, rows)[detection])
    else:
        keys.append((objects.labels[detection] != objects.true_labels[ground_truth]).to(torch.int8))
    places = torch.arange(len(order), device=order.device)
    for key in keys:
        places = places[key[places].argsort(stable=True)]
    return order[places]


def _first(least: Tensor, ends: Tensor, places: Tensor) -> Tensor:
    """The first of the places with the same end as each; `least` is room for one number of each end."""
    least.index_fill_(0, ends, torch.iinfo(least.dtype).max)
    return least.scatter_reduce_(0, ends, places, "amin").index_select(0, ends)


def flag_of_match(
    flags: Bool[Tensor, " ground_truths"], match: Int[Tensor, " detections"]
) -> Bool[Tensor, " detections"]:
    """The flag of the ground truth that each detection is matched to, False for none."""
    return torch.cat([flags, flags.new_zeros(1)])[match]
