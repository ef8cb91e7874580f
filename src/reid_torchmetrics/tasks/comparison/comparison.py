"""Compare models on the same data: differences of their numbers, with confidence intervals and p-values.

Retrieval is compared query by query, see `pair`; detections by resampled images, see `PairedDetections`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._extras import require
from reid_torchmetrics.functional.displays import Displayed
from reid_torchmetrics.functional.model_tables import NEVER, Number, Tabled, json_safe
from reid_torchmetrics.functional.named_numbers import ByName, NamedNumbers
from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw, Protocol, RetrievalResults, Setup
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS
from reid_torchmetrics.functional.saved_results import SavedResults

from .model_tables import comparison_display, comparison_table, comparison_text
from .paired_detections import PairedDetections
from .paired_queries import cut_as_lists, pair
from .resampling import ROUNDING, UNDEFINED, Chance, Resampling, chances, chances_of_draws, seeded

_JSON_FIELDS = (
    "names",
    "num_queries",
    "num_valid",
    "level",
    "num_resamples",
    "num_permutations",
    "per_identity",
    "seed",
)
"""fields that are JSON-safe as they are"""


@dataclass(frozen=True, repr=False)
class Difference(Displayed):
    """Difference of a number between two models; NaN where one of them has no valid query.

    Where a mean is infinite, as of ranks that lists lack, difference, interval and p-values are NaN.
    """

    mean_a: float
    mean_b: float
    difference: float
    """b - a"""
    low: float
    """lower end of the confidence interval of the difference"""
    high: float
    p_value: float
    """two-sided, under the hypothesis that the models are interchangeable"""
    num_better: int
    """queries, or classes of detections, that b does better: with a higher value, or where `lower_is_better` a lower"""
    num_worse: int
    num_equal: int
    is_rank: bool = False
    """whether it is a rank, so that lower is better, and not a share of 1"""
    p_holm: float = math.nan
    """the p-value with Holm's correction for the number of models, where more than two are compared"""
    title: str = ""
    """title of the number in tables and legends, such as "mAP" """
    lower_is_better: bool = False
    """True for ranks and for ANMRR"""


