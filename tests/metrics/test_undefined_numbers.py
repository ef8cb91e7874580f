"""A number that is not defined is NaN with a warning, or COCO's -1: in `compute`, and in Lightning's sanity check."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import lightning
import pytest
import torch
from torch.utils.data import DataLoader
from torchmetrics import MetricCollection

from reid_torchmetrics import (
    DetectionMetrics,
    EmbeddingMetric,
    EmbeddingQuality,
    PairVerification,
    ReIDMeasure,
    ReIDMetrics,
    ReIDOpenSet,
)
from reid_torchmetrics.functional.retrieval.measures import MEASURES
from reid_torchmetrics.metrics.detection import BoxMetric
from reid_torchmetrics.tasks.metrics import PAIR_METRICS
from tests.functional.detection.detection_samples import images
from tests.metrics.test_signatures import MADE
from tests.profiles import each_row, of_each

VECTORS = torch.randn(40, 6, generator=torch.Generator().manual_seed(5))
IDENTITIES = torch.arange(40) % 5
CAMERAS = torch.arange(40) % 3
SAME = torch.arange(20) < 10  # in the order of LFW: pairs of one identity come first
OPTIONS = {
    ReIDMeasure: [{"metric": measure.name + "_5" * measure.takes_k} for measure in MEASURES.values()],
    PairVerification: [{"metric": name} for name in PAIR_METRICS],
    EmbeddingQuality: [{"measures": ("rankme", "dead_dimensions", "norm_mean", "alignment", "uniformity", "hubness")}],
}
"""arguments of the classes with several numbers"""


def queries(metric: Any) -> None:
    metric.update(VECTORS, IDENTITIES, CAMERAS, is_query=True)


def gallery(metric: Any, least_identity: int = 1) -> None:
    part = least_identity <= IDENTITIES
    metric.update(VECTORS[part], IDENTITIES[part], CAMERAS[part], is_query=False)


def both_roles(metric: Any, least_identity: int = 1) -> None:
    queries(metric)
    gallery(metric, least_identity)


def pairs(metric: Any, part: slice) -> None:
    metric.update(VECTORS[:20][part], VECTORS[20:][part], SAME[part])


def objects(metric: Any, change: Callable[[list, list], tuple[list, list]] = lambda *sides: sides) -> None:
    metric.update(*change(*images(3, 4, with_ids=True)))


def without_objects(items: list[dict]) -> list[dict]:
    return [{key: value if key == "image_id" else value[:0] for key, value in item.items()} for item in items]


FAMILIES: dict[Any, dict[str, Callable[[Any], None]]] = {
    ReIDOpenSet: {
        "all": both_roles,
        "queries alone": queries,
        "the gallery alone": gallery,
        "queries without a mate": lambda metric: both_roles(metric, 5),
        "queries with a mate": lambda metric: both_roles(metric, 0),
    },
    (EmbeddingMetric, ReIDMetrics): {
        "all": both_roles,
        "queries alone": queries,
        "the gallery alone": gallery,
    },
    (BoxMetric, DetectionMetrics): {
        "all": objects,
        "no image": lambda metric: metric.update([], []),
        "images without anything": lambda metric: objects(metric, lambda *sides: tuple(map(without_objects, sides))),
        "images without objects": lambda metric: objects(
            metric, lambda preds, target: (preds, without_objects(target))
        ),
    },
    PairVerification: {
        "all": lambda metric: pairs(metric, slice(None)),
        "pairs of one identity": lambda metric: pairs(metric, slice(10)),
        "pairs of two identities": lambda metric: pairs(metric, slice(10, None)),
        "a pair": lambda metric: pairs(metric, slice(1)),
        "no pair": lambda metric: pairs(metric, slice(0)),
    },
    EmbeddingQuality: {
        "all": lambda metric: metric.update(VECTORS, IDENTITIES),
        "no embedding": lambda metric: metric.update(VECTORS[:0], IDENTITIES[:0]),
        "embeddings that are not finite": lambda metric: metric.update(VECTORS / 0, IDENTITIES),
    },
}
"""what is undefined for the classes of each kind; a new kind of metric needs a row"""


def parts_of(metric_class: type) -> dict[str, Callable[[Any], None]]:
    return next(parts for kind, parts in FAMILIES.items() if issubclass(metric_class, kind))


def made(metric_class: type) -> list[Any]:
    return [metric_class(**options) for options in OPTIONS.get(metric_class, [{}])]


def numbers(value: Any) -> list[float]:
    values = [part for name, part in value.items() if name != "classes"] if isinstance(value, dict) else [value]
    return list(itertools.chain.from_iterable(torch.as_tensor(each).double().flatten().tolist() for each in values))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*was called before the ``update`` method")
        yield


def check_undefined(metric: Any, *, of_boxes: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = numbers(metric.compute())
        metric.reset()
    assert found
    if of_boxes:
        assert all(number in {-1, 0} for number in found)  # precision of detections alone is 0
        return
    assert all(math.isnan(number) for number in found)
    texts = [str(warning.message) for warning in caught]
    assert len([text for text in texts if "the result is NaN" in text]) == 1, texts


@each_row("name", MADE)
def test_undefined_numbers_of_a_metric_are_nan_with_one_warning_or_minus_one(name: str) -> None:
    parts = parts_of(MADE[name])
    of_boxes = "no image" in parts
    for metric in made(MADE[name]):
        check_undefined(metric, of_boxes=of_boxes)  # before any `update`
        for case, feed in parts.items():
            if case != "all":
                feed(metric)
                check_undefined(metric, of_boxes=of_boxes)
        parts["all"](metric)
        assert not any(math.isnan(number) for number in numbers(metric.compute()))


class Module(lightning.LightningModule):
    """Logs all metrics after a sanity check of one-sided data."""

    def __init__(self, case: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.feeds, self.metrics = {}, torch.nn.ModuleDict()
        for name, metric_class in MADE.items():
            parts = parts_of(metric_class)
            _, *one_sided = parts.values()
            for number, metric in enumerate(made(metric_class)):
                self.metrics[f"{name}_{number}"] = metric
                self.feeds[f"{name}_{number}"] = one_sided[case % len(one_sided)], parts["all"]

    def training_step(self, batch, batch_idx):
        return self.layer(batch[:, None]).square().mean()

    def validation_step(self, batch, batch_idx):
        for name, metric in self.metrics.items():
            feed_sanity_check, feed = self.feeds[name]
            (feed_sanity_check if self.trainer.sanity_checking else feed)(metric)

    def on_validation_epoch_end(self):
        for name, metric in self.metrics.items():
            if isinstance(metric, MetricCollection) or metric._log_instead() is not None:
                values = metric.compute()
                values = values if isinstance(values, dict) else {"mean": values.mean()}
                self.log_dict({f"{name}/{key}": value.double().mean() for key, value in values.items()})
                metric.reset()
            else:
                self.log(name, metric)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


@pytest.mark.parametrize("case", of_each(range(4), suite=2))
def test_the_sanity_check_of_one_sided_data_ends_no_run(case: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            accelerator="cpu", max_epochs=1, logger=False, enable_progress_bar=False, enable_checkpointing=False,
            enable_model_summary=False, num_sanity_val_steps=1,
        )  # fmt: skip
        module = Module(case)
        trainer.fit(module, DataLoader(torch.ones(1)), DataLoader(torch.ones(1)))
    assert len({name.partition("/")[0] for name in trainer.callback_metrics}) == len(module.metrics)
    assert not any(value.isnan() for value in trainer.callback_metrics.values())
