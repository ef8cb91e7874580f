"""Re-identification metrics: CMC, mean average precision and mINP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torchmetrics import Metric, MetricCollection

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.cmc import cmc_at, cmc_curve
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import (
    AP_RULES,
    average_precision,
    inverse_negative_penalty,
    mean_over_queries,
)
from reid_torchmetrics.functional.retrieval.ranks import PositiveRanks
from reid_torchmetrics.metrics._embedding_metric import EmbeddingMetric
from reid_torchmetrics.plot import plot_cmc


class ReIDMeanAP(EmbeddingMetric):
    """Mean average precision (mAP): the mean over queries of the area under the precision-recall curve.

    `rule` is "rectangle" (torchreid, fast-reid, TransReID, scikit-learn) or "trapezoid" (the official Market-1501
    script, Oxford, the revisited Oxford and Paris evaluation); see `functional.retrieval.average_precision`.

    Args:
        rule: how the area is taken.
        options: see `EmbeddingMetric`.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import ReIDMeanAP
        >>> metric = ReIDMeanAP()
        >>> metric.update(torch.tensor([[1.0, 0.0]]), torch.tensor([7]), is_query=True)
        >>> gallery = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.1, 0.9]])
        >>> metric.update(gallery, torch.tensor([7, 3, 7]), is_query=False)
        >>> metric.compute()  # hits at ranks 1 and 3: (1/1 + 2/3) / 2
        tensor(0.8333)
    """

    def __init__(self, *, rule: str = "rectangle", **options: Any) -> None:
        super().__init__(**options)
        _checks.one_of("rule", rule, AP_RULES)
        self.rule = rule

    def summarise(self, ranks: PositiveRanks) -> Tensor:
        """Mean over queries of the average precision."""
        return mean_over_queries(average_precision(ranks, rule=self.rule), empty_target_action=self.empty_target_action)


class ReIDMINP(EmbeddingMetric):
    """Mean inverse negative penalty (mINP): the mean over queries of n / r_n, r_n the rank of the last of n positives.

    Source: Ye et al., "Deep Learning for Person Re-identification: A Survey and Outlook", TPAMI 2021. Options are
    those of `EmbeddingMetric`.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import ReIDMINP
        >>> metric = ReIDMINP()
        >>> metric.update(torch.tensor([[1.0, 0.0]]), torch.tensor([7]), is_query=True)
        >>> gallery = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.1, 0.9]])
        >>> metric.update(gallery, torch.tensor([7, 3, 7]), is_query=False)
        >>> metric.compute()  # two positives, the last at rank 3
        tensor(0.6667)
    """

    def summarise(self, ranks: PositiveRanks) -> Tensor:
        """Mean over queries of the inverse negative penalty."""
        return mean_over_queries(inverse_negative_penalty(ranks), empty_target_action=self.empty_target_action)


class ReIDCMC(EmbeddingMetric):
    """Cumulative matching characteristic (CMC) at rank `top_k`: the share of queries with a positive that early.

    This is the first-match CMC of the Market-1501 protocol, "rank-1" at `top_k=1`. It is one number, so that
    `self.log` takes it; `ReIDCMCCurve` is the curve.

    Args:
        top_k: number of candidates that are looked at; may exceed the gallery.
        options: see `EmbeddingMetric`.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import ReIDCMC
        >>> metric = ReIDCMC(top_k=1)
        >>> metric.update(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([7, 3]), is_query=True)
        >>> gallery = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.1, 0.9]])
        >>> metric.update(gallery, torch.tensor([7, 3, 7]), is_query=False)
        >>> metric.compute()  # the first query finds its identity at once, the second does not
        tensor(0.5000)
    """

    def __init__(self, top_k: int = 1, **options: Any) -> None:
        super().__init__(**options)
        _checks.positive_int("top_k", top_k)
        self.top_k = top_k

    def summarise(self, ranks: PositiveRanks) -> Tensor:
        """Share of queries whose best positive is among the first `top_k` candidates."""
        return mean_over_queries(cmc_at(ranks, self.top_k), empty_target_action=self.empty_target_action)


class ReIDCMCCurve(EmbeddingMetric):
    """Cumulative matching characteristic (CMC) at ranks 1 ... `max_rank`, as one tensor [max_rank].

    A curve cannot be given to `self.log`: compute it in `on_validation_epoch_end` and log its picture. TorchMetrics
    squeezes results of one element, so `max_rank=1` gives a 0-d tensor.

    Args:
        max_rank: length of the curve; may exceed the gallery.
        options: see `EmbeddingMetric`.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import ReIDCMCCurve
        >>> metric = ReIDCMCCurve(max_rank=3)
        >>> metric.update(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([7, 3]), is_query=True)
        >>> gallery = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.1, 0.9]])
        >>> metric.update(gallery, torch.tensor([7, 3, 7]), is_query=False)
        >>> metric.compute()
        tensor([0.5000, 1.0000, 1.0000])
    """

    def __init__(self, max_rank: int = 50, **options: Any) -> None:
        super().__init__(**options)
        _checks.positive_int("max_rank", max_rank)
        self.max_rank = max_rank

    def summarise(self, ranks: PositiveRanks) -> Tensor:
        """Share of queries whose best positive is among the first k candidates, for every k."""
        return cmc_curve(ranks, self.max_rank, empty_target_action=self.empty_target_action)

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Draw the curve, or those given; returns the figure and its axes. Needs matplotlib."""
        curves = self.compute() if val is None else val
        if isinstance(curves, Tensor):
            return plot_cmc(curves, ax=ax)
        return plot_cmc({f"step {step}": curve for step, curve in enumerate(curves)}, ax=ax)


class ReIDMetrics(MetricCollection):
    """The numbers that papers report: a `MetricCollection` of `map`, `minp` and `rank_k` for every k of `ranks`.

    All members are 0-d tensors, ready for `self.log_dict`, and share one set of samples and one ranking.

    Args:
        ranks: the ranks at which the CMC is reported.
        rule: the rule of average precision; see `ReIDMeanAP`.
        prefix: put before every name, for instance "val/".
        postfix: put behind every name.
        options: see `EmbeddingMetric`.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import ReIDMetrics
        >>> metrics = ReIDMetrics(ranks=(1, 2))
        >>> metrics.update(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([7, 3]), is_query=True)
        >>> gallery = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.1, 0.9]])
        >>> metrics.update(gallery, torch.tensor([7, 3, 7]), is_query=False)
        >>> metrics.compute()
        {'map': tensor(0.6667), 'minp': tensor(0.5833), 'rank_1': tensor(0.5000), 'rank_2': tensor(1.)}
    """

    def __init__(
        self,
        ranks: Sequence[int] = (1, 5, 10),
        *,
        rule: str = "rectangle",
        prefix: str | None = None,
        postfix: str | None = None,
        **options: Any,
    ) -> None:
        _checks.positive_ints("ranks", ranks)
        members: dict[str, Metric | MetricCollection] = {
            "map": ReIDMeanAP(rule=rule, **options),
            "minp": ReIDMINP(**options),
        }
        members |= {f"rank_{rank}": ReIDCMC(top_k=rank, **options) for rank in ranks}
        super().__init__(members, prefix=prefix, postfix=postfix, compute_groups=[list(members)])
        for name in members:  # the base class sorts by name: rank_10 before rank_5
            self._modules[name] = self._modules.pop(name)

    def results(self) -> RetrievalResults:
        """One value per query, with the reasons where there is none; see `EmbeddingMetric.results`."""
        member = self._modules["map"]
        assert isinstance(member, EmbeddingMetric)  # noqa: S101 - for the type checker; see __init__
        return member.results()
