"""Infinite scores, by which users mean to leave out pairs."""

from __future__ import annotations

import math

from reid_torchmetrics.diagnosis.causes import Values

from .case import RetrievalCase, cause


@cause(
    message="`{argument}` of {infinite} rank pairs last, but as candidates that count. To leave pairs out pass"
    " `junk_pairs`, or labels with a rule such as `same_camera`.",
)
def infinite_scores(case: RetrievalCase) -> Values | None:
    """Look for infinite scores or distances that are meant to leave out pairs.

    A score is -inf, or a distance is inf.
    """
    if case.matrix is None or not bool((case.sample.scores[case.sample.is_candidate] == -math.inf).any()):
        return None
    return {"argument": case.matrix, "infinite": "-inf" if case.matrix == "scores" else "inf"}
