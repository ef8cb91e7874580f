"""Verification: whether two items have the same identity.

A pair is accepted if it scores at least a threshold. The false accept rate FAR (or FMR) is the share of impostors that
are accepted. The true accept rate TAR (or 1 - FNMR) is the share of genuine pairs that are accepted, and FRR = 1 - TAR.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.displays import Display, Displayed, counted, displayed
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores

from .scored_pairs import ScoredPairs, impostor_quantiles

PAIR_TIES = {name: policy for name, policy in TIE_POLICIES.items() if policy.by_place is None and not policy.averages}
"""policies of `TIE_POLICIES` that need counts alone; a genuine pair is a positive, an impostor a negative"""
_SHOWN_RATES = (0.001, 0.0001)
"""the FAR in the text of a `Verification`"""


@displayed
class ReceiverOperatingCharacteristic(NamedTuple):
    """Corners of the ROC curve, from accepting nothing to accepting everything; the curve is straight between them."""

    false_accept_rate: Float[Tensor, " corners"]
    true_accept_rate: Float[Tensor, " corners"]
    thresholds: Float[Tensor, " corners"]
    """the smallest accepted score; infinity at the start, where nothing is accepted"""


class EqualErrorRate(NamedTuple):
    """Equal error rate (EER): the rate at which FAR = FRR."""

    rate: Float[Tensor, ""]
    threshold: Float[Tensor, ""]
    """threshold at the first corner of the curve with FAR >= FRR"""


class NonMatchRates(NamedTuple):
    """FNMR at each FMR."""

    rates: Float[Tensor, " rates"]
    thresholds: Float[Tensor, " rates"]
    """the largest score of a genuine pair that is missed"""


class CountsAtScores(NamedTuple):
    """Counts of pairs at every distinct score, descending."""

    thresholds: Float[Tensor, " scores"]
    num_genuine_at: Int[Tensor, " scores"]
    """genuine pairs that score at least the threshold"""
    num_impostors_at: Int[Tensor, " scores"]
    """impostors that score at least the threshold"""


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Displayed):
    """Counts of pairs at every distinct score of a genuine pair, in descending order of the score.

    Between two of these scores only the number of impostors changes. Every corner of the ROC curve is therefore known,
    and all measures are exact. They are float64, and NaN if there is no genuine pair or no impostor.
    """

    thresholds: Float[Tensor, " thresholds"]
    """distinct scores of genuine pairs, descending"""
    num_genuine_at: Int[Tensor, " thresholds"]
    """genuine pairs that score at least the threshold"""
    num_impostors_at: Int[Tensor, " thresholds"]
    """impostors that score at least the threshold"""
    num_impostors_above: Int[Tensor, " thresholds"]
    """impostors that score more than the threshold"""
    num_genuine: int
    num_impostors: int
    all_scores: CountsAtScores | None = None
    """counts at every distinct score of any pair; None where the scores of impostors are not kept, as by `verify`"""

    @property
    def is_defined(self) -> bool:
        """Whether there is a genuine pair and an impostor; the rates are NaN otherwise."""
        return self.num_genuine > 0 and self.num_impostors > 0

    def _display(self) -> Display:
        rate = self.equal_error_rate()
        numbers = {"AUC": self.area_under_curve(), "EER": rate.rate}
        for far, tar in zip(_SHOWN_RATES, self.tar_at_far(_SHOWN_RATES), strict=True):
            numbers[f"TAR at FAR {far:g}"] = tar
        rows = [(name, f"{float(value):.4f}") for name, value in numbers.items()]
        title = f"Verification: {counted(self.num_genuine, 'genuine pair')}, {counted(self.num_impostors, 'impostor')}"
        return Display(title, rows=rows)

    def roc(self) -> ReceiverOperatingCharacteristic:
        """Return FAR and TAR at the corners of the curve: just above, and at, every distinct score of a genuine pair.

        Corners may coincide. scikit-learn's `roc_curve` describes the same curve, with more or fewer points on it.
        """
        num_impostors, num_genuine, thresholds = self._corners()
        far = num_impostors.double() / self.num_impostors
        tar = num_genuine.double() / self.num_genuine
        return ReceiverOperatingCharacteristic(far, tar, thresholds)

    def roc_points(self) -> ReceiverOperatingCharacteristic:
        """Return FAR and TAR at the points that scikit-learn's `roc_curve` keeps: none between two equal steps.

        The corners of the curve are among them, or, if there are no pairs of both kinds, they are all. `verify` keeps
        no scores of impostors: there impostors between two genuine scores are taken to differ.
        """
        if not self.is_defined:
            return self.roc()
        num_impostors, num_genuine, thresholds = self._points()
        steps = torch.stack([num_impostors, num_genuine], 1).diff(dim=0)
        is_new = steps.any(1)
        if self.all_scores is None:
            steps[steps[:, 1] == 0, 0] = 1  # several steps of one impostor each
        steps = steps[is_new]
        is_kept = functional.pad((steps[1:] != steps[:-1]).any(1), (0, 1), value=True)
        is_kept[0] = True
        kept = functional.pad(is_new.nonzero()[is_kept, 0] + 1, (1, 0))
        far = num_impostors[kept].double() / self.num_impostors
        tar = num_genuine[kept].double() / self.num_genuine
        return ReceiverOperatingCharacteristic(far, tar, thresholds[kept])

    def tar_at_far(self, far: Sequence[float], rule: _names.TarRule = "largest") -> Float[Tensor, " rates"]:
        """Return the largest TAR of all thresholds with a FAR of at most each of `far`, without interpolation.

        Under the rule "nearest" it is the largest TAR among the points of scikit-learn's `roc_curve` with the FAR
        closest to each of `far`, even if this FAR is larger. insightface evaluates IJB-B and IJB-C by this rule.
        `verify` keeps no scores of impostors: there impostors between two genuine scores are taken to differ.

        Source: Phillips, Grother and Micheals, "Evaluation Methods in Face Recognition", Handbook of Face
        Recognition, 2005.

        Raises:
            TypeError: `far` is not a sequence of floats.
            ValueError: one of them is outside [0, 1], or an unknown rule.
        """
        _checks.one_of("rule", rule, _names.TarRule)
        _checks.fractions("far", far, may_be_empty=True)
        if rule == "nearest" and self.is_defined:
            roc = self.roc_points()
            distance = (roc.false_accept_rate - roc.false_accept_rate.new_tensor(far)[:, None]).abs()
            is_nearest = distance == distance.amin(1, keepdim=True)
            return roc.true_accept_rate.expand_as(distance).where(is_nearest, 0.0).amax(1)
        num_accepted = functional.pad(self.num_genuine_at, (1, 0))[self._num_thresholds_at_far(far)]
        return self._where_defined(num_accepted.double() / self.num_genuine)

    def threshold_at_far(self, far: Sequence[float]) -> Float[Tensor, " rates"]:
        """Return the highest threshold with `tar_at_far` by the rule "largest"; infinity where TAR is 0.

        It is the score of a genuine pair.

        Raises:
            TypeError: `far` is not a sequence of floats.
            ValueError: one of them is outside [0, 1].
        """
        thresholds = functional.pad(self.thresholds.double(), (1, 0), value=torch.inf)
        return self._where_defined(thresholds[self._num_thresholds_at_far(far)])

    def min_dcf(self, p_target: float, c_miss: float = 1.0, c_false_alarm: float = 1.0) -> Float[Tensor, ""]:
        """Return the minimum detection cost: the minimum of c_miss p FRR + c_false_alarm (1 - p) FAR, p = `p_target`.

        It is divided by min(c_miss p, c_false_alarm (1 - p)), the smaller cost of accepting nothing and of accepting
        everything, and so is at most 1. Evaluators that put a threshold between tied scores give other costs.

        Source: NIST 2018 Speaker Recognition Evaluation Plan.

        Raises:
            TypeError: an argument that is no number.
            ValueError: `p_target` is not between 0 and 1, or a cost is not finite and above 0.
        """
        _checks.nonnegative("p_target", p_target)
        if not 0 < p_target < 1:
            raise ValueError(f"`p_target` must be between 0 and 1; got {p_target}.")
        for name, cost in (("c_miss", c_miss), ("c_false_alarm", c_false_alarm)):
            _checks.nonnegative(name, cost)
            if cost == 0:
                raise ValueError(f"`{name}` must be above 0; got {cost}.")
        far, tar, _ = self.roc()
        miss_weight = c_miss * p_target
        false_alarm_weight = c_false_alarm * (1 - p_target)
        costs = miss_weight * (1 - tar) + false_alarm_weight * far
        return self._where_defined(costs.min() / min(miss_weight, false_alarm_weight))

    def equal_error_rate(self, rule: _names.EerRule = "interpolated") -> EqualErrorRate:
        """Return the EER, the rate at which FAR = FRR on the ROC curve.

        FAR and FRR are step functions of the threshold and need not be equal at any threshold. The straight lines
        between the corners of the curve cross FAR = FRR exactly once, and so does the interpolation of scikit-learn's
        `roc_curve`.

        Under the rule "closest" it is (FAR + FRR) / 2 at the score of a pair where both are closest, the highest such
        score, as in TorchMetrics' `BinaryEER`. pyeer and audmetric take the smaller mean at the two scores around the
        crossing, which may be that of the other score.

        Under the rule "voxceleb" the rate is the larger of FAR and FRR at the point of scikit-learn's `roc_curve` where
        both are closest, as in the code of the VoxCeleb challenges; points that `roc_curve` drops do not count. In
        counts by `verify`, impostors between two genuine scores are taken to differ.

        Raises:
            ValueError: an unknown rule, or "closest" for counts by `verify`, which keeps no scores of impostors.
        """
        _checks.one_of("rule", rule, _names.EerRule)
        if not self.is_defined:
            rate, threshold = torch.full((2,), torch.nan, dtype=torch.float64, device=self.thresholds.device)
            return EqualErrorRate(rate, threshold)
        if rule == "closest":
            if self.all_scores is None:
                raise ValueError(
                    "`rule` must be 'interpolated' or 'voxceleb' for counts by `verify`, which keeps no scores of"
                    " impostors; got 'closest': pass the pairs to `verify_pairs`."
                )
            thresholds, num_genuine_at, num_impostors_at = self.all_scores
            scaled_far = num_impostors_at * self.num_genuine
            scaled_frr = (self.num_genuine - num_genuine_at) * self.num_impostors
            closest = (scaled_far - scaled_frr).abs().argmin()
            twice_rate = (scaled_far + scaled_frr)[closest].double()
            rate = twice_rate / (2 * self.num_genuine * self.num_impostors)
            return EqualErrorRate(rate, thresholds[closest].double())
        if rule == "voxceleb":
            far, tar, thresholds = self.roc_points()
            frr = 1 - tar
            closest = (frr - far).abs().sort(stable=True).indices[0]
            return EqualErrorRate(torch.maximum(far, frr)[closest], thresholds[closest])
        return self._interpolated_equal_error_rate()

    def _interpolated_equal_error_rate(self) -> EqualErrorRate:
        """Return the rate at the crossing of FAR = FRR with the straight line between two corners."""
        impostors, genuine, thresholds = self._corners()
        num_pairs = self.num_genuine * self.num_impostors

        def scaled_errors(corner: int) -> tuple[int, int]:
            """Return FAR and FRR, times `num_pairs`, as integers of Python, which do not overflow."""
            far = int(impostors[corner]) * self.num_genuine
            frr = (self.num_genuine - int(genuine[corner])) * self.num_impostors
            return far, frr

        def difference(corner: int) -> int:
            far, frr = scaled_errors(corner)
            return far - frr

        # FAR - FRR ascends from corner to corner, from -1 at the first corner.
        corner = bisect_left(range(len(genuine)), 0, key=difference)
        previous_far, previous_frr = scaled_errors(corner - 1)
        far, frr = scaled_errors(corner)
        numerator = far * previous_frr - previous_far * frr
        rate = numerator / ((far - previous_far + previous_frr - frr) * num_pairs)
        return EqualErrorRate(thresholds.new_tensor(rate), thresholds[corner])

    def area_under_curve(self) -> Float[Tensor, ""]:
        """Return AUC = P(genuine > impostor) + P(genuine = impostor) / 2, the area under the ROC curve.

        Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC)
        curve", Radiology 1982.
        """
        # A genuine pair loses 1 to an impostor above it and 1/2 to a tied impostor. Twice that is an integer, and int64
        # is enough for 10^9 genuine pairs and 4 * 10^9 impostors.
        twice_lost = self._num_genuine_here() * (self.num_impostors_at + self.num_impostors_above)
        num_pairs = self.num_genuine * self.num_impostors
        area = torch.nan
        if num_pairs > 0:
            area = (2 * num_pairs - int(twice_lost.sum())) / (2 * num_pairs)
        return torch.tensor(area, dtype=torch.float64, device=twice_lost.device)

    def average_precision(self, *, ties: _names.TieName = "pessimistic") -> Float[Tensor, ""]:
        """Return the micro average precision: the AP, by the rule "rectangle", of one list of all pairs.

        Unlike mAP it needs scores that are comparable between queries. Ties are as in `PAIR_TIES`; "grouped" gives
        scikit-learn's `average_precision_score`. Without impostors it is 1, without genuine pairs NaN.

        Source: Douze et al., "The 2021 Image Similarity Dataset and Challenge", 2021.

        Raises:
            ValueError: an unknown `ties`.
        """
        _checks.one_of("ties", ties, PAIR_TIES)
        policy = PAIR_TIES[ties]
        num_here = self._num_genuine_here()
        num_impostors = self.num_impostors_above if policy.positives_first else self.num_impostors_at
        num_false = num_impostors.repeat_interleave(num_here)
        if policy.groups:
            num_true = self.num_genuine_at.repeat_interleave(num_here)
        else:
            num_true = torch.arange(1, self.num_genuine + 1, device=num_here.device)
        precision = num_true.double() / (num_true + num_false)
        return precision.mean()

    def _points(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return accepted impostors, accepted genuine pairs and threshold at every score, after a point without both.

        Without `all_scores`, impostors between two genuine scores are taken to have different scores. Of their points
        only the last one is returned, and the one of the highest impostor, which scikit-learn keeps.
        """
        if self.all_scores is None:
            num_impostors, num_genuine, thresholds = self._corners()
            if int(num_impostors[1]) > 1:  # the score of the highest impostor is not known
                num_impostors = torch.cat([num_impostors[:1], num_impostors.new_ones(1), num_impostors[1:]])
                num_genuine = functional.pad(num_genuine, (1, 0))
                thresholds = torch.cat([thresholds[:1], thresholds])
            return num_impostors, num_genuine, thresholds
        thresholds, num_genuine, num_impostors = self.all_scores
        thresholds = functional.pad(thresholds.double(), (1, 0), value=torch.inf)
        return functional.pad(num_impostors, (1, 0)), functional.pad(num_genuine, (1, 0)), thresholds

    def _num_genuine_here(self) -> Int[Tensor, " thresholds"]:
        """Return the number of genuine pairs with exactly the score of each threshold."""
        return self.num_genuine_at.diff(prepend=self.num_genuine_at.new_zeros(1))

    def _corners(self) -> tuple[Int[Tensor, " corners"], Int[Tensor, " corners"], Float[Tensor, " corners"]]:
        """Return the accepted impostors, the accepted genuine pairs and the threshold at every corner.

        Each threshold has two corners, just above it and at it. The first corner accepts nothing, the last everything.
        """
        genuine_above = self.num_genuine_at - self._num_genuine_here()
        just_above = self.thresholds.nextafter(torch.full_like(self.thresholds, torch.inf))
        return (
            _values_at_corners(0, self.num_impostors_above, self.num_impostors_at, self.num_impostors),
            _values_at_corners(0, genuine_above, self.num_genuine_at, self.num_genuine),
            _values_at_corners(torch.inf, just_above.double(), self.thresholds.double(), -torch.inf),
        )

    def _num_thresholds_at_far(self, far: Sequence[float]) -> Int[Tensor, " rates"]:
        """Return the number of thresholds with a FAR of at most each of `far`."""
        _checks.fractions("far", far, may_be_empty=True)
        # The quotient k / n is the same float64 as a user's k / n; a product `far` * n could be rounded.
        rates = self.num_impostors_at.double() / self.num_impostors
        limits = torch.tensor(far, dtype=torch.float64, device=rates.device)
        return torch.searchsorted(rates, limits, right=True)

    def _where_defined(self, values: Float[Tensor, "*rates"]) -> Float[Tensor, "*rates"]:
        """Return the values, or NaN if there is no genuine pair or no impostor."""
        return values if self.is_defined else torch.full_like(values, torch.nan)


