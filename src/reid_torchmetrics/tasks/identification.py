"""Open-set identification: some queries have no item of their identity in the gallery, and are not to be named.

A query is mated if it has a positive in the gallery that is searched, its mate, else it is non-mated. A query raises
an alarm if its best candidate scores at least a threshold. FPIR is the share of the non-mated queries that do; TPIR is
the share of the mated queries with a mate that scores at least the threshold and is among the first few candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import FpirRule
from reid_torchmetrics.functional.displays import Display, Displayed, counted, displayed, value_text
from reid_torchmetrics.functional.retrieval.evaluation import RETRIEVAL_METHODS, RankLists, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import mean_over_identities
from reid_torchmetrics.tasks.verification import count_given_pairs

_JUST_MORE = 1e-8  # above all alarms, in the code that rounds the number of alarms


def _above(score: Tensor) -> Tensor:
    """Return the next larger number of the dtype, as float64."""
    return score.nextafter(torch.full_like(score, torch.inf)).double()


def _largest(alarms: Float[Tensor, " queries"], fpir: float) -> Float[Tensor, ""]:
    # Divided, not multiplied: k / n is the very float64 that a user's k / n is.
    num_queries = alarms.new_tensor(len(alarms), dtype=torch.float64)
    rates = torch.arange(1, 1 + len(alarms), device=alarms.device) / num_queries
    num_alarms = int((rates <= fpir).sum())
    if num_alarms == len(alarms):
        return alarms.new_tensor(-torch.inf).double()
    return _above(alarms[num_alarms])


def _threshold_of_count(alarms: Float[Tensor, " queries"], num_alarms: int) -> Float[Tensor, ""]:
    """Return the threshold that this number of alarms reaches."""
    if num_alarms:
        return alarms[num_alarms - 1].double()
    return alarms[0].double() + _JUST_MORE


FPIR_RULES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "largest": _largest,
    "nearest": lambda alarms, fpir: _threshold_of_count(alarms, round(len(alarms) * fpir)),
    "floor": lambda alarms, fpir: _threshold_of_count(alarms, int(len(alarms) * fpir)),
    "strict": lambda alarms, fpir: _above(alarms[max(int(len(alarms) * fpir), 1) - 1]),
}
"""the threshold at an FPIR, given the best scores of the non-mated queries, descending"""

_SHOWN_RATES = (0.01, 0.1, 1.0)
"""the FPIR in the text of an `Identification`"""


@displayed
class IdentificationRates(NamedTuple):
    """FPIR and TPIR at some thresholds."""

    false_positive_rate: Float[Tensor, "*thresholds"]
    true_positive_rate: Float[Tensor, "*thresholds"]
    thresholds: Float[Tensor, "*thresholds"]
    """a query is accepted if it scores at least this"""


class BalancedAccuracy(NamedTuple):
    """Means over identities of the share of an identity's queries with a correct decision, as in `is_correct`."""

    known: Float[Tensor, ""]
    """mean over mated queries, BAKS"""
    unknown: Float[Tensor, ""]
    """mean over non-mated queries, BAUS"""

    @property
    def geometric_mean(self) -> Float[Tensor, ""]:
        """Square root of their product, AnimalCLEF's score."""
        return (self.known * self.unknown).sqrt()


