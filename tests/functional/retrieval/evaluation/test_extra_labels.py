# ruff: noqa: E501 - a message stays on one line, to be searched for
"""Labels that users name: every function that evaluates, against a loop over queries and gallery items."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import evaluate, evaluate_scores
from reid_torchmetrics.functional.retrieval import Protocol, find_relevance
from reid_torchmetrics.tasks import evaluate_lists
from tests.extra_labels import Problem, ranks_in
from tests.paths import path
from tests.profiles import examples

SEEDS = st.integers(0, 2**32 - 1)
QUERY, GALLERY = torch.eye(2), torch.tensor([[1.0, 0.1], [1.0, 0.2], [0.1, 1.0], [0.2, 1.0]])
IDENTITIES = {"query_identities": [7, 8], "gallery_identities": [7, 8, 7, 8]}
SIDES = {"query_labels": {"side": ["left", "right"]}, "gallery_labels": {"side": ["left", "left", "right", "right"]}}


@pytest.mark.filterwarnings("ignore")
@examples(60)
@given(SEEDS, st.sampled_from([1, 1 << 22]), st.sampled_from([None, 1, 100]))
def test_embeddings_and_scores_are_ranked_as_the_slow_reference_does(seed, at_a_time, max_bytes):
    problem = Problem(seed)
    options = problem.of_both() | problem.options | {"max_bytes": max_bytes}
    query, gallery = problem.embeddings[: problem.num_queries], problem.embeddings[problem.num_queries :]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(*path("listed_pairs"), at_a_time)
        results = evaluate(query, gallery, similarity="dot", **options)
        assert ranks_in(results) == problem.expected()
        assert results["map"] == pytest.approx(problem.expected_map(), nan_ok=True, abs=1e-12)
        assert ranks_in(evaluate_scores(problem.scores, **options)) == problem.expected()


def test_items_of_another_side_are_no_candidates():
    # The first query, a left one, has the items 0 and 1 as candidates; the second has 2 and 3, and 3 is right.
    results = evaluate(QUERY, GALLERY, **IDENTITIES, **SIDES, must_agree=("side",))
    assert results.num_candidates.tolist() == [2, 2]
    assert results.average_precision.tolist() == [1.0, 0.5]
    assert "items that differ in side dropped" in str(results)


def test_items_of_the_same_batch_are_no_candidates():
    # The first query keeps the items 2 and 3, of which 3 is less like it; the second keeps 0 and 1.
    labels = {side: {"batch": values["side"]} for side, values in SIDES.items()}
    results = evaluate(QUERY, GALLERY, **IDENTITIES, **labels, must_differ=("batch",))
    assert results.num_candidates.tolist() == [2, 2]
    assert results.average_precision.tolist() == [0.5, 1.0]
    assert "items of the same batch dropped" in str(results)


def test_labels_may_be_tensors_arrays_and_columns_of_tables():
    pandas = pytest.importorskip("pandas")
    numbers = {"query_labels": [0, 1], "gallery_labels": [0, 0, 1, 1]}
    for kind in (torch.tensor, np.array, pandas.Series, lambda values: np.array(values, dtype=np.float32)):
        labels = {side: {"side": kind(values)} for side, values in numbers.items()}
        results = evaluate(QUERY, GALLERY, **IDENTITIES, **labels, must_agree=["side"])
        assert results.average_precision.tolist() == [1.0, 0.5]
    series = {side: {"side": pandas.Series(values["side"])} for side, values in SIDES.items()}
    assert evaluate(QUERY, GALLERY, **IDENTITIES, **series, must_agree=["side"])["map"] == 0.75


@pytest.mark.usefixtures("unannotated")
def test_a_protocol_holds_the_rules_as_tuples():
    protocol = Protocol("animals", "us", must_agree=["side"])
    assert protocol.must_agree == ("side",)
    assert protocol.to_dict()["must_agree"] == ("side",)
    found = evaluate(QUERY, GALLERY, **IDENTITIES, **SIDES, protocol=protocol)
    assert found["map"] == 0.75


LEFT = {"query_labels": {"side": [0, 1]}, "gallery_labels": {"side": [0, 0, 1, 1]}}
AGREE = {"must_agree": ("side",)}
BAD = [
    (AGREE, ValueError, "`query_labels` and `gallery_labels` must be given for `must_agree` ('side',); got none."),
    (AGREE | {"query_labels": LEFT["query_labels"]}, ValueError, "`query_labels` and `gallery_labels` must be given for `must_agree` ('side',); got only `query_labels`."),
    (LEFT | {"must_agree": ("side", "plate")}, ValueError, "`query_labels` must hold 'plate', which `must_agree` names; got 'side'."),
    (LEFT | {"must_differ": ("view",)}, ValueError, "`query_labels` must hold 'view', which `must_differ` names; got 'side'."),
    (AGREE | {"query_labels": {}, "gallery_labels": {}}, ValueError, "`query_labels` must hold 'side', which `must_agree` names; got no label."),
    (LEFT, ValueError, "`query_labels` must hold no label but those that `must_agree` or `must_differ` names, none; got 'side'."),
    (AGREE | LEFT | {"query_labels": {"side": [0, 1], "batch": [0, 1]}}, ValueError, "`query_labels` must hold no label but those that `must_agree` or `must_differ` names, 'side'; got 'batch'."),
    (AGREE | LEFT | {"query_labels": {"side": [0, 1], "cameras": [0, 1]}}, ValueError, "`query_labels` must hold labels without an argument of their own; got 'cameras'."),
    (AGREE | LEFT | {"query_labels": [0, 1]}, TypeError, "`query_labels` must be a mapping of names to labels, such as {'side': [...]}; got list, which may be `query_identities`."),
    (AGREE | LEFT | {"query_labels": torch.zeros((2, 1), dtype=torch.int64)}, TypeError, "`query_labels` must be a mapping of names to labels, such as {'side': [...]}; got Tensor, which may be `query_identities`."),
    (AGREE | LEFT | {"query_labels": {"side": ["a", "b"]}}, TypeError, "`query_labels['side']` and `gallery_labels['side']` must both hold names, or both integers; got 'a' first in `query_labels['side']` and 0 in `gallery_labels['side']`."),
    (AGREE | LEFT | {"query_labels": {"side": ["a", None]}}, ValueError, "`query_labels['side']` must hold no missing value; got None for sample 1."),
    (AGREE | LEFT | {"query_labels": {"side": [0.5, 1.0]}}, ValueError, "`query_labels['side']` must hold integers, or whole numbers below 2**53 in torch.float64; got 0.5."),
    (AGREE | LEFT | {"query_labels": {"side": [0, 1, 1]}}, ValueError, "`query_labels` must hold labels of 2 samples; got 3."),
    ({"must_agree": "side"}, TypeError, "`must_agree` must be a tuple or list of names; got 'side', so write ('side',)."),
    ({"must_agree": (3,)}, TypeError, "`must_agree` must hold names only; got 3."),
    ({"must_agree": ("",)}, ValueError, "`must_agree` must hold no empty name; got ''."),
    ({"must_differ": ("identities",)}, ValueError, "`must_differ` must name 'cameras', 'clothes', 'sequences' or labels of your own; got 'identities': they decide which items are positives."),
    ({"must_agree": ("identities",)}, ValueError, "`must_agree` must name 'cameras', 'clothes' or labels of your own; got 'identities': they decide which items are positives."),
    ({"must_agree": ("sequences",)}, ValueError, "`must_agree` must name 'cameras', 'clothes' or labels of your own; got 'sequences': items of the query's sequence are dropped."),
    ({"must_agree": ("positions",)}, ValueError, "`must_agree` must name 'cameras', 'clothes' or labels of your own; got 'positions': they are compared by a `radius`."),
    (AGREE | {"must_differ": ("side",)}, ValueError, "`must_agree` and `must_differ` must name different labels; got 'side' in both."),
    ({"must_agree": [f"label {number}" for number in range(16)]}, ValueError, "`must_agree` and `must_differ` must name at most 15 labels of your own; got 16."),
    ({"must_agree": ("cameras",)}, ValueError, "`same_camera` must be 'keep' or 'only' where `must_agree` names 'cameras', as no positive would remain; got 'same_identity'."),
    ({"must_differ": ("cameras",), "same_camera": "only"}, ValueError, "`same_camera` must be 'keep' or 'same_identity' or 'all' where `must_differ` names 'cameras', as no positive would remain; got 'only'."),
    ({"must_differ": ("cameras",)}, ValueError, "`query_cameras` and `gallery_cameras` must be given for `must_differ` ('cameras',); got none."),
]  # fmt: skip


@pytest.mark.parametrize(("options", "error", "message"), BAD)
@pytest.mark.usefixtures("unannotated")
@pytest.mark.filterwarnings("ignore:`protocol` 'market1501' leaves out gallery items by their cameras")
def test_rules_and_labels_that_do_not_fit_are_named(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        find_relevance(**IDENTITIES, **options)
    for call in (lambda: evaluate(QUERY, GALLERY, **IDENTITIES, **options), lambda: lists_of(options)):
        with pytest.raises(error, match=f"^{re.escape(message)}$"):
            call()


def lists_of(options):
    retrieved = [[0, 1, 2, 3], [0, 1, 2, 3]]
    return evaluate_lists(retrieved, **IDENTITIES, protocol="market1501", **options)


def test_rules_do_not_act_on_lists_of_positives():
    message = "`must_agree` must come with labels; got `ground_truth`, lists, which it cannot act on."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        evaluate(QUERY, GALLERY, ground_truth=[[0], [3]], must_agree=("side",))


def test_a_group_has_the_labels_of_its_members():
    # The groups 0 and 1 have the best members 0 and 3; the first query, a left one, keeps only group 0.
    groups, sides = [0, 0, 1, 1], {"query_labels": {"side": ["left", "right"]}}
    identities = {"query_identities": [7, 8], "gallery_identities": [7, 7, 8, 8]}
    of_gallery = {"gallery_labels": {"side": ["left", "left", "right", "right"]}, "gallery_groups": groups}
    results = evaluate(QUERY, GALLERY, **identities, **sides, **of_gallery, must_agree=("side",))
    assert ranks_in(results) == [([1], 1), ([1], 1)]
    of_gallery["gallery_labels"] = {"side": ["left", "right", "right", "right"]}
    with pytest.raises(ValueError, match="`gallery_groups` must have members of one label each"):
        evaluate(QUERY, GALLERY, **identities, **sides, **of_gallery, must_agree=("side",))