def _values_at_corners(first: Any, above: Tensor, at: Tensor, last: Any) -> Tensor:
    """Return the values just above and at each threshold in turns, between the values of the outer corners."""
    inner = torch.stack([above, at], 1).flatten()
    return torch.cat([inner.new_tensor([first]), inner, inner.new_tensor([last])])


@torch.no_grad()
def verify(scores: Scores, relevance: Relevance) -> Verification:
    """Count genuine and impostor pairs over all queries; junk is neither.

    Scores must be comparable between queries. This holds for scores of embeddings ("euclidean" is minus the distance),
    and is assumed for given scores and for a user's similarity.

    Few genuine scores are looked up first, and then every score is computed once; with many genuine pairs, or a user's
    similarity, every score is computed twice. In leave-one-out problems both directions of a pair share one product.
    The scores of all genuine pairs are held at once, and the scores of the others within `scores.max_bytes`.

    Raises:
        ValueError: a score of a pair that is not junk is NaN.
    """
    pairs = ScoredPairs(scores, relevance)
    return count_pairs(pairs.genuine_scores(), pairs.num_impostors(), pairs.count_impostors)


def count_pairs(
    genuine: Float[Tensor, " genuine"], num_impostors: int, count_impostors: Callable[[Tensor], Iterable[Tensor]]
) -> Verification:
    """Count pairs at every distinct score of a genuine pair.

    Args:
        genuine: scores of all genuine pairs, ascending.
        num_impostors: number of impostors.
        count_impostors: returns the numbers of impostors that score at least, and more than, each threshold.
    """
    distinct, num_repeats = genuine.unique_consecutive(return_counts=True)
    thresholds = distinct.flip(0)
    num_impostors_at, num_impostors_above = count_impostors(thresholds)
    return Verification(
        thresholds=thresholds,
        num_genuine_at=num_repeats.flip(0).cumsum(0),
        num_impostors_at=num_impostors_at,
        num_impostors_above=num_impostors_above,
        num_genuine=len(genuine),
        num_impostors=num_impostors,
    )


