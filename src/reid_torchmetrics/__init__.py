"""Evaluation of re-identification, image retrieval and detection next to TorchMetrics and Lightning."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import _extras
from ._version import __version__ as __version__

if TYPE_CHECKING:
    from ._progress import progress
    from .data import UnpaddedDistributedSampler
    from .functional.retrieval import (
        GalleryDraw,
        KReciprocal,
        Protocol,
        QueryExpansion,
        compare,
        evaluate,
        evaluate_scores,
    )
    from .functional.world import DistributedMetricError
    from .metrics.detection import DetectionMAP, DetectionMetrics, LvisMAP, VocMAP, YoloMAP
    from .metrics.reid import (
        EmbeddingMetric,
        PairVerification,
        ReIDCMC,
        ReIDCMCCurve,
        ReIDMeanAP,
        ReIDMeasure,
        ReIDMetrics,
        ReIDMINP,
        ReIDOpenSet,
    )
    from .report import write_report

    CMC = ReIDCMC
    MeanAP = ReIDMeanAP
    MINP = ReIDMINP

# The face alone knows both the engine and the tools: results and metrics draw with what it hands in.
_extras.pictures = partial(import_module, ".plot", __name__)

_SHORT = {"CMC": "ReIDCMC", "MINP": "ReIDMINP", "MeanAP": "ReIDMeanAP"}
# Torch is imported with the first name that is asked for, so that the command says what it can do without.
_MODULES = {
    "_progress": ("progress",),
    "data": ("UnpaddedDistributedSampler",),
    "functional.retrieval": (
        "GalleryDraw",
        "KReciprocal",
        "Protocol",
        "QueryExpansion",
        "compare",
        "evaluate",
        "evaluate_scores",
    ),
    "functional.world": ("DistributedMetricError",),
    "metrics.detection": ("DetectionMAP", "DetectionMetrics", "LvisMAP", "VocMAP", "YoloMAP"),
    "metrics.reid": (
        "EmbeddingMetric",
        "PairVerification",
        "ReIDCMC",
        "ReIDCMCCurve",
        "ReIDMeanAP",
        "ReIDMeasure",
        "ReIDMetrics",
        "ReIDMINP",
        "ReIDOpenSet",
    ),
    "report": ("write_report",),
}
_PLACES = {name: f".{module}" for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # to type checkers no other name exists

    def __getattr__(name: str) -> Any:
        full = _SHORT.get(name, name)
        if full in _PLACES:
            value = globals()[name] = getattr(import_module(_PLACES[full], __name__), full)
            return value
        if not name.startswith("_"):  # a module
            try:
                return import_module(f".{name}", __name__)
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "CMC",
    "MINP",
    "DetectionMAP",
    "DetectionMetrics",
    "DistributedMetricError",
    "EmbeddingMetric",
    "GalleryDraw",
    "KReciprocal",
    "LvisMAP",
    "MeanAP",
    "PairVerification",
    "Protocol",
    "QueryExpansion",
    "ReIDCMC",
    "ReIDCMCCurve",
    "ReIDMINP",
    "ReIDMeanAP",
    "ReIDMeasure",
    "ReIDMetrics",
    "ReIDOpenSet",
    "UnpaddedDistributedSampler",
    "VocMAP",
    "YoloMAP",
    "compare",
    "evaluate",
    "evaluate_scores",
    "progress",
    "write_report",
]
