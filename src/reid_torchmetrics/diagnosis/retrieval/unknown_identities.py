"""Samples without an identity that match each other, because they share a name or number such as "unknown" or -100."""

from __future__ import annotations

from typing import Any

from reid_torchmetrics.diagnosis.causes import Values, values_if
from reid_torchmetrics.functional.retrieval.relevance import words_for_unknown

from .case import RetrievalCase, cause

MOST_NUMBERS = 2
"""distinct negative identities; if there are more, they are ordinary identities"""
_MOST_NAMED = 5  # identities in a message
_LEAST_NUMBER = -999_999  # below it a number is an identity, such as a hash
_FROM_NAN = (-(1 << 31), -(1 << 63))  # values of NaN converted to an integer


@cause(
    message="`identities` hold {listed}, which usually means that a sample has no identity, but such samples match"
    " each other here. Pass `junk_identities=({junk})` to drop them from the gallery and to leave them out as"
    " queries.",
)
def unknown_identities(case: RetrievalCase) -> Values | None:
    """Look for samples without an identity that match each other.

    A query with an identity such as "unknown" has a positive; or a query with a negative number other than -1 has one,
    and at most {MOST_NUMBERS} identities are such numbers.
    """
    if case.identities is None:
        return None
    matched = case.identities[case.is_valid].unique().tolist()
    names = case.ranking.names.get("identities")
    if names is not None:
        words = words_for_unknown(names)
        unknown: list[Any] = sorted(words[number] for number in matched if number in words)
    else:
        unknown = _unknown_numbers(matched)
    listed = ", ".join(map(repr, unknown[:_MOST_NAMED]))
    return values_if(unknown, listed=listed, junk=f"-1, {listed}")


def _unknown_numbers(matched: list[int]) -> list[int]:
    """Return the negative numbers besides -1, where they are few among others."""
    negative = [number for number in matched if number < -1]
    has_others = any(number >= 0 for number in matched)
    if not has_others or len(negative) > MOST_NUMBERS:
        return []
    return [number for number in negative if number >= _LEAST_NUMBER or number in _FROM_NAN]
