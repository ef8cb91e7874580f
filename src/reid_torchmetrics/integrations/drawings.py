"""The metrics of a module, and the drawings of their evaluations: all processes evaluate, and one of them draws."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor
from torch.nn import Module, ModuleDict
from torch.utils.data import DistributedSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torchmetrics import MetricCollection

from reid_torchmetrics import plot
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import RankLists, RetrievalResults
from reid_torchmetrics.metrics.detection import BoxMetric
from reid_torchmetrics.metrics.reid import EmbeddingMetric

from .pictures import PictureTable

EvaluatedMetric: TypeAlias = EmbeddingMetric | BoxMetric
Drawings: TypeAlias = dict[str, Callable[[], Any]]
"""functions that draw a figure or an image, by its name"""

TABLE = "hardest_queries_table"
SAMPLE_PICTURES = frozenset({"hardest_queries", "worst_images", TABLE})
"""drawings of single samples, found by their numbers or names"""


def evaluated_metrics(module: Module, argument: str, attributes: Sequence[str]) -> dict[str, EvaluatedMetric]:
    """The metrics in attributes of a module, by the attribute's name, with dots where it is within another.

    Of a collection it is the first one, for all its members were given the same samples.

    Raises:
        TypeError: an attribute without a metric.
        ValueError: the module lacks an attribute.
    """
    metrics: dict[str, EvaluatedMetric] = {}
    for attribute in attributes:
        try:
            value = operator.attrgetter(attribute)(module)
        except AttributeError:
            has = [repr(name) for name, child in module.named_children() if any(_metrics_in(name, child))]
            rule = f"name an attribute of {type(module).__name__}, whose metrics are {', '.join(has) or 'none'}"
            raise ValueError(f"`{argument}` must {rule}; got {attribute!r}.") from None
        of_attribute = dict(_metrics_in(attribute, value))
        if not of_attribute:
            rule = "name a metric of embeddings or of boxes, or a collection of some"
            raise TypeError(f"`{argument}` must {rule}; got {attribute!r}, a {type(value).__name__}.")
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
    if holds_nothing(metric) or any(map(len, numbers)):
        return False
    # Images are counted in turn over processes, as samples are dealt out; embeddings process by process.
    return any(
        isinstance(each, (RandomSampler, SubsetRandomSampler, WeightedRandomSampler))
        or (isinstance(each, DistributedSampler) and (each.shuffle or (is_of_embeddings and each.num_replicas > 1)))
        for each in _samplers(loaders)
    )


def _samplers(loaders: object) -> Iterator[object]:
    loaders = [*loaders.values()] if isinstance(loaders, Mapping) else loaders
    for loader in loaders if isinstance(loaders, (tuple, list)) else [loaders]:
        yield getattr(loader, "sampler", None)
        yield getattr(getattr(loader, "batch_sampler", None), "sampler", None)


def _metrics_in(name: str, value: object) -> Iterator[tuple[str, EvaluatedMetric]]:
    if isinstance(value, (EmbeddingMetric, BoxMetric)):
        yield name, value
    elif isinstance(value, MetricCollection):
        members = value.values(copy_state=False)
        yield from [(name, each) for each in members if isinstance(each, (EmbeddingMetric, BoxMetric))][:1]
    elif isinstance(value, ModuleDict):
        for key, each in value.items():
            yield from _metrics_in(f"{name}.{key}", each)


class DrawingOptions(NamedTuple):
    """Options of `EvaluationPictures` about its pictures."""

    pictures: plot.Pictures | None
    gallery_pictures: plot.Pictures | None
    names: Mapping[int, str] | None
    num_queries: int
    k: int
    num_images: int


def drawings_of(metric: EvaluatedMetric, options: DrawingOptions) -> Drawings:
    """The drawings of a metric's samples, none where no process has any.

    All processes must call this; only the process that draws needs the result.
    """
    results: RetrievalResults | DetectionResults
    drawn: Any
    if isinstance(metric, EmbeddingMetric):
        results = metric.results()
        name, drawn, has_samples = "hardest_queries", _hardest_queries, results.counts.total > 0
    else:
        results = metric.results(across_classes=True)
        name, drawn, has_samples = "worst_images", _worst_images, len(results.images) > 0
    if not has_samples:
        return {}
    rows = plot.FIGURES[type(results)].items()
    drawings: Drawings = {name: partial(_figure, row, results) for name, row in rows if not row.why_not(results)}
    if options.pictures is not None:
        try:
            drawings |= drawn(metric, results, options)
        except Exception as error:  # noqa: BLE001 - as in all processes alike, and said where pictures are drawn
            drawings[name] = partial(_fail, error)
    return drawings


def _figure(row: plot.ResultFigure, results: RetrievalResults | DetectionResults) -> Any:
    return row.plot(results)[0]


def _fail(error: Exception) -> Any:
    raise error


def _hardest_queries(metric: EmbeddingMetric, results: RetrievalResults, options: DrawingOptions) -> Drawings:
    hardest, precision = results.hardest(options.num_queries), results.average_precision
    if not len(hardest):
        return {}
    lists = metric.nearest(min(options.k, int(results.num_candidates[hardest].max())), queries=hardest)
    pictures, gallery_pictures, names = options.pictures, options.gallery_pictures, options.names
    draw = partial(plot.draw_rank_lists, gallery_pictures=gallery_pictures, names=names, average_precision=precision)
    table = partial(_rank_list_table, lists, precision, pictures, gallery_pictures, names or {})
    return {"hardest_queries": partial(draw, lists, pictures), TABLE: table}


def _rank_list_table(lists: RankLists, average_precision: Tensor, *shown: Any) -> PictureTable:
    """A row for each query, its pictures with captions: rank, score, identity and camera."""
    columns = lists.query_index, 100 * average_precision[lists.query], lists.first_positive_rank
    numbers = zip(*(each.tolist() for each in columns), strict=True)
    rows = [[*values, *plot.captioned_pictures(lists, row, *shown)] for row, values in enumerate(numbers)]
    ranks = [f"#{rank + 1}" for rank in range(lists.index.shape[1])]
    return PictureTable(["query", "AP (%)", "first right rank", "picture", *ranks, "first right answer"], rows)


def _worst_images(metric: BoxMetric, results: DetectionResults, options: DrawingOptions) -> Drawings:
    worst = results.worst_images(options.num_images)
    if not len(worst):
        return {}
    pictures: Any = options.pictures
    boxes = metric.boxes_of(worst.image)

    def draw() -> Any:
        images = [plot.picture_at("pictures", pictures, image) for image in worst.image_ids]
        return plot.draw_box_grid(images, *boxes, box_format=metric.box_format, **plot.judged_like(results))

    return {"worst_images": draw}
