"""Numbers of given pairs under other conventions, and the known evaluators of verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.diagnosis.causes import held
from reid_torchmetrics.functional.world import World
from reid_torchmetrics.tasks.verification import ComparedPairs, Verification, count_given_pairs, find_accuracies

from .rows import NO_OPTION, ConventionChange, KnownEvaluator

_FARS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_TARGETS = (0.001, 0.01, 0.05)
_NUM_FOLDS = 10  # of LFW's accuracy


class _NumberOfPairs(NamedTuple):
    title: str
    call: str
    """the line that computes it here, from {counts} of `verify_pairs` or {distances}"""
    compute: Callable[[Verification, ComparedPairs], Tensor | float]


def _accuracy(_: Verification, pairs: ComparedPairs) -> Tensor:
    distances = -pairs.scores if pairs.given == "distances" else 2 - 2 * pairs.scores
    return find_accuracies(distances, pairs.same, folds=_NUM_FOLDS).accuracy.mean()


def _best_accuracy(counts: Verification, _: ComparedPairs) -> Tensor:
    num_correct = counts.num_genuine_at + counts.num_impostors - counts.num_impostors_at
    num_pairs = counts.num_genuine + counts.num_impostors
    return num_correct.max().clamp(min=counts.num_impostors) / num_pairs


def _best_f1(counts: Verification, _: ComparedPairs) -> Tensor:
    impostors, genuine = _points(counts)
    f1: Tensor = 2 * genuine / (genuine + impostors + counts.num_genuine)
    return f1.max()


def _points(counts: Verification) -> tuple[Tensor, Tensor]:
    """Return accepted impostors and accepted genuine pairs at every score, after a point without both."""
    held("scores of impostors", counts.all_scores)
    impostors, genuine, _ = counts._points()  # noqa: SLF001 - of the same package
    return impostors, genuine


def _kept_rates(counts: Verification) -> tuple[Tensor, Tensor]:
    """Return FAR and TAR at the points of scikit-learn's `roc_curve`."""
    held("scores of impostors", counts.all_scores)
    far, tar, _ = counts._kept_corners()  # noqa: SLF001 - of the same package
    return far, tar


def _check_kinds(counts: Verification) -> None:
    """Raise unless there are pairs of both kinds, so that no error rate is divided by 0."""
    if not counts.is_defined:
        raise ValueError("`same` must be True for some pairs and False for others.")


def _smaller_error_rate(counts: Verification, _: ComparedPairs) -> Tensor:
    """Return the smaller mean of FAR and FRR at the two scores around their crossing."""
    _check_kinds(counts)
    impostors, genuine = _points(counts)
    num_pairs = counts.num_genuine * counts.num_impostors
    far = impostors * counts.num_genuine  # times all pairs, in integers
    frr = num_pairs - genuine * counts.num_impostors
    crossing = int((far >= frr).nonzero()[0, 0])
    is_equal = bool(far[crossing] == frr[crossing])
    sums = (far + frr)[crossing - (not is_equal) : crossing + 1]
    return sums.min().double() / (2 * num_pairs)


def _mean_error_rate(counts: Verification, _: ComparedPairs) -> Tensor:
    """Return the mean of FAR and FRR at the two points of scikit-learn's `roc_curve` around their crossing."""
    _check_kinds(counts)
    far, tar = _kept_rates(counts)
    crossing = int((far > 1 - tar).nonzero()[0, 0])
    return (far + 1 - tar)[crossing - 1 : crossing + 1].mean() / 2


def _miss_rate(far: float, counts: Verification, pairs: ComparedPairs) -> float:
    _check_kinds(counts)
    scores = pairs.scores.double().cpu().numpy()
    same = pairs.same.cpu().numpy()
    return float(np.mean(scores[same] <= np.quantile(scores[~same], 1 - far)))


def _reject_rate(frr: float, _: Verification, pairs: ComparedPairs) -> Tensor:
    """Return the rate at the first point of scikit-learn's `roc_curve` with the nearest false reject rate."""
    rates, reject_rates = _kept_rates(count_given_pairs(-pairs.scores, ~pairs.same))
    nearest: Tensor = reject_rates[(rates - frr).abs().argmin()]
    return nearest


def _tar(far: float, rule: Any, counts: Verification, _: ComparedPairs) -> Tensor:
    return counts.tar_at_far([far], rule=rule)[0]


def _tar_between(far: float, counts: Verification, _: ComparedPairs) -> float:
    curve = counts.roc()
    return float(np.interp(far, curve.false_accept_rate.cpu().numpy(), curve.true_accept_rate.cpu().numpy()))


def _cost(target: float, factor: float, counts: Verification, _: ComparedPairs) -> Tensor:
    return factor * counts.min_dcf(target)


