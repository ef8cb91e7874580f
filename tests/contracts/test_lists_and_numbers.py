"""The lists of `nearest` are the ranking that was measured: their measures are the numbers, for every kind of truth."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest
import torch

from reid_torchmetrics.functional.retrieval import RankLists, evaluate_scores
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from tests.contracts.entry_points import FUNCTIONS, collection, feed, one_metric, results_of_evaluate, words_of_refusal
from tests.contracts.expected import judge, value_of_list
from tests.contracts.problems import Problem, Row, make_problem
from tests.contracts.rows import ROWS
from tests.distributed import recording
from tests.profiles import PROFILE, each_row
from tests.reference import groups

ORDERED = [name for name, policy in TIE_POLICIES.items() if not policy.groups]
"""tie policies under which a ranking is a list"""
WITH_GRADES = [row for row in ROWS if row.has_several and row.ties == "pessimistic"]
pytestmark = pytest.mark.filterwarnings("ignore")


def in_share(rows: Iterable[Row], policy: str) -> list[Row]:
    """Rows of the contract under a tie policy, a share of them for each policy; at night all for each."""
    return [
        replace(row, ties=policy)
        for number, row in enumerate(rows)
        if PROFILE == "nightly" or number % len(ORDERED) == ORDERED.index(policy)
    ]


def grades_of(lists: RankLists, problem: Problem) -> list[list[int]]:
    """The grades of the items of each list, by the reference."""
    first_of = list(range(len(problem.gallery)))
    if "groups" in problem.labels:
        members = groups.members(problem.labels["groups"].gallery)
        first_of = [next(n for n, group in enumerate(members) if place in group) for place in first_of]
    graded = []
    for items, listed in zip(judge(problem, problem.row.options), lists.index.tolist(), strict=True):
        grade_of = {item.place: item.grade for item in items}
        graded.append([grade_of[first_of[item]] for item in listed if item >= 0])
    return graded


def faults_of(problem: Problem, lists: RankLists, per_query: Mapping[str, Sequence[float]]) -> list[str]:
    """The numbers that are not those of the lists, and lists that say otherwise what is right."""
    graded = grades_of(lists, problem)
    most_positives = max(sum(grade > 0 for grade in grades) for grades in graded)
    faults = []
    for query, (grades, is_positive) in enumerate(zip(graded, lists.is_positive.tolist(), strict=True)):
        if [grade > 0 for grade in grades] != is_positive[: len(grades)]:
            faults.append(f"{problem.row.name}: `is_positive` of query {query}")
        first = grades.index(next(filter(None, grades))) + 1 if any(grades) else 0
        if int(lists.first_positive_rank[query]) != first:
            faults.append(f"{problem.row.name}: `first_positive_rank` of query {query}")
        for report, values in per_query.items():
            if report.startswith("rank_") and "cmc_same_camera" in problem.row.options:
                continue  # the lists are those of the other numbers
            expected = value_of_list(report, grades, problem, most_positives)
            if not math.isclose(values[query], expected, abs_tol=1e-12) and not math.isnan(values[query] + expected):
                faults.append(f"{problem.row.name}: {report} of query {query} is {values[query]}, not {expected}")
    return faults


@each_row("policy", ORDERED)
def test_the_lists_of_evaluate_have_its_numbers(policy):
    faults = []
    with_order = [row for row in ROWS if "gallery_draw" not in row.options and not row.has_several]
    for row in [*in_share(with_order, policy), *(replace(row, ties=policy) for row in WITH_GRADES)]:
        problem = make_problem(row)
        if words_of_refusal(problem.row, FUNCTIONS["evaluate"]):
            continue
        results = results_of_evaluate(problem)
        lists = results.nearest(len(problem.gallery))
        faults += faults_of(problem, lists, {name: values.tolist() for name, values in results.per_query.items()})
        assert torch.equal(results.nearest(3).index, lists.index[:, :3])
    assert faults == []


@each_row("policy", ORDERED)
def test_the_lists_of_metrics_have_the_numbers_of_several_labels(policy):
    for row in in_share(WITH_GRADES, policy):
        problem = make_problem(row)
        lists, per_query = lists_and_numbers(problem)
        assert faults_of(problem, lists, per_query) == []
        assert lists_by_threads(problem).index.tolist() == lists.index.tolist(), row.name


def lists_and_numbers(problem: Problem) -> tuple[RankLists, dict[str, list[float]]]:
    """The lists of a collection, which its results hold as well, and the numbers of its queries."""
    metric = collection(problem)
    feed(metric, problem)
    length = len(problem.gallery)
    results = metric.results(nearest=length)
    assert torch.equal(results.nearest(length).index, metric.nearest(length).index)
    return metric.nearest(length), {name: values.tolist() for name, values in results.per_query.items()}


def lists_by_threads(problem: Problem) -> RankLists:
    """The lists of processes that are threads; the last one has no samples."""

    def on_process(world: recording.RecordingWorld) -> RankLists:
        metric = one_metric(problem, distributed_available_fn=recording.is_shared)
        if world.process < world.size - 1:
            feed(metric, problem, world.process, world.size - 1)
        return metric.nearest(len(problem.gallery))

    outcomes, _ = recording.run(3, on_process)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return outcomes[0].value


@each_row("policy", ORDERED)
def test_a_score_of_minus_zero_is_listed_as_zero_with_and_without_grades(policy):
    distances = torch.tensor([[0.0, 1.0, -0.0, 0.0]])
    labels = torch.tensor([[True, False], [False, True], [True, True], [True, False]])
    for query, gallery in ((torch.ones(1, 2, dtype=torch.bool), labels), (torch.tensor([0]), labels[:, 0].long())):
        results = evaluate_scores(
            distances=distances, query_identities=query, gallery_identities=gallery, same_camera="keep", ties=policy
        )
        scores = results.nearest(4).scores
        assert not torch.signbit(scores[scores == 0]).any()
