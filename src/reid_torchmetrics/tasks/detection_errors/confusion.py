"""Confusion matrices of detectors: detections matched regardless of class, and counts of the pairs of classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.detection.evaluation import RESULT_METHODS, DetectionResults
from reid_torchmetrics.functional.detection.inputs import place_of_labels
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed
from reid_torchmetrics.tasks.operating_points import best_confidence

from .object_pairs import ObjectPairs

LARGEST_THRESHOLD = 1 - 1e-10
"""COCO's largest threshold, see `match_on_grid`"""


class ConfusionRule(NamedTuple):
    """A rule for the matching of detections and ground truths of any classes; the defaults are COCO's."""

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
    """whether objects in an image are ordered by label before anything else"""
    has_ignored: bool = True
    """whether detections that match crowds and ground truths outside the area range are ignored, as in COCO; else
    crowds are left out, so that detections in crowds are on background"""
    has_crowds: bool = True
    """whether crowds differ from other objects"""


CONFUSION_RULES: dict[str, ConfusionRule] = {
    "coco": ConfusionRule(),
    "hotcoco": ConfusionRule(by_class=True, has_ignored=False),
    "ultralytics": ConfusionRule(is_strict=True, is_strict_confidence=True, takes_last=False, has_ignored=False),
    "supervision": ConfusionRule(by_score=False, is_strict=True, takes_last=False, has_ignored=False, has_crowds=False),
}
"""COCO's matching as if all labels were equal, and the differences in other libraries"""
_RULES_OF_EVALUATORS: dict[str, _names.ConfusionMatrixRule] = {"Ultralytics": "ultralytics"}
"""rules of confusion matrices by the title of the evaluator; COCO's for all others"""


