"""`torch.set_default_device`: whatever it is, the package works where its inputs are."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics import DetectionMAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import GalleryDraw, PositiveRanks, evaluate
from reid_torchmetrics.tasks import compare
from tests.device.default_device import FACTORIES
from tests.device.problems import moved, problem
from tests.functional.detection.detection_samples import images

PACKAGE = Path(reid_torchmetrics.__file__).parent


@pytest.fixture
def default() -> Iterator[None]:
    """A default device that holds nothing."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def unplaced(source: str) -> list[str]:
    """Calls of a source that make a tensor on the default device, whatever that is."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    makes = [call for call in calls if ast.unparse(call.func) in {f"torch.{name}" for name in FACTORIES}]
    return [ast.unparse(call) for call in makes if all(each.arg != "device" for each in call.keywords)]


def test_every_new_tensor_names_its_device():
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert [(path.name, call) for path, source in sources.items() for call in unplaced(source)] == []


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "full", "arange", "tensor", "as_tensor", "randint", "eye"])
def test_a_tensor_that_names_no_device_would_be_found(name):
    assert unplaced(f"values = torch.{name}(3, dtype=torch.int64).to(device)") == [
        f"torch.{name}(3, dtype=torch.int64)"
    ]
    assert not unplaced(f"values = torch.{name}(3, device=device) + values.new_{name}(3)")


def evaluated(given, lists, hits):
    """Means of evaluations, what their comparison says, and ranks, of what lies on the CPU."""
    results = [
        evaluate(*given),
        evaluate(*given, similarity="euclidean"),
        evaluate(*given, gallery_draw=GalleryDraw(1)),
    ]
    results.append(evaluate(*given[:2], ground_truth=lists, protocol="oxford5k"))
    generator = torch.Generator("cpu").manual_seed(0)
    comparison = compare(*results[:2], generator=generator, num_resamples=20, num_permutations=20)
    return [each.means for each in results], comparison.to_dict(), PositiveRanks.from_hits(hits).rank.tolist()


def test_evaluations_and_their_comparison_are_as_without_a_default_device(request):
    given = problem(), [{"ok": [query, query + 7], "junk": [20]} for query in range(10)], [[1, 0, 1]]
    expected = evaluated(*given)
    request.getfixturevalue("default")
    assert evaluated(*given) == expected


def of_metrics(given, preds, target):
    """Values of metrics that are made where the default device is."""
    retrieval, detection = ReIDMetrics(), DetectionMAP()
    for side in (0, 1):
        retrieval.update(*given[side::2], is_query=side == 0)
    detection.update(preds, target)
    values = retrieval.compute() | {"map": detection.compute()["map"]}
    return {name: (value.device.type, float(value)) for name, value in values.items()}


def test_metrics_are_born_on_the_default_device_and_have_the_values_of_the_cpu(device):
    given = problem(), *images(12)
    expected = of_metrics(*given)
    there = moved(given, device)
    torch.set_default_device(device)
    try:
        found = of_metrics(*there)
    finally:
        torch.set_default_device(None)
    assert found == {name: (device, pytest.approx(value, abs=1e-6)) for name, (_, value) in expected.items()}
