"""Samples without an identity that match each other, because they share a name or number such as "unknown" or -100."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.retrieval.relevance import LabelTables, words_for_unknown

from .case import RetrievalCase

MOST_NUMBERS = 2
"""distinct negative identities; if there are more, they are ordinary identities"""
_MOST_NAMED = 5  # identities in a message
_LEAST_NUMBER = -999_999  # below it a number is an identity, such as a hash
_FROM_NAN = (-(1 << 31), -(1 << 63))  # values of NaN converted to an integer


def may_lack_identities(case: RetrievalCase) -> bool:
    """Return whether some query with a positive has an identity below -1, or a name."""
    if case.identities is None:
        return False
    return "identities" in case.names or bool(((case.identities < -1) & case.is_valid).any())


def find_unknown(case: RetrievalCase) -> Values | None:
    """Return the identities such as "unknown" or -100 of queries that have a positive."""
    if case.identities is None:
        return None
    unknown = _unknown_among(case.identities[case.is_valid], case.names)[:_MOST_NAMED]
    if not unknown:
        return None
    return {"listed": ", ".join(map(repr, unknown)), "junk": ", ".join(map(repr, [-1, *unknown]))}


def _unknown_among(matched: Int[Tensor, " valid"], names: LabelTables) -> list[Any]:
    """Return the words for missing identities, or the negative numbers besides -1, where they are few among others."""
    if "identities" in names:
        words = words_for_unknown(names["identities"])
        is_word = torch.isin(matched, torch.tensor(list(words), dtype=torch.int64, device=matched.device))
        return sorted(words[number] for number in matched[is_word].unique().tolist())
    negative = matched[matched < -1].unique().tolist()
    has_others = bool((matched >= 0).any())
    if not has_others or len(negative) > MOST_NUMBERS:
        return []
    return [number for number in negative if number >= _LEAST_NUMBER or number in _FROM_NAN]
