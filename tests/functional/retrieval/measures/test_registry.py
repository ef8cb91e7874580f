"""A measure is one row: what protocols report, what metrics take, messages and words all come from it."""

from dataclasses import replace

import pytest
import torch

from reid_torchmetrics import ReIDMeasure
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol, evaluate
from reid_torchmetrics.functional.retrieval.measures import (
    MEASURES,
    DrawnResults,
    Measure,
    means_among,
    measure,
    measure_drawn,
    parse_report,
    title_of,
)
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks

OPTIONS = PROTOCOLS["market1501"]
RANKS = PositiveRanks(torch.tensor([2, 4]), torch.tensor([2]), torch.tensor([5]))  # positives at ranks 2 and 4 of 5
NUMBERS = {
    "map": (1 / 2 + 2 / 4) / 2,
    "map_3": (1 / 2) / 2,
    "map_at_r": (1 / 2) / 2,
    "minp": 2 / 4,
    "rank_1": 0,
    "rank_2": 1,
    "hit_rate_2": 1,
    "precision_4": 2 / 4,
    "recall_3": 1 / 2,
    "r_precision": 1 / 2,
    "mrr": 1 / 2,
    "mrr_1": 0,
    "mrr_2": 1 / 2,
    "ndcg_1": 0,
    "acg_4": 2 / 4,
    "bpref": ((1 - 1 / 2) + (1 - 2 / 2)) / 2,
    "mean_rank": 2,
    "median_rank": 2,
    "median_rank_lower": 2,
    "median_rank_floor": 2,
    "anmrr": ((2 + 4) / 2 - 1.5) / (5 - 1.5),
    "anmrr_shrec22": ((2 + 5) / 2 - 1.5) / (5 - 1.5),
}
DRAWN = DrawnResults(
    cmc=torch.tensor([[0.25, 0.75]], dtype=torch.float64),
    average_precision=torch.tensor([0.5], dtype=torch.float64),
    inverse_negative_penalty=torch.tensor([0.125], dtype=torch.float64),
    num_positives=torch.tensor([2]),
    weight=torch.ones(1, dtype=torch.float64),
)
LAST_RANK = Measure(
    "last_rank_within",
    lambda ranks, _, k: ranks.rank[ranks.num_positives.cumsum(0) - 1].double().clamp(max=k),
    "rank of the last positive, at most {k}",
    takes_k=True,
)


@pytest.mark.parametrize(("name", "expected"), NUMBERS.items())
def test_a_measure_by_name_is_its_function(name, expected):
    assert measure(name, RANKS, OPTIONS).tolist() == pytest.approx([expected])


def test_every_row_is_evaluated_above_and_has_its_own_name():
    lacking = MEASURES.keys() - {parse_report(name)[0].name for name in NUMBERS}
    assert not lacking, f"add a number that can be checked by hand to `NUMBERS` in this file, for {sorted(lacking)}"
    assert all(row.name == name for name, row in MEASURES.items())


def test_words_have_the_options():
    options = Protocol("own", "me", k=100, normalizer="attainable", precision_divisor="last_positive", mode="all_shots")
    assert MEASURES["map"].describe(options, 0) == (
        "average precision, rule rectangle, over the first 100, divided by attainable"
    )
    for normalizer, words in (
        ("positives", ""),
        ("attainable", ", divided by attainable"),
        ("hits", ", divided by hits"),
    ):
        whole = replace(options, k=None, normalizer=normalizer)
        assert MEASURES["map"].describe(whole, 0) == f"average precision, rule rectangle, over all ranks{words}"
    assert MEASURES["map"].describe(options, 10) == (
        "average precision, rule rectangle, over the first 10, divided by attainable"
    )
    assert MEASURES["mrr"].describe(options, 0) == "1 / rank of the first positive, 0 beyond rank 100"
    assert MEASURES["mrr"].describe(options, 10) == "1 / rank of the first positive, 0 beyond rank 10"
    assert MEASURES["mrr"].describe(OPTIONS, 0) == "1 / rank of the first positive"
    assert MEASURES["precision"].describe(options, 10) == "precision at 10, divisor last_positive"
    assert MEASURES["rank"].describe(options, 5) == "CMC, all_shots, at rank 5"
    assert MEASURES["rank"].describe(OPTIONS, 5, is_drawn=True) == "CMC, over identities, at rank 5"


