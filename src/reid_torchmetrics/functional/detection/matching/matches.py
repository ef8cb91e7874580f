"""The waist of detection: which detections are true positives, false positives or ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Integer, Shaped
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import distinct_labels, order_by_class_and_score, place_of_labels


@dataclass(frozen=True)
class Matches:
    """Detections in the order in which precision is accumulated, and what each was matched to.

    A detection that is matched to a ground truth that counts is a true positive; one that is matched to an ignored
    ground truth (a crowd, or one outside the area range) is ignored; one without a match is a false positive if its
    own area lies in the range, else it is ignored, too.

    Merging the matches of some images with those of others gives the matches of all of them: see `merge_matches`.
    """

    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    num_positives: Int[Tensor, "areas classes"]
    """ground truths that count: no crowds, and inside the area range"""
    scores: Shaped[Tensor, " detections"]
    """by class, descending score, image and row; no more of one image and class than the largest limit"""
    class_index: Int[Tensor, " detections"]
    images: Integer[Tensor, " detections"]
    rows: Int[Tensor, " detections"]
    """rows among the detections that were matched"""
    limits: Int[Tensor, " detections"]
    """the number of the smallest of the limits of detections per image and class that keeps the detection"""
    area_bits: Integer[Tensor, " detections"]
    """bit `a` says whether the area of the detection's own box lies in range `a`"""
    columns: Int[Tensor, " matched"]
    """places of the detections that are matched under some threshold and range, ascending"""
    matched: Bool[Tensor, "areas thresholds matched"]
    true_positive: Bool[Tensor, "areas thresholds matched"]
    """matched to a ground truth that counts"""
    ground_truths: Int[Tensor, "areas thresholds matched"] | None = None
    """rows of the ground truths that they took, -1 for none; only where they were asked for"""

    def within(self, limit: int) -> Matches:
        """The matches of a smaller limit of detections per image and class; matching is not done anew, as in COCO."""
        kept = self.limits <= limit
        if bool(kept.all()):
            return self
        places = kept.nonzero()[:, 0]
        columns = kept.index_select(0, self.columns).nonzero()[:, 0]
        new_places = kept.cumsum(0) - 1
        return self._selected(places, columns, new_places.index_select(0, self.columns.index_select(0, columns)))

    def _selected(self, places: Tensor, columns: Tensor, columns_at: Tensor) -> Matches:
        """Some detections and some of the matched ones, in a given order; `columns_at` is where the latter are now."""
        taken = self.ground_truths
        return Matches(
            classes=self.classes,
            num_positives=self.num_positives,
            scores=self.scores.index_select(0, places),
            class_index=self.class_index.index_select(0, places),
            images=self.images.index_select(0, places),
            rows=self.rows.index_select(0, places),
            limits=self.limits.index_select(0, places),
            area_bits=self.area_bits.index_select(0, places),
            columns=columns_at,
            matched=self.matched.index_select(2, columns),
            true_positive=self.true_positive.index_select(2, columns),
            ground_truths=None if taken is None else taken.index_select(2, columns),
        )


def merge_matches(parts: Sequence[Matches]) -> Matches:
    """The matches of all images, given those of parts of them; no image may be in two parts.

    Rows keep the numbers that they have in their parts. Ground truths are noted if they are in all parts.

    Raises:
        ValueError: there are no parts, or some were matched with other numbers of area ranges or thresholds.
    """
    _checks.mergeable("parts", [tuple(part.matched.shape[:2]) for part in parts])
    joined = _joined(parts)
    by_image = joined.images.sort(stable=True).indices
    by_class, _ = order_by_class_and_score(
        joined.class_index.index_select(0, by_image), joined.scores.index_select(0, by_image)
    )
    places = by_image.index_select(0, by_class)
    new_places = torch.empty_like(places)
    new_places[places] = torch.arange(len(places), device=places.device)
    columns_at, columns = new_places.index_select(0, joined.columns).sort()
    return joined._selected(places, columns, columns_at)  # noqa: SLF001 - of the same module


def _joined(parts: Sequence[Matches]) -> Matches:
    """The parts one after another, out of order."""
    classes = distinct_labels(*(part.classes for part in parts))
    places = [place_of_labels(part.classes, classes) for part in parts]
    num_positives = parts[0].num_positives.new_zeros((len(parts[0].num_positives), len(classes)))
    for part, place in zip(parts, places, strict=True):
        num_positives.index_add_(1, place, part.num_positives)
    class_indices = [place.index_select(0, part.class_index) for part, place in zip(parts, places, strict=True)]
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part.scores))
    taken = [part.ground_truths for part in parts]
    return Matches(
        classes=classes,
        num_positives=num_positives,
        class_index=torch.cat(class_indices),
        columns=torch.cat([part.columns + start for part, start in zip(parts, starts[:-1], strict=True)]),
        matched=torch.cat([part.matched for part in parts], 2),
        true_positive=torch.cat([part.true_positive for part in parts], 2),
        ground_truths=None
        if any(each is None for each in taken)
        else torch.cat([each for each in taken if each is not None], 2),
        **{
            name: torch.cat([getattr(part, name) for part in parts])
            for name in ("scores", "images", "rows", "limits", "area_bits")
        },
    )
