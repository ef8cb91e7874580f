"""Results of an evaluation: from rankings to one value per query, their means, and the convention of each number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional.model_tables import NEVER, Heading, ModelTable, evaluated, results_table, summary_text
from reid_torchmetrics.functional.named_numbers import NamedNumbers, json_safe
from reid_torchmetrics.functional.result_files import OWN_AXES, SavedResults
from reid_torchmetrics.functional.retrieval import measures
from reid_torchmetrics.functional.retrieval.draws import GalleryDraw
from reid_torchmetrics.functional.retrieval.ranking import Judgments, PositiveRanks, TiedGroups
from reid_torchmetrics.functional.retrieval.relevance import MISSING, QueryCounts
from reid_torchmetrics.functional.retrieval.verification import Duplicates

from .identification import Identification
from .labeled_lists import ListCounts
from .problem import RetrievalProblem
from .protocol import Protocol
from .query_statistics import Breakdown, Interval, bootstrap_interval, mean_by
from .rank_lists import Later, RankLists, find_rank_lists
from .ranking import CameraPairs, Ranking, mean_by_camera_pair
from .ranking_options import Reported, Setup, describe
from .result_checks import check_stored

_NAMED = ("identities", "cameras")
_OF_QUERIES = ("query_index", "query_identities", "query_cameras", "num_positives", "num_candidates", "first_rank")


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
    """what the protocol reports: one value per query"""
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
    """how many queries are valid, and why the others are not"""
    ranks: PositiveRanks
    """the ranks of the positives in the whole gallery; the numbers follow from them, so do not write to them"""
    protocol: Protocol
    setup: Setup
    """what decides the numbers besides the protocol"""
    weight: Float[Tensor, " queries"] | None = None
    """what each query counts in means; None for 1"""
    query_identities: Int[Tensor, " queries"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    rank_lists: RankLists | None = Later()  # type: ignore[assignment]  # noqa: RUF009 - a descriptor
    """lists of all queries, where the results were asked to hold them"""
    camera_pairs: Mapping[str, CameraPairs] | None = None
    """the reported numbers between pairs of cameras, where the results were asked to hold them"""
    problem: RetrievalProblem | None = None
    """what was evaluated; None in results of a metric: it does not hand out its samples"""
    query_names: tuple[str, ...] | None = None
    """the names of the queries, where lists came with strings as their keys"""
    item_names: tuple[str, ...] | None = Later()  # type: ignore[assignment]
    """the names of the items, by their numbers in rank lists, where lists came with strings as items"""
    label_names: Mapping[str, Mapping[int, str]] | None = None
    """the names of "identities", "cameras" and other labels by their numbers, where the evaluation was given names"""
    list_counts: ListCounts | None = None
    """what happened to lists that were given; None where scores were ranked"""
    ranks_for_cmc: PositiveRanks | None = field(default=None, metadata={OWN_AXES: ("positives", "groups")})
    """the ranks under the camera rule of the CMC, where it has one of its own; do not write to them either"""
    drawn: measures.DrawnResults | None = None
    """the expectations over drawn galleries, where the protocol draws them"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "per_query", Reported(self.per_query))

    @property
    def means(self) -> dict[str, float]:
        """The reported numbers: means over queries, or medians by name."""
        return Reported(self._means)

    @cached_property
    def _means(self) -> dict[str, float]:
        return self._means_of(slice(None))

    def _means_of(self, kept: Tensor | slice) -> dict[str, float]:
        """The reported numbers of some queries."""
        weight = None if self.weight is None else self.weight[kept]
        counting: dict[str, Any] = {"empty_target_action": self._action, "weight": weight}
        averages = ((name, measures.parse_report(name)[0].average) for name in self.per_query)
        return {name: float(average(self.per_query[name][kept], **counting)) for name, average in averages}

    @property
    def averaged(self) -> dict[str, Float[Tensor, " queries"]]:
        """The part of `per_query` with numbers that are means over queries: no medians.

        Raises:
            ValueError: there are none.
        """
        return {name: self.per_query[name] for name in measures.means_among(self.per_query)}

    @property
    def conventions(self) -> dict[str, str]:
        """How each reported number was computed, in words."""
        return Reported({name: describe(name, self.protocol, self.setup) for name in self.per_query})

    def name_of(self, query: int) -> str | int:
        """What users know a query by, counted from 0: its name, else its `query_index`."""
        return int(self.query_index[query]) if self.query_names is None else self.query_names[query]

    def names_of(self, label_name: str) -> Mapping[int, str]:
        """The names of "identities", "cameras" or another label by their numbers; none where it came as integers."""
        return (self.label_names or {}).get(label_name, {})

    def without(self, queries: Integer[Tensor, " left_out"] | _checks.Integers | Duplicates) -> dict[str, float]:
        """Compute the reported numbers without some queries.

        Args:
            queries: positions of the queries that are left out, from 0; or near duplicates, whose affected queries are
                left out: within one set both items of each pair.

        Raises:
            TypeError: `queries` are neither `Duplicates` nor an integer tensor.
            ValueError: `queries` has a number that no query has.
        """
        if isinstance(queries, Duplicates):
            queries = queries.affected_queries
        queries = _checks.integer_labels("queries", queries).long().to(self.query_index.device)
        _checks.in_range("queries", queries, 0, len(self.query_index))
        kept = torch.ones_like(self.query_index, dtype=torch.bool).index_fill_(0, queries, value=False)
        return Reported(self._means_of(kept))

    def mean_over_identities(self) -> dict[str, float]:
        """The reported numbers as macro averages: the mean of every identity's queries, then over identities.

        Raises:
            ValueError: relevance came as lists, so that no identity is known.
        """
        # A query of weight 0, always drawn into the gallery, is none.
        identities = self._known("query_identities")
        is_query = torch.ones_like(identities, dtype=torch.bool) if self.weight is None else self.weight > 0
        options: dict[str, Any] = {"identities": identities[is_query], "empty_target_action": self._action}
        values = {name: each[is_query] for name, each in self.averaged.items()}
        return {name: float(measures.mean_over_identities(each, **options)) for name, each in values.items()}

    def by_camera(self, name: str | None = None) -> Breakdown:
        """Mean of a reported number, the first if none is named, over the valid queries of each query camera.

        Raises:
            ValueError: no cameras, a name that is not reported, or galleries that are drawn from the queries.
        """
        return self._mean_by("query_cameras", name, "by_camera")

    def by_identity(self, name: str | None = None) -> Breakdown:
        """Mean of a reported number, the first if none is named, over the valid queries of each identity.

        Raises:
            ValueError: no identities, a name that is not reported, or galleries that are drawn from the queries.
        """
        return self._mean_by("query_identities", name, "by_identity")

    def by_camera_pair(self, name: str | None = None) -> CameraPairs:
        """Mean of a reported number for each query camera against each gallery camera alone.

        Results of `evaluate` compute it when asked; results of a metric hold it, `metric.results(camera_pairs=True)`.

        Raises:
            ValueError: no cameras, a name that is not reported, drawn galleries, or results that do not hold it.
        """
        name = self._name(name)
        if self.camera_pairs is not None:
            _checks.one_of("name", name, self.camera_pairs)
            return replace(self.camera_pairs[name], camera_names=self.names_of("cameras") or None)
        problem = self._problem("by_camera_pair", "metric.results(camera_pairs=True)")
        for_cmc = measures.parse_report(name)[0].is_cmc
        options = problem.ranking_options(self.protocol, ties=self.setup.ties, for_cmc=for_cmc)
        pairs = mean_by_camera_pair(problem, {name: options}, self.protocol)[name]
        return replace(pairs, camera_names=self.names_of("cameras") or None)

    def interval(
        self,
        name: str | None = None,
        *,
        generator: torch.Generator | None = None,
        level: float = 0.95,
        repeats: int = 1000,
        per_identity: bool = False,
    ) -> Interval:
        """Bootstrap confidence interval of a reported number, see `bootstrap_interval`; None draws with the seed 0.

        `per_identity` draws identities with all their queries, which are not independent of each other.
        """
        values, identities = self.per_query[self._name(name)], self._known("query_identities") if per_identity else None
        options: dict[str, Any] = {"generator": generator, "level": level, "repeats": repeats, "weight": self.weight}
        return bootstrap_interval(values, identities=identities, empty_target_action=self._action, **options)

    def hardest(self, n: int, *, by: str = "map") -> Int[Tensor, " hardest"]:
        """Up to `n` queries, counted from 0, with the worst values of a number, the worst first.

        The lowest values are the worst, but of ranks, such as "mean_rank", and of "anmrr" the highest. Equal values
        are in falling order of the first right answer's rank, then in the order of the queries. Queries without a
        value, that is without a right answer in the gallery, are left out.

        Args:
            n: how many.
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
        is_falling = measures.parse_report(by)[0].lower_is_better
        return by_rank[values[by][by_rank].argsort(descending=is_falling, stable=True)[:n]]

    def mean_precision_recall(self, num_points: int = 101) -> Float[Tensor, " num_points"]:
        """Mean over queries of the interpolated precision at equidistant recalls; see `mean_precision_recall_curve`.

        Raises:
            TypeError: `num_points` is not an int.
            ValueError: `num_points` is below 2, or the tie policy is "expected".
        """
        return measures.mean_precision_recall_curve(self.ranks, num_points, empty_target_action=self._action)

    def precision_recall(self, query: int) -> tuple[Float[Tensor, " points"], Float[Tensor, " points"]]:
        """Precision and recall at each positive of one query, counted from 0; see `precision_recall_curve`.

        Raises:
            TypeError: `query` is not an int.
            ValueError: `query` is not the number of a query, or the tie policy is "expected".
        """
        return measures.precision_recall_curve(self.ranks, query)

    def nearest(self, k: int, queries: Integer[Tensor, " chosen"] | _checks.Integers | None = None) -> RankLists:
        """The first k candidates of each query, or of chosen ones, counted from 0, and the first right answer of each.

        Results of a metric hold lists of the length they were asked for, `metric.results(nearest=10)`; others search.

        Raises:
            TypeError: `k` is not an int, or `queries` not an integer tensor.
            ValueError: `k` is below 1 or more than is held, no query has a number of `queries`, or no lists are held.
        """
        if self.rank_lists is not None:
            # A list that holds all candidates is as long as a longer one would be.
            _checks.positive_int("k", k)
            length = self.rank_lists.index.shape[1]
            lists = self.rank_lists.first(min(k, length) if bool((self.num_candidates <= length).all()) else k)
            lists = replace(lists, label_names=self.label_names)
            return lists if queries is None else lists.select(queries)
        problem = self._problem("nearest", f"metric.nearest({k})` or `metric.results(nearest={k})")
        (queries,) = _arrays.as_tensors(queries, device=problem.source.device)
        return find_rank_lists(problem, self.protocol, k, queries, ties=self.setup.ties)

    def confident_mistakes(self, n: int) -> Int[Tensor, " mistakes"]:
        """Up to `n` queries, counted from 0, with a best candidate that is wrong, by falling margin.

        The margin is how much that candidate scores above the first right answer; many such queries are errors of
        labels. See `RankLists.confident_mistakes`; lists come from where `nearest` takes them.

        Raises:
            TypeError: `n` is not an int.
            ValueError: `n` is below 1, or results that hold no lists.
        """
        return self.nearest(1).confident_mistakes(n)

    def identification(self) -> Identification:
        """What open-set identification needs to know of each query, by lists from where `nearest` takes them.

        Raises:
            ValueError: drawn galleries, lists that were cut, or results that hold no lists.
        """
        if (draw := self.protocol.draw) is not None:
            raise ValueError(f"`protocol` must draw no gallery in open-set identification; got {draw!r}.")
        if self.setup.cut:  # a query whose mate is not listed is not non-mated
            raise ValueError("`identification` must come from scores of all candidates; got results of ranked lists.")
        return Identification.from_rank_lists(self.nearest(1))

    def to_dict(self) -> dict[str, Any]:
        """Numbers, conventions and counts, JSON-safe: undefined and infinite numbers are None, these `said` "never"."""
        return {
            "measures": {
                name: {"value": json_safe(mean), "convention": describe(name, self.protocol, self.setup)}
                | ({"said": NEVER} if math.isinf(mean) else {})
                for name, mean in self._means.items()
            },
            **{name: asdict(getattr(self, name)) for name in ("counts", "protocol", "setup")},
        }

    __repr__ = __format__ = summary_text

    def model_table(self, name: str = "model") -> ModelTable:
        """A table of papers with one row, that of the model, by its name."""
        rows = {each: measures.parse_report(each)[0] for each in self.means}
        headings = {
            each: Heading(measures.title_of(each), not of.is_share, of.lower_is_better) for each, of in rows.items()
        }
        where = evaluated(self.protocol, self.counts.valid, self.counts.total)
        return results_table(self, name, headings, f"{where}; {self.setup}")

    def _columns(self) -> dict[str, Any]:
        columns = {name: getattr(self, name) for name in _OF_QUERIES} | dict(self.per_query)
        named = {} if self.query_names is None else {"query": [*self.query_names]}
        return named | {name: self._shown(name, values) for name, values in columns.items() if values is not None}

    def _shown(self, name: str, values: Tensor) -> list[Any]:
        """The values of a column, names where a label has names, and None for an identity that was missing."""
        label = name.removeprefix("query_")
        names: dict[int, Any] = {MISSING: None, **self.names_of(label)}
        numbers = values.tolist()
        return [names.get(number, number) for number in numbers] if label in _NAMED else numbers

    def _to_fields(self) -> dict[str, Any]:
        # What a report shows, ten candidates of a query, is computed while there are embeddings; what cannot be is not.
        saved = super()._to_fields() | {"max_rank": len(self.cmc)}
        with suppress(ValueError):
            saved["rank_lists"] = replace(self.rank_lists or self.nearest(10), label_names=None)  # they are there once
        with suppress(ValueError):
            saved["camera_pairs"] = self.camera_pairs or {
                self._name(None): replace(self.by_camera_pair(), camera_names=None)
            }
        return saved

    @classmethod
    def _from_fields(cls, saved: dict[str, Any]) -> RetrievalResults:
        check_stored(saved)
        labels = (saved[name] for name in ("query_index", "query_identities", "query_cameras"))
        ranking = Ranking(saved["ranks"], saved["counts"], *labels)
        ranks_for_cmc = saved["ranks_for_cmc"] or saved["ranks"]
        ranking_for_cmc = replace(ranking, ranks=ranks_for_cmc, drawn=saved["drawn"])
        options = saved["protocol"], saved["setup"]
        results = summarize(ranking, ranking_for_cmc, *options, max_rank=saved.pop("max_rank"))
        return replace(results, **saved)

    @classmethod
    def _num_bytes(cls, saved: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
        max_rank: int = saved["max_rank"]
        _checks.positive_int("max_rank", max_rank)
        num_columns = len(saved["protocol"].saved["reports"]) + len(_OF_QUERIES)
        return 8 * (max_rank + sizes["queries"] * num_columns)

    @property
    def _action(self) -> _names.EmptyTargetAction:
        return self.counts.counting(self.protocol.empty_target_action)

    def _name(self, name: str | None) -> str:
        """A reported number that is a mean over queries, the first if none is named."""
        averaged = [*self.averaged]
        name = averaged[0] if name is None else name
        _checks.one_of("name", name, averaged)
        return name

    def _problem(self, method: str, instead: str) -> RetrievalProblem:
        # A metric keeps its samples to itself: its results hold only what they were asked for.
        if self.problem is None:
            came = f"results of a metric or of a file, which hold no embeddings: write `{instead}`"
            raise ValueError(f"`{method}` must come from results that hold it; got {came}.")
        return self.problem

    def _mean_by(self, label: str, name: str | None, method: str) -> Breakdown:
        # Queries that are drawn have weights, and a mean per label would ignore them.
        if self.weight is not None:
            rule = "must come with a protocol that draws no gallery from the queries"
            raise ValueError(f"`{method}` {rule}; got `queries_in_draw` and {self.protocol.draw!r}.")
        breakdown = mean_by(self.per_query[self._name(name)], self._known(label))
        names = self.names_of(label.removeprefix("query_"))
        return breakdown.named(names) if names else breakdown

    def _known(self, name: str) -> Tensor:
        """A label of every query; relevance as lists, or an evaluation without cameras, lacks it."""
        value: Tensor | None = getattr(self, name)
        if value is None:
            raise ValueError(f"`{name}` must have been given to the evaluation; got results without them.")
        return value


def summarize(
    ranking: Ranking, for_cmc: Ranking, protocol: Protocol, setup: Setup, *, max_rank: int
) -> RetrievalResults:
    """Evaluate every query, and the numbers that `protocol` reports; `for_cmc` is ranked under the CMC's camera rule.

    Everything but the ranks, which may be large, is copied: rankings may be shared.
    """
    ranks, action = ranking.ranks, for_cmc.counts.counting(protocol.empty_target_action)
    drawn = None if for_cmc.drawn is None else _as_reported(for_cmc.drawn, protocol, max_rank)

    def value(name: str) -> Float[Tensor, " queries"]:
        # An expectation where the protocol draws galleries for the measure, else a number of the whole gallery.
        row, _ = measures.parse_report(name)
        if drawn is not None and protocol.draws(row):
            return measures.measure_drawn(name, drawn).clone()
        return measures.measure(name, (for_cmc if row.is_cmc else ranking).ranks, protocol).clone()

    weight = drawn.weight if drawn is not None and protocol.queries_in_draw else None
    if drawn is None:
        cmc = measures.cmc_curve(for_cmc.ranks, max_rank, mode=protocol.mode, empty_target_action=action)
    else:
        cmc = measures.mean_over_queries(drawn.cmc[:, :max_rank], empty_target_action=action, weight=weight)
    # AP and INP are always there, reported or not: breakdowns and lists of hard queries use them.
    values = {name: value(name) for name in dict.fromkeys((*protocol.reports, "map", "minp"))}
    tensors: dict[str, Any] = {
        "average_precision": values["map"],
        "inverse_negative_penalty": values["minp"],
        "weight": weight,
        **{name: getattr(ranks, name) for name in ("num_positives", "num_candidates")},
        **{name: getattr(ranking, name) for name in ("query_index", "query_identities", "query_cameras")},
    }
    copies: dict[str, Any] = {name: None if each is None else each.clone() for name, each in tensors.items()}
    return RetrievalResults(
        per_query={name: values[name] for name in protocol.reports},
        first_rank=measures.first_rank(ranks),
        cmc=cmc,
        counts=ranking.counts,
        ranks=ranks,
        protocol=protocol,
        setup=setup,
        label_names=ranking.names or None,
        ranks_for_cmc=for_cmc.ranks if drawn is None and protocol.for_cmc is not protocol else None,
        drawn=drawn,
        **copies,
    )


def _as_reported(drawn: measures.DrawnResults, protocol: Protocol, max_rank: int) -> measures.DrawnResults:
    """Cut an expected curve after the last rank that is reported: metrics share a longer one."""
    parsed = map(measures.parse_report, protocol.reports)
    length = max([max_rank, *(k for measure, k in parsed if measure.is_cmc)])
    return replace(drawn, cmc=drawn.cmc[:, :length].contiguous())
