"""The metrics of a module whose evaluations can be drawn."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from torch.nn import Module, ModuleDict
from torch.utils.data import DistributedSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torchmetrics import MetricCollection

from reid_torchmetrics.metrics.detection import DetectionMAP
from reid_torchmetrics.metrics.reid import EmbeddingMetric

EvaluatedMetric: TypeAlias = EmbeddingMetric | DetectionMAP


def evaluated_metrics(argument: str, module: Module, attributes: Sequence[str]) -> dict[str, EvaluatedMetric]:
    """The metrics that attributes of a module hold, by the attribute's name, with dots where it is within another.

    Of a collection it is the first one, for all its members were given the same samples.

    Raises:
        TypeError: an attribute holds none.
        ValueError: the module lacks an attribute.
    """
    found: dict[str, EvaluatedMetric] = {}
    for attribute in attributes:
        held = _attribute(argument, module, attribute)
        metrics = dict(_metrics_in(attribute, held))
        if not metrics:
            raise TypeError(
                f"`{argument}` must name a metric of embeddings, a DetectionMAP, or what holds some; got {attribute!r},"
                f" which is a {type(held).__name__}."
            )
        found |= metrics
    return found


def holds_nothing(metric: EvaluatedMetric) -> bool:
    """Whether a metric has no sample in this process."""
    return not (metric.roles if isinstance(metric, EmbeddingMetric) else metric.detection_counts)


def numbers_are_others(metric: EvaluatedMetric, loaders: object) -> bool:
    """Whether samples were counted as they came, because they had no numbers, and came in another order than theirs.

    Samplers that are not of PyTorch are taken to keep the order.
    """
    is_of_embeddings = isinstance(metric, EmbeddingMetric)
    numbers: list[Any] = [metric.index] if is_of_embeddings else [metric.image_ids, metric.image_name_lengths]
    if holds_nothing(metric) or any(len(each) for each in numbers):
        return False
    # Images are counted in turn over processes, as samples are dealt out; embeddings are counted process by process.
    return any(_changes_order(sampler, deals=is_of_embeddings) for sampler in _samplers(loaders))


def _samplers(loaders: object) -> Iterator[object]:
    listed = [*loaders.values()] if isinstance(loaders, Mapping) else loaders
    for loader in listed if isinstance(listed, (tuple, list)) else [listed]:
        yield getattr(loader, "sampler", None)
        yield getattr(getattr(loader, "batch_sampler", None), "sampler", None)


def _changes_order(sampler: object, *, deals: bool) -> bool:
    if isinstance(sampler, DistributedSampler):
        return sampler.shuffle or (deals and sampler.num_replicas > 1)
    return isinstance(sampler, (RandomSampler, SubsetRandomSampler, WeightedRandomSampler))


def _attribute(argument: str, module: Module, attribute: str) -> object:
    try:
        return operator.attrgetter(attribute)(module)
    except AttributeError:
        has = [repr(name) for name, child in module.named_children() if any(_metrics_in(name, child))]
        raise ValueError(
            f"`{argument}` must name an attribute of {type(module).__name__}, whose metrics are"
            f" {', '.join(has) or 'none'}; got {attribute!r}."
        ) from None


def _metrics_in(name: str, held: object) -> Iterator[tuple[str, EvaluatedMetric]]:
    if isinstance(held, (EmbeddingMetric, DetectionMAP)):
        yield name, held
    elif isinstance(held, MetricCollection):
        members = held.values(copy_state=False)
        yield from [(name, each) for each in members if isinstance(each, (EmbeddingMetric, DetectionMAP))][:1]
    elif isinstance(held, ModuleDict):
        for key, each in held.items():
            yield from _metrics_in(f"{name}.{key}", each)
