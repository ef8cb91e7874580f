"""Ranks on a device: those of the CPU for every similarity, tie policy and way to cut the problem."""

from functools import partial

import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    GalleryDraw,
    evaluate,
    evaluate_scores,
    find_relevance,
    rank_positives,
    rank_positives_from_scores,
    score_embeddings,
    scores_from_matrix,
)
from reid_torchmetrics.functional.retrieval.ranking import count_ranks, nearest
from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES
from reid_torchmetrics.tasks import verify
from reid_torchmetrics.tasks.draws import expect_draws
from tests.device.problems import assert_as_on_the_cpu, moved, problem


def test_given_scores_in_half_precision_are_ranked_there(device):
    query, gallery, *labels = problem(whole=True)
    scores = (query @ gallery.T).half()
    assert_as_on_the_cpu(device, lambda where: rank_positives_from_scores(*moved([scores, *labels], where)))


@pytest.mark.parametrize("similarity", [name for name in SIMILARITIES if name != "hamming"])
def test_embeddings_whose_squares_overflow_are_ranked_there(device, similarity):
    given = problem()
    given[:2] = [values.float() * (1e25 if similarity != "euclidean" else 1e20) for values in given[:2]]
    assert_as_on_the_cpu(device, lambda where: rank_positives(*moved(given, where), similarity=similarity))


def test_labels_that_users_name_are_compared_there(device):
    query, gallery, *labels = problem()

    def ranks(where):
        extra = {}
        for side, rows in (("query_labels", query), ("gallery_labels", gallery)):
            places = torch.arange(len(rows))
            extra[side] = {"side": moved(places % 2, where), "batch": (places % 3).tolist(), "plate": places % 5}
            extra[side]["plate"] = moved(extra[side]["plate"], where)
        rules = {"must_agree": ("side",), "must_differ": ("batch", "plate")}
        relevance = find_relevance(*moved(labels, where), **extra, **rules)
        return count_ranks(
            score_embeddings(moved(query, where), moved(gallery, where), relevance), relevance, ties="grouped"
        )

    assert_as_on_the_cpu(device, ranks)


@pytest.mark.parametrize("role", ["query", "identities", "cameras"])
def test_a_tensor_that_is_elsewhere_is_named(full_device, role):
    device, given = full_device, moved(problem(), full_device)
    place = ["query", "", "identities", "", "cameras"].index(role)
    given[place] = given[place].cpu()
    with pytest.raises(ValueError, match=f"{role}` .*must be on the .*{device}"):
        rank_positives(*given)


def test_labels_that_are_elsewhere_are_named(full_device):
    device = full_device
    query, gallery, *labels = problem()
    sides, scores = moved([query, gallery], device), moved(query @ gallery.T, device)
    relevance = find_relevance(*labels)
    refused = {
        "`gallery` and `relevance`": lambda: score_embeddings(*sides, relevance),
        "`scores` and `relevance`": lambda: scores_from_matrix(scores, relevance),
        "`query` and `query_identities`": lambda: evaluate(*sides, *labels),
        "`scores` and `query_identities`": lambda: evaluate_scores(scores, *labels),
    }
    for names, work in refused.items():
        with pytest.raises(ValueError, match=rf"{names} must be on the same device; got {device}:0 and cpu."):
            work()
    kept_all = find_relevance(*labels, junk_identities=(-2,))
    scores_there = scores_from_matrix(scores, find_relevance(*moved(labels, device), junk_identities=(-2,)))
    for work in (count_ranks, verify, partial(nearest, k=3), partial(expect_draws, draw=GalleryDraw(1))):
        options = {"ties": "stable"} if work is count_ranks else {}
        with pytest.raises(ValueError, match=rf"`scores` and `relevance` must be on the same device; got {device}:0"):
            work(scores_there, kept_all, **options)


def test_relevance_moves(device):
    query, gallery, *labels = problem(whole=True)
    scores, options = query @ gallery.T, {"same_camera": "all", "self_index": torch.full((10,), -1)}

    def ranks(where):
        relevance = find_relevance(*labels, **options).to(where)
        return [relevance, count_ranks(scores_from_matrix(moved(scores, where), relevance), relevance, ties="stable")]

    assert_as_on_the_cpu(device, ranks)
