"""The rankings that were looked at: the metrics of a collection share them, and their topics."""

from __future__ import annotations

from uuid import uuid4

from torch.utils.weak import WeakIdKeyDictionary

from reid_torchmetrics._warnings import asking
from reid_torchmetrics.functional.retrieval.evaluation import RankedSamples, Ranking
from reid_torchmetrics.functional.world import WarningLog

_names: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""a name for each ranking that is still in use"""


def is_known(ranking: Ranking, samples: RankedSamples, warning_log: WarningLog) -> bool:
    """Return whether the metric, or another one of its collection, has looked at a ranking with the same facts."""
    name = _names.setdefault(ranking, uuid4().hex)
    topic = f"ranking {name}, {samples.updates}, {samples.ties_are_open}, {samples.named_protocol}"
    return asking.get() is None and not warning_log.note(topic)
