"""One call: every protocol, what results say of themselves, and what they compute when asked."""

import math

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import (
    PROTOCOLS,
    GalleryDraw,
    evaluate,
    evaluate_scores,
    find_relevance,
    scores_from_matrix,
)
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.tasks import KReciprocal, QueryExpansion, expand_queries, rerank_k_reciprocal
from reid_torchmetrics.tasks.draws import expect_draws
from reid_torchmetrics.tasks.pooled_queries import pool_queries
from tests.functional.retrieval.evaluation.one_call import (
    EXPECTED,
    FURTHER,
    GALLERY,
    GALLERY_CAM,
    GALLERY_ID,
    LABELS,
    LISTS,
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


def test_scores_give_what_embeddings_give():
    of_scores = evaluate_scores(SCORES, *LABELS)
    assert of_scores.means == pytest.approx(evaluate(QUERY, GALLERY, *LABELS).means, abs=1e-6)


def test_the_official_script_takes_trapezoids_and_counts_empty_queries():
    results = evaluate(QUERY, GALLERY, *LABELS, protocol="market1501_official")
    expected = [0.0 if math.isnan(value) else value for value in EXPECTED.average_precision["trapezoid"]]
    assert results.means["map"] == pytest.approx(sum(expected) / 20, abs=1e-6)


def test_an_option_overrides_the_protocol():
    results = evaluate(QUERY, GALLERY, *LABELS, rule="trapezoid", same_camera="keep")
    expected = reference(SCORES, *LABELS, same_camera="keep")
    assert results.means["map"] == pytest.approx(mean(expected.average_precision["trapezoid"]), abs=1e-6)
    assert "market1501 with rule='trapezoid', same_camera='keep'" in repr(results)
    assert "rule trapezoid" in results.conventions["map"]


def test_leave_one_out_searches_among_the_others():
    results = evaluate(GALLERY, query_identities=GALLERY_ID, protocol="cub200")
    own = torch.arange(80)
    scores = torch.from_numpy(similarity(GALLERY.numpy(), GALLERY.numpy()))
    expected = reference(scores, GALLERY_ID, GALLERY_ID, junk_identities=(), self_index=own)
    assert results.means["hit_rate_1"] == pytest.approx(expected.cmc(1)[0])
    assert set(results.means) == {"map_at_r", "r_precision", *(f"hit_rate_{k}" for k in (1, 2, 4, 8))}


def test_cuhk03_of_open_reid_has_one_filter_for_the_cmc_and_another_for_average_precision():
    results = evaluate_scores(SCORES, *LABELS, protocol="cuhk03_openreid")
    relevance = find_relevance(*LABELS, same_camera="all")
    drawn = expect_draws(
        scores_from_matrix(SCORES, relevance), relevance, GalleryDraw(1, "identity"), with_precision=False
    )
    assert results.means["map"] == pytest.approx(mean(EXPECTED.average_precision["rectangle"]))
    assert results.cmc.tolist() == pytest.approx(drawn.cmc.nanmean(0).tolist())
    assert results.means["rank_5"] == pytest.approx(float(results.cmc[4]))


def test_vehicleid_weighs_every_image_by_its_chance_to_be_a_query():
    scores = torch.rand(40, 40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    identities = torch.arange(40) % 7
    identities[-1] = 100  # alone: always in the gallery, never a query
    own = torch.arange(40)
    results = evaluate_scores(scores, identities, identities, self_index=own, protocol="vehicleid")
    relevance = find_relevance(identities, identities, same_camera="keep", self_index=own)
    drawn = expect_draws(
        scores_from_matrix(scores, relevance), relevance, GalleryDraw(1, "identity"), queries_in_draw=True
    )
    size = torch.bincount(identities)[identities].double()
    weight = (size - 1) / size
    assert results.means["map"] == pytest.approx(float((weight * drawn.average_precision).nansum() / weight.sum()))
    assert results.counts.valid == 39


def test_sysu_searches_its_cameras_and_camera_3_leaves_out_camera_2():
    generator = torch.Generator().manual_seed(5)
    cameras = torch.randint(1, 7, (60,), generator=generator)
    queries = torch.tensor([3, 6, 3, 6, 3, 6])
    scores, identities = torch.rand(6, 60, generator=generator, dtype=torch.float64), torch.arange(60) % 5
    results = evaluate_scores(
        scores, torch.arange(6) % 5, identities, queries, cameras, protocol="sysu_mm01_indoor_single"
    )
    searched = torch.isin(cameras, torch.tensor([1, 2]))
    relevance = find_relevance(
        torch.arange(6) % 5, identities[searched], queries, cameras[searched], same_camera="all", camera_map={3: 2}
    )
    draw = GalleryDraw(1, "identity_and_camera")
    drawn = expect_draws(scores_from_matrix(scores[:, searched], relevance), relevance, draw)
    assert results.means["map"] == pytest.approx(float(drawn.average_precision.nanmean()))
    assert results.means["minp"] == pytest.approx(float(drawn.inverse_negative_penalty.nanmean()))


@pytest.mark.parametrize(
    ("name", "positives", "junk"),
    [
        ("easy", [[0, 1], []], [[2, 5], [7, 3]]),
        ("medium", [[0, 1, 5], [7, 3]], [[2], []]),
        ("hard", [[5], [7, 3]], [[2, 0, 1], []]),
    ],
)
def test_the_revisited_oxford_takes_its_lists_by_difficulty(name, positives, junk):
    scores = torch.rand(2, 9, generator=torch.Generator().manual_seed(0))
    results = evaluate_scores(scores, ground_truth=LISTS, protocol=f"roxford5k_{name}")
    for row, (own, out) in enumerate(zip(positives, junk, strict=True)):
        labels = torch.tensor([1 if place in own else -1 if place in out else 0 for place in range(9)])
        expected = reference(scores[row : row + 1], torch.tensor([1]), labels).average_precision["trapezoid"][0]
        assert float(results.per_query["map"][row]) == pytest.approx(expected, nan_ok=True)
    assert set(results.means) == {"map", "precision_1", "precision_5", "precision_10"}


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


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"positive_lists": ("ok",), "junk_lists": ("good", "junk")}, 1),
        ({"positive_lists": ["junk"], "junk_lists": ["good", "ok"]}, 1),
        ({"positive_lists": ("good", "ok", "junk"), "junk_lists": ()}, 1),
        ({"positive_lists": ("ok",), "junk_lists": ("good",), "protocol": "market1501"}, 1 / 2),
    ],
)
def test_a_protocol_of_ones_own_names_its_lists(chosen, expected):
    scores, lists = torch.tensor([[0.9, 0.8, 0.7, 0.6]]), {"good": [0], "ok": [2], "junk": [1]}
    if "junk" not in (*chosen["positive_lists"], *chosen["junk_lists"]):
        del lists["junk"]  # a negative, ahead of the positive
    means = evaluate_scores(scores, ground_truth=[lists], **({"protocol": "oxford5k"} | chosen)).means
    assert means["map"] == expected


