"""What there is to draw of an evaluation: all processes evaluate, and one of them draws.

The metrics of a module whose evaluations can be drawn.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from torch.nn import Module, ModuleDict
from torch.utils.data import DistributedSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torchmetrics import MetricCollection

from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.metrics.detection import BoxMetric
from reid_torchmetrics.metrics.reid import EmbeddingMetric
from reid_torchmetrics.plot import FIGURES, Pictures, ResultFigure, draw_box_grid, draw_rank_lists, picture_at

EvaluatedMetric: TypeAlias = EmbeddingMetric | BoxMetric


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
                f"`{argument}` must name a metric of embeddings or of boxes, or what holds some; got {attribute!r},"
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
    if isinstance(held, (EmbeddingMetric, BoxMetric)):
        yield name, held
    elif isinstance(held, MetricCollection):
        members = held.values(copy_state=False)
        yield from [(name, each) for each in members if isinstance(each, (EmbeddingMetric, BoxMetric))][:1]
    elif isinstance(held, ModuleDict):
        for key, each in held.items():
            yield from _metrics_in(f"{name}.{key}", each)


Drawings: TypeAlias = dict[str, Callable[[], Any]]
"""by name, what draws a figure or an image"""

SAMPLE_PICTURES = frozenset({"hardest_queries", "worst_images"})
"""drawings of single samples, whose numbers or names are those of pictures"""


@dataclass(frozen=True)
class Shown:
    """What is shown besides curves."""

    pictures: Pictures | None
    gallery_pictures: Pictures | None
    names: Mapping[int, str] | None
    num_queries: int
    k: int
    num_images: int


def drawings_of(metric: EvaluatedMetric, shown: Shown) -> Drawings:
    """What there is to draw of a metric's samples, nothing where no process has any.

    All processes must call this; what is returned they need not.
    """
    if isinstance(metric, EmbeddingMetric):
        ranked = metric.results()
        samples = {"hardest_queries": lambda: _hardest_queries(metric, ranked, shown)}
        return _drawings(ranked, samples, shown) if ranked.counts.total else {}
    matched = metric.results(across_classes=True)
    if shown.names is not None:
        matched = replace(matched, class_names=shown.names)
    samples = {"worst_images": lambda: _worst_images(metric, matched, shown)}
    return _drawings(matched, samples, shown) if len(matched.images) else {}


def _drawings(
    results: RetrievalResults | DetectionResults, samples: Mapping[str, Callable[[], Drawings]], shown: Shown
) -> Drawings:
    """The figures of results, and the pictures of samples where there are any."""

    def draw(row: ResultFigure) -> Any:
        return row.plot(results)[0]

    drawings: Drawings = {
        name: partial(draw, row) for name, row in FIGURES[type(results)].items() if row.is_defined(results)
    }
    if shown.pictures is not None:
        for name, prepare in samples.items():
            drawings |= _with_error_kept(name, prepare)
    return drawings


def _hardest_queries(metric: EmbeddingMetric, results: RetrievalResults, shown: Shown) -> Drawings:
    hardest, pictures = results.hardest(shown.num_queries), shown.pictures
    if pictures is None or not len(hardest):
        return {}
    longest = int(results.num_candidates[hardest].max())
    lists = metric.nearest(min(shown.k, longest), queries=hardest)
    options: dict[str, Any] = {"gallery_pictures": shown.gallery_pictures, "names": shown.names}
    return {"hardest_queries": lambda: draw_rank_lists(lists, pictures, **options)}


def _worst_images(metric: BoxMetric, results: DetectionResults, shown: Shown) -> Drawings:
    threshold, pictures = results.averages.grid.shown_threshold, shown.pictures
    worst = results.worst_images(shown.num_images, iou_threshold=threshold)
    if pictures is None or not len(worst):
        return {}
    boxes = metric.boxes_of(worst.image)
    return {
        "worst_images": lambda: draw_box_grid(
            [picture_at("pictures", pictures, image) for image in worst.image_ids],
            *boxes,
            min_score=results.best_confidences(iou_threshold=threshold),
            box_format=metric.box_format,
            class_agnostic=results.is_micro,
            iou_threshold=threshold,
            names=results.class_names,
        )
    }


def _with_error_kept(name: str, prepare: Callable[[], Drawings]) -> Drawings:
    """What `prepare` gives; if it fails, as it does in all processes alike, a drawing that fails in its place."""
    try:
        return prepare()
    except Exception as error:  # noqa: BLE001 - said where pictures are drawn
        return {name: _Failed(error)}


class _Failed:
    """A drawing that could not be prepared."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self) -> Any:
        """Raise the error."""
        raise self._error
