"""No queries, no gallery or neither: every entry point has numbers of nothing, for every kind of truth."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from reid_torchmetrics import evaluate_lists
from tests.contracts.entry_points import FUNCTIONS, METRICS, PROCESSES, words_of_refusal
from tests.contracts.problems import BothSides, Problem, make_problem
from tests.contracts.rows import ROWS
from tests.profiles import PROFILE

ENTRY_POINTS = {**FUNCTIONS, **METRICS, **PROCESSES}
SIZES = [(0, 5), (3, 0), (0, 0)]
"""numbers of queries and of gallery items"""
ACTIONS = ("neg", "pos")
"""those under which a query without positives has a value"""
OF_LISTED_ROWS = {"RankCounter", "evaluate_lists by name", *METRICS, *PROCESSES}
"""entry points that are given lists of rows; an empty one does not say how many columns a label has"""

pytestmark = pytest.mark.filterwarnings("ignore")


def with_sizes(problem: Problem, num_queries: int, num_gallery: int) -> Problem:
    """The first samples of a problem, as many as sizes say."""
    labels = {
        name: BothSides(*(first_of(side, size) for side, size in zip(values, (num_queries, num_gallery), strict=True)))
        for name, values in problem.labels.items()
    }
    lists = problem.lists
    if lists is not None:
        lists = [
            {name: [place for place in places if place < num_gallery] for name, places in row.items()}
            for row in lists[:num_queries]
        ]
    return replace(
        problem,
        query=problem.query[:num_queries],
        gallery=problem.gallery[:num_gallery],
        labels=labels,
        lists=lists,
        junk_pairs=None if problem.junk_pairs is None else problem.junk_pairs[:num_queries, :num_gallery],
        self_index=None if problem.self_index is None else [-1] * num_queries,
    )


def first_of(values: list[Any] | None, size: int) -> Any:
    """The labels of the first samples; a matrix keeps its columns, as an empty list has none."""
    if values is not None and isinstance(values[0], list):
        return torch.tensor(values)[:size]
    return None if values is None else values[:size]


def fault_in(name: str, problem: Problem, folder: Path) -> str:
    """What an entry point does wrong; empty for nothing."""
    entry_point = ENTRY_POINTS[name]
    words = words_of_refusal(problem.row, entry_point)
    try:
        numbers = entry_point.evaluate(problem, folder)
    except (TypeError, ValueError, RuntimeError) as error:
        message = " ".join(str(error).split())
        return "" if any(re.search(text, message) for text in words) else f"refuses: {message}"
    values = list(numbers.means.values())
    for values_of_queries in (numbers.per_query or {}).values():
        values += values_of_queries
    if not all(math.isnan(value) for value in values):
        return f"gives numbers: {numbers}"
    has_sizes = numbers.num_candidates in (None, [0] * len(problem.query)) or len(problem.gallery)
    return "" if has_sizes else f"counts candidates: {numbers.num_candidates}"


@pytest.mark.parametrize("sizes", SIZES)
def test_nothing_is_ranked_at_every_entry_point(sizes, tmp_path):
    faults = {}
    rows = [row for row in ROWS if not row.is_leave_one_out and row.options.get("empty_target_action") not in ACTIONS]
    for number, row in enumerate(rows):
        is_in_turn = PROFILE == "nightly" or number % len(SIZES) == SIZES.index(sizes)
        for name in list(ENTRY_POINTS) if PROFILE == "nightly" else [list(ENTRY_POINTS)[number % len(ENTRY_POINTS)]]:
            has_columns = row.has_several or "positions" in row.labels
            if not is_in_turn or (has_columns and name in OF_LISTED_ROWS):
                continue
            fault = fault_in(name, with_sizes(make_problem(row), *sizes), tmp_path)
            if fault:
                faults[name, row.name] = fault
    assert faults == {}


LABELS_BY_NAME = {"query_identities": {"q": 1}, "gallery_identities": {}}
EMPTY_LISTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lists without items": ([[], []], {"query_identities": [1, 2], "gallery_identities": [1, 2, 1]}),
    "a matrix without columns": (np.empty((2, 0)), {"query_identities": [1, 2], "gallery_identities": [1, 2, 1]}),
    "padding alone": (np.array([[-1], [-1]]), {"query_identities": [1, 2], "gallery_identities": []}),
    "a tensor without rows": (torch.empty(0, 3), {"query_identities": [], "gallery_identities": [1, 2, 1]}),
    "names": ({"q": []}, LABELS_BY_NAME),
    "numbers of queries": ({5: []}, {"query_identities": {5: 1}, "gallery_identities": {}}),
    "padding by numbers": ({5: [-1]}, {"query_identities": {5: 1}, "gallery_identities": {}}),
    "scores of no items": ({"q": {}}, LABELS_BY_NAME),
    "positives": ([[], []], {"positives": [[1], []]}),
    "positives of a matrix without columns": (np.empty((2, 0)), {"positives": np.empty((2, 0))}),
    "positives by name": ({"q": []}, {"positives": {"q": []}}),
    "no query by name": ({}, {"positives": {}}),
}


@pytest.mark.parametrize("name", EMPTY_LISTS)
def test_lists_of_nothing_find_nothing(name):
    retrieved, truth = EMPTY_LISTS[name]
    results = evaluate_lists(retrieved, **truth, empty_target_action="skip", reports=("map", "rank_1"))
    values = [0.0 if count else math.nan for count in results.num_positives.tolist()]
    assert results.per_query["map"].tolist() == pytest.approx(values, nan_ok=True)
    assert results.num_candidates.tolist() == [0] * len(values)
    lists = results.nearest(1) if results.rank_lists.index.shape[1] else results.rank_lists
    assert not lists.is_positive.any()


def test_an_item_of_no_gallery_is_an_error():
    for item, labels in (("a", {"q": 1}), (3, {"q": 1})):
        with pytest.raises(ValueError, match="`retrieved` must hold items that the labels of the gallery have; got"):
            evaluate_lists({"q": [item]}, query_identities=labels, gallery_identities={})
    with pytest.raises(ValueError, match="`retrieved` must lie in"):
        evaluate_lists([[0]], query_identities=[1], gallery_identities=[])
