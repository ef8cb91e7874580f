"""The result of matching: true positives, false positives and ignored detections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Integer, Real
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs import distinct_labels, order_by_class_and_score, place_of_labels

# The axis of all detections, or of the matched detections, in the fields of `Matches`.
_DETECTION_AXIS = {"axis": 0}
_COLUMN_AXIS = {"axis": 2}


@dataclass(frozen=True)
class Matches:
    """Detections in the order of accumulation, and the match of each of them.

    A detection that is matched to a ground truth that counts is a true positive. A detection that is matched to an
    ignored ground truth (a crowd, or a ground truth outside the area range) is ignored. A detection without a match is
    a false positive if its own area lies in the range; else it is ignored, too.

    Merging the matches of some images with those of others gives the matches of all of them: see `merge_matches`.
    """

    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    num_positives: Int[Tensor, "areas classes"]
    """number of ground truths that count: no crowds, and inside the area range"""
    scores: Real[Tensor, " detections"] = field(metadata=_DETECTION_AXIS)
    """by class, descending score, image and row; no more of one image and class than the largest limit"""
    class_index: Int[Tensor, " detections"] = field(metadata=_DETECTION_AXIS)
    images: Integer[Tensor, " detections"] = field(metadata=_DETECTION_AXIS)
    rows: Int[Tensor, " detections"] = field(metadata=_DETECTION_AXIS)
    """rows among all detections of the evaluation"""
    limits: Int[Tensor, " detections"] = field(metadata=_DETECTION_AXIS)
    """the index of the smallest limit (of detections per image and class) that keeps the detection"""
    area_bits: Integer[Tensor, " detections"] = field(metadata=_DETECTION_AXIS)
    """bit `a` is 1 if the area of the detection's own box lies in range `a`; a NaN lies in all"""
    columns: Int[Tensor, " matched"]
    """places of the detections that are matched under some threshold and range, ascending"""
    matched: Bool[Tensor, "areas thresholds matched"] = field(metadata=_COLUMN_AXIS)
    true_positive: Bool[Tensor, "areas thresholds matched"] = field(metadata=_COLUMN_AXIS)
    """whether the detection is matched to a ground truth that counts"""
    ground_truths: Int[Tensor, "areas thresholds matched"] | None = field(default=None, metadata=_COLUMN_AXIS)
    """row of the matched ground truth, -1 for none; None unless the evaluation needs them"""
    overlaps: Float[Tensor, "areas thresholds matched"] | None = field(default=None, metadata=_COLUMN_AXIS)
    """overlap with the matched ground truth, float64, 0 for none; None unless the evaluation needs them"""

    def within(self, limit: int) -> Matches:
        """Return the matches within a smaller limit of detections per image and class; not matched again, as in COCO.

        `limit` is an index, see `limits`.
        """
        is_within = self.limits <= limit
        if bool(is_within.all()):
            return self
        # Detections keep their order, and move forward by the number of dropped detections before them.
        places = is_within.nonzero()[:, 0]
        columns = is_within.index_select(0, self.columns).nonzero()[:, 0]
        new_places = is_within.cumsum(0) - 1
        return self._selected(places, columns, new_places.index_select(0, self.columns.index_select(0, columns)))

    def of_classes(self, some: slice) -> Matches:
        """Return the matches of a range of classes, without a copy."""
        ends = torch.tensor([some.start, some.stop], dtype=self.class_index.dtype, device=self.columns.device)
        places = torch.searchsorted(self.class_index, ends)
        columns = slice(*torch.searchsorted(self.columns, places).tolist())
        first, end = places.tolist()
        fields_of_part = self._mapped(_DETECTION_AXIS, lambda values: values[first:end])
        fields_of_part.update(self._mapped(_COLUMN_AXIS, lambda values: values[..., columns]))
        fields_of_part["class_index"] = fields_of_part["class_index"] - some.start
        fields_of_part["columns"] = self.columns[columns] - first
        fields_of_part["classes"] = self.classes[some]
        fields_of_part["num_positives"] = self.num_positives[:, some]
        return replace(self, **fields_of_part)

    def first_of_classes(self, most: int) -> Matches:
        """Return the matches of the best `most` detections per class in all images; of equal scores the first ones."""
        ranks = segments.runs(0, self.class_index.bincount())[1]
        return replace(self, limits=(ranks >= most).to(torch.int8)).within(0)

    def with_rows(self, rows: Int[Tensor, " detections"], true_rows: Int[Tensor, " ground_truths"]) -> Matches:
        """Return the matches with new row numbers, given those of detections and of ground truths by old number."""
        ground_truths = self.ground_truths
        if ground_truths is not None:
            # The row -1 stands for none, and indexes the last entry.
            new_rows = torch.cat([true_rows, true_rows.new_full((1,), -1)])
            ground_truths = new_rows[ground_truths]
        return replace(self, rows=rows.index_select(0, self.rows), ground_truths=ground_truths)

    def outcomes(
        self, thresholds: int | slice = slice(None), area: int = 0
    ) -> tuple[Bool[Tensor, "*thresholds detections"], Bool[Tensor, "*thresholds detections"]]:
        """Return whether each detection is a true positive, and whether it is ignored, in an area range."""
        matched = self.matched[area, thresholds]
        true_positive = self.true_positive[area, thresholds]
        is_right = matched.new_zeros((*matched.shape[:-1], len(self.rows)))
        is_right.index_copy_(-1, self.columns, true_positive)
        # Ignored are detections outside the range and matches with ignored ground truths, but no true positives.
        is_outside = (self.area_bits & (1 << area) == 0).expand_as(is_right)
        is_column_ignored = is_outside.index_select(-1, self.columns).logical_or_(matched) & ~true_positive
        return is_right, is_outside.index_copy(-1, self.columns, is_column_ignored)

    def to(self, device: torch.device) -> Matches:
        """Return the matches on a device."""
        moved = {}
        for matches_field in fields(self):
            value = getattr(self, matches_field.name)
            if value is not None:
                moved[matches_field.name] = value.to(device)
        return replace(self, **moved)

    def drawn(self, times: Int[Tensor, " images"], num_positives: Int[Tensor, "areas classes"]) -> Matches:
        """Return the matches if image `i` is repeated `times[i]` times, given the number of positives in that case.

        The repetitions of a detection follow each other.
        """
        counts = times.index_select(0, self.images.long())
        places = segments.numbers(counts)
        first = segments.starts(counts).index_select(0, self.columns)
        columns, new_places = segments.runs(first, counts.index_select(0, self.columns))
        return replace(self._selected(places, columns, new_places), num_positives=num_positives)

    def map_columns(self, function: Callable[[Tensor], Tensor], **changes: Any) -> Matches:
        """Apply a function to all fields [areas, thresholds, matched]; `changes` are values of further fields."""
        return replace(self, **self._mapped(_COLUMN_AXIS, function), **changes)

    def _mapped(self, kind: Mapping[str, int], function: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """Apply a function to the fields of one kind, `_DETECTION_AXIS` or `_COLUMN_AXIS`, and return them by name."""
        mapped = {}
        for matches_field in fields(self):
            value = getattr(self, matches_field.name)
            if matches_field.metadata == kind and value is not None:
                mapped[matches_field.name] = function(value)
        return mapped

    def _selected(self, places: Tensor, columns: Tensor, new_places: Tensor) -> Matches:
        """Return the detections at `places` and some columns, in this order, with the new places of these columns."""
        selected = self._mapped(_DETECTION_AXIS, lambda values: values.index_select(0, places))
        selected.update(self._mapped(_COLUMN_AXIS, lambda values: values.index_select(2, columns)))
        return replace(self, **selected, columns=new_places)


def merge_matches(parts: Sequence[Matches]) -> Matches:
    """Merge the matches of parts of the images; no image may be in two parts.

    Rows keep their numbers from the parts. The result has ground truths if all parts have them.
    """
    classes = distinct_labels(*(part.classes for part in parts))
    joined = join_matches(parts, classes)
    # Stable sorts, the last key first. An image is in one part, so equal scores of an image keep their order.
    by_image = joined.images.sort(stable=True).indices
    by_class, _ = order_by_class_and_score(
        joined.class_index.index_select(0, by_image), joined.scores.index_select(0, by_image)
    )
    places = by_image.index_select(0, by_class)
    # The columns move with their detections, and must ascend again.
    new_places = torch.empty_like(places).scatter_(0, places, torch.arange(len(places), device=places.device))
    sorted_places, columns = new_places.index_select(0, joined.columns).sort()
    return joined._selected(places, columns, sorted_places)  # noqa: SLF001 - of the same module


def join_matches(parts: Iterable[Matches], classes: Int[Tensor, " classes"]) -> Matches:
    """Concatenate the matches of parts; they are in order if the classes of each part come after those before it.

    Each part is released before the next is made. The result has ground truths if all parts have them.

    Args:
        parts: at least one, with the same numbers of area ranges and thresholds.
        classes: the classes of all parts.
    """
    axes = {"columns": 0}
    for matches_field in fields(Matches):
        if matches_field.metadata:
            axes[matches_field.name] = matches_field.metadata["axis"]

    values_of_parts: dict[str, list[Any]] = {name: [] for name in axes}
    num_positives = []
    num_detections = 0
    for part in parts:
        # A part may have fewer classes, so its classes are renumbered, and its columns are shifted.
        place = place_of_labels(part.classes, classes)
        aligned = replace(
            part,
            class_index=place.index_select(0, part.class_index),
            columns=part.columns + num_detections,
        )
        for name, values in values_of_parts.items():
            values.append(getattr(aligned, name))
        zeros = part.num_positives.new_zeros((len(part.num_positives), len(classes)))
        num_positives.append(zeros.index_add_(1, place, part.num_positives))
        num_detections += len(part.scores)
        del part, aligned

    joined: dict[str, Any] = {}
    while values_of_parts:  # only one field at a time is in memory twice
        name, values = values_of_parts.popitem()
        is_missing = any(value is None for value in values)
        joined[name] = None if is_missing else torch.cat(values, axes[name])
    return Matches(classes=classes, num_positives=torch.stack(num_positives).sum(0), **joined)