def test_multi_query_pools_the_queries_of_an_identity_and_camera():
    results = evaluate(QUERY, GALLERY, *LABELS, multi_query=True)
    pooled = pool_queries(QUERY, QUERY_ID, QUERY_CAM)
    expected = evaluate(pooled.embeddings, GALLERY, pooled.identities, GALLERY_ID, pooled.cameras, GALLERY_CAM)
    assert results.means == expected.means
    assert results.query_identities.tolist() == pooled.identities.tolist()
    with pytest.warns(UserWarning, match=r"^`multi_query=True` pooled nothing: each query is the only one"):
        again = evaluate(
            pooled.embeddings, GALLERY, pooled.identities, GALLERY_ID, pooled.cameras, GALLERY_CAM, multi_query=True
        )
    assert again.means == pytest.approx(expected.means)


@pytest.mark.parametrize("similarity", ["cosine", "euclidean"])
def test_re_ranking_starts_from_distances_of_unit_vectors_under_cosine(similarity):
    options = {"k1": 5, "k2": 2, "weight": 0.3}
    results = evaluate(QUERY, GALLERY, *LABELS, similarity=similarity, rerank=KReciprocal(**options))
    scores = rerank_k_reciprocal(QUERY, GALLERY, **options, normalize=similarity == "cosine")
    assert results.means == pytest.approx(evaluate_scores(-scores.distances(), *LABELS).means)
    assert "KReciprocal" in results.to_dict()["setup"]["rerank"]
    assert "re-ranked by KReciprocal" in repr(results)