@torch.no_grad()
def fnmr_at_fmr(scores: Scores, relevance: Relevance, fmr: Sequence[float]) -> NonMatchRates:
    """Return FNMR = P(genuine <= T), with the threshold T that the share `fmr` of the impostors exceeds.

    T is interpolated linearly between the scores of two impostors; see `impostor_quantiles`. This is
    open-metric-learning's definition. `Verification.tar_at_far` does not interpolate, and accepts pairs at the
    threshold. Every score is computed twice in float32, four times in float64, and once more if genuine pairs are many.
    The rates are NaN without genuine pairs or without impostors.

    Args:
        scores: as for `verify`.
        relevance: positives, negatives and junk.
        fmr: shares of impostors, each in [0, 1].

    Raises:
        TypeError: `fmr` is not a sequence of floats.
        ValueError: one of them is outside [0, 1], or a score of a pair that is not junk is NaN.
    """
    _checks.fractions("fmr", fmr, may_be_empty=True)
    pairs = ScoredPairs(scores, relevance)
    genuine = pairs.genuine_scores().double()
    thresholds = impostor_quantiles(pairs, fmr)
    num_missed = torch.searchsorted(genuine, thresholds, right=True)
    rates = num_missed.double() / len(genuine)
    return NonMatchRates(torch.where(thresholds.isnan(), torch.nan, rates), thresholds)
