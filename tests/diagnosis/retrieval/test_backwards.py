"""Distances as `distances`, and the warning where scores and distances seem to be taken for each other."""

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from tests.diagnosis.contract import warned_by

GENERATOR = torch.Generator().manual_seed(5)
LABELS = torch.arange(12) % 4, torch.arange(30) % 5, torch.arange(12) % 3, torch.arange(30) % 2
DISTANCES = torch.randint(6, (12, 30), generator=GENERATOR).float()  # many are equal
SCORES_OF = "`{}` seem to be {}: right answers come last, and first in the opposite order. Pass them as `{}`."
OF_FUNCTION = "`similarity` seems to return distances: .* Higher must be closer, so return minus the distance."


def test_distances_are_not_written_to():
    before = DISTANCES.clone()
    evaluate_scores(None, *LABELS, distances=DISTANCES)
    assert torch.equal(DISTANCES, before)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, ValueError, "`scores` or `distances` must be given, and not both; got neither"),
        ({"scores": DISTANCES, "distances": DISTANCES}, ValueError, "`scores` or `distances` .*; got both"),
        ({"distances": DISTANCES.long()}, TypeError, "`distances` must have a floating point dtype"),
        ({"distances": DISTANCES / 0}, ValueError, "`distances` must give scores that can be ordered; got NaN"),
        ({"distances": DISTANCES[:3]}, ValueError, "`distances` must have one row for each label; got 3 rows for 12"),
        ({"distances": DISTANCES[:, 1:]}, ValueError, r"`distances\.T` must have one row for each label; got 29 rows"),
        ({"distances": "far"}, TypeError, "`distances` must be a tensor, an array or a list of numbers; got str"),
    ],
)
def test_messages_about_distances_name_them(given, error, message):
    with pytest.raises(error, match=f"^{message}"):
        evaluate_scores(query_identities=LABELS[0], gallery_identities=LABELS[1], **given)


def backwards(identities: int, right: int) -> torch.Tensor:
    """Scores of one item of each identity: the own one comes last for the first queries, and in the middle for others.

    In the opposite order, Rank-1 is right / identities.
    """
    places = torch.arange(identities).repeat(identities, 1)
    scores = ((places - torch.arange(identities)[:, None]) % identities).double()
    own = torch.arange(identities)
    scores[own, own] = torch.where(own < right, -1.0, identities / 2 + 0.5).double()
    return scores


@pytest.mark.parametrize(
    ("identities", "right", "is_told"),
    [
        # The odds of a random order, 1 / 19, times 20: 20 / 19, between those of 10 and of 11 of 20.
        (20, 11, True),
        (20, 10, False),
        # The odds 20 / 99 are those of 17 of 100; a quarter must be right.
        (100, 25, True),
        (100, 24, False),
        # Too few identities to tell.
        (19, 19, False),
    ],
)
def test_scores_with_a_good_opposite_are_told(identities, right, is_told):
    scores, labels = backwards(identities, right), torch.arange(identities)
    text = [SCORES_OF.format("scores", "distances", "distances")] * is_told
    assert warned_by(lambda: evaluate_scores(scores, labels, labels)) == text
    text = [SCORES_OF.format("distances", "scores", "scores")] * is_told
    assert warned_by(lambda: evaluate_scores(None, labels, labels, distances=-scores)) == text
    assert not warned_by(lambda: evaluate_scores(-scores, labels, labels))


@pytest.mark.parametrize(("queries", "is_told"), [(100, True), (99, False)])
def test_lists_tell_by_their_queries(queries, is_told):
    lists = [{"ok": [query]} for query in range(queries)]
    assert len(warned_by(lambda: evaluate_scores(backwards(queries, queries), ground_truth=lists))) == is_told


def test_the_queries_of_one_identity_count_as_one():
    labels = torch.arange(20) % 10  # ten identities, however many queries
    scores = backwards(10, 10).repeat(2, 1)
    assert not warned_by(lambda: evaluate_scores(scores, labels, labels[:10]))


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic", "expected"])
def test_a_model_that_has_collapsed_is_not_backwards(ties):
    labels = torch.arange(40)
    assert not warned_by(lambda: evaluate_scores(torch.zeros(40, 40), labels, labels, ties=ties))


def test_few_hits_alone_are_not_backwards():
    # The own item comes second: Rank-1 is 0, and average precision 1/2, above that of a random order.
    labels, scores = torch.arange(40), torch.zeros(40, 40).double()
    scores[labels, labels], scores[labels, (labels + 1) % 40] = 1.0, 2.0
    scores -= torch.arange(40) * 1e-3
    assert not warned_by(lambda: evaluate_scores(scores, labels, labels))


EMBEDDINGS = torch.eye(24).repeat_interleave(3, 0) + 0.05 * torch.randn((72, 24), generator=GENERATOR)
IDENTITIES, IS_QUERY = torch.arange(72) // 3, torch.arange(72) % 3 == 0


def far(query: torch.Tensor, gallery: torch.Tensor) -> torch.Tensor:
    return (query[:, None] - gallery).norm(dim=2)


def fed(metric):
    metric.update(EMBEDDINGS, IDENTITIES, is_query=IS_QUERY)
    return metric


def test_a_function_that_returns_distances_is_told_once_for_each_metric():
    sides = EMBEDDINGS[IS_QUERY], EMBEDDINGS[~IS_QUERY], IDENTITIES[IS_QUERY], IDENTITIES[~IS_QUERY]
    with pytest.warns(UserWarning, match=f"^{OF_FUNCTION}$") as said:
        evaluate(*sides, similarity=far)
    assert len(said) == 1
    assert not warned_by(lambda: evaluate(*sides, similarity=lambda one, two: -far(one, two)))
    first, second = fed(ReIDMetrics(similarity=far)), fed(ReIDMeanAP(similarity=far))
    assert len(warned_by(lambda: (first.compute(), first.compute(), first.results()))) == 1
    assert len(warned_by(second.compute)) == 1  # it takes the ranking of the first
    first.reset()
    assert len(warned_by(lambda: (fed(first).compute(), first.results(nearest=3)))) == 1
