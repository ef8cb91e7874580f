"""Average precision at a cutoff is reported by its name beside the whole list's."""

import numpy as np
import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics import ReIDMeasure, ReIDMetrics, evaluate, evaluate_lists
from reid_torchmetrics.functional.retrieval import Protocol, evaluate_scores
from reid_torchmetrics.functional.retrieval.measures import AP_RULES
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from tests.profiles import each_row

SCORES = torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]])
LABELS = [1, 2], [1, 2, 1, 2, 1, 2]  # positives at ranks 1, 3 and 5, and at ranks 2, 4 and 6


@pytest.mark.parametrize(
    ("normalizer", "first", "second"),
    [
        ("positives", (1 + 2 / 3) / 3, (1 / 2) / 3),
        ("attainable", (1 + 2 / 3) / 3, (1 / 2) / 3),
        ("hits", (1 + 2 / 3) / 2, 1 / 2),
        ("k", (1 + 2 / 3) / 3, (1 / 2) / 3),
    ],
)
def test_map_at_three_is_worked_out_by_hand(normalizer, first, second):
    whole = {"k": 4} if normalizer == "k" else {}  # this normalizer needs a cutoff for "map"
    results = evaluate_scores(SCORES, *LABELS, reports=("map", "map_3"), normalizer=normalizer, **whole)
    assert results.per_query["map_3"].tolist() == pytest.approx([first, second])
    assert results["map_3"] == pytest.approx((first + second) / 2)


def test_the_name_decides_where_the_protocol_has_another_cutoff():
    results = evaluate_scores(SCORES, *LABELS, reports=("map", "map_1"), k=3)
    assert results.per_query["map"].tolist() == pytest.approx([(1 + 2 / 3) / 3, (1 / 2) / 3])
    assert results.per_query["map_1"].tolist() == pytest.approx([1 / 3, 0])
    assert "over the first 1, divided by positives" in results.conventions["map_1"]
    assert "over the first 3, divided by positives" in results.conventions["map"]


@each_row("rule", AP_RULES)
@pytest.mark.parametrize("ties", [name for name, policy in TIE_POLICIES.items() if not policy.averages])
def test_map_at_a_cutoff_equals_the_option_k_at_every_entry_point(rule, ties):
    rng = np.random.default_rng(3)
    query, gallery = rng.integers(-2, 3, size=(8, 3)), rng.integers(-2, 3, size=(30, 3))
    labels = rng.integers(0, 4, size=8), rng.integers(0, 4, size=30)
    protocol = Protocol("own", "this test", rule=rule)
    options = {"similarity": "dot", "protocol": protocol, "ties": ties}
    embeddings = query.astype("float32"), gallery.astype("float32")
    expected = evaluate(*embeddings, *labels, k=5, **options)["map"]
    assert evaluate(*embeddings, *labels, reports=["map_5"], **options)["map_5"] == expected
    metric, collection = ReIDMeasure("map_5", **options), ReIDMetrics(reports=("map_5", "map"), **options)
    for is_query, rows, identities in ((True, embeddings[0], labels[0]), (False, embeddings[1], labels[1])):
        for each in (metric, collection):
            each.update(torch.from_numpy(rows), torch.from_numpy(identities), is_query=is_query)
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-6)
    values = collection.compute()
    assert float(values["map_5"]) == pytest.approx(expected, abs=1e-6)
    assert float(values["map"]) == pytest.approx(evaluate(*embeddings, *labels, **options)["map"], abs=1e-6)


def test_lists_count_those_that_are_shorter_than_the_cutoff():
    lists = [[0, 1, 2], [0]]
    results = evaluate_lists(lists, query_identities=[1, 2], gallery_identities=LABELS[1], reports=["map_2"])
    assert results.per_query["map_2"].tolist() == pytest.approx([1 / 3, 0])
    assert results.list_counts.num_short == 1


def test_titles_and_messages_name_it():
    assert reid_torchmetrics.functional.retrieval.measures.title_of("map_10") == "mAP@10"
    with pytest.raises(ValueError, match="'map_<k>'"):
        evaluate_scores(SCORES, *LABELS, reports=["xyzzy"])
