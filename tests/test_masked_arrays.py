"""Arrays with masked values, which stand for no number, are refused wherever an array is taken."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, ReIDMetrics, tasks
from reid_torchmetrics.functional import retrieval
from tests.test_arrays import BOXES, IDS, IS_QUERY, X, parts


def updated(metric, *batch, **options):
    metric.update(*batch, **options)
    return metric.compute()


def of_a_counter(query, identities, block, block_identities):
    counter = tasks.RankCounter(query, X[8:16], identities, IDS[8:16])
    return tasks.evaluate_stream(counter, counter.count(block, block_identities, key=0)).means


def of_boxes(boxes, scores, labels):
    item = {"boxes": boxes, "scores": scores, "labels": labels}
    return updated(DetectionMAP(), [item], [{"boxes": BOXES, "labels": torch.tensor([1, 2])}])


Q, G, POSITIONS = X[:8].numpy(), X[8:].numpy(), IDS.numpy()
PAIRS = np.array([0.5, 0.25, 1.0]), np.array([True, False, True])
DETECTED = BOXES.numpy(), np.array([0.5, 0.25]), np.array([1, 2])
MASKED: dict[str, tuple[Callable, tuple[np.ndarray, ...], tuple[str, ...]]] = {
    "evaluate": (
        lambda *given: retrieval.evaluate(*given).means,
        (Q, G, POSITIONS[:8], POSITIONS[8:]),
        ("`query`", "`gallery`", "`query_identities`", "`gallery_identities`"),
    ),
    "evaluate_scores": (
        lambda *given: retrieval.evaluate_scores(*given).means,
        (Q @ G.T, POSITIONS[:8], POSITIONS[8:]),
        ("`scores`", "`query_identities`", "`gallery_identities`"),
    ),
    "update": (
        lambda *given: updated(ReIDMetrics(), *given[:2], is_query=given[2]),
        (X.numpy(), POSITIONS, IS_QUERY.numpy()),
        ("`embeddings`", "`identities`", "`is_query`"),
    ),
    "update of boxes": (of_boxes, DETECTED, ("preds[0]['boxes']", "preds[0]['scores']", "preds[0]['labels']")),
    "verify_pairs": (lambda *given: vars(tasks.verify_pairs(*given)), PAIRS, ("`scores`", "`same`")),
    "evaluate_lists": (
        lambda retrieved, first: tasks.evaluate_lists(retrieved, [first, [3]]).means,
        (np.array([[1, 2], [3, 4]]), np.array([2, 1])),
        ("`retrieved`", "`positives`"),
    ),
    "ground truth": (
        lambda scores, easy: (
            retrieval.evaluate_scores(
                scores, ground_truth=[{"easy": easy, "hard": [3]}], protocol="roxford5k_medium"
            ).means
        ),
        (Q[:1] @ G.T, np.array([2, 1])),
        ("`scores`", "`ground_truth[0]['easy']`"),
    ),
    "RankCounter": (
        of_a_counter,
        (Q, POSITIONS[:8], G, POSITIONS[8:] + 100),
        ("`query`", "`query_identities`", "`embeddings`", "`identities`"),
    ),
    "hits": (
        lambda hits, row: (
            retrieval.average_precision(retrieval.PositiveRanks.from_hits(hits)),
            retrieval.average_precision(retrieval.PositiveRanks.from_hits([[True], row])),
        ),
        (np.array([[False, True]]), np.array([True, False])),
        ("`hits`", "`hits[1]`"),
    ),
    "list of rows": (
        lambda *rows: retrieval.evaluate(rows, G, IDS[:2], IDS[8:]).means,
        (Q[0], Q[1]),
        ("`query`", "`query`"),
    ),
}


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize("name", MASKED)
def test_masked_values_are_refused_and_masked_arrays_without_them_are_taken(name):
    call, arrays, named = MASKED[name]
    expected = call(*arrays)
    without = [np.ma.array(each) for each in arrays]
    assert repr(parts(call(*without))) == repr(parts(expected))
    for place, argument in enumerate(named):
        masked = without[place].copy()
        masked[(0,) * masked.ndim] = np.ma.masked
        given = [*arrays[:place], masked, *arrays[place + 1 :]]
        with pytest.raises((TypeError, ValueError), match=re.escape(argument)):
            call(*given)
