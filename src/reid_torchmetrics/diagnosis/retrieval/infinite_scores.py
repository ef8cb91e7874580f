"""Infinite scores, by which users mean to leave out pairs."""

from __future__ import annotations

import math

from reid_torchmetrics.diagnosis.causes import Values

from .case import RetrievalCase


def has_matrix(case: RetrievalCase) -> bool:
    """Return whether a matrix of scores or distances was given."""
    return case.matrix is not None


def find_infinite(case: RetrievalCase) -> Values | None:
    """Return the name of a matrix with an infinite score that ranks a candidate last."""
    sample = case.sample
    if sample is None or not bool((sample.scores[sample.is_candidate] == -math.inf).any()):
        return None
    return {"argument": case.matrix, "infinite": "-inf" if case.matrix == "scores" else "inf"}
