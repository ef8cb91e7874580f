"""Ranked lists: numbers by definition in every form, what a repeated or missing thing counts, and names."""

import copy
import math
import pickle
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import RetrievalResults, find_protocol, normalized_dcg
from reid_torchmetrics.tasks import compare, evaluate_lists
from tests.closeness import assert_close
from tests.profiles import examples
from tests.reference import lists as reference

REPORTS = ("map", "ndcg_3", "bpref", "mrr", "precision_3", "recall_3")
ITEMS = st.integers(0, 9)
QUERY = st.tuples(st.lists(ITEMS, max_size=8), st.dictionaries(ITEMS, st.integers(-2, 3), max_size=7))
QUERIES = st.lists(QUERY, min_size=1, max_size=6)


def values_of(retrieved, positives, **options):
    return evaluate_lists(retrieved, positives, **{"reports": REPORTS} | options).per_query


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert_close(values, other[name], equal_nan=True)


@examples(30)
@given(st.sampled_from(sorted(reference.GAINS)), QUERIES)
def test_graded_lists_have_the_numbers_of_their_definition(gain, queries):
    ours = values_of(*map(list, zip(*queries, strict=True)), gain=gain)
    for row, (items, grades) in enumerate(queries):
        if reference.num_positives(grades) == 0:
            assert all(ours[name][row].isnan() for name in REPORTS)
            continue
        places = [place for place, _ in reference.hits(items, grades)]
        assert {name: float(ours[name][row]) for name in REPORTS} == pytest.approx(
            {
                "map": reference.average_precision(items, grades),
                "ndcg_3": reference.normalized_dcg(items, grades, 3, gain),
                "bpref": reference.binary_preference(items, grades),
                "mrr": 1 / places[0] if places else 0,
                "precision_3": sum(place <= 3 for place in places) / 3,
                "recall_3": sum(place <= 3 for place in places) / reference.num_positives(grades),
            },
            abs=1e-12,
        )


@examples(15)
@given(queries=QUERIES, order=st.randoms(use_true_random=False))
def test_every_form_and_order_of_the_same_lists_has_the_same_numbers(queries, order):
    retrieved, graded = map(list, zip(*queries, strict=True))
    positives = [[item for item, grade in grades.items() if grade > 0] for grades in graded]
    expected = values_of(retrieved, positives)
    # A matrix with -1 behind the lists, as a tensor or an array; and positives likewise.
    width = max(map(len, [*retrieved, *positives]))
    matrix, truth = (
        torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows], dtype=torch.int64).view(len(rows), width)
        for rows in (retrieved, positives)
    )
    assert_equal(values_of(matrix, truth), expected)
    assert_equal(values_of(matrix.int().numpy(), [np.array(row, dtype=np.int32) for row in positives]), expected)
    # Strings, and mappings in another order of queries.
    named = [[[f"image {item}" for item in row] for row in rows] for rows in (retrieved, positives)]
    assert_equal(values_of(*named), expected)
    keys = [f"query {number}" for number in range(len(queries))]
    shuffled = order.sample(keys, len(keys))
    lists = dict(zip(keys, named[0], strict=True))
    ours = values_of({key: lists[key] for key in shuffled}, dict(zip(keys, map(set, named[1]), strict=True)))
    assert_equal(ours, expected)
    # Any grade above 0 is a positive, with the gain of its grade; gains may stand beside positives.
    gains = [[float(grade) for grade in grades.values() if grade > 0] for grades in graded]
    listed = values_of(retrieved, positives, gains=gains, reports=("ndcg_3",))
    as_mapping = [{item: grade for item, grade in grades.items() if grade > 0} for grades in graded]
    if any(as_mapping):
        assert_equal(values_of(retrieved, as_mapping, reports=("ndcg_3",)), listed)


def test_a_repeated_item_keeps_its_places_and_scores_once():
    # Positives at 1 and 4; the second 7 is at 2.
    results = evaluate_lists([[7, 7, 1, 9]], [[7, 9]])
    assert results["map"] == (1 / 1 + 2 / 4) / 2
    assert results.nearest(4).is_positive.tolist() == [[True, False, False, True]]


def test_a_negative_grade_is_not_judged():
    # Before the positive of grade 2 come grades -2 and 0; of two judged negatives one counts for bpref.
    results = values_of([[1, 2, 3, 9]], [{1: -2, 2: 0, 3: 2, 4: 1, 5: 0, 6: -1}])
    assert {name: values.item() for name, values in results.items()} == pytest.approx(
        {
            "map": 1 / 3 / 2,
            "ndcg_3": (2 / 2) / (2 + 1 / math.log2(3)),
            "bpref": (1 - 1 / 2) / 2,
            "mrr": 1 / 3,
            "precision_3": 1 / 3,
            "recall_3": 1 / 2,
        },
        abs=1e-15,
    )
    assert values_of([[1]], [[1]], gains=[[-1]], reports=["map"])["map"].isnan()


def test_a_query_that_the_truth_lacks_is_left_out_if_asked():
    lists, truth = {"z": ["y"], "b": ["x"], "c": ["x"]}, {"a": ["x"], "b": ["x"]}
    results = evaluate_lists(lists, truth, unknown_queries="skip")
    assert (results["map"], results.query_names, results.gallery_names) == (1 / 2, ("a", "b"), ("x",))
    both = evaluate_lists(lists, truth, unknown_queries="skip", missing_queries="skip")
    assert (both["map"], both.query_names, both.query_index.tolist()) == (1, ("b",), [1])
    assert np.isnan(evaluate_lists(lists, {}, unknown_queries="skip")["map"])


