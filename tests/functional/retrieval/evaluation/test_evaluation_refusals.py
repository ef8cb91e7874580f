"""What one call refuses, in words."""

import pytest

from reid_torchmetrics.functional.retrieval import evaluate, evaluate_scores
from reid_torchmetrics.tasks import KReciprocal
from tests.functional.retrieval.evaluation.one_call import (
    GALLERY,
    GALLERY_CAM,
    GALLERY_ID,
    LABELS,
    LISTS,
    QUERY,
    QUERY_ID,
    SCORES,
)

BAD = [
    (
        lambda: evaluate_scores(SCORES[:2], ground_truth=LISTS, protocol="roxford5k_easy", same_camera="all"),
        "`same_camera` must come with labels; got `ground_truth`, lists, which it cannot act on.",
    ),
    (
        lambda: evaluate(QUERY, GALLERY, *LABELS, protocol="cub200"),
        "`gallery` must be left out under protocol 'cub200', which searches every query among the others,",
    ),
    (
        lambda: evaluate(GALLERY, None, GALLERY_ID, None, GALLERY_CAM, protocol="vehicleid", same_camera="all"),
        "`queries_in_draw` must come without a camera rule or another that drops pairs; got a rule about cameras",
    ),
    (
        lambda: evaluate(QUERY, GALLERY, *LABELS, protocol="roxford5k_easy"),
        "`protocol` 'roxford5k_easy' needs `ground_truth`, lists for every query; got labels.",
    ),
    (
        lambda: evaluate(QUERY, GALLERY),
        "`gallery_identities` must be given unless relevance is by `radius` or by lists; got none.",
    ),
    (
        lambda: evaluate(QUERY, GALLERY, QUERY_ID),
        "must be given unless relevance is by `radius` or by lists; got only `query_identities`.",
    ),
    (
        lambda: evaluate(QUERY, GALLERY, QUERY_ID, ground_truth=LISTS),
        "`ground_truth` must come without labels; got `query_identities` too.",
    ),
    (
        lambda: evaluate(QUERY, None, QUERY_ID, GALLERY_ID),
        "`gallery_identities` must come with `gallery`; got it without.",
    ),
    (
        lambda: evaluate(QUERY, GALLERY, *LABELS, similarity="dot", rerank=KReciprocal()),
        "`similarity` must be 'cosine' or 'euclidean' for k-reciprocal re-ranking; got 'dot'.",
    ),
    (
        lambda: evaluate_scores(SCORES[:2], ground_truth=LISTS, protocol="market1501"),
        "`ground_truth` must name one of 'ok' for every query; got ['easy', 'hard', 'junk'] for 0.",
    ),
    (
        lambda: evaluate_scores(SCORES[:1], ground_truth=[{"ok": [1], "god": [2]}], protocol="oxford5k"),
        "of the protocol name, 'good', 'ok', 'junk'; got 'god' for query 0.",
    ),
    (
        lambda: evaluate_scores(SCORES[:2], ground_truth=LISTS, protocol="roxford5k_easy", junk_lists=("junk",)),
        "`positive_lists` or `junk_lists` of the protocol name, 'easy', 'junk'; got 'hard' for query 0.",
    ),
    (
        lambda: evaluate_scores(SCORES[:3], ground_truth=LISTS, protocol="roxford5k_easy"),
        "`ground_truth` must hold one entry for each of 3 queries; got 2.",
    ),
    (
        lambda: evaluate(QUERY[:2], GALLERY[:6], ground_truth=LISTS, protocol="roxford5k_medium"),
        "`ground_truth[1]['hard']` must lie in [0, 6); got values from 3 to 7.",
    ),
    (
        lambda: evaluate_scores(SCORES[:1], ground_truth=[{"ok": [1], "good": [1]}], protocol="oxford5k"),
        "`ground_truth` must list a gallery item once for a query; got item 1 twice for query 0.",
    ),
    (
        lambda: evaluate(QUERY, None, QUERY_ID, multi_query=True),
        "no labels but identities and cameras, and no `self_index`; got no `gallery`.",
    ),
    (
        lambda: evaluate(QUERY, GALLERY, query_sequences=QUERY_ID, gallery_sequences=GALLERY_ID, multi_query=True),
        "no labels but identities and cameras, and no `self_index`; got no `query_identities` and `query_sequences`.",
    ),
    (lambda: evaluate(QUERY, GALLERY, *LABELS).by_camera("mrr"), "`name` must be one of 'map', 'minp', 'rank_1',"),
    (
        lambda: evaluate(QUERY, GALLERY, *LABELS[:2]).by_camera(),
        "`query_cameras` must have been given to the evaluation; got results without them.",
    ),
    (
        lambda: evaluate_scores(SCORES, *LABELS, protocol="cuhk03_torchreid").by_camera_pair("map"),
        "`by_camera_pair` must come with a protocol that draws no gallery; got GalleryDraw(shots=1, per='identity').",
    ),
    (
        lambda: evaluate(GALLERY, None, GALLERY_ID, protocol="vehicleid").by_camera(),
        "`by_camera` must come with a protocol that draws no gallery from the queries; got `queries_in_draw` and",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_a_bad_call_is_named(call, message):
    with pytest.raises(ValueError, match="`") as raised:
        call()
    assert message in str(raised.value)
