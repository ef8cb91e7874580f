"""Verification and means on a device: the values of the CPU."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    PositiveRanks,
    average_precision,
    find_relevance,
    mean_by,
    mean_over_identities,
    mean_over_queries,
    median_over_queries,
    score_embeddings,
    scores_from_matrix,
)
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS
from reid_torchmetrics.tasks import fnmr_at_fmr, score_histogram, verify
from tests.device.problems import assert_as_on_the_cpu, moved, problem

VALUES = torch.tensor([0.5, torch.nan, 1, 0.25, 0.75], dtype=torch.float64)
LABELS = torch.tensor([3, 3, 4, 4, 9])


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
def test_verification_in_tiles_is_that_of_the_cpu(device, deterministic, similarity, max_bytes):
    def verified(where):
        query, gallery, *labels = moved(problem(whole=True), where)
        relevance = find_relevance(*labels, same_camera="all")
        given = score_embeddings(query, gallery, relevance, similarity=similarity, max_bytes=max_bytes), relevance
        histograms = [score_histogram(*given, bins=7), score_histogram(*given, bins=5, limits=(-9.0, 9.0))]
        return [verify(*given), fnmr_at_fmr(*given, [0.1, 0.35]), *histograms]

    assert_as_on_the_cpu(device, verified)


def test_positives_that_lists_lack_are_counted_there(device):
    hits = torch.tensor([[False, True, True], [False, False, False]])

    def values(where):
        ranks = [PositiveRanks.from_hits(moved(hits, where), num_positives=given) for given in (None, [3, 0])]
        nothing = moved(torch.full((2,), torch.nan, dtype=torch.float64), where)
        return [*ranks, *(average_precision(each) for each in ranks), median_over_queries(nothing)]

    assert_as_on_the_cpu(device, values)


@pytest.mark.parametrize("action", [action for action in EMPTY_TARGET_ACTIONS if action != "error"])
def test_means_are_those_of_the_cpu(device, action):
    def means(where):
        values, labels, weight = moved([VALUES, LABELS, torch.arange(5)], where)
        return [
            mean_over_queries(values, empty_target_action=action, weight=weight),
            mean_over_identities(values, labels, empty_target_action=action),
            mean_by(values, labels, labels % 2),
        ]

    assert_as_on_the_cpu(device, means)
