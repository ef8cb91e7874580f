"""Options of the metrics over embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from reid_torchmetrics import _names
from reid_torchmetrics.functional.retrieval import evaluation
from reid_torchmetrics.functional.retrieval.scores import CustomSimilarity, Rerank
from reid_torchmetrics.metrics import base


class ScoreOptions(TypedDict, total=False):
    """Options for the protocol, and for scoring and ranking."""

    protocol: _names.ProtocolName | evaluation.Protocol
    ground_truth: Mapping[int, Any] | Sequence[Any] | None
    similarity: _names.SimilarityName | CustomSimilarity | None
    packed: bool
    ties: _names.TieName | None
    rerank: Rerank | None
    max_bytes: int | None


class ReIDOptions(ScoreOptions, evaluation.RelevanceOptions, base.MetricOptions, total=False):
    """Options of `EmbeddingMetric`."""


DEFAULTS = {"protocol": evaluation.DEFAULT_PROTOCOL, "packed": False}
"""defaults of options other than None"""
explicit_signature = base.explicit_signature(ReIDOptions, DEFAULTS, elsewhere=evaluation.PROTOCOL_FIELDS)
