"""Say why a number is probably not what the user meant: a registry of causes, which are looked for in finished results.

    results, samples --> case --> suspicions, which are cheap --> trials on a bounded sample --> one warning each

The engine calls `look` when results have been made, and knows nothing else of this package. No number depends on it.
"""

from __future__ import annotations

from typing import Any

from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples
from reid_torchmetrics.functional.world import WarningLog

from .causes import Cause, CauseName, grouped, warn_of
from .retrieval import RETRIEVAL_CAUSES, RetrievalCase

__all__ = ["Cause", "CauseName", "look", "warn_of"]

_OF_RANKINGS = grouped(RETRIEVAL_CAUSES.values())


def look(results: Any, samples: Any, warning_log: WarningLog) -> None:
    """Warn of likely mistakes that finished results show, each cause once for each metric object or call of a function.

    Args:
        results: what was computed.
        samples: what it was computed from; its type decides which causes are looked for.
        warning_log: topics that the user was warned about.
    """
    if isinstance(samples, RankedSamples):
        warn_of(_OF_RANKINGS, RetrievalCase(results, samples), warning_log)
