"""Two models or more on the same data: what they differ by, and whether that may be chance.

Retrieval is compared query by query, see `pair`; detections by other draws of the images, `PairedDetections`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.model_tables import NEVER, Heading, Tabled, comparison_table, comparison_text
from reid_torchmetrics.functional.named_numbers import ByName, NamedNumbers, json_safe
from reid_torchmetrics.functional.result_files import SavedResults
from reid_torchmetrics.functional.retrieval.draws import GalleryDraw
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS

from .paired_queries import pair
from .protocol import Protocol
from .query_statistics import ROUNDING, UNDEFINED, Chance, Resampling, chances, chances_of_draws, seeded
from .ranking_options import Setup
from .results import RetrievalResults

_PLAIN = ("names", "num_queries", "num_valid", "level", "repeats", "permutations", "per_identity", "seed")  # of JSON


@dataclass(frozen=True)
class Difference:
    """How a number of one model differs from that of another; NaN where one of them has no valid query.

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
    """the number as tables and legends write it, such as "mAP" """
    lower_is_better: bool = False
    """as of a rank, and of ANMRR"""


_no_queries = partial(torch.empty, 0, dtype=torch.int64, device="cpu")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Tabled, SavedResults):
    """What two models differ by on the same queries, or on the same images; a is the first model, b the second."""

    _PARTS = (Difference, Protocol, GalleryDraw, Setup)

    names: tuple[str, str]
    """the names of a and b"""
    differences: Mapping[str, Difference]
    """a difference for every number that both report"""
    conventions: Mapping[str, str]
    """how each number was computed, in words"""
    num_queries: int
    """for detections the number of images"""
    num_valid: int
    """queries with a positive; 0 where the queries of one model were not ranked; for detections the images"""
    level: float
    repeats: int
    permutations: int
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
    """the protocol of a; that of b may differ in name, source and what it reports; None for detections"""
    setup_a: Setup | None = None
    setup_b: Setup | None = None
    """may differ from `setup_a` in similarity and re-ranking"""
    others: tuple[Comparison, ...] = ()
    """the comparisons of a with further models"""

    @classmethod
    def _from_fields(cls, saved: dict[str, Any]) -> Comparison:
        comparison = cls(**saved)
        comparison._check()
        return comparison

    def _check(self) -> None:
        """Raise unless queries exist and shares are shares: nothing in a comparison follows from the rest of it."""
        if not 0 <= self.num_valid <= self.num_queries:
            raise ValueError(f"`num_valid` must lie in [0, {self.num_queries}]; got {self.num_valid}.")
        if not self.differences.keys() <= self.conventions.keys():
            raise ValueError(f"`conventions` must be those of all differences; got {', '.join(self.conventions)}.")
        _checks.fraction("level", self.level)
        for name, queries in (("gained", self.gained), ("lost", self.lost)):
            _checks.in_range(name, queries, 0, self.num_queries)
            if bool((queries[1:] <= queries[:-1]).any()):
                raise ValueError(f"`{name}` must ascend; got {queries[:5].tolist()}.")
        for name, each in self.differences.items():
            shares = [value for value in (each.p_value, each.p_holm) if not math.isnan(value)]
            counts = each.num_better, each.num_worse, each.num_equal
            if not all(0 <= value <= 1 for value in shares) or each.low > each.high or min(counts) < 0:
                raise ValueError(f"`differences.{name}` must have p-values from 0 to 1, and ends in order; got {each}.")

    def __post_init__(self) -> None:
        for name in ("differences", "conventions"):
            object.__setattr__(self, name, ByName(getattr(self, name)))

    @property
    def by_name(self) -> dict[str, Comparison]:
        """The comparison of a with each other model, by the name of that model."""
        return {each.names[1]: each for each in (replace(self, others=()), *self.others)}

    @property
    def chance(self) -> str:
        """What intervals and p-values are made of, in words."""
        unit = "images" if self.protocol is None else "identities" if self.per_identity else "queries"
        flips = "swaps" if self.protocol is None else "sign flips"
        seed = "" if self.seed is None else f"; seed {self.seed}"
        return f"intervals: {self.repeats} bootstrap samples of {unit}; p: {self.permutations} {flips} of {unit}{seed}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, JSON-safe: undefined and infinite numbers are None, infinite means are `said` "never"."""
        settings = {name: getattr(self, name) for name in ("protocol", "setup_a", "setup_b")}
        return {
            "measures": {
                name: {key: json_safe(value) if isinstance(value, float) else value for key, value in fields.items()}
                | {"convention": self.conventions[name]}
                | {f"{key}_said": NEVER for key in ("mean_a", "mean_b") if math.isinf(fields[key])}
                for name, fields in ((name, asdict(difference)) for name, difference in self.differences.items())
            },
            "gained": {"positions": self.gained.tolist(), "query_index": self.gained_index.tolist()},
            "lost": {"positions": self.lost.tolist(), "query_index": self.lost_index.tolist()},
            **{name: getattr(self, name) for name in _PLAIN},
            **{name: None if value is None else asdict(value) for name, value in settings.items()},
            "others": [each.to_dict() for each in self.others],
        }

    def to_frame(self) -> Any:
        """The numbers as a `pandas.DataFrame` with a row for each model.

        Shares are not in percent; p-values are in `by_name`.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        import pandas as pd  # noqa: PLC0415 - an optional package

        return pd.DataFrame.from_dict(self.model_table().rows, orient="index").rename_axis("model")

    model_table = comparison_table
    __repr__ = __format__ = comparison_text


def compare(
    a: NamedNumbers | Mapping[str, NamedNumbers],
    b: NamedNumbers | None = None,
    *,
    generator: torch.Generator | None = None,
    level: float = 0.95,
    repeats: int | None = None,
    permutations: int | None = None,
    per_identity: bool = False,
) -> Comparison:
    """Compare models, or one with and without re-ranking, on the same queries and gallery, or on the same images.

        compare({"baseline": a, "ours": b})

    Every mean that both report has the mean difference b - a over queries with two statements about chance:

    - Its percentile bootstrap interval, as in `bootstrap_interval`: queries are resampled `repeats` times, the same
      ones for both models. So it is much narrower than the intervals of the two means suggest.
    - The p-value of Fisher's randomization test, two-sided: if the models were interchangeable, each query's
      difference might as well have the other sign. It is (1 + permutations at least as extreme) / (1 + permutations)
      over random signs, so never below 1 / (1 + `permutations`).

    Both are about other queries, not about another gallery or another training run, and each number is tested for
    itself. Queries of one identity are not independent of each other: with `per_identity`, whole identities are drawn
    and flipped. A query without a positive has no difference; under `empty_target_action` "neg" and "pos" it counts the
    same in both means, so 0. Differences by no more than rounding, 1e-12 of the values, are 0. Where no query of one
    model is valid, as with embeddings that are not finite, differences, intervals and p-values are NaN; so are
    they where a mean is infinite, as of ranks that lists lack. Infinite values are equal to each other. A single query
    has an interval without width and a p-value of 1.

    Queries are matched by `query_index`, so they may come in another order in `b`; where evaluations were not given
    `index`, these are positions, and the order must be the same. Protocols may differ in their name, source and what
    they report. Similarity and re-ranking belong to the model: they may differ, and the comparison shows both.

    Of detections, images are resampled, and every number is computed anew for each draw, by the evaluator's rules from
    the matches; an image that is drawn twice counts twice, and a number without ground truths in a draw is left out of
    its interval. For the p-value, the two models' detections of random images are swapped. Images are matched by
    `image_id`, or by position where none was given.

    Of more than two models each is compared with the first, with the same draws. Holm's correction of the p-values
    is for the number of these comparisons; the numbers are still tested each for itself.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 13 and 15; Fisher, "The Design of
    Experiments", 1935, section 21; Smucker, Allan and Carterette, "A Comparison of Statistical Significance Tests for
    Information Retrieval Evaluation", CIKM 2007; Phipson and Smyth, "Permutation P-values Should Never Be Zero", 2010;
    Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics, 1979.

    Args:
        a: results of one model, from `evaluate`, `evaluate_images` and the like, or from `results` of a metric; or
            results by the names of two or more models, the first of which the others are compared with.
        b: results of the other model; None if `a` has them.
        generator: source of all randomness, on the CPU; None for one with the seed 0.
        level: share of the resampled differences that lie inside of an interval.
        repeats: how often queries or images are resampled; None for 10,000, of images 1,000.
        permutations: how often signs are drawn, or images swapped; None as for `repeats`.
        per_identity: draw and flip identities with all their queries.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: options out of range; results over other queries, of another gallery (as far as the numbers of
            positives and candidates tell), of other images or ground truths, or by other conventions; no number in
            common; `per_identity` without identities.
    """
    is_alone = isinstance(a, NamedNumbers) or not isinstance(a, Mapping)
    models: Mapping[Any, Any] = {"a": a, "b": b} if b is not None or is_alone else a
    if len(models) < 2:
        raise ValueError(f"`a` must hold the results of two models or more; got {len(models)}.")
    (first, ours), *others = models.items()
    for name, results in models.items():
        if not isinstance(results, NamedNumbers) or type(results) is not type(ours):
            came = "dict" if isinstance(results, dict) else type(results).__name__
            raise TypeError(f"`{name}` must be RetrievalResults or DetectionResults, all of one kind; got {came}.")
    # The same draws for each model but the first.
    draws = 10_000 if isinstance(ours, RetrievalResults) else 1_000  # each draw of images is an evaluation
    generator = seeded(generator)
    resampling = Resampling(generator, level, *(draws if each is None else each for each in (repeats, permutations)))
    if generator.device.type != "cpu":
        raise ValueError(f"`generator` must be on the CPU; got one on {generator.device}.")
    _checks.boolean("per_identity", per_identity)
    if per_identity and getattr(ours, "query_identities", None) is None:
        raise ValueError("`per_identity` must come with results that know identities; got others.")
    state, seed, pairs = generator.get_state(), generator.initial_seed(), []
    is_new = torch.equal(state, torch.Generator("cpu").manual_seed(seed).get_state())
    for name, theirs in others:
        generator.set_state(state)
        names = str(first), str(name)
        if isinstance(ours, RetrievalResults):
            compared = _compare_queries(ours, theirs, names, resampling, per_identity=per_identity)
        else:
            compared = _compare_images(ours, ours.paired_with(theirs, names), resampling)
        compared |= {name: getattr(resampling, name) for name in ("level", "repeats", "permutations")}
        pairs.append(Comparison(names=names, per_identity=per_identity, seed=seed if is_new else None, **compared))
    pairs = pairs if len(pairs) == 1 else corrected(pairs)
    return replace(pairs[0], others=tuple(pairs[1:]))


def corrected(pairs: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with p-values by Holm's correction for their number, for each number by itself."""
    tables = [{**each.differences} for each in pairs]
    for name in {name for table in tables for name in table}:
        defined = [table for table in tables if name in table and table[name].p_value >= 0]
        # From the smallest on: times the number of those that are left, and never below the one before.
        least = 0.0
        for place, table in enumerate(sorted(defined, key=lambda table: table[name].p_value)):
            least = max(least, min(1.0, (len(defined) - place) * table[name].p_value))
            table[name] = replace(table[name], p_holm=least)
    return [replace(each, differences=table) for each, table in zip(pairs, tables, strict=True)]


