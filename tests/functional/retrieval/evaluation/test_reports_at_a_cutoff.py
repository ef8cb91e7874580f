"""Average precision at a cutoff is reported by its name beside the whole list's."""

import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics.functional.retrieval import evaluate_scores

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


def test_titles_and_messages_name_it():
    assert reid_torchmetrics.functional.retrieval.measures.title_of("map_10") == "mAP@10"
    with pytest.raises(ValueError, match="'map_<k>'"):
        evaluate_scores(SCORES, *LABELS, reports=["xyzzy"])
