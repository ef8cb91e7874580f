"""Results of an evaluation: one value per query of every number, their means, and the convention of each number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks, _extras, _names
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.model_tables import Number, evaluated, summary_text
from reid_torchmetrics.functional.named_numbers import NamedNumbers
from reid_torchmetrics.functional.retrieval import measures
from reid_torchmetrics.functional.retrieval.ranking import Judgments, PositiveRanks, TiedGroups
from reid_torchmetrics.functional.retrieval.relevance import MISSING, QueryCounts, Vocabulary
from reid_torchmetrics.functional.saved_results import OWN_AXES, SavedResults

from .conventions import Reported, describe, key_of
from .protocol import GalleryDraw, Protocol, Setup
from .query_statistics import Breakdown, LeftOutQueries, mean_by
from .rank_lists import RankLists
from .ranked import CameraPairs, ListCounts, Ranking

RETRIEVAL_METHODS: Registry[Callable[..., Any]] = Registry("RETRIEVAL_METHODS", {})
"""methods of `RetrievalResults` by name, which tasks add: functions of results and of options"""
_QUERY_COLUMNS = ("query_index", "query_identities", "query_cameras", "num_positives", "num_candidates", "first_rank")


class Later:
    """A field of a dataclass that may hold a function: the first access calls it, and stores the value.

    The default is None.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return None
        value = vars(instance)[self._name]
        if callable(value):
            value = value()
            vars(instance)[self._name] = value
        return value

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self._name] = value


