"""Ask the rows of retrieval, and keep what trials found for the metrics that share a ranking."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from uuid import uuid4

from torch.utils.weak import WeakIdKeyDictionary

from reid_torchmetrics._warnings import asking
from reid_torchmetrics.diagnosis.causes import Cause, Finding, Values, find_causes, grouped
from reid_torchmetrics.functional.retrieval.evaluation import NO_RANKING, RankedSamples, Ranking
from reid_torchmetrics.functional.world import WarningLog

from .case import RetrievalCase
from .registry import NAMES_WITHOUT_RANKS, RETRIEVAL_CAUSES

_answers: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""the values that trials on samples found, by the name of the cause, for each ranking that is still in use"""
_names: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""a name for each ranking that is still in use"""


def find_in_ranking(ranking: Ranking | None, samples: RankedSamples, warning_log: WarningLog) -> list[Finding]:
    """Return the causes that a ranking shows, or the facts about its samples alone where nothing was ranked."""
    if ranking is None:
        return find_causes(_GROUPS_WITHOUT_RANKS, RetrievalCase(NO_RANKING, samples), warning_log)
    # The metrics of a collection share their ranking and their topics.
    name = _names.setdefault(ranking, uuid4().hex)
    topic = f"ranking {name}, {samples.updates}, {samples.ties_are_open}, {samples.named_protocol}"
    if asking.get() is None and not warning_log.note(topic):
        return []
    return find_causes(_GROUPS, RetrievalCase(ranking, samples), warning_log)


def _answer(cause: Cause[RetrievalCase], case: RetrievalCase) -> Values | None:
    """Return what a trial finds, or what it has found for another metric with the same ranking."""
    answers: dict[str, Values | None] = _answers.setdefault(case.ranking, {})
    if cause.name in answers:
        return answers[cause.name]
    case.is_sampled = False
    values = cause.find(case)
    if case.is_sampled:
        answers[cause.name] = values
    return values


_ROWS = [replace(row, find=partial(_answer, row)) for row in RETRIEVAL_CAUSES.values()]
_GROUPS = grouped(_ROWS)
_GROUPS_WITHOUT_RANKS = grouped(row for row in _ROWS if row.name in NAMES_WITHOUT_RANKS)
