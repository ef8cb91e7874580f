"""Errors of each image at a confidence: false positives and misses."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.inputs import ImageRows
from reid_torchmetrics.functional.detection.matching import Matches


@dataclass(frozen=True)
class ImageErrors(ImageRows):
    """True positives, false positives and misses of each image, among detections at or above a confidence."""

    image: Int[Tensor, " images"]
    """number of the image, or its `image_id`"""
    num_true_positives: Int[Tensor, " images"]
    num_false_positives: Int[Tensor, " images"]
    num_misses: Int[Tensor, " images"]
    """ground truths that count, and have no match among these detections"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None without names"""

    @property
    def num_errors(self) -> Int[Tensor, " images"]:
        """False positives and misses: a box of a wrong class or place is one of each."""
        return self.num_false_positives + self.num_misses

    def worst(self, n: int) -> ImageErrors:
        """The `n` images with the most errors, or fewer; among equals more misses come first, then the image's order.

        Images without errors are left out.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1.
        """
        _checks.positive_int("n", n)
        order = self.num_misses.argsort(descending=True, stable=True)
        order = order[self.num_errors[order].argsort(descending=True, stable=True)]
        worst = order[self.num_errors[order] > 0][:n]
        columns = (self.image, self.num_true_positives, self.num_false_positives, self.num_misses)
        image, right, wrong, missed = (column[worst] for column in columns)
        return ImageErrors(image, right, wrong, missed, self.image_names)


def image_errors(
    matches: Matches,
    num_positives: Int[Tensor, " images"],
    confidence: Float[Tensor, " classes"],
    *,
    threshold: int = 0,
) -> ImageErrors:
    """Count true positives, false positives and misses of each image in the first area range, without ignored ones.

    Summed over images these are the counts of `at_confidence`, or of `best_f1`, whose confidences differ by class.
    `best_confidence` gives the latter, and one for classes in which nothing is right.

    Args:
        matches: of images that are numbered from 0.
        num_positives: ground truths of each image that count.
        confidence: the least accepted score of each class; rounded to the dtype of the scores.
        threshold: number of the IoU threshold.

    Raises:
        TypeError: `threshold` is not an int.
        ValueError: a `threshold` that does not exist.
    """
    _checks.index("threshold", threshold, matches.matched.shape[1], "thresholds")
    is_accepted = matches.scores >= confidence.to(matches.scores.dtype).index_select(0, matches.class_index)
    is_right, is_ignored = matches.outcomes(threshold)
    right, wrong = (
        matches.images[flags & is_accepted].long().bincount(minlength=len(num_positives))
        for flags in (is_right, ~(is_right | is_ignored))
    )
    image = torch.arange(len(num_positives), device=num_positives.device)
    return ImageErrors(image, right, wrong, num_positives - right)
