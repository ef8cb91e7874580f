"""Verification over all query-gallery pairs, or over given pairs: are the two of one identity?

A pair is accepted if it scores at least a threshold. The false accept rate FAR is the share of impostors that are
accepted, the true accept rate TAR that of genuine pairs, and FRR = 1 - TAR. They are also called FMR, and 1 - FNMR.

Given pairs, one score each, are the benchmarks of faces, speakers and kinship. The protocol of LFW cuts them into
folds, in their order, and judges each fold by a threshold on the distance that the other folds choose from a grid.

Recognition has one prediction for each query, judged over all queries together.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores

from .scored_pairs import ScoredPairs, impostor_quantiles

PAIR_TIES = {name: policy for name, policy in TIE_POLICIES.items() if policy.by_place is None and not policy.averages}
"""the policies of `TIE_POLICIES` that need counts alone: a genuine pair is a positive, an impostor a negative"""
PREDICTION_TIES = {name: policy for name, policy in TIE_POLICIES.items() if not policy.groups}
"""the policies of `TIE_POLICIES` that order predictions: a correct one is a positive, and its query is its place"""
_LARGEST = 4.0  # squared distance of two unit vectors, where the grid of thresholds ends


class ReceiverOperatingCharacteristic(NamedTuple):
    """The corners of the curve, from accepting nothing to accepting everything; it is straight between them."""

    false_accept_rate: Float[Tensor, " corners"]
    true_accept_rate: Float[Tensor, " corners"]
    thresholds: Float[Tensor, " corners"]
    """a pair that scores at least this is accepted; infinity at the start, where nothing is accepted"""


class EqualErrorRate(NamedTuple):
    """Where both kinds of error are equally frequent."""

    rate: Float[Tensor, ""]
    threshold: Float[Tensor, ""]
    """of the first corner of the curve with FAR >= FRR"""


class NonMatchRates(NamedTuple):
    """FNMR at each of some FMRs."""

    rates: Float[Tensor, " rates"]
    thresholds: Float[Tensor, " rates"]
    """a genuine pair that scores at most this is missed"""


class FoldAccuracies(NamedTuple):
    """The share of each fold's pairs that are judged rightly."""

    accuracy: Float[Tensor, " folds"]
    thresholds: Float[Tensor, " folds"]
    """pairs with a distance below it are taken for pairs of one identity"""


