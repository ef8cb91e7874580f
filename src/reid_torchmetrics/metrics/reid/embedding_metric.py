"""Base class of metrics that rank embeddings in `compute`; subclasses only summarize the ranks."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar

import torch
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.retrieval import evaluation
from reid_torchmetrics.functional.retrieval.measures import (
    DrawnResults,
    Measure,
    OwnName,
    free_name,
    in_format,
    mean_over_queries,
    means_among,
    parse_report,
)
from reid_torchmetrics.functional.retrieval.ranking import DRAWN_TIES, TIE_POLICIES, PositiveRanks, block_of
from reid_torchmetrics.functional.retrieval.relevance import AGREEMENT_RULES, RULES_BY_LABEL, lists_names
from reid_torchmetrics.functional.retrieval.scores import CustomSimilarity, Rerank, check_rerank, check_similarity
from reid_torchmetrics.functional.retrieval.sharding import Samples
from reid_torchmetrics.functional.world import Settings, agree
from reid_torchmetrics.metrics import base

from .ranking import SampleStates

Found = TypeVar("Found")

METRIC_METHODS: Registry[Callable[..., Any]] = Registry("METRIC_METHODS", {})
"""methods of `EmbeddingMetric` by name, which tasks add: functions of a metric and of options"""
_NEUTRAL = {"max_bytes", "training", "compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache"}
"""attributes of a metric that do not change its value"""
_NO_MEAN = (
    "`{}` must have a value that is the mean of its values for single queries, `per_query`, to be a number of results;"
    " got another one."
)


class ScoreOptions(TypedDict, total=False):
    """Options for the protocol, and for scoring and ranking."""

    protocol: _names.ProtocolName | evaluation.Protocol
    ground_truth: Mapping[int, Any] | Sequence[Any] | None
    similarity: _names.SimilarityName | CustomSimilarity | None
    packed: bool
    ties: _names.TieName | None
    rerank: Rerank | None
    max_bytes: int | None


class ReIDOptions(ScoreOptions, evaluation.RelevanceOptions, base.MetricOptions, total=False):
    """Options of `EmbeddingMetric`."""


DEFAULTS = {"protocol": evaluation.DEFAULT_PROTOCOL, "packed": False}
"""defaults of options other than None"""
explicit_signature = base.explicit_signature(ReIDOptions, DEFAULTS, elsewhere=evaluation.PROTOCOL_FIELDS)


class EmbeddingMetric(SampleStates):
    """Base class of metrics over query and gallery embeddings; write a new measure as a subclass with `summarize`.

    `update` only checks and stores a batch. `compute` ranks all samples, once for all metrics with the same samples,
    and passes the ranks to `summarize`.

    On several processes each process keeps its samples, and all processes must call `compute`. It ranks the samples of
    all processes as one set, and returns the same value on all of them. Only queries, scores of positives and counts
    are exchanged. Metrics must be the same on all processes: the class is compared, and its public attributes that are
    numbers, strings or tuples.

    Options left at None are taken from the protocol.

    Args:
        protocol: the benchmark, by its name in `PROTOCOLS` or as a `Protocol`; the default is Market-1501 as today's
            code bases compute it.
        ground_truth: relevance by lists instead of labels. A mapping or a sequence with the positives of each query
            by its `index`, or with its lists by name ("ok", "junk"); items are given by their `index`. Identities and
            cameras are then shown in results only; `sequences` and `groups` are refused, and no rule about labels
            applies. There is a warning if items are not in the gallery.
        similarity: "cosine", "euclidean", "dot", "hamming" for codes, or a function of a block of queries [q, D] and a
            block of gallery items [g, D] that returns scores [q, g], higher is closer; "cosine" unless the protocol
            names another. Codes are of 0 and 1, or of 1 and -1, of any dtype.
        packed: whether codes are bits packed into uint8, as by `numpy.packbits`; with "hamming".
        same_camera: "same_identity" drops the gallery items with the query's identity and camera (Market-1501),
            "all" drops every item of the query's camera, "only" every item of another camera, "keep" drops nothing.
            Without cameras nothing is dropped.
        camera_map: cameras that the camera rule takes for another one: {3: 2} says that 2 and 3 see the same place.
        search_cameras: gallery items of other cameras are dropped for every query.
        junk_identities: gallery items of these identities are dropped for every query.
        missing_identities: "junk" takes samples whose identity is missing (None, NaN or "") for junk; "error" refuses
            them.
        clothes: "drop_same" drops the gallery items with the query's identity and clothes, "drop_other" those with
            its identity and other clothes, "keep" drops nothing.
        radius: positives are the items within this distance of the query's position, and identities are not needed.
        must_agree: labels that a gallery item must share with the query, such as ("side",), which `update` takes as
            `labels={"side": ...}`: an item that differs in one of them is dropped. Cameras and clothes may be named,
            too.
        must_differ: labels in which a gallery item must differ from the query, such as ("batch",): an item that agrees
            in one of them is dropped.
        gallery_draw: a `GalleryDraw`: the value is the exact expectation over galleries drawn in this way.
        ties: the order of equal scores: "pessimistic" puts negatives first, "optimistic" positives, "stable" the items
            with the smaller `index`, or without `index` the earlier items, process by process; "grouped" gives all of
            them the last of their ranks, "expected" is the mean over all orders. The default is "pessimistic", unless
            the protocol names another.
        empty_target_action: the value of a query without positives in a mean: "skip", "neg" (0), "pos" (1), "error".
            Where no query has a positive, as in Lightning's sanity check, the mean is NaN under "skip" and "error".
        rerank: an object of a class in `RERANKINGS`, which scores the gallery anew for each query. On several processes
            every process then receives all samples, as for drawn galleries.
        max_bytes: bound on the scores and prepared gallery rows that `compute` holds at a time, and on the queries that
            processes exchange at a time. The default is 256 MiB; on a GPU it is an eighth of the free memory if that is
            more, and `compute` holds a copy of the embeddings in addition.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.
    """

    higher_is_better = True

    _is_cmc = False
    """whether the value is a CMC, with the camera rule and the drawn galleries of the protocol's CMC"""
    _longest = 1
    """the largest rank of a CMC"""
    _exchanged = False
    """whether queries and gallery exchange their roles: in the second direction of a collection"""
    _shown: ClassVar[tuple[str, ...]] = ()
    """attributes that the `repr` always shows, as the first ones"""

    if TYPE_CHECKING:  # `torch.jit` does not know these types
        _reported: tuple[str, ...]
        _collection_options: tuple[tuple[str, str], ...]

    _collection_options = ()
    """names and values of the options of the collection that has this metric; all processes must have the same"""
    _reported = ()
    """numbers in `results` besides the reports of the protocol"""

    @explicit_signature
    def __init__(self, **options: Unpack[ReIDOptions]) -> None:
        other_options: dict[str, Any] = {**DEFAULTS, **options}
        scoring: dict[str, Any] = {name: other_options.pop(name, None) for name in ScoreOptions.__annotations__}
        named_protocol = scoring["protocol"]
        lists = scoring["ground_truth"]
        protocol, metric_options, needed = evaluation.take_protocol(
            named_protocol, other_options, lists=lists is not None
        )
        super().__init__(**metric_options)

        self._needed_by_options = needed
        is_named = named_protocol is not evaluation.DEFAULT_PROTOCOL
        self._named_protocol = named_protocol if is_named else None
        self._may_be_codes = protocol.reads_codes and scoring["similarity"] is None
        self._ties_are_open = protocol.leaves_ties_open(scoring["ties"])

        self.similarity = protocol.similarity_or(scoring["similarity"])
        self.ties = protocol.ties_or(scoring["ties"])
        self.packed = scoring["packed"]
        self.rerank = scoring["rerank"]
        self.max_bytes = scoring["max_bytes"]
        check_similarity(self.similarity)
        _checks.boolean("packed", self.packed)
        if self.packed and self.similarity != "hamming":
            raise ValueError(f"`packed` must come with `similarity='hamming'`; got {self.similarity!r}.")
        _checks.one_of("ties", self.ties, TIE_POLICIES)
        _checks.cutoff("max_bytes", self.max_bytes)
        check_rerank(self.rerank, self.similarity)
        self.protocol = protocol
        self.ground_truth = evaluation.read_numbers(lists, protocol)
        self._has_marks = self._may_be_codes or self.similarity == "hamming"
        self._change()

    def _change(self, **fields_of_protocol: Any) -> None:
        """Replace fields of the protocol by the values that are not None."""
        changes = {name: value for name, value in fields_of_protocol.items() if value is not None}
        self.protocol = self.protocol.with_options(changes)
        self._label_rules = self.protocol.relevance_options
        self._lists_names = lists_names(self._label_rules)
        draw = self._ranking_options().protocol.gallery_draw
        if draw is not None:
            _checks.one_of("ties", self.ties, DRAWN_TIES)
            if type(self).summarize_drawn == EmbeddingMetric.summarize_drawn:
                raise ValueError(f"`protocol` must not draw galleries for {type(self).__name__}; got {draw!r}.")

    @property
    def empty_target_action(self) -> _names.EmptyTargetAction:
        """Value of a query without positives in a mean."""
        return self.protocol.empty_target_action

    def _update_options(self) -> tuple[object, ...]:
        codes = (self.packed, self._may_be_codes, self.similarity == "hamming")
        needed_labels = sorted({*self._needed_by_options, *self.protocol.needed_labels})
        names = ("missing_identities", *RULES_BY_LABEL, *AGREEMENT_RULES)
        rules = [self._label_rules[name] for name in names]
        return codes, needed_labels, rules, self.ground_truth is None

    @abstractmethod
    def summarize(self, ranks: PositiveRanks) -> Tensor:
        """Return the value from the ranks of the positives of all queries; at least one query has a positive."""

    def summarize_drawn(self, drawn: DrawnResults) -> Tensor:
        """Return the value from expectations over drawn galleries, for protocols that draw galleries."""
        raise NotImplementedError

    def per_query(self, ranks: PositiveRanks) -> Tensor:
        """Return one value for each query: their mean is the value of the metric in `results` and `reports=(...)`.

        By default this calls `summarize` for each query alone; override it where that takes too long.
        """
        values = torch.full((ranks.num_queries,), torch.nan, dtype=torch.float64, device=ranks.rank.device)
        start = 0
        for query, num_positives in enumerate(ranks.num_positives.tolist()):
            stop = start + num_positives
            if num_positives:
                values[query] = self.summarize(block_of(ranks, slice(query, query + 1), slice(start, stop)))
            start = stop
        return values

    @property
    def measure(self) -> Measure:
        """The measure of `per_query`. Its name is that of the class: "three_in_ten" for `ThreeInTen`."""
        name = free_name(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower())
        first_line, *_ = (type(self).__doc__ or name).strip().splitlines()
        plain = self._plain_options()
        options = {name: value for name, value in plain.items() if name not in ScoreOptions.__annotations__}
        words = [first_line.rstrip("."), *(f"{name} {value!r}" for name, value in options.items())]
        return Measure(
            name,
            self._measured,
            in_format(", ".join(words)),
            is_cmc=self._is_cmc,
            is_loss=not self.higher_is_better,
        )

    def _measured(self, ranks: PositiveRanks, *_: object) -> Tensor:
        """Return `per_query` as a measure does.

        Raises:
            ValueError: the value of the metric is not the mean of these values.
        """
        values = self._averaged_values(ranks)
        if values is None:
            raise ValueError(_NO_MEAN.format(type(self).__name__))
        return values

    def _averaged_values(self, ranks: PositiveRanks) -> Tensor | None:
        """Return `per_query`; None if the value of the metric is not the mean of these values."""
        if not len(ranks.rank):
            return torch.full((ranks.num_queries,), torch.nan, dtype=torch.float64, device=ranks.rank.device)
        value = self.summarize(ranks).double()
        if value.numel() != 1:
            return None
        values = self.per_query(ranks).double().masked_fill(ranks.num_positives == 0, torch.nan)
        is_mean = torch.isclose(self._mean(values), value.reshape(()), rtol=1e-6, equal_nan=True)
        return values if is_mean else None

    def _own_report(self, ranking: evaluation.Ranking) -> tuple[OwnName, ...]:
        """Return the name of a user's measure, with its values for a ranking and without the samples of the metric.

        There is none for the classes of this package, and, with a warning, where the value is no mean over queries.
        """
        package = __name__.partition(".")[0]
        if type(self).summarize.__module__.startswith(f"{package}."):
            return ()
        values = self._averaged_values(ranking.ranks) if ranking.drawn is None else None
        if values is None:
            reason = _NO_MEAN.format(type(self).__name__) if ranking.drawn is None else "galleries are drawn."
            self._warn("no_mean", f"The results lack the value of `{type(self).__name__}`: {reason}")
            return ()
        return (OwnName(self.measure.with_values(values)),)

    def compute(self) -> Tensor:
        """Rank all samples and summarize the ranks.

        Where no query can be evaluated, there is one warning, and the value is NaN, or the value of
        `empty_target_action` if there are queries.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric or the same kind of samples.
        """
        return self._value(self._ranking("compute", self._ranking_options()))

    def _value(self, ranking: evaluation.Ranking) -> Tensor:
        """Return the value for a ranking."""
        if ranking.counts.valid > 0:
            drawn = ranking.drawn
            value = self.summarize(ranking.ranks) if drawn is None else self.summarize_drawn(drawn)
            return value.to(self.device, self.dtype)
        # `summarize` need not handle empty ranks. One query with one hit tells the shape of the value.
        device = ranking.ranks.rank.device
        one_hit = PositiveRanks(*torch.ones((3, 1), dtype=torch.int64, device=device))
        shape = self.summarize(one_hit).shape
        num_queries = ranking.counts.total - ranking.counts.not_ranked
        undefined = torch.full((num_queries,), torch.nan, dtype=torch.float64, device=device)
        mean = self._mean(undefined, ranking.drawn)
        return mean.to(self.device, self.dtype).repeat(shape)

    @base.explain_bad_call
    def results(self, *, nearest: int = 0, camera_pairs: bool = False) -> evaluation.RetrievalResults:
        """Return one value per query for each number, the same on all processes, which all must call it.

        Queries are in the order of `index` if it is given, and otherwise in the order of the updates, process by
        process. The arguments decide what the results can answer later, because results hold no embeddings.

        Args:
            nearest: the largest length of the rank lists in the results, for `results.nearest(k)` and
                `results.confident_mistakes(n)`; 0 for none. Lists cost another pass over the gallery.
            camera_pairs: whether the results hold `results.by_camera_pair(name)`, which costs one or two passes.

        Raises:
            DistributedMetricError: as `compute`.
            TypeError: an argument of the wrong type.
            ValueError: `nearest` is negative; lists or camera pairs of embeddings that are not finite, or camera pairs
                without cameras or under a protocol that draws galleries.
        """
        with self._synced():
            arguments = {"nearest": repr(nearest), "camera_pairs": repr(camera_pairs)}
            options, cmc_options = (self._ranking_options(is_cmc=is_cmc) for is_cmc in (False, True))
            ranking = self._ranking("results", options, arguments)
            cmc_ranking = self._ranking("results", cmc_options, arguments)
            _checks.positive_int("nearest", nearest, least=0)
            _checks.boolean("camera_pairs", camera_pairs)
            own_report = self._own_report(cmc_ranking if self._is_cmc else ranking)
            reports = dict.fromkeys((*self.protocol.reports, *self._reported, *own_report))
            protocol = replace(self.protocol, reports=tuple(reports))
            setup = evaluation.Setup.of(self.ties, self.similarity, self.rerank, ranking.labels)
            setup = replace(setup, lists=self.ground_truth is not None, exchanged=self._exchanged)
            max_rank = max(50, self._longest)
            results = evaluation.summarize(ranking, protocol, setup, max_rank=max_rank, cmc_ranking=cmc_ranking)
            lists = self._rank_lists(nearest, None) if nearest else None
            pairs = None
            if camera_pairs:  # other galleries: the measure itself, and not its values for the ranking
                measured = [OwnName(self.measure) if name in own_report else name for name in reports]
                pairs = self._camera_pairs(replace(protocol, reports=tuple(measured)))
            names = ranking.names.gather(self._world) or None
            return replace(results, rank_lists=lists, camera_pairs=pairs, label_names=names)

    def nearest(self, k: int = 10, queries: Tensor | _checks.Integers | None = None) -> evaluation.RankLists:
        """Return the first k candidates of all queries or of some, and the first positive of each query.

        All processes must call it with the same arguments, and get the same lists. Candidates, their order and
        positives are those of the ranking. The gallery does not move: each process sends its best candidates, and these
        are merged.

        Args:
            k: number of candidates, at most the whole gallery; the list of a query with fewer candidates is padded.
            queries: int, numbers of queries from 0 in the order of `results()`, such as `results.hardest(20)`.

        Raises:
            DistributedMetricError: as `compute`, or if the processes do not ask for the same.
            TypeError: `k` is not an int, or `queries` not an integer tensor.
            ValueError: `k` is below 1, `queries` has a number that no query has, or embeddings that are not finite.
        """
        with self._synced():
            return self._rank_lists(k, queries)

    def duplicates(self, threshold: float = 0.95) -> Any:
        """Return the `Duplicates` of queries in the gallery, or among samples without roles; see `find_duplicates`.

        All processes must call it with the same arguments, and get the same pairs. The rules of the protocol drop no
        pair. `results().means_without(duplicates)` has the numbers without the queries that have a near duplicate.

        Args:
            threshold: the smallest score of a pair; under "euclidean" the largest distance.

        Raises:
            DistributedMetricError: as `compute`, or if the processes do not ask for the same.
            TypeError: `threshold` is no number.
            ValueError: a threshold that no score has, or embeddings that are not finite.
        """
        with self._synced():
            return METRIC_METHODS["duplicates"](self, threshold)

    def _rank_lists(self, k: int, queries: Tensor | _checks.Integers | None) -> evaluation.RankLists:
        (queries,) = _arrays.as_tensors(queries)
        numbers = queries.tolist() if isinstance(queries, Tensor) else queries
        arguments = {"k": repr(k), "queries": repr(numbers)}

        def check() -> None:
            _checks.positive_int("k", k)
            if queries is not None:
                _checks.integer_labels("queries", queries)

        work = partial(evaluation.list_samples, k=k, queries=queries)
        return self._look_at_samples("nearest", arguments, check, work)

    def _look_at_samples(
        self, method: str, arguments: Mapping[str, str], check: Callable[[], None], work: Callable[..., Found]
    ) -> Found:
        """Return what `work` finds in the samples of all processes, which agree on the method and its arguments.

        Args:
            method: the method that the user called.
            arguments: its arguments, as texts.
            check: raises unless the arguments are right.
            work: a function of samples, ranking options and a world, with `max_bytes` and `updates` as keywords.
        """

        def collect() -> tuple[Samples, list[int]]:
            check()
            return self._accepted_samples().samples, []

        options = self._ranking_options(is_cmc=False)
        samples, _ = agree(self._world, collect, lambda: self._settings(method, arguments))
        return work(samples, options, self._world, max_bytes=self.max_bytes, updates=self._updates())

    def _camera_pairs(self, protocol: evaluation.Protocol) -> dict[str, evaluation.CameraPairs]:
        reported = means_among(protocol.reports)
        names = {name: self._ranking_options(is_cmc=parse_report(name)[0].is_cmc) for name in reported}
        samples = self._world.guarded(lambda: self._accepted_samples().samples)
        find = METRIC_METHODS["camera_pairs"]
        pairs = find(samples, names, protocol, self._world, max_bytes=self.max_bytes)
        return {str(name): pairs_of_number for name, pairs_of_number in pairs.items()}

    def _mean(self, values: Tensor, drawn: DrawnResults | None = None) -> Tensor:
        weight = None
        if drawn is not None and self.protocol.queries_in_draw:
            weight = drawn.weight
        return self._average(values, weight=weight)

    def _average(self, values: Tensor, *, weight: Tensor | None) -> Tensor:
        return mean_over_queries(values, empty_target_action=self.empty_target_action, weight=weight)

    def _ranking_options(self, *, is_cmc: bool | None = None) -> evaluation.RankingOptions:
        """Return the options of a ranking, of the one for the value unless `is_cmc` asks for another."""
        return evaluation.RankingOptions.of(
            self.protocol,
            is_cmc=self._is_cmc if is_cmc is None else is_cmc,
            longest=self._longest,
            similarity=self.similarity,
            ties=self.ties,
            rerank=self.rerank,
            lists=self.ground_truth,
            exchanged=self._exchanged,
        )

    def _ranking(
        self, method: str, options: evaluation.RankingOptions, arguments: Mapping[str, str] | None = None
    ) -> evaluation.Ranking:
        """Return the ranking for a call of `method`; processes compare the method, its arguments and the options."""
        return self._rank_once(options, lambda: self._settings(method, arguments or {}), self.max_bytes)

    def _settings(self, method: str, arguments: Mapping[str, str]) -> Settings:
        """Return the class, the called method with its arguments, and the options that change the value.

        Where two of them have the same name, the later one counts: the `rule` of open sets instead of that of AP, and
        the argument `k` of rank lists instead of that of AP.
        """
        protocol = self.protocol
        ranking_options = self._ranking_options().describe()
        options = {}
        for field in fields(protocol):
            if field.name != "name":
                options[field.name] = repr(getattr(protocol, field.name))
        for name, value in self._plain_options().items():
            options[name] = repr(value)
        options["similarity"] = ranking_options["similarity"]
        options["rerank"] = ranking_options["rerank"]
        options.update(self._collection_options)
        options["ground_truth"] = ranking_options["lists"]
        options["protocol"] = repr(protocol.name.partition(" with ")[0])  # changed fields are compared by their names
        options.update(arguments)
        return Settings(type(self).__name__, method, options, ranking_options)

    def _plain_options(self) -> dict[str, Any]:
        """Return the public attributes that may change the value and are numbers, strings or tuples."""
        options = {}
        for name, value in vars(self).items():
            is_option = not name.startswith("_") and name not in _NEUTRAL
            if is_option and isinstance(value, (str, int, float, tuple)):
                options[name] = value
        return options

    def extra_repr(self) -> str:
        """Return the options that change the value; the name of the protocol stands for its fields."""
        options: dict[str, Any] = {name: getattr(self, name) for name in self._shown}
        options["protocol"] = self.protocol.name
        options["similarity"] = self.similarity
        options["ties"] = self.ties
        return base.show_arguments(self, options, hidden=evaluation.PROTOCOL_FIELDS)
