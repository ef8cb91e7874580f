"""Two models on the same queries: what they differ by, and whether that may be chance.

Results are compared query by query, so they are put in one order first; results that cannot be compared are refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._renamed import renamed
from reid_torchmetrics.functional.result_files import SavedResults
from reid_torchmetrics.functional.retrieval.draws import GalleryDraw
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS, parse_report

from .protocol import PROTOCOL_FIELDS, Protocol
from .query_statistics import ROUNDING, UNDEFINED, Chance, Resampling, chances
from .ranking_options import Setup
from .results import RetrievalResults

# Names, sources and what is reported may differ where the conventions are the same.
_PROTOCOL_FIELDS = tuple(name for name in PROTOCOL_FIELDS if name not in ("name", "source", "reports"))
# Similarity and re-ranking are part of a model.
_SETUP_FIELDS = ("ties", "cameras", "lists", "sequences", "junk_pairs", "multi_query")
_PLAIN = ("num_queries", "num_valid", "level", "repeats", "permutations", "per_identity")  # JSON-safe as they are
_OF_QUERIES = ("query_identities", "query_cameras")
_OF_RANKED_QUERIES = ("num_positives", "num_candidates", "weight")


@dataclass(frozen=True)
class Difference:
    """How a number of one model differs from that of another; NaN where one of them has no valid query."""

    mean_a: float
    mean_b: float
    difference: float
    """b - a"""
    low: float
    """lower end of the confidence interval of the difference"""
    high: float
    p_value: float
    """of the hypothesis that the models are interchangeable; two-sided"""
    num_better: int
    """queries that b does better, that is with a higher value, or with a lower one where `is_rank`"""
    num_worse: int
    num_equal: int
    is_rank: bool
    """whether it is a rank, so that lower is better, and not a share of 1"""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(SavedResults):
    """What two models differ by on the same queries."""

    _PARTS = (Difference, Protocol, GalleryDraw, Setup)

    differences: Mapping[str, Difference]
    """of every number that both report"""
    conventions: Mapping[str, str]
    """how each number was computed, in words"""
    gained: Int[Tensor, " gained"]
    """queries with a first candidate that is right in b and wrong in a, counted from 0 in the order of a; in the whole
    gallery, also where the protocol draws galleries"""
    lost: Int[Tensor, " lost"]
    """the other way round"""
    gained_index: Int[Tensor, " gained"]
    """their numbers in the data set, where the evaluation was given `index`, else the same as `gained`"""
    lost_index: Int[Tensor, " lost"]
    num_queries: int
    num_valid: int
    """queries with a positive; 0 where the queries of one model were not ranked"""
    level: float
    repeats: int
    permutations: int
    per_identity: bool
    protocol: Protocol
    """the one of a; the one of b may differ in name, source and what it reports"""
    setup_a: Setup
    setup_b: Setup
    """may differ from `setup_a` in similarity and re-ranking"""

    def to_dict(self) -> dict[str, Any]:
        """Everything, JSON-safe: undefined numbers are None."""
        return {
            "measures": {
                name: {key: _json_safe(value) for key, value in asdict(difference).items()}
                | {"convention": self.conventions[name]}
                for name, difference in self.differences.items()
            },
            "gained": {"positions": self.gained.tolist(), "query_index": self.gained_index.tolist()},
            "lost": {"positions": self.lost.tolist(), "query_index": self.lost_index.tolist()},
            **{name: getattr(self, name) for name in _PLAIN},
            "protocol": self.protocol.to_dict(),
            "setup_a": asdict(self.setup_a),
            "setup_b": asdict(self.setup_b),
        }

    def __repr__(self) -> str:
        """A table of the numbers, then how each was computed."""
        # The head: who is compared, and how chance was drawn.
        drawn = "identities" if self.per_identity else "queries"
        head = (
            f"Comparison: b - a, protocol {self.protocol.name}, {self.num_valid} of {self.num_queries} queries valid\n"
            f"  a: {self.setup_a}\n"
            f"  b: {self.setup_b}\n"
            f"  intervals: {self.repeats} bootstrap samples of {drawn}; p: {self.permutations} sign flips of {drawn}"
        )
        # The table: one row per number, columns to the right but for the name.
        titles = ("", "a", "b", "b - a", f"{100 * self.level:g}% interval", "p", "better", "worse", "equal")
        rows = [titles, *(_cells(name, difference) for name, difference in self.differences.items())]
        name_width, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        table = ["  ".join(["", name.ljust(name_width), *map(str.rjust, cells, widths)]) for name, *cells in rows]
        # Who moved, and the conventions.
        first = f"  right at rank 1 in b only: {len(self.gained)} queries; in a only: {len(self.lost)}"
        words = [f"  {name.ljust(name_width)}  {said}" for name, said in self.conventions.items()]
        return "\n".join([head, *table, first, *words])


@renamed(confidence="level")
def compare(
    a: RetrievalResults,
    b: RetrievalResults,
    *,
    generator: torch.Generator,
    level: float = 0.95,
    repeats: int = 10_000,
    permutations: int = 10_000,
    per_identity: bool = False,
) -> Comparison:
    """Compare two models, or one with and without re-ranking, on the same queries and gallery.

    Every number that both report has the mean difference b - a over queries with two statements about chance:

    - Its percentile bootstrap interval, as in `bootstrap_interval`: queries are resampled `repeats` times, the same
      ones for both models. So it is much narrower than the intervals of the two means suggest.
    - The p-value of Fisher's randomization test, two-sided: if the models were interchangeable, each query's
      difference might as well have the other sign. It is (1 + permutations at least as extreme) / (1 + permutations)
      over random signs, so never below 1 / (1 + `permutations`).

    Both are about other queries, not about another gallery or another training run, and each number is tested for
    itself. Queries of one identity are not independent of each other: with `per_identity`, whole identities are drawn
    and flipped. A query without a positive has no difference; under `empty_target_action` "neg" and "pos" it counts the
    same in both means, so 0. Differences by no more than rounding, 1e-12 of the values, are 0. Where no query of one
    model is valid, as with embeddings that are not finite, differences, intervals and p-values are NaN. A single query
    has an interval without width and a p-value of 1.

    Queries are matched by `query_index`, so they may come in another order in `b`; where evaluations were not given
    `index`, these are positions, and the order must be the same. Protocols may differ in their name, source and what
    they report. Similarity and re-ranking belong to the model: they may differ, and the comparison shows both.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13 and 15; Fisher, "The Design of
    Experiments", 1935, section 21; Smucker, Allan and Carterette, "A Comparison of Statistical Significance Tests for
    Information Retrieval Evaluation", CIKM 2007; Phipson and Smyth, "Permutation P-values Should Never Be Zero", 2010.

    Args:
        a: results of one model, from `evaluate` or from `results` of a metric.
        b: results of the other.
        generator: source of all randomness, on the CPU.
        level: share of the resampled differences that lie inside of an interval.
        repeats: how often queries are resampled.
        permutations: how often signs are drawn.
        per_identity: draw and flip identities with all their queries.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: options out of range; results over other queries, of another gallery (as far as the numbers of
            positives and candidates tell) or by other conventions; no number in common; `per_identity` without
            identities.
    """
    for name, results in (("a", a), ("b", b)):
        if not isinstance(results, RetrievalResults):
            raise TypeError(f"`{name}` must be RetrievalResults; got {type(results).__name__}.")
    resampling = Resampling(generator, level, repeats, permutations)
    _checks.boolean("per_identity", per_identity)
    if per_identity and a.query_identities is None:
        raise ValueError("`per_identity` must come with results that know identities; got relevance from lists.")
    # One order of the queries, then means, intervals and p-values, and who moved to or from rank 1.
    pairs = pair(a, b)
    gained, lost = _changes_at_rank_1(*pairs.first_rank)
    return Comparison(
        differences=_differences(a, b, pairs, resampling, per_identity=per_identity),
        conventions={name: a.conventions[name] for name in pairs.values},
        gained=gained,
        lost=lost,
        gained_index=pairs.query_index[gained],
        lost_index=pairs.query_index[lost],
        num_queries=len(pairs.query_index),
        num_valid=min(a.counts.valid, b.counts.valid),
        level=level,
        repeats=repeats,
        permutations=permutations,
        per_identity=per_identity,
        protocol=a.protocol,
        setup_a=a.setup,
        setup_b=b.setup,
    )


class PairedResults(NamedTuple):
    """The numbers of two results for the same queries, in the order of the first, on the CPU."""

    values: dict[str, tuple[Float[Tensor, " queries"], Float[Tensor, " queries"]]]
    """of the numbers that both report; NaN for the same queries in both, unless one is NaN throughout"""
    first_rank: tuple[Float[Tensor, " queries"], Float[Tensor, " queries"]]
    query_index: Int[Tensor, " queries"]


def pair(a: RetrievalResults, b: RetrievalResults) -> PairedResults:
    """Put the queries of `b` in the order of `a`, by `query_index`.

    Raises:
        ValueError: other queries, another gallery, other conventions, or no number that both report.
    """
    _check_conventions(a, b)
    names = [name for name in a.values if name in b.values]
    if not names:
        listed = (", ".join(map(repr, results.values)) for results in (a, b))
        raise ValueError("`b` must report one of the numbers of `a`, {}; got {}.".format(*listed))
    query_index = a.query_index.cpu()
    order = _order(query_index, b.query_index.cpu())
    # The queries of both must be the same. Of a model with embeddings that are not finite only they are known.
    is_ranked = not (a.counts.not_ranked or b.counts.not_ranked)
    for name in (*_OF_QUERIES, *(_OF_RANKED_QUERIES if is_ranked else ())):
        _check_same(name, getattr(a, name), getattr(b, name), order)
    # The same queries have a value in both: only the scores may differ, not relevance.
    values = {name: (a.values[name].cpu(), b.values[name].cpu()[order]) for name in names}
    if is_ranked:
        for name, (ours, theirs) in values.items():
            _check_valid(name, ours, theirs)
    return PairedResults(values, (a.first_rank.cpu(), b.first_rank.cpu()[order]), query_index)


def _check_conventions(a: RetrievalResults, b: RetrievalResults) -> None:
    # A name that says what was changed, "market1501 with ...", is compared by its fields.
    our_name, their_name = (results.protocol.name.partition(" with ")[0] for results in (a, b))
    other = "" if our_name == their_name else f"protocol {their_name!r} and not {our_name!r}, such as "
    for part, names in (("protocol", _PROTOCOL_FIELDS), ("setup", _SETUP_FIELDS)):
        for name in names:
            ours, theirs = (getattr(getattr(results, part), name) for results in (a, b))
            if ours != theirs:
                raise ValueError(f"`b` must be evaluated as `a` was; got {other}{name}={theirs!r} and not {ours!r}.")


def _order(ours: Int[Tensor, " ours"], theirs: Int[Tensor, " theirs"]) -> Int[Tensor, " ours"]:
    """Where each of our queries is among theirs."""
    if len(ours) != len(theirs):
        raise ValueError(f"`b` must hold the queries of `a`; got {len(theirs)} queries and not {len(ours)}.")
    # Sorted, both are the same numbers; `order` takes theirs there, and `places` takes ours back.
    (ascending, places), (others, order) = ours.sort(stable=True), theirs.sort(stable=True)
    for one, other in zip(ascending[ascending != others].tolist(), others[ascending != others].tolist(), strict=True):
        raise ValueError(
            f"`b` must hold the queries of `a`; got another `query_index`, in ascending order first {other} and not"
            f" {one}."
        )
    return torch.empty_like(order).scatter_(0, places, order)


def _check_same(name: str, ours: Tensor | None, theirs: Tensor | None, order: Tensor) -> None:
    if ours is None and theirs is None:
        return
    if ours is None or theirs is None:
        raise ValueError(f"`b` must have `{name}` if and only if `a` has; got them in one of both.")
    ours, theirs = ours.cpu(), theirs.cpu()[order]
    for query in (ours != theirs).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"`b` must have the `{name}` of `a`; got {theirs[query].item()} and not {ours[query].item()} for query"
            f" {query}."
        )


def _check_valid(name: str, ours: Float[Tensor, " queries"], theirs: Float[Tensor, " queries"]) -> None:
    for query in (ours.isnan() != theirs.isnan()).nonzero()[:1, 0].tolist():
        raise ValueError(
            f"`b` must have a value of {name!r} for the same queries as `a`; got {float(theirs[query])} and not"
            f" {float(ours[query])} for query {query}."
        )


def _differences(
    a: RetrievalResults, b: RetrievalResults, pairs: PairedResults, resampling: Resampling, *, per_identity: bool
) -> dict[str, Difference]:
    # b - a of every query; numbers that are NaN for one of the models throughout are not resampled.
    weight = None if a.weight is None else a.weight.cpu()
    differences = {name: _without_rounding(*values) for name, values in pairs.values.items()}
    of_a, of_b = a.means, b.means
    resampled = chances(
        {name: values for name, values in differences.items() if not math.isnan(of_a[name] + of_b[name])},
        resampling,
        weight=weight,
        identities=a.query_identities.cpu() if per_identity and a.query_identities is not None else None,
        # What stands for a query without a value is the same in both means.
        substitute=None if EMPTY_TARGET_ACTIONS[a.protocol.empty_target_action] is None else 0.0,
    )
    return {
        name: _difference(name, (of_a[name], of_b[name]), values, resampled.get(name, UNDEFINED))
        for name, values in differences.items()
    }


def _without_rounding(ours: Float[Tensor, " queries"], theirs: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
    """Differences theirs - ours; 0 for values that only rounding tells apart, as on two devices."""
    differences = theirs.double() - ours.double()
    return differences.masked_fill(differences.abs() <= ROUNDING * torch.maximum(ours.abs(), theirs.abs()), 0.0)


def _difference(name: str, means: tuple[float, float], differences: Tensor, chance: Chance) -> Difference:
    # More is better for a share, less for a rank.
    is_rank = parse_report(name)[0].is_rank
    more, less = int((differences > 0).sum()), int((differences < 0).sum())
    return Difference(
        mean_a=means[0],
        mean_b=means[1],
        **chance._asdict(),
        num_better=less if is_rank else more,
        num_worse=more if is_rank else less,
        num_equal=int((differences == 0).sum()),
        is_rank=is_rank,
    )


def _changes_at_rank_1(ours: Tensor, theirs: Tensor) -> tuple[Int[Tensor, " gained"], Int[Tensor, " lost"]]:
    """Queries with a first right answer that came to rank 1, and queries with one that left it."""
    gained, lost = (ours > 1) & (theirs == 1), (ours == 1) & (theirs > 1)
    return gained.nonzero()[:, 0], lost.nonzero()[:, 0]


def _cells(name: str, of: Difference) -> tuple[str, ...]:
    numbers = f"{of.mean_a:.4f}", f"{of.mean_b:.4f}", f"{of.difference:+.4f}", f"[{of.low:+.4f}, {of.high:+.4f}]"
    return name, *numbers, f"{of.p_value:.4f}", *map(str, (of.num_better, of.num_worse, of.num_equal))


def _json_safe(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
