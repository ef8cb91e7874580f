"""The figures of results, one row each, for the callback and for reports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from reid_torchmetrics.functional.detection.errors import LEAST_OVERLAP
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES

from .axes import Plotted
from .detection_curves import plot_detection_confidence, plot_detection_precision_recall
from .differences import plot_error_breakdown
from .matrices import MOST_CLASSES, MOST_ROWS_WRITTEN, plot_confusion_matrix
from .retrieval_curves import plot_cmc, plot_first_ranks, plot_retrieval_precision_recall


class ResultFigure(NamedTuple):
    """A figure of results."""

    plot: Callable[..., Plotted]
    """draws results, into `ax` if given"""
    caption: str
    section: str = "curves"
    """of a report"""
    why_not: Callable[[Any], str] = lambda _: ""
    """the reason why results have no such figure; empty if they have it"""


def _why_no_precision(results: RetrievalResults) -> str:
    averages = TIE_POLICIES[results.setup.ties].averages
    return "a mean over orders of equal scores has no precision at each rank." if averages else ""


def why_no_errors(results: DetectionResults) -> str:
    """The reason why confusions of classes are not known; empty if they are."""
    if results.objects is not None and results.averages.grid.shown_threshold >= LEAST_OVERLAP:
        return ""
    how = "results(across_classes=True) of a metric holds which boxes of different classes overlap"
    return f"{how}, from {LEAST_OVERLAP:g} on."


def _why_no_counts(results: DetectionResults) -> str:
    why = f"numbers of boxes have no room in a confusion matrix of more than {MOST_ROWS_WRITTEN - 1} classes."
    return why_no_errors(results) or why * (len(results.classes) >= MOST_ROWS_WRITTEN)


def why_no_kinds_of_errors(results: DetectionResults) -> str:
    """The reason why errors have no kinds; empty if they have."""
    why = results.evaluator.why_no_breakdown
    return f"errors of {results.evaluator.title} have no kinds: {why}." if why else why_no_errors(results)


def _shown(results: DetectionResults) -> dict[str, Any]:
    return {"iou_threshold": results.averages.grid.shown_threshold, "class_names": results.class_names}


def _confusion(results: DetectionResults, *, normalize: bool = True, **options: Any) -> Plotted:
    matrix = results.confusion_matrix(num_classes=MOST_CLASSES)
    return plot_confusion_matrix(matrix, normalize=normalize, class_names=results.class_names, **options)


COUNTED = (
    "from the confidence with the highest F1 of their class on, or with the highest mean F1 of all classes for a class"
    " in which nothing is right"
)
"""the detections that count where no confidence is given, in words"""

FIGURES: dict[type, dict[str, ResultFigure]] = {
    RetrievalResults: {
        "cmc": ResultFigure(
            lambda results, **options: plot_cmc(results.cmc, **options),
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
            lambda results, **options: plot_detection_precision_recall(results, **_shown(results), **options),
            "Precision over recall.",
            "numbers",
        ),
        "confidence": ResultFigure(
            lambda results, **options: plot_detection_confidence(results, **_shown(results), **options),
            "Precision, recall and F1 of the detections from each confidence on.",
            "numbers",
        ),
        "confusion_matrix": ResultFigure(
            _confusion,
            f"Detections are matched without regard to class, {COUNTED}. Rows are ground truths; the row of background"
            " has the detections that match none.",
            "errors",
            why_no_errors,
        ),
        "confusion_counts": ResultFigure(
            partial(_confusion, normalize=False),
            "The same in the same colors, with numbers of boxes.",
            "errors",
            _why_no_counts,
        ),
        "kinds_of_errors": ResultFigure(
            lambda results, **options: plot_error_breakdown(results.error_breakdown(), **options),
            "Kinds of errors after TIDE, of all detections: the gain of average precision if one kind is repaired.",
            "errors",
            why_no_kinds_of_errors,
        ),
    },
}
"""by the type of results and the name of the figure; the first is that of `results.plot()`"""