def test_query_expansion_comes_before_the_ranking():
    results = evaluate(QUERY, GALLERY, *LABELS, rerank=QueryExpansion(k=3, alpha=2.0))
    expanded = expand_queries(QUERY, GALLERY, k=3, alpha=2.0)
    assert results.means == evaluate(expanded, GALLERY, *LABELS).means


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


def test_an_option_may_switch_off_what_a_protocol_has():
    assert evaluate(QUERY, GALLERY, *LABELS, protocol="gldv2", k=None).protocol.k is None
    without = evaluate(QUERY, GALLERY, *LABELS, protocol="cuhk03_torchreid", gallery_draw=None)
    assert without.means["rank_1"] == pytest.approx(EXPECTED.cmc(1)[0])


def test_conventions_name_what_they_rest_on():
    sysu = evaluate_scores(SCORES, *LABELS, protocol="sysu_mm01_indoor_multi").conventions["rank_1"]
    assert all(words in sysu for words in ("over identities", "shots=10", "3 for 2", "cameras searched: 1, 2"))
    assert "no cameras" in evaluate_scores(SCORES, *LABELS[:2]).conventions["map"]
    assert "weighted" in evaluate(GALLERY, query_identities=GALLERY_ID, protocol="vehicleid").conventions["map"]
    assert "pooled" in repr(evaluate(QUERY, GALLERY, *LABELS, multi_query=True))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_evaluates_embeddings_or_lists(protocol):
    if PROTOCOLS[protocol].needs_lists:
        names = {*PROTOCOLS[protocol].positive_lists, *PROTOCOLS[protocol].junk_lists}
        every = [lists | {"ok": lists["hard"], "good": lists["easy"]} for lists in LISTS]
        ground_truth = [{name: lists[name] for name in names} for lists in every]
        results = evaluate_scores(SCORES[:2], ground_truth=ground_truth, protocol=protocol)
        assert "positives: " in results.conventions["map"]
    elif PROTOCOLS[protocol].leave_one_out:
        results = evaluate(GALLERY, query_identities=GALLERY_ID, protocol=protocol)
    else:
        groups = 10 * GALLERY_ID + GALLERY_CAM if PROTOCOLS[protocol].needs_groups else None
        results = evaluate_scores(SCORES, *LABELS, **FURTHER, protocol=protocol, gallery_groups=groups)
    shares = {name: mean for name, mean in results.means.items() if not parse_report(name)[0].is_rank}
    assert all(0 <= mean <= 1 for mean in shares.values() if not math.isnan(mean))
    assert set(results.means) == set(PROTOCOLS[protocol].reports)


def test_the_memory_bound_changes_nothing():
    for protocol in ("market1501", "cuhk03_torchreid"):
        means = evaluate_scores(SCORES, *LABELS, protocol=protocol).means
        assert evaluate_scores(SCORES, *LABELS, protocol=protocol, max_bytes=500).means == pytest.approx(
            means, abs=1e-12
        )


@pytest.mark.parametrize("protocol", ["market1501", "cuhk03_torchreid"])
def test_the_curve_has_the_length_that_was_asked_for(protocol):
    results = evaluate_scores(SCORES, *LABELS, protocol=protocol, max_rank=7)
    assert results.cmc.tolist() == pytest.approx(evaluate_scores(SCORES, *LABELS, protocol=protocol).cmc[:7].tolist())
