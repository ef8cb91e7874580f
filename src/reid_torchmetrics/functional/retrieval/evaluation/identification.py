"""Open-set identification: some queries have no item of their identity in the gallery, and are not to be named.

A query is mated if it has a positive in the gallery that is searched, its mate, else it is non-mated. A query raises
an alarm if its best candidate scores at least a threshold. FPIR is the share of the non-mated queries that do; TPIR is
the share of the mated queries with a mate that scores at least the threshold and is among the first few candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import FpirRule
from reid_torchmetrics.functional.retrieval.measures import mean_over_identities
from reid_torchmetrics.functional.retrieval.verification import verify_pairs

from .rank_lists import RankLists

_JUST_MORE = 1e-8  # above all alarms, in the code that rounds the number of alarms


def _above(score: Tensor) -> Tensor:
    return score.nextafter(torch.full_like(score, torch.inf)).double()


def _largest(alarms: Float[Tensor, " queries"], fpir: float) -> Float[Tensor, ""]:
    # Divided, not multiplied: k / n is the very float64 that a user's k / n is.
    rates = torch.arange(1, 1 + len(alarms), device=alarms.device) / alarms.new_tensor(len(alarms), dtype=torch.float64)
    num_alarms = int((rates <= fpir).sum())
    return alarms.new_tensor(-torch.inf).double() if num_alarms == len(alarms) else _above(alarms[num_alarms])


def _counted(alarms: Float[Tensor, " queries"], num_alarms: int) -> Float[Tensor, ""]:
    return alarms[num_alarms - 1].double() if num_alarms else alarms[0].double() + _JUST_MORE


FPIR_RULES: Mapping[str, Callable[[Tensor, float], Tensor]] = MappingProxyType(
    {
        "largest": _largest,
        "nearest": lambda alarms, fpir: _counted(alarms, round(len(alarms) * fpir)),
        "floor": lambda alarms, fpir: _counted(alarms, int(len(alarms) * fpir)),
        "strict": lambda alarms, fpir: _above(alarms[max(int(len(alarms) * fpir), 1) - 1]),
    }
)
"""the threshold at an FPIR, given the best scores of the non-mated queries, descending"""


class IdentificationRates(NamedTuple):
    """FPIR and TPIR at some thresholds."""

    false_positive_rate: Float[Tensor, "*thresholds"]
    true_positive_rate: Float[Tensor, "*thresholds"]
    thresholds: Float[Tensor, "*thresholds"]
    """a query is accepted if it scores at least this"""


class BalancedAccuracy(NamedTuple):
    """Means over identities of the share of an identity's queries that are judged rightly."""

    known: Float[Tensor, ""]
    """BAKS, of mated queries"""
    unknown: Float[Tensor, ""]
    """BAUS, of non-mated queries"""

    @property
    def geometric_mean(self) -> Float[Tensor, ""]:
        """The square root of their product, AnimalCLEF's score."""
        return (self.known * self.unknown).sqrt()