_NUMBERS: dict[str, _NumberOfPairs] = {
    "auc": _NumberOfPairs("AUC", "{counts}.area_under_curve()", lambda counts, _: counts.area_under_curve()),
    "average_precision": _NumberOfPairs(
        "average precision",
        "{counts}.average_precision(ties='grouped')",
        lambda counts, _: counts.average_precision(ties="grouped"),
    ),
    "eer": _NumberOfPairs("EER", "{counts}.equal_error_rate().rate", lambda counts, _: counts.equal_error_rate().rate),
    "eer_closest": _NumberOfPairs(
        "EER, the mean of both rates where they are closest",
        "{counts}.equal_error_rate('closest').rate",
        lambda counts, _: counts.equal_error_rate("closest").rate,
    ),
    "eer_voxceleb": _NumberOfPairs(
        "EER, the larger rate where both are closest",
        "{counts}.equal_error_rate('voxceleb').rate",
        lambda counts, _: counts.equal_error_rate("voxceleb").rate,
    ),
    "eer_smaller": _NumberOfPairs(
        "EER, the smaller mean of both rates beside their crossing", NO_OPTION, _smaller_error_rate
    ),
    "eer_mean": _NumberOfPairs(
        "EER, the mean of both rates at the two points of roc_curve around their crossing", NO_OPTION, _mean_error_rate
    ),
    "best_f1": _NumberOfPairs("F1 at the best threshold of all pairs", NO_OPTION, _best_f1),
    "accuracy": _NumberOfPairs(
        "accuracy over ten folds", "accuracy_over_folds({distances}, same).accuracy.mean()", _accuracy
    ),
    "best_accuracy": _NumberOfPairs("accuracy at the best threshold of all pairs", NO_OPTION, _best_accuracy),
}
for _far in _FARS:
    for _rule in ("largest", "nearest"):
        _NUMBERS[f"tar_at_far_{_far:g}_{_rule}".removesuffix("_largest")] = _NumberOfPairs(
            f"TAR at FAR {_far:g}, {_rule}",
            f"{{counts}}.tar_at_far([{_far:g}], rule={_rule!r})",
            partial(_tar, _far, _rule),
        )
    _NUMBERS[f"tar_at_far_{_far:g}_interpolated"] = _NumberOfPairs(
        f"TAR at FAR {_far:g}, interpolated",
        f"numpy.interp({_far:g}, *{{counts}}.roc()[:2])",
        partial(_tar_between, _far),
    )
    _NUMBERS[f"fnmr_at_fmr_{_far:g}"] = _NumberOfPairs(
        f"FNMR at FMR {_far:g}, with an interpolated threshold", NO_OPTION, partial(_miss_rate, _far)
    )
    _NUMBERS[f"trr_at_frr_{_far:g}"] = _NumberOfPairs(
        f"true reject rate at a false reject rate of {_far:g}", NO_OPTION, partial(_reject_rate, _far)
    )
for _target in _TARGETS:
    _NUMBERS[f"min_dcf_{_target:g}"] = _NumberOfPairs(
        f"minDCF, p_target {_target:g}", f"{{counts}}.min_dcf({_target:g})", partial(_cost, _target, 1.0)
    )
    _NUMBERS[f"min_dcf_{_target:g}_undivided"] = _NumberOfPairs(
        f"minDCF, p_target {_target:g}, not divided",
        f"{{counts}}.min_dcf({_target:g}) * {_target:g}",
        partial(_cost, _target, _target),
    )

PAIR_CHANGES = (ConventionChange("scores", "opposite", "lower scores are closer, as for distances"),)
"""the conventions of pairs; most are numbers of their own"""


