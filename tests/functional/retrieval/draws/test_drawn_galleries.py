# ruff: noqa: E501 - a message stays on one line, to be searched for
"""Expectations over drawn galleries: equal to the mean of all possible draws, and to what sampling estimates."""

import math
import re
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reid_torchmetrics.functional.retrieval.draws import dense_counting, expected_draws, identities_ahead
from reid_torchmetrics.functional.retrieval.draws.drawn_galleries import DrawnResults, expect_draws
from reid_torchmetrics.functional.retrieval.draws.hypergeometric import Hypergeometric
from reid_torchmetrics.functional.retrieval.draws.poisson_binomial import at_most, largest_mean, panels
from reid_torchmetrics.functional.retrieval.draws.sampled_galleries import sample_draws
from reid_torchmetrics.functional.retrieval.draws.strata import DRAWN_PER, GalleryDraw
from reid_torchmetrics.functional.retrieval.measures.average_precision import average_precision
from reid_torchmetrics.functional.retrieval.measures.first_and_last import inverse_negative_penalty
from reid_torchmetrics.functional.retrieval.ranking.ranks import count_ranks
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_listed_relevance, find_relevance
from reid_torchmetrics.functional.retrieval.scores.scores import given_scores
from tests.reference import draws as reference
from tests.strategies import Problem, problems

TIES = ("pessimistic", "optimistic", "stable")
MAX_RANK = 4
TINY = 64  # bytes: one query and one positive at a time
PLANS = st.builds(GalleryDraw, st.sampled_from([1, 2, None]), st.sampled_from(list(DRAWN_PER)))


def prepare(problem: Problem, *, max_bytes: int = 10**6, **rules):
    options = {name: value for name, value in problem.options.items() if name != "ties"}
    relevance = find_relevance(*problem.labels, **(options | rules))
    return given_scores(problem.scores, relevance, max_bytes=max_bytes), relevance


def expect(problem: Problem, draw: GalleryDraw, **options) -> DrawnResults:
    bound = {name: options.pop(name) for name in ("max_bytes", "camera_map") if name in options}
    return expect_draws(*prepare(problem, **bound), draw, **({"ties": problem.ties, "max_rank": MAX_RANK} | options))


def strata_of(problem: Problem, draw: GalleryDraw) -> list[object]:
    identities = problem.gallery_identities.tolist()
    if draw.per == "identity":
        return identities
    return list(zip(identities, problem.gallery_cameras.tolist(), strict=True))


def enumerated(problem: Problem, draw: GalleryDraw, camera_map=None) -> list[reference.Expected | None]:
    cameras = [
        None if labels is None else labels.tolist() for labels in (problem.query_cameras, problem.gallery_cameras)
    ]
    if camera_map:
        cameras = [[camera_map.get(camera, camera) for camera in side] for side in cameras]
    found = []
    for q, scores in enumerate(problem.scores.tolist()):
        items = reference.find_items(
            scores,
            (int(problem.query_identities[q]), cameras[0] and cameras[0][q]),
            problem.gallery_identities.tolist(),
            cameras[1],
            same_camera=problem.same_camera,
            junk_identities=problem.junk_identities,
            self_position=-1 if problem.self_index is None else int(problem.self_index[q]),
        )
        strata = strata_of(problem, draw)
        found.append(reference.expected_draw(items, strata, shots=draw.shots, ties=problem.ties, max_rank=MAX_RANK))
    return found


def table(results: DrawnResults) -> Tensor:
    return torch.cat(
        [results.cmc, results.average_precision[:, None], results.inverse_negative_penalty[:, None]], dim=1
    )


def as_table(values: list[reference.Expected | None]) -> Tensor:
    rows = [
        [math.nan] * (MAX_RANK + 2) if value is None else [*map(float, value.cmc), *map(float, value[1:])]
        for value in values
    ]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(rows), MAX_RANK + 2)


def assert_same(found: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance, equal_nan=True)


def with_cameras(problem: Problem, draw: GalleryDraw) -> GalleryDraw:
    """Draw per identity where the problem has no cameras."""
    return draw if problem.gallery_cameras is not None else GalleryDraw(draw.shots)


