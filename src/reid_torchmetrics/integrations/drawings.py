"""The metrics of a module, and the drawings of their evaluations: all processes evaluate, and one of them draws."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from torch import Tensor
from torch.nn import Module, ModuleDict
from torch.utils.data import DistributedSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torchmetrics import MetricCollection

from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import RankLists, RetrievalResults
from reid_torchmetrics.metrics.detection import BoxMetric
from reid_torchmetrics.metrics.reid import EmbeddingMetric
from reid_torchmetrics.plot import (
    FIGURES,
    Pictures,
    captioned_pictures,
    draw_box_grid,
    draw_rank_lists,
    judged_like,
    picture_at,
)

from .pictures import PictureTable

EvaluatedMetric: TypeAlias = EmbeddingMetric | BoxMetric
Drawings: TypeAlias = dict[str, Callable[[], Any]]
"""functions that draw a figure or an image, by its name"""

TABLE = "hardest_queries_table"
SAMPLE_PICTURES = frozenset({"hardest_queries", "worst_images", TABLE})
"""drawings of single samples, found by their numbers or names"""


def evaluated_metrics(argument: str, module: Module, attributes: Sequence[str]) -> dict[str, EvaluatedMetric]:
    """The metrics in attributes of a module, by the attribute's name, with dots where it is within another.

    Of a collection it is the first one, for all its members were given the same samples.

    Raises:
        TypeError: an attribute without a metric.
        ValueError: the module lacks an attribute.
    """
    metrics: dict[str, EvaluatedMetric] = {}
    for attribute in attributes:
        value = _attribute(argument, module, attribute)
        of_attribute = dict(_metrics_in(attribute, value))
        if not of_attribute:
            raise TypeError(
                f"`{argument}` must name a metric of embeddings or of boxes, or a collection of some; got"
                f" {attribute!r}, a {type(value).__name__}."
            )
        metrics |= of_attribute
    return metrics


def holds_nothing(metric: EvaluatedMetric) -> bool:
    """Whether a metric has no sample in this process."""
    return not (metric.roles if isinstance(metric, EmbeddingMetric) else metric.detection_counts)


def numbers_are_others(metric: EvaluatedMetric, loaders: object) -> bool:
    """Whether samples without numbers of their own were counted in another order than that of the data set.

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


def _metrics_in(name: str, value: object) -> Iterator[tuple[str, EvaluatedMetric]]:
    if isinstance(value, (EmbeddingMetric, BoxMetric)):
        yield name, value
    elif isinstance(value, MetricCollection):
        members = value.values(copy_state=False)
        yield from [(name, each) for each in members if isinstance(each, (EmbeddingMetric, BoxMetric))][:1]
    elif isinstance(value, ModuleDict):
        for key, each in value.items():
            yield from _metrics_in(f"{name}.{key}", each)


@dataclass(frozen=True)
class DrawingOptions:
    """Options of `EvaluationPictures` about its pictures."""

    pictures: Pictures | None
    gallery_pictures: Pictures | None
    names: Mapping[int, str] | None
    num_queries: int
    k: int
    num_images: int


def drawings_of(metric: EvaluatedMetric, options: DrawingOptions) -> Drawings:
    """The drawings of a metric's samples, none where no process has any.

    All processes must call this; only the process that draws needs the result.
    """
    results: RetrievalResults | DetectionResults
    if isinstance(metric, EmbeddingMetric):
        results = metric.results()
        name, prepare = "hardest_queries", partial(_hardest_queries, metric, results, options)
        has_samples = results.counts.total > 0
    else:
        results = metric.results(across_classes=True)
        if options.names is not None:
            results = replace(results, class_names=options.names)
        name, prepare = "worst_images", partial(_worst_images, metric, results, options)
        has_samples = len(results.images) > 0
    if not has_samples:
        return {}
    rows = FIGURES[type(results)].items()
    drawings: Drawings = {name: partial(_figure, row.plot, results) for name, row in rows if not row.why_not(results)}
    if options.pictures is not None:
        drawings |= _with_error_kept(name, prepare)
    return drawings


def _figure(plot: Callable[[Any], tuple[Any, Any]], results: RetrievalResults | DetectionResults) -> Any:
    return plot(results)[0]


def _hardest_queries(metric: EmbeddingMetric, results: RetrievalResults, options: DrawingOptions) -> Drawings:
    hardest, pictures = results.hardest(options.num_queries), options.pictures
    if pictures is None or not len(hardest):
        return {}
    longest = int(results.num_candidates[hardest].max())
    lists = metric.nearest(min(options.k, longest), queries=hardest)
    gallery, names, precision = options.gallery_pictures, options.names, results.average_precision
    draw = partial(draw_rank_lists, gallery_pictures=gallery, names=names, average_precision=precision)
    table = partial(_rank_list_table, lists, pictures, options, precision)
    return {"hardest_queries": lambda: draw(lists, pictures), TABLE: table}


def _rank_list_table(
    lists: RankLists, pictures: Pictures, options: DrawingOptions, average_precision: Tensor
) -> PictureTable:
    """A row for each query, its pictures with captions: rank, score, identity and camera."""
    numbers = [lists.query_index, 100 * average_precision[lists.query], lists.first_positive_rank]
    rows = [
        [*values, *captioned_pictures(lists, row, pictures, options.gallery_pictures, options.names or {})]
        for row, values in enumerate(zip(*(each.tolist() for each in numbers), strict=True))
    ]
    ranks = [f"#{rank + 1}" for rank in range(lists.index.shape[1])]
    return PictureTable(["query", "AP (%)", "first right rank", "picture", *ranks, "first right answer"], rows)


def _worst_images(metric: BoxMetric, results: DetectionResults, options: DrawingOptions) -> Drawings:
    worst = results.worst_images(options.num_images, iou_threshold=results.averages.grid.shown_threshold)
    if options.pictures is None or not len(worst):
        return {}
    pictures, boxes = options.pictures, metric.boxes_of(worst.image)

    def draw() -> Any:
        images = [picture_at("pictures", pictures, image) for image in worst.image_ids]
        return draw_box_grid(images, *boxes, box_format=metric.box_format, **judged_like(results))

    return {"worst_images": draw}


def _with_error_kept(name: str, prepare: Callable[[], Drawings]) -> Drawings:
    """The drawings that `prepare` gives; if it fails, as in all processes alike, a drawing that raises its error."""
    try:
        return prepare()
    except Exception as error:  # noqa: BLE001 - said where pictures are drawn
        return {name: partial(_fail, error)}


def _fail(error: Exception) -> Any:
    raise error
