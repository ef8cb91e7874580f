"""What new users write without reading: it works, or the message says what to do.

Most habits have their tests where the subject is; these are the others.
"""

import ast
import warnings
from pathlib import Path
from unittest import TestCase

import pytest
import torch
from torchmetrics import MetricCollection

import reid_torchmetrics
from reid_torchmetrics import ReIDMeanAP, ReIDMetrics

IDENTITIES, CAMERAS, IS_QUERY = torch.arange(40) % 8, torch.arange(40) % 3, torch.arange(40) < 8


def embedded(noise: float = 1.0) -> torch.Tensor:
    """Embeddings of a model; more noise, a worse one."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(8, 6, generator=generator)[IDENTITIES] + noise * torch.randn(40, 6, generator=generator)


def halves(embeddings: torch.Tensor):
    """Two batches of an epoch."""
    for part in (slice(0, 20), slice(20, 40)):
        yield embeddings[part].clone(), IDENTITIES[part], CAMERAS[part], IS_QUERY[part]


def fed(metric, embeddings: torch.Tensor, **options):
    """The metric after an epoch."""
    for batch, identities, cameras, is_query in halves(embeddings):
        metric.update(batch, identities, cameras, is_query=is_query, **options)
    return metric


@pytest.mark.parametrize(
    "change", [{"is_query": False}, {"identities": IDENTITIES[:20] + 1}, {"cameras": CAMERAS[1:21]}]
)
def test_samples_of_other_labels_after_compute_are_no_epoch(change):
    first, _ = halves(embedded())
    batch = dict(zip(("embeddings", "identities", "cameras", "is_query"), first, strict=True))
    metric = ReIDMeanAP()
    metric.update(**batch)
    metric.compute()
    metric.update(**(batch | change))
    metric.compute()


def test_steps_and_few_samples_are_no_epoch():
    metric = ReIDMetrics()
    for step in range(2):  # of a network that is trained
        for batch, identities, _, is_query in halves(embedded()):
            metric(batch + step, identities, is_query=is_query)
    metric.compute()
    few = ReIDMeanAP()
    for _ in range(3):
        few.update(torch.eye(4), torch.tensor([1, 1, 2, 2]))
        few.compute()


def images(offset: float = 0.0, number: int = 9):
    """Detections and ground truths of some images, one object in each."""
    boxes = [torch.tensor([[place, 0.0, place + 20, 20.0]]) for place in range(number)]
    labels = torch.tensor([1])
    found = [{"boxes": each + offset, "scores": torch.tensor([0.9]), "labels": labels} for each in boxes]
    return found, [{"boxes": each, "labels": labels} for each in boxes]


@pytest.mark.parametrize("write", [lambda buffer, values: buffer.copy_(values), lambda buffer, _: buffer.zero_()])
def test_a_buffer_that_is_filled_anew_in_inference_mode_is_an_error(write):
    with torch.inference_mode():
        metric, buffer = ReIDMetrics(), torch.empty(20, 6)
        for batch, identities, _, is_query in halves(embedded()):
            metric.update(buffer.copy_(batch), identities, is_query=is_query)
        write(buffer, embedded()[20:] + 1)
        with pytest.raises(ValueError, match=r"got 2 of 2 batches .* Pass `embeddings.clone\(\)`"):
            metric.compute()


def test_embeddings_that_stay_as_they_are_in_inference_mode_are_ranked():
    with torch.inference_mode():
        metric = fed(ReIDMeanAP(), embedded())
        metric.update(
            torch.empty(0, 6), torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64), is_query=False
        )
        metric.update(torch.full((1, 6), torch.nan), torch.tensor([-1]), torch.tensor([0]), is_query=False)
        with pytest.warns(UserWarning, match="finite"):
            metric.compute()
    assert fed(ReIDMeanAP(), embedded()).compute() > 0


REFUSED = [
    (lambda: [*embedded()], "list of tensors, to be joined by `torch.stack`"),
    (lambda: [*embedded().split(16)], "list of tensors, to be joined by `torch.cat`"),
    (lambda: (each for each in embedded()), "generator"),
]


@pytest.mark.parametrize(("make", "came"), REFUSED)
def test_batches_that_were_not_joined_are_refused_with_what_joins_them(make, came):
    message = f"must be a tensor, an array or a list of numbers; got {came}.$"
    with pytest.raises(TypeError, match=f"^`embeddings` {message}"):
        ReIDMeanAP().update(make(), IDENTITIES)


def test_a_rank_beyond_the_gallery_is_that_of_the_last_item():
    values = fed(ReIDMetrics((32, 500)), embedded()).compute()
    assert values["rank_32"] == values["rank_500"] == 1


def test_a_collection_in_a_collection_has_the_names_of_both():
    outer = MetricCollection({"a": ReIDMetrics((1,), postfix="_p"), "b": ReIDMeanAP()}, prefix="val/")
    values = fed(outer.clone(prefix="test/"), embedded()).compute()
    assert [*values] == ["test/a_map_p", "test/a_minp_p", "test/a_rank_1_p", "test/b"]
    assert values["test/a_map_p"] == values["test/b"]


def test_a_collection_is_drawn_as_one_figure_for_each_number():
    figures = fed(ReIDMetrics((1,)), embedded()).plot()
    assert [type(figure).__name__ for figure, _ in figures] == ["Figure"] * 3


@pytest.mark.nightly
@pytest.mark.usefixtures("unannotated")
def test_a_compiled_step_that_updates_a_metric_is_not_compiled_anew_for_each_batch():
    network, metric = torch.nn.Linear(6, 4), ReIDMeanAP()

    @torch.compile(backend="eager")
    def step(images, identities, is_query):
        metric.update(network(images), identities, is_query=is_query)

    inputs = embedded(), IDENTITIES, IS_QUERY
    with TestCase().assertNoLogs("torch._dynamo", "WARNING"), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch's own
        for batch in zip(*(values.split(2) for values in inputs), strict=True):
            step(*(values.clone() for values in batch))
    once = ReIDMeanAP()
    once.update(network(inputs[0]), IDENTITIES, is_query=IS_QUERY)
    assert metric.compute() == pytest.approx(float(once.compute()), abs=1e-6)


def test_no_code_takes_the_next_of_what_may_be_empty():
    # A bare `StopIteration` says nothing, and ends the loop of a generator that calls: `list(map(evaluate, models))`.
    paths = sorted(Path(reid_torchmetrics.__file__).parent.rglob("*.py"))
    sources = [(path.name, path.read_text(encoding="utf-8")) for path in paths]
    bare = [
        f"{name}:{node.lineno}"
        for name, source in sources
        if "next(" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next"
        if len(node.args) < 2
    ]
    assert not bare