@dataclass(frozen=True, eq=False)
class Verification:
    """Counts of pairs at every distinct score of a genuine pair, best first.

    Between two of these scores only the number of impostors changes, so every corner of the ROC curve is known, and
    all that follows from it is exact. Measures are float64, and NaN where there is no genuine or no impostor pair.
    """

    thresholds: Float[Tensor, " thresholds"]
    """distinct scores of genuine pairs, descending"""
    num_genuine_at: Int[Tensor, " thresholds"]
    """genuine pairs that score at least this"""
    num_impostors_at: Int[Tensor, " thresholds"]
    """impostors that score at least this"""
    num_impostors_above: Int[Tensor, " thresholds"]
    """impostors that score more than this"""
    num_genuine: int
    num_impostors: int

    def roc(self) -> ReceiverOperatingCharacteristic:
        """FAR and TAR at the corners of the curve: just above, and at, every distinct score of a genuine pair.

        Corners may coincide. scikit-learn's `roc_curve` draws the same line, with more or fewer points on it.
        """
        impostors, genuine, thresholds = self._corners()
        rates = impostors.double() / self.num_impostors, genuine.double() / self.num_genuine
        return ReceiverOperatingCharacteristic(*rates, thresholds)

    def tar_at_far(self, far: Sequence[float], rule: _names.TarRule = "largest") -> Float[Tensor, " rates"]:
        """The largest TAR of a threshold with a FAR of at most each of `far`; nothing is interpolated.

        Under the rule "nearest" it is the largest TAR of the points of scikit-learn's `roc_curve` with the FAR closest
        to each of `far`, which it may exceed: the evaluation of IJB-B and IJB-C in insightface.

        Source: Phillips, Grother and Micheals, "Evaluation Methods in Face Recognition", Handbook of Face
        Recognition, 2005.

        Raises:
            TypeError: `far` is not a sequence of floats.
            ValueError: one of them is outside [0, 1], or an unknown rule.
        """
        _checks.one_of("rule", rule, _names.TarRule)
        _checks.fractions("far", far, may_be_empty=True)
        if rule == "nearest" and self.num_genuine and self.num_impostors:
            roc = self._kept_corners()
            distance = (roc.false_accept_rate - roc.false_accept_rate.new_tensor(far)[:, None]).abs()
            is_nearest = distance == distance.amin(1, keepdim=True)
            return roc.true_accept_rate.expand_as(distance).where(is_nearest, 0.0).amax(1)
        accepted = functional.pad(self.num_genuine_at, (1, 0))[self._places_at_far(far)].double()
        return self._where_defined(accepted / self.num_genuine)

    def threshold_at_far(self, far: Sequence[float]) -> Float[Tensor, " rates"]:
        """The highest threshold that reaches `tar_at_far`: the score of a genuine pair, infinity where TAR is 0.

        It is that of the rule "largest".

        Raises:
            TypeError: `far` is not a sequence of floats.
            ValueError: one of them is outside [0, 1].
        """
        thresholds = functional.pad(self.thresholds.double(), (1, 0), value=torch.inf)
        return self._where_defined(thresholds[self._places_at_far(far)])

    def min_dcf(self, p_target: float, c_miss: float = 1.0, c_false_alarm: float = 1.0) -> Float[Tensor, ""]:
        """Minimum detection cost: the least c_miss p FRR + c_false_alarm (1 - p) FAR, p = `p_target`.

        Divided by min(c_miss p, c_false_alarm (1 - p)), what the better of accepting nothing and accepting everything
        costs, so that it is 1 at most. Where scores tie, evaluators that put a threshold between them differ.

        Source: NIST 2018 Speaker Recognition Evaluation Plan.

        Raises:
            TypeError: an argument that is no number.
            ValueError: `p_target` is not between 0 and 1, or a cost is not finite and above 0.
        """
        for name, value in (("p_target", p_target), ("c_miss", c_miss), ("c_false_alarm", c_false_alarm)):
            _checks.nonnegative(name, value)
            if value == 0 or (name == "p_target" and value >= 1):
                limit = "between 0 and 1" if name == "p_target" else "above 0"
                raise ValueError(f"`{name}` must be {limit}; got {value}.")
        far, tar, _ = self.roc()
        miss, false_alarm = c_miss * p_target, c_false_alarm * (1 - p_target)
        return self._where_defined((miss * (1 - tar) + false_alarm * far).min() / min(miss, false_alarm))

    def equal_error_rate(self, rule: _names.EerRule = "interpolated") -> EqualErrorRate:
        """EER, where FAR = FRR on the ROC curve.

        FAR and FRR are steps of the threshold and may not meet at any; the curve's straight lines between its corners
        meet FAR = FRR once, as does interpolating scikit-learn's `roc_curve`. Taking (FAR + FRR) / 2 at the threshold
        where the two are closest, as others do, can give another value.

        Under the rule "voxceleb" it is the larger of both at the point of scikit-learn's `roc_curve`, without those
        that it drops, where they are closest, as in the code of the VoxCeleb challenges.

        Raises:
            ValueError: an unknown rule.
        """
        _checks.one_of("rule", rule, _names.EerRule)
        impostors, genuine, thresholds = self._corners()
        num_genuine, num_impostors = self.num_genuine, self.num_impostors
        if not num_genuine or not num_impostors:
            return EqualErrorRate(*torch.full((2,), torch.nan, dtype=torch.float64, device=impostors.device).unbind())
        if rule == "voxceleb":
            rates, tar, kept_thresholds = self._kept_corners()
            first = (1 - tar - rates).abs().sort(stable=True).indices[0]
            return EqualErrorRate(torch.maximum(rates, 1 - tar)[first], kept_thresholds[first])

        # FAR rises and FRR falls from corner to corner: bisect for the first with FAR >= FRR.
        def errors(corner: int) -> tuple[int, int]:
            """FAR and FRR times all genuine times all impostor pairs; Python's integers do not overflow."""
            return int(impostors[corner]) * num_genuine, (num_genuine - int(genuine[corner])) * num_impostors

        corner = bisect_left(range(len(genuine)), 0, key=lambda place: errors(place)[0] - errors(place)[1])
        # FAR = FRR on the line from the corner before; the first corner has FAR 0 and FRR 1, so there is one.
        (far_before, frr_before), (far, frr) = errors(corner - 1), errors(corner)
        meeting = far * frr_before - far_before * frr
        rate = meeting / ((far - far_before + frr_before - frr) * num_genuine * num_impostors)
        return EqualErrorRate(thresholds.new_tensor(rate), thresholds[corner])

    def area_under_curve(self) -> Float[Tensor, ""]:
        """AUC = P(genuine > impostor) + P(genuine = impostor) / 2, the area under the ROC curve; counted in integers.

        Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC)
        curve", Radiology 1982.
        """
        # A genuine pair loses to an impostor above it, and half to one level with it: counted twice, in integers.
        # int64 is enough for 10^9 genuine pairs against 4 * 10^9 impostors.
        lost = self._num_genuine_here() * (self.num_impostors_at + self.num_impostors_above)
        num_pairs = self.num_genuine * self.num_impostors
        value = (2 * num_pairs - int(lost.sum())) / (2 * num_pairs) if num_pairs else torch.nan
        return torch.tensor(value, dtype=torch.float64, device=lost.device)

    def average_precision(self, *, ties: _names.TieName = "pessimistic") -> Float[Tensor, ""]:
        """Micro average precision: the AP, by rule "rectangle", of one list of all pairs.

        Unlike mAP it wants scores that mean the same for every query. Ties are as in `PAIR_TIES`; "grouped" is
        scikit-learn's `average_precision_score`. Without impostors it is 1, without genuine pairs NaN.

        Source: Douze et al., "The 2021 Image Similarity Dataset and Challenge", 2021.

        Raises:
            ValueError: an unknown `ties`.
        """
        _checks.one_of("ties", ties, PAIR_TIES)
        here, policy = self._num_genuine_here(), PAIR_TIES[ties]
        num_misses = self.num_impostors_above if policy.positives_first else self.num_impostors_at
        one_by_one = torch.arange(1, self.num_genuine + 1, device=here.device)
        num_hits = self.num_genuine_at.repeat_interleave(here) if policy.groups else one_by_one
        return (num_hits.double() / (num_hits + num_misses.repeat_interleave(here))).mean()

    def _kept_corners(self) -> ReceiverOperatingCharacteristic:
        """The points that scikit-learn's `roc_curve` keeps by default: none between two equal steps.

        Of the points at impostors between two genuine scores the last alone is taken for kept; where some of these
        impostors tie, scikit-learn may keep others.
        """
        # Before the step of a threshold there may be impostors alone. A threshold is dropped if its step is that to the
        # next one, with no impostor between, unless it is the very first point.
        at, above = self.num_impostors_at, self.num_impostors_above
        has_before = above > functional.pad(at, (1, 0))[:-1]
        steps = torch.stack([at - above, self._num_genuine_here()], 1)
        is_dropped = (steps[1:] == steps[:-1]).all(1) & ~has_before[1:]
        is_dropped[:1] &= has_before[:1]
        is_kept = torch.stack([has_before, ~functional.pad(is_dropped, (0, 1))], 1).flatten()
        kept = functional.pad(is_kept, (1, 1), value=True)
        # The very first point is kept as well: that of one impostor, at a score that is not known here.
        kept_of = [values[kept] for values in self.roc()]
        if int(above[0]) > 1:
            first = (1 / self.num_impostors, 0.0, torch.inf)
            kept_of = [torch.cat([one.new_tensor([value]), one]) for one, value in zip(kept_of, first, strict=True)]
        return ReceiverOperatingCharacteristic(*kept_of)

    def _num_genuine_here(self) -> Int[Tensor, " thresholds"]:
        return self.num_genuine_at.diff(prepend=self.num_genuine_at.new_zeros(1))

    def _corners(self) -> tuple[Int[Tensor, " corners"], Int[Tensor, " corners"], Float[Tensor, " corners"]]:
        """Accepted impostors, accepted genuine pairs and the threshold at every corner."""
        # Two corners for each threshold, just above it and at it, between the corners of nothing and of everything.
        genuine_above = self.num_genuine_at - self._num_genuine_here()
        just_above = self.thresholds.nextafter(torch.full_like(self.thresholds, torch.inf))
        return (
            _between(0, self.num_impostors_above, self.num_impostors_at, self.num_impostors),
            _between(0, genuine_above, self.num_genuine_at, self.num_genuine),
            _between(torch.inf, just_above.double(), self.thresholds.double(), -torch.inf),
        )

    def _places_at_far(self, far: Sequence[float]) -> Int[Tensor, " rates"]:
        """How many of the thresholds keep FAR within each of `far`."""
        _checks.fractions("far", far, may_be_empty=True)
        # Divided, not multiplied: k / n is the very float64 that a user's k / n is.
        rates = self.num_impostors_at.double() / self.num_impostors
        return torch.searchsorted(rates, torch.tensor(far, dtype=torch.float64, device=rates.device), right=True)

    def _where_defined(self, values: Float[Tensor, "*rates"]) -> Float[Tensor, "*rates"]:
        return values if self.num_genuine and self.num_impostors else torch.full_like(values, torch.nan)