@settings(max_examples=150)
@given(problems(max_gallery=9), PLANS)
def test_expectations_are_means_over_all_draws(problem, draw):
    draw = with_cameras(problem, draw)
    assert_same(table(expect(problem, draw)), as_table(enumerated(problem, draw)))


@settings(max_examples=60)
@given(problems(max_gallery=9), st.sampled_from([1, 2]))
def test_cameras_that_look_at_the_same_place_are_dropped_before_the_draw(problem, shots):
    draw = with_cameras(problem, GalleryDraw(shots, "identity_and_camera"))
    camera_map = {2: 1} if problem.gallery_cameras is not None else None
    found = expect(problem, draw, camera_map=camera_map)
    assert_same(table(found), as_table(enumerated(problem, draw, camera_map)))


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=6), st.sampled_from([1, 2]), st.sampled_from(TIES), st.data())
def test_queries_are_weighted_by_their_chance_not_to_be_drawn(identities, shots, ties, data):
    if max(identities.count(identity) for identity in identities) <= shots:
        identities = [0, 0, 0, *identities]
    size = len(identities)
    scores = torch.tensor([[data.draw(st.integers(0, 3)) for _ in identities] for _ in identities]).double()
    labels = torch.tensor(identities)
    relevance = find_relevance(labels, labels, self_index=torch.arange(size))
    found = expect_draws(
        given_scores(scores, relevance), relevance, GalleryDraw(shots), ties=ties, max_rank=3, queries_in_draw=True
    )
    expected = reference.mean_of_drawn_queries(scores.tolist(), identities, shots=shots, ties=ties, max_rank=3)
    assert_same(found.mean_cmc, torch.tensor([float(value) for value in expected.cmc], dtype=torch.float64))
    assert float(found.mean_average_precision) == pytest.approx(float(expected.average_precision), abs=1e-12)
    penalty = float(expected.inverse_negative_penalty)
    assert float(found.mean_inverse_negative_penalty) == pytest.approx(penalty, abs=1e-12)


@settings(max_examples=60)
@given(problems(), PLANS)
def test_the_cmc_alone_is_the_same(problem, draw):
    draw = with_cameras(problem, draw)
    found = expect(problem, draw, with_precision=False)
    assert found.average_precision.isnan().all()
    assert found.inverse_negative_penalty.isnan().all()
    assert_same(found.cmc, expect(problem, draw).cmc)


@settings(max_examples=60)
@given(problems())
def test_a_draw_of_everything_is_the_whole_ranked_list(problem):
    found = expect(problem, GalleryDraw(None))
    ranks = count_ranks(*prepare(problem), ties=problem.ties)
    assert_same(found.average_precision, average_precision(ranks))
    assert_same(found.inverse_negative_penalty, inverse_negative_penalty(ranks))
    assert found.num_positives.tolist() == ranks.num_positives.tolist()


@settings(max_examples=60)
@given(problems(), PLANS, st.sampled_from([1, TINY, 1000]))
def test_the_memory_bound_changes_nothing(problem, draw, max_bytes):
    draw = with_cameras(problem, draw)
    with mock.patch.object(expected_draws, "_CELLS", 16):
        found = expect(problem, draw, max_bytes=max_bytes)
    assert_same(table(found), table(expect(problem, draw)), 1e-14)


@settings(max_examples=60)
@given(problems(), PLANS)
def test_searching_for_the_positives_behind_an_item_changes_nothing(problem, draw):
    draw = with_cameras(problem, draw)
    with mock.patch.object(identities_ahead, "_FEW", 0):
        found = expect(problem, draw)
    assert torch.equal(table(found).nan_to_num(), table(expect(problem, draw)).nan_to_num())


