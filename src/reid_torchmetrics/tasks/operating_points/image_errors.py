"""Errors in each image at a confidence: false positives and misses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.detection.evaluation import RESULT_METHODS, DetectionResults
from reid_torchmetrics.functional.detection.inputs import name_images
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed, counted, cut, more_rows

from .operating_points import at_confidence, best_confidence


class ImageRows:
    """Rows that each belong to an image."""

    image: Int[Tensor, " rows"]
    image_names: tuple[str, ...] | None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.image)

    @property
    def image_ids(self) -> list[int | str]:
        """The id of the image of each row, or its name if images have names."""
        return name_images(self.image, self.image_names)


@dataclass(frozen=True, repr=False)
class ImageErrors(Displayed, ImageRows):
    """Numbers of true positives, false positives and misses in each image, at a confidence."""

    image: Int[Tensor, " images"]
    """number of the image, or its `image_id`"""
    num_true_positives: Int[Tensor, " images"]
    num_false_positives: Int[Tensor, " images"]
    num_misses: Int[Tensor, " images"]
    """number of ground truths that count, and have no match among the detections at or above the confidence"""
    image_names: tuple[str, ...] | None = field(default=None, repr=False)
    """names of all images by number; None without names"""

    @property
    def num_errors(self) -> Int[Tensor, " images"]:
        """Number of false positives and misses: a box of a wrong class or place is one of each."""
        return self.num_false_positives + self.num_misses

    def _display(self) -> Display:
        worst = self.worst(NUM_ROWS)
        numbers = (worst.image_ids, worst.num_true_positives, worst.num_false_positives, worst.num_misses)
        rows = []
        for image, *counts in zip(*numbers, strict=True):
            rows.append((cut(str(image)), *(f"{int(count):,}" for count in counts)))
        num_images = int((self.num_errors > 0).sum())
        title = f"ImageErrors: {num_images:,} of {counted(len(self), 'image')} with errors, the worst first"
        columns = ["image", "true positives", "false positives", "misses"] if rows else []
        return Display(title, columns, rows, more_rows(num_images, "image"))

    def worst(self, n: int) -> ImageErrors:
        """Return the `n` images with the most errors; among equal numbers more misses come first, then earlier images.

        Images without errors are left out, so there may be fewer.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1.
        """
        _checks.positive_int("n", n)
        order = self.num_misses.argsort(descending=True, stable=True)
        order = order[self.num_errors[order].argsort(descending=True, stable=True)]
        worst = order[self.num_errors[order] > 0][:n]
        return ImageErrors(
            image=self.image[worst],
            num_true_positives=self.num_true_positives[worst],
            num_false_positives=self.num_false_positives[worst],
            num_misses=self.num_misses[worst],
            image_names=self.image_names,
        )


def image_errors(
    matches: Matches,
    num_positives: Int[Tensor, " images"],
    confidence: Float[Tensor, " classes"],
    *,
    threshold: int = 0,
) -> ImageErrors:
    """Count true positives, false positives and misses in each image in the first area range, without ignored ones.

    Summed over images these are the counts of `at_confidence`, or of `best_f1`, which has a confidence per class.
    `best_confidence` returns these confidences, and one for classes without true positives.

    Args:
        matches: matches in images that are numbered from 0.
        num_positives: number of ground truths in each image that count.
        confidence: the least accepted score of each class; rounded to the dtype of the scores.
        threshold: index of the IoU threshold.
    """
    is_accepted = matches.scores >= confidence.to(matches.scores.dtype).index_select(0, matches.class_index)
    is_right, is_ignored = matches.outcomes(threshold)

    def count(flags: Tensor) -> Tensor:
        return matches.images[flags & is_accepted].long().bincount(minlength=len(num_positives))

    num_true_positives = count(is_right)
    return ImageErrors(
        image=torch.arange(len(num_positives), device=num_positives.device),
        num_true_positives=num_true_positives,
        num_false_positives=count(~(is_right | is_ignored)),
        num_misses=num_positives - num_true_positives,
    )


def _image_errors(results: DetectionResults, *, threshold: int, confidence: float | None) -> ImageErrors:
    """See `DetectionResults.image_errors`."""
    if confidence is None:
        least_scores = best_confidence(results.matches, threshold=threshold)
    else:
        least_scores = at_confidence(results.matches, confidence).confidence[threshold]
    counts = image_errors(results.matches, results.num_positives, least_scores, threshold=threshold)
    return replace(counts, image=results.images, image_names=results.image_names)


RESULT_METHODS["image_errors"] = _image_errors
