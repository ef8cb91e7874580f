"""Lists of an index beside exact search: all models are evaluated at one cutoff, that of the longest list."""

import math

import numpy as np
import pytest
import torch

from reid_torchmetrics import compare, evaluate, evaluate_lists
from reid_torchmetrics.functional.retrieval import PROTOCOLS, RetrievalResults
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.tasks import Comparison
from tests.profiles import each_row
from tests.tasks.lists.test_labeled_lists import ITEMS, make_problem

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


def test_the_longest_list_of_all_models_is_the_cutoff():
    exact, _ = search(1)
    lists = {f"first {k}": search(k)[1] for k in (3, 9)}
    comparison = compare({"exact": exact, **lists}, **QUICK)
    means = {name: pair.differences["map"].mean_a for name, pair in comparison.by_name.items()}
    assert means == pytest.approx(dict.fromkeys(lists, lists["first 9"]["map"]))
    assert comparison.by_name["first 9"].differences["map"].difference == 0
    assert comparison.by_name["first 3"].differences["map"].difference < 0
    assert all(pair.cutoff == 9 for pair in comparison.by_name.values())


def test_text_tables_and_files_have_the_cutoff(tmp_path):
    exact, lists = search(5)
    comparison = compare({"exact": exact, "index": lists}, **QUICK)
    sentence = "exact: cut after 5 candidates, as the longest list"
    assert sentence in str(comparison)
    assert sentence in comparison.to_markdown()
    assert comparison.to_dict()["cutoff"] == 5
    assert str(Comparison.load(comparison.save(tmp_path / "comparison.npz"))) == str(comparison)


def search_codes(ties, protocol):
    """Exact search in codes of 8 bits under a tie policy, and the first 12 items of an index that is exact, too.

    Equal scores are in the order of the positions. There are no cameras, so that no item is removed from the lists.
    """
    rng = np.random.default_rng(3)
    labels = {"query_identities": rng.integers(0, 10, 20), "gallery_identities": rng.integers(0, 10, 150)}
    query, gallery = (np.where(rng.normal(size=(size, 8)) > 0, 1, -1) for size in (20, 150))
    lists = np.argsort(-query @ gallery.T, axis=1, kind="stable")[:, :12]
    options = labels | {"protocol": protocol, "same_camera": "keep"}
    embeddings = query.astype(np.float32), gallery.astype(np.float32)
    return evaluate(*embeddings, **options, similarity="hamming", ties=ties), evaluate_lists(lists, **options)


@each_row("ties", TIE_POLICIES)
def test_an_exact_index_loses_and_gains_nothing_by_scores_that_tie(ties):
    for protocol in ("market1501", "hashing"):
        exact, lists = search_codes(ties, protocol)
        comparison = compare({"exact": exact, "index": lists}, **QUICK)
        for difference in comparison.differences.values():
            assert difference.mean_a == difference.mean_b
            assert difference.num_better == difference.num_worse == 0
        assert comparison.cutoff == 12
        assert comparison.setup_a.ties == "stable"
        assert "exact: equal scores in the order of the gallery, as lists have one order" in str(comparison)


@each_row("ties", TIE_POLICIES)
def test_exact_search_of_a_metric_or_a_file_is_compared_only_if_ties_have_one_order(ties, tmp_path):
    exact, lists = search_codes(ties, "market1501")
    expected = compare({"exact": exact, "index": lists}, **QUICK)
    loaded = RetrievalResults.load(exact.save(tmp_path / "exact.npz"))
    for first, second in ((loaded, lists), (lists, loaded)):
        models = {"first": first, "second": second}
        if ties == "stable":
            means = {"first": expected.differences["map"].mean_a, "second": expected.differences["map"].mean_b}
            compared = compare(models, **QUICK).differences["map"]
            assert {"first": compared.mean_a, "second": compared.mean_b} == means
            continue
        with pytest.raises(ValueError, match=rf"must be ranked with `ties='stable'` beside lists, .* got '{ties}'"):
            compare(models, **QUICK)


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