@settings(max_examples=100)
@given(
    problems(ties=("pessimistic", "optimistic")), PLANS, st.sampled_from([-1.0, 2.0]), st.sampled_from([16, 1 << 20])
)
def test_however_the_items_ahead_are_counted_the_results_are_the_same(problem, draw, near, pairs):
    draw = with_cameras(problem, draw)
    with mock.patch.object(identities_ahead, "_SMALL", 0):
        expected = expect(problem, draw)
    shares = mock.patch.multiple(identities_ahead, _NEAR=near, _NEAR_ONE=near)
    with shares, mock.patch.object(dense_counting, "_PAIRS", pairs):
        found, cmc = expect(problem, draw), expect(problem, draw, with_precision=False).cmc
    assert_same(table(found), table(expected), 1e-14)
    assert_same(cmc, expected.cmc, 1e-14)


@pytest.mark.parametrize("shots", [1, 2, None])
@pytest.mark.parametrize("ties", ["pessimistic", "optimistic"])
def test_strata_of_many_sizes_are_counted_alike_by_comparing_and_by_searching(shots, ties):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40).repeat_interleave(torch.randint(1, 30, (40,), generator=generator))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    relevance = find_relevance(labels[:50], labels, self_index=torch.arange(50))
    scores = torch.randint(0, 60, (50, len(labels)), generator=generator) + 20.0 * (labels[:50, None] == labels)
    found = []
    for small, bins in ((0, 1 << 15), (255, 1 << 15), (255, 1)):
        with (
            mock.patch.object(identities_ahead, "_SMALL", small),
            mock.patch.object(dense_counting, "_MOST_BINS", bins),
        ):
            options = {"ties": ties, "max_rank": 20}
            found.append(expect_draws(given_scores(scores, relevance), relevance, GalleryDraw(shots), **options))
    for other in found[1:]:
        assert_same(table(other), table(found[0]), 1e-13)


@settings(max_examples=60)
@given(problems(ties=("pessimistic", "optimistic")), PLANS, st.randoms(use_true_random=False))
def test_the_order_of_queries_and_gallery_changes_nothing(problem, draw, random):
    draw = with_cameras(problem, draw)
    rows, columns = (torch.tensor(random.sample(range(size), size), dtype=torch.int64) for size in problem.scores.shape)
    found = expect(problem.with_gallery_order(columns).with_queries(rows), draw)
    assert_same(table(found), table(expect(problem, draw))[rows], 1e-14)


def line(scores: list[float], identities: list[int], *, query_identity: int = 1, **options):
    relevance = find_relevance(torch.tensor([query_identity]), torch.tensor(identities))
    return expect_draws(given_scores(torch.tensor([scores]).double(), relevance), relevance, **options)


def test_one_image_of_each_identity_by_hand():
    # One of two images of identity 2 is ahead, and the only image of identity 3 is behind: 1/2 at rank 1.
    found = line([4, 3, 2, 1], [2, 1, 3, 2], draw=GalleryDraw(1), max_rank=3)
    assert found.cmc.tolist() == [[0.5, 1, 1]]
    assert found.average_precision.tolist() == pytest.approx([(1 + 1 / 2) / 2])
    assert found.inverse_negative_penalty.tolist() == pytest.approx([3 / 4])


def test_two_positives_of_which_one_is_drawn_by_hand():
    # The better positive is first; the other has one of three images of identity 2 ahead.
    found = line([5, 4, 3, 2, 1], [1, 2, 1, 2, 2], draw=GalleryDraw(1), max_rank=2)
    assert found.cmc.tolist() == [pytest.approx([(1 + 2 / 3) / 2, 1])]


def test_two_of_three_images_are_drawn_by_hand():
    # Of the galleries {a, b}, {a, c} and {b, c} of identity 2 only the last has nothing ahead.
    found = line([5, 4, 3, 2], [2, 1, 2, 2], draw=GalleryDraw(2), max_rank=2)
    assert found.cmc.tolist() == [pytest.approx([1 / 3, 1])]
    assert found.average_precision.tolist() == pytest.approx([(1 / 2 + 1 / 2 + 1) / 3])


def test_identities_are_counted_once_and_the_cmc_ends_at_one():
    found = line([5, 4, 3, 2], [2, 2, 3, 1], draw=GalleryDraw(None), max_rank=5)
    assert found.cmc.tolist() == [[0, 0, 1, 1, 1]]
    assert found.average_precision.tolist() == pytest.approx([1 / 4])


