"""The table of measures by name.

To add a measure, write a function of ranks and add a row: protocols report it by name, `ReIDMeasure` accepts it, and
messages and results use its words. A row need not be in the table: `OwnName` is the name of a user's row, and has it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _hints
from reid_torchmetrics._names import MedianRule
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks

from . import cutoffs
from .average_precision import average_precision, average_precision_at_r
from .cutoffs import cmc_at, first_rank, hit_rate_at, reciprocal_rank
from .means import mean_over_queries, median_over_queries

MeasureOptions: TypeAlias = Any
"""The options of measures, as a protocol of `evaluation` has them: the cutoff `k` of average precision and of the
reciprocal rank, the `rule` and `normalizer` of average precision, the `precision_divisor`, the `mode` of the CMC, and
the `gain` of nDCG"""


@dataclass(frozen=True, eq=False)
class DrawnResults:
    """Expectations over drawn galleries, one for each query; NaN for a query without positives."""

    cmc: Float[Tensor, "queries max_rank"]
    """chance that fewer than k identities come before the query's own, k = 1 ... max_rank"""
    average_precision: Float[Tensor, " queries"]
    """with the rule "rectangle"; NaN if it was not computed"""
    inverse_negative_penalty: Float[Tensor, " queries"]
    """NaN if average precision was not computed"""
    num_positives: Int[Tensor, " queries"]
    """int64; positives among the query's candidates, drawn or not"""
    weight: Float[Tensor, " queries"]
    """chance that the query is not drawn itself: 1 unless galleries are drawn from the queries"""

    @property
    def mean_cmc(self) -> Float[Tensor, " max_rank"]:
        """Weighted mean of `cmc` over queries with a positive; `mean_over_queries` has other options."""
        return mean_over_queries(self.cmc, weight=self.weight)

    @property
    def mean_average_precision(self) -> Float[Tensor, ""]:
        """Weighted mean of `average_precision`."""
        return mean_over_queries(self.average_precision, weight=self.weight)

    @property
    def mean_inverse_negative_penalty(self) -> Float[Tensor, ""]:
        """Weighted mean of `inverse_negative_penalty`."""
        return mean_over_queries(self.inverse_negative_penalty, weight=self.weight)


@dataclass(frozen=True)
class Measure:
    """A measure by name: one value per query from ranks, options and k, where k is 0 for a name without k."""

    name: str
    function: Callable[[PositiveRanks, MeasureOptions, int], Tensor]
    words: str
    """the convention; `{k}`, the fields of `{options}` and the words of the cutoff are filled in: the `{depth}` of
    average precision and its divisor, and `{beyond}` for a value of 0 at lower ranks"""
    takes_k: bool = False
    """whether k follows the name: "precision_10" """
    may_take_k: bool = False
    """whether k may follow the name, in place of the cutoff among the options: "map" and "map_10" """
    is_cmc: bool = False
    """whether a protocol's camera rule and drawn galleries for its CMC are used for this measure"""
    expectation: Callable[[DrawnResults, int], Tensor] | None = None
    """the measure over drawn galleries; None where its expectation is not known"""
    words_if_drawn: str | None = None
    """the convention over drawn galleries; None if it equals `words`"""
    is_rank: bool = False
    """whether a value is a rank, where lower is better, and not a share of 1"""
    is_amount: bool = False
    """whether a value is an amount, where higher is better, and not a share of 1"""
    is_loss: bool = False
    """whether less of a share of 1 is better"""
    average: Callable[..., Tensor] = mean_over_queries
    """function that averages one value per query, with the options `empty_target_action` and `weight`"""
    title: str = ""
    """title in tables and legends, if it is not the name with a capital letter; `{k}` is filled in"""
    is_precomputed: bool = False
    """whether the function returns values of one ranking, which were measured before, and fits no other ranking"""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Names of the measure in reports, with "<k>" for a k."""
        with_k = f"{self.name}_<k>"
        if self.may_take_k:
            return (self.name, with_k)
        if self.takes_k:
            return (with_k,)
        return (self.name,)

    def fits(self, k: int) -> bool:
        """Return whether the measure can be reported with this k; 0 for none."""
        return self.may_take_k or self.takes_k == bool(k)

    def has_expectation(self, k: int) -> bool:
        """Return whether the expectation over drawn galleries is known: it is not known with an optional k."""
        return self.expectation is not None and not (self.may_take_k and k)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value is better."""
        return self.is_rank or self.is_loss

    @property
    def is_share(self) -> bool:
        """Whether a value is a share of 1, and may be written in percent."""
        return not (self.is_rank or self.is_amount)

    @property
    def is_mean(self) -> bool:
        """Whether the number is a mean over queries: it is for all measures but medians."""
        return self.average is mean_over_queries

    def compute(self, ranks: PositiveRanks, options: MeasureOptions, k: int) -> Float[Tensor, " queries"]:
        """Compute one value per query; NaN for a query without positives.

        The value that the function of the measure returns for such a query is not used.
        """
        values: object = self.function(ranks, options, k)
        if not isinstance(values, Tensor) or values.shape != ranks.num_positives.shape:
            got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(
                f"`{self.name}` must return a tensor with one value for each query, [{ranks.num_queries}]; got {got}."
            )
        return values.double().masked_fill(ranks.num_positives == 0, torch.nan)

    def with_values(self, values: Tensor) -> Measure:
        """Return the measure for one ranking, with values that were computed before."""
        return replace(self, function=functools.partial(_known, values), is_precomputed=True)

    def describe(self, options: MeasureOptions, k: int, *, is_drawn: bool = False) -> str:
        """Return the convention in words."""
        words = self.words
        if is_drawn and self.words_if_drawn is not None:
            words = self.words_if_drawn
        cutoff = k or options.k
        depth = "all ranks" if cutoff is None else f"the first {cutoff}"
        if cutoff is not None or options.normalizer != "positives":
            depth += f", divided by {options.normalizer}"
        beyond = "" if cutoff is None else f", 0 beyond rank {cutoff}"
        return words.format(k=k, options=options, depth=depth, beyond=beyond)


