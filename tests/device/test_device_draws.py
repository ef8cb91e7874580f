"""Drawn galleries and verification on a device: the values of the CPU."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import GalleryDraw, find_relevance, score_embeddings, scores_from_matrix
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.tasks import find_duplicates, fnmr_at_fmr, index_recall, score_histogram, verify
from reid_torchmetrics.tasks.draws import expect_draws
from tests.device.problems import assert_as_on_the_cpu, moved, problem

DRAWS = [GalleryDraw(1), GalleryDraw(2, "identity_and_camera"), GalleryDraw(None)]
DRAWN_TIES = [name for name, policy in TIE_POLICIES.items() if not policy.groups]


def prepared(where: str, *, similarity: str = "dot", max_bytes: int = 10**6, **options: object) -> tuple:
    query, gallery, *labels = moved(problem(whole=True), where)
    relevance = find_relevance(*labels, **options)
    return score_embeddings(query, gallery, relevance, similarity=similarity, max_bytes=max_bytes), relevance


def leave_one_out(where: str) -> tuple:
    _, gallery, _, identities, *_ = moved(problem(whole=True), where)
    relevance = find_relevance(identities, identities, self_index=torch.arange(60, device=where))
    return score_embeddings(gallery, gallery, relevance, similarity="dot"), relevance


@pytest.mark.parametrize("draw", DRAWS, ids=repr)
@pytest.mark.parametrize("ties", DRAWN_TIES)
def test_expectations_are_those_of_the_cpu(device, deterministic, ties, draw):
    assert_as_on_the_cpu(device, lambda where: expect_draws(*prepared(where), draw, ties=ties, max_rank=3))


def test_expectations_in_small_tiles_are_those_of_the_cpu(device, deterministic):
    def drawn(where):
        return expect_draws(*prepared(where, max_bytes=5 * 10**4), DRAWS[1], ties="stable", max_rank=3)

    assert_as_on_the_cpu(device, drawn)


@pytest.mark.parametrize("with_precision", [True, False])
def test_camera_rules_and_queries_in_the_draw_give_the_expectations_of_the_cpu(device, deterministic, with_precision):
    def drawn(where):
        options = {"max_rank": 2, "with_precision": with_precision}
        cameras = expect_draws(*prepared(where, same_camera="all"), GalleryDraw(1), **options)
        own = expect_draws(*leave_one_out(where), GalleryDraw(1), queries_in_draw=True, **options)
        return [cameras, own, cameras.mean_cmc, own.mean_average_precision, own.mean_inverse_negative_penalty]

    assert_as_on_the_cpu(device, drawn)


def test_verification_without_impostors_is_not_defined_there(device):
    def verified(where):
        labels = torch.zeros(4, dtype=torch.int64, device=where)
        given = find_relevance(labels, labels)
        scores = scores_from_matrix(moved(torch.rand(4, 4, dtype=torch.float64), where), given)
        found = verify(scores, given)
        return [found.equal_error_rate(), found.tar_at_far([0.1]), fnmr_at_fmr(scores, given, [0.1]).rates]

    assert_as_on_the_cpu(device, verified)


@pytest.mark.parametrize("max_bytes", [10**6, 5 * 10**4])
@pytest.mark.parametrize("similarity", ["dot", "euclidean"])
def test_verification_is_that_of_the_cpu(device, deterministic, similarity, max_bytes):
    def verified(where):
        given = prepared(where, similarity=similarity, max_bytes=max_bytes, same_camera="all")
        found = verify(*given)
        return [
            *(found, found.roc(), found.tar_at_far([0.0, 0.01, 0.1]), found.threshold_at_far([0.01, 0.1])),
            *(found.equal_error_rate(), found.area_under_curve()),
            *(found.average_precision(ties=ties) for ties in ("pessimistic", "optimistic", "grouped")),
            *(fnmr_at_fmr(*given, [0.1, 0.35]), score_histogram(*given, bins=7)),
            score_histogram(*given, bins=5, limits=(-9.0, 9.0)),
        ]

    assert_as_on_the_cpu(device, verified)


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
def test_duplicates_and_their_groups_are_those_of_the_cpu(device, deterministic, similarity):
    def found(where):
        query, gallery, *_ = moved(problem(whole=True), where)
        sides = (query, gallery), (gallery,)
        of_sides = [find_duplicates(*each, threshold=0.9, similarity=similarity, max_bytes=10**5) for each in sides]
        return [*of_sides, *(each.groups() for each in of_sides)]

    assert_as_on_the_cpu(device, found)


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
def test_the_recall_of_an_index_is_that_of_the_cpu(device, deterministic, similarity):
    def measured(where):
        query, gallery, *_ = moved(problem(whole=True), where)
        retrieved = moved((query[:, :2] @ gallery[:, :2].T).cpu().topk(8).indices, where)
        options = {"k": 5, "similarity": similarity, "max_bytes": 10**4}
        recall = index_recall(retrieved, query, gallery, **options)
        of_blocks = index_recall(retrieved, query, gallery.split(17), **options)
        return [recall, of_blocks, recall.interval().low]

    assert_as_on_the_cpu(device, measured)
