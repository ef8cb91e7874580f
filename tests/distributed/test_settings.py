"""An option that decides the value must be the same on all processes: each one differs on one of two."""

import pytest
import torch

from reid_torchmetrics import (
    DistributedMetricError,
    EmbeddingMetric,
    EmbeddingQuality,
    PairVerification,
    ReIDMetrics,
    ReIDMINP,
    ReIDOpenSet,
)
from tests.metrics.test_shared_results import NEEDED, OPTIONS, batches_of_boxes

TABLE = {
    **OPTIONS,
    PairVerification: {"metric": ["auc"], "far": [0.2], "p_target": [0.3]},
    EmbeddingQuality: {"measures": [("norm_mean",)]},
}
ELSEWHERE = {(ReIDMetrics, "ranks"): "reports"}
"""options that are named by what they decide"""
PAIRS = {
    ReIDOpenSet: {"rule": ("largest", "nearest"), "fpir": (0.1, (0.1,))},
    ReIDMetrics: {"directions": (("a", "b"), ("b", "a"))},
}
"""two values where neither is the default"""


def given_to(kind) -> dict:
    """A batch for a class, with all labels."""
    if kind is PairVerification:
        return {"first": torch.eye(4), "second": torch.eye(4), "same": torch.tensor([True, False, True, False])}
    if kind is EmbeddingQuality:
        return {"embeddings": torch.eye(4)}
    if not issubclass(kind, (EmbeddingMetric, ReIDMetrics)):
        return batches_of_boxes()[0]
    number = torch.arange(12)
    return {
        "embeddings": torch.eye(12),
        "identities": number % 3,
        "cameras": number % 2,
        "clothes": number % 2,
        "positions": number.double(),
        "index": number,
        "is_query": number < 4,
    }


def refusals(process: int, size: int, kind) -> dict[str, str]:
    """What is said where this process has another value of an option than the others, by option."""
    made, needed, said = ReIDMINP if kind is EmbeddingMetric else kind, NEEDED.get(kind, {}), {}
    cases = [(name, (None, value)) for name, values in TABLE[kind].items() for value in values]
    for name, values in [*cases, *PAIRS.get(kind, {}).items()]:
        options = needed.get(None, {}) | needed.get(name, {})
        if values[process] is not None:
            options[name] = values[process]
        metric = made(**options)
        metric.update(**given_to(kind))
        try:
            metric.compute()
        except DistributedMetricError as error:
            said[f"{name}: {values}"] = str(error)
        else:
            said[f"{name}: {values}"] = "no error"
    return said


@pytest.mark.parametrize("kind", TABLE)
def test_an_option_that_differs_is_named_on_all_processes(processes, kind):
    first, second = processes.run(2, refusals, kind)
    assert [*first.values()] == [*second.values()]
    wrong = {
        case: message
        for case, message in first.items()
        if f"`{ELSEWHERE.get((kind, case.partition(':')[0]), case.partition(':')[0])}`" not in message
    }
    assert wrong == {}
