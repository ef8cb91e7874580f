"""Re-identification metrics: CMC, mean average precision, mINP, any measure by name, and a collection of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MetricCollection
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _extras, _names
from reid_torchmetrics._arrays import compute_device, to_compute_device
from reid_torchmetrics.functional.retrieval import evaluation, measures
from reid_torchmetrics.functional.retrieval.measures import cmc_curve, measure, measure_drawn, parse_report
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.world import results_made
from reid_torchmetrics.metrics import base

from .embedding_metric import DEFAULTS, EmbeddingMetric, ReIDOptions, explicit_signature


class CollectionOptions(ReIDOptions, evaluation.ProtocolOptions, total=False):
    """Options of `ReIDMetrics`, with the fields of `Protocol` that are not options of `EmbeddingMetric`."""


class _MeanOfMeasure(EmbeddingMetric):
    """Mean, or median, over queries of one measure in `MEASURES`."""

    _number = "map"
    """name of the measure, with its k"""

    def summarize(self, ranks: PositiveRanks) -> Tensor:
        """Return the mean of the measure over queries."""
        return self._mean(measure(self._number, ranks, self.protocol))

    def summarize_drawn(self, drawn: measures.DrawnResults) -> Tensor:
        """Return the mean over queries of the expectation over drawn galleries."""
        return self._mean(measure_drawn(self._number, drawn), drawn)

    def _average(self, values: Tensor, *, weight: Tensor | None) -> Tensor:
        row, _ = parse_report(self._number)
        return row.average(values, empty_target_action=self.empty_target_action, weight=weight)


class ReIDMeanAP(_MeanOfMeasure):
    """Mean average precision (mAP): the mean over queries of the area under the precision-recall curve.

    Options left at None are taken from the protocol; see `functional.retrieval.average_precision`.

    Args:
        rule: how the area is computed: "rectangle" (torchreid, fast-reid, TransReID, scikit-learn), "trapezoid" (the
            official Market-1501 script, Oxford, revisited Oxford and Paris), "interpolated_11", "interpolated_101".
        k: cutoff: the number of candidates that count; all by default.
        normalizer: divisor of the sum over the first `k` candidates: "positives", "attainable", "hits" or "k".
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

    Source: Ye et al., "Deep Learning for Person Re-identification: A Survey and Outlook", TPAMI 2021.

    Args:
        options: see `EmbeddingMetric`.

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
    """Cumulative matching characteristic (CMC) at `top_k`: the share of queries with a positive among the first k.

    By default this is the first-match CMC of the Market-1501 protocol, Rank-1 at `top_k=1`. It is a single number for
    `self.log`; `ReIDCMCCurve` is the curve.

    Args:
        top_k: cutoff: the number of candidates that count; it may exceed the gallery.
        mode: "first_match" or "all_shots" (open-reid's default); None for the mode of the protocol.
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

    _is_cmc = True
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

    `self.log` does not accept a curve: compute it in `on_validation_epoch_end` and log its picture. TorchMetrics
    squeezes results of one element, so `max_rank=1` returns a 0-d tensor.

    Args:
        max_rank: length of the curve; it may exceed the gallery.
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

    _is_cmc = True
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
        """Return the share of queries with a positive among the first k candidates, for every k."""
        return cmc_curve(ranks, self.max_rank, mode=self.protocol.mode, empty_target_action=self.empty_target_action)

    def summarize_drawn(self, drawn: measures.DrawnResults) -> Tensor:
        """Return the mean over queries of the probability of a positive among the first k candidates, for every k."""
        return self._mean(drawn.cmc[:, : self.max_rank], drawn)

    def _log_instead(self) -> str | None:
        return "ReIDCMC(top_k=k)" if self.max_rank > 1 else None

    def plot(self, val: Tensor | Sequence[Tensor] | None = None, ax: Any = None) -> Any:
        """Draw the curve, or the curves in `val`, by Matplotlib; returns the figure and its axes."""
        _extras.require("A figure", "matplotlib")
        curves: Any = self.compute() if val is None else val
        if not isinstance(curves, Tensor):
            curves = {f"step {step}": curve for step, curve in enumerate(curves)}
        return _extras.pictures().plot_cmc(curves, ax=ax)


class ReIDMeasure(_MeanOfMeasure):
    """Mean over queries of any measure in `MEASURES` by name: "precision_10", "map_at_r", "hit_rate_1", "mrr", ...

    Args:
        metric: name of the measure, with its k if it has one; or a measure of your own, as in `Protocol.reports`.
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

    plot_upper_bound = None
    _shown = ("metric",)

    @explicit_signature
    def __init__(
        self, metric: str | measures.Measure | Callable[[PositiveRanks], Tensor], **options: Unpack[ReIDOptions]
    ) -> None:
        name: Any = measures.name_of(metric)
        row, k = parse_report(name, argument="metric")
        if row.is_cmc:
            self._is_cmc = True
            self._longest = k
        super().__init__(**options)
        draw = self._ranking_options().protocol.gallery_draw
        if draw is not None and not row.has_expectation(k):
            raise ValueError(f"`protocol` must not draw galleries for the report {name!r}; got {draw!r}.")
        self.metric: str = name
        self._number = name
        self._reported = (name,)

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """True unless the measure is a rank or ANMRR."""
        return not parse_report(self.metric)[0].lower_is_better