class ScoredPairNumbers:
    """Numbers from the scores of pairs."""

    reports = ("auc", "eer", "tar_at_far_0.001", "min_dcf_0.05")
    cutoffs = ()
    tries_pairs = True

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

    def changes(self) -> tuple[ConventionChange, ...]:
        """Return the conventions of pairs."""
        return PAIR_CHANGES

    def differing(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options, all of which have an effect."""
        return dict(options)

    def value(self, report: Any, options: Mapping[str, Any]) -> float:
        """Return a number."""
        return float(_NUMBERS[report].compute(*self._orders["scores" in options]))

    def is_share(self, _: Any) -> bool:
        """Return True."""
        return True

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


PAIR_EVALUATORS = (
    KnownEvaluator(
        "scikit-learn",
        "1.9.1",
        "metrics.roc_auc_score, average_precision_score",
        "equal scores are one step of the curve",
        ("pairs/*/sklearn/auc", "pairs/*/sklearn/average_precision"),
        {
            "roc_auc_score": "auc",
            "average_precision_score": "average_precision",
            "EER of roc_curve, interpolated": "eer",
            **{f"tpr[fpr <= {far:g}][-1] of roc_curve": f"tar_at_far_{far:g}" for far in _FARS},
            **{f"numpy.interp({far:g}, *roc_curve)": f"tar_at_far_{far:g}_interpolated" for far in _FARS},
        },
    ),
    KnownEvaluator(
        "torchmetrics.classification",
        "1.9.0",
        "BinaryEER",
        "the mean of both error rates where they are closest",
        ("pairs/*/torchmetrics/BinaryEER",),
        {"BinaryEER": "eer_closest", "BinaryAUROC": "auc"},
    ),
    KnownEvaluator(
        "pyeer and audmetric",
        "pyeer 0.5.6, audmetric 1.4.2",
        "get_eer_stats; equal_error_rate",
        "the smaller mean of both error rates at the two scores around their crossing",
        ("pairs/*/pyeer/eer", "pairs/*/audmetric/equal_error_rate"),
        {"EER": "eer_smaller"},
    ),
    KnownEvaluator(
        "speechbrain",
        "1.1.2",
        "speechbrain.utils.metric_stats.EER",
        "the mean of both error rates where they are closest; rounding in float32 decides between equally close scores",
        ("pairs/*/speechbrain/EER",),
        {"EER": "eer_closest"},
    ),
    KnownEvaluator(
        "pyannote.metrics",
        "4.2.0",
        "binary_classification.det_curve",
        "the mean of both error rates at the two points of scikit-learn's roc_curve around their crossing",
        ("pairs/*/pyannote/eer",),
        {"EER": "eer_mean"},
    ),
    KnownEvaluator(
        "sentence-transformers",
        "6.2.0",
        "BinaryClassificationEvaluator",
        "accuracy and F1 are those at their best threshold on the same pairs",
        tuple(f"pairs/*/sentence-transformers/dot_{name}" for name in ("accuracy", "f1", "ap")),
        {"accuracy": "best_accuracy", "f1": "best_f1", "ap": "average_precision"},
    ),
    KnownEvaluator(
        "VoxCeleb",
        "clovaai/voxceleb_trainer f51bab8",
        "tuneThreshold.py: tuneThresholdfromScore, ComputeMinDcf",
        "the EER is the larger rate at a point of scikit-learn's roc_curve",
        ("pairs/*/voxceleb/eer_percent", "pairs/*/voxceleb/mindcf_0.05"),
        {"EER": "eer_voxceleb", **{f"minDCF {target:g}": f"min_dcf_{target:g}" for target in _TARGETS}},
    ),
    KnownEvaluator(
        "insightface",
        "deepinsight/insightface 7fadd42",
        "ijb_evals.py: plot_roc_and_calculate_tpr",
        "TAR at the FAR nearest to the one asked for, which may be larger",
        ("pairs/*/ijb_11/tar_1e-6_to_1e-1", "pairs/*/ijb_11/auc"),
        {"AUC": "auc", **{f"TAR at FAR {far:g}": f"tar_at_far_{far:g}_nearest" for far in _FARS}},
    ),
    KnownEvaluator(
        "LFW",
        "deepinsight/insightface 7fadd42, davidsandberg/facenet 096ed77",
        "verification.py: evaluate; facenet.py: calculate_roc",
        "mean accuracy of ten folds, each at the best threshold of the other nine on a grid of 0.01",
        ("pairs/*/lfw_accuracy/accuracy", "pairs/*/lfw_scipy14/accuracy", "pairs/*/facenet/accuracy_0"),
        {"accuracy": "accuracy"},
    ),
    KnownEvaluator(
        "open-metric-learning",
        "OML-Team/open-metric-learning 6be182e",
        "oml/functional/metrics.py: calc_fnmr_at_fmr",
        "the threshold is interpolated between scores of two impostors",
        ("pairs/*/oml/fnmr_at_fmr_0.001_0.01_0.1",),
        {f"fnmr@fmr {far:g}": f"fnmr_at_fmr_{far:g}" for far in _FARS},
    ),
    KnownEvaluator(
        "fast-reid",
        "JDAI-CV/fast-reid c9bc3ce",
        "fastreid/evaluation/roc.py: evaluate_roc_py",
        "pairs of two identities are the positives, so that it is the true reject rate at a false reject rate",
        ("pairs/*/fastreid_roc/TPR_at_FPR_1e-4_1e-3_1e-2",),
        {f"TPR@FPR={frr:g}": f"trr_at_frr_{frr:g}" for frr in (1e-4, 1e-3, 1e-2)},
    ),
)
"""the registry of verification"""