class OwnName(str):
    """The name of a measure that is not in `MEASURES`, with its row, which so goes wherever the name goes."""

    __slots__ = ("row",)
    row: Measure

    def __new__(cls, row: Measure) -> OwnName:  # noqa: PYI034 - Python 3.10 has no `Self`
        """Return the name of a row."""
        name = super().__new__(cls, row.name)
        name.row = row
        return name

    def __getnewargs__(self) -> tuple[Measure]:  # type: ignore[override]
        """Return what a copy is made of."""
        return (self.row,)

    def __deepcopy__(self, _: object) -> OwnName:
        """Return the name itself: a copy of its row would copy the metric of a user, with its samples."""
        return self


def name_of(report: object) -> object:
    """Return the name of a report that is a `Measure`, a function of ranks or a metric; other values are returned.

    A function returns one value for each query, and has its own name and the first line of its docstring as words.

    Raises:
        TypeError: a function without a name, such as a lambda.
        ValueError: a name that is none of an own measure.
    """
    if isinstance(report, str):
        return report
    report = getattr(report, "measure", report)  # of a metric
    if callable(report):
        report = _row_of(report)
    if not isinstance(report, Measure):
        return report
    if MEASURES.get(report.name) is report:
        return report.name
    _check_free_name(report.name)
    return OwnName(report)


def _row_of(function: Callable[..., Tensor]) -> Measure:
    """Return the row of a function of ranks."""
    name = getattr(function, "__name__", "<lambda>")
    if name == "<lambda>":
        raise TypeError(
            f"`reports` must hold functions with a name, or `Measure('name', function, 'words')`; got {function!r}."
        )
    summary, *_ = (function.__doc__ or name).strip().splitlines()
    return Measure(name, functools.partial(_call_with_ranks, function), in_format(summary.rstrip(".")))


def _call_with_ranks(function: Callable[..., Tensor], ranks: PositiveRanks, *_: object) -> Tensor:
    """Call a function that needs neither options nor a k; it can be pickled, unlike a lambda."""
    return function(ranks)


def in_format(words: str) -> str:
    """Return words as `Measure` has them, where braces are filled in."""
    return words.replace("{", "{{").replace("}", "}}")


def free_name(name: str) -> str:
    """Return a name that a user's measure may have: the name itself, unless it is built in or ends with a digit."""
    return f"{name}_metric" if name in _BUILT_IN or name[-1:].isdigit() else name