@dataclass(frozen=True, eq=False)
class Identification:
    """What open-set identification needs to know of each query, the same on all processes.

    Rates are float64, TPIR is NaN without mated queries and FPIR, and all that depends on it, without non-mated ones.
    An identity may have several gallery items: the best one counts. A query is also non-mated where a rule of the
    protocol drops all its positives. Scores must mean the same for every query.

    Example:
        >>> import torch
        >>> from reid_torchmetrics.functional.retrieval import evaluate
        >>> query = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, -0.6]])  # the last is of identity 9, not in the gallery
        >>> results = evaluate(query, torch.eye(2), torch.tensor([7, 3, 9]), torch.tensor([7, 3]))
        >>> identification = results.identification()
        >>> identification.tpir_at_fpir([0.0, 1.0]), identification.threshold_at_fpir(0.0, "nearest")
        (tensor([0.5000, 1.0000], dtype=torch.float64), tensor(0.8000, dtype=torch.float64))
    """

    best_score: Float[Tensor, " queries"]
    """the score of the best candidate; minus infinity where there is none"""
    mate_score: Float[Tensor, " queries"]
    """the score of the best positive; NaN for non-mated queries"""
    mate_rank: Int[Tensor, " queries"]
    """the rank of the best positive among all candidates, by the evaluation's tie policy; 0 for non-mated queries"""
    query_identities: Int[Tensor, " queries"] | None = None

    @classmethod
    def from_rank_lists(cls, lists: RankLists) -> Identification:
        """What the lists of `results.nearest(1)` or `metric.nearest(1)`, of all queries, say."""
        best = lists.scores[:, 0].nan_to_num(-torch.inf, torch.inf, -torch.inf)
        return cls(best, lists.first_positive_score, lists.first_positive_rank, lists.query_identities)

    @property
    def is_mated(self) -> Bool[Tensor, " queries"]:
        """Whether the query has a mate."""
        return self.mate_rank > 0

    def rates_at(self, thresholds: float | Sequence[float] | Tensor, rank: int = 1) -> IdentificationRates:
        """FPIR and TPIR of each threshold, with the mate among the first `rank` candidates.

        Raises:
            TypeError: `rank` is not an int.
            ValueError: `rank` is below 1.
        """
        _checks.positive_int("rank", rank)
        at = torch.as_tensor(thresholds, dtype=torch.float64, device=self.best_score.device)
        near = self.mate_score[self.is_mated & (self.mate_rank <= rank)]
        true = _num_at(near, at) / self.is_mated.sum()
        return IdentificationRates(_num_at(self._alarms, at) / len(self._alarms), true, at)

    def curve(self, rank: int = 1) -> IdentificationRates:
        """FPIR and TPIR at all corners: just above each distinct best score of a non-mated query, and at none.

        From accepting nothing to accepting everything. Nothing is interpolated: between two corners TPIR is that of the
        one before.

        Raises:
            TypeError: `rank` is not an int.
            ValueError: `rank` is below 1.
        """
        alarms = self._alarms.unique_consecutive()
        return self.rates_at(torch.cat([_above(alarms), alarms.new_tensor([-torch.inf]).double()]), rank)

    def threshold_at_fpir(self, fpir: float | Sequence[float], rule: FpirRule = "largest") -> Float[Tensor, "*rates"]:
        """The threshold at each FPIR asked for; what scores at least this is accepted.

        Args:
            fpir: one false positive identification rate f, or several. There are n non-mated queries.
            rule: "largest", the lowest threshold with an FPIR of at most f, so that TPIR is the largest one (NIST's
                FRTE); "nearest", their best score of rank round(n f), half to even, 1e-8 above all for rank 0 (PFE,
                AdaFace), where FPIR may exceed f; "floor", the same with n f rounded down (OpenGait); "strict", just
                above the score of rank max(floor(n f), 1) (insightface's 1:N), one alarm less than asked for.

        Raises:
            TypeError: `fpir` is neither a number nor a sequence of them.
            ValueError: one of them is outside [0, 1], or an unknown rule.
        """
        _checks.one_of("rule", rule, FPIR_RULES)
        if isinstance(fpir, (int, float)):
            return self.threshold_at_fpir([fpir], rule)[0]
        _checks.fractions("fpir", fpir, may_be_empty=True)
        thresholds = self._alarms.new_full((len(fpir),), torch.nan, dtype=torch.float64)
        for place, rate in enumerate(fpir if len(self._alarms) else ()):
            thresholds[place] = FPIR_RULES[rule](self._alarms, rate)
        return thresholds

    def tpir_at_fpir(
        self, fpir: float | Sequence[float], rank: int = 1, rule: FpirRule = "largest"
    ) -> Float[Tensor, "*rates"]:
        """TPIR, with the mate among the first `rank` candidates, at the threshold of each FPIR; 0-d for one number.

        Also called DIR at FAR. At an FPIR of 1 it is the closed-set identification rate of the mated queries.

        Source: Grother, Ngan and Hanaoka, "Face Recognition Technology Evaluation (FRTE) Part 2: Identification"; the
        code bases of `threshold_at_fpir`, which take no identity with several gallery items.

        Raises:
            TypeError: as `threshold_at_fpir` and `rates_at`.
            ValueError: as `threshold_at_fpir` and `rates_at`.
        """
        return self.rates_at(self.threshold_at_fpir(fpir, rule), rank).true_positive_rate

    def novelty_auc(self) -> Float[Tensor, ""]:
        """AUC of telling non-mated from mated queries by their best score: P(mated > non-mated), ties count half."""
        if bool(self.is_mated.all()) or not bool(self.is_mated.any()):
            return torch.full((), torch.nan, dtype=torch.float64, device=self.best_score.device)
        return verify_pairs(self.best_score, self.is_mated).area_under_curve()

    def is_right(self, threshold: float) -> Bool[Tensor, " queries"]:
        """Whether each query is judged rightly: a mated one by its mate, a non-mated one by scoring below `threshold`.

        A mate must be the best candidate, and score at least the threshold.

        Raises:
            TypeError: `threshold` is no number.
        """
        _checks.number("threshold", threshold)
        accepted = self.best_score.double() >= threshold
        return torch.where(self.is_mated, accepted & (self.mate_rank == 1), ~accepted)

    def balanced_accuracy(self, threshold: float) -> BalancedAccuracy:
        """BAKS and BAUS: `is_right`, as means over the identities of mated, and of non-mated queries.

        Source: `wildlife-datasets`; AnimalCLEF 2025.

        Raises:
            TypeError: `threshold` is no number.
            ValueError: identities of the queries are not known.
        """
        identities, right = self.query_identities, self.is_right(threshold).double()
        if identities is None:
            raise ValueError(
                "`balanced_accuracy` must come with `query_identities`; got relevance as lists, or several labels."
            )
        sides = (self.is_mated, ~self.is_mated)
        return BalancedAccuracy(*(mean_over_identities(right[side], identities[side]) for side in sides))

    @property
    def _alarms(self) -> Float[Tensor, " queries"]:
        """Best scores of the non-mated queries, descending."""
        return self.best_score[~self.is_mated].sort(descending=True).values


def _num_at(scores: Tensor, thresholds: Tensor) -> Tensor:
    """How many scores are at least each threshold, float64; NaN for a threshold that is NaN."""
    below = torch.searchsorted(scores.double().sort().values, thresholds)
    return (len(scores) - below).double().masked_fill(thresholds.isnan(), torch.nan)