_no_queries = partial(torch.empty, 0, dtype=torch.int64, device="cpu")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Tabled, SavedResults):
    """Differences of two models on the same queries, or on the same images; a is the first model, b the second."""

    _PARTS = (Difference, Protocol, GalleryDraw, Setup)

    names: tuple[str, str]
    """the names of a and b"""
    differences: Mapping[str, Difference]
    """a difference for every number that both report"""
    conventions: Mapping[str, str]
    """convention of each number, in words"""
    num_queries: int
    """for detections the number of images"""
    num_valid: int
    """queries with a positive; 0 where the queries of one model were not ranked; for detections the images"""
    level: float
    num_resamples: int
    num_permutations: int
    per_identity: bool
    seed: int | None
    """the seed of the draws; None where a generator was given that had drawn before"""
    gained: Int[Tensor, " gained"] = field(default_factory=_no_queries)
    """queries with a first candidate that is right in b and wrong in a, counted from 0 in the order of a; in the whole
    gallery, also where the protocol draws galleries"""
    lost: Int[Tensor, " lost"] = field(default_factory=_no_queries)
    """the other way round"""
    gained_index: Int[Tensor, " gained"] = field(default_factory=_no_queries)
    """their numbers in the data set, where the evaluation was given `index`, else the same as `gained`"""
    lost_index: Int[Tensor, " lost"] = field(default_factory=_no_queries)
    protocol: Protocol | None = None
    """the protocol of a; that of b may differ in name, source and reported numbers; None for detections"""
    setup_a: Setup | None = None
    setup_b: Setup | None = None
    """may differ from `setup_a` in similarity and re-ranking"""
    cutoff: int | None = None
    """number of candidates after which rankings of the whole gallery were cut, as other models have lists; None where
    nothing was cut"""
    further_comparisons: tuple[Comparison, ...] = ()
    """the comparisons of a with further models"""

    @classmethod
    def _from_fields(cls, saved: dict[str, Any]) -> Comparison:
        comparison = cls(**saved)
        # Queries must exist, and shares be in [0, 1]; no field of a comparison follows from the others.
        _checks.cutoff("cutoff", comparison.cutoff)
        if not 0 <= comparison.num_valid <= comparison.num_queries:
            raise ValueError(f"`num_valid` must lie in [0, {comparison.num_queries}]; got {comparison.num_valid}.")
        if not comparison.differences.keys() <= comparison.conventions.keys():
            raise ValueError(
                f"`conventions` must be those of all differences; got {_checks.listed(comparison.conventions, str)}."
            )
        _checks.fraction("level", comparison.level)
        for name, queries in (("gained", comparison.gained), ("lost", comparison.lost)):
            _checks.in_range(name, queries, 0, comparison.num_queries)
            if bool((queries[1:] <= queries[:-1]).any()):
                raise ValueError(f"`{name}` must ascend; got {queries[:5].tolist()}.")
        for name, difference in comparison.differences.items():
            p_values = [value for value in (difference.p_value, difference.p_holm) if not math.isnan(value)]
            are_shares = all(0 <= value <= 1 for value in p_values)
            least_count = min(difference.num_better, difference.num_worse, difference.num_equal)
            if not are_shares or difference.low > difference.high or least_count < 0:
                rule = "must have p-values from 0 to 1, and ends in order"
                raise ValueError(f"`differences.{name}` {rule}; got {difference}.")
        return comparison

    def __post_init__(self) -> None:
        for name in ("differences", "conventions"):
            object.__setattr__(self, name, ByName(getattr(self, name)))

    def __getitem__(self, name: str) -> Difference:
        """Return the difference of a number by its name."""
        return self.differences[name]

    @property
    def by_name(self) -> dict[str, Comparison]:
        """The comparison of a with each other model, by the name of that model."""
        comparisons = (replace(self, further_comparisons=()), *self.further_comparisons)
        return {comparison.names[1]: comparison for comparison in comparisons}

    @property
    def setups(self) -> dict[str, Setup | None]:
        """The setup of each model by its name; None for detections."""
        setups = {self.names[0]: self.setup_a}
        for name, comparison in self.by_name.items():
            setups[name] = comparison.setup_b
        return setups

    @property
    def about_cutoff(self) -> list[str]:
        """Phrases about rankings of the whole gallery beside lists of an index."""
        setups = {name: setup for name, setup in self.setups.items() if setup is not None}
        names = ", ".join(name for name, setup in setups.items() if not setup.cut)
        if not names or not any(setup.cut for setup in setups.values()):
            return []
        phrases = [f"{names}: equal scores in the order of the gallery, as lists have one order"]
        if self.cutoff is not None:
            phrases.insert(0, f"{names}: cut after {self.cutoff} candidates, as the longest list")
        return phrases

    @property
    def chance(self) -> str:
        """Description of the resampling behind intervals and p-values, in words."""
        if self.protocol is None:
            unit, flips = "images", "swaps"
        else:
            unit, flips = "identities" if self.per_identity else "queries", "sign flips"
        seed = "" if self.seed is None else f"; seed {self.seed}"
        intervals = f"intervals: {self.num_resamples} bootstrap samples of {unit}"
        return f"{intervals}; p: {self.num_permutations} {flips} of {unit}{seed}"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, JSON-safe.

        Undefined and infinite numbers are None; an infinite mean also has a key such as "mean_a_said", with the value
        "never".
        """
        rows = {}
        for name, difference in self.differences.items():
            row = asdict(difference)
            for key, value in row.items():
                row[key] = json_safe(value) if isinstance(value, float) else value
            row["convention"] = self.conventions[name]
            for key, mean in (("mean_a", difference.mean_a), ("mean_b", difference.mean_b)):
                if math.isinf(mean):
                    row[f"{key}_said"] = NEVER
            rows[name] = row
        settings = {name: getattr(self, name) for name in ("protocol", "setup_a", "setup_b")}
        return {
            "measures": rows,
            "gained": {"positions": self.gained.tolist(), "query_index": self.gained_index.tolist()},
            "lost": {"positions": self.lost.tolist(), "query_index": self.lost_index.tolist()},
            **{name: getattr(self, name) for name in _JSON_FIELDS},
            **{name: None if value is None else asdict(value) for name, value in settings.items()},
            "cutoff": self.cutoff,
            "further_comparisons": [comparison.to_dict() for comparison in self.further_comparisons],
        }

    def to_frame(self) -> Any:
        """Return the numbers as a `pandas.DataFrame` with a row for each model.

        Shares are not in percent; p-values are in `by_name`.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        require("A DataFrame", "pandas")
        import pandas as pd  # noqa: PLC0415 - an optional package

        rows = self.model_table().rows
        values = {model: {name: number.value for name, number in row.items()} for model, row in rows.items()}
        return pd.DataFrame.from_dict(values, orient="index").rename_axis("model")

    model_table = comparison_table
    _display = comparison_display
    __str__ = __format__ = comparison_text