def test_a_tie_is_decided_by_the_policy():
    first = {
        ties: line([1, 1, 1], [1, 2, 2], draw=GalleryDraw(1), max_rank=1, ties=ties).cmc.tolist()[0][0] for ties in TIES
    }
    assert first == {"pessimistic": 0, "optimistic": 1, "stable": 1}


def large(*, noise: float, per_identity: int = 4, identities: int = 300) -> tuple[Tensor, Tensor]:
    labels = torch.arange(identities).repeat_interleave(per_identity)
    scores = (labels[:40, None] == labels).double() + noise * torch.randn(40, len(labels), dtype=torch.float64)
    return scores, labels


def convolved(chances: np.ndarray) -> np.ndarray:
    law = np.ones(1)
    for chance in chances:
        law = np.append(law, 0) * (1 - chance) + np.append(0, law) * chance
    return law


@pytest.mark.parametrize("noise", [0.3, 1.0, 5.0])
def test_a_wide_gallery_agrees_with_plain_convolution(noise):
    scores, labels = large(noise=noise)
    relevance = find_relevance(labels[:40], labels, self_index=torch.arange(40))
    found = expect_draws(given_scores(scores, relevance), relevance, GalleryDraw(1), max_rank=50)
    for q in range(0, 40, 7):
        curve, precision = np.zeros(50), 0.0
        positives = [p for p in range(len(labels)) if labels[p] == labels[q] and p != q]
        for p in positives:
            ahead = (scores[q] >= scores[q, p]) & (labels != labels[q])
            law = convolved(np.bincount(labels[ahead].numpy(), minlength=300) / 4)
            curve += law[:50].cumsum() / len(positives)
            precision += (law / np.arange(1, len(law) + 1)).sum() / len(positives)
        assert np.abs(found.cmc[q].numpy() - curve).max() < 1e-12
        assert abs(float(found.average_precision[q]) - precision) < 1e-12


@pytest.mark.parametrize("draw", [GalleryDraw(1), GalleryDraw(3, "identity_and_camera"), GalleryDraw(None)])
def test_positives_that_are_left_out_add_nothing(draw):
    scores, labels = large(noise=1.0)
    relevance = find_relevance(labels[:40], labels, torch.zeros(40).long(), torch.arange(1200) % 3)
    found = expect_draws(given_scores(scores, relevance), relevance, draw, max_rank=5, with_precision=False).cmc
    with mock.patch.object(expected_draws, "largest_mean", return_value=math.inf):
        everything = expect_draws(given_scores(scores, relevance), relevance, draw, max_rank=5).cmc
    assert_same(found, everything, 1e-15)


@given(st.lists(st.floats(0, 1), max_size=30), st.integers(0, 40), st.integers(1, 6))
def test_integrals_and_tails_of_sums_of_events_are_exact(chances, repeats, size):
    chances = np.array(chances * repeats)
    law = convolved(chances)
    tails = np.append(law, np.zeros(size))[:size].cumsum()
    found = at_most(torch.from_numpy(chances), torch.tensor([len(chances)]), size)
    assert np.abs(found[0].numpy() - tails).max() < 1e-12
    nodes, weights = panels(0.0, chances.sum())
    integral = (weights * np.prod(1 - chances[:, None] * nodes, axis=0)).sum()
    assert abs(integral - (law / np.arange(1, len(law) + 1)).sum()) < 1e-13


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=30), st.integers(1, 40), st.floats(0, 1))
def test_panels_that_are_left_out_add_nothing(chances, repeats, share):
    chances = np.array(chances * repeats)
    (nodes, weights), (fewer, their_weights) = panels(0.0, chances.sum()), panels(share * chances.sum(), chances.sum())
    integrals = [
        (of * np.prod(1 - chances[:, None] * at, axis=0)).sum() for at, of in ((nodes, weights), (fewer, their_weights))
    ]
    assert len(fewer) <= len(nodes)
    assert integrals[1] == pytest.approx(integrals[0], rel=0, abs=1e-16)


