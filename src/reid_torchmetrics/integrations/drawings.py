"""What there is to draw of an evaluation: all processes evaluate, and one of them draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from reid_torchmetrics.functional.detection.errors import LEAST_OVERLAP
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.integrations.evaluated_metrics import EvaluatedMetric
from reid_torchmetrics.metrics.detection import DetectionMAP, DetectionResults
from reid_torchmetrics.metrics.reid import EmbeddingMetric
from reid_torchmetrics.plot import (
    MOST_CLASSES,
    Pictures,
    draw_box_grid,
    draw_rank_lists,
    picture_at,
    plot_cmc,
    plot_confidence,
    plot_confusion_matrix,
    plot_error_breakdown,
    plot_first_ranks,
    plot_precision_recall,
    plot_retrieval_precision_recall,
)

Drawings: TypeAlias = dict[str, Callable[[], Any]]
"""by name, what draws a figure or an image"""

SAMPLE_PICTURES = frozenset({"hardest_queries", "worst_images"})
"""drawings of single samples, whose numbers or names are those of pictures"""

_IOU_THRESHOLD = 0.5  # of what is drawn at one threshold, where the metric has it


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
    return _of_detection(metric, shown) if isinstance(metric, DetectionMAP) else _of_retrieval(metric, shown)


def _of_retrieval(metric: EmbeddingMetric, shown: Shown) -> Drawings:
    results = metric.results()
    if not results.counts.total:
        return {}
    drawings: Drawings = {
        "cmc": lambda: plot_cmc(results.cmc)[0],
        "first_ranks": lambda: plot_first_ranks(results)[0],
    }
    if results.setup.ties != "expected":  # a mean over orders has no curve
        drawings["precision_recall"] = lambda: plot_retrieval_precision_recall(results)[0]
    if shown.pictures is not None:
        drawings |= _with_error_kept("hardest_queries", lambda: _hardest_queries(metric, results, shown))
    return drawings


def _hardest_queries(metric: EmbeddingMetric, results: RetrievalResults, shown: Shown) -> Drawings:
    hardest, pictures = results.hardest(shown.num_queries), shown.pictures
    if pictures is None or not len(hardest):
        return {}
    longest = int(results.num_candidates[hardest].max())
    lists = metric.nearest(min(shown.k, longest), queries=hardest)
    options: dict[str, Any] = {"gallery_pictures": shown.gallery_pictures, "names": shown.names}
    return {"hardest_queries": lambda: draw_rank_lists(lists, pictures, **options)}


def _of_detection(metric: DetectionMAP, shown: Shown) -> Drawings:
    results = metric.results(across_classes=True)
    if not len(results.images):
        return {}
    thresholds = results.averages.grid.iou_thresholds
    threshold = _IOU_THRESHOLD if _IOU_THRESHOLD in thresholds else thresholds[0]
    names = metric.class_names if shown.names is None else shown.names
    options: dict[str, Any] = {"iou_threshold": threshold, "names": names}
    drawings: Drawings = {
        "precision_recall": lambda: plot_precision_recall(results, **options)[0],
        "confidence": lambda: plot_confidence(results, **options)[0],
    }
    if threshold >= LEAST_OVERLAP:
        drawings |= {
            "confusion_matrix": lambda: plot_confusion_matrix(
                results.confusion_matrix(iou_threshold=threshold, num_classes=MOST_CLASSES), names=names
            )[0],
            "kinds_of_errors": lambda: plot_error_breakdown(results.error_breakdown(iou_threshold=threshold))[0],
        }
    if shown.pictures is not None:
        drawings |= _with_error_kept("worst_images", lambda: _worst_images(metric, results, shown, options))
    return drawings


def _worst_images(
    metric: DetectionMAP, results: DetectionResults, shown: Shown, options: Mapping[str, Any]
) -> Drawings:
    threshold, pictures = options["iou_threshold"], shown.pictures
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
            class_agnostic=metric.average == "micro",
            **options,
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
