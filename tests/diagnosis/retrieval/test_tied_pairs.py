"""One line says that equal scores decide the numbers, where nobody chose their order."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.diagnosis.retrieval.score_rows import tied_pairs
from reid_torchmetrics.functional.retrieval import Protocol, evaluate_scores
from tests.diagnosis.contract import warned_by
from tests.diagnosis.retrieval.test_sample import case_of
from tests.profiles import each_row
from tests.strategies import ALL_TIES

NUM_QUERIES, NUM_GALLERY = 20, 400


def problem(num_levels: int, seed: int = 0):
    """Scores of a few levels, with identities of both sides."""
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.integers(0, num_levels, (NUM_QUERIES, NUM_GALLERY))).float()
    return scores, torch.from_numpy(rng.integers(0, 5, NUM_QUERIES)), torch.from_numpy(rng.integers(0, 5, NUM_GALLERY))


def share_of(scores: torch.Tensor, query_identities: torch.Tensor, gallery_identities: torch.Tensor) -> str | None:
    """The share of tied pairs that is found."""
    results = evaluate_scores(scores, query_identities, gallery_identities)
    case = case_of(results)
    case.samples = replace(case.samples, ties_are_open=True)
    values = tied_pairs(case)
    return None if values is None else values["share"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("num_levels", [1, 3, 12])
def test_tied_pairs_are_counted(num_levels):
    scores, query_identities, gallery_identities = problem(num_levels)
    gallery_identities[::7] = -1  # junk
    num_tied, num_pairs = 0, 0
    for row, identity in zip(scores, query_identities, strict=True):
        positives = row[gallery_identities == identity]
        negatives = row[(gallery_identities != identity) & (gallery_identities >= 0)]
        num_tied += int((positives[:, None] == negatives).sum())
        num_pairs += len(positives) * len(negatives)
    assert share_of(scores, query_identities, gallery_identities) == f"{num_tied / num_pairs:.0%}"


@pytest.mark.filterwarnings("ignore")
def test_queries_are_spread_over_the_set():
    # Every second query is examined, and every pair ties in half of these.
    scores = torch.arange(512 * 60.0).reshape(512, 60)
    scores[::4] = 1.0
    assert share_of(scores, torch.zeros(512, dtype=torch.int64), torch.arange(60) % 2) == "50%"
    scores[::2] = torch.arange(60.0)
    scores[1::2] = 1.0
    assert share_of(scores, torch.zeros(512, dtype=torch.int64), torch.arange(60) % 2) is None


def test_the_line_has_both_bounds():
    scores, *identities = problem(num_levels=4, seed=2)
    (line,) = warned_by(lambda: evaluate_scores(scores, *identities))
    worst, best = (evaluate_scores(scores, *identities, ties=ties)["map"] for ties in ("pessimistic", "optimistic"))
    assert f"is {worst:.4f} where negatives go first (`ties='pessimistic'`, the default) and {best:.4f}" in line
    assert line.startswith(("25% of the pairs", "24% of the pairs"))


@each_row("ties", ALL_TIES)
def test_nothing_is_said_where_the_user_chose(ties):
    scores, *identities = problem(num_levels=4)
    assert warned_by(lambda: evaluate_scores(scores, *identities, ties=ties)) == []
    protocol = Protocol("own", "this test", ties=ties)
    assert warned_by(lambda: evaluate_scores(scores, *identities, protocol=protocol)) == []


def test_a_metric_whose_first_evaluation_has_few_pairs_is_told_later():
    generator = torch.Generator().manual_seed(0)
    metric = ReIDMeanAP()
    told = []
    for number in (30, 600):
        codes = torch.randint(0, 2, (number, 4), generator=generator).float() + 1
        metric.update(codes, torch.randint(0, 5, (number,), generator=generator), is_query=torch.arange(number) < 20)
        told.append([line for line in warned_by(metric.compute) if "have equal scores" in line])
    assert list(map(len, told)) == [0, 1]


def test_nothing_is_said_of_few_ties_or_few_pairs():
    scores, *identities = problem(num_levels=10**6)
    assert warned_by(lambda: evaluate_scores(scores, *identities)) == []
    few = torch.zeros(2, 20)  # 2 x 10 x 10 pairs
    assert warned_by(lambda: evaluate_scores(few, [0, 1], [0, 1] * 10)) == []
