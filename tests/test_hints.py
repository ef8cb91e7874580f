"""Messages about unknown names say what the words of other libraries and of papers are called here."""

import re

import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics import DetectionMAP, ReIDCMC, ReIDMetrics, evaluate

QUERY, GALLERY = torch.randn(4, 3), torch.randn(8, 3)
LABELS = [0, 1, 0, 1], [0, 1] * 4

ARGUMENTS = {
    "labels": "query_identities",
    "targets": "query_identities",
    "identities": "query_identities",
    "query_labels": "query_identities",
    "gallery_labels": "gallery_identities",
    "camids": "query_cameras",
    "g_camids": "gallery_cameras",
    "topk": "k",
    "metrics": "reports",
    "ranks": "reports",
    "dataset": "protocol",
    "metric": "similarity",
    "batch_size": "max_bytes",
    "ignore_index": "junk_identities",
    "remove_same_camera": "same_camera",
    "re_rank": "rerank",
}
REPORTS = {
    "mAP": "map",
    "Rank-1": "rank_1",
    "r1": "rank_1",
    "top-5": "rank_5",
    "CMC-5": "rank_5",
    "R@1": "hit_rate_1",
    "recall@10": "hit_rate_10",
    "recall_at_1": "hit_rate_1",
    "hits@3": "hit_rate_3",
    "success@1": "hit_rate_1",
    "P@10": "precision_10",
    "MAP@R": "map_at_r",
    "NDCG@10": "ndcg_10",
    "r_prec": "r_precision",
}
PROTOCOLS = {
    "cifar10": "hashing",
    "NUS-WIDE": "hashing",
    "stanford_online_products": "sop",
    "Market-1501": "market1501",
    "duke": "dukemtmc",
    "VeRi-776": "veri776",
    "coco": "coco_captions",
    "CUB-200-2011": "cub200",
}
UPDATES = {"pids": "identities", "camids": "cameras", "query": "is_query", "indexes": "index"}


def message_of(call):
    with pytest.raises((TypeError, ValueError, AttributeError)) as raised:
        call()
    return str(raised.value)


def meant_in(message):
    """The name that a message says was meant."""
    found = re.search(r"which may be [`'\"]([^`'\"]+)", message)
    return found[1] if found else None


@pytest.mark.parametrize(("word", "meant"), ARGUMENTS.items())
def test_arguments_of_evaluate(word, meant):
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, **{word: 1}))) == meant


@pytest.mark.parametrize(("word", "meant"), REPORTS.items())
def test_reports(word, meant):
    message = message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, reports=(word,)))
    assert meant_in(message) == meant
    assert ("'recall_" in message) == word.lower().startswith(("r@", "recall"))


@pytest.mark.parametrize(("word", "meant"), PROTOCOLS.items())
def test_protocols(word, meant):
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, protocol=word))) == meant


@pytest.mark.parametrize(("word", "meant"), UPDATES.items())
def test_arguments_of_update(word, meant):
    assert meant_in(message_of(lambda: ReIDMetrics().update(QUERY, **{word: LABELS[0]}))) == meant
    assert meant_in(message_of(lambda: ReIDCMC().update(QUERY, **{word: LABELS[0]}))) == meant


def test_options_of_metrics():
    assert meant_in(message_of(lambda: ReIDCMC(k=5))) == "top_k"
    assert meant_in(message_of(lambda: ReIDMetrics(top_k=(1, 5)))) == "ranks"
    assert "`similarity='cosine'` normalizes" in message_of(lambda: ReIDMetrics(feat_norm=True))
    assert meant_in(message_of(lambda: DetectionMAP(max_dets=100))) == "max_detection_thresholds"
    assert meant_in(message_of(lambda: DetectionMAP(metric="mAP@0.5"))) == "map_50"
    assert "`average='micro'`" in message_of(lambda: DetectionMAP(class_agnostic=True))


def test_attributes_and_imports():
    results = evaluate(QUERY, GALLERY, *LABELS)
    assert "results.to_frame().to_csv(path)" in message_of(lambda: results.to_csv)
    assert "results['rank_1']" in message_of(lambda: results.rank1)
    assert "there is `DetectionMAP`" in message_of(lambda: reid_torchmetrics.MeanAveragePrecision)
    assert "there is `ReIDMetrics`" in message_of(lambda: reid_torchmetrics.R1_mAP_eval)
    assert "is in `reid_torchmetrics.functional.retrieval`" in message_of(lambda: reid_torchmetrics.RetrievalResults)
    assert "is in `reid_torchmetrics.coco`" in message_of(lambda: reid_torchmetrics.COCOeval)


@pytest.mark.parametrize("word", ["zebra", "qwerty", "_", "7"])
def test_a_word_that_is_not_known_has_no_hint(word):
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, reports=(word,)))) is None
    assert meant_in(message_of(lambda: evaluate(QUERY, GALLERY, *LABELS, protocol=word))) is None
