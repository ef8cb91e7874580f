"""Evaluation of re-identification, image retrieval and detection next to TorchMetrics and Lightning."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, get_args

from . import _extras, _hints, _names, _registries
from ._collector import collector_paused
from ._version import __version__ as __version__

if TYPE_CHECKING:  # an alias tells type checkers that a name is public
    from ._progress import progress as progress
    from ._warnings import AdviceWarning as AdviceWarning
    from .data import UnpaddedDistributedSampler as UnpaddedDistributedSampler
    from .diagnosis import diagnose as diagnose
    from .functional.retrieval import GalleryDraw as GalleryDraw
    from .functional.retrieval import Protocol as Protocol
    from .functional.retrieval import evaluate as evaluate
    from .functional.retrieval import evaluate_scores as evaluate_scores
    from .functional.world import DistributedMetricError as DistributedMetricError
    from .metrics.detection import DetectionMAP as DetectionMAP
    from .metrics.detection import DetectionMetrics as DetectionMetrics
    from .metrics.reid import EmbeddingMetric as EmbeddingMetric
    from .metrics.reid import ReIDCMC as ReIDCMC
    from .metrics.reid import ReIDCMCCurve as ReIDCMCCurve
    from .metrics.reid import ReIDMeanAP as ReIDMeanAP
    from .metrics.reid import ReIDMeasure as ReIDMeasure
    from .metrics.reid import ReIDMetrics as ReIDMetrics
    from .metrics.reid import ReIDMINP as ReIDMINP
    from .report import write_report as write_report
    from .tasks import KReciprocal as KReciprocal
    from .tasks import QueryExpansion as QueryExpansion
    from .tasks import compare as compare
    from .tasks import evaluate_lists as evaluate_lists
    from .tasks import find_duplicates as find_duplicates
    from .tasks import index_lists as index_lists
    from .tasks import index_recall as index_recall
    from .tasks import verify_pairs as verify_pairs
    from .tasks.metrics import EmbeddingQuality as EmbeddingQuality
    from .tasks.metrics import LvisMAP as LvisMAP
    from .tasks.metrics import PairVerification as PairVerification
    from .tasks.metrics import ReIDOpenSet as ReIDOpenSet
    from .tasks.metrics import VocMAP as VocMAP
    from .tasks.metrics import YoloMAP as YoloMAP

    CMC = ReIDCMC
    MeanAP = ReIDMeanAP
    MINP = ReIDMINP

# Only this file imports the engine, the tasks and the tools. Results and metrics draw with the package that it sets
# here, and the engine calls the other one when results have been made.
_extras.pictures = partial(import_module, ".plot", __name__)
_extras.files = partial(import_module, ".files", __name__)


@collector_paused()
def _import_diagnosis() -> Any:
    """Import the diagnosis; the garbage collector, which looks at all objects of torch, doubles the time."""
    return import_module(".diagnosis", __name__)


if find_spec(".diagnosis", __name__) is not None and find_spec(".tasks", __name__) is not None:
    _extras.diagnosis = cache(_import_diagnosis)

# A task adds rows to registries of the engine, which does not list them. The first look-up of a row imports its task.
_ROWS_OF_TASKS = {
    "tasks.comparison": {"TABLE_FORMATS": "markdown latex csv", "RETRIEVAL_METHODS": "interval"},
    "tasks.benchmarks": {"PROTOCOLS": " ".join(get_args(_names.BenchmarkProtocol))},
    "tasks.lists": {"LIST_READERS": "positions numbers"},
    "tasks.hashing": {
        "SEVERAL_LABELS": "check_matrix SharedLabels to_words from_words",
        "RANKINGS_AT_ONCE": "whole_scores",
        "CODE_READERS": "marked packed",
    },
    "tasks.places": {"POSITIVES_BY_OPTION": "radius", "GROUPED_GALLERIES": "best_member"},
    "tasks.draws": {"EXPECTATIONS": "drawn_galleries"},
    "tasks.reranking": {"RERANKINGS": "KReciprocal QueryExpansion"},
    "tasks.identification": {"RETRIEVAL_METHODS": "identification"},
    "tasks.votes": {"LIST_METHODS": "knn_accuracy"},
    "tasks.camera_pairs": {"RETRIEVAL_METHODS": "by_camera_pair"},
    "tasks.pooled_queries": {"POOLED_QUERIES": "mean"},
    "tasks.metrics": {"METRIC_METHODS": "duplicates camera_pairs"},
    "tasks.operating_points": {
        "RESULT_METHODS": "detections ranked at_confidence best_f1 best_confidences image_errors confidence_curve"
        " precision_recall_curve",
        "MORE_VALUES": "precision_50 recall_50 f1_50 confidence_50 precision_75 recall_75 f1_75 confidence_75",
        "CLASS_COLUMNS": "f1",
    },
    "tasks.detection_errors": {
        "RESULT_METHODS": "confusion_matrix error_breakdown localization_errors",
        "MORE_VALUES": "lrp lrp_localization lrp_fp lrp_fn",
        "MATCH_PARTS": "ObjectPairs",
    },
    "tasks.image_boxes": {"RESULT_METHODS": "all_boxes boxes_of boxes_of_metric"},
    "tasks.rotated_boxes": {"SHAPE_TYPES": "rotated", "SHAPES_IN_WORDS": "rotated"},
    "tasks.evaluators": {
        "EVALUATORS": " ".join(get_args(_names.TaskEvaluator)),
        "AP_RULES": " ".join(get_args(_names.TaskRule)),
        "EXTRAS": "difficult lists",
    },
}
for _task, _rows in _ROWS_OF_TASKS.items():
    for _registry, _row_names in _rows.items():
        _load = partial(import_module, f".{_task}", __name__)
        _registries.TASKS.setdefault(_registry, {}).update(dict.fromkeys(_row_names.split(), _load))
if find_spec(".tasks", __name__) is None:  # tables have fewer columns then; what is asked for by its name is an error
    del _registries.TASKS["CLASS_COLUMNS"]
    del _registries.TASKS["RANKINGS_AT_ONCE"]

_PUBLIC_MODULES = (
    "functional.retrieval",
    "functional.detection",
    "tasks",
    "data",
    "plot",
    "report",
    "integrations",
    "coco",
)
"""the modules with public names that are not in the package itself, for hints"""
_SHORT = {"CMC": "ReIDCMC", "MINP": "ReIDMINP", "MeanAP": "ReIDMeanAP"}
# Torch is imported with the first name that is used, so that the command can print its help without torch.
_NAMES = {
    "_progress": "progress",
    "_warnings": "AdviceWarning",
    "data": "UnpaddedDistributedSampler",
    "diagnosis": "diagnose",
    "functional.retrieval": "GalleryDraw Protocol evaluate evaluate_scores",
    "functional.world": "DistributedMetricError",
    "metrics.detection": "DetectionMAP DetectionMetrics",
    "metrics.reid": "EmbeddingMetric ReIDCMC ReIDCMCCurve ReIDMeanAP ReIDMeasure ReIDMetrics ReIDMINP",
    "report": "write_report",
    "tasks": "KReciprocal QueryExpansion compare evaluate_lists find_duplicates index_lists index_recall verify_pairs",
    "tasks.metrics": "EmbeddingQuality LvisMAP PairVerification ReIDOpenSet VocMAP YoloMAP",
}
_MOVED = {
    "functional.retrieval": "Comparison Counts Difference Duplicates GalleryStatistics Identification IndexRecall"
    " Interval KReciprocal QueryExpansion RankCounter ScoreHistogram Verification accuracy_over_folds"
    " bootstrap_interval compare evaluate_lists evaluate_stream expand_queries find_duplicates fnmr_at_fmr"
    " global_average_precision index_recall knn_accuracy"
    " person_search rerank_k_reciprocal score_histogram verify verify_pairs",
    "functional.detection": "ConfidenceCurve ConfusionMatrix DetectionCurve ERROR_KINDS ErrorBreakdown ImageErrors"
    " LocalizationErrors OperatingPoints PrecisionRecallCurve RankedDetections compute_ap non_maximum_suppression"
    " rotated_iou yolo_average_precision",
}
"""names of tasks that modules of the engine had"""
_PLACES = {name: f".{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted({*_PLACES, *_SHORT})  # noqa: PLE0605 - names are written once

if not TYPE_CHECKING:  # to type checkers no other name exists

    def __getattr__(name: str) -> Any:
        full = _SHORT.get(name, name)
        if full in _PLACES:
            value = globals()[name] = getattr(import_module(_PLACES[full], __name__), full)
            return value
        if name.startswith("_") or find_spec(f"{__name__}.{name}") is None:
            raise _no_attribute(__name__, name)
        return import_module(f".{name}", __name__)

    def __dir__() -> list[str]:
        return __all__

    def _moved(module: str, name: str) -> Any:
        """Return what a module had and `tasks` has now; None for other names."""
        names = _MOVED.get(module.removeprefix(f"{__name__}."), "").split()
        has_tasks = name in names and find_spec(".tasks", __name__) is not None
        return getattr(import_module(".tasks", __name__), name) if has_tasks else None

    _extras.moved = _moved
    _extras.name_in = lambda module, name: getattr(import_module(module), name)

    def _no_attribute(module: str, name: str) -> Exception:
        """Return the error that the `__getattr__` of a module raises."""
        is_module = not name.startswith("_") and find_spec(f"{module}.{name}") is not None
        hint = "" if is_module else _hint_for(module, name)
        # Python drops the text of an AttributeError in `from ... import`, which its import system looks up first.
        is_import = sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"  # noqa: SLF001
        error = ImportError if hint and is_import else AttributeError
        return error(f"module {module!r} has no attribute {name!r}{hint}", name=name)

    _extras.no_attribute = _no_attribute

    def _hint_for(module: str, name: str) -> str:
        """Return a hint at the package that has a name, or at its counterpart; "" if neither is known."""
        if name.startswith("_"):
            return ""
        places = dict.fromkeys(__all__, __name__)
        for place in _PUBLIC_MODULES:
            with suppress(ImportError):  # the tools may be absent
                for public_name in import_module(f".{place}", __name__).__all__:
                    places.setdefault(public_name, f"{__name__}.{place}")
        match = name if name in places else _hints.name_meant(name, places)
        if match is None:
            return _hints.advice(name)
        if match in __all__:
            return f"; there is `{match}`" if module == __name__ else f"; there is `{__name__}.{match}`"
        moved = "".join(f" and `{__name__}.{place}`" for place, names in _MOVED.items() if match in names.split())
        return f"; `{match}` is in `{places[match]}`{moved}"