def _compare_images(ours: Any, paired: Any, resampling: Resampling) -> dict[str, Any]:
    """The fields of a comparison of the `PairedDetections` of our `DetectionResults` and others."""
    means, by_class, headings = paired.means, paired.class_differences, ours.model_table().headings
    counts = ((by_class > ROUNDING).sum(0), (by_class < -ROUNDING).sum(0), (by_class.abs() <= ROUNDING).sum(0))
    columns = means.T.tolist(), chances_of_draws(paired, resampling), torch.stack(counts, 1).tolist()
    differences = {
        name: replace(Difference(*of, *chance, *classes), title=heading.title)
        for (name, heading), of, chance, classes in zip(headings.items(), *columns, strict=True)
    }
    numbers = dict.fromkeys(("num_queries", "num_valid"), paired.num_images)
    return {"differences": differences, "conventions": ours.conventions, **numbers}


def _compare_queries(
    a: RetrievalResults, b: RetrievalResults, names: tuple[str, str], resampling: Resampling, *, per_identity: bool
) -> dict[str, Any]:
    """The fields of a comparison of retrieval."""
    # One order of the queries, then means, intervals and p-values, and who moved to or from rank 1.
    pairs = pair(a, b, names)
    ours, theirs = pairs.pop("first_rank")
    differences = {name: _without_rounding(*values) for name, values in pairs.items()}
    # Numbers that are NaN for one of the models throughout are not resampled.
    means = {name: (a.means[name], b.means[name]) for name in differences}
    resampled = chances(
        {name: values for name, values in differences.items() if math.isfinite(sum(means[name]))},
        resampling,
        weight=None if a.weight is None else a.weight.cpu(),
        identities=a.query_identities.cpu() if per_identity and a.query_identities is not None else None,
        # What stands for a query without a value is the same in both means.
        substitute=None if EMPTY_TARGET_ACTIONS[a.protocol.empty_target_action] is None else 0.0,
    )
    query_index, headings = a.query_index.cpu(), a.model_table().headings
    is_moved = {"gained": (ours > 1) & (theirs == 1), "lost": (ours == 1) & (theirs > 1)}
    return {
        "differences": {
            name: _difference(headings[name], means[name], values, resampled.get(name, UNDEFINED))
            for name, values in differences.items()
        },
        "conventions": {name: a.conventions[name] for name in pairs},
        **{name: is_so.nonzero()[:, 0] for name, is_so in is_moved.items()},
        **{f"{name}_index": query_index[is_so] for name, is_so in is_moved.items()},
        "num_queries": len(query_index),
        "num_valid": min(a.counts.valid, b.counts.valid),
        "protocol": a.protocol,
        "setup_a": a.setup,
        "setup_b": b.setup,
    }


def _without_rounding(ours: Float[Tensor, " queries"], theirs: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
    """Differences theirs - ours; 0 for values that only rounding tells apart, as on two devices."""
    differences, size = theirs.double() - ours.double(), torch.maximum(ours.abs(), theirs.abs())
    is_equal = (ours == theirs) | ((differences.abs() <= ROUNDING * size) & size.isfinite())
    return differences.masked_fill(is_equal, 0.0)


def _difference(heading: Heading, means: tuple[float, float], differences: Tensor, chance: Chance) -> Difference:
    more, less = int((differences > 0).sum()), int((differences < 0).sum())
    counts = (less, more) if heading.lower_is_better else (more, less)
    numbers: Any = *means, *chance, *counts, int((differences == 0).sum()), heading.is_rank
    return replace(Difference(*numbers), title=heading.title, lower_is_better=heading.lower_is_better)