class _RecallSum(_MeanOfMeasure):
    """Sum of a CMC at some ranks in both directions, in percent: `rsum`."""

    _is_cmc = True
    _shown = ("numbers",)
    plot_upper_bound = None

    def __init__(self, numbers: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self.numbers = tuple(numbers)

    def compute(self) -> Tensor:
        """Rank all samples in both directions and return the sum."""
        options = self._ranking_options()
        rankings = [self._ranking("compute", replace(options, exchanged=exchanged)) for exchanged in (False, True)]
        total = torch.zeros((), dtype=torch.float64, device=compute_device(self.device))
        for number in self.numbers:
            self._number = number
            values = [to_compute_device(self._value(ranking)).double() for ranking in rankings]
            total += 100 * sum(values)
        return total.to(self.device, self.dtype)


class ReIDMetrics(MetricCollection):
    """Collection of the numbers that papers report: `map`, `minp`, `rank_1`, ... or the reports of a protocol.

    All values are 0-d tensors for `self.log_dict`. The metrics share one set of samples and their rankings.

    Args:
        ranks: the ranks of the CMC; None for the ranks of the protocol, 1, 5 and 10 by default.
        prefix: text before every name, for instance "val/".
        postfix: text after every name.
        directions: names of two directions, such as ("t2i", "i2t"). Every number is then computed twice: "t2i/rank_1"
            for queries and gallery as they are, and "i2t/rank_1" with their roles exchanged. "rsum" is the sum of all
            "rank_k" in both directions, in percent (VSE++, Faghri et al., BMVC 2018). Each direction needs a ranking.
            Groups apply to samples in the role of the gallery: captions, the queries of "t2v", may be grouped by video
            for "v2t".
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
        other_options: dict[str, Any] = {**DEFAULTS, **options}
        lists = other_options.pop("ground_truth", None)
        named_protocol = other_options.pop("protocol")
        protocol, member_options, needed = evaluation.take_protocol(
            named_protocol, other_options, lists=lists is not None
        )
        if ranks is not None:
            _checks.positive_ints("ranks", ranks)
            protocol = _with_ranks(protocol, ranks)
        member_options["protocol"] = protocol
        member_options["ground_truth"] = evaluation.read_numbers(lists, protocol)
        self._directions = _checked_directions(directions, protocol)
        members = _members(protocol.reports, self._directions, member_options)

        # Members receive the protocol with all changes, and so do not know its name and the options of the user.
        is_named = named_protocol is not evaluation.DEFAULT_PROTOCOL
        for member in members.values():
            member._collection_options = (("directions", repr(self._directions)),)  # noqa: SLF001
            member._needed_by_options = needed  # noqa: SLF001
            member._needs_roles = bool(self._directions)  # noqa: SLF001
            member._named_protocol = named_protocol if is_named else None  # noqa: SLF001

        super().__init__(dict(members), prefix=prefix, postfix=postfix, compute_groups=[list(members)])
        for name in members:  # the base class sorts by name, with rank_10 before rank_5
            self._modules[name] = self._modules.pop(name)

    @base.signature_of(EmbeddingMetric.update)
    def update(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Check and store a batch; see `EmbeddingMetric.update`."""
        super().update(*args, **kwargs)

    forward = base.signature_of(EmbeddingMetric.update)(MetricCollection.forward)

    def _compute_groups_create_state_ref(self, copy: bool = False) -> None:  # noqa: FBT002 - the base class's
        """Share the states of the first metric of each group with the others, all lists at once.

        The base class sets each list by `setattr`, which searches the parameters of a module. That would take a third
        of each `update`.
        """
        if copy or self._state_is_copy:
            super()._compute_groups_create_state_ref(copy)
            return
        for group in self._groups.values():
            first = getattr(self, group[0])
            shared = {name: vars(first)[name] for name in (*first._defaults, "_update_count")}  # noqa: SLF001
            for name in group[1:]:
                vars(getattr(self, name)).update(shared)

    def compute(self) -> dict[str, Any]:
        """Return all numbers by name; NaN and one warning if there are no samples."""
        for member in self._modules.values():
            if isinstance(member, EmbeddingMetric) and (member.update_called or member.roles):
                return super().compute()
        member = self._first_member(None)
        samples = evaluation.RankedSamples(member.protocol, num_gallery=0, has_updates=True)
        results_made(evaluation.NO_RANKING, samples, member._world)  # noqa: SLF001 - of the same package
        values = {}
        for name, member in self.items(copy_state=False):
            if isinstance(member, EmbeddingMetric):
                values[name] = torch.full((), torch.nan, dtype=member.dtype, device=member.device)
        return values

    @base.explain_bad_call
    def results(
        self, *, nearest: int = 0, camera_pairs: bool = False, direction: str | None = None
    ) -> evaluation.RetrievalResults:
        """Return one value per query for each number in one `direction`, by default the first.

        See `EmbeddingMetric.results`.
        """
        return self._first_member(direction).results(nearest=nearest, camera_pairs=camera_pairs)

    def nearest(
        self, k: int = 10, queries: Tensor | _checks.Integers | None = None, *, direction: str | None = None
    ) -> evaluation.RankLists:
        """Return the first k candidates of all queries or of some; see `EmbeddingMetric.nearest` and `results`."""
        return self._first_member(direction).nearest(k, queries)

    def duplicates(self, threshold: float = 0.95, *, direction: str | None = None) -> Any:
        """Return the `Duplicates` of queries in the gallery; see `EmbeddingMetric.duplicates` and `results`."""
        return self._first_member(direction).duplicates(threshold)

    def plot(self, *args: Any, **options: Any) -> Any:
        """Plot the numbers, or several results over time, by Matplotlib; see `torchmetrics.MetricCollection`."""
        _extras.require("A figure", "matplotlib")
        return super().plot(*args, **options)

    def _first_member(self, direction: str | None) -> EmbeddingMetric:
        if direction is not None:
            _checks.one_of("direction", direction, self._directions)
        prefix = "" if direction is None else f"{direction}/"
        members = [member for name, member in self._modules.items() if name.startswith(prefix)]
        member = members[0]
        assert isinstance(member, EmbeddingMetric)  # noqa: S101 - for the type checker; see __init__
        return member


def _with_ranks(protocol: evaluation.Protocol, ranks: Iterable[int]) -> evaluation.Protocol:
    """Return a protocol that reports its CMC at other ranks."""
    reports = [name for name in protocol.reports if not parse_report(name)[0].is_cmc]
    reports += [f"rank_{rank}" for rank in ranks]
    return protocol.with_options({"reports": tuple(reports)})


def _checked_directions(directions: Sequence[str] | None, protocol: evaluation.Protocol) -> tuple[str, ...]:
    """Return the names of two directions, or none; raise unless they may be parts of names of metrics."""
    if directions is None:
        return ()
    is_pair = not isinstance(directions, str) and len(set(directions)) == len(directions) == 2
    if not is_pair or not all(map(_may_be_direction, directions)):
        raise ValueError(f"`directions` must be two names without '.' and '/'; got {directions!r}.")
    if protocol.leave_one_out:
        raise ValueError(f"`directions` must come with queries and a gallery; got protocol {protocol.name!r}.")
    return tuple(directions)


def _may_be_direction(name: object) -> bool:
    """Return whether a name is a string that neither is empty nor separates parts of a name."""
    return isinstance(name, str) and name != "" and "." not in name and "/" not in name


def _members(reports: Sequence[str], directions: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a collection by name."""
    members: dict[str, EmbeddingMetric] = {}
    if not directions:
        return {name: _member(name, options) for name in reports}
    for number, direction in enumerate(directions):
        for name in reports:
            members[f"{direction}/{name}"] = _member(name, options, exchanged=number == 1)
    recalls = [name for name in reports if parse_report(name)[0].is_cmc]
    if recalls:
        members["rsum"] = _RecallSum(recalls, **options)
    return members


def _member(name: str, options: Mapping[str, Any], *, exchanged: bool = False) -> EmbeddingMetric:
    """Return the metric for a reported number, perhaps with the roles of queries and gallery exchanged."""
    row, k = parse_report(name)
    if row.is_cmc:
        metric: EmbeddingMetric = ReIDCMC(k, **options)
    elif name == "map":
        metric = ReIDMeanAP(**options)
    elif name == "minp":
        metric = ReIDMINP(**options)
    else:
        metric = ReIDMeasure(name, **options)
    metric._exchanged = exchanged  # noqa: SLF001 - an option of collections only
    return metric
