"""Expectations over drawn galleries: equal to the mean of all possible draws, and to what sampling estimates."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw
from reid_torchmetrics.functional.retrieval.measures.average_precision import average_precision
from reid_torchmetrics.functional.retrieval.measures.cutoffs import inverse_negative_penalty
from reid_torchmetrics.functional.retrieval.ranking.ranks import count_ranks
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_relevance
from reid_torchmetrics.functional.retrieval.scores.scores import scores_from_matrix
from reid_torchmetrics.tasks.draws.drawn_galleries import expect_draws
from tests.paths import taking
from tests.profiles import examples
from tests.reference import draws as reference
from tests.strategies import TIES, problems
from tests.tasks.draws.drawn_problems import (
    MAX_RANK,
    PLANS,
    TINY,
    as_table,
    assert_same,
    enumerated,
    expect,
    line,
    prepare,
    table,
    with_cameras,
)

WAYS = [
    {},
    {"drawn_cells": 16, "counted_cells": 16},
    {"few_positives": 0},
    {"small_strata": 0},
    *({"near_items": near, "near_item": near, "compared_pairs": 16} for near in (-1.0, 2.0)),
    {"near_items": -1.0, "near_item": -1.0},
]
"""settings that decide how the items ahead are searched for and counted"""


@examples(160)
@given(problems(max_gallery=9), PLANS, st.sampled_from(WAYS), st.sampled_from([10**6, TINY, 1000, 2000]))
def test_expectations_are_means_over_all_draws_however_items_are_counted(problem, draw, way, max_bytes):
    draw = with_cameras(problem, draw)
    expected = as_table(enumerated(problem, draw))
    with taking(**way):
        assert_same(table(expect(problem, draw, max_bytes=max_bytes)), expected)
        curve_alone = expect(problem, draw, max_bytes=max_bytes, with_precision=False)
    assert_same(curve_alone.cmc, expected[:, :MAX_RANK])
    assert curve_alone.average_precision.isnan().all()
    assert curve_alone.inverse_negative_penalty.isnan().all()


@examples(20)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=6), st.sampled_from([1, 2]), st.sampled_from(TIES), st.data())
def test_queries_are_weighted_by_their_chance_not_to_be_drawn(identities, shots, ties, data):
    if max(identities.count(identity) for identity in identities) <= shots:
        identities = [0, 0, 0, *identities]
    size = len(identities)
    scores = torch.tensor([[data.draw(st.integers(0, 3)) for _ in identities] for _ in identities]).double()
    labels = torch.tensor(identities)
    relevance = find_relevance(labels, labels, self_index=torch.arange(size))
    found = expect_draws(
        scores_from_matrix(scores, relevance),
        relevance,
        GalleryDraw(shots),
        ties=ties,
        max_rank=3,
        queries_in_draw=True,
    )
    expected = reference.mean_of_drawn_queries(scores.tolist(), identities, shots=shots, ties=ties, max_rank=3)
    assert_same(found.mean_cmc, torch.tensor([float(value) for value in expected.cmc], dtype=torch.float64))
    assert float(found.mean_average_precision) == pytest.approx(float(expected.average_precision), abs=1e-12)
    penalty = float(expected.inverse_negative_penalty)
    assert float(found.mean_inverse_negative_penalty) == pytest.approx(penalty, abs=1e-12)


def test_dropped_items_do_not_tie_with_a_positive_that_scores_minus_infinity():
    cameras = torch.tensor([0]), torch.tensor([1, 0, 0, 1])
    relevance = find_relevance(torch.tensor([0]), torch.tensor([0, 1, 1, 2]), *cameras, same_camera="all")
    scores = scores_from_matrix(torch.tensor([[-torch.inf, 0.9, 0.9, 0.5]]), relevance)
    found = expect_draws(scores, relevance, GalleryDraw(1))
    assert float(found.average_precision) == pytest.approx(1 / 2)  # behind the item of identity 2 alone


def test_a_query_that_is_not_in_the_gallery_is_never_drawn():
    labels = torch.tensor([0, 0, 1])
    relevance = find_relevance(labels, labels, self_index=torch.tensor([0, -1, 2]))
    scores = scores_from_matrix(torch.ones(3, 3), relevance)
    found = expect_draws(scores, relevance, GalleryDraw(1), queries_in_draw=True)
    assert found.weight.tolist() == [1 / 2, 1, 0]  # one of two items is drawn, none that is not there, one of one


@examples(30)
@given(problems())
def test_a_draw_of_everything_is_the_whole_ranked_list(problem):
    found = expect(problem, GalleryDraw(None))
    ranks = count_ranks(*prepare(problem), ties=problem.ties)
    assert_same(found.average_precision, average_precision(ranks))
    assert_same(found.inverse_negative_penalty, inverse_negative_penalty(ranks))
    assert found.num_positives.tolist() == ranks.num_positives.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("shots", "ties"), [(1, "pessimistic"), (2, "optimistic"), (None, "pessimistic")])
def test_strata_of_many_sizes_are_counted_alike_by_comparing_and_by_searching(shots, ties):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40).repeat_interleave(torch.randint(1, 30, (40,), generator=generator))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    relevance = find_relevance(labels[:50], labels, self_index=torch.arange(50))
    scores = torch.randint(0, 60, (50, len(labels)), generator=generator) + 20.0 * (labels[:50, None] == labels)
    found = []
    for small, bins in ((0, 1 << 15), (255, 1 << 15), (255, 1)):
        with taking(small_strata=small, most_bins=bins):
            options = {"ties": ties, "max_rank": 20}
            found.append(expect_draws(scores_from_matrix(scores, relevance), relevance, GalleryDraw(shots), **options))
    for other in found[1:]:
        assert_same(table(other), table(found[0]), 1e-13)


def test_one_image_of_each_identity_by_hand():
    # One of two images of identity 2 is ahead, and the only image of identity 3 is behind: 1/2 at rank 1.
    found = line([4, 3, 2, 1], [2, 1, 3, 2], draw=GalleryDraw(1), max_rank=3)
    assert found.cmc.tolist() == [[0.5, 1, 1]]
    assert found.average_precision.tolist() == pytest.approx([(1 + 1 / 2) / 2])
    assert found.inverse_negative_penalty.tolist() == pytest.approx([3 / 4])


def test_nothing_to_draw_from_is_nan_and_no_error():
    none, one = torch.empty(0, dtype=torch.int64), torch.tensor([1])
    for queries, gallery in ((none, one), (one, none), (none, none), (one, one + 1)):
        relevance = find_relevance(queries, gallery)
        scores = scores_from_matrix(torch.zeros(len(queries), len(gallery)), relevance)
        found = expect_draws(scores, relevance, GalleryDraw(1), max_rank=3)
        assert found.cmc.shape == (len(queries), 3)
        assert bool(found.cmc.isnan().all())
        assert bool(found.mean_cmc.isnan().all())
        assert bool(found.mean_average_precision.isnan())
