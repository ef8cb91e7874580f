"""One call: every protocol, what results say of themselves, and what they compute when asked."""

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from reid_torchmetrics.functional.retrieval.evaluation import Labels
from reid_torchmetrics.functional.retrieval.scores import Rows
from reid_torchmetrics.tasks import KReciprocal, QueryExpansion, rerank_k_reciprocal
from reid_torchmetrics.tasks.pooled_queries import pool_queries
from tests.functional.retrieval.evaluation.one_call import (
    EXPECTED,
    GALLERY,
    GALLERY_CAM,
    GALLERY_ID,
    LABELS,
    QUERY,
    QUERY_CAM,
    QUERY_ID,
    SCORES,
    mean,
)
from tests.reference.retrieval import evaluate as reference
from tests.reference.retrieval import similarity


def test_market_1501_is_what_the_slow_reference_says():
    results = evaluate(QUERY, GALLERY, *LABELS)
    expected = {
        "map": mean(EXPECTED.average_precision["rectangle"]),
        "minp": mean(EXPECTED.inverse_negative_penalty),
        "rank_1": EXPECTED.cmc(1)[0],
        "rank_5": EXPECTED.cmc(5)[4],
        "rank_10": EXPECTED.cmc(10)[9],
    }
    assert results.means == pytest.approx(expected, abs=1e-6)
    assert results.cmc.tolist() == pytest.approx(EXPECTED.cmc(50))
    assert (results.counts.total, results.counts.junk) == (20, int((QUERY_ID == -1).sum()))


def test_an_option_overrides_the_protocol():
    results = evaluate(QUERY, GALLERY, *LABELS, rule="trapezoid", same_camera="keep")
    expected = reference(SCORES, *LABELS, same_camera="keep")
    assert results.means["map"] == pytest.approx(mean(expected.average_precision["trapezoid"]), abs=1e-6)
    assert "market1501 with rule='trapezoid', same_camera='keep'" in repr(results)
    assert "rule trapezoid" in results.conventions["map"]


@pytest.mark.parametrize("protocol", ["oxford5k", "paris6k"])
@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({"good": [0], "ok": [2], "junk": [1]}, 1),  # without the junk the positives are first and second
        ({"good": [0], "junk": [1]}, 1),
        ({"ok": [2], "junk": [1]}, 1 / 4),  # at rank 2: (0/1 + 1/2) / 2
        ({"good": [0], "ok": [2], "junk": [1], "bbx": [0.0, 0.0, 9.5, 9.5], "query": "all_souls_1"}, 1),
    ],
)
def test_oxford_and_paris_take_good_and_ok_for_positives_as_their_own_files_have_them(protocol, lists, expected):
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6]])
    assert evaluate_scores(scores, ground_truth=[lists], protocol=protocol).means == {"map": expected}


@pytest.mark.needs("diagnosis")
def test_multi_query_pools_the_queries_of_an_identity_and_camera():
    results = evaluate(QUERY, GALLERY, *LABELS, multi_query=True)
    rows, labels = pool_queries(Rows([QUERY]), Labels({"identities": QUERY_ID, "cameras": QUERY_CAM}, {}), GALLERY)
    pooled, identities, cameras = rows.all(), *labels.query.values()
    expected = evaluate(pooled, GALLERY, identities, GALLERY_ID, cameras, GALLERY_CAM)
    assert results.means == expected.means
    assert results.query_identities.tolist() == identities.tolist()
    with pytest.warns(UserWarning, match=r"^`multi_query=True` pooled nothing: each query is the only one"):
        again = evaluate(pooled, GALLERY, identities, GALLERY_ID, cameras, GALLERY_CAM, multi_query=True)
    assert again.means == pytest.approx(expected.means)


@pytest.mark.parametrize("similarity", ["cosine", "euclidean"])
def test_re_ranking_starts_from_distances_of_unit_vectors_under_cosine(similarity):
    options = {"k1": 5, "k2": 2, "weight": 0.3}
    results = evaluate(QUERY, GALLERY, *LABELS, similarity=similarity, rerank=KReciprocal(**options))
    scores = rerank_k_reciprocal(QUERY, GALLERY, **options, normalize=similarity == "cosine")
    assert results.means == pytest.approx(evaluate_scores(-scores.distances(), *LABELS).means)
    assert "KReciprocal" in results.to_dict()["setup"]["rerank"]
    assert "re-ranked by KReciprocal" in repr(results)


def naive_leave_one_out(embeddings: Tensor, labels: Tensor, scores: Tensor) -> float:
    """Mean AP of every item among the others."""
    expected = reference(scores, labels, labels, junk_identities=(), self_index=torch.arange(len(embeddings)))
    return mean(expected.average_precision["rectangle"])


@pytest.mark.slow
def test_an_item_is_itself_once_when_it_is_re_ranked_among_the_others():
    items, labels, distances = GALLERY[:40], GALLERY_ID[:40], torch.zeros(40, 40)
    results = evaluate(items, query_identities=labels, junk_identities=(), rerank=KReciprocal(k1=6, k2=3))
    for item in range(40):  # one query against the others is the same set of items
        others = torch.arange(40) != item
        found = rerank_k_reciprocal(items[[item]], items[others], k1=6, k2=3, normalize=True)
        distances[item, others] = found.distances()[0]
    assert results.means["map"] == pytest.approx(naive_leave_one_out(items, labels, -distances), abs=1e-5)


def test_a_query_among_the_others_is_not_expanded_by_itself():
    for expanded in ("queries", "together"):
        expansion = QueryExpansion(k=2, alpha=1.0, expanded=expanded)
        results = evaluate(GALLERY, query_identities=GALLERY_ID, junk_identities=(), rerank=expansion)
        _, query = QueryExpansion(k=2, alpha=1.0, expanded="gallery_first").expand(GALLERY[:0], GALLERY)
        gallery = query if expanded == "together" else GALLERY
        scores = torch.from_numpy(similarity(query.numpy(), gallery.numpy()))
        assert results.means["map"] == pytest.approx(naive_leave_one_out(GALLERY, GALLERY_ID, scores), abs=1e-6)


def test_a_query_with_lists_does_not_meet_itself():
    lists = [{"ok": torch.tensor([(place + 1) % 80])} for place in range(80)]
    results = evaluate(GALLERY, ground_truth=lists, protocol="oxford5k")
    assert results.num_candidates.tolist() == [79] * 80
    assert (results.nearest(1).index[:, 0] != torch.arange(80)).all()


def test_conventions_name_what_they_rest_on():
    sysu = evaluate_scores(SCORES, *LABELS, protocol="sysu_mm01_indoor_multi").conventions["rank_1"]
    assert all(words in sysu for words in ("over identities", "shots=10", "3 for 2", "cameras searched: 1, 2"))
    assert "no cameras" in evaluate_scores(SCORES, *LABELS[:2]).conventions["map"]
    assert "weighted" in evaluate(GALLERY, query_identities=GALLERY_ID, protocol="vehicleid").conventions["map"]
    assert "pooled" in repr(evaluate(QUERY, GALLERY, *LABELS, multi_query=True))


@pytest.mark.parametrize("protocol", ["market1501", "cuhk03_torchreid"])
def test_the_curve_has_the_length_that_was_asked_for(protocol):
    results = evaluate_scores(SCORES, *LABELS, protocol=protocol, max_rank=7)
    assert results.cmc.tolist() == pytest.approx(evaluate_scores(SCORES, *LABELS, protocol=protocol).cmc[:7].tolist())
