"""Open-set identification as a metric: queries with and without a mate in the gallery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval.measures import hit_rate_at
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.world import warn_once
from reid_torchmetrics.metrics.reid import EmbeddingMetric, ReIDOptions, explicit_signature
from reid_torchmetrics.tasks.identification import FPIR_RULES, Identification


class ReIDOpenSet(EmbeddingMetric):
    """True positive identification rate (TPIR) at a false positive identification rate (FPIR).

    The share of mated queries that are identified, at the threshold at which a share `fpir` of non-mated queries raises
    an alarm. A query without a positive in the gallery is non-mated; both kinds come in the same batches. The value is
    a 0-d tensor for one `fpir`, which `self.log` accepts, and otherwise a tensor [fpirs]. It is NaN, with one warning,
    where all queries are mated or all are non-mated, as in Lightning's sanity check.

    Args:
        fpir: false positive identification rates, one or several.
        rank: number of candidates that may be the mate.
        rule: rule for the threshold, see `Identification.threshold_at_fpir`.
        options: see `EmbeddingMetric`; galleries cannot be drawn, and `empty_target_action` has no effect.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import ReIDOpenSet
        >>> metric = ReIDOpenSet(fpir=(0.0, 1.0))
        >>> query = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, -0.6]])
        >>> metric.update(query, torch.tensor([7, 3, 9]), is_query=True)  # nothing of identity 9 in the gallery
        >>> metric.update(torch.eye(2), torch.tensor([7, 3]), is_query=False)
        >>> metric.compute()  # the alarm scores 0.8, the mates 1.0 and 0.8
        tensor([0.5000, 1.0000])
    """

    _shown: ClassVar[tuple[str, ...]] = ("fpir", "rank", "rule")

    @explicit_signature
    def __init__(
        self,
        fpir: float | Sequence[float] = (0.01, 0.1),
        *,
        rank: int = 1,
        rule: _names.FpirRule = "largest",
        **options: Unpack[ReIDOptions],
    ) -> None:
        super().__init__(**options)
        _checks.positive_int("rank", rank)
        _checks.one_of("rule", rule, FPIR_RULES)
        _checks.fractions("fpir", [fpir] if isinstance(fpir, (int, float)) else fpir)
        self.fpir = fpir if isinstance(fpir, (int, float)) else tuple(fpir)
        self.rank = rank
        self.rule = rule

    def summarize(self, ranks: PositiveRanks) -> Tensor:
        """Return the share of mated queries with a mate among the first candidates: TPIR at an FPIR of 1."""
        return hit_rate_at(ranks, self.rank).nanmean()

    def compute(self) -> Tensor:
        """Rank all samples, and find the best score of every query; see `EmbeddingMetric.compute`."""
        ranking = self._ranking("compute", self._ranking_options())  # is shared with other metrics, and warns
        if ranking.counts.valid == 0:
            return torch.full_like(torch.tensor(self.fpir, device=self.device), torch.nan, dtype=self.dtype)
        identified = Identification.from_rank_lists(self._rank_lists(1, None))
        if self._states_before_forward is None:  # a single batch often has queries of one kind only
            warn_once(self._world, "non-mated", _NO_ALARM, lambda: bool(identified.is_mated.all()))
        return identified.tpir_at_fpir(self.fpir, self.rank, self.rule).to(self.device, self.dtype)

    def identification(self) -> Identification:
        """Return the best score, the mate's score and its rank for each query, for other rates and for `plot_tpir`.

        All processes must call it, and get the same values. Queries are in the order of `results()`.

        Raises:
            DistributedMetricError: as `compute`.
            ValueError: embeddings that are not finite.
        """
        return Identification.from_rank_lists(self.nearest(1))

    def _log_instead(self) -> str | None:
        return None if isinstance(self.fpir, (int, float)) else "ReIDOpenSet(fpir=0.01)"


_NO_ALARM = "Every query has a mate in the gallery, so no query can raise a false alarm, and the result is NaN."