def _between(first: Any, above: Tensor, at: Tensor, last: Any) -> Tensor:
    inner = torch.stack([above, at], 1).flatten()
    return torch.cat([inner.new_tensor([first]), inner, inner.new_tensor([last])])


@torch.no_grad()
def verify(scores: Scores, relevance: Relevance) -> Verification:
    """Count genuine and impostor pairs over all queries, tile by tile; junk is neither.

    Scores must be comparable between queries. Scores of embeddings are, "euclidean" being minus the distance; given
    scores and scores of one's own similarity are taken to be. Every score is computed once, after those of the genuine
    pairs, which are few; twice where they are many, and by one's own similarity. Where each item is a query and a
    gallery item for all others, both directions of a pair share one product. The scores of the genuine pairs are held
    at once, of the others at most `scores.max_bytes`.

    Raises:
        ValueError: a score of a pair that is not junk is NaN.
    """
    pairs = ScoredPairs(scores, relevance)
    return _count_pairs(pairs.genuine_scores(), pairs.num_impostors(), pairs.count_impostors)


@torch.no_grad()
def verify_pairs(
    scores: Float[Tensor, " pairs"] | _checks.Numbers, same: Bool[Tensor, " pairs"] | _checks.Integers
) -> Verification:
    """Count genuine and impostor pairs by their scores, higher is closer; distances enter as `-distances`.

    The counts are those of `verify` for one query that has all pairs.

    Args:
        scores: of each pair.
        same: whether the two of a pair are of one identity.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: lengths or devices that do not fit, a NaN, or no pair of one of the two kinds.

    Example:
        >>> from reid_torchmetrics.functional.retrieval import verify_pairs
        >>> found = verify_pairs([0.9, 0.8, 0.6, 0.4], [True, False, True, False])
        >>> found.tar_at_far([0.0, 0.5]), found.area_under_curve()
        (tensor([0.5000, 1.0000], dtype=torch.float64), tensor(0.7500, dtype=torch.float64))
    """
    scores, same = _checked("scores", scores, same)
    genuine = scores[same].sort().values
    impostors = scores[~same].sort().values
    if not len(genuine) or not len(impostors):
        came = f"{len(genuine)} pairs of one identity and {len(impostors)} of two"
        raise ValueError(f"`same` must be True for some pairs and False for others; got {came}.")

    def count_impostors(thresholds: Tensor) -> tuple[Tensor, Tensor]:
        num_at = len(impostors) - torch.searchsorted(impostors, thresholds)
        num_above = len(impostors) - torch.searchsorted(impostors, thresholds, right=True)
        return num_at, num_above

    return _count_pairs(genuine, len(impostors), count_impostors)


