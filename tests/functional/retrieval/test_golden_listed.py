"""Listed positives and junk against recorded outputs of revisited Oxford, see `tests/golden/README.md`."""

from functools import cache

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import PositiveRanks, scores_from_matrix
from reid_torchmetrics.functional.retrieval.ranking import count_ranks
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance
from tests.golden.cases import RECORDINGS
from tests.golden.peers import PEERS, QUANTITIES, assert_equal

RECORDS = RECORDINGS["listed"].records
EASY, HARD, JUNK = 1, 2, 3  # 0 is a negative
SETUPS = {"E": ((EASY,), (HARD, JUNK)), "M": ((EASY, HARD), (JUNK,)), "H": ((HARD,), (EASY, JUNK))}
QUANTITY_OF = {
    "revisitop/map": "mAP",
    "revisitop/aps": "AP_per_query",
    "revisitop/mpr": "mP_at_k",
    "revisitop/prs": "P_at_k_per_query",
    "oxford_cpp/aps": "AP_per_query",
}


@cache
def ranks_of(setup: str) -> PositiveRanks:
    inputs = RECORDINGS["listed"].inputs["e01_revisited"]
    ranking, relevance = torch.from_numpy(inputs["ranking"]).long(), torch.from_numpy(inputs["relevance"])
    positives, junk = (listed(relevance, labels) for labels in SETUPS[setup])
    scores = -ranking.argsort(dim=1).double()  # the place of every gallery item
    problem = find_listed_relevance(positives, junk, num_gallery=scores.shape[1])
    return count_ranks(scores_from_matrix(scores, problem), problem, ties="pessimistic")


def listed(relevance: Tensor, labels: tuple[int, ...]) -> list[Tensor]:
    return [row.nonzero()[:, 0] for row in torch.isin(relevance, torch.tensor(labels))]


def test_every_recorded_array_is_asserted() -> None:
    assert sorted(RECORDS) == sorted(f"e01_revisited/{output}{setup}" for output in QUANTITY_OF for setup in SETUPS)


@pytest.mark.parametrize("key", RECORDS)
def test_equals_the_recorded_output(key: str) -> None:
    record = RECORDS[key]
    quantity = QUANTITIES[QUANTITY_OF[record.output[:-1]]]
    assert_equal(quantity(ranks_of(key[-1]), PEERS[record.output.partition("/")[0]]), record)