@pytest.mark.parametrize("count", [0, 1, 9, 49])
def test_a_larger_mean_makes_a_small_sum_negligible(count):
    # 2000 equal chances: of all laws with this mean nearly the one with the heaviest lower tail, that of Poisson.
    tail = at_most(torch.full((2000,), largest_mean(count) / 2000), torch.tensor([2000]), count + 1)[0, -1]
    assert 1e-21 < float(tail) < 1e-17
    assert largest_mean(count) < largest_mean(count + 1)


@given(st.integers(1, 80), st.data())
def test_the_law_of_drawn_items_is_hypergeometric(available, data):
    marked, drawn = data.draw(st.integers(0, available)), data.draw(st.integers(0, available))
    counts = range(min(marked, drawn) + 1)
    ways = [math.comb(marked, t) * math.comb(available - marked, drawn - t) for t in counts]
    law = Hypergeometric(*(torch.tensor([number]) for number in (available, marked, drawn)))
    x = torch.tensor([1e-3, 0.5, 1 - 1e-9], dtype=torch.float64)
    total = math.comb(available, drawn)
    expected = [sum(way * value**t for t, way in enumerate(ways)) / total for value in x.tolist()]
    slopes = [sum(t * way * value**t for t, way in enumerate(ways)) / total for value in x.tolist()]
    assert float(law.none()) == pytest.approx(ways[0] / total, abs=1e-13)
    assert law.at(x.log())[0][0].tolist() == pytest.approx(expected, abs=1e-13)
    assert law.at(x.log())[1][0].tolist() == pytest.approx(slopes, abs=1e-12)
    assert law.log_at(x.log())[0].exp().tolist() == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("draw", [GalleryDraw(1), GalleryDraw(2, "identity_and_camera")])
def test_sampling_estimates_the_expectation(draw, shared):
    scores, labels = large(noise=0.6, identities=12)
    scores, cameras = scores[:12], torch.arange(48) // 2 % 3
    relevance = find_relevance(labels[:12], labels, cameras[:12], cameras, same_camera="all")
    scores = given_scores(scores, relevance)
    generator = torch.Generator().manual_seed(1)
    sampled = sample_draws(scores, relevance, draw, generator=generator, repeats=600, shared=shared, max_rank=3)
    expected = expect_draws(scores, relevance, draw, max_rank=3)
    means = expected.mean_cmc, expected.mean_average_precision, expected.mean_inverse_negative_penalty
    for values, mean in zip(
        (sampled.cmc, sampled.average_precision, sampled.inverse_negative_penalty), means, strict=True
    ):
        error = (values.mean(0) - mean).abs()
        assert bool((error <= 4.5 * values.std(0) / math.sqrt(600) + 1e-12).all())


def test_sampling_leaves_drawn_queries_out():
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    scores = torch.randn(6, 6, dtype=torch.float64)
    relevance = find_relevance(labels, labels, self_index=torch.arange(6))
    scores, draw = given_scores(scores, relevance), GalleryDraw(1)
    generator = torch.Generator().manual_seed(1)
    options = {"max_rank": 2, "queries_in_draw": True}
    sampled = sample_draws(scores, relevance, draw, generator=generator, repeats=1500, shared=True, **options)
    expected = expect_draws(scores, relevance, draw, **options)
    assert expected.weight.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1 / 2, 1 / 2, 0])
    error = (sampled.cmc.mean(0) - expected.mean_cmc).abs()
    assert bool((error <= 4.5 * sampled.cmc.std(0) / math.sqrt(1500) + 1e-12).all())


@settings(max_examples=60)
@given(problems(max_gallery=12), st.booleans(), st.sampled_from(["identity", "identity_and_camera"]))
def test_sampling_everything_is_exact(problem, shared, per):
    draw = with_cameras(problem, GalleryDraw(None, per))
    sampled = sample_draws(
        *prepare(problem, max_bytes=1),
        draw,
        generator=torch.Generator(),
        repeats=2,
        shared=shared,
        ties=problem.ties,
        max_rank=MAX_RANK,
    )
    expected = expect(problem, draw)
    assert_same(sampled.cmc, expected.mean_cmc.expand(2, -1))
    assert_same(sampled.average_precision, expected.mean_average_precision.expand(2))
    assert_same(sampled.inverse_negative_penalty, expected.mean_inverse_negative_penalty.expand(2))


