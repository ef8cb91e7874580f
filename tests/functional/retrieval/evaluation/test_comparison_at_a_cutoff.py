"""Lists of an index beside exact search: all models are evaluated at one cutoff, that of the longest list."""

import math

import pytest
import torch

from reid_torchmetrics import compare, evaluate, evaluate_lists
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Comparison
from tests.functional.retrieval.evaluation.test_labeled_lists import ITEMS, make_problem

REPORTS = ("map", "rank_1", "mrr", "minp", "hit_rate_5", "precision_5", "recall_5", "ndcg_10", "r_precision")
QUICK = {"num_resamples": 50, "num_permutations": 50}


def search(k, *, ties="stable", **options):
    """Results of exact search, and of lists of its first k candidates."""
    (query, gallery), labels = make_problem()
    exact = evaluate(query, gallery, **labels, ties=ties, **options)
    options.setdefault("protocol", "market1501")
    return exact, evaluate_lists(exact.nearest(k).index, **labels, **options)


@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name in ITEMS if not PROTOCOLS[name].leave_one_out])
def test_exact_search_has_the_numbers_of_its_own_first_candidates(name):
    """The lists hold the first candidates of exact search, so that no number differs once both end there."""
    for k in (1, 7, 50):
        exact, lists = search(k, protocol=name)
        comparison = compare({"exact": exact, "index": lists}, **QUICK)
        for difference in comparison.differences.values():
            assert difference.mean_a == pytest.approx(difference.mean_b, nan_ok=True) or math.isinf(difference.mean_b)
            assert difference.num_better == difference.num_worse == 0
        assert comparison.cutoff == (k if k < int(exact.num_candidates.max()) else None)


def test_every_measure_is_cut():
    exact, lists = search(7, reports=REPORTS)
    comparison = compare({"exact": exact, "index": lists}, **QUICK)
    means = {name: difference.mean_a for name, difference in comparison.differences.items()}
    assert means == pytest.approx(lists.means)
    assert exact["map"] > lists["map"]


def test_the_longest_list_of_all_models_is_the_cutoff():
    exact, _ = search(1)
    lists = {f"first {k}": search(k)[1] for k in (3, 9)}
    comparison = compare({"exact": exact, **lists}, **QUICK)
    means = {name: pair.differences["map"].mean_a for name, pair in comparison.by_name.items()}
    assert means == pytest.approx(dict.fromkeys(lists, lists["first 9"]["map"]))
    assert comparison.by_name["first 9"].differences["map"].difference == 0
    assert comparison.by_name["first 3"].differences["map"].difference < 0
    assert all(pair.cutoff == 9 for pair in comparison.by_name.values())


def test_the_exact_search_may_be_the_second_model_and_the_others_too():
    exact, lists = search(5)
    comparison = compare({"index": lists, "exact": exact, "again": exact}, **QUICK)
    assert [pair.differences["map"].difference for pair in comparison.by_name.values()] == [0, 0]
    assert "exact, again: cut after 5 candidates, as the longest list" in str(comparison)


def test_text_tables_and_files_have_the_cutoff(tmp_path):
    exact, lists = search(5)
    comparison = compare({"exact": exact, "index": lists}, **QUICK)
    sentence = "exact: cut after 5 candidates, as the longest list"
    assert sentence in str(comparison)
    assert sentence in comparison.to_markdown()
    assert comparison.to_dict()["cutoff"] == 5
    assert str(Comparison.load(comparison.save(tmp_path / "comparison.npz"))) == str(comparison)


@pytest.mark.parametrize("ties", ["expected", "grouped"])
def test_rankings_in_which_equal_scores_have_no_order_stay_whole_and_are_named(ties):
    exact, lists = search(5, ties=ties)
    comparison = compare({"exact": exact, "index": lists}, **QUICK)
    assert comparison.cutoff is None
    assert comparison.differences["map"].mean_a == exact["map"]
    assert f"exact: the whole gallery, as ties are '{ties}'; lists may end earlier" in str(comparison)


def test_results_without_lists_and_lists_without_exact_search_are_not_cut():
    exact, lists = search(5)
    _, longer = search(8)
    for models in ({"a": exact, "b": exact}, {"a": lists, "b": longer}):
        comparison = compare(models, **QUICK)
        assert comparison.cutoff is None
        assert "cut after" not in str(comparison)
        assert [comparison.differences["map"].mean_a, comparison.differences["map"].mean_b] == [
            results["map"] for results in models.values()
        ]


def test_the_results_that_are_compared_do_not_change():
    exact, lists = search(5)
    before = exact.means, exact.ranks.rank.clone()
    compare({"exact": exact, "index": lists}, **QUICK)
    assert exact.means == before[0]
    assert torch.equal(exact.ranks.rank, before[1])