def is_known(name: str) -> bool:
    """Return whether a name, perhaps with its k, is of a measure in `MEASURES`."""
    key, _ = _split_name(name)
    return key in MEASURES


def _check_free_name(name: str) -> None:
    """Raise unless a name is free, and can be told from a name with its k."""
    if name != free_name(name) or not name.isidentifier():
        raise ValueError(
            "`reports` must hold measures of your own with names that are identifiers without a number at the end, and"
            f" none of `MEASURES`; got {name!r}."
        )


def _known(values: Tensor, *_: object) -> Tensor:
    """Return values that were computed before."""
    return values


def _median_rank(name: str, rule: MedianRule, rule_words: str) -> Measure:
    def average(values: Tensor, *, weight: Any = None, **_: object) -> Tensor:
        return median_over_queries(values, rule=rule, weight=weight)

    return Measure(
        name,
        lambda ranks, *_: first_rank(ranks),
        f"rank of the first positive, median over queries, {rule_words}",
        is_rank=True,
        average=average,
    )


_NMRR = "normalized modified retrieval rank of {}"
_ROWS = (
    Measure(
        "map",
        lambda ranks, options, k: average_precision(
            ranks, rule=options.rule, k=k or options.k, normalizer=options.normalizer
        ),
        "average precision, rule {options.rule}, over {depth}",
        may_take_k=True,
        title="mAP",
        expectation=lambda drawn, _: drawn.average_precision,
    ),
    Measure(
        "map_at_r",
        lambda ranks, *_: average_precision_at_r(ranks),
        "average precision over the first R ranks, R the number of positives, divided by R",
        title="MAP@R",
    ),
    Measure(
        "minp",
        lambda ranks, *_: cutoffs.inverse_negative_penalty(ranks),
        "positives / rank of the last positive",
        title="mINP",
        expectation=lambda drawn, _: drawn.inverse_negative_penalty,
    ),
    Measure(
        "rank",
        lambda ranks, options, k: cmc_at(ranks, k, mode=options.mode),
        "CMC, {options.mode}, at rank {k}",
        title="Rank-{k}",
        takes_k=True,
        is_cmc=True,
        expectation=lambda drawn, k: drawn.cmc[:, k - 1],
        words_if_drawn="CMC, over identities, at rank {k}",
    ),
    Measure("hit_rate", lambda ranks, _, k: hit_rate_at(ranks, k), "a positive among the first {k}", takes_k=True),
    Measure(
        "precision",
        lambda ranks, options, k: cutoffs.precision_at(ranks, k, divisor=options.precision_divisor),
        "precision at {k}, divisor {options.precision_divisor}",
        takes_k=True,
    ),
    Measure(
        "recall",
        lambda ranks, _, k: cutoffs.recall_at(ranks, k),
        "positives among the first {k} / all positives",
        takes_k=True,
    ),
    Measure("r_precision", lambda ranks, *_: cutoffs.r_precision(ranks), "precision at R, the number of positives"),
    Measure(
        "mrr",
        lambda ranks, options, k: reciprocal_rank(ranks, k=k or options.k),
        "1 / rank of the first positive{beyond}",
        may_take_k=True,
        title="MRR",
    ),
    Measure(
        "ndcg",
        lambda ranks, options, k: cutoffs.normalized_dcg(ranks, k=k, gain=options.gain),
        "nDCG at {k}, {options.gain} gains, log2 discount",
        takes_k=True,
        title="nDCG@{k}",
    ),
    Measure(
        "acg",
        lambda ranks, _, k: cutoffs.cumulative_gain_at(ranks, k),
        "mean grade of the first {k}",
        takes_k=True,
        is_amount=True,
        title="ACG@{k}",
    ),
    Measure("bpref", lambda ranks, *_: cutoffs.binary_preference(ranks), "bpref over judged candidates", title="bpref"),
    Measure("mean_rank", lambda ranks, *_: first_rank(ranks), "rank of the first positive", is_rank=True),
    _median_rank("median_rank", "mean", "the mean of the two middle ones"),
    _median_rank("median_rank_lower", "lower", "the lower of the two middle ones"),
    _median_rank("median_rank_floor", "floor", "the mean of the two middle ones, rounded down"),
    Measure(
        "anmrr", lambda ranks, *_: cutoffs.retrieval_rank(ranks), _NMRR.format("MPEG"), title="ANMRR", is_loss=True
    ),
    Measure(
        "anmrr_shrec22",
        lambda ranks, *_: cutoffs.retrieval_rank(ranks, variant="shrec22"),
        _NMRR.format("SHREC'22"),
        title="ANMRR (SHREC'22)",
        is_loss=True,
    ),
)