@settings(max_examples=60)
@given(problems(max_gallery=12), st.booleans(), st.integers(0, 99))
def test_samples_depend_on_the_generator_alone(problem, shared, seed):
    found = [
        sample_draws(
            *prepare(problem, max_bytes=max_bytes),
            GalleryDraw(1),
            generator=torch.Generator().manual_seed(seed),
            shared=shared,
        ).cmc
        for max_bytes in (1, 10**6)
    ]
    assert_same(*found)


def test_nothing_to_draw_from_is_nan_and_no_error():
    none, one = torch.empty(0, dtype=torch.int64), torch.tensor([1])
    for queries, gallery in ((none, one), (one, none), (none, none), (one, one + 1)):
        relevance = find_relevance(queries, gallery)
        scores = given_scores(torch.zeros(len(queries), len(gallery)), relevance)
        found = expect_draws(scores, relevance, GalleryDraw(1), max_rank=3)
        assert found.cmc.shape == (len(queries), 3)
        assert bool(found.cmc.isnan().all())
        assert bool(found.mean_cmc.isnan().all())
        assert bool(found.mean_average_precision.isnan())
        sampled = sample_draws(scores, relevance, GalleryDraw(1), generator=torch.Generator(), max_rank=3)
        assert sampled.cmc.shape == (10, 3)
        assert bool(sampled.cmc.isnan().all())


ID = torch.tensor([1, 2])
BY_IDENTITY, LISTED = find_relevance(ID, ID), find_listed_relevance([ID[:1], ID[:1]], num_gallery=2)
SCORES, DRAW = given_scores(torch.eye(2), BY_IDENTITY), GalleryDraw(1)
NAN_SCORES = given_scores(torch.eye(2) * math.nan, BY_IDENTITY)

MESSAGES = [
    (lambda: GalleryDraw(0), ValueError, "`shots` must be at least 1; got 0."),
    (lambda: GalleryDraw(1.0), TypeError, "`shots` must be an int; got float."),
    (lambda: GalleryDraw(1, "camera"), ValueError, "`per` must be one of 'identity', 'identity_and_camera'; got 'camera'."),
    (lambda: expect_draws(SCORES, BY_IDENTITY, DRAW, ties="grouped"), ValueError, "`ties` must be one of 'pessimistic', 'optimistic', 'stable'; got 'grouped'."),
    (lambda: expect_draws(SCORES, BY_IDENTITY, DRAW, max_rank=0), ValueError, "`max_rank` must be at least 1; got 0."),
    (lambda: expect_draws(SCORES, LISTED, DRAW), ValueError, "`relevance` must come from identities, of which galleries are drawn; got lists of positives."),
    (lambda: expect_draws(SCORES, BY_IDENTITY, GalleryDraw(1, "identity_and_camera")), ValueError, "`relevance` must know cameras where `per` is 'identity_and_camera'; got none."),
    (lambda: expect_draws(SCORES, BY_IDENTITY, DRAW, queries_in_draw=True), ValueError, "`queries_in_draw` must come with every query's own place in the gallery, that is leave-one-out or `self_index`; got 2 queries without."),
    (lambda: sample_draws(SCORES, BY_IDENTITY, DRAW, generator=torch.Generator(), queries_in_draw=True), ValueError, "`queries_in_draw` must come with every query's own place in the gallery, that is leave-one-out or `self_index`; got 2 queries without."),
    (lambda: sample_draws(SCORES, BY_IDENTITY, DRAW, generator=torch.Generator(), repeats=0), ValueError, "`repeats` must be at least 1; got 0."),
    (lambda: expect_draws(NAN_SCORES, BY_IDENTITY, DRAW), ValueError, "`scores` must give scores that can be ordered; got NaN."),
    (lambda: sample_draws(NAN_SCORES, BY_IDENTITY, DRAW, generator=torch.Generator()), ValueError, "`scores` must give scores that can be ordered; got NaN."),
]  # fmt: skip


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("call", "error", "message"), MESSAGES)
def test_an_error_names_the_argument_the_rule_and_what_came(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
