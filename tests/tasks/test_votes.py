"""Labels by the vote of the nearest: by hand, by the slow reference, and what is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from reid_torchmetrics.tasks import knn_accuracy
from reid_torchmetrics.tasks.votes import VOTES
from tests.profiles import examples
from tests.reference.measures import place_by_votes

NAN = float("nan")
LABELS, SCORES = torch.tensor([[1, 2, 2]]), torch.tensor([[0.9, 0.8, 0.8]])
lists = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.1, 0.5, 0.9])), max_size=6)


def test_the_nearest_of_labels_with_equal_votes_comes_first():
    labels, scores = torch.tensor([[4, 3, 3, 4, 5]]), torch.tensor([[0.9, 0.8, 0.7, 0.6, 0.5]])
    votes = {label: float(knn_accuracy(labels, scores, [label], vote="majority")) for label in (3, 4)}
    assert votes == {3: 0, 4: 1}
    assert knn_accuracy(labels, scores, [3], vote="majority", top_k=2).tolist() == [1]


def test_a_query_without_votes_is_never_right_and_padding_does_not_vote():
    labels, scores = torch.tensor([[-1, -1, -1], [7, -1, -1]]), torch.tensor([[NAN] * 3, [0.5, NAN, NAN]])
    assert knn_accuracy(labels, scores, [-1, 7], top_k=9).tolist() == [0, 1]
    assert knn_accuracy(labels, scores, [-1, 7], only_full=True).tolist() == [0, 0]
    assert knn_accuracy(labels[:0], scores[:0], torch.arange(0)).shape == (0,)


@examples(60)
@given(st.lists(lists, min_size=1, max_size=5), st.sampled_from(sorted(VOTES)), st.integers(1, 3))
def test_a_place_is_that_of_the_slow_reference(problem, vote, top):
    ranked = [sorted(items, key=lambda item: -item[1]) for items in problem]
    width = max(1, *map(len, ranked))
    padded = [[*items, *[(-1, NAN)] * (width - len(items))] for items in ranked]
    labels = torch.tensor([[label for label, _ in items] for items in padded])
    scores = torch.tensor([[score for _, score in items] for items in padded], dtype=torch.float64)
    for own in range(4):
        expected = [place_by_votes(items, own, vote) <= top for items in ranked]
        assert knn_accuracy(labels, scores, [own] * len(ranked), vote=vote, top_k=top).tolist() == expected


def test_results_and_lists_of_a_metric_vote_too():
    generator = torch.Generator().manual_seed(3)
    query, gallery = (torch.randn(num, 4, generator=generator) for num in (9, 30))
    query_identities, identities = torch.arange(9) % 3, torch.arange(30) % 3
    found = evaluate(query, gallery, query_identities, identities, same_camera="keep")
    expected = found.nearest(5).knn_accuracy(vote="majority")
    assert 0 < expected.mean() < 1
    metrics = ReIDMetrics(same_camera="keep")
    metrics.update(query, query_identities, is_query=True)
    metrics.update(gallery, identities, is_query=False)
    assert torch.equal(metrics.nearest(5).knn_accuracy(vote="majority"), expected)
    assert torch.equal(found.nearest(1).knn_accuracy(), found.per_query["rank_1"])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (
            (LABELS, SCORES, [1]),
            {"vote": "mean"},
            ValueError,
            "`vote` must be one of 'weighted', 'majority'; got 'mean'.",
        ),
        ((LABELS, SCORES, [1]), {"temperature": 0.0}, ValueError, "`temperature` must be above 0; got 0.0."),
        ((LABELS, SCORES, [1]), {"top_k": 0}, ValueError, "`top_k` must be at least 1; got 0."),
        (
            (LABELS[:, :2], SCORES, [1]),
            {},
            ValueError,
            r"`labels` must have the shape of `scores`, \[1, 3\]; got \[1, 2\].",
        ),
        ((LABELS / 2, SCORES, [1]), {}, ValueError, "`labels` must hold integers, or whole numbers .*; got .*5."),
        ((LABELS, LABELS, [1]), {}, TypeError, "`scores` must have a floating point dtype of 16 to 64 bits"),
        ((LABELS, SCORES, [1, 2]), {}, ValueError, r"`query_labels` must have shape \[1\]; got \[2\]."),
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_arguments_that_do_not_fit_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        knn_accuracy(*arguments, **options)


def test_lists_without_identities_do_not_vote():
    results = evaluate_scores(torch.rand(1, 3), ground_truth=[{"ok": [0]}], protocol="gldv2")
    with pytest.raises(ValueError, match="`identities` must have been given to the evaluation; got lists without them"):
        results.nearest(2).knn_accuracy()
