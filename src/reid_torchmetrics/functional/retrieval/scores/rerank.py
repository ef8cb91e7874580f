"""The option `rerank`: scores that depend on more than the two embeddings, such as on their neighbors."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.retrieval.relevance import Relevance

from .scores import Scores


@runtime_checkable
class Rerank(Protocol):
    """The options of a re-ranking, and the scores that it computes."""

    def check_similarity(self, similarity: object) -> None:
        """Raise unless the re-ranking can be used with a similarity."""

    def score(
        self, query: Tensor, gallery: Tensor, relevance: Relevance, *, similarity: Any, max_bytes: int | None
    ) -> Scores:
        """Return the scores of the queries with the gallery items that `relevance` keeps."""


RERANKINGS: Registry[type[Rerank]] = Registry("RERANKINGS", {})
"""the classes that `rerank` may have, by their names, which tasks add"""


def check_rerank(rerank: Rerank | None, similarity: object) -> None:
    """Raise unless `rerank` is None, or can be used with `similarity`."""
    if rerank is not None:
        _checks.instance("rerank", rerank, tuple(RERANKINGS.values()))
        rerank.check_similarity(similarity)