def compare(
    a: NamedNumbers | Mapping[str, NamedNumbers],
    b: NamedNumbers | None = None,
    *,
    generator: torch.Generator | None = None,
    level: float = 0.95,
    num_resamples: int | None = None,
    num_permutations: int | None = None,
    per_identity: bool = False,
) -> Comparison:
    """Compare models, or one with and without re-ranking, on the same queries and gallery, or on the same images.

        compare({"baseline": a, "ours": b})

    For every mean that both report, the comparison has the mean difference b - a over queries, with:

    - Its percentile bootstrap interval, as in `bootstrap_interval`: queries are resampled `num_resamples` times, the
      same ones for both models. So it is much narrower than the intervals of the two means suggest.
    - The p-value of Fisher's randomization test, two-sided: if the models were interchangeable, each query's
      difference might as well have the other sign. It is (1 + permutations at least as extreme) / (1 +
      permutations) over random signs, so never below 1 / (1 + `num_permutations`).

    Both generalize to other queries, not to another gallery or another training run, and each number is tested by
    itself. Queries of one identity are not independent of each other: with `per_identity`, whole identities are drawn
    and flipped. A query without a positive has no difference; under `empty_target_action` "neg" and "pos" it has the
    same value in both means, so the difference 0. Differences up to rounding, 1e-12 of the values, are 0. If no query
    of one model is valid, as with embeddings that are not finite, differences, intervals and p-values are NaN, also if
    a mean is infinite, as of ranks that lists lack. Infinite values are equal to each other. A single query has an
    interval without width and a p-value of 1.

    Queries are matched by `query_index`, so `b` may have another order. If the evaluations were not given `index`,
    these are positions, and the order must be the same. Protocols may differ in name, source and reported numbers.
    Similarity and re-ranking belong to the model: they may differ, and the comparison shows both.

    Lists of a vector index that are judged by labels, from `evaluate_lists`, may be compared with exact search, from
    `evaluate`. Then all models are ranked alike. Rankings of the whole gallery are cut after as many candidates as the
    longest list has, and positives behind them are not retrieved. The order of a list does not depend on labels, even
    among items with equal scores. So exact search is ranked with `ties="stable"`, too: results of `evaluate` under
    another tie policy are ranked again, and results of a metric or of a file must have been ranked so. The number of a
    metric of your own is left out if the results are its own, which hold its values for the whole gallery alone: report
    it in `evaluate(..., reports=(metric,))`.

    For detections, images are resampled, and every number is computed anew for each draw, by the evaluator's rules from
    the matches; an image that is drawn twice counts twice, and a number without ground truths in a draw is left out of
    its interval. For the p-value, the two models' detections of random images are swapped. Images are matched by
    `image_id`, or by position without it.

    Each of more than two models is compared with the first, with the same draws. Holm's correction of the p-values
    is for the number of these comparisons; each number is still tested by itself.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13 and 15; Fisher, "The Design of
    Experiments", 1935, section 21; Smucker, Allan and Carterette, "A Comparison of Statistical Significance Tests for
    Information Retrieval Evaluation", CIKM 2007; Phipson and Smyth, "Permutation P-values Should Never Be Zero", 2010;
    Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics, 1979.

    Args:
        a: results of one model, from `evaluate`, `evaluate_images` and the like, or from `results` of a metric; or
            the results of two or more models by their names, where the others are compared with the first.
        b: results of the other model; None if `a` has them.
        generator: source of all randomness, on the CPU; None for one with the seed 0.
        level: share of the resampled differences that lie inside of an interval.
        num_resamples: how often queries or images are resampled; None for 10,000, for images 1,000.
        num_permutations: how often signs are drawn, or images swapped; None as for `num_resamples`.
        per_identity: draw and flip identities with all their queries.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: options out of range; results over other queries, of another gallery (as far as the numbers of
            positives and candidates tell), of other images or ground truths, or by other conventions; no number in
            common; exact search beside lists that was not ranked with `ties="stable"` and holds no samples;
            `per_identity` without identities.
    """
    models = _check_models(a, b)
    cutoff = None
    is_retrieval = all(isinstance(results, RetrievalResults) for results in models.values())
    if is_retrieval:
        models, cutoff = cut_as_lists(models)
    (first_name, first), *others = models.items()
    num_draws = 10_000 if is_retrieval else 1_000  # each draw of images is an evaluation
    generator = seeded(generator)
    resampling = Resampling(
        generator,
        level,
        num_resamples=num_draws if num_resamples is None else num_resamples,
        num_permutations=num_draws if num_permutations is None else num_permutations,
    )
    if generator.device.type != "cpu":
        raise ValueError(f"`generator` must be on the CPU; got one on {generator.device}.")
    _checks.boolean("per_identity", per_identity)
    identities = getattr(first, "query_identities", None) if per_identity else None
    if per_identity and identities is None:
        raise ValueError("`per_identity` must come with results that know identities; got others.")

    # Each model is compared with the first one by the same draws.
    state = generator.get_state()
    seed: int | None = generator.initial_seed()
    if not torch.equal(state, torch.Generator("cpu").manual_seed(generator.initial_seed()).get_state()):
        seed = None  # the generator has drawn before
    make_comparison = partial(
        Comparison,
        level=level,
        num_resamples=resampling.num_resamples,
        num_permutations=resampling.num_permutations,
        per_identity=per_identity,
        seed=seed,
        cutoff=cutoff,
    )
    comparisons = []
    for name, results in others:
        generator.set_state(state)
        names = str(first_name), str(name)
        if is_retrieval:
            comparisons.append(_compare_queries(first, results, names, resampling, make_comparison, identities))
        else:
            comparisons.append(_compare_images(first, results, names, resampling, make_comparison))
    if len(comparisons) > 1:
        comparisons = corrected(comparisons)
    return replace(comparisons[0], further_comparisons=tuple(comparisons[1:]))


