"""The waist of detection: true positives, false positives and ignored detections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Integer, Real
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import distinct_labels, order_by_class_and_score, place_of_labels

# The axis of detections, and of matched detections, in the fields that have one.
_OF_DETECTIONS = {"axis": 0}
_OF_COLUMNS = {"axis": 2}


@dataclass(frozen=True)
class Matches:
    """Detections in the order of accumulation, and the match of each of them.

    A detection that is matched to a ground truth that counts is a true positive; one that is matched to an ignored
    ground truth (a crowd, or one outside the area range) is ignored; one without a match is a false positive if its
    own area lies in the range, else it is ignored, too.

    Merging the matches of some images with those of others gives the matches of all of them: see `merge_matches`.
    """

    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    num_positives: Int[Tensor, "areas classes"]
    """ground truths that count: no crowds, and inside the area range"""
    scores: Real[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    """by class, descending score, image and row; no more of one image and class than the largest limit"""
    class_index: Int[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    images: Integer[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    rows: Int[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    """rows among all detections that were given"""
    limits: Int[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    """the number of the smallest limit (of detections per image and class) that keeps the detection"""
    area_bits: Integer[Tensor, " detections"] = field(metadata=_OF_DETECTIONS)
    """bit `a` is 1 if the area of the detection's own box lies in range `a`; a NaN lies in all"""
    columns: Int[Tensor, " matched"]
    """places of the detections that are matched under some threshold and range, ascending"""
    matched: Bool[Tensor, "areas thresholds matched"] = field(metadata=_OF_COLUMNS)
    true_positive: Bool[Tensor, "areas thresholds matched"] = field(metadata=_OF_COLUMNS)
    """matched to a ground truth that counts"""
    ground_truths: Int[Tensor, "areas thresholds matched"] | None = field(default=None, metadata=_OF_COLUMNS)
    """rows of the ground truths they are matched to, -1 for none; None if not asked for"""
    overlaps: Float[Tensor, "areas thresholds matched"] | None = field(default=None, metadata=_OF_COLUMNS)
    """overlaps with these, float64, 0 for none; None if not asked for"""

    def within(self, limit: int) -> Matches:
        """The matches within a smaller limit of detections per image and class; not matched again, as in COCO."""
        kept = self.limits <= limit
        if bool(kept.all()):
            return self
        # Detections keep their order, and move forward by the number of dropped ones before them.
        places = kept.nonzero()[:, 0]
        columns = kept.index_select(0, self.columns).nonzero()[:, 0]
        new_places = kept.cumsum(0) - 1
        return self._selected(places, columns, new_places.index_select(0, self.columns.index_select(0, columns)))

    def of_classes(self, some: slice) -> Matches:
        """The matches of a range of classes, without a copy."""
        ends = torch.tensor([some.start, some.stop], dtype=self.class_index.dtype, device=self.columns.device)
        rows = torch.searchsorted(self.class_index, ends)
        first, last = rows.tolist()
        columns = slice(*torch.searchsorted(self.columns, rows).tolist())
        of_rows = self._mapped(_OF_DETECTIONS, lambda values: values[first:last])
        of_rows["class_index"] = of_rows["class_index"] - some.start
        of_rows["columns"] = self.columns[columns] - first
        part = self.map_columns(lambda values: values[..., columns], **of_rows)
        return replace(part, classes=self.classes[some], num_positives=self.num_positives[:, some])

    def first_of_classes(self, most: int) -> Matches:
        """The matches of the best detections of each class in all images; of equal scores the first are better."""
        ranks = segments.runs(0, self.class_index.bincount())[1]
        return replace(self, limits=(ranks >= most).to(torch.int8)).within(0)

    def with_rows(self, rows: Int[Tensor, " detections"], true_rows: Int[Tensor, " ground_truths"]) -> Matches:
        """The same with other numbers for the rows of detections and of ground truths, given by row."""
        ground_truths = self.ground_truths
        if ground_truths is not None:  # -1, for none, reads the last
            ground_truths = torch.cat([true_rows, true_rows.new_full((1,), -1)])[ground_truths]
        return replace(self, rows=rows.index_select(0, self.rows), ground_truths=ground_truths)

    def outcomes(
        self, thresholds: int | slice = slice(None), area: int = 0
    ) -> tuple[Bool[Tensor, "*thresholds detections"], Bool[Tensor, "*thresholds detections"]]:
        """Whether each detection is a true positive, and whether it is ignored, in an area range."""
        matched, true_positive = self.matched[area, thresholds], self.true_positive[area, thresholds]
        is_right = matched.new_zeros((*matched.shape[:-1], len(self.rows)))
        is_right.index_copy_(-1, self.columns, true_positive)
        # A detection outside the range is ignored unless it is matched.
        is_ignored = (self.area_bits & (1 << area) == 0).expand_as(is_right)
        of_columns = is_ignored.index_select(-1, self.columns).logical_or_(matched) & ~true_positive
        return is_right, is_ignored.index_copy(-1, self.columns, of_columns)

    def to(self, device: torch.device) -> Matches:
        """The same on a device."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{name: value.to(device) for name, value in values.items() if value is not None})

    def drawn(self, times: Int[Tensor, " images"], num_positives: Int[Tensor, "areas classes"]) -> Matches:
        """The matches if each image were there as many times as said, with as many positives.

        The repetitions of a detection follow each other.
        """
        counts = times.index_select(0, self.images.long())
        first, lengths = (each.index_select(0, self.columns) for each in (segments.starts(counts), counts))
        chosen = self._selected(segments.numbers(counts), *segments.runs(first, lengths))
        return replace(chosen, num_positives=num_positives)

    def map_columns(self, function: Callable[[Tensor], Tensor], **others: Any) -> Matches:
        """Apply a function to all fields [areas, thresholds, matched]; `others` replace further fields."""
        return replace(self, **self._mapped(_OF_COLUMNS, function), **others)

    def _mapped(self, kind: Mapping[str, int], function: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.metadata == kind}
        return {name: function(value) for name, value in values.items() if value is not None}

    def _selected(self, places: Tensor, columns: Tensor, columns_at: Tensor) -> Matches:
        """Some detections and columns, in a given order; `columns_at` are the new places of the columns."""
        chosen = replace(self, **self._mapped(_OF_DETECTIONS, lambda values: values.index_select(0, places)))
        return chosen.map_columns(lambda values: values.index_select(2, columns), columns=columns_at)


def merge_matches(parts: Sequence[Matches]) -> Matches:
    """Merge the matches of parts of the images; no image may be in two parts.

    Rows keep their numbers from the parts. There are ground truths if all parts have them.
    """
    classes = distinct_labels(*(part.classes for part in parts))
    joined = join_matches(parts, classes)
    # Stable sorts, the last key first; an image is in one part, and keeps its order among equal scores.
    by_image = joined.images.sort(stable=True).indices
    by_class, _ = order_by_class_and_score(
        joined.class_index.index_select(0, by_image), joined.scores.index_select(0, by_image)
    )
    places = by_image.index_select(0, by_class)
    # The new place of each detection, and of the columns; these must ascend.
    new_places = torch.empty_like(places).scatter_(0, places, torch.arange(len(places), device=places.device))
    columns_at, columns = new_places.index_select(0, joined.columns).sort()
    return joined._selected(places, columns, columns_at)  # noqa: SLF001 - of the same module


def join_matches(parts: Iterable[Matches], classes: Int[Tensor, " classes"]) -> Matches:
    """The parts one behind the other: in order if their classes differ, and ascend.

    Each part is let go before the next is asked for. There are ground truths if all parts have them.

    Args:
        parts: one at least, with the same numbers of area ranges and thresholds.
        classes: of all parts.
    """
    axes = {"columns": 0} | {each.name: each.metadata["axis"] for each in fields(Matches) if each.metadata}
    of_parts: dict[str, list[Any]] = {name: [] for name in axes}
    num_positives, end = [], 0
    for part in parts:
        # A part may lack classes of others, so classes are renumbered, and columns shifted.
        place = place_of_labels(part.classes, classes)
        aligned = replace(part, class_index=place.index_select(0, part.class_index), columns=part.columns + end)
        for name, values in of_parts.items():
            values.append(getattr(aligned, name))
        zeros = part.num_positives.new_zeros((len(part.num_positives), len(classes)))
        num_positives.append(zeros.index_add_(1, place, part.num_positives))
        end += len(part.scores)
        del part, aligned
    joined: dict[str, Any] = {}
    while of_parts:  # one field at a time is there twice
        name, values = of_parts.popitem()
        joined[name] = None if any(each is None for each in values) else torch.cat(values, axes[name])
    return Matches(classes=classes, num_positives=torch.stack(num_positives).sum(0), **joined)
