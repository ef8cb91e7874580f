"""Samples without an identity that match each other, because they share a name or number such as "unknown" or -100."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import LabelTables, words_for_unknown

MOST_NUMBERS = 2
"""distinct negative identities; if there are more, they are ordinary identities"""
_LEAST_NUMBER = -999_999  # below it a number is an identity, such as a hash
_FROM_NAN = (-(1 << 31), -(1 << 63))  # values of NaN converted to an integer


def find_unknown(
    identities: Int[Tensor, " queries"] | None,
    is_valid: Bool[Tensor, " queries"] | None,
    names: LabelTables,
    *,
    has_negative: bool,
) -> list[Any]:
    """Return the identities such as "unknown" or -100 of queries that have a positive.

    Args:
        identities: identities of the queries.
        is_valid: whether the query has a positive.
        names: names of labels.
        has_negative: whether some query has an identity below -1.
    """
    if identities is None or is_valid is None or not (has_negative or "identities" in names):
        return []
    matched = identities[is_valid]
    if "identities" in names:
        words = words_for_unknown(names["identities"])
        is_word = torch.isin(matched, torch.tensor(list(words), dtype=torch.int64, device=matched.device))
        return sorted(words[number] for number in matched[is_word].unique().tolist())
    # Negative identities besides -1, where they are few among others.
    negative = matched[matched < -1].unique().tolist()
    has_others = bool((matched >= 0).any())
    if not has_others or len(negative) > MOST_NUMBERS:
        return []
    return [number for number in negative if number >= _LEAST_NUMBER or number in _FROM_NAN]
