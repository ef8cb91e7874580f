"""Metrics in a module, and drawings of their evaluations: all processes evaluate, and one of them draws."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor
from torch.nn import Module, ModuleDict
from torch.utils.data import DistributedSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler
from torchmetrics import MetricCollection

from reid_torchmetrics import _hints, plot
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import RankLists, RetrievalResults
from reid_torchmetrics.metrics.detection import BoxMetric
from reid_torchmetrics.metrics.reid import EmbeddingMetric

from .pictures import PictureTable

EvaluatedMetric: TypeAlias = EmbeddingMetric | BoxMetric
Drawings: TypeAlias = dict[str, Callable[[], Any]]
"""functions that draw a figure or an image, by name of the drawing"""

TABLE = "hardest_queries_table"
SAMPLE_PICTURES = frozenset({"hardest_queries", "worst_images", TABLE})
"""drawings that show single samples, identified by their numbers or names"""


def evaluated_metrics(module: Module, argument: str, attributes: Sequence[str]) -> dict[str, EvaluatedMetric]:
    """Return the metrics in attributes of a module, by attribute, with dots for a metric inside another object.

    A collection stands for its first metric, because all its members have the same samples.

    Raises:
        TypeError: an attribute without a metric.
        ValueError: an attribute that the module lacks.
    """
    metrics: dict[str, EvaluatedMetric] = {}
    for attribute in attributes:
        try:
            value = operator.attrgetter(attribute)(module)
        except AttributeError:
            names = [repr(name) for name, child in module.named_children() if any(_metrics_in(name, child))]
            rule = (
                f"name an attribute of {type(module).__name__}, whose metrics are {_hints.listed(names, str) or 'none'}"
            )
            raise ValueError(f"`{argument}` must {rule}; got {attribute!r}.") from None
        attribute_metrics = dict(_metrics_in(attribute, value))
        if not attribute_metrics:
            rule = "name a metric of embeddings or of boxes, or a collection of some"
            raise TypeError(f"`{argument}` must {rule}; got {attribute!r}, a {type(value).__name__}.")
        metrics |= attribute_metrics
    return metrics


def holds_nothing(metric: EvaluatedMetric) -> bool:
    """Return whether a metric has no sample on this process."""
    if isinstance(metric, EmbeddingMetric):
        return not metric.roles
    return not metric.detection_counts


def numbers_are_others(metric: EvaluatedMetric, loaders: object) -> bool:
    """Return whether samples were numbered in another order than that of the data set, because they had no numbers.

    Samplers other than PyTorch's are assumed to keep the order.
    """
    if isinstance(metric, EmbeddingMetric):
        has_numbers = bool(metric.index)
    else:
        has_numbers = bool(metric.image_ids or metric.image_name_lengths)
    if has_numbers or holds_nothing(metric):
        return False
    for sampler in _samplers(loaders):
        if isinstance(sampler, (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)):
            return True
        if isinstance(sampler, DistributedSampler):
            # Images are numbered across processes in turn, as samplers assign them; embeddings process by process.
            is_reordered = isinstance(metric, EmbeddingMetric) and sampler.num_replicas > 1
            if sampler.shuffle or is_reordered:
                return True
    return False


def _samplers(loaders: object) -> Iterator[object]:
    """Yield the samplers of a loader, or of several loaders."""
    if isinstance(loaders, Mapping):
        loaders = list(loaders.values())
    elif not isinstance(loaders, (tuple, list)):
        loaders = [loaders]
    for loader in loaders:
        yield getattr(loader, "sampler", None)
        yield getattr(getattr(loader, "batch_sampler", None), "sampler", None)


def _metrics_in(name: str, value: object) -> Iterator[tuple[str, EvaluatedMetric]]:
    """Yield names and metrics in a value: one for a metric or a collection, several for a `ModuleDict`."""
    if isinstance(value, (EmbeddingMetric, BoxMetric)):
        yield name, value
    elif isinstance(value, MetricCollection):
        for metric in value.values(copy_state=False):
            if isinstance(metric, (EmbeddingMetric, BoxMetric)):
                yield name, metric
                return
    elif isinstance(value, ModuleDict):
        for key, child in value.items():
            yield from _metrics_in(f"{name}.{key}", child)


class DrawingOptions(NamedTuple):
    """Options of `EvaluationPictures` for its drawings."""

    pictures: Any
    """as for `plot.draw_rank_lists`; None for curves alone"""
    gallery_pictures: plot.Pictures | None
    names: Mapping[int, str] | None
    num_queries: int
    k: int
    num_images: int


def drawings_of(metric: EvaluatedMetric, options: DrawingOptions) -> Drawings:
    """Return the drawings of a metric's evaluation; none if no process has samples.

    All processes must call this; only the process that draws needs the result.
    """
    results: RetrievalResults | DetectionResults
    draw_samples: Any
    if isinstance(metric, EmbeddingMetric):
        results = metric.results()
        sample_drawing = "hardest_queries"
        draw_samples = _hardest_queries
        has_samples = results.counts.total > 0
    else:
        results = metric.results(across_classes=True)
        sample_drawing = "worst_images"
        draw_samples = _worst_images
        has_samples = len(results.images) > 0
    if not has_samples:
        return {}

    drawings: Drawings = {}
    for name, figure in plot.FIGURES[type(results)].items():
        if not figure.why_not(results):
            drawings[name] = partial(_draw_figure, figure, results)
    if options.pictures is not None:
        try:
            drawings |= draw_samples(metric, results, options)
        except Exception as error:  # noqa: BLE001 - all processes have the same error, which is raised in the drawing
            drawings[sample_drawing] = partial(_fail, error)
    return drawings


def _draw_figure(figure: plot.ResultFigure, results: RetrievalResults | DetectionResults) -> Any:
    return figure.plot(results)[0]


def _fail(error: Exception) -> Any:
    raise error


def _hardest_queries(metric: EmbeddingMetric, results: RetrievalResults, options: DrawingOptions) -> Drawings:
    """Return the drawings of the hardest queries with their first candidates, as an image and as a table."""
    if not int(results.counts.valid):
        return {}
    hardest, remark = plot.hardest_queries(results, options.num_queries)
    most_candidates = max(results.num_candidates[hardest].tolist(), default=1)  # no query may be imperfect
    lists = metric.nearest(min(options.k, most_candidates), queries=hardest)
    draw_image = partial(
        plot.draw_rank_lists,
        lists,
        options.pictures,
        gallery_pictures=options.gallery_pictures,
        identity_names=options.names,
        title=remark,
        average_precision=results.average_precision,
    )
    if not len(hardest):
        return {"hardest_queries": draw_image}
    draw_table = partial(_rank_list_table, lists, results.average_precision, options)
    return {"hardest_queries": draw_image, TABLE: draw_table}


def _rank_list_table(lists: RankLists, average_precision: Tensor, options: DrawingOptions) -> PictureTable:
    """Return a table with a row for each query; captions of pictures have rank, score, identity and camera."""
    columns = [lists.query_index, 100 * average_precision[lists.query], lists.first_positive_rank]
    rows = []
    for row, numbers in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        cells = plot.captioned_pictures(lists, row, options.pictures, options.gallery_pictures, options.names or {})
        rows.append([*numbers, *cells])
    ranks = [f"#{rank + 1}" for rank in range(lists.index.shape[1])]
    return PictureTable(["query", "AP (%)", "rank of the first match", "picture", *ranks, "first match"], rows)


def _worst_images(metric: BoxMetric, results: DetectionResults, options: DrawingOptions) -> Drawings:
    """Return the drawing of the images with the most errors."""
    worst = results.worst_images(options.num_images)
    if not len(worst):
        return {}
    detections, ground_truths = metric.boxes_of(worst.image)

    def draw() -> Any:
        images = [plot.picture_at("pictures", options.pictures, image) for image in worst.image_ids]
        return plot.draw_box_grid(
            images,
            detections,
            ground_truths,
            box_format=metric.box_format,
            **plot.judged_like(results),
        )

    return {"worst_images": draw}
