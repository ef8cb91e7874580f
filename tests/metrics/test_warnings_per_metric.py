"""A warning comes once for each metric object, again after `reset`, and in each call of a function."""

import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchmetrics import MetricCollection

from reid_torchmetrics import (
    DetectionMAP,
    DetectionMetrics,
    EmbeddingQuality,
    ReIDCMC,
    ReIDMeanAP,
    ReIDMetrics,
    ReIDMINP,
)
from reid_torchmetrics.functional.retrieval import evaluate

X = torch.eye(16)
Y = torch.arange(16) // 2


def image(first: float = 0, label: int = 1, number: int = 12, **more: Any) -> tuple[list[dict], list[dict]]:
    low = torch.arange(number)[:, None] * 20.0 + first
    boxes = torch.cat([low, low, low + 9.5 + torch.arange(number)[:, None] % 3, low + 11], dim=1)
    preds = {"boxes": boxes, "scores": torch.linspace(0.9, 0.2, number), "labels": torch.full((number,), label)}
    return [preds | more], [{"boxes": boxes, "labels": torch.ones(number, dtype=torch.int64)} | more]


def undefined(metric: Any) -> None:
    metric.update(X, Y, is_query=True)


def other_embeddings(metric: Any) -> None:
    for embeddings in (X, -X):
        metric.update(embeddings, Y, index=torch.arange(16))


def forgotten_reset(metric: Any) -> None:
    metric.update(X, Y)
    metric.compute()
    metric.update(X, Y)


def not_finite(metric: Any) -> None:
    metric.update(X / 0)


def other_labels(metric: Any) -> None:
    metric.update(*image(label=7))


def many(metric: Any) -> None:
    metric.update(*image())


def infinite(metric: Any) -> None:
    preds, target = image()
    preds[0]["boxes"] = preds[0]["boxes"].index_fill(0, torch.tensor([0]), torch.inf)
    metric.update(preds, target)


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], None], str]] = {
    "undefined": (ReIDMeanAP, undefined, "No query"),
    "other embeddings": (ReIDMeanAP, other_embeddings, "have another embedding"),
    "forgotten reset": (ReIDMeanAP, forgotten_reset, "forgotten"),
    "not finite": (EmbeddingQuality, not_finite, "16 embeddings, 16 of them NaN"),
    "labels": (DetectionMAP, other_labels, "have the label"),
    "many": (lambda: DetectionMAP(max_detection_thresholds=[1, 2, 3]), many, "more than"),
    "infinite": (DetectionMAP, infinite, "not finite"),
}


def heard(text: str, *work: Callable[[], object]) -> list[int]:
    """How often each work warns, under Python's own filters."""
    numbers = []
    for each in work:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            each()
        mine = [one for one in caught if text in str(one.message)]
        assert all(one.filename == __file__ for one in mine), [one.filename for one in mine]
        numbers.append(len(mine))
    return numbers


def runs(make: Callable[[], Any], fill: Callable[[Any], None], text: str) -> list[int]:
    numbers = []
    for _ in range(2):
        metric = make()

        def both(metric: Any = metric) -> None:
            fill(metric)
            metric.compute()

        numbers += heard(text, both)
        metric._computed = None
        numbers += heard(text, metric.compute)
        metric.reset()
        numbers += heard(text, both)
        copied = pickle.loads(pickle.dumps(metric))
        copied._computed = None
        copied.compute()
        assert not any("told" in name or "said" in name for name in metric.state_dict())
    return numbers


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize("name", CASES)
def test_each_object_hears_a_warning_once_and_again_after_reset(name):
    assert runs(*CASES[name]) == [1, 0, 1] * 2


@pytest.mark.needs("diagnosis")
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (ReIDMetrics, "undefined"),
        (ReIDMetrics, "other embeddings"),
        (lambda: MetricCollection([ReIDMeanAP(), ReIDMINP(), ReIDCMC()]), "other embeddings"),
        (EmbeddingQuality, "not finite"),
        (DetectionMetrics, "labels"),
        (DetectionMetrics, "many"),
    ],
)
def test_a_collection_hears_it_once(make, name):
    _, fill, text = CASES[name]
    metrics = make() if name != "many" else make(max_detection_thresholds=[1, 2, 3])

    def both() -> None:
        fill(metrics)
        metrics.compute()

    assert heard(text, both, both) == [1, 0]


@pytest.mark.needs("diagnosis")
def test_a_function_warns_in_each_call():
    x = torch.randn(60, 8)
    given = x[:20], x, torch.arange(20) % 6, torch.arange(60) % 6
    assert heard("Most queries have a copy", *[lambda: evaluate(*given)] * 2) == [1, 1]


@pytest.mark.needs("diagnosis")
def test_filters_of_users_hold():
    metric = ReIDMeanAP()
    metric.update(X, Y, is_query=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="No query"):
            metric.compute()
        warnings.filterwarnings("ignore", module=__name__)
        ReIDMeanAP(empty_target_action="neg").update(X, Y)
    assert "__warningregistry__" not in vars(sys.modules["reid_torchmetrics.functional.world"])
