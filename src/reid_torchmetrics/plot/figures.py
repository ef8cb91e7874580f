"""The figures of results, one row each, for the callback and for reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from reid_torchmetrics.functional.detection.errors import LEAST_OVERLAP
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES

from .axes import Axes, Plotted
from .detection_curves import plot_detection_confidence, plot_detection_precision_recall
from .differences import plot_error_breakdown
from .matrices import MOST_CLASSES, MOST_ROWS_WRITTEN, plot_confusion_matrix
from .retrieval_curves import plot_cmc, plot_first_ranks, plot_retrieval_precision_recall


class ResultFigure(NamedTuple):
    """A figure of results, with its caption and the condition for drawing it."""

    plot: Callable[..., Plotted]
    """draws results, into `ax` if given"""
    caption: str
    section: str = "curves"
    """section of a report"""
    why_not: Callable[[Any], str] = lambda _: ""
    """the reason why results have no such figure; empty if they have it"""


def _why_no_precision(results: RetrievalResults) -> str:
    """Return the reason why there is no precision at each rank; empty if there is."""
    if TIE_POLICIES[results.setup.ties].averages:
        return "a mean over orders of equal scores has no precision at each rank."
    return ""


def why_no_errors(results: DetectionResults) -> str:
    """Return the reason why results hold no confusions of classes; empty if they hold them."""
    if results.objects is not None and results.averages.grid.shown_threshold >= LEAST_OVERLAP:
        return ""
    remedy = "results(across_classes=True) of a metric holds which boxes of different classes overlap"
    return f"{remedy}, from {LEAST_OVERLAP:g} on."


def _why_no_counts(results: DetectionResults) -> str:
    """Return the reason why a confusion matrix has no room for numbers of boxes; empty if it has."""
    reason = why_no_errors(results)
    if reason or len(results.classes) < MOST_ROWS_WRITTEN:
        return reason
    return f"numbers of boxes have no room in a confusion matrix of more than {MOST_ROWS_WRITTEN - 1} classes."


def why_no_kinds_of_errors(results: DetectionResults) -> str:
    """Return the reason why errors have no kinds; empty if they have."""
    evaluator = results.evaluator
    if evaluator.why_no_breakdown:
        return f"errors of {evaluator.title} have no kinds: {evaluator.why_no_breakdown}."
    return why_no_errors(results)


def _plot_precision_recall(results: DetectionResults, *, ax: Axes | None = None) -> Plotted:
    threshold = results.averages.grid.shown_threshold
    names = results.class_names
    return plot_detection_precision_recall(results, iou_threshold=threshold, class_names=names, ax=ax)


def _plot_confidence(results: DetectionResults, *, ax: Axes | None = None) -> Plotted:
    threshold = results.averages.grid.shown_threshold
    return plot_detection_confidence(results, iou_threshold=threshold, class_names=results.class_names, ax=ax)


def _plot_confusion(results: DetectionResults, *, normalize: bool = True, ax: Axes | None = None) -> Plotted:
    matrix = results.confusion_matrix(num_classes=MOST_CLASSES)
    return plot_confusion_matrix(matrix, normalize=normalize, class_names=results.class_names, ax=ax)


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
            "Mean over queries of the interpolated precision at each recall.",
            why_not=_why_no_precision,
        ),
        "first_ranks": ResultFigure(plot_first_ranks, "Queries by the rank of their first match."),
    },
    DetectionResults: {
        "precision_recall": ResultFigure(
            _plot_precision_recall,
            "Precision over recall.",
            "numbers",
        ),
        "confidence": ResultFigure(
            _plot_confidence,
            "Precision, recall and F1 of the detections from each confidence on.",
            "numbers",
        ),
        "confusion_matrix": ResultFigure(
            _plot_confusion,
            f"Detections are matched without regard to class, {COUNTED}. Rows are ground truths; the row of background"
            " has the detections that match none.",
            "errors",
            why_no_errors,
        ),
        "confusion_counts": ResultFigure(
            partial(_plot_confusion, normalize=False),
            "The same in the same colors, with numbers of boxes.",
            "errors",
            _why_no_counts,
        ),
        "kinds_of_errors": ResultFigure(
            lambda results, ax=None: plot_error_breakdown(results.error_breakdown(), ax=ax),
            "Kinds of errors after TIDE, of all detections: the gain of average precision if one kind is repaired.",
            "errors",
            why_no_kinds_of_errors,
        ),
    },
}
"""figures by the type of results and by name; `results.plot()` draws the first"""
