"""Numbers of given pairs under other conventions, and the known evaluators of verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks
from reid_torchmetrics.diagnosis.causes import held
from reid_torchmetrics.functional.world import World
from reid_torchmetrics.tasks.verification import ComparedPairs, Verification, count_given_pairs, find_accuracies

from .known import PAIR_CHANGES
from .rows import FARS, NO_OPTION, TARGETS, Numbers

_NUM_FOLDS = 10  # of LFW's accuracy


class _NumberOfPairs(NamedTuple):
    title: str
    compute: Callable[[Verification, ComparedPairs], Tensor | float]
    call: str = NO_OPTION
    """the line that computes it here, from {counts} of `verify_pairs` or {distances}"""


def _accuracy(_: Verification, pairs: ComparedPairs) -> Tensor:
    distances = -pairs.scores if pairs.given == "distances" else 2 - 2 * pairs.scores
    return find_accuracies(distances, pairs.same, folds=_NUM_FOLDS).accuracy.mean()


def _best_accuracy(counts: Verification, _: ComparedPairs) -> Tensor:
    num_correct = counts.num_genuine_at + counts.num_impostors - counts.num_impostors_at
    num_pairs = counts.num_genuine + counts.num_impostors
    return num_correct.max().clamp(min=counts.num_impostors) / num_pairs


def _best_f1(counts: Verification, _: ComparedPairs) -> float:
    genuine, impostors = held("scores", counts.all_scores)[1:]
    return float((2 * genuine / (genuine + impostors + counts.num_genuine)).max())


def _error_rate(rule: Any, counts: Verification, _: ComparedPairs) -> Tensor:
    return counts.equal_error_rate(rule).rate


def _smaller_error_rate(counts: Verification, _: ComparedPairs) -> Tensor:
    """Return the smaller mean of FAR and FRR at the two scores around their crossing."""
    genuine, impostors = held("scores", counts.all_scores)[1:]
    num_pairs = counts.num_genuine * counts.num_impostors
    far = impostors * counts.num_genuine  # times all pairs, in integers
    frr = num_pairs - genuine * counts.num_impostors
    crossing = int((far >= frr).nonzero()[0, 0])
    is_equal = bool(far[crossing] == frr[crossing])
    sums = functional.pad(far + frr, (1, 0), value=num_pairs)  # above the highest score all genuine pairs are missed
    return sums[crossing + is_equal : crossing + 2].min().double() / (2 * num_pairs)


def _mean_error_rate(counts: Verification, _: ComparedPairs) -> Tensor:
    """Return the mean of FAR and FRR at the two points of scikit-learn's `roc_curve` around their crossing."""
    far, tar = counts.roc_points()[:2]
    crossing = int((far > 1 - tar).int().argmax())
    return (far + 1 - tar)[crossing - 1 : crossing + 1].mean() / 2


def _miss_rate(far: float, counts: Verification, pairs: ComparedPairs) -> float:
    if not counts.is_defined:
        raise ValueError("`same` must be True for some pairs and False for others.")
    scores = pairs.scores.double().cpu().numpy()
    same = pairs.same.cpu().numpy()
    return float(np.mean(scores[same] <= np.quantile(scores[~same], 1 - far)))


def _reject_rate(frr: float, _: Verification, pairs: ComparedPairs) -> float:
    """Return the rate at the first point of scikit-learn's `roc_curve` with the nearest false reject rate."""
    rates, reject_rates = count_given_pairs(-pairs.scores, ~pairs.same).roc_points()[:2]
    return float(reject_rates[(rates - frr).abs().argmin()])


def _tar(far: float, rule: Any, counts: Verification, _: ComparedPairs) -> Tensor:
    return counts.tar_at_far([far], rule=rule)[0]


def _tar_between(far: float, counts: Verification, _: ComparedPairs) -> float:
    rates, accept_rates = (points.cpu().numpy() for points in counts.roc()[:2])
    return float(np.interp(far, rates, accept_rates))


def _impostor_reject_rate(far: float, counts: Verification, _: ComparedPairs) -> Tensor:
    """Return the FRR at the last score of an impostor with a FAR of at most `far`, or above all impostors."""
    genuine, impostors = (functional.pad(numbers, (1, 0)) for numbers in held("scores", counts.all_scores)[1:])
    most = impostors[impostors / counts.num_impostors <= far].max()
    accepted = genuine[impostors == most]
    return 1 - accepted[0 if most else -1] / counts.num_genuine


def _cost(target: float, factor: float, counts: Verification, _: ComparedPairs) -> Tensor:
    return factor * counts.min_dcf(target)


