"""The metric that holds embeddings and labels, and ranks them in `compute`; subclasses only summarize ranks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import numpy as np
import torch
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional.retrieval import evaluation
from reid_torchmetrics.functional.retrieval.draws import DRAWN_TIES
from reid_torchmetrics.functional.retrieval.measures import DrawnResults, mean_over_queries, means_among, parse_report
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import SIDES, check_needed, lists_names
from reid_torchmetrics.functional.retrieval.reranking import Rerank, check_rerank
from reid_torchmetrics.functional.retrieval.scores import CustomSimilarity, check_similarity, read_embeddings
from reid_torchmetrics.functional.retrieval.sharding import Samples, gather_names
from reid_torchmetrics.functional.retrieval.verification import Duplicates, find_pairs, least_score
from reid_torchmetrics.functional.world import Settings, meet
from reid_torchmetrics.metrics import base

from .ranking import SampleStates

_NEUTRAL = {"max_bytes", "training", "compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache"}
"""attributes of a metric that do not decide its value"""
_ALWAYS_ACT = ("sequences", "groups")
"""labels that change the ranking without an option, and so cannot come beside lists"""


class ScoreOptions(TypedDict, total=False):
    """The protocol, and how samples are scored and ranked."""

    protocol: _names.ProtocolName | evaluation.Protocol
    ground_truth: Mapping[int, Any] | Sequence[Any] | None
    similarity: _names.SimilarityName | CustomSimilarity | None
    packed: bool
    ties: _names.TieName | None
    rerank: Rerank | None
    max_bytes: int | None


class ReIDOptions(ScoreOptions, evaluation.RelevanceOptions, base.MetricOptions, total=False):
    """The options of `EmbeddingMetric`."""


DEFAULTS = {"protocol": evaluation.DEFAULT_PROTOCOL, "packed": False}
"""of the options that have another default than None"""
explicit_signature = base.explicit_signature(ReIDOptions, DEFAULTS, elsewhere=evaluation.PROTOCOL_FIELDS)


class EmbeddingMetric(SampleStates):
    """Base of the metrics over query and gallery embeddings; a measure of one's own is a subclass with `summarize`.

    `update` checks a batch and stores it, nothing else; `compute` ranks all samples, once for all metrics that hold
    the same samples, and hands the ranks to `summarize`.

    On several processes each keeps the samples that it was given. `compute` ranks them as one set, moves only queries,
    scores of positives and counts, and has the same value on all processes, which all must call it. Metrics must
    be the same on all: the class and its public attributes that are numbers, strings or tuples are compared.

    Options left at None are taken from the protocol.

    Args:
        protocol: the benchmark, by its name in `PROTOCOLS` or as a `Protocol`; the default is Market-1501 as today's
            code bases compute it.
        ground_truth: where relevance is by lists, for every query, by its `index`, its positives, or its lists by name
            ("ok", "junk"), as numbers of gallery items by `index`: a mapping, or a sequence. Identities and cameras are
            shown in results and decide nothing; `sequences` and `groups` are refused, and no rule about labels applies.
            A warning says if items are not in the gallery.
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
        missing: "junk" takes samples whose identity is missing (None, NaN or "") for junk; "error" refuses them.
        clothes: "drop_same" drops the gallery items with the query's identity and clothes, "drop_other" those with
            its identity and other clothes, "keep" drops nothing.
        radius: positives are the items within this distance of the query's position, and identities are not needed.
        must_agree: labels that a gallery item must share with the query, such as ("side",), which `update` takes as
            `labels={"side": ...}`: an item that differs in one of them is dropped. Cameras and clothes may be named,
            too.
        must_differ: labels in which a gallery item must differ from the query, such as ("batch",): an item that agrees
            in one of them is dropped.
        draw: a `GalleryDraw`: the value is the exact expectation over galleries that are drawn so.
        ties: who goes first among equal scores: "pessimistic" the negative, "optimistic" the positive, "stable" the
            item that comes first by `index`, or that came first, process by process, where there is no `index`;
            "grouped" gives all the last of their ranks, "expected" is the mean over all orders; "pessimistic" unless
            the protocol names another.
        empty_target_action: what a query without positives counts in a mean: "skip", "neg" (0), "pos" (1), "error".
            Where no query has a positive, as in Lightning's sanity check, the value is NaN under "skip" and "error".
        rerank: `KReciprocal(...)`, which starts from Euclidean distances, of unit vectors under "cosine", or
            `QueryExpansion(...)`. On several processes each gets all samples for it, and for drawn galleries.
        max_bytes: bound on the scores and prepared gallery rows that `compute` holds at a time, and on the queries that
            processes send to all at a time; None for 256 MiB, or more on a GPU: an eighth of its free memory; off the
            CPU it holds a copy of the embeddings besides.
        kwargs: see `torchmetrics.Metric`.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an unknown option or value.
    """

    __jit_unused_properties__: ClassVar[list[str]] = [*SampleStates.__jit_unused_properties__, "empty_target_action"]
    higher_is_better = True

    _is_for_cmc = False
    """whether the camera rule and the drawn galleries are the ones of the protocol's CMC"""
    _longest = 1
    """the largest rank of a CMC"""
    _exchanged = False
    """whether gallery items are the queries, and queries the gallery: the second direction of a collection"""
    _shown: ClassVar[tuple[str, ...]] = ()
    """attributes that the `repr` begins with"""

    if TYPE_CHECKING:  # `torch.jit` does not know these types
        _reported: tuple[str, ...]
        _of_collection: tuple[tuple[str, str], ...]

    _of_collection = ()
    """options of the collection that it is in, as text: all processes must share them"""
    _reported = ()
    """numbers that `results` holds besides the reports of the protocol"""

    @explicit_signature
    def __init__(self, **options: Unpack[ReIDOptions]) -> None:
        chosen: dict[str, Any] = {**DEFAULTS, **options}
        scoring: dict[str, Any] = {name: chosen.pop(name, None) for name in ScoreOptions.__annotations__}
        named, lists = scoring["protocol"], scoring["ground_truth"]
        protocol, kwargs = evaluation.take_protocol(named, chosen, lists=lists is not None)
        super().__init__(**kwargs)
        self._needed_by_options = {} if lists is not None else evaluation.find_protocol(named).needed_by(chosen)
        self._may_be_codes = protocol.reads_codes and scoring["similarity"] is None
        self._counts_ties = protocol.leaves_ties_open(scoring["ties"])
        self.similarity = protocol.similarity_or(scoring["similarity"])
        self.ties = protocol.ties_or(scoring["ties"])
        self.packed, self.rerank, self.max_bytes = scoring["packed"], scoring["rerank"], scoring["max_bytes"]
        check_similarity(self.similarity)
        _checks.boolean("packed", self.packed)
        if self.packed and self.similarity != "hamming":
            raise ValueError(f"`packed` must come with `similarity='hamming'`; got {self.similarity!r}.")
        _checks.one_of("ties", self.ties, TIE_POLICIES)
        _checks.cutoff("max_bytes", self.max_bytes)
        check_rerank(self.rerank, self.similarity)
        self.protocol, self.ground_truth = protocol, evaluation.ListedTruth.of(lists, protocol)
        self._camera_rules = None if lists is not None else evaluation.camera_rules_of(named, protocol)
        self._change()

    def _change(self, **options: Any) -> None:
        """Put options that are not None in the place of the protocol's."""
        self.protocol = self.protocol.changed({name: value for name, value in options.items() if value is not None})
        rules = self.protocol.relevance_options
        self._label_rules, self._lists_names = rules, lists_names(rules)
        draw = self._ranks_by(for_cmc=self._is_for_cmc).protocol.draw
        if draw is not None:
            _checks.one_of("ties", self.ties, DRAWN_TIES)
            if type(self).summarize_drawn == EmbeddingMetric.summarize_drawn:
                raise ValueError(f"`protocol` must not draw galleries for {type(self).__name__}; got {draw!r}.")

    @property
    def empty_target_action(self) -> _names.EmptyTargetAction:
        """What a query without positives counts in a mean."""
        return self.protocol.empty_target_action

    def _check_needed(self, labels: Mapping[str, object], is_query: object) -> None:
        if self.ground_truth is None:
            is_of_queries = isinstance(is_query, (bool, np.bool_)) and bool(is_query)
            reasons = {**self._needed_by_options, **self.protocol.needed_labels}
            check_needed(reasons, labels, sides=SIDES[:1] if is_of_queries else SIDES)
            return
        if labels["index"] is None:
            raise ValueError("`index` must be given with `ground_truth`, which lists samples by it; got none.")
        for name in _ALWAYS_ACT:
            if labels.get(name) is not None:
                raise ValueError(
                    f"`{name}` must come without `ground_truth`, which alone says who is relevant; got both."
                )

    def _read_embeddings(self, embeddings: object) -> Tensor:
        if self.similarity != "hamming" and not self._may_be_codes:
            return super()._read_embeddings(embeddings)
        device = getattr(embeddings, "device", None)
        options = {"packed": self.packed, "may_be_codes": self._may_be_codes}
        return read_embeddings("embeddings", embeddings, self.similarity, device, **options)

    @abstractmethod
    def summarize(self, ranks: PositiveRanks) -> Tensor:
        """The metric's value, given the ranks of the positives of all queries; at least one query has some."""

    def summarize_drawn(self, drawn: DrawnResults) -> Tensor:
        """The metric's value, given the expectations over drawn galleries; only where the protocol draws them."""
        raise NotImplementedError

    def compute(self) -> Tensor:
        """Rank all samples and summarize the ranks; one warning where no query can be evaluated.

        The value is NaN then, or what `empty_target_action` counts where there are queries.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric or the same kind of samples.
        """
        return self._value(self._ranking("compute", for_cmc=self._is_for_cmc))

    def _value(self, ranking: evaluation.Ranking) -> Tensor:
        if ranking.counts.valid:
            drawn = ranking.drawn
            value = self.summarize(ranking.ranks) if drawn is None else self.summarize_drawn(drawn)
            return value.to(self.device, self.dtype)
        # The shape of the value, from one query with one hit; then its mean over queries without positives.
        one_hit = PositiveRanks(*torch.ones((3, 1), dtype=torch.int64, device=ranking.ranks.rank.device))
        shape = self.summarize(one_hit).shape  # `summarize` need not cope with no ranks at all
        num_empty = ranking.counts.total - ranking.counts.not_ranked
        empty = torch.full((num_empty,), torch.nan, dtype=torch.float64, device=one_hit.rank.device)
        return self._mean(empty, ranking.drawn).to(self.device, self.dtype).repeat(shape)

    @base.explain_bad_call
    def results(self, *, nearest: int = 0, camera_pairs: bool = False) -> evaluation.RetrievalResults:
        """One value per query, with the reasons where there is none; the same on all processes; all must ask.

        The queries are in the order of `index` where it is given, else in that in which they came, process by process.
        What the results can be asked for later is decided here, because they hold no embeddings.

        Args:
            nearest: the largest length of the rank lists that the results hold, for `results.nearest(k)` and
                `results.confident_mistakes(n)`; 0 for none. They cost another pass over the gallery.
            camera_pairs: whether the results hold `results.by_camera_pair(name)`, which costs another one or two.

        Raises:
            DistributedMetricError: as `compute`.
            TypeError: an argument of the wrong type.
            ValueError: `nearest` is negative; lists or camera pairs of embeddings that are not finite, or camera pairs
                without cameras or under a protocol that draws galleries.
        """
        with self._synced():
            asked = {"nearest": repr(nearest), "camera_pairs": repr(camera_pairs)}
            ranking, for_cmc = (self._ranking("results", for_cmc=for_cmc, asked=asked) for for_cmc in (False, True))
            _checks.positive_int("nearest", nearest, least=0)
            _checks.boolean("camera_pairs", camera_pairs)
            protocol = replace(self.protocol, reports=tuple(dict.fromkeys((*self.protocol.reports, *self._reported))))
            setup = self._ranks_by(for_cmc=False).setup(ranking.labels)
            results = evaluation.summarize(ranking, for_cmc, protocol, setup, max_rank=max(50, self._longest))
            lists = self._rank_lists(nearest, None) if nearest else None
            pairs = self._camera_pairs(protocol) if camera_pairs else None
            names = gather_names(self._world, ranking.names) or None
            return replace(results, rank_lists=lists, camera_pairs=pairs, label_names=names)

    def nearest(self, k: int = 10, queries: Tensor | _checks.Integers | None = None) -> evaluation.RankLists:
        """The first k candidates of every query, or of chosen ones, and the first right answer of each.

        The same on all processes, which all must ask for the same. Candidates, their order and what is right are as
        in the ranking. The gallery does not move: each process gives the best of its part, and they are merged.

        Args:
            k: how many, at most all of the gallery; a query with fewer candidates is padded.
            queries: int, which queries, counted from 0 in the order of `results()`, such as `results.hardest(20)`.

        Raises:
            DistributedMetricError: as `compute`, or if the processes do not ask for the same.
            TypeError: `k` is not an int, or `queries` not an integer tensor.
            ValueError: `k` is below 1, `queries` has a number that no query has, or embeddings that are not finite.
        """
        with self._synced():
            return self._rank_lists(k, queries)

    def duplicates(self, threshold: float = 0.95) -> Duplicates:
        """The near duplicates of queries in the gallery, or among samples without roles; see `find_duplicates`.

        The same on all processes, which all must ask for the same; the rules of the protocol drop nothing.
        `results().without(duplicates)` has the numbers without the queries that have a near copy.

        Args:
            threshold: the least score of a pair; under "euclidean" the largest distance.

        Raises:
            DistributedMetricError: as `compute`, or if the processes do not ask for the same.
            TypeError: `threshold` is no number.
            ValueError: a threshold that no score has, or embeddings that are not finite.
        """

        def collect() -> tuple[tuple[float, Samples], tuple[()]]:
            return (least_score(threshold, self.similarity), self._accepted_samples().samples), ()

        with self._synced():
            asked = {"threshold": repr(threshold)}
            options = self._ranks_by(for_cmc=False)
            (least, samples), _ = meet(self._world, collect, lambda: self._settings("duplicates", asked))
            pairs = evaluation.pair_samples(samples, options, self._world, max_bytes=self.max_bytes)
            return find_pairs(pairs, least)

    def _rank_lists(self, k: int, queries: Tensor | _checks.Integers | None) -> evaluation.RankLists:
        (queries,) = _arrays.as_tensors(queries)
        options = self._ranks_by(for_cmc=False)
        asked = {"k": repr(k), "queries": repr(queries.tolist() if isinstance(queries, Tensor) else queries)}

        def collect() -> Samples:
            _checks.positive_int("k", k)
            if queries is not None:
                _checks.integer_labels("queries", queries)
            return self._accepted_samples().samples

        samples, _ = meet(self._world, lambda: (collect(), ()), lambda: self._settings("nearest", asked))
        return evaluation.list_samples(samples, options, self._world, k=k, queries=queries, max_bytes=self.max_bytes)

    def _camera_pairs(self, protocol: evaluation.Protocol) -> dict[str, evaluation.CameraPairs]:
        reported = means_among(protocol.reports)
        names = {name: self._ranks_by(for_cmc=parse_report(name)[0].is_cmc) for name in reported}
        samples = self._world.guarded(lambda: self._accepted_samples().samples)
        return evaluation.find_camera_pairs(samples, names, protocol, self._world, max_bytes=self.max_bytes)

    def _mean(self, values: Tensor, drawn: DrawnResults | None = None) -> Tensor:
        weight = drawn.weight if drawn is not None and self.protocol.queries_in_draw else None
        return self._average(values, empty_target_action=self.empty_target_action, weight=weight)

    def _average(self, values: Tensor, **options: Any) -> Tensor:
        return mean_over_queries(values, **options)

    def _ranks_by(self, *, for_cmc: bool, exchanged: bool | None = None) -> evaluation.RankingOptions:
        chosen = {"similarity": self.similarity, "ties": self.ties, "rerank": self.rerank, "lists": self.ground_truth}
        chosen["exchanged"] = self._exchanged if exchanged is None else exchanged
        chosen["counts_ties"] = self._counts_ties
        return evaluation.RankingOptions.of(self.protocol, for_cmc=for_cmc, longest=self._longest, **chosen)

    def _ranking(
        self, method: str, *, for_cmc: bool, asked: Mapping[str, str] | None = None, exchanged: bool | None = None
    ) -> evaluation.Ranking:
        """The ranking that `method` needs; processes compare the method and its settings."""
        options = self._ranks_by(for_cmc=for_cmc, exchanged=exchanged)
        return self._rank_once(options, lambda: self._settings(method, asked or {}), self.max_bytes)

    def _settings(self, method: str, asked: Mapping[str, str]) -> Settings:
        """The class, the method that was called with some arguments, and the options that decide the value."""
        public = {key: value for key, value in vars(self).items() if not key.startswith("_") and key not in _NEUTRAL}
        ranked, protocol = self._ranks_by(for_cmc=self._is_for_cmc).describe(), self.protocol
        chosen = {each.name: repr(getattr(protocol, each.name)) for each in fields(protocol) if each.name != "name"}
        # An option of the class goes before a field of its name: the `rule` of open sets before that of AP.
        chosen |= {key: repr(value) for key, value in public.items() if isinstance(value, (str, int, float, tuple))}
        chosen |= {key: ranked[key] for key in ("similarity", "rerank")} | dict(self._of_collection)
        chosen["ground_truth"] = ranked["lists"]
        chosen["protocol"] = repr(protocol.name.partition(" with ")[0])  # what was changed has a name of its own
        chosen |= asked  # an argument goes before an option of its name: the `k` of rank lists before that of AP
        return Settings(type(self).__name__, method, chosen, ranked)

    def extra_repr(self) -> str:
        """The options that decide the value, and others that were chosen; the protocol's are in its name."""
        shown: dict[str, Any] = {name: getattr(self, name) for name in self._shown}
        shown |= {"protocol": self.protocol.name, "similarity": self.similarity, "ties": self.ties}
        return base.show_arguments(self, shown, hidden=evaluation.PROTOCOL_FIELDS)
