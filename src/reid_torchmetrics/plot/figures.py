"""The figures of results, one row each, for the callback and for reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.tasks.detection_errors import LEAST_OVERLAP, why_no_breakdown

from .axes import COLUMN_SIZE, Axes, Plotted
from .detection_curves import plot_detection_confidence, plot_detection_precision_recall
from .differences import plot_error_breakdown
from .matrices import MOST_CLASSES, plot_confusion_matrix, size_for_rows
from .retrieval_curves import plot_cmc, plot_first_ranks, plot_retrieval_precision_recall


class ResultFigure(NamedTuple):
    """A figure of results, with its caption and the condition for drawing it."""

    plot: Callable[..., Plotted]
    """draws results, into `ax` if given"""
    caption: str
    """for a report, below the title of the figure; it says what the title and the axes do not"""
    section: str = "curves"
    """section of a report"""
    why_not: Callable[[Any], str] = lambda _: ""
    """the reason why results have no such figure; empty if they have it"""
    size: Callable[[Any], tuple[float, float]] = lambda _: COLUMN_SIZE
    """size of the figure in a report, in inches of 72 pixels"""


def _why_no_precision(results: RetrievalResults) -> str:
    """Return the reason why there is no precision at each rank; empty if there is."""
    if TIE_POLICIES[results.setup.ties].averages:
        return "a mean over orders of equal scores has no precision at each rank."
    return ""


def why_no_errors(results: DetectionResults) -> str:
    """Return the reason why results hold no confusions of classes; empty if they hold them."""
    if results.objects is not None and results.averages.grid.shown_threshold >= LEAST_OVERLAP:
        return ""
    remedy = "results(across_classes=True) of a metric holds which objects of different classes overlap"
    return f"{remedy}, from {LEAST_OVERLAP:g} on."


def why_no_kinds_of_errors(results: DetectionResults) -> str:
    """Return the reason why errors have no kinds; empty if they have."""
    reason = why_no_breakdown(results.evaluator)
    if reason:
        return f"errors of {results.evaluator.title} have no kinds: {reason}."
    return why_no_errors(results)


def _shown(results: DetectionResults) -> dict[str, Any]:
    """Return the options of curves that are about the IoU threshold nearest to 0.5."""
    return {"iou_threshold": results.averages.grid.shown_threshold, "class_names": results.class_names}


def _plot_confusion(results: DetectionResults, *, ax: Axes | None = None) -> Plotted:
    matrix = results.confusion_matrix(num_classes=MOST_CLASSES)
    return plot_confusion_matrix(matrix, class_names=results.class_names, ax=ax)


def _confusion_size(results: DetectionResults) -> tuple[float, float]:
    num_classes = min(len(results.classes), MOST_CLASSES)
    return size_for_rows(num_classes + 1)  # and background


COUNTED = (
    "from the confidence with the highest F1 of their class on, or with the highest mean F1 of all classes for a class"
    " in which nothing is right"
)
"""the default rule for the detections that count, in words"""

FIGURES: dict[type, dict[str, ResultFigure]] = {
    RetrievalResults: {
        "cmc": ResultFigure(
            lambda results, ax=None: plot_cmc(results.cmc, ax=ax),
            "Share of the queries with a match among the first candidates.",
            "numbers",
        ),
        "precision_recall": ResultFigure(
            plot_retrieval_precision_recall,
            "At each recall the precision is the highest one at that recall or a higher one.",
            why_not=_why_no_precision,
        ),
        "first_ranks": ResultFigure(plot_first_ranks, ""),
    },
    DetectionResults: {
        "precision_recall": ResultFigure(
            lambda results, ax=None: plot_detection_precision_recall(results, ax=ax, **_shown(results)),
            "At each recall the precision is the highest one at that recall or a higher one.",
            "numbers",
        ),
        "confidence": ResultFigure(
            lambda results, ax=None: plot_detection_confidence(results, ax=ax, **_shown(results)),
            "Precision, recall and F1 when only detections of at least a confidence are kept.",
            "numbers",
        ),
        "confusion_matrix": ResultFigure(
            _plot_confusion,
            f"Detections are matched without regard to class, {COUNTED}. The row of background has the"
            " detections that match none.",
            "errors",
            why_no_errors,
            _confusion_size,
        ),
        "kinds_of_errors": ResultFigure(
            lambda results, ax=None: plot_error_breakdown(results.error_breakdown(), ax=ax),
            "Error types (TIDE), over all detections: the average precision gained if one kind is repaired.",
            "errors",
            why_no_kinds_of_errors,
        ),
    },
}
"""figures by the type of results and by name; `results.plot()` draws the first"""