_NUMBERS: dict[str, _NumberOfPairs] = {
    "auc": _NumberOfPairs("AUC", lambda counts, _: counts.area_under_curve(), "{counts}.area_under_curve()"),
    "average_precision": _NumberOfPairs(
        "average precision",
        lambda counts, _: counts.average_precision(ties="grouped"),
        "{counts}.average_precision(ties='grouped')",
    ),
    "eer_smaller": _NumberOfPairs("EER, the smaller mean of both rates beside their crossing", _smaller_error_rate),
    "eer_mean": _NumberOfPairs(
        "EER, the mean of both rates at the two points of roc_curve around their crossing", _mean_error_rate
    ),
    "best_f1": _NumberOfPairs("F1 at the best threshold of all pairs", _best_f1),
    "accuracy": _NumberOfPairs(
        "accuracy over ten folds", _accuracy, "accuracy_over_folds({distances}, same).accuracy.mean()"
    ),
    "best_accuracy": _NumberOfPairs("accuracy at the best threshold of all pairs", _best_accuracy),
}
for _rule, _words in (
    ("interpolated", ""),
    ("closest", ", the mean of both rates where they are closest"),
    ("voxceleb", ", the larger rate where both are closest"),
):
    _NUMBERS[f"eer_{_rule}".removesuffix("_interpolated")] = _NumberOfPairs(
        f"EER{_words}", partial(_error_rate, _rule), f"{{counts}}.equal_error_rate({_rule!r}).rate"
    )
for _far in FARS:
    _title = f"TAR at FAR {_far:g}"
    _key = f"tar_at_far_{_far:g}"
    for _rule, _end in (("largest", ""), ("nearest", "_nearest")):
        _NUMBERS[f"{_key}{_end}"] = _NumberOfPairs(
            f"{_title}, {_rule}", partial(_tar, _far, _rule), f"{{counts}}.tar_at_far([{_far:g}], rule={_rule!r})"
        )
    _NUMBERS |= {
        f"{_key}_interpolated": _NumberOfPairs(
            f"{_title}, interpolated", partial(_tar_between, _far), f"numpy.interp({_far:g}, *{{counts}}.roc()[:2])"
        ),
        f"fnmr_at_fmr_{_far:g}": _NumberOfPairs(
            f"FNMR at FMR {_far:g}, with an interpolated threshold", partial(_miss_rate, _far)
        ),
        f"frr_at_far_{_far:g}": _NumberOfPairs(
            f"FRR at FAR {_far:g}, at the score of an impostor", partial(_impostor_reject_rate, _far)
        ),
        f"trr_at_frr_{_far:g}": _NumberOfPairs(
            f"true reject rate at a false reject rate of {_far:g}", partial(_reject_rate, _far)
        ),
    }
for _target in TARGETS:
    _title = f"minDCF, p_target {_target:g}"
    _call = f"{{counts}}.min_dcf({_target:g})"
    _NUMBERS |= {
        f"min_dcf_{_target:g}": _NumberOfPairs(_title, partial(_cost, _target, 1.0), _call),
        f"min_dcf_{_target:g}_undivided": _NumberOfPairs(
            f"{_title}, not divided", partial(_cost, _target, _target), f"{_call} * {_target:g}"
        ),
    }


class ScoredPairNumbers(Numbers):
    """Numbers from the scores of pairs."""

    changes = PAIR_CHANGES
    reports = ("auc", "eer", "tar_at_far_0.001", "min_dcf_0.05")

    def __init__(self, _: Any, pairs: ComparedPairs, __: World) -> None:
        """Take the pairs that results were computed from."""
        self.pairs = pairs

    @cached_property
    def _orders(self) -> dict[bool, tuple[Verification, ComparedPairs]]:
        """Counts and pairs, by whether the scores are opposite."""
        opposite = self.pairs._replace(scores=-self.pairs.scores)
        return {
            is_opposite: (count_given_pairs(pairs.scores, pairs.same), pairs)
            for is_opposite, pairs in ((False, self.pairs), (True, opposite))
        }

    def check_report(self, name: str) -> None:
        """Raise unless there is a number with a name."""
        _checks.one_of("measure", name, _NUMBERS)

    def other_reports(self) -> list[str]:
        """Return the names of all numbers."""
        return list(_NUMBERS)

    def value(self, report: Any, options: Mapping[str, Any]) -> float:
        """Return a number."""
        return float(_NUMBERS[report].compute(*self._orders["scores" in options]))

    def title(self, report: Any) -> str:
        """Return the title of a number."""
        return _NUMBERS[report].title

    def call(self, report: Any, options: Mapping[str, Any]) -> str:
        """Return the line that computes a number here."""
        are_distances = self.pairs.given == "distances"
        name = "distances" if are_distances else "scores"
        is_opposite = "scores" in options
        arguments = f"None, same, distances={name}" if are_distances != is_opposite else f"{name}, same"
        sign = "-" if is_opposite else ""
        distances = f"{sign}distances"
        if not are_distances:
            distances = f"2 - 2 * {sign}scores"
        return _NUMBERS[report].call.format(counts=f"verify_pairs({arguments})", distances=distances)
