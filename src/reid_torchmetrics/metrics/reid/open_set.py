"""Open-set identification as a metric: queries with and without a mate in the gallery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval import evaluation
from reid_torchmetrics.functional.retrieval.measures import hit_rate_at
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.world import warn_once

from .embedding_metric import EmbeddingMetric, ReIDOptions, explicit_signature


class ReIDOpenSet(EmbeddingMetric):
    """TPIR at FPIR: how many mated queries are identified where few non-mated queries raise an alarm.

    A query without a positive in the gallery is non-mated; both kinds come in the same batches. The value is a 0-d
    tensor for one `fpir`, which `self.log` takes, else a tensor [fpirs] in their order. It is NaN, with one warning,
    while queries of one of the two kinds are lacking, as in Lightning's sanity check.

    Args:
        fpir: false positive identification rates, one or several.
        rank: number of candidates among which the mate must be.
        rule: how the threshold is chosen, see `Identification.threshold_at_fpir`.
        options: see `EmbeddingMetric`; no drawn galleries, and `empty_target_action` has no say.

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
        _checks.one_of("rule", rule, evaluation.FPIR_RULES)
        _checks.fractions("fpir", [fpir] if isinstance(fpir, (int, float)) else fpir)
        self.fpir = fpir if isinstance(fpir, (int, float)) else tuple(fpir)
        self.rank, self.rule = rank, rule

    def summarize(self, ranks: PositiveRanks) -> Tensor:
        """Share of the mated queries with a mate among the first candidates: TPIR at an FPIR of 1."""
        return hit_rate_at(ranks, self.rank).nanmean()

    def compute(self) -> Tensor:
        """Rank all samples, and find the best score of every query; see `EmbeddingMetric.compute`."""
        if not self._ranking("compute", for_cmc=False).counts.valid:  # it says why, and is shared with other metrics
            return torch.full_like(torch.tensor(self.fpir, device=self.device), torch.nan, dtype=self.dtype)
        identified = evaluation.Identification.from_rank_lists(self._rank_lists(1, None))
        if self._states_before_forward is None:  # a batch may well have queries of one kind
            warn_once(self._world, "non-mated", _NO_ALARM, lambda: bool(identified.is_mated.all()))
        return identified.tpir_at_fpir(self.fpir, self.rank, self.rule).to(self.device, self.dtype)

    def identification(self) -> evaluation.Identification:
        """Best score, mate's score and rank of each query, for other rates and thresholds, and for `plot_tpir`.

        The same on all processes; all must ask. The queries are in the order of `results()`.

        Raises:
            DistributedMetricError: as `compute`.
            ValueError: embeddings that are not finite.
        """
        return evaluation.Identification.from_rank_lists(self.nearest(1))

    def _log_instead(self) -> str | None:
        return None if isinstance(self.fpir, (int, float)) else "ReIDOpenSet(fpir=0.01)"


_NO_ALARM = "Every query has a mate in the gallery, so no query can raise a false alarm, and the result is NaN."
