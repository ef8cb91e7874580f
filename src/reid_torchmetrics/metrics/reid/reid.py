"""Re-identification metrics: CMC, mean average precision, mINP, any measure by name, and a collection of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric, MetricCollection
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _extras, _names
from reid_torchmetrics._arrays import compute_device, to_compute_device
from reid_torchmetrics.functional.retrieval import evaluation, measures
from reid_torchmetrics.functional.retrieval.measures import cmc_curve, measure, measure_drawn, parse_report
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.verification import Duplicates
from reid_torchmetrics.metrics import base

from .embedding_metric import DEFAULTS, EmbeddingMetric, ReIDOptions, explicit_signature


class CollectionOptions(ReIDOptions, evaluation.ProtocolOptions, total=False):
    """The options of `ReIDMetrics`: also fields of `Protocol` that are not options of `EmbeddingMetric`."""


class _MeanOfMeasure(EmbeddingMetric):
    """The mean, or median, over queries of one row of `MEASURES`."""

    _number = "map"
    """the name of the row, with its k"""

    def summarize(self, ranks: PositiveRanks) -> Tensor:
        """Mean over queries of the number."""
        return self._mean(measure(self._number, ranks, self.protocol))

    def summarize_drawn(self, drawn: measures.DrawnResults) -> Tensor:
        """Mean over queries of its expectation over drawn galleries."""
        return self._mean(measure_drawn(self._number, drawn), drawn)

    def _average(self, values: Tensor, **options: Any) -> Tensor:
        return parse_report(self._number)[0].average(values, **options)


class ReIDMeanAP(_MeanOfMeasure):
    """Mean average precision (mAP): the mean over queries of the area under the precision-recall curve.

    Options left at None are taken from the protocol; see `functional.retrieval.average_precision`.

    Args:
        rule: how the area is taken: "rectangle" (torchreid, fast-reid, TransReID, scikit-learn), "trapezoid" (the
            official Market-1501 script, Oxford, revisited Oxford and Paris), "interpolated_11", "interpolated_101".
        k: number of candidates that are looked at; all by default.
        normalizer: what the sum over the first `k` is divided by: "positives", "attainable", "hits" or "k".
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

    @explicit_signature
    def __init__(
        self,
        *,
        rule: _names.ApRule | None = None,
        k: int | None = None,
        normalizer: _names.Normalizer | None = None,
        **options: Unpack[ReIDOptions],
    ) -> None:
        super().__init__(**options)
        self._change(rule=rule, k=k, normalizer=normalizer)