@dataclass(frozen=True, repr=False)
class ConfusionMatrix(Displayed):
    """Counts of ground truths (rows) that were detected as a class (columns)."""

    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    counts: Int[Tensor, "rows columns"]
    """the last row is background: detections without a match; the last column has ground truths without a match"""
    iou_threshold: float
    rule: _names.ConfusionMatrixRule
    num_left_out: int = 0
    """number of classes that have neither row nor column"""
    totals: Int[Tensor, " rows"] | None = None
    """counts of each row, including the classes that are left out; None if no class is left out"""

    def _display(self) -> Display:
        part = self.among(NUM_ROWS)
        labels = [*map(str, part.classes.tolist()), "none"]
        rows = []
        for label, counts in zip(labels, part.counts.tolist(), strict=True):
            rows.append((label, *(f"{count:,}" for count in counts)))
        title = f"ConfusionMatrix: IoU {self.iou_threshold:g}, rule {self.rule}; ground truths in rows"
        notes = []
        if part.num_left_out:
            notes.append(f"the most confused classes; {part.num_left_out:,} more are left out")
        return Display(title, ("", *labels), rows, notes)

    @property
    def normalized(self) -> Float[Tensor, "rows columns"]:
        """Counts as shares of each row; NaN in a row without counts. A row sums to 1 if no class is left out."""
        totals = self.counts.sum(1) if self.totals is None else self.totals
        return self.counts.double() / totals[:, None]

    def among(self, num_classes: int) -> ConfusionMatrix:
        """Return the part with the most confused classes, see `confusion_matrix`; shares of rows do not change."""
        if num_classes >= len(self.classes):
            return self
        all_counts = self.counts.flatten()
        cells = all_counts.nonzero()[:, 0]
        class_places, counts, totals = _most_confused_part(cells, all_counts[cells], len(self.counts), num_classes)
        return replace(
            self,
            classes=self.classes[class_places],
            counts=counts,
            num_left_out=self.num_left_out + len(self.classes) - len(class_places),
            totals=totals,
        )

    def most_confused(self, n: int) -> Int[Tensor, "pairs 3"]:
        """Return the `n` most confused pairs of classes: label, label detected instead, count.

        Among equal counts the lower labels come first. Pairs that are never confused are left out, so there may be
        fewer.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1.
        """
        _checks.positive_int("n", n)
        # Off the diagonal, without background; nonzero cells are by label, and the stable sort keeps that order.
        confused = self.counts[:-1, :-1].clone().fill_diagonal_(0)
        row, column = confused.nonzero(as_tuple=True)
        pairs = torch.stack([self.classes[row], self.classes[column], confused[row, column]], 1)
        return pairs[pairs[:, 2].argsort(descending=True, stable=True)[:n]]

    @property
    def num_confused(self) -> int:
        """Number of ground truths that were detected as another class."""
        counts = self.counts[:-1, :-1]  # without background
        return int(counts.sum() - counts.diagonal().sum())


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
    0.31. These libraries round some overlaps to float32; here all overlaps are exact. Rows are ground truths and
    columns detections, as in scikit-learn; in Ultralytics it is the other way round.

    Args:
        objects: detections and ground truths in all images.
        confidence: the least score that counts, or one for each class; it is rounded to the dtype of the scores.
        iou_threshold: the least overlap of a match.
        rule: one of `CONFUSION_RULES`.
        num_classes: the most classes with a row and a column: those with the most confused pairs. With many classes a
            matrix is large, 800 MB for 10,000 classes. None for all.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: a `num_classes` below 1, an unknown `rule`, an `iou_threshold` below the overlap of the pairs, or a
            `confidence` of another number of classes.
    """
    _checks.one_of("rule", rule, CONFUSION_RULES)
    if num_classes is not None:
        _checks.positive_int("num_classes", num_classes)
    check_threshold(objects, "iou_threshold", iou_threshold)
    options = CONFUSION_RULES[rule]
    if not options.has_crowds:
        objects = _with_crowds_as_objects(objects)
    classes = objects.classes
    is_accepted = _are_accepted(objects, classes, confidence, options)
    match = match_candidates(objects, _are_candidates(objects, is_accepted, iou_threshold, options), options)
    is_matched = match >= 0
    is_left_out = objects.is_ignored if options.has_ignored else objects.is_crowd

    # The cell of each detection: the row of the matched class, or of background after the last class.
    column = place_of_labels(objects.labels, classes).long()
    true_row = place_of_labels(objects.true_labels, classes).long()
    row = torch.full_like(column, len(classes))
    row[is_matched] = true_row[match[is_matched]]
    counts = is_accepted.clone()
    if options.has_ignored:
        counts &= torch.where(is_matched, ~flag_of_match(is_left_out, match), ~objects.is_outside)

    # Ground truths without a match are in the last column.
    is_missed = ~is_left_out
    is_missed[match[is_matched]] = False
    size = len(classes) + 1
    cells = torch.cat([row[counts] * size + column[counts], true_row[is_missed] * size + len(classes)])
    if num_classes is None or num_classes >= len(classes):
        return ConfusionMatrix(classes, cells.bincount(minlength=size * size).view(size, size), iou_threshold, rule)
    cells, cell_counts = cells.unique(return_counts=True)
    class_places, table, totals = _most_confused_part(cells, cell_counts, size, num_classes)
    return ConfusionMatrix(
        classes=classes[class_places],
        counts=table,
        iou_threshold=iou_threshold,
        rule=rule,
        num_left_out=len(classes) - len(class_places),
        totals=totals,
    )


def check_threshold(objects: ObjectPairs, argument: str, threshold: float) -> None:
    """Raise unless an IoU threshold is a number from the least overlap of the pairs to 1."""
    _checks.fraction(argument, threshold)
    if threshold < objects.at_least:
        raise ValueError(
            f"`{argument}` must be at least {objects.at_least:g}, from which on pairs were found; got {threshold}."
        )


def _with_crowds_as_objects(objects: ObjectPairs) -> ObjectPairs:
    """Return the pairs with crowds as plain objects, which overlap by intersection over union."""
    iou = objects.iou
    if objects.crowd_iou is not None:
        iou = iou.masked_scatter(objects.is_crowd[objects.ground_truth], objects.crowd_iou)
    return replace(
        objects,
        iou=iou,
        is_crowd=torch.zeros_like(objects.is_crowd),
        is_ignored=objects.is_ignored & ~objects.is_crowd,
        crowd_iou=None,
    )


def _most_confused_part(
    cells: Int[Tensor, " cells"], counts: Int[Tensor, " cells"], size: int, num_classes: int
) -> tuple[Int[Tensor, " classes"], Int[Tensor, "rows columns"], Int[Tensor, " rows"]]:
    """Return the places of the most confused classes, ascending, with their counts and the totals of their rows.

    `cells` are the nonzero cells in a matrix with `size` rows, ascending, row by row. If too few classes are confused,
    classes with the largest rows follow.
    """
    row = cells // size
    column = cells % size
    totals = torch.zeros(size, dtype=counts.dtype, device=counts.device).index_add_(0, row, counts)

    # Classes by their most confused pair, then by the totals of their rows.
    is_confused = (row != column) & (row < size - 1) & (column < size - 1)
    by_count = counts[is_confused].argsort(descending=True, stable=True)
    pairs = torch.stack([row[is_confused], column[is_confused]], 1)[by_count]
    ordered = torch.cat([pairs.flatten(), totals[:-1].argsort(descending=True, stable=True)]).tolist()
    distinct = list(dict.fromkeys(ordered))
    class_places = torch.tensor(sorted(distinct[:num_classes]), device=cells.device)

    # The matrix of these classes, with background after the last one.
    rows = torch.cat([class_places, torch.full_like(class_places[:1], size - 1)])
    new_place = torch.full((size,), -1, device=cells.device)
    new_place[rows] = torch.arange(len(rows), device=cells.device)
    table = torch.zeros((len(rows), len(rows)), dtype=counts.dtype, device=counts.device)
    is_inside = (new_place[row] >= 0) & (new_place[column] >= 0)
    table[new_place[row[is_inside]], new_place[column[is_inside]]] = counts[is_inside]
    return class_places, table, totals[rows]


def _are_candidates(
    objects: ObjectPairs, is_accepted: Bool[Tensor, " detections"], iou_threshold: float, rule: ConfusionRule
) -> Bool[Tensor, " pairs"]:
    """Return whether each pair may match: an accepted detection, enough overlap, and a crowd only if it is ignored."""
    if rule.has_ignored:
        iou_threshold = min(iou_threshold, LARGEST_THRESHOLD)
    overlaps_enough = objects.iou > iou_threshold if rule.is_strict else objects.iou >= iou_threshold
    are_candidates = is_accepted[objects.detection] & overlaps_enough
    if not rule.has_ignored:
        are_candidates &= ~objects.is_crowd[objects.ground_truth]
    return are_candidates


def _are_accepted(
    objects: ObjectPairs, classes: Tensor, confidence: float | Tensor, rule: ConfusionRule
) -> Bool[Tensor, " detections"]:
    """Return whether the score of each detection reaches the confidence."""
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
    """Match candidate pairs greedily, in order, and return the ground truth of each detection, -1 for none.

    A pair is a match if its detection and its ground truth are free; a crowd is always free. A pair that comes before
    all other pairs of its detection and of its ground truth is a match in any case. So each round accepts all such
    pairs at once, and drops the pairs that share a detection or ground truth with one of them. For instance with the
    pairs 0 to 3 in order:

        pairs                 0: (a, A)   1: (b, A)   2: (b, B)   3: (c, B)
        round 1               0 is accepted, as it is the first pair of a and of A; 1 is dropped with A
        round 2               2 is accepted, as it is the first pair of b and of B; 3 is dropped with B
        matches               a and A, b and B

    There are fewer rounds than the largest number of matches in an image.
    """
    order = _matching_order(objects, is_candidate, rule)
    detection = objects.detection[order]
    ground_truth = objects.ground_truth[order]
    num_detections = len(objects.labels)
    num_ground_truths = len(objects.is_crowd)
    match = detection.new_full((num_detections,), -1)
    is_taken = torch.zeros_like(objects.is_crowd)
    # Memory for one number per detection and ground truth, written anew in each round.
    first = detection.new_full((num_detections,), len(detection))
    first_true = ground_truth.new_full((num_ground_truths,), len(detection))
    left = torch.arange(len(detection), device=detection.device)
    while len(left):
        row = detection.index_select(0, left)
        true_row = ground_truth.index_select(0, left)
        has_crowd = objects.is_crowd.index_select(0, true_row)
        # Accept pairs that are the first of their detection and, except for crowds, of their ground truth.
        is_first = _first_with_same_end(first, row, left) == left
        is_accepted = is_first & ((_first_with_same_end(first_true, true_row, left) == left) | has_crowd)
        places = is_accepted.nonzero()[:, 0]
        match[row.index_select(0, places)] = true_row.index_select(0, places)
        # Drop pairs of matched detections, and of ground truths that are no longer free.
        is_taken[true_row.index_select(0, places)] = True
        is_free = ~is_taken.index_select(0, true_row) | has_crowd
        left = left[(match.index_select(0, row) < 0) & is_free]
    return match


def _matching_order(
    objects: ObjectPairs, is_candidate: Bool[Tensor, " pairs"], rule: ConfusionRule
) -> Int[Tensor, " some"]:
    """Return the candidate pairs in the order of greedy matching."""
    order = is_candidate.nonzero()[:, 0]
    detection = objects.detection[order]
    ground_truth = objects.ground_truth[order]
    # Keys for stable sorts, the least important key first: among equal overlaps the place of the ground truth decides.
    keys = [ground_truth]
    if rule.by_class:
        keys.append(objects.true_labels[ground_truth])
    if rule.takes_last:
        keys = [-key for key in keys]
    keys.append(-objects.iou[order])
    if rule.has_ignored:  # ignored ground truths come after all others, whatever their overlap
        keys.append(objects.is_ignored[ground_truth].to(torch.int8))
    if rule.by_score:
        # The rank of each detection; equal scores are in the order of input, or by class.
        rows = torch.arange(len(objects.labels), device=order.device)
        by_rank = objects.labels.argsort(stable=True) if rule.by_class else rows
        by_rank = by_rank[objects.scores[by_rank].argsort(descending=True, stable=True)]
        keys.append(torch.empty_like(rows).scatter_(0, by_rank, rows)[detection])
    else:  # pairs of one class come first
        keys.append((objects.labels[detection] != objects.true_labels[ground_truth]).to(torch.int8))
    places = torch.arange(len(order), device=order.device)
    for key in keys:
        places = places[key[places].argsort(stable=True)]
    return order[places]


def _first_with_same_end(first: Tensor, ends: Tensor, places: Tensor) -> Tensor:
    """Return for each place the first place with the same end; `first` is memory for one number per end."""
    first.index_fill_(0, ends, torch.iinfo(first.dtype).max)
    return first.scatter_reduce_(0, ends, places, "amin").index_select(0, ends)


def flag_of_match(
    flags: Bool[Tensor, " ground_truths"], match: Int[Tensor, " detections"]
) -> Bool[Tensor, " detections"]:
    """Return the flag of the ground truth that each detection is matched to, False for none."""
    return torch.cat([flags, flags.new_zeros(1)])[match]


def objects_of(results: DetectionResults, purpose: str) -> ObjectPairs:
    """Return the pairs of objects across classes; raise if the results lack them."""
    if results.objects is None:
        raise ValueError(f"`across_classes` must be True in `results(...)` for {purpose}; got False.")
    assert isinstance(results.objects, ObjectPairs)  # noqa: S101 - for the type checker
    return results.objects


def _confusion_matrix(
    results: DetectionResults,
    *,
    iou_threshold: float,
    confidence: float | None,
    rule: _names.ConfusionMatrixRule | None,
    num_classes: int | None,
) -> ConfusionMatrix:
    """See `DetectionResults.confusion_matrix`."""
    objects = objects_of(results, "a confusion matrix")
    least_scores: float | Tensor
    if confidence is not None:
        least_scores = confidence
    else:
        threshold = results.averages.grid.threshold_index(iou_threshold)
        least_scores = best_confidence(results.matches, threshold=threshold)
        if results.is_micro:  # the only confidence is for all labels
            least_scores = least_scores.expand(len(objects.classes))
    if rule is None:
        rule = _RULES_OF_EVALUATORS.get(results.evaluator.title, "coco")
    return confusion_matrix(
        objects,
        least_scores,
        iou_threshold=iou_threshold,
        rule=rule,
        num_classes=num_classes,
    )


RESULT_METHODS["confusion_matrix"] = _confusion_matrix
