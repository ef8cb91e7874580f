"""Runs are the lists that their scores order: in their numbers, their items and the names of these."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks import evaluate_lists
from tests.reference import lists

NAMES = [f"d{number}" for number in range(12)]
# Scores that single precision tells apart or not: 2^24 + 1, the tenth digit, the ends of its range, and beyond.
SCORES = [3.0, 2.0, 0.69999, 0.5, 0.5 + 1e-9, 0.0, -0.0, 1e-46, -1e39, 1e39, 2e39, math.inf, 7, 2**24, 2**24 + 1, True]
RUNS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(SCORES), max_size=8)
LISTS = st.lists(st.sampled_from(NAMES), max_size=8, unique=True)


@st.composite
def problems(draw):
    """Runs, with lists among them, and the items that are right; all are names, or all are numbers."""
    num_queries = draw(st.integers(1, 5))
    rows = [draw(st.one_of(RUNS, RUNS, LISTS)) for _ in range(num_queries)]
    if draw(st.booleans()):
        is_row = st.permutations(range(8)).map(lambda places: {f"d{place}": -float(place) for place in places})
        rows[0] = draw(is_row)
    positives = [draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)) for _ in range(num_queries)]
    if draw(st.booleans()):
        return rows, positives
    as_numbers = {name: number for number, name in enumerate(NAMES)}
    numbered = []
    for row in rows:
        items = [as_numbers[item] for item in row]
        numbered.append(dict(zip(items, row.values(), strict=True)) if isinstance(row, dict) else items)
    return numbered, [[as_numbers[item] for item in row] for row in positives]


def values_of(results):
    """All that results hold of lists."""
    lists_of_results = results.nearest(max(1, results.rank_lists.index.shape[1]))
    return {
        "numbers": {name: values.nan_to_num(-1).tolist() for name, values in results.per_query.items()},
        "items": lists_of_results.index.tolist(),
        "names": results.gallery_names,
        "counts": str(results.list_counts),
    }


@given(problems())
def test_a_run_is_the_list_that_its_scores_order(problem):
    rows, positives = problem
    ordered = [lists.ranked(row) if isinstance(row, dict) else row for row in rows]
    of_runs = evaluate_lists(rows, positives, reports=["map", "mrr", "precision_3"])
    of_lists = evaluate_lists(ordered, positives, reports=["map", "mrr", "precision_3"])
    assert values_of(of_runs) == values_of(of_lists)


@given(problems(), st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_a_run_that_labels_judge_is_the_list_that_its_scores_order(problem, identities):
    rows, _ = problem
    ordered = [lists.ranked(row) if isinstance(row, dict) else row for row in rows]
    is_named = any(isinstance(item, str) for row in rows for item in row)
    gallery = dict(zip(NAMES, identities, strict=True)) if is_named else torch.tensor(identities)
    labels = {"query_identities": torch.zeros(len(rows), dtype=torch.int64), "gallery_identities": gallery}
    of_runs, of_lists = (evaluate_lists(each, reports=["map"], **labels) for each in (rows, ordered))
    assert values_of(of_runs) == values_of(of_lists)


def test_the_first_unknown_item_of_a_run_is_the_best_one():
    run = [{"c": 0.1, "x": 0.5, "y": 0.9, "a": 1.0}]
    labels = {"query_identities": [0], "gallery_identities": {"a": 0, "c": 1}}
    with pytest.raises(ValueError, match="got 'y' for query 0"):
        evaluate_lists(run, **labels)


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize(("scores", "is_told"), [([1.0] * 20, True), ([1.0] * 19 + [0.5], False)])
def test_scores_that_are_all_equal_are_told(scores, is_told, recwarn):
    run = {"q": dict(zip(map(str, range(20)), scores, strict=True))}
    evaluate_lists(run, {"q": {"3": 1}})
    assert any("All scores of a list are equal" in str(warning.message) for warning in recwarn) == is_told


def test_a_query_without_truth_says_how_it_is_left_out():
    with pytest.raises(ValueError, match=r"got 'r' where .* 'q'\. `unknown_queries='skip'` leaves such queries out\."):
        evaluate_lists({"q": ["a"], "r": ["a"]}, {"q": ["a"]})
