"""Metrics of a `MetricCollection` share their states if `update` treats every batch alike, not only the first."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchmetrics import Metric, MetricCollection

from reid_torchmetrics import DetectionMAP, EmbeddingQuality, ReIDMeanAP, ReIDMINP, YoloMAP

torch.manual_seed(0)
ROWS = torch.randn(4, 3)
LABELS = torch.tensor([1.0, 1.0, 2.0, 2.0])
MISSING = torch.tensor([1.0, math.nan, 2.0, 2.0])
QUERIES = {"embeddings": ROWS, "identities": LABELS, "index": [0, 1, 2, 3], "is_query": True}
GALLERY = QUERIES | {"index": [4, 5, 6, 7], "is_query": False}


def image(*boxes: list[float]) -> dict[str, Any]:
    """A batch of one image, with the same boxes as detections and as ground truths."""
    objects = {"boxes": torch.tensor(boxes).view(-1, 4), "labels": torch.ones(len(boxes), dtype=torch.int64)}
    return {"preds": [objects | {"scores": torch.ones(len(boxes))}], "target": [objects]}


MIXED: dict[str, tuple[list[Callable[[], Metric]], list[dict[str, Any]]]] = {
    "missing identities": (
        [lambda: ReIDMeanAP(missing_identities="junk"), ReIDMeanAP],
        [{"embeddings": ROWS, "identities": LABELS}, {"embeddings": ROWS, "identities": MISSING}],
    ),
    "groups beside lists": (
        [ReIDMeanAP, lambda: ReIDMeanAP(ground_truth={number: [4] for number in range(4)})],
        [QUERIES, GALLERY | {"groups": [0, 1, 2, 3]}],
    ),
    "codes of a protocol": (
        [lambda: ReIDMeanAP(protocol="hashing"), ReIDMeanAP],
        [{"embeddings": torch.empty(0, 3), "identities": []}, {"embeddings": ROWS > 0, "identities": LABELS}],
    ),
    "invalid boxes": (
        [DetectionMAP, lambda: DetectionMAP(invalid="drop"), lambda: DetectionMAP(invalid="raise")],
        [image([0, 0, 9, 9]), image([0, 0, math.inf, 9])],
    ),
    "formats of boxes that are dropped": (
        [lambda: DetectionMAP(invalid="drop"), lambda: DetectionMAP("xywh", invalid="drop")],
        [image(), image([5, 5, 3, 3])],
    ),
    "measures": (
        [lambda: EmbeddingQuality(("rankme", "hubness")), lambda: EmbeddingQuality(("rankme", "alignment"))],
        [{"embeddings": ROWS, "identities": LABELS}] * 2,
    ),
}


def outcome(metric: Metric, batch: dict[str, Any]) -> str:
    """What becomes of a batch: an error, or the states."""
    try:
        metric.update(**batch)
    except (TypeError, ValueError) as error:
        return str(error)
    return str([getattr(metric, name) for name in metric._defaults if name != "_update_key"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MIXED)
def test_metrics_that_treat_a_later_batch_differently_do_not_share_states(name):
    makers, batches = MIXED[name]
    alone = [make() for make in makers]
    for metric in alone:
        metric.update(**batches[0])
    assert len({outcome(metric, batches[1]) for metric in alone}) == len(makers), "the batch is treated alike"
    collection = MetricCollection({str(number): make() for number, make in enumerate(makers)})
    collection.update(**batches[0])
    assert len(collection.compute_groups) == len(makers)


def test_metrics_share_states_if_their_options_do_not_act_in_an_update():
    metrics = [ReIDMeanAP(), ReIDMINP(), ReIDMeanAP(same_camera="keep", rule="trapezoid", max_bytes=10**6)]
    collection = MetricCollection({str(number): metric for number, metric in enumerate(metrics)})
    collection.update(ROWS, LABELS, torch.arange(4))
    boxes = MetricCollection(
        {"coco": DetectionMAP(), "other": DetectionMAP("xywh", average="micro"), "yolo": YoloMAP()}
    )
    boxes.update(**image([0, 0, 9, 9]))
    assert (len(collection.compute_groups), len(boxes.compute_groups)) == (1, 1)
