"""Say why a number is probably not what the user meant: a registry of causes, which are looked for in finished results.

    results, samples --> case --> suspicions, which are cheap --> trials on a bounded sample --> one warning each
    diagnose         --> case --> all trials                                                 --> a list of answers

The engine calls `look` when results have been made, lets the first process tell what all processes found by `warn_of`,
and knows nothing else of this package. No number depends on it.
"""

from __future__ import annotations

from typing import Any

from reid_torchmetrics.functional.detection.evaluation import MatchedImages
from reid_torchmetrics.functional.retrieval.evaluation import ListedSamples, RankedSamples, SearchedLists
from reid_torchmetrics.functional.retrieval.verification import ComparedPairs
from reid_torchmetrics.functional.world import World

from .answers import collecting as collecting
from .causes import Finding, find_causes, grouped
from .causes import warn_of as warn_of
from .detection import DETECTION_CAUSES, DetectionCase
from .index_lists import INDEX_CAUSES, IndexCase
from .lists import LIST_CAUSES, ListCase
from .on_demand import diagnose as diagnose
from .pairs import PAIR_CAUSES, PairCase
from .retrieval import find_in_ranking

_OF_DETECTIONS = grouped(DETECTION_CAUSES.values())
_OF_LISTS = grouped(LIST_CAUSES.values())
_OF_INDEXES = grouped(INDEX_CAUSES.values())
_OF_PAIRS = grouped(PAIR_CAUSES.values())


def look(results: Any, samples: Any, world: World) -> list[Finding]:
    """Return likely mistakes that finished results show, each once for each metric object or call of a function.

    Args:
        results: what was computed.
        samples: what it was computed from; its type decides which causes are looked for.
        world: the processes with the results; each looks at its part of samples whose facts are not on the first one.
    """
    if isinstance(samples, RankedSamples):
        return find_in_ranking(results, samples, world.warning_log)
    if isinstance(samples, MatchedImages):
        return find_causes(_OF_DETECTIONS, DetectionCase(results, samples), world.warning_log)
    if isinstance(samples, ListedSamples):
        return find_causes(_OF_LISTS, ListCase(results, samples), world.warning_log)
    if isinstance(samples, SearchedLists):
        return find_causes(_OF_INDEXES, IndexCase(results, samples), world.warning_log)
    if isinstance(samples, ComparedPairs) and world.process == 0:  # all have all pairs
        return find_causes(_OF_PAIRS, PairCase(results, samples), world.warning_log)
    return []