class ReIDMINP(_MeanOfMeasure):
    """Mean inverse negative penalty (mINP): the mean over queries of n / r_n, r_n the rank of the last of n positives.

    Source: Ye et al., "Deep Learning for Person Re-identification: A Survey and Outlook", TPAMI 2021. For
    options see `EmbeddingMetric`.

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

    _number = "minp"


class ReIDCMC(_MeanOfMeasure):
    """Cumulative matching characteristic (CMC) at rank `top_k`: the share of queries with a positive that early.

    By default this is the first-match CMC of the Market-1501 protocol, Rank-1 at `top_k=1`. It is one number, so
    that `self.log` takes it; `ReIDCMCCurve` is the curve.

    Args:
        top_k: number of candidates that are looked at; may exceed the gallery.
        mode: "first_match" or "all_shots" (open-reid's default); None for that of the protocol.
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

    _is_for_cmc = True
    _shown = ("top_k",)

    @explicit_signature
    def __init__(self, top_k: int = 1, *, mode: _names.CmcMode | None = None, **options: Unpack[ReIDOptions]) -> None:
        super().__init__(**options)
        self._change(mode=mode)
        _checks.positive_int("top_k", top_k)
        self.top_k = self._longest = top_k
        self._number = f"rank_{top_k}"
        self._reported = (self._number,)


class ReIDCMCCurve(EmbeddingMetric):
    """Cumulative matching characteristic (CMC) at ranks 1 ... `max_rank`, as one tensor [max_rank].

    A curve cannot be given to `self.log`: compute it in `on_validation_epoch_end` and log its picture. TorchMetrics
    squeezes results of one element, so `max_rank=1` gives a 0-d tensor.

    Args:
        max_rank: length of the curve; may exceed the gallery.
        mode: as in `ReIDCMC`.
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

    _is_for_cmc = True
    _shown = ("max_rank",)

    @explicit_signature
    def __init__(
        self, max_rank: int = 50, *, mode: _names.CmcMode | None = None, **options: Unpack[ReIDOptions]
    ) -> None:
        super().__init__(**options)
        self._change(mode=mode)
        _checks.positive_int("max_rank", max_rank)
        self.max_rank = self._longest = max_rank

    def summarize(self, ranks: PositiveRanks) -> Tensor:
        """Share of queries with a positive among the first k candidates, for every k."""
        return cmc_curve(ranks, self.max_rank, mode=self.protocol.mode, empty_target_action=self.empty_target_action)

    def summarize_drawn(self, drawn: measures.DrawnResults) -> Tensor:
        """Mean over queries of the probability of each of these, for every k."""
        return self._mean(drawn.cmc[:, : self.max_rank], drawn)

    def _log_instead(self) -> str | None:
        return "ReIDCMC(top_k=k)" if self.max_rank > 1 else None

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Draw the curve, or the given ones; returns the figure and its axes. Needs matplotlib."""
        _extras.require("A figure", "matplotlib")
        curves: Any = self.compute() if val is None else val
        if not isinstance(curves, Tensor):
            curves = {f"step {step}": curve for step, curve in enumerate(curves)}
        return _extras.pictures().plot_cmc(curves, ax=ax)


class ReIDMeasure(_MeanOfMeasure):
    """Mean over queries of any number in `MEASURES`, by name: "precision_10", "map_at_r", "hit_rate_1", "mrr", ...

    Args:
        metric: the number, with its k where it takes one.
        options: see `EmbeddingMetric`.

    Example:
        >>> import torch
        >>> from reid_torchmetrics import ReIDMeasure
        >>> metric = ReIDMeasure("precision_2")
        >>> metric.update(torch.tensor([[1.0, 0.0]]), torch.tensor([7]), is_query=True)
        >>> gallery = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.1, 0.9]])
        >>> metric.update(gallery, torch.tensor([7, 3, 7]), is_query=False)
        >>> metric.compute()  # hits at ranks 1 and 3, one of them within the first 2
        tensor(0.5000)
    """

    __jit_unused_properties__: ClassVar[list[str]] = [*EmbeddingMetric.__jit_unused_properties__, "higher_is_better"]
    plot_upper_bound = None
    _shown = ("metric",)

    @explicit_signature
    def __init__(self, metric: str, **options: Unpack[ReIDOptions]) -> None:
        row, k = parse_report(metric, argument="metric")
        if row.is_cmc:
            self._is_for_cmc, self._longest = True, k
        super().__init__(**options)
        draw = self._ranks_by(for_cmc=self._is_for_cmc).protocol.draw
        if draw is not None and not row.has_expectation(k):
            raise ValueError(f"`protocol` must not draw galleries for the report {metric!r}; got {draw!r}.")
        self.metric = self._number = metric
        self._reported = (metric,)

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """Whether it is neither a rank nor ANMRR."""
        return not parse_report(self.metric)[0].lower_is_better


class _RecallSum(_MeanOfMeasure):
    """The sum of a CMC at some ranks, in percent, in both directions: `rsum`."""

    _is_for_cmc = True
    _shown = ("numbers",)
    plot_upper_bound = None

    def __init__(self, numbers: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self.numbers = tuple(numbers)

    def compute(self) -> Tensor:
        """Rank all samples in both directions."""
        rankings = [self._ranking("compute", for_cmc=True, exchanged=exchanged) for exchanged in (False, True)]
        total = torch.zeros((), dtype=torch.float64, device=compute_device(self.device))
        for number in self.numbers:
            self._number = number
            total += 100 * sum(to_compute_device(self._value(ranking)).double() for ranking in rankings)
        return total.to(self.device, self.dtype)


class ReIDMetrics(MetricCollection):
    """The numbers that papers report, as a `MetricCollection`: `map`, `minp`, `rank_1`, ... or a protocol's reports.

    All members are 0-d tensors, ready for `self.log_dict`, and share one set of samples and their rankings.

    Args:
        ranks: the ranks at which the CMC is reported; None for the ranks of the protocol, 1, 5 and 10 by default.
        prefix: put before every name, for instance "val/".
        postfix: put behind every name.
        directions: names of two directions, such as ("t2i", "i2t"): every number is then computed with queries and
            gallery as they are given, as "t2i/rank_1", and with their roles exchanged, as "i2t/rank_1"; and "rsum" is
            the sum of all "rank_k" of both in percent (VSE++, Faghri et al., BMVC 2018). Each direction is a ranking of
            its own. The groups of samples act where these are the gallery: captions, the queries of "t2v", may be
            grouped by video for "v2t".
        options: see `EmbeddingMetric`, and the other fields of `Protocol`, such as `rule` and `reports`.

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

    @base.explicit_signature(CollectionOptions, DEFAULTS, elsewhere=evaluation.PROTOCOL_FIELDS)
    def __init__(
        self,
        ranks: Iterable[int] | None = None,
        *,
        prefix: str | None = None,
        postfix: str | None = None,
        directions: Sequence[str] | None = None,
        **options: Unpack[CollectionOptions],
    ) -> None:
        chosen: dict[str, Any] = {**DEFAULTS, **options}
        lists, named = chosen.pop("ground_truth", None), chosen.pop("protocol")
        protocol, of_members = evaluation.take_protocol(named, chosen, lists=lists is not None)
        # What follows from the name of the protocol: members are passed the protocol with all changes.
        reasons: dict[str, str] = {}
        camera_rules = None
        if lists is None:
            reasons = evaluation.find_protocol(named).needed_by(chosen)
            camera_rules = evaluation.camera_rules_of(named, protocol)
        reports = protocol.reports
        if ranks is not None:
            _checks.positive_ints("ranks", ranks)
            reports = (*(name for name in reports if not parse_report(name)[0].is_cmc), *map("rank_{}".format, ranks))
            protocol = protocol.changed({"reports": reports})
        of_members |= {"protocol": protocol, "ground_truth": evaluation.ListedTruth.of(lists, protocol)}
        self._directions = _checked_directions(directions, protocol)
        sides = {f"{direction}/": place == 1 for place, direction in enumerate(self._directions)} or {"": False}
        members: dict[str, Metric | MetricCollection] = {
            f"{side}{name}": _member(name, exchanged=exchanged, **of_members)
            for side, exchanged in sides.items()
            for name in reports
        }
        recalls = [name for name in reports if parse_report(name)[0].is_cmc]
        if self._directions and recalls:
            members["rsum"] = _RecallSum(recalls, **of_members)
        for member in members.values():
            member._of_collection = (("directions", repr(self._directions)),)  # noqa: SLF001
            member._needed_by_options = reasons  # noqa: SLF001
            member._camera_rules = camera_rules  # noqa: SLF001
        super().__init__(members, prefix=prefix, postfix=postfix, compute_groups=[list(members)])
        for name in members:  # the base class sorts by name: rank_10 before rank_5
            self._modules[name] = self._modules.pop(name)

    @base.signature_of(EmbeddingMetric.update)
    def update(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Check and store a batch; see `EmbeddingMetric.update`."""
        if self._directions and kwargs.get("is_query") is None:
            raise ValueError("`is_query` must be given with `directions`, whose roles are exchanged; got none.")
        super().update(*args, **kwargs)

    forward = base.signature_of(EmbeddingMetric.update)(MetricCollection.forward)

    def _compute_groups_create_state_ref(self, copy: bool = False) -> None:  # noqa: FBT002 - the base class's
        """As in the base class, but all lists at once: its `setattr` looks for each among the parameters of a module.

        It is called by each `update`, of which it takes a third otherwise.
        """
        if copy or self._state_is_copy:
            super()._compute_groups_create_state_ref(copy)
            return
        for first, *others in self._groups.values():
            held = getattr(self, first)
            shared = {name: vars(held)[name] for name in (*held._defaults, "_update_count")}  # noqa: SLF001
            for name in others:
                vars(getattr(self, name)).update(shared)

    def compute(self) -> dict[str, Any]:
        """All numbers, by name; NaN and one warning where no sample was given."""
        members = [member for member in self._modules.values() if isinstance(member, EmbeddingMetric)]
        if any(member.update_called or member.roles for member in members):
            return super().compute()
        self._first_member(None)._warn("undefined", evaluation.NO_SAMPLE)  # noqa: SLF001 - of the same room
        named = ((name, one) for name, one in self.items(copy_state=False) if isinstance(one, EmbeddingMetric))
        return {name: torch.full((), torch.nan, dtype=one.dtype, device=one.device) for name, one in named}

    @base.explain_bad_call
    def results(
        self, *, nearest: int = 0, camera_pairs: bool = False, direction: str | None = None
    ) -> evaluation.RetrievalResults:
        """One value per query, with the reasons where there is none; see `EmbeddingMetric.results`.

        They are of one `direction`, the first unless named.
        """
        return self._first_member(direction).results(nearest=nearest, camera_pairs=camera_pairs)

    def nearest(
        self, k: int = 10, queries: Tensor | _checks.Integers | None = None, *, direction: str | None = None
    ) -> evaluation.RankLists:
        """The first k candidates of every query, or of chosen ones; see `EmbeddingMetric.nearest` and `results`."""
        return self._first_member(direction).nearest(k, queries)

    def duplicates(self, threshold: float = 0.95, *, direction: str | None = None) -> Duplicates:
        """The near duplicates of queries in the gallery; see `EmbeddingMetric.duplicates` and `results`."""
        return self._first_member(direction).duplicates(threshold)

    def plot(self, *args: Any, **options: Any) -> Any:
        """Plot the numbers, or several results over time; see `torchmetrics.MetricCollection`. Needs Matplotlib."""
        _extras.require("A figure", "matplotlib")
        return super().plot(*args, **options)

    def _first_member(self, direction: str | None) -> EmbeddingMetric:
        if direction is not None:
            _checks.one_of("direction", direction, self._directions)
        side = "" if direction is None else f"{direction}/"
        member, *_ = (member for name, member in self._modules.items() if name.startswith(side))
        assert isinstance(member, EmbeddingMetric)  # noqa: S101 - for the type checker; see __init__
        return member


def _checked_directions(directions: Sequence[str] | None, protocol: evaluation.Protocol) -> tuple[str, ...]:
    """The names of two directions, or none."""
    if directions is None:
        return ()
    is_pair = not isinstance(directions, str) and len({*directions}) == len(directions) == 2
    if not is_pair or not all(isinstance(name, str) and name and not set(name) & set("./") for name in directions):
        raise ValueError(f"`directions` must be two names without '.' and '/'; got {directions!r}.")
    if protocol.leave_one_out:
        raise ValueError(f"`directions` must come with queries and a gallery; got protocol {protocol.name!r}.")
    return tuple(directions)


def _member(name: str, *, exchanged: bool = False, **options: Any) -> EmbeddingMetric:
    """The metric of a reported number, in a direction."""
    row, k = parse_report(name)
    if row.is_cmc:
        metric: EmbeddingMetric = ReIDCMC(k, **options)
    elif name in ("map", "minp"):
        metric = {"map": ReIDMeanAP, "minp": ReIDMINP}[name](**options)
    else:
        metric = ReIDMeasure(name, **options)
    metric._exchanged = exchanged  # noqa: SLF001 - an option of collections only
    return metric
