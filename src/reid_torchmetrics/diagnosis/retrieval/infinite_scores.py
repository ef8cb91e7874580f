"""Infinite scores, by which users mean to leave out pairs."""

from __future__ import annotations

import math

from reid_torchmetrics.diagnosis.causes import Values

from .case import RetrievalCase


def find_infinite(case: RetrievalCase) -> Values | None:
    """Return the name of a matrix with an infinite score that ranks a candidate last."""
    sample = None if case.matrix is None else case.sample
    if sample is None or not bool((sample.scores[sample.is_candidate] == -math.inf).any()):
        return None
    return {"argument": case.matrix, "infinite": "-inf" if case.matrix == "scores" else "inf"}
