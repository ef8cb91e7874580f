"""Open-set identification: equal to the slow reference, whatever the order of the gallery and the size of tiles."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import GalleryDraw
from reid_torchmetrics.functional.retrieval import evaluate_scores
from reid_torchmetrics.tasks import Identification, evaluate_lists
from reid_torchmetrics.tasks.identification import FPIR_RULES
from tests.profiles import examples
from tests.reference import open_set as reference
from tests.reference.retrieval import candidates
from tests.strategies import ALL_TIES, Problem, problems

RATES = [0.0, 0.1, 1 / 3, 0.5, 1.0]


def searches_of(problem: Problem) -> list[reference.Search]:
    """What the slow reference finds for every query."""
    gallery = [None if labels is None else labels.tolist() for labels in (problem.labels[1], problem.labels[3])]
    options = {"same_camera": problem.same_camera, "junk_identities": problem.junk_identities}
    found = []
    for query, scores in enumerate(problem.scores.tolist()):
        camera = None if problem.query_cameras is None else int(problem.query_cameras[query])
        own = -1 if problem.self_index is None else int(problem.self_index[query])
        sides = (int(problem.query_identities[query]), gallery[0], camera, gallery[1])
        found.append(reference.search(scores, candidates(*sides, **options, self_position=own), problem.ties))
    return found


def identified(problem: Problem, **options) -> Identification:
    return evaluate_scores(problem.scores, *problem.labels, **problem.options, **options).identification()


# Mates score 9, 7 and 4, at ranks 1, 1 and 2; the best scores of non-mated queries are 8, 6, 3 and 1.
SCORES = torch.tensor([[9.0, 2], [0, 7], [4, 5], [8, 0], [2, 6], [3, 3], [1, 0]])
EXAMPLE = evaluate_scores(SCORES, [1, 2, 1, 10, 11, 12, 12], [1, 2]).identification()


def test_a_threshold_is_the_lowest_that_keeps_its_rate():
    just_above = math.nextafter(torch.tensor(3.0).nextafter(torch.tensor(math.inf)).item(), 0)
    threshold = EXAMPLE.threshold_at_fpir(0.5)
    assert float(threshold) == pytest.approx(just_above, rel=1e-6)
    assert float(threshold) > 3
    assert EXAMPLE.threshold_at_fpir([1.0]).tolist() == [-math.inf]
    assert [*map(float, EXAMPLE.rates_at(float(threshold), rank=2))][:2] == [1 / 2, 1]


def test_the_example_has_its_novelty_and_its_balanced_accuracy():
    assert float(EXAMPLE.novelty_auc()) == (4 + 3 + 2) / 12
    found = EXAMPLE.balanced_accuracy(5.5)  # of identity 1 one of two is right, 2 is; 10 and 11 raise alarms
    assert [*map(float, found)] == pytest.approx([3 / 4, 1 / 3])
    assert float(found.geometric_mean) == 0.5
    assert EXAMPLE.is_correct(5.5).tolist() == [True, True, False, False, False, True, True]


@examples(30)
@given(problems(ties=ALL_TIES), st.sampled_from([1, 2, 5]))
def test_rates_are_those_of_the_slow_reference(problem, rank):
    searches, found = searches_of(problem), identified(problem)
    assert found.best_score.tolist() == [each.best for each in searches]
    assert found.mate_rank.tolist() == [each.rank for each in searches]
    assert found.mate_score[found.is_mated].tolist() == [each.mate for each in searches if each.rank]
    if problem.scores.numel():
        expected = reference.balanced_accuracy(searches, problem.query_identities.tolist(), 1.0)
        known, unknown = (math.nan if each is None else each for each in expected)
        assert [*map(float, found.balanced_accuracy(1.0))] == pytest.approx([known, unknown], nan_ok=True)
    if not reference.alarms(searches) or len(reference.alarms(searches)) == len(searches):
        for rule in FPIR_RULES:
            assert found.tpir_at_fpir(RATES, rank, rule).isnan().all()
        return
    for rule in FPIR_RULES:
        expected = [reference.tpir_at_fpir(searches, rate, rank, rule) for rate in RATES]
        assert found.tpir_at_fpir(RATES, rank, rule).tolist() == expected, rule


def test_without_one_of_the_two_kinds_rates_are_nan():
    for identities, defined in (([1, 2], (False, True)), ([8, 9], (True, False))):
        found = evaluate_scores(SCORES[:2], identities, [1, 2]).identification()
        rates = found.rates_at([5.0, math.nan])
        assert [not bool(values[0].isnan()) for values in rates[:2]] == [*defined]
        assert found.novelty_auc().isnan()
        assert found.tpir_at_fpir(0.1).isnan()


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: EXAMPLE.tpir_at_fpir(2.0), ValueError, "`fpir` must hold shares from 0 to 1; got 2.0: 2 % is 0.02."),
        (lambda: EXAMPLE.tpir_at_fpir("0.1"), TypeError, "`fpir` must be a tuple or list of floats; got str."),
        (lambda: EXAMPLE.tpir_at_fpir(0.1, 0), ValueError, "`rank` must be at least 1; got 0."),
        (
            lambda: EXAMPLE.tpir_at_fpir(0.1, rule="nist"),
            ValueError,
            "`rule` must be one of 'largest', 'nearest', 'floor', 'strict'; got 'nist'.",
        ),
        (lambda: EXAMPLE.is_correct(None), TypeError, "`threshold` must be a number; got NoneType."),
        (
            lambda: (
                evaluate_scores(SCORES, ground_truth=[{"easy": [0]}] * 7, protocol="roxford5k_easy")
                .identification()
                .balanced_accuracy(0.0)
            ),
            ValueError,
            "`balanced_accuracy` must come with `query_identities`; got relevance as lists, or several labels.",
        ),
        (
            lambda: evaluate_scores(SCORES, [1] * 7, [1, 2], gallery_draw=GalleryDraw(shots=1)).identification(),
            ValueError,
            "`protocol` must draw no gallery in open-set identification; got ",
        ),
        (
            lambda: evaluate_lists([[1, 2]], [[2]]).identification(),
            ValueError,
            "`identification` must come from scores of all candidates; got results of ranked lists.",
        ),
    ],
)
def test_a_refusal_names_the_argument(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("num_unknown", [1, 22, 23, 49, 100])
def test_a_rate_that_is_reached_exactly_is_not_missed_by_rounding(num_unknown):
    # Non-mated queries score n, n - 1, ..., 1: of the product of 49 and 1 / 49 the integer part is 0.
    best = torch.cat([torch.arange(num_unknown, 0, -1.0), torch.tensor([num_unknown - 0.5])])
    mate = torch.full_like(best, math.nan)
    mate[-1] = best[-1]
    found = Identification(best, mate, (~mate.isnan()).long())
    for alarms in range(num_unknown + 1):
        rates = found.rates_at(found.threshold_at_fpir(alarms / num_unknown).tolist())
        assert float(rates.false_positive_rate) == alarms / num_unknown
        assert float(rates.true_positive_rate) == (alarms > 0)
