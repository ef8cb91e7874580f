"""Every detection with what it was found to be, in the order in which precision is accumulated, and its curves."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.curves.compute_ap import (
    compute_ap,
    envelope_at,
    envelope_of,
    evenly_spaced,
)
from reid_torchmetrics.functional.detection.inputs import name_images
from reid_torchmetrics.functional.detection.matching import Matches

_IMAGE_WIDTH = 6  # letters, at least


@dataclass(frozen=True)
class DetectionCurve:
    """The detections of a class, best first, with precision and recall after each of them."""

    num_positives: int
    """ground truths that count"""
    row: Int[Tensor, " detections"]
    """as in `RankedDetections`"""
    image: Int[Tensor, " detections"] | None
    score: Float[Tensor, " detections"]
    is_true_positive: Bool[Tensor, " detections"]
    is_ignored: Bool[Tensor, " detections"]
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """as in `RankedDetections`"""

    def __len__(self) -> int:
        """Number of detections."""
        return len(self.score)

    @property
    def image_ids(self) -> list[int | str] | None:
        """`image`, as names where images have names."""
        return None if self.image is None else name_images(self.image, self.image_names)

    @property
    def num_true_positives(self) -> Int[Tensor, " detections"]:
        """Up to and including each detection."""
        return self.is_true_positive.cumsum(0)

    @property
    def num_false_positives(self) -> Int[Tensor, " detections"]:
        """Up to and including each detection; ignored ones are neither."""
        return (~self.is_true_positive & ~self.is_ignored).cumsum(0)

    @property
    def precision(self) -> Float[Tensor, " detections"]:
        """Share of the true positives; NaN where all so far are ignored."""
        found = self.num_true_positives.double()
        return found / (found + self.num_false_positives)

    @property
    def recall(self) -> Float[Tensor, " detections"]:
        """Share of the ground truths that are found; NaN without ground truths."""
        return self.num_true_positives.double() / self.num_positives

    @property
    def envelope(self) -> Float[Tensor, " detections"]:
        """The largest precision at each detection or at a later one."""
        return envelope_of(self.precision.nan_to_num(0.0))

    def average_precision(self, rule: str = "voc") -> float:
        """Area under the curve by one of `AP_RULES`; NaN without ground truths."""
        counts = ~self.is_ignored
        if not self.num_positives:
            return float("nan")
        return float(compute_ap(self.recall[counts], self.precision[counts], rule))

    def at_recalls(self, num_recalls: int = 11) -> tuple[Float[Tensor, " recalls"], Float[Tensor, " recalls"]]:
        """Recalls 0, ..., 1 and the envelope there, the points whose mean the rules "voc07" (11) and "coco" (101) take.

        Raises:
            TypeError: `num_recalls` is not an int.
            ValueError: it is below 2.
        """
        _checks.positive_int("num_recalls", num_recalls, 2)
        counts = ~self.is_ignored
        recalls = evenly_spaced(num_recalls).to(self.score.device)
        return recalls, envelope_at(self.recall[counts], self.precision[counts], recalls)

    def __str__(self) -> str:
        """The table that a reader can follow with a pencil: a line for each detection."""
        columns = (self.score, self.num_true_positives, self.num_false_positives, self.precision, self.recall)
        images = ["-"] * len(self) if self.image_ids is None else self.image_ids
        width = max([_IMAGE_WIDTH, *(len(str(image)) for image in images)])
        head = f"  rank  {'image':>{width}}   score  is    TP    FP  precision  recall"
        lines = [f"{self.num_positives} ground truths", head]
        kinds = zip(self.is_true_positive.tolist(), self.is_ignored.tolist(), strict=True)
        words = ["--" if is_ignored else "TP" if is_right else "FP" for is_right, is_ignored in kinds]
        rows = zip(words, images, *(column.tolist() for column in columns), strict=True)
        for rank, (word, image, score, right, wrong, precision, recall) in enumerate(rows, start=1):
            about = f"{rank:6d}  {image!s:>{width}}  {score:6.3f}  {word}"
            lines.append(f"{about}  {right:4d}  {wrong:4d}  {precision:9.4f}  {recall:6.4f}")
        return "\n".join(lines)


@dataclass(frozen=True)
class RankedDetections:
    """All detections that were judged, by class and descending score."""

    classes: Int[Tensor, " classes"]
    """labels, ascending"""
    num_positives: Int[Tensor, " classes"]
    """ground truths that count"""
    class_index: Int[Tensor, " detections"]
    row: Int[Tensor, " detections"]
    """among the detections that were given; where a metric was, among those of the image"""
    image: Int[Tensor, " detections"] | None
    """its number or, where a metric was given it, its `image_id`, if that is an int; None where images are not known"""
    score: Float[Tensor, " detections"]
    is_true_positive: Bool[Tensor, "thresholds detections"]
    is_ignored: Bool[Tensor, "thresholds detections"]
    """neither right nor wrong"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None where they have none"""

    def __len__(self) -> int:
        """Number of detections."""
        return len(self.score)

    @property
    def image_ids(self) -> list[int | str] | None:
        """`image`, as names where images have names."""
        return None if self.image is None else name_images(self.image, self.image_names)

    def of_class(self, label: int, *, threshold: int = 0) -> DetectionCurve:
        """The detections of a class at the threshold of overlap of a number.

        Raises:
            TypeError: an option of the wrong type.
            ValueError: a `label` of no class, or a `threshold` that does not exist.
        """
        _checks.index("threshold", threshold, len(self.is_true_positive), "thresholds")
        _checks.integer("label", label)
        number = (self.classes == label).nonzero()[:, 0].tolist()
        if not number:
            raise ValueError(f"`label` must be the label of a class that occurs; got {label}.")
        places = (self.class_index == number[0]).nonzero()[:, 0]
        return DetectionCurve(
            num_positives=int(self.num_positives[number[0]]),
            row=self.row[places],
            image=None if self.image is None else self.image[places],
            score=self.score[places],
            is_true_positive=self.is_true_positive[threshold, places],
            is_ignored=self.is_ignored[threshold, places],
            image_names=self.image_names,
        )


def ranked_detections(matches: Matches) -> RankedDetections:
    """The detections of matches, in the first area range; none beyond the largest limit of an image and class."""
    shape = (matches.matched.shape[1], len(matches.rows))
    is_right = torch.zeros(shape, dtype=torch.bool, device=matches.rows.device)
    is_right[:, matches.columns] = matches.true_positive[0]
    # Where nothing is matched, a detection outside the range is ignored; columns overwrite that.
    is_ignored = (matches.area_bits & 1 == 0).repeat(shape[0], 1)
    is_ignored[:, matches.columns] = torch.where(
        matches.matched[0], ~matches.true_positive[0], is_ignored[:, matches.columns]
    )
    return RankedDetections(
        matches.classes,
        matches.num_positives[0],
        matches.class_index.long(),
        matches.rows.long(),
        matches.images.long(),
        matches.scores.double(),
        is_right,
        is_ignored,
    )
