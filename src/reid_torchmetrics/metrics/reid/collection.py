"""The numbers that papers report, all in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from torchmetrics.utilities import rank_zero_warn

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import (
    NO_SAMPLE,
    PROTOCOL_FIELDS,
    Protocol,
    RankLists,
    RetrievalResults,
    find_protocol,
)
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.metrics.base import arguments_of, naming_arguments

from .embedding_metric import EmbeddingMetric
from .reid import ReIDCMC, ReIDMeanAP, ReIDMeasure, ReIDMINP


class ReIDMetrics(MetricCollection):
    """The numbers that papers report, as a `MetricCollection`: `map`, `minp`, `rank_1`, ... or those of a protocol.

    All members are 0-d tensors, ready for `self.log_dict`, and share one set of samples and their rankings.

    Args:
        ranks: the ranks at which the CMC is reported; None for those of the protocol, 1, 5 and 10 by default.
        protocol: the benchmark; it says what is reported.
        rule: the rule of average precision; see `ReIDMeanAP`.
        prefix: put before every name, for instance "val/".
        postfix: put behind every name.
        options: see `EmbeddingMetric`, and the other fields of `Protocol`.

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
        ranks: Sequence[int] | None = None,
        *,
        protocol: str | Protocol = "market1501",
        rule: str | None = None,
        prefix: str | None = None,
        postfix: str | None = None,
        **options: Any,
    ) -> None:
        shared = arguments_of(EmbeddingMetric)
        _checks.known_arguments("ReIDMetrics", options, arguments_of(ReIDMetrics, *PROTOCOL_FIELDS, *shared))
        fixed = {name: options.pop(name) for name in set(options) & set(PROTOCOL_FIELDS)}
        protocol = find_protocol(protocol).changed(fixed if rule is None else fixed | {"rule": rule})
        reports = protocol.reports
        if ranks is not None:
            _checks.positive_ints("ranks", ranks)
            reports = (*(name for name in reports if not parse_report(name)[0].is_cmc), *map("rank_{}".format, ranks))
        protocol = protocol.changed({"reports": reports})
        members: dict[str, Metric | MetricCollection] = {
            name: _member(name, protocol=protocol, **options) for name in reports
        }
        super().__init__(members, prefix=prefix, postfix=postfix, compute_groups=[list(members)])
        for name in members:  # the base class sorts by name: rank_10 before rank_5
            self._modules[name] = self._modules.pop(name)

    def compute(self) -> dict[str, Any]:
        """All numbers, by name; NaN and one warning where no sample was given."""
        members = {name: member for name, member in self.items(copy_state=False) if isinstance(member, EmbeddingMetric)}
        if any(member.update_called or member.roles for member in members.values()):
            return super().compute()
        rank_zero_warn(NO_SAMPLE)
        return {name: torch.full((), torch.nan, dtype=one.dtype, device=one.device) for name, one in members.items()}

    @naming_arguments
    def results(self, *, nearest: int = 0, camera_pairs: bool = False) -> RetrievalResults:
        """One value per query, with the reasons where there is none; see `EmbeddingMetric.results`."""
        return self._first_member().results(nearest=nearest, camera_pairs=camera_pairs)

    def nearest(self, k: int = 10, queries: Tensor | None = None) -> RankLists:
        """The first k candidates of every query, or of chosen ones; see `EmbeddingMetric.nearest`."""
        return self._first_member().nearest(k, queries)

    def _first_member(self) -> EmbeddingMetric:
        member = next(iter(self._modules.values()))
        assert isinstance(member, EmbeddingMetric)  # noqa: S101 - for the type checker; see __init__
        return member


def _member(name: str, **options: Any) -> EmbeddingMetric:
    """The metric of a reported number."""
    row, k = parse_report(name)
    if row.is_cmc:
        return ReIDCMC(k, **options)
    own_class = {"map": ReIDMeanAP, "minp": ReIDMINP}.get(row.name)
    return ReIDMeasure(name, **options) if own_class is None else own_class(**options)