def test_declared_positives_count_where_not_all_are_listed():
    assert evaluate_lists([[3, 1]], [[1]], num_positives=4)["map"] == 1 / 2 / 4
    assert (
        evaluate_lists({"a": [1], "b": []}, {"a": [1], "b": []}, num_positives={"b": 1, "a": 2})["map"]
        == (1 / 2 + 0) / 2
    )


def test_junk_of_a_benchmark_holds_no_rank():
    truth = [{"easy": [4], "junk": np.array([1, 9]), "hard": torch.tensor([2])}]
    results = evaluate_lists([[1, 2, 1, 5, 4]], truth, protocol="roxford5k_easy", rule="rectangle")
    assert results["map"] == 1 / 2
    assert results.nearest(5).index.tolist() == [[5, 4, -1, -1, -1]]
    assert results.num_candidates.tolist() == [2]


def test_results_are_named_saved_and_compared(tmp_path):
    truth = {"first query": {"d1": 1, "d2": 0}, "second query": {"d3": 2}}
    results = evaluate_lists({"second query": ["d1", "d3"], "first query": ["d1"]}, truth, reports=("map", "ndcg_5"))
    assert results.name_of(int(results.hardest(1)[0])) == "second query"
    assert "positives: ok" in repr(results)
    loaded = RetrievalResults.load(results.save(tmp_path / "lists.npz"))
    assert (loaded.query_names, loaded.gallery_names, loaded.means) == (
        results.query_names,
        results.gallery_names,
        results.means,
    )
    assert normalized_dcg(loaded.ranks).tolist() == normalized_dcg(results.ranks).tolist()
    better = evaluate_lists({"first query": ["d1"], "second query": ["d3"]}, truth, reports=("map", "ndcg_5"))
    assert compare(results, better).differences["map"].difference == 0.25
    interval = results.interval(generator=torch.Generator().manual_seed(0))
    assert interval.low <= results["map"] <= interval.high


def test_huge_numbers_of_items_are_no_trouble():
    huge = 2**62
    assert evaluate_lists([[huge - 1, huge], [huge, 5]], [[huge], [5, huge - 1]])["map"] == (1 / 2 + 1 / 2 / 2) / 2
    # Five times 2^62, and 2^63, do not fit int64.
    assert evaluate_lists([[4, huge - 1]] * 5, [[huge - 1]] * 5)["map"] == 1 / 2
    assert evaluate_lists([[2**63 - 1, huge]], [[huge]])["map"] == 1 / 2
    assert evaluate_lists([[2**63 - 1, 4]], [[4]])["map"] == evaluate_lists([[4, 5]], [[4, 2**63 - 1]])["map"] == 1 / 2


def test_no_query_and_no_item_give_results_without_numbers():
    assert np.isnan(evaluate_lists([], [])["map"])
    assert evaluate_lists(torch.empty(2, 0, dtype=torch.int64), [[1], [2]])["map"] == 0


def pickled(results):
    return pickle.loads(pickle.dumps(results))


@pytest.mark.parametrize("pass_on", [copy.copy, copy.deepcopy, pickled])
@examples(30)
@given(st.randoms(use_true_random=False), st.booleans())
def test_strings_are_numbered_as_they_come_when_they_are_asked_for(pass_on, random, is_junk_there):
    names = ["a", "b", "c", "d", "e", "f"]
    lists = [random.choices(names, k=random.randint(0, 8)) for _ in range(3)]
    truth = [
        {"ok": random.sample(names[:3], random.randint(0, 3)), "junk": random.sample(names[3:5], 2 * is_junk_there)}
        for _ in lists
    ]
    protocol = find_protocol("trec").with_options({"positive_lists": ("ok",), "junk_lists": ("junk",)})
    ordered = [*dict.fromkeys(chain(*(row["ok"] for row in truth), *(row["junk"] for row in truth), *lists))]
    number = {name: place for place, name in enumerate(ordered)}
    found = pass_on(evaluate_lists(lists, truth, protocol=protocol))
    as_ints = evaluate_lists(
        [[number[name] for name in row] for row in lists],
        [{key: [number[name] for name in row[key]] for key in row} for row in truth],
        protocol=protocol,
    )
    assert torch.equal(found.nearest(1).index, as_ints.nearest(1).index)
    for name, value in vars(as_ints.rank_lists).items():
        assert value is None or torch.equal(getattr(found.rank_lists, name).nan_to_num(-9), value.nan_to_num(-9)), name
    assert found.gallery_names == (tuple(ordered) or None)
    assert torch.equal(found.ranks.rank, as_ints.ranks.rank)


def test_the_score_of_a_listed_item_is_minus_its_rank():
    by_labels = evaluate_lists(
        [[2, 0, 1], [1]],
        query_identities=[7, 8],
        gallery_identities=[7, 8, 8],
        query_cameras=[0, 0],
        gallery_cameras=[1, 0, 1],
    )
    by_truth = evaluate_lists([[2, 0, 1], [1]], [[0], [1]])
    # Under the camera rule item 1 is junk to the second query.
    for results, second in ((by_labels, [math.nan] * 3), (by_truth, [-1, math.nan, math.nan])):
        scores = results.nearest(3).scores
        assert scores.flatten().tolist() == pytest.approx([-1, -2, -3, *second], nan_ok=True)
        assert float(results.nearest(3).first_positive_score[0]) == -2
        assert float(results.nearest(3).margins()[0]) == 1
    # The vote of the first item exceeds those of both items behind it.
    lists = evaluate_lists([[0, 1, 2]], query_identities=[7], gallery_identities=[7, 8, 8])
    assert lists.nearest(3).knn_accuracy(temperature=0.5).tolist() == [1.0]
