"""Two detectors on the same images: their numbers on resampled images, without matching again."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, Evaluator, evaluator_options
from reid_torchmetrics.functional.detection.matching import Matches, merge_matches

_FLAGS_IN_WORDS = {
    "drops_invalid": "invalid='drop'",
    "has_given_areas": "areas of detections in the input (`detection_area`)",
}
"""words for flags of a grid, for results where the flag is True"""


@dataclass(frozen=True, eq=False)
class PairedDetections:
    """The detections of two models, joined as if they were from one model on twice as many images.

    Image i is image 2 i for model 0, and image 2 i + 1 for model 1.
    """

    matches: Matches
    positives: Int[Tensor, "positives 3"]
    """a row for each ground truth: image i, place of the class, and area ranges, bit 0 for the first"""
    num_images: int
    averages: tuple[ClassAverages, ClassAverages]
    """averages of both models over all images, each counted once"""
    evaluator: Evaluator

    @classmethod
    def of(cls, results: tuple[DetectionResults, DetectionResults], names: tuple[str, str]) -> PairedDetections:
        """Pair the results of two models on the same images; messages use the names of both.

        Raises:
            ValueError: other images, ground truths or options.
        """
        first, second = results
        _check_same_data(first, second, *names)
        device = first.positives.device
        parts = []
        for model, model_results in enumerate(results):
            model_matches = model_results.matches.to(device)
            images = 2 * model_matches.images.long() + model
            parts.append(replace(model_matches, images=images, ground_truths=None))
        matches = merge_matches(parts)
        image, label, bits = first.positives.unbind(1)
        place = torch.searchsorted(matches.classes, label.contiguous())
        return cls(
            matches=matches,
            positives=torch.stack([image, place, bits], 1),
            num_images=len(first.images),
            averages=(first.averages, second.averages),
            evaluator=first.evaluator,
        )

    @property
    def means(self) -> Float[Tensor, "models numbers"]:
        """The numbers of both models."""
        return torch.stack([_numbers(averages) for averages in self.averages])

    @property
    def class_differences(self) -> Float[Tensor, "classes numbers"]:
        """Differences (model 1 - model 0) of the numbers, for each class with ground truths."""
        first, second = self.averages
        labels = self.matches.classes[self.positives[:, 1].unique()].tolist()
        if not labels:
            return self.means[:0]
        return torch.stack([_numbers(second.for_label(label)) - _numbers(first.for_label(label)) for label in labels])

    def differences(
        self, times: Int[Tensor, "draws images"], swapped: Int[Tensor, "draws images"]
    ) -> Float[Tensor, "draws numbers"]:
        """Compute `difference` for each draw."""
        draws = list(zip(times, swapped, strict=True))
        rows = workers.run(
            lambda: workers.share(lambda draw: self.difference(*draw), draws),
            self.positives.device,
        )
        return torch.stack(rows)

    def difference(self, times: Int[Tensor, " images"], swapped: Int[Tensor, " images"]) -> Float[Tensor, " numbers"]:
        """Compute the difference (model 1 - model 0) of every number when image i is repeated `times[i]` times.

        In images where `swapped` is 1 and not 0, the two models exchange their detections.
        """
        times = times.to(self.positives.device)
        model = swapped.to(times.device)
        # Both models have the same ground truths.
        image, place, bits = self.positives.unbind(1)
        areas = torch.arange(len(self.matches.num_positives), device=times.device)[:, None]
        counts = (bits >> areas & 1) * times[image]
        num_positives = torch.zeros_like(self.matches.num_positives).index_add_(1, place, counts)
        return self._numbers_on_draw(times, 1 - model, num_positives) - self._numbers_on_draw(
            times, model, num_positives
        )

    def _numbers_on_draw(self, times: Tensor, model: Tensor, num_positives: Tensor) -> Tensor:
        """Compute the numbers with the detections of one model in each image, each image repeated `times` times."""
        images = torch.stack([times * (1 - model), times * model], 1).flatten()
        averages = self.evaluator.average(
            self.matches.drawn(images, num_positives),
            self.averages[0].grid,
            rule=self.averages[0].rule,
            confidence=self.evaluator.confidence,
        )
        return _numbers(averages)


def _numbers(averages: ClassAverages) -> Float[Tensor, " numbers"]:
    """Return the numbers of an evaluator on the CPU; NaN if undefined."""
    numbers = torch.stack(list(averages.known().values())).cpu()
    return numbers.masked_fill(numbers < 0, math.nan)


def _check_same_data(first: DetectionResults, second: DetectionResults, first_name: str, second_name: str) -> None:
    """Raise unless two `DetectionResults` have the same images, ground truths and options."""
    first_settings = _settings(first)
    second_settings = _settings(second)
    for name, value in first_settings.items():
        second_value = second_settings.get(name)
        if second_value != value:
            got = f"{name}={second_value!r} and not {value!r}"
            if name in _FLAGS_IN_WORDS:
                owner = second_name if second_value else first_name
                got = f"{_FLAGS_IN_WORDS[name]} for `{owner}` alone"
            raise ValueError(f"`{second_name}` must be evaluated as `{first_name}` was; got {got}.")

    images = set(first.image_ids)
    unmatched = sorted(images.symmetric_difference(second.image_ids), key=lambda image: (isinstance(image, str), image))
    if unmatched:
        image = unmatched[0]
        owner = first_name if image in images else second_name
        raise ValueError(
            f"`{second_name}` must hold the images of `{first_name}`; got image {image!r} in `{owner}` alone."
        )

    # Numbers of images ascend with the ids, so equal numbers are equal images here.
    positives = torch.cat([first.positives.cpu(), second.positives.cpu()])
    rows, row_index = positives.unique(dim=0, return_inverse=True)
    first_rows, second_rows = row_index.split([len(first.positives), len(second.positives)])
    is_different = first_rows.bincount(minlength=len(rows)) != second_rows.bincount(minlength=len(rows))
    if bool(is_different.any()):
        number, label, _ = rows[is_different][0].tolist()
        got = f"others of label {label} in image {first.image_ids[number]!r}"
        raise ValueError(f"`{second_name}` must have the ground truths of `{first_name}`; got {got}.")


def _settings(results: DetectionResults) -> dict[str, Any]:
    """Return the options of `DetectionResults` by name."""
    options = evaluator_options(results.evaluator)
    title = options.pop("title")
    # Through JSON, because tuples and lists are equal here.
    grid: dict[str, Any] = json.loads(json.dumps(asdict(results.averages.grid)))
    return {"evaluator": title, "rule": results.averages.rule, **options, **grid}
