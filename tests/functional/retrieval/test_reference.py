"""The slow reference against arithmetic that a reader can check by hand."""

import numpy as np
import pytest

from tests.golden.cases import PROBLEMS, RECORDS
from tests.reference.retrieval import average_precision, candidates, evaluate, inverse_negative_penalty, positive_ranks


def hits_at(*ranks: int) -> list[bool]:
    """Build the ranked list that ends with the last positive."""
    return [rank in ranks for rank in range(1, max(ranks) + 1)]


@pytest.mark.parametrize(
    ("ranks", "precision", "penalty"),
    [
        ((1, 2, 10), (1 / 1 + 2 / 2 + 3 / 10) / 3, 3 / 10),
        ((1, 4, 5), (1 / 1 + 2 / 4 + 3 / 5) / 3, 3 / 5),
        ((4,), 1 / 4, 1 / 4),
        ((1, 2, 3), 1.0, 1.0),
    ],
)
def test_rectangle_precision_and_penalty_are_the_textbook_sums(
    ranks: tuple[int, ...], precision: float, penalty: float
) -> None:
    assert average_precision(hits_at(*ranks)) == pytest.approx(precision, abs=1e-15)
    assert inverse_negative_penalty(hits_at(*ranks)) == pytest.approx(penalty, abs=1e-15)


@pytest.mark.parametrize(
    ("ranks", "precision"),
    [
        ((1,), 1.0),
        ((2,), (0 / 1 + 1 / 2) / 2),
        ((1, 4), ((1 + 1 / 1) / 2 + (1 / 3 + 2 / 4) / 2) / 2),
        ((1, 3, 5), 0.7111111111111111),
    ],
)
def test_trapezoid_precision_averages_with_the_precision_one_rank_before(
    ranks: tuple[int, ...], precision: float
) -> None:
    assert average_precision(hits_at(*ranks), "trapezoid") == pytest.approx(precision, abs=1e-15)


@pytest.mark.parametrize(
    ("ranks", "num_positives", "trapezoid", "rectangle"),
    [
        ((1, 4, 5), 5, 59 / 150, 0.42),
        ((2, 3, 4), 4, 37 / 96, 23 / 48),
        ((1, 3, 4), 4, 55 / 96, 29 / 48),
        ((2, 3, 4), 5, 37 / 120, 23 / 60),
    ],
)
def test_positives_that_a_short_list_misses_count_in_the_divisor(
    ranks: tuple[int, ...], num_positives: int, trapezoid: float, rectangle: float
) -> None:
    hits = hits_at(*ranks)
    assert average_precision(hits, "trapezoid", num_positives) == pytest.approx(trapezoid, abs=1e-15)
    assert average_precision(hits, "rectangle", num_positives) == pytest.approx(rectangle, abs=1e-15)


IDENTITIES = [7, 7, 0, -1, 5, 7]
CAMERAS = [1, 2, 1, 2, 1, 2]


@pytest.mark.parametrize(
    ("options", "positive", "negative", "junk"),
    [
        ({}, [1, 5], [2, 4], [0, 3]),
        ({"same_camera": "all"}, [1, 5], [], [0, 2, 3, 4]),
        ({"same_camera": "keep"}, [0, 1, 5], [2, 4], [3]),
        ({"junk_identities": ()}, [1, 5], [2, 3, 4], [0]),
        ({"junk_identities": (0, 7)}, [], [3, 4], [0, 1, 2, 5]),
        ({"self_position": 5}, [1], [2, 4], [0, 3, 5]),
    ],
)
def test_each_rule_makes_junk_of_its_items_only(
    options: dict, positive: list[int], negative: list[int], junk: list[int]
) -> None:
    found = candidates(7, IDENTITIES, 1, CAMERAS, **options)
    assert (found.positive, found.negative, found.junk) == (positive, negative, junk)


@pytest.mark.parametrize(("ties", "ranks"), [("pessimistic", [4, 5]), ("optimistic", [2, 3]), ("stable", [3, 5])])
def test_a_tie_goes_to_the_side_that_the_policy_names(ties: str, ranks: list[int]) -> None:
    scores = [0.5, 0.5, 0.5, 0.9, 0.5]  # position 3 leads, the other four are equal
    assert positive_ranks(scores, positive=[1, 4], negative=[0, 2, 3], ties=ties) == ranks


@pytest.mark.parametrize("name", ["a03_4q9g", "a07_60q500g_lack", "a12_50q200g_hard"])
def test_the_reference_reproduces_recorded_evaluators(name: str) -> None:
    problem = PROBLEMS[name]
    result = evaluate(
        -problem.distances,
        problem.query_identities,
        problem.gallery_identities,
        problem.query_cameras,
        problem.gallery_cameras,
    )
    trapezoid = RECORDS[f"{name}/revisitop/AP_per_query"].value
    first = RECORDS[f"{name}/layumi/first_hit_rank0"].value + 1
    assert result.average_precision["trapezoid"] == pytest.approx(trapezoid, abs=1e-12, nan_ok=True)
    assert np.nan_to_num(result.first_rank).tolist() == first.tolist()