@dataclass(frozen=True, eq=False, repr=False)
class Identification(Displayed):
    """Open-set identification from the best candidate and the best positive of each query, on all processes alike.

    Rates are float64. TPIR is NaN without mated queries; FPIR, and all that depends on it, without non-mated ones. An
    identity may have several gallery items: the best one counts. A query is also non-mated where a rule of the protocol
    drops all its positives. Scores must mean the same for every query.

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

    def _display(self) -> Display:
        num_mated = int(self.is_mated.sum())
        rates = self.rates_at(self.threshold_at_fpir(_SHOWN_RATES))
        columns = (_SHOWN_RATES, rates.true_positive_rate.tolist(), rates.thresholds.tolist())
        rows = [list(map(value_text, row)) for row in zip(*columns, strict=True)]
        num_unmated = len(self.mate_rank) - num_mated
        title = f"Identification: {num_mated:,} mated and {counted(num_unmated, 'non-mated query')}"
        return Display(title, ("FPIR", "TPIR", "threshold"), rows)

    @classmethod
    def from_rank_lists(cls, rank_lists: RankLists) -> Identification:
        """Build from the lists of all queries, `results.nearest(1)` or `metric.nearest(1)`."""
        best_score = rank_lists.scores[:, 0].nan_to_num(-torch.inf, torch.inf, -torch.inf)
        return cls(
            best_score, rank_lists.first_positive_score, rank_lists.first_positive_rank, rank_lists.query_identities
        )

    @property
    def is_mated(self) -> Bool[Tensor, " queries"]:
        """Mask of the queries that have a mate."""
        return self.mate_rank > 0

    def rates_at(self, thresholds: float | Sequence[float] | Tensor, rank: int = 1) -> IdentificationRates:
        """Return FPIR and TPIR at each threshold, with the mate among the first `rank` candidates.

        Raises:
            TypeError: `rank` is not an int.
            ValueError: `rank` is below 1.
        """
        _checks.positive_int("rank", rank)
        thresholds = torch.as_tensor(thresholds, dtype=torch.float64, device=self.best_score.device)
        mate_scores = self.mate_score[self.is_mated & (self.mate_rank <= rank)]
        alarms = self._alarms
        return IdentificationRates(
            false_positive_rate=_count_at_least(alarms, thresholds) / len(alarms),
            true_positive_rate=_count_at_least(mate_scores, thresholds) / self.is_mated.sum(),
            thresholds=thresholds,
        )

    def curve(self, rank: int = 1) -> IdentificationRates:
        """Return FPIR and TPIR at all corners: just above each distinct best score of a non-mated query, and at none.

        The first threshold accepts nothing, the last one everything. Nothing is interpolated: between two corners TPIR
        is that of the one before.

        Raises:
            TypeError: `rank` is not an int.
            ValueError: `rank` is below 1.
        """
        alarms = self._alarms.unique_consecutive()
        lowest = alarms.new_tensor([-torch.inf]).double()
        return self.rates_at(torch.cat([_above(alarms), lowest]), rank)

    def threshold_at_fpir(self, fpir: float | Sequence[float], rule: FpirRule = "largest") -> Float[Tensor, "*rates"]:
        """Return the threshold at each FPIR; scores of at least the threshold are accepted.

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
        if len(self._alarms):
            for place, rate in enumerate(fpir):
                thresholds[place] = FPIR_RULES[rule](self._alarms, rate)
        return thresholds

    def tpir_at_fpir(
        self, fpir: float | Sequence[float], rank: int = 1, rule: FpirRule = "largest"
    ) -> Float[Tensor, "*rates"]:
        """Return TPIR at the threshold of each FPIR, with the mate among the first `rank` candidates.

        It is also called DIR at FAR, and 0-d for one number. At an FPIR of 1 it is the closed-set identification rate
        of the mated queries.

        Source: Grother, Ngan and Hanaoka, "Face Recognition Technology Evaluation (FRTE) Part 2: Identification"; the
        code bases of `threshold_at_fpir`, which take no identity with several gallery items.

        Raises:
            TypeError: as `threshold_at_fpir` and `rates_at`.
            ValueError: as `threshold_at_fpir` and `rates_at`.
        """
        return self.rates_at(self.threshold_at_fpir(fpir, rule), rank).true_positive_rate

    def novelty_auc(self) -> Float[Tensor, ""]:
        """Return the AUC of the best score as a test for mated queries: P(mated > non-mated), ties count half."""
        return count_given_pairs(self.best_score, self.is_mated).area_under_curve()

    def is_correct(self, threshold: float) -> Bool[Tensor, " queries"]:
        """Return a mask of the queries with a correct decision at `threshold`.

        A mated query must have its mate as best candidate, with a score of at least the threshold. The best candidate
        of a non-mated query must score below the threshold.

        Raises:
            TypeError: `threshold` is no number.
        """
        _checks.number("threshold", threshold)
        accepted = self.best_score.double() >= threshold
        return torch.where(self.is_mated, accepted & (self.mate_rank == 1), ~accepted)

    def balanced_accuracy(self, threshold: float) -> BalancedAccuracy:
        """Return BAKS and BAUS: means of `is_correct` over the identities of mated, and of non-mated queries.

        Source: `wildlife-datasets`; AnimalCLEF 2025.

        Raises:
            TypeError: `threshold` is no number.
            ValueError: identities of the queries are not known.
        """
        is_correct = self.is_correct(threshold).double()
        identities = self.query_identities
        if identities is None:
            raise ValueError(
                "`balanced_accuracy` must come with `query_identities`; got relevance as lists, or several labels."
            )
        is_mated = self.is_mated
        return BalancedAccuracy(
            known=mean_over_identities(is_correct[is_mated], identities[is_mated]),
            unknown=mean_over_identities(is_correct[~is_mated], identities[~is_mated]),
        )

    @property
    def _alarms(self) -> Float[Tensor, " queries"]:
        """Best scores of the non-mated queries, descending."""
        return self.best_score[~self.is_mated].sort(descending=True).values


def _identification(results: RetrievalResults) -> Identification:
    """See `RetrievalResults.identification`."""
    draw = results.protocol.gallery_draw
    if draw is not None:
        raise ValueError(f"`protocol` must draw no gallery in open-set identification; got {draw!r}.")
    if results.setup.cut:  # a query whose mate is not listed is not non-mated
        raise ValueError("`identification` must come from scores of all candidates; got results of ranked lists.")
    return Identification.from_rank_lists(results.nearest(1))


def _count_at_least(scores: Tensor, thresholds: Tensor) -> Tensor:
    """Count the scores that are at least each threshold, float64; NaN for a threshold that is NaN."""
    num_below = torch.searchsorted(scores.double().sort().values, thresholds)
    return (len(scores) - num_below).double().masked_fill(thresholds.isnan(), torch.nan)


RETRIEVAL_METHODS["identification"] = _identification