def _check_models(a: Any, b: Any) -> Mapping[Any, Any]:
    """Return the results of all models by their names; raise unless they are two or more, of one kind."""
    models: Mapping[Any, Any] = {"a": a, "b": b}
    if b is None and isinstance(a, Mapping) and not isinstance(a, NamedNumbers):
        models = a
    if len(models) < 2:
        raise ValueError(f"`a` must hold the results of two models or more; got {len(models)}.")
    first, *_ = models.values()
    for name, results in models.items():
        if not isinstance(results, NamedNumbers) or type(results) is not type(first):
            got = "dict" if isinstance(results, dict) else type(results).__name__
            raise TypeError(f"`{name}` must be RetrievalResults or DetectionResults, all of one kind; got {got}.")
    return models


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons with Holm's correction of their p-values, for each number by itself.

    From the smallest p-value on, each is multiplied by the number of those that are left, and is never below the one
    before:

        p-values   0.01   0.04   0.03      times   3   1   2      corrected   0.03   0.06   0.06
    """
    tables = [dict(comparison.differences) for comparison in comparisons]
    for name in set().union(*tables):
        defined = [table for table in tables if name in table and table[name].p_value >= 0]
        defined.sort(key=lambda table: table[name].p_value)
        least = 0.0
        for place, table in enumerate(defined):
            num_left = len(defined) - place
            least = max(least, min(1.0, num_left * table[name].p_value))
            table[name] = replace(table[name], p_holm=least)
    return [replace(comparison, differences=table) for comparison, table in zip(comparisons, tables, strict=True)]


def _compare_images(
    a: Any, b: Any, names: tuple[str, str], resampling: Resampling, make_comparison: Callable[..., Comparison]
) -> Comparison:
    """Compare the `DetectionResults` of two models; `make_comparison` has the options of the draws."""
    paired = PairedDetections.of((a, b), names)
    by_class = paired.class_differences
    by_class = by_class.masked_fill(by_class.abs() <= ROUNDING, 0.0)
    means = paired.means.T.tolist()
    all_chances = chances_of_draws(paired, resampling)
    differences = {}
    for column, (name, number) in enumerate(a.numbers.items()):
        differences[name] = _difference(number, means[column], by_class[:, column], all_chances[column])
    return make_comparison(
        names,
        differences=differences,
        conventions=a.conventions,
        num_queries=paired.num_images,
        num_valid=paired.num_images,
    )


def _compare_queries(
    a: RetrievalResults,
    b: RetrievalResults,
    names: tuple[str, str],
    resampling: Resampling,
    make_comparison: Callable[..., Comparison],
    identities: Tensor | None,
) -> Comparison:
    """Compare the retrieval results of two models; queries of one of the identities are drawn as a whole."""
    pairs = pair(a, b, names)
    rank_a, rank_b = pairs.pop("first_rank")
    is_gained = (rank_a > 1) & (rank_b == 1)
    is_lost = (rank_a == 1) & (rank_b > 1)
    differences = {name: _without_rounding(values_a, values_b) for name, (values_a, values_b) in pairs.items()}

    # Numbers that are NaN for one of the models throughout are not resampled.
    means = {name: (a.means[name], b.means[name]) for name in differences}
    defined = {name: values for name, values in differences.items() if math.isfinite(sum(means[name]))}
    # The value that stands for a query without positives is the same in both models.
    counts_all_queries = EMPTY_TARGET_ACTIONS[a.protocol.empty_target_action] is not None
    weights = {}
    for name in defined:
        weight = a.weight_of(name)
        weights[name] = None if weight is None else weight.cpu()
    resampled = chances(
        defined,
        resampling,
        weights=weights,
        identities=None if identities is None else identities.cpu(),
        substitute=0.0 if counts_all_queries else None,
    )

    query_index = a.query_index.cpu()
    return make_comparison(
        names,
        differences={
            name: _difference(a.numbers[name], means[name], values, resampled.get(name, UNDEFINED))
            for name, values in differences.items()
        },
        conventions={name: a.conventions[name] for name in pairs},
        num_queries=len(query_index),
        num_valid=min(a.counts.valid, b.counts.valid),
        gained=is_gained.nonzero()[:, 0],
        lost=is_lost.nonzero()[:, 0],
        gained_index=query_index[is_gained],
        lost_index=query_index[is_lost],
        protocol=a.protocol,
        setup_a=a.setup,
        setup_b=b.setup,
    )


def _without_rounding(
    values_a: Float[Tensor, " queries"], values_b: Float[Tensor, " queries"]
) -> Float[Tensor, " queries"]:
    """Return the differences b - a; 0 for values that differ by rounding only, as on two devices."""
    differences = values_b.double() - values_a.double()
    size = torch.maximum(values_a.abs(), values_b.abs())
    is_rounding = (differences.abs() <= ROUNDING * size) & size.isfinite()
    return differences.masked_fill((values_a == values_b) | is_rounding, 0.0)


def _difference(number: Number, means: tuple[float, float], differences: Tensor, chance: Chance) -> Difference:
    gains = -differences if number.lower_is_better else differences
    return Difference(
        *means,
        *chance,
        num_better=int((gains > 0).sum()),
        num_worse=int((gains < 0).sum()),
        num_equal=int((differences == 0).sum()),
        is_rank=not number.is_share,
        title=number.title,
        lower_is_better=number.lower_is_better,
    )
