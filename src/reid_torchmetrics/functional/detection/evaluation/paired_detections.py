"""Two detectors on the same images: their numbers on other draws of these images, without matching anew."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, Evaluator, evaluator_options
from reid_torchmetrics.functional.detection.matching import Matches, merge_matches


@dataclass(frozen=True, eq=False)
class PairedDetections:
    """The detections of two models as if of one.

    Image i of model 0 is image 2 i, and of model 1 it is image 2 i + 1: each draw takes either.
    """

    matches: Matches
    positives: Int[Tensor, "positives 3"]
    """of the ground truths: image i, place of the class, and area ranges, bit 0 for the first"""
    num_images: int
    averages: tuple[ClassAverages, ClassAverages]
    """of both models, on all images once"""
    evaluator: Evaluator

    @classmethod
    def of(cls, results: tuple[Any, Any], names: tuple[str, str]) -> PairedDetections:
        """Pair `DetectionResults`, see their `paired_with`."""
        _check(*results, *names)
        (a, b), device = results, results[0].positives.device
        parts = [each.matches.to(device) for each in results]
        numbered = [replace(each, images=2 * each.images.long() + model) for model, each in enumerate(parts)]
        matches = merge_matches([replace(each, ground_truths=None) for each in numbered])
        image, label, bits = a.positives.unbind(1)
        positives = torch.stack([image, torch.searchsorted(matches.classes, label.contiguous()), bits], 1)
        return cls(matches, positives, len(a.images), (a.averages, b.averages), a.evaluator)

    @property
    def means(self) -> Float[Tensor, "models numbers"]:
        """The numbers of both models."""
        return torch.stack([*map(_numbers, self.averages)])

    @property
    def class_differences(self) -> Float[Tensor, "classes numbers"]:
        """What the numbers of model 1 are higher by, for each class with ground truths."""
        a, b = self.averages
        labels = self.matches.classes[self.positives[:, 1].unique()].tolist()
        rows = [_numbers(b.of_label(label)) - _numbers(a.of_label(label)) for label in labels]
        return torch.stack(rows) if rows else self.means[:0]

    def differences(
        self, times: Int[Tensor, "draws images"], swapped: Int[Tensor, "draws images"]
    ) -> Float[Tensor, "draws numbers"]:
        """`difference` of each draw."""
        rows, device = [*zip(times, swapped, strict=True)], self.positives.device
        return torch.stack(workers.run(lambda: workers.share(lambda row: self.difference(*row), rows), device))

    def difference(self, times: Int[Tensor, " images"], swapped: Int[Tensor, " images"]) -> Float[Tensor, " numbers"]:
        """What the numbers of model 1 are higher by, if each image were there as many times as said.

        Where `swapped` is 1 and not 0, each model has the detections of the other one.
        """
        # Ground truths are the same for both models.
        times, (image, place, bits) = times.to(self.positives.device), self.positives.unbind(1)
        areas = torch.arange(len(self.matches.num_positives), device=times.device)[:, None]
        counts = (bits >> areas & 1) * times[image]
        num_positives = torch.zeros_like(self.matches.num_positives).index_add_(1, place, counts)

        def numbers(model: Tensor) -> Tensor:
            images = torch.stack([times * (1 - model), times * model], 1).flatten()
            matches, of, at = self.matches.drawn(images, num_positives), self.averages[0], self.evaluator.confidence
            return _numbers(self.evaluator.average(matches, of.grid, rule=of.rule, confidence=at))

        model = swapped.to(times.device)
        return numbers(1 - model) - numbers(model)


def _numbers(averages: ClassAverages) -> Float[Tensor, " numbers"]:
    """The numbers of an evaluator on the CPU; NaN for what is undefined."""
    numbers = torch.stack([*averages.known().values()]).cpu()
    return numbers.masked_fill(numbers < 0, math.nan)


def _check(a: Any, b: Any, first: str, second: str) -> None:
    """Raise unless two `DetectionResults` are of the same images and ground truths, with the same options."""
    ours, theirs = _settings(a), _settings(b)
    for name, value in ours.items():
        if theirs.get(name) != value:
            came = f"{name}={theirs.get(name)!r} and not {value!r}"
            raise ValueError(f"`{second}` must be evaluated as `{first}` was; got {came}.")
    images = a.image_ids, b.image_ids
    for image in sorted({*images[0]} ^ {*images[1]}, key=lambda image: (isinstance(image, str), image)):
        owner = first if image in images[0] else second
        raise ValueError(f"`{second}` must hold the images of `{first}`; got image {image!r} in `{owner}` alone.")
    # Numbers ascend with the ids, so now equal numbers are equal images.
    rows, place = torch.cat([a.positives.cpu(), b.positives.cpu()]).unique(dim=0, return_inverse=True)
    of_a, of_b = (each.bincount(minlength=len(rows)) for each in place.split([len(a.positives), len(b.positives)]))
    for image, label, _ in rows[of_a != of_b][:1].tolist():
        came = f"others of label {label} in image {images[0][image]!r}"
        raise ValueError(f"`{second}` must have the ground truths of `{first}`; got {came}.")


def _settings(results: Any) -> dict[str, Any]:
    """Return the options of `DetectionResults` by name."""
    options = evaluator_options(results.evaluator)
    settings = {"evaluator": options.pop("title"), "rule": results.averages.rule, **options}
    grid: dict[str, Any] = json.loads(json.dumps(asdict(results.averages.grid)))  # so that tuples and lists are equal
    return settings | grid
