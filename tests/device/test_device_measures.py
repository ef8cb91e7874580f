"""Measures on a device: those of the CPU, in float64, on the device of the ranks."""

import re
from functools import cache, partial

import pytest
import torch

from reid_torchmetrics.functional.retrieval import (
    PositiveRanks,
    average_precision,
    average_precision_at_r,
    binary_preference,
    cmc_at,
    cmc_curve,
    cumulative_gain_at,
    first_rank,
    hit_rate_at,
    inverse_negative_penalty,
    mean_by,
    mean_over_identities,
    mean_over_queries,
    mean_precision_recall_curve,
    median_over_queries,
    normalized_dcg,
    precision_at,
    precision_recall_curve,
    r_precision,
    rank_positives,
    recall_at,
    reciprocal_rank,
    retrieval_rank,
)
from reid_torchmetrics.functional.retrieval.measures import (
    AP_NORMALIZERS,
    AP_RULES,
    CMC_MODES,
    EMPTY_TARGET_ACTIONS,
    PRECISION_DIVISORS,
)
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.tasks import global_average_precision, knn_accuracy
from reid_torchmetrics.tasks.votes import VOTES
from tests.device.problems import assert_as_on_the_cpu, moved, problem

MEASURES = [
    *(partial(average_precision, rule=rule) for rule in AP_RULES),
    *(partial(average_precision, k=5, normalizer=normalizer) for normalizer in AP_NORMALIZERS),
    *(partial(cmc_curve, max_rank=9, mode=mode) for mode in CMC_MODES),
    *(partial(cmc_at, k=5, mode=mode) for mode in CMC_MODES),
    *(partial(precision_at, k=5, divisor=divisor) for divisor in PRECISION_DIVISORS),
    *(partial(measure, k=5) for measure in (hit_rate_at, recall_at, reciprocal_rank, normalized_dcg)),
    partial(cumulative_gain_at, k=5),
    *(inverse_negative_penalty, first_rank, r_precision, average_precision_at_r, normalized_dcg),
    *(mean_precision_recall_curve, partial(precision_recall_curve, query=3)),
    *(partial(retrieval_rank, variant=variant) for variant in ("mpeg7", "shrec22")),
    lambda ranks: median_over_queries(first_rank(ranks)),
]
MEASURES += [binary_preference]


@cache
def ranks_on(where: str, ties: str) -> PositiveRanks:
    """Ranks of whole numbers, many of which are equal."""
    return rank_positives(*moved(problem(whole=True), where), similarity="dot", ties=ties)


@pytest.mark.parametrize("ties", TIE_POLICIES)
@pytest.mark.parametrize("measure", MEASURES)
def test_measures_are_those_of_the_cpu(full_device, deterministic, ties, measure):
    try:
        measure(ranks_on("cpu", ties))
    except ValueError as error:  # no expectation is known
        with pytest.raises(ValueError, match=re.escape(str(error))):
            measure(ranks_on(full_device, ties))
    else:
        assert_as_on_the_cpu(full_device, lambda where: measure(ranks_on(where, ties)))


def test_positives_that_lists_lack_are_counted_there(device):
    hits = torch.tensor([[False, True, True], [False, False, False]])

    def values(where):
        ranks = [PositiveRanks.from_hits(moved(hits, where), num_positives=given) for given in (None, [3, 0])]
        nothing = moved(torch.full((2,), torch.nan, dtype=torch.float64), where)
        return [*ranks, *(average_precision(each) for each in ranks), median_over_queries(nothing)]

    assert_as_on_the_cpu(device, values)


def test_votes_are_those_of_the_cpu(device, deterministic):
    lists = (
        torch.tensor([[4, 3, 3, 4], [3, 9, 4, -1]]),
        torch.tensor([[0.9, 0.8, 0.7, 0.1], [0.5, 0.4, 0.3, torch.nan]]),
    )

    def right(where):
        return [knn_accuracy(*moved([*lists, LABELS[1:3]], where), vote=vote, top_k=2) for vote in VOTES]

    assert_as_on_the_cpu(device, right)


VALUES = torch.tensor([0.5, torch.nan, 1, 0.25, 0.75], dtype=torch.float64)
LABELS = torch.tensor([3, 3, 4, 4, 9])


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


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic", "stable"])
def test_recognition_is_that_of_the_cpu(device, ties):
    confidence, has_target = torch.tensor([0.9, 0.9, 0.5, 0.1]), torch.tensor([True, True, False, True])
    given = [confidence, torch.tensor([True, False, False, True]), has_target]
    assert_as_on_the_cpu(device, lambda where: global_average_precision(*moved(given, where), ties=ties))