@pytest.mark.parametrize("name", [row.name for row in MEASURES.values() if row.may_take_k])
def test_the_cutoff_of_a_measure_is_that_of_its_name_or_else_of_the_options(name):
    for k in (1, 2, 3):
        for options in (OPTIONS, replace(OPTIONS, k=1)):
            assert measure(f"{name}_{k}", RANKS, options) == measure(name, RANKS, replace(options, k=k))


@pytest.mark.parametrize(("name", "expected"), [("rank_1", 0.25), ("rank_2", 0.75), ("map", 0.5), ("minp", 0.125)])
def test_a_measure_over_drawn_galleries_is_its_expectation(name, expected):
    assert measure_drawn(name, DRAWN).tolist() == [expected]


def test_a_measure_without_an_expectation_says_which_have_one():
    message = "^`name` must be of a measure with an expectation, map, minp, rank_<k>; got 'mrr'.$"
    with pytest.raises(ValueError, match=message):
        measure_drawn("mrr", DRAWN)
    with pytest.raises(ValueError, match=message.replace("mrr", "map_5")):
        measure_drawn("map_5", DRAWN)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("precision", ", which needs its k, as in 'precision_10'"),
        ("rank1", ", which may be 'rank_1'"),
        ("precision@5", ", which may be 'precision_5'"),
        ("mAP", ", which may be 'map'"),
        ("r_precison", ", which may be 'r_precision'"),
        ("mAP@5", ", which may be 'map_5'"),
        ("ap_5", ", which may be 'map_5'"),
        ("recall@5", ", which may be 'hit_rate_5'; 'recall_5' is the share of the positives"),
        ("eer", ": it is a number of verification, see `verify` and `verify_pairs`"),
        ("rank_0", ""),
        ("@", ""),
        (7, ""),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_a_name_that_is_unknown_is_said_with_the_likely_one(name, meant):
    listed = "a measure of `MEASURES`" if meant else "('rank_<k>', )?'map', 'map_<k>', .* and 10 more"
    with pytest.raises(ValueError, match=f"^`reports` must be of {listed}; got ") as caught:
        parse_report(name)
    assert str(caught.value).endswith(f"; got {name!r}{meant}.")


def test_a_k_fits_int64():
    row, k = parse_report(f"rank_{2**63 - 1}")
    assert (row.name, k) == ("rank", 2**63 - 1)
    with pytest.raises(ValueError, match=f"^`name` must have a k that fits int64; got 'rank_{2**63}'.$"):
        parse_report(f"rank_{2**63}", argument="name")


def test_tables_and_legends_write_a_measure_by_its_title():
    names = ["map", "rank_5", "ndcg_10", "precision_10", "mean_rank", "anmrr"]
    assert [*map(title_of, names)] == ["mAP", "Rank-5", "nDCG@10", "Precision@10", "Mean rank", "ANMRR"]


def test_medians_are_no_means_over_queries():
    assert means_among(["map", "median_rank", "rank_1"]) == ["map", "rank_1"]
    with pytest.raises(
        ValueError, match=r"^`reports` must hold a mean over queries here; got median_rank, .*_floor\.$"
    ):
        means_among(["median_rank", "median_rank_floor"])


def test_a_row_that_is_added_is_reported_by_protocols_and_taken_by_the_metric(monkeypatch):
    monkeypatch.setitem(MEASURES, LAST_RANK.name, LAST_RANK)
    query, gallery = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.1, 0.9]])
    identity, identities = torch.tensor([7]), torch.tensor([7, 3, 7])  # positives at ranks 1 and 3
    results = evaluate(query, gallery, identity, identities, reports=("last_rank_within_9", "last_rank_within_2"))
    assert results.means == {"last_rank_within_9": 3, "last_rank_within_2": 2}
    assert results.conventions["last_rank_within_9"].startswith("rank of the last positive, at most 9; ")
    metric = ReIDMeasure("last_rank_within_9")
    metric.update(query, identity, is_query=True)
    metric.update(gallery, identities, is_query=False)
    assert metric.compute() == 3
    with pytest.raises(ValueError, match=r"must be of 'last_rank_within_<k>', .* more; got 'last_rank'"):
        ReIDMeasure("last_rank")
    with pytest.raises(ValueError, match="must not draw galleries for the report 'last_rank_within_9'"):
        ReIDMeasure("last_rank_within_9", protocol="vehicleid")
