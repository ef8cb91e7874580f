"""Numbers of matches that no option gives: precision, recall and F1 of detectors at a confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from reid_torchmetrics.functional.detection.evaluators import ClassAverages
from reid_torchmetrics.functional.detection.matching import Matches


@dataclass(frozen=True)
class MatchMeasure:
    """A number of matches."""

    name: str
    title: str
    value: Callable[[Matches, ClassAverages], float]
    call: str
    """the line that computes it here"""

    def __str__(self) -> str:
        """Return the name, by which searches tell numbers apart."""
        return self.name


def _counts(matches: Matches) -> tuple[Tensor, Tensor, Tensor]:
    """Return the numbers of true positives, detections and ground truths of each class, at the first threshold."""
    is_right, is_ignored = matches.outcomes(0)
    num_classes = len(matches.classes)
    classes = matches.class_index.long()
    num_right = classes[is_right].bincount(minlength=num_classes).double()
    num_detections = classes[~is_ignored].bincount(minlength=num_classes).double()
    return num_right, num_detections, matches.num_positives[0].double()


def _precision(num_right: Tensor, num_detections: Tensor, _: Tensor) -> Tensor:
    return num_right / num_detections.clamp(min=1)


def _recall(num_right: Tensor, _: Tensor, num_positives: Tensor) -> Tensor:
    return num_right / num_positives.clamp(min=1)


def _f1(num_right: Tensor, num_detections: Tensor, num_positives: Tensor) -> Tensor:
    return 2 * num_right / (num_detections + num_positives).clamp(min=1)


def _micro(quantity: Callable[..., Tensor]) -> Callable[[Matches, ClassAverages], float]:
    return lambda matches, _: float(quantity(*(counts.sum() for counts in _counts(matches))))


def _macro(quantity: Callable[..., Tensor]) -> Callable[[Matches, ClassAverages], float]:
    return lambda matches, _: float(quantity(*_counts(matches)).mean())


def _weighted(quantity: Callable[..., Tensor]) -> Callable[[Matches, ClassAverages], float]:
    def value(matches: Matches, _: ClassAverages) -> float:
        counts = _counts(matches)
        num_positives = counts[2]
        return float((quantity(*counts) * num_positives).sum() / num_positives.sum())

    return value


_QUANTITIES = {"precision": _precision, "recall": _recall, "F1": _f1}
_MEANS = {
    "micro": (_micro, "of all detections together"),
    "macro": (_macro, "mean over all classes, those without ground truths as 0"),
    "weighted": (_weighted, "mean over classes, weighted by their ground truths"),
}
MATCH_MEASURES: dict[str, MatchMeasure] = {}
"""the measures by name"""
for _mean, (_average, _words) in _MEANS.items():
    for _name, _quantity in _QUANTITIES.items():
        _key = f"{_mean} {_name}"
        MATCH_MEASURES[_key] = MatchMeasure(
            _key,
            f"{_name} at the first threshold, {_words}",
            _average(_quantity),
            f"results.at_confidence(-math.inf).{_name.lower()}, {_words}",
        )