MEASURES: dict[str, Measure] = {row.name: row for row in _ROWS}
"""The measures by name, without their k."""
_BUILT_IN = frozenset(MEASURES)


def parse_report(name: str, *, argument: str = "reports") -> tuple[Measure, int]:
    """Return the measure with a name, and its k (0 if it has none); `argument` names the argument in messages.

    Raises:
        ValueError: an unknown name, or a k that does not fit int64.
    """
    if isinstance(name, OwnName):
        return name.row, 0
    row = None
    k = 0
    if isinstance(name, str):
        key, k = _split_name(name)
        row = MEASURES.get(key)
    if row is not None and not isinstance(row, Measure):
        raise TypeError(f"`MEASURES` must hold rows, `Measure(name, function, words)`; got {row!r} as {key!r}.")
    if row is None or not row.fits(k):
        hint = likely_name(name)
        # All names are listed only if there is no likely one.
        expected = "a measure of `MEASURES`" if hint else _hints.listed(all_patterns(), near=name)
        raise ValueError(f"`{argument}` must be of {expected}; got {name!r}{hint}.")
    if k >= 2**63:
        raise ValueError(f"`{argument}` must have a k that fits int64; got {name!r}.")
    return row, k


@functools.lru_cache(maxsize=1024)  # a report parses the same names hundreds of times
def _split_name(name: str) -> tuple[str, int]:
    """Split a name from the k behind it, 0 for none."""
    parts = re.fullmatch(r"(.*)_([1-9]\d*)", name)
    if parts is None:
        return name, 0
    return parts[1], int(parts[2])


def all_patterns() -> list[str]:
    """Return the names of all measures, with "<k>" for a k."""
    patterns: list[str] = []
    for row in MEASURES.values():
        patterns += row.patterns
    return patterns


def with_expectation() -> str:
    """Return the names of the measures with an expectation over drawn galleries, for messages."""
    return _hints.listed([row.patterns[0] for row in MEASURES.values() if row.expectation is not None], str)


def means_among(names: Iterable[str]) -> list[str]:
    """Return the names of the measures that are means over queries, so that groups of queries have means, too.

    Raises:
        ValueError: there are none.
    """
    means = [name for name in names if parse_report(name)[0].is_mean]
    if not means:
        raise ValueError(f"`reports` must hold a mean over queries here; got {_hints.listed(names, str)}.")
    return means


def title_of(name: str) -> str:
    """Return the title of a measure in tables and legends, "Rank-5" for "rank_5"."""
    row, k = parse_report(name)
    title = row.title
    if not title:
        title = row.name.replace("_", " ").capitalize()
        if row.takes_k:
            title += "@{k}"
    if row.may_take_k and k:
        title += "@{k}"
    return title.format(k=k)


def measure(name: str, ranks: PositiveRanks, options: MeasureOptions) -> Float[Tensor, " queries"]:
    """Compute one value per query of a measure by name; see `Measure.compute`."""
    row, k = parse_report(name)
    return row.compute(ranks, options, k)


def measure_drawn(name: str, drawn: DrawnResults) -> Float[Tensor, " queries"]:
    """Compute one value per query of a measure by name over drawn galleries; NaN for a query without positives.

    Raises:
        ValueError: a measure without `expectation`.
    """
    row, k = parse_report(name)
    if row.expectation is None or not row.has_expectation(k):
        raise ValueError(f"`name` must be of a measure with an expectation, {with_expectation()}; got {name!r}.")
    return row.expectation(drawn, k).masked_fill(drawn.num_positives == 0, torch.nan)


def likely_name(value: object) -> str:
    """Return a hint for a missing k or another spelling, such as "rank1", "mAP" or "precision@5"; "" for none."""
    if not isinstance(value, str):
        return ""
    if value in MEASURES:
        return f", which needs its k, as in '{value}_10'"
    k = re.search(r"(?<![.\d])[1-9]\d*$", value)
    return _hints.value_meant(value, [pattern.replace("<k>", k[0] if k else "<k>") for pattern in all_patterns()])