@dataclass(frozen=True, eq=False, repr=False)
class RetrievalResults(NamedNumbers, SavedResults):
    """One value per query of every number, in the order of the queries; NaN where a query has no positive.

    `results["map"]` is a mean, as in `means`. A file of `save` holds the ranks, labels and options, from which `load`
    computes the numbers, but not `problem`; the first ten candidates of each query and the first number between pairs
    of cameras are computed for it where results of `evaluate` lack them.
    """

    _ROWS = "query"
    _PARTS = (
        PositiveRanks,
        TiedGroups,
        Judgments,
        measures.DrawnResults,
        Protocol,
        GalleryDraw,
        Setup,
        QueryCounts,
        RankLists,
        CameraPairs,
        ListCounts,
    )
    _COMPUTED = (
        "per_query",
        "average_precision",
        "inverse_negative_penalty",
        "first_rank",
        "cmc",
        "num_positives",
        "num_candidates",
        "weight",
        "problem",
    )
    _SAVED_AS = MappingProxyType({"max_rank": int})

    per_query: Mapping[str, Float[Tensor, " queries"]]
    """the values of each query by the numbers that the protocol reports"""
    average_precision: Float[Tensor, " queries"]
    inverse_negative_penalty: Float[Tensor, " queries"]
    first_rank: Float[Tensor, " queries"]
    """in the whole gallery, also where the protocol draws galleries"""
    cmc: Float[Tensor, " max_rank"]
    """mean over queries of the CMC at ranks 1 ... max_rank"""
    num_positives: Int[Tensor, " queries"]
    num_candidates: Int[Tensor, " queries"]
    """gallery items left for the query once junk is removed"""
    query_index: Int[Tensor, " queries"]
    """numbers of the queries in the data set, where the evaluation was given `index`, else their positions"""
    counts: QueryCounts
    """numbers of valid queries, and of the other queries by reason"""
    ranks: PositiveRanks
    """the ranks of the positives in the whole gallery; the numbers follow from them, so do not write to them"""
    protocol: Protocol
    setup: Setup
    """settings that decide the numbers besides the protocol"""
    weight: Float[Tensor, " queries"] | None = None
    """weight of each query in means over drawn galleries; None for 1"""
    query_identities: Int[Tensor, " queries"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    query_hash: int | None = None
    """hash of the queries' embeddings and of their order; None without embeddings"""
    rank_lists: RankLists | None = Later()  # type: ignore[assignment]
    """lists of all queries; None unless the caller asked for them"""
    camera_pairs: Mapping[str, CameraPairs] | None = None
    """the reported numbers between pairs of cameras; None unless the caller asked for them"""
    problem: Any = None
    """the evaluated samples; None in results of a metric, which does not hand them out"""
    query_names: tuple[str, ...] | None = None
    """the names of the queries, where lists came with strings as their keys"""
    gallery_names: tuple[str, ...] | None = Later()  # type: ignore[assignment]
    """the names of the items, by their numbers in rank lists, where lists came with strings as items"""
    label_names: Mapping[str, Mapping[int, str]] | None = None
    """the names of "identities", "cameras" and other labels by their numbers, where the evaluation was given names"""
    list_counts: ListCounts | None = None
    """counts of short lists and repeated items; None where scores were ranked"""
    ranks_for_cmc: PositiveRanks | None = field(default=None, metadata={OWN_AXES: ("positives", "groups")})
    """the ranks under the camera rule of the CMC, where it has one of its own; do not write to them either"""
    drawn: measures.DrawnResults | None = None
    """the expectations over drawn galleries, where the protocol draws them; of the CMC under its own camera rule"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "per_query", Reported(self.per_query))

    @property
    def rankings(self) -> tuple[Ranking, Ranking]:
        """The rankings from which the CMC and all other numbers follow, without drawn galleries; the CMC's is last."""
        return rankings_of(vars(self))

    @property
    def means(self) -> dict[str, float]:
        """Reported numbers: means over queries, or medians by name."""
        return Reported(self._means)

    @cached_property
    def _means(self) -> dict[str, float]:
        return self._means_over(slice(None))

    def _means_over(self, kept: Tensor | slice) -> dict[str, float]:
        """Compute the reported numbers over some of the queries."""
        means = {}
        for name, values in self.per_query.items():
            measure, _ = measures.parse_report(name)
            weight = self.weight_of(name)
            kept_weight = None if weight is None else weight[kept]
            means[name] = float(measure.average(values[kept], empty_target_action=self._action, weight=kept_weight))
        return means

    def weight_of(self, name: str) -> Float[Tensor, " queries"] | None:
        """Return the weight of each query in the mean of a number: `weight` over drawn galleries, else None."""
        return self.weight if self.protocol.draws(measures.parse_report(name)[0]) else None

    @property
    def averaged(self) -> dict[str, Float[Tensor, " queries"]]:
        """Values of `per_query` for the numbers that are means over queries; a ValueError if there are only medians."""
        return {name: self.per_query[name] for name in measures.means_among(self.per_query)}

    @cached_property
    def numbers(self) -> dict[str, Number]:
        """The reported numbers with their titles, units and conventions."""
        numbers = {}
        for name, mean in self._means.items():
            measure, _ = measures.parse_report(name)
            numbers[name] = Number(
                name,
                measures.title_of(name),
                mean,
                describe(name, self.protocol, self.setup),
                is_share=measure.is_share,
                lower_is_better=measure.lower_is_better,
            )
        return numbers

    def name_of(self, query: int) -> str | int:
        """Return the name of a query, counted from 0, or its `query_index` if queries have no names."""
        if self.query_names is not None:
            return self.query_names[query]
        return int(self.query_index[query])

    def names_of(self, label_name: str) -> Mapping[int, str]:
        """Return the names of "identities", "cameras" or another label by their numbers; none for integer labels."""
        return (self.label_names or {}).get(label_name, {})

    def means_without(
        self, queries: Integer[Tensor, " left_out"] | _checks.Integers | LeftOutQueries
    ) -> dict[str, float]:
        """Compute the reported numbers without some queries.

        Args:
            queries: positions of the queries that are left out, from 0; or near duplicates of these queries, whose
                affected queries are left out: within one set both items of each pair.

        Raises:
            TypeError: `queries` are neither near duplicates nor an integer tensor.
            ValueError: `queries` has a number that no query has, or are near duplicates of other samples.
        """
        if isinstance(queries, LeftOutQueries):
            queries.check_queries("queries", len(self.query_index), self.query_hash)
            queries = queries.affected_queries
        queries = _checks.integer_labels("queries", queries).long().to(self.query_index.device)
        _checks.in_range("queries", queries, 0, len(self.query_index))
        is_kept = torch.ones_like(self.query_index, dtype=torch.bool).index_fill_(0, queries, value=False)
        return Reported(self._means_over(is_kept))

    def mean_over_identities(self) -> dict[str, float]:
        """Compute macro averages of the reported numbers: the mean of every identity's queries, then over identities.

        Raises:
            ValueError: relevance came as lists, so that no identity is known.
        """
        identities = self._label("query_identities")
        means = {}
        for name, values in self.averaged.items():
            weight = self.weight_of(name)
            kept = slice(None) if weight is None else weight > 0  # a query of weight 0 is always drawn into the gallery
            mean = measures.mean_over_identities(values[kept], identities[kept], empty_target_action=self._action)
            means[name] = float(mean)
        return means

    def by_camera(self, name: str | None = None) -> Breakdown:
        """Return the mean of a reported number over the valid queries of each query camera; None for the first number.

        Raises:
            ValueError: no cameras, a name that is not reported, or galleries that are drawn from the queries.
        """
        return self._mean_by("query_cameras", name, "by_camera")

    def by_identity(self, name: str | None = None) -> Breakdown:
        """Return the mean of a reported number over the valid queries of each identity; None for the first number.

        Raises:
            ValueError: no identities, a name that is not reported, or galleries that are drawn from the queries.
        """
        return self._mean_by("query_identities", name, "by_identity")

    def by_camera_pair(self, name: str | None = None) -> CameraPairs:
        """Return the mean of a reported number for each query camera against each gallery camera alone.

        Results of `evaluate` compute it now; results of a metric must hold it, `metric.results(camera_pairs=True)`.

        Raises:
            ValueError: no cameras, a name that is not reported, drawn galleries, or results that do not hold it.
        """
        name = self._name_or_first(name)
        if self.camera_pairs is not None:
            _checks.one_of("name", name, self.camera_pairs)
            pairs = self.camera_pairs[name]
        else:
            problem = self._samples("by_camera_pair", "metric.results(camera_pairs=True)")
            pairs = RETRIEVAL_METHODS["by_camera_pair"](problem, name)
        return replace(pairs, camera_names=self.names_of("cameras") or None)

    def interval(
        self,
        name: str | None = None,
        *,
        generator: torch.Generator | None = None,
        level: float = 0.95,
        num_resamples: int = 1000,
        per_identity: bool = False,
    ) -> Any:
        """Return the `Interval` of a reported number, a bootstrap confidence interval, see `bootstrap_interval`.

        `per_identity` draws identities with all their queries, which are not independent of each other.
        """
        name = self._name_or_first(name)
        return RETRIEVAL_METHODS["interval"](
            self.per_query[name],
            generator=generator,
            level=level,
            num_resamples=num_resamples,
            identities=self._label("query_identities") if per_identity else None,
            empty_target_action=self._action,
            weight=self.weight_of(name),
        )

    def hardest(self, n: int, *, by: str = "map") -> Int[Tensor, " hardest"]:
        """Return up to `n` queries, counted from 0, with the worst values of a number, the worst first.

        The lowest values are the worst; for "anmrr" and for ranks, such as "mean_rank", the highest. Equal values are
        in falling order of the first right answer's rank, then in the order of the queries. Queries without a value,
        that is without a right answer in the gallery, are left out.

        Args:
            n: the largest number of queries.
            by: a reported number, "map" or "minp".

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1, or `by` is another name.
        """
        _checks.positive_int("n", n)
        values = {"map": self.average_precision, "minp": self.inverse_negative_penalty, **self.per_query}
        _checks.one_of("by", by, values)
        # Sorted by the second key, then stably by the first.
        valid = (~values[by].isnan()).nonzero()[:, 0]
        by_rank = valid[self.first_rank[valid].argsort(descending=True, stable=True)]
        measure, _ = measures.parse_report(key_of(by, values))
        order = values[by][by_rank].argsort(descending=measure.lower_is_better, stable=True)
        return by_rank[order[:n]]

    def mean_precision_recall(self, num_points: int = 101) -> Float[Tensor, " num_points"]:
        """Return the mean interpolated precision at equidistant recalls; see `mean_precision_recall_curve`.

        Raises:
            TypeError: `num_points` is not an int.
            ValueError: `num_points` is below 2, or the tie policy is "expected".
        """
        return measures.mean_precision_recall_curve(self.ranks, num_points, empty_target_action=self._action)

    def precision_recall(self, query: int) -> tuple[Float[Tensor, " points"], Float[Tensor, " points"]]:
        """Return the precision and recall at each positive of one query, counted from 0; see `precision_recall_curve`.

        Raises:
            TypeError: `query` is not an int.
            ValueError: `query` is not the number of a query, or the tie policy is "expected".
        """
        return measures.precision_recall_curve(self.ranks, query)

    def nearest(self, k: int, queries: Integer[Tensor, " chosen"] | _checks.Integers | None = None) -> RankLists:
        """Return the first k candidates and the first right answer of each query, or of some queries, counted from 0.

        Results of a metric must hold the lists, `metric.results(nearest=10)`; others search in this call.

        Raises:
            TypeError: `k` is not an int, or `queries` not an integer tensor.
            ValueError: `k` is below 1 or more than is held, no query has a number of `queries`, or no lists are held.
        """
        if self.rank_lists is None:
            remedy = f"metric.nearest({k})` or `metric.results(nearest={k})"
            found: RankLists = self._samples("nearest", remedy).nearest(k, queries)
            return found
        _checks.positive_int("k", k)
        length = self.rank_lists.index.shape[1]
        if bool((self.num_candidates <= length).all()):  # the lists hold all candidates
            k = min(k, length)
        lists = replace(self.rank_lists.first(k), label_names=self.label_names)
        return lists if queries is None else lists.select(queries)

    def confident_mistakes(self, n: int) -> Int[Tensor, " mistakes"]:
        """Return up to `n` queries, counted from 0, with a best candidate that is wrong, by falling margin.

        The margin is the score of that candidate minus the score of the first right answer. Many such queries are
        errors of labels. See `RankLists.confident_mistakes`; the lists are those of `nearest`.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1, or results that hold no lists.
        """
        return self.nearest(1).confident_mistakes(n)

    def identification(self) -> Any:
        """Return the `Identification` of the queries in an open set, from the lists of `nearest`.

        Raises:
            ModuleNotFoundError: the package lacks its further evaluations.
            ValueError: drawn galleries, lists that were cut, or results that hold no lists.
        """
        return RETRIEVAL_METHODS["identification"](self)

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, conventions and counts, JSON-safe.

        Undefined and infinite numbers are None; infinite ones also have the key "said", with the value "never".
        """
        rows = {name: number.to_dict() for name, number in self.numbers.items()}
        settings = {name: asdict(getattr(self, name)) for name in ("counts", "protocol", "setup")}
        return {"measures": rows, **settings}

    __str__ = __format__ = summary_text

    @property
    def _setting(self) -> str:
        return f"{evaluated(self.protocol, self.counts.valid, self.counts.total)}; {self.setup}"

    def _columns(self) -> dict[str, Any]:
        """Return the columns of `to_frame`, with a value for each query."""
        columns: dict[str, Any] = {} if self.query_names is None else {"query": list(self.query_names)}
        tensors = {name: getattr(self, name) for name in _QUERY_COLUMNS} | dict(self.per_query)
        for name, values in tensors.items():
            if values is not None:
                columns[name] = self._as_list(name, values)
        return columns

    def _as_list(self, name: str, values: Tensor) -> list[Any]:
        """Return the values of a column: names where a label has names, and None for a missing identity."""
        label = name.removeprefix("query_")
        names: dict[int, Any] = {}
        if label in ("identities", "cameras"):
            names = {MISSING: None, **self.names_of(label)}
        return [names.get(number, number) for number in values.tolist()]

    def _to_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = _extras.files().fields_of_retrieval(self, super()._to_fields())
        return fields

    @classmethod
    def _from_fields(cls, saved: dict[str, Any]) -> RetrievalResults:
        results: RetrievalResults = _extras.files().retrieval_of_fields(saved)
        return results

    @classmethod
    def _num_bytes(cls, saved: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        max_rank: int = saved["max_rank"]
        _checks.positive_int("max_rank", max_rank)
        num_columns = len(saved["protocol"].saved["reports"]) + len(_QUERY_COLUMNS)
        return 8 * (max_rank + sizes["queries"] * num_columns)

    @property
    def _action(self) -> _names.EmptyTargetAction:
        return self.counts.counting(self.protocol.empty_target_action)

    def _name_or_first(self, name: str | None) -> str:
        """Return a reported number that is a mean over queries; None stands for the first one."""
        averaged = list(self.averaged)
        name = averaged[0] if name is None else name
        _checks.one_of("name", name, averaged)
        return key_of(name, averaged)

    def _samples(self, method: str, remedy: str) -> Any:
        """Return the evaluated samples; raise for results of a metric, which keeps its samples to itself."""
        if self.problem is None:
            got = f"results of a metric or of a file, which hold no embeddings: write `{remedy}`"
            raise ValueError(f"`{method}` must come from results that hold it; got {got}.")
        return self.problem

    def _mean_by(self, label: str, name: str | None, method: str) -> Breakdown:
        if self.weight is not None:  # queries that are drawn have weights, and a mean per label would ignore them
            rule = "must come with a protocol that draws no gallery from the queries"
            raise ValueError(f"`{method}` {rule}; got `queries_in_draw` and {self.protocol.gallery_draw!r}.")
        breakdown = mean_by(self.per_query[self._name_or_first(name)], self._label(label))
        names = self.names_of(label.removeprefix("query_"))
        return breakdown.with_names(names) if names else breakdown

    def _label(self, name: str) -> Tensor:
        """Return a label of every query; raise if the evaluation was not given it."""
        value: Tensor | None = getattr(self, name)
        if value is None:
            raise ValueError(f"`{name}` must have been given to the evaluation; got results without them.")
        return value


def rankings_of(fields: Mapping[str, Any]) -> tuple[Ranking, Ranking]:
    """Return the rankings that the fields of results hold, see `RetrievalResults.rankings`."""
    ranking = Ranking(
        fields["ranks"],
        fields["counts"],
        query_index=fields["query_index"],
        query_identities=fields["query_identities"],
        query_cameras=fields["query_cameras"],
        names=Vocabulary(fields["label_names"] or {}),
    )
    return ranking, replace(ranking, ranks=fields["ranks_for_cmc"] or ranking.ranks)