def _count_pairs(
    genuine: Float[Tensor, " genuine"], num_impostors: int, count_impostors: Callable[[Tensor], Iterable[Tensor]]
) -> Verification:
    """Count pairs at every distinct score of a genuine pair.

    Args:
        genuine: the scores of all genuine pairs, ascending.
        num_impostors: their number.
        count_impostors: returns how many impostors score at least, and more than, each of some thresholds.
    """
    distinct, repeats = genuine.unique_consecutive(return_counts=True)
    thresholds, num_genuine_at = distinct.flip(0), repeats.flip(0).cumsum(0)
    num_impostors_at, num_impostors_above = count_impostors(thresholds)
    return Verification(thresholds, num_genuine_at, num_impostors_at, num_impostors_above, len(genuine), num_impostors)


@torch.no_grad()
def fnmr_at_fmr(scores: Scores, relevance: Relevance, fmr: Sequence[float]) -> NonMatchRates:
    """FNMR = P(genuine <= T) where about the share `fmr` of the impostors scores more than T.

    T is interpolated linearly between the scores of two impostors, as `impostor_quantiles` does. This is
    open-metric-learning's definition; `Verification.tar_at_far` interpolates nothing and accepts a pair at its
    threshold. Every score is computed twice in float32, four times in float64, and once more where genuine pairs are
    many. NaN without genuine or without impostor pairs.

    Args:
        scores: as for `verify`.
        relevance: who is positive, negative or junk.
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
    return NonMatchRates(torch.where(thresholds.isnan(), torch.nan, num_missed.double() / len(genuine)), thresholds)


@torch.no_grad()
def accuracy_over_folds(
    distances: Float[Tensor, " pairs"] | _checks.Numbers,
    same: Bool[Tensor, " pairs"] | _checks.Integers,
    *,
    folds: int = 10,
    step: float = 0.01,
) -> FoldAccuracies:
    """Accuracy of each fold, at the first threshold with the most right judgments in the other folds; LFW's protocol.

    The reported number is the mean, `.accuracy.mean()`. Folds are runs of pairs in the order given, as of
    scikit-learn's `KFold`; thresholds are 0, `step`, ... below 4, made for squared distances of unit vectors, and a
    pair of cosine c has the squared distance 2 - 2 c.

    Source: Huang et al., "Labeled Faces in the Wild", 2007; the grid is that of facenet and insightface.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: lengths or devices that do not fit, a NaN, fewer pairs than folds, or a `step` that is not above 0.
    """
    distances, same = _checked("distances", distances, same)
    _checks.positive_int("folds", folds, least=2)
    _checks.nonnegative("step", step)
    if step == 0:
        raise ValueError(f"`step` must be above 0; got {step}.")
    if len(distances) < folds:
        raise ValueError(f"`distances` must have a pair for each of {folds} folds; got {len(distances)}.")
    # As NumPy's `arange`, number by number.
    grid = torch.arange(math.ceil(_LARGEST / step), dtype=torch.float64, device=distances.device) * step
    parts = [*zip(distances.double().tensor_split(folds), same.tensor_split(folds), strict=True)]
    # For each fold, [folds, thresholds]: pairs that are judged rightly in it, and in all others.
    right = torch.stack([_num_right(part, mask, grid) for part, mask in parts])
    in_others = right.sum(0) - right
    first = (in_others == in_others.amax(1, keepdim=True)).byte().cummax(1).values.logical_not().sum(1)
    sizes = torch.tensor([len(part) for part, _ in parts], device=distances.device)
    return FoldAccuracies(right.gather(1, first[:, None])[:, 0] / sizes.double(), grid[first])


def _checked(argument: str, values: object, same: object) -> tuple[Tensor, Tensor]:
    # Python's floats are float64: in float32 different scores might tie.
    values = _checks.floating_vector(argument, np.asarray(values) if isinstance(values, (list, tuple)) else values)
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    _checks.no_nan(argument, values)
    return values, _checks.mask("same", same, len(values), values.device)


def _num_right(distances: Tensor, same: Tensor, thresholds: Tensor) -> Int[Tensor, " thresholds"]:
    """Pairs of one identity below each threshold, and pairs of two at or above it."""
    below, far_below = (torch.searchsorted(distances[mask].sort().values, thresholds) for mask in (same, ~same))
    return below + (~same).sum() - far_below


def global_average_precision(
    confidence: Float[Tensor, " queries"] | _checks.Numbers,
    correct: Bool[Tensor, " queries"] | _checks.Integers,
    has_target: Bool[Tensor, " queries"] | _checks.Integers | None = None,
    *,
    ignore_without_target: bool = False,
    ties: _names.TieName = "pessimistic",
) -> Float[Tensor, ""]:
    """GAP = (1/M) sum_i P(i) rel(i) over the predictions of all queries, the most confident first; micro-AP.

    P(i) is the share of correct ones among the first i predictions, rel(i) whether the i-th is correct, M the number
    of queries that have a target. A query without target can only be predicted wrongly: a confident prediction for it
    costs precision. Google Landmarks' evaluation sorts stably. float64; NaN if no query has a target.

    Source: Perronnin, Liu and Renders, "A Family of Contextual Measures of Similarity between Distributions with
    Application to Image Retrieval", CVPR 2009; Weyand et al., "Google Landmarks Dataset v2", CVPR 2020.

    Args:
        confidence: of each query's one prediction; minus infinity for a query without prediction.
        correct: whether the prediction is right.
        has_target: whether there is anything to predict for the query; None if there is for all.
        ignore_without_target: leave out the queries without target instead of counting their predictions as wrong.
        ties: who goes first among equal confidences, a key of `PREDICTION_TIES`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, a NaN, a correct prediction without target.
    """
    _checks.one_of("ties", ties, PREDICTION_TIES)
    confidence = _checks.floating_vector("confidence", confidence)
    _checks.no_nan("confidence", confidence)
    has_target = torch.ones_like(confidence, dtype=torch.bool) if has_target is None else has_target
    correct = _checks.mask("correct", correct, len(confidence), confidence.device)
    has_target = _checks.mask("has_target", has_target, len(confidence), confidence.device)
    if num_impossible := int((correct & ~has_target).sum()):
        raise ValueError(f"`correct` must be False for a query without target; got {num_impossible} that are True.")
    if ignore_without_target:
        confidence, correct = confidence[has_target], correct[has_target]
    policy, place = PREDICTION_TIES[ties], torch.arange(1, len(correct) + 1, device=correct.device)
    turn = (correct != policy.positives_first).long() if policy.by_place is None else policy.by_place(place)
    order = turn.argsort(stable=True)
    hits = correct[order[confidence[order].argsort(descending=True, stable=True)]].double()
    return (hits.cumsum(0) / place * hits).sum() / has_target.sum()
