"""Verification against recorded outputs of other evaluators, see `tests/golden/README.md`."""

from functools import cache

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import Relevance, find_relevance, scores_from_matrix
from reid_torchmetrics.functional.retrieval.scores.scores import Scores
from reid_torchmetrics.tasks.verification.all_pairs import Verification, fnmr_at_fmr, verify
from tests.golden.cases import PROBLEMS, RECORDINGS, true_distances
from tests.golden.peers import assert_equal, inputs_of

RECORDS = RECORDINGS["pairs"].records
NUM_PAIRS = "fastreid_roc/n_pos_n_neg"
TNR_AT_FNR = "fastreid_roc/TPR_at_FPR_1e-4_1e-3_1e-2"  # named so by the evaluator, for which negatives are the class 1
FNMR_AT_FMR = "oml/fnmr_at_fmr_0.001_0.01_0.1"


def named(output: str) -> list[str]:
    return [key for key in RECORDS if key.endswith(output)]


@cache
def problem_of(name: str) -> tuple[Scores, Relevance]:
    relevance = find_relevance(*inputs_of(PROBLEMS[name])[1:], junk_identities=())
    return scores_from_matrix(-torch.from_numpy(true_distances(name)), relevance), relevance


@cache
def verification_of(name: str) -> Verification:
    return verify(*problem_of(name))


def corners(verification: Verification) -> tuple[Tensor, Tensor]:
    """FNR and TNR, both rising, where the ROC curve turns: scikit-learn drops the points between."""
    curve = verification.roc()
    points = 1 - torch.stack([curve.true_accept_rate, curve.false_accept_rate]).flip(1)
    points = points.unique_consecutive(dim=1)
    steps = points.diff(dim=1) > 0
    turns = torch.cat([torch.tensor([True]), (steps[:, 1:] != steps[:, :-1]).any(0), torch.tensor([True])])
    return points[0, turns], points[1, turns]


def test_every_recorded_array_is_asserted_once() -> None:
    assert sorted([*named(NUM_PAIRS), *named(TNR_AT_FNR), *named(FNMR_AT_FMR)]) == sorted(RECORDS)
    assert (len(named(NUM_PAIRS)), len(named(TNR_AT_FNR)), len(named(FNMR_AT_FMR))) == (12, 12, 10)


@pytest.mark.parametrize("key", named(NUM_PAIRS))
def test_counts_the_recorded_numbers_of_genuine_and_impostor_pairs(key: str) -> None:
    verification = verification_of(RECORDS[key].case)
    assert [verification.num_genuine, verification.num_impostors] == RECORDS[key].value.tolist()


@pytest.mark.parametrize("key", named(FNMR_AT_FMR))
def test_equals_the_recorded_non_match_rates(key: str) -> None:
    assert_equal(fnmr_at_fmr(*problem_of(RECORDS[key].case), (0.001, 0.01, 0.1)).rates, RECORDS[key])


@pytest.mark.parametrize("key", named(TNR_AT_FNR))
def test_the_tpr_at_fpr_of_fastreid_is_a_true_reject_rate_at_a_false_reject_rate(key: str) -> None:
    fnr, tnr = corners(verification_of(RECORDS[key].case))
    nearest = [int((fnr - rate).abs().argmin()) for rate in (1e-4, 1e-3, 1e-2)]
    assert_equal(tnr[nearest], RECORDS[key])
