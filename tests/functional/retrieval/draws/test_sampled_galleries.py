"""Galleries that are drawn: their means estimate the expectation, and depend on the generator alone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.draws.drawn_galleries import expect_draws
from reid_torchmetrics.functional.retrieval.draws.sampled_galleries import sample_draws
from reid_torchmetrics.functional.retrieval.draws.strata import GalleryDraw
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_relevance
from reid_torchmetrics.functional.retrieval.scores.scores import given_scores
from tests.functional.retrieval.draws.drawn_problems import MAX_RANK, assert_same, expect, large, prepare, with_cameras
from tests.strategies import problems


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
