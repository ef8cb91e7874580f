"""The numbers of a problem from their definitions: one query, one pair and one rank at a time, by `tests/reference`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from reid_torchmetrics.functional.retrieval.relevance import AGREEMENT_RULES, EXTRA
from tests.contracts.problems import SINGULAR, Problem
from tests.reference import draws, groups, measures, several_labels, ties
from tests.reference.relevance import sort_gallery
from tests.reference.retrieval import AVERAGING_TIES, GROUPING_TIES

CMC_LENGTH = 10
RULES = tuple(
    name
    for name, argument in inspect.signature(sort_gallery).parameters.items()
    if argument.kind is inspect.Parameter.KEYWORD_ONLY and name != "is_junk_pair"
)
"""the rules of relevance that the reference knows"""


class Candidate(NamedTuple):
    """An item that a query is ranked against."""

    score: float
    place: int
    grade: int
    """how many labels it shares with the query, or 1 for a positive; 0 for a negative"""


class Numbers(NamedTuple):
    """All that an evaluation tells."""

    means: Mapping[str, float]
    per_query: Mapping[str, list[float]] | None = None
    num_positives: list[int] | None = None
    num_candidates: list[int] | None = None
    cmc: list[float] | None = None


def expected_numbers(problem: Problem) -> Numbers:
    """Evaluate a problem."""
    options = problem.row.options
    candidates = judge(problem, options)
    cmc_rule = options.get("cmc_same_camera")
    candidates_for_cmc = candidates if cmc_rule is None else judge(problem, {**options, "same_camera": cmc_rule})
    num_positives = [sum(item.grade > 0 for item in items) for items in candidates]
    num_candidates = [len(items) for items in candidates]
    if "gallery_draw" in options:
        means = _drawn_means(problem, candidates, candidates_for_cmc)
        return Numbers(means, None, num_positives, num_candidates)
    per_query: dict[str, list[float]] = {}
    for report in (*problem.row.reports, *(f"rank_{k}" for k in range(1, CMC_LENGTH + 1))):
        judged = candidates_for_cmc if report.startswith("rank_") else candidates
        per_query[report] = [value_of(report, items, problem, max(num_positives)) for items in judged]
    action = options.get("empty_target_action", "skip")
    means = {report: mean_of(report, values, action) for report, values in per_query.items()}
    reported = {report: means[report] for report in problem.row.reports}
    values = {report: per_query[report] for report in problem.row.reports}
    cmc = [means[f"rank_{k}"] for k in range(1, CMC_LENGTH + 1)]
    return Numbers(reported, values, num_positives, num_candidates, cmc)


def judge(problem: Problem, options: Mapping[str, Any]) -> list[list[Candidate]]:
    """The candidates of each query, in the order of the gallery."""
    scores = problem.scores.double().tolist()
    if problem.row.truth is not None:
        return [_by_lists(problem, options, query, row) for query, row in enumerate(scores)]
    gallery = _samples(problem, "gallery")
    if "groups" in problem.labels:
        group_of = problem.labels["groups"].gallery
        scores = groups.scores_of_groups(scores, group_of).tolist()
        gallery = [gallery[first] for first, *_ in groups.members(group_of)]
    return [_by_labels(problem, options, query, row, gallery) for query, row in enumerate(scores)]


def _by_lists(problem: Problem, options: Mapping[str, Any], query: int, scores: Sequence[float]) -> list[Candidate]:
    """The candidates of a query whose positives and junk are listed."""
    lists = problem.lists[query]
    positives = {place for name in options.get("positive_lists", ("ok",)) for place in lists.get(name, ())}
    junk = {place for name in options.get("junk_lists", ("junk",)) for place in lists.get(name, ())}
    if problem.self_index is not None:
        junk.add(problem.self_index[query])
    if problem.junk_pairs is not None:
        junk.update(problem.junk_pairs[query].nonzero()[:, 0].tolist())
    return [Candidate(score, place, int(place in positives)) for place, score in enumerate(scores) if place not in junk]


def _by_labels(
    problem: Problem,
    options: Mapping[str, Any],
    query: int,
    scores: Sequence[float],
    gallery: Sequence[Mapping[str, Any]],
) -> list[Candidate]:
    """The candidates of a query by its labels."""
    sample = dict(_samples(problem, "query")[query])
    grades = [1] * len(gallery)
    if problem.row.has_several:
        # An item with a label of the query has its identity, and no other item has it.
        grades = [several_labels.num_shared(sample["identity"], item["identity"]) for item in gallery]
        gallery = [{**item, "identity": int(grade > 0)} for item, grade in zip(gallery, grades, strict=True)]
        sample["identity"] = 1
    if problem.self_index is not None:
        sample["position"] = problem.self_index[query]
    rules = {name: options[name] for name in RULES if name in options}
    for rule in AGREEMENT_RULES:
        rules[rule] = [SINGULAR.get(name, name) for name in options.get(rule, ())]
    junk = tuple(options.get("junk_identities", (-1,)))
    rules["junk_identities"] = (*junk, *("-1" for number in junk if number == -1), None)
    if problem.junk_pairs is not None:
        row = problem.junk_pairs[query].tolist()
        rules["is_junk_pair"] = row.__getitem__
    sorted_items = sort_gallery(sample, gallery, **rules)
    positives, negatives = set(sorted_items.positive), set(sorted_items.negative)
    return [
        Candidate(score, place, grades[place] if place in positives else 0)
        for place, score in enumerate(scores)
        if place in positives or place in negatives
    ]


def _samples(problem: Problem, side: str) -> list[dict[str, Any]]:
    """The samples of a side, each with its labels as the reference calls them."""
    length = len(getattr(problem, side))
    samples: list[dict[str, Any]] = [{} for _ in range(length)]
    for name, values in problem.labels.items():
        values_of_side = getattr(values, side)
        if name in SINGULAR and values_of_side is not None:
            for sample, value in zip(samples, values_of_side, strict=True):
                sample[SINGULAR[name]] = value
        if name == EXTRA:
            for sample, labels in zip(samples, values_of_side, strict=True):
                sample.update(labels)
    return samples


def in_order(items: Sequence[Candidate], policy: str) -> list[Candidate]:
    """The candidates, best first; equal scores as a tie policy that has an order says."""
    turn = {"pessimistic": 1, "optimistic": -1, "stable": 0}[policy]
    return sorted(items, key=lambda item: (-item.score, turn * item.grade, item.place))


def value_of(report: str, items: Sequence[Candidate], problem: Problem, most_positives: int) -> float:
    """A number of one query; NaN without a positive."""
    if not any(item.grade for item in items):
        return math.nan
    name, k = split(report)
    policy, options = problem.row.ties, problem.row.options
    if policy not in GROUPING_TIES or (name in GRADED and problem.row.has_several):
        return value_of_list(report, [item.grade for item in in_order(items, policy)], problem, most_positives)

    def measure(ranked: measures.Groups) -> Fraction | float:
        return measures.MEASURES[name](ranked, k, options, most_positives)

    ranked = ties.groups_of_scores([(item.score, item.grade > 0) for item in items])
    return float(ties.expectation(measure, ranked) if policy in AVERAGING_TIES else measure(ranked))


def value_of_list(report: str, grades: Sequence[int], problem: Problem, most_positives: int) -> float:
    """A number of the whole list of a query, of which all grades are given, best first; NaN without a positive."""
    if not any(grades):
        return math.nan
    name, k = split(report)
    options = problem.row.options
    if name in GRADED and problem.row.has_several:
        return float(GRADED[name](list(grades), k, options))
    ranked = tuple((1, 0) if grade else (0, 1) for grade in grades)
    return float(measures.MEASURES[name](ranked, k, options, most_positives))


def split(report: str) -> tuple[str, int]:
    """The name of a number and its k, 0 without."""
    name, _, k = report.rpartition("_")
    return (name, int(k)) if k.isdecimal() else (report, 0)


GRADED: dict[str, Callable[[list[int], int, Mapping[str, Any]], float]] = {
    "ndcg": lambda grades, k, options: several_labels.normalized_dcg(grades, k, options.get("gain", "linear")),
    "acg": lambda grades, k, _: several_labels.average_cumulative_gain(grades, k),
}
"""those of numbers that look at grades"""


def mean_of(report: str, values: Sequence[float], action: str) -> float:
    """The mean over queries, or the median; NaN of none."""
    valid = [value for value in values if not math.isnan(value)]
    if report == "median_rank":
        return measures.median(valid) if valid else math.nan
    if action != "skip":
        empty = {"neg": 0.0, "pos": 1.0, "error": math.nan}[action]
        valid += [empty] * (len(values) - len(valid))
    return math.fsum(valid) / len(valid) if valid else math.nan


def _drawn_means(
    problem: Problem, candidates: Sequence[Sequence[Candidate]], candidates_for_cmc: Sequence[Sequence[Candidate]]
) -> dict[str, float]:
    """Means of expectations over all galleries that may be drawn."""
    options = problem.row.options
    cutoffs = {report: split(report)[1] for report in problem.row.reports if report.startswith("rank_")}
    length = max(CMC_LENGTH, *cutoffs.values())
    drawn_for_cmc = _expected_draws(problem, candidates_for_cmc, length)
    values: dict[str, list[float]] = {}
    for report, k in cutoffs.items():
        values[report] = [math.nan if draw is None else float(draw.cmc[k - 1]) for draw in drawn_for_cmc]
    if options.get("gallery_draw_for_map", True):
        drawn = _expected_draws(problem, candidates, length)
        values["map"] = [math.nan if draw is None else float(draw.average_precision) for draw in drawn]
        values["minp"] = [math.nan if draw is None else float(draw.inverse_negative_penalty) for draw in drawn]
    most_positives = max(sum(item.grade > 0 for item in items) for items in candidates)
    for report in problem.row.reports:
        if report not in values:
            values[report] = [value_of(report, items, problem, most_positives) for items in candidates]
    action = options.get("empty_target_action", "skip")
    return {report: mean_of(report, values[report], action) for report in problem.row.reports}


def _expected_draws(
    problem: Problem, candidates: Sequence[Sequence[Candidate]], length: int
) -> list[draws.Expected | None]:
    """What drawn galleries are expected to give for each query, with a CMC of some length; None without positives.

    The mean over queries that may be drawn themselves stands for all of them.
    """
    options = problem.row.options
    identities = problem.labels["identities"].gallery
    draw = options["gallery_draw"]
    counting: dict[str, Any] = {"shots": draw.shots, "ties": problem.row.ties, "max_rank": length}
    if options.get("queries_in_draw"):
        return [draws.mean_of_drawn_queries(problem.scores.tolist(), identities, **counting)]
    strata: Sequence[Any] = identities
    if draw.per == "identity_and_camera":
        strata = list(zip(identities, problem.labels["cameras"].gallery, strict=True))
    per_query = []
    for items in candidates:
        listed = [draws.Item(item.score, item.place, identities[item.place], item.grade > 0) for item in items]
        per_query.append(draws.expected_draw(listed, strata, **counting))
    return per_query
