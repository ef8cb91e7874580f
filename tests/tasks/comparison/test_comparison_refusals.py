"""What cannot be compared is refused, and the error names the difference."""

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate_scores
from reid_torchmetrics.tasks import compare
from tests.tasks.comparison.two_models import compared, ranked, seeded

pytestmark = pytest.mark.usefixtures("unannotated")

A = ranked(1, 2, 4, None)
B = ranked(1, 1, 2, None)


def said(a: Any, b: Any, kind: type[Exception] = ValueError, **options: Any) -> str:
    """The message of the error."""
    with pytest.raises(kind) as caught:
        compare(a, b, **({"generator": seeded(), "num_resamples": 5, "num_permutations": 5} | options))
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"generator": 7}, TypeError, "`generator` must be a torch.Generator; got int."),
        ({"num_permutations": 0}, ValueError, "`num_permutations` must be at least 1; got 0."),
        ({"num_permutations": 0.5}, TypeError, "`num_permutations` must be an int; got float."),
        ({"per_identity": 1}, TypeError, "`per_identity` must be True or False; got int."),
    ],
)
def test_a_bad_option_is_named(options, kind, message):
    assert said(A, B, kind, **options) == message


def test_a_generator_of_another_device_is_refused():
    elsewhere = mock.Mock(torch.Generator, device=torch.device("cuda:0"))
    assert said(A, B, generator=elsewhere) == "`generator` must be on the CPU; got one on cuda:0."


def test_other_types_are_refused():
    rule = "must be RetrievalResults or DetectionResults, all of one kind"
    assert said(A, 7, TypeError) == f"`b` {rule}; got int."
    assert said(A, None, TypeError) == f"`b` {rule}; got NoneType."
    assert said(A.means, B, TypeError) == f"`a` {rule}; got dict."
    assert said({"x": A, "y": 7}, None, TypeError) == f"`y` {rule}; got int."
    assert said({"x": A}, None) == "`a` must hold the results of two models or more; got 1."


def test_the_models_are_named():
    other = ranked(1, 1, 2, None, ties="optimistic")
    message = "`ours` must be evaluated as `baseline` was; got ties='optimistic' and not 'pessimistic'."
    assert said({"baseline": A, "ours": other}, None) == message


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (ranked(1, 1, 2, None, rule="trapezoid"), "rule='trapezoid' and not 'rectangle'"),
        (ranked(1, 1, 2, None, empty_target_action="neg"), "empty_target_action='neg' and not 'skip'"),
        (ranked(1, 1, 2, None, junk_identities=()), "junk_identities=() and not (-1,)"),
        (ranked(1, 1, 2, None, ties="optimistic"), "ties='optimistic' and not 'pessimistic'"),
        (ranked(1, 1, 2, None, cameras=True), "cameras=True and not False"),
    ],
)
def test_other_conventions_are_refused(other, difference):
    assert said(A, other) == f"`b` must be evaluated as `a` was; got {difference}."


@pytest.mark.filterwarnings("ignore:.*no cameras")
def test_other_protocols_are_named():
    other = ranked(1, 1, 2, None, protocol="market1501_official", reports=("rank_5",))
    assert said(A, other) == (
        "`b` must be evaluated as `a` was; got protocol 'market1501_official' and not 'market1501', such as"
        " rule='trapezoid' and not 'rectangle'."
    )


NO_VALUE = {"map": torch.tensor([1, math.nan, 0.5, math.nan], dtype=torch.float64)}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (ranked(1, 1, 2), "hold the queries of `a`; got 3 queries and not 4."),
        (
            replace(B, query_index=torch.tensor([0, 1, 9, 2])),
            "hold the queries of `a`; got another `query_index`, in ascending order first 9 and not 3.",
        ),
        (
            ranked(1, 1, 2, None, identities=[0, 1, 5, 3]),
            "have the `query_identities` of `a`; got 5 and not 2 for query 2.",
        ),
        (replace(B, query_identities=None), "have `query_identities` if and only if `a` has; got them in one of both."),
        (ranked(1, None, 2, None), "have the `num_positives` of `a`; got 0 and not 1 for query 1."),
        (ranked(1, 1, 2, None, num_others=30), "have the `num_candidates` of `a`; got 33 and not 23 for query 0."),
        (
            replace(B, per_query=NO_VALUE),
            "have a value of 'map' for the same queries as `a`; got nan and not 0.5 for query 1.",
        ),
    ],
)
def test_other_queries_and_another_gallery_are_refused(other: RetrievalResults, message):
    assert said(A, other) == f"`b` must {message}"


def test_queries_of_other_cameras_are_refused():
    a = ranked(1, 2, cameras=True)
    b = replace(a, query_cameras=torch.tensor([0, 4]))
    assert said(a, b) == "`b` must have the `query_cameras` of `a`; got 4 and not 0 for query 1."


def test_a_number_in_common_is_needed():
    a, b = ranked(1, reports=("map", "minp")), ranked(1, reports=("rank_3",))
    assert said(a, b) == "`b` must report one of the numbers of `a`, 'map', 'minp'; got 'rank_3'."


def test_identities_are_needed_where_they_are_drawn():
    listed = evaluate_scores(torch.rand(2, 3), ground_truth=[{"ok": torch.tensor([0])}] * 2)
    assert compared(listed, listed).differences["map"].p_value == 1
    message = "`per_identity` must come with results that know identities; got others."
    assert said(listed, listed, per_identity=True) == message
