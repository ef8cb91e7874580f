"""Scores of single pairs in float64, also by similarities that products of matrices round: those that are distances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval import scores as scoring

_COORDINATES = 1 << 17  # of the queries of pairs that are scored at a time, so that they stay in the cache


class PairSimilarity(ABC):
    """A similarity that scores single pairs in another way than blocks."""

    @abstractmethod
    def score(self, query: Float[Tensor, "pairs dim"], gallery: Float[Tensor, "pairs dim"]) -> Float[Tensor, " pairs"]:
        """Return the score of each pair in float64, from the pair alone."""

    @abstractmethod
    def floor(
        self, similarity: Any, query: Float[Tensor, "queries dim"], columns: slice, least: Float[Tensor, " queries"]
    ) -> Float[Tensor, " queries"]:
        """Return, for each query, a bound below the scores in a block of all items with a score of pairs above `least`.

        `similarity` has prepared the gallery, `query` is not prepared; the items are the gallery items `columns`.
        """


@final
class EuclideanPairs(PairSimilarity):
    """Minus the distance of a pair."""

    def score(self, query: Tensor, gallery: Tensor) -> Tensor:
        """Return minus the norm of the difference."""
        return (query - gallery).square_().sum(1).sqrt_().neg_()

    def floor(self, similarity: Any, query: Tensor, columns: slice, least: Tensor) -> Tensor:
        """Return (|q|^2 - distance^2) / 2 minus the rounding of the move, of the product and of both squares."""
        squared_norm: Tensor = similarity.query(query).double().square().sum(1)
        largest: Tensor = similarity.half_squared_norm[columns].max().double().mul(2).sqrt()
        rounding = _rounding(query) * (squared_norm.sqrt() + largest).square()
        return (squared_norm - least.square()) / 2 - rounding


@final
class HammingPairs(PairSimilarity):
    """Minus the Hamming distance of a pair of codes."""

    def score(self, query: Tensor, gallery: Tensor) -> Tensor:
        """Return minus the distance."""
        return (query != gallery).sum(1).double().neg_()

    def floor(self, similarity: Any, query: Tensor, columns: slice, least: Tensor) -> Tensor:
        """Return the product with which the distance is `least`."""
        return 2 * least + query.shape[1]


PAIR_SIMILARITIES: dict[str, PairSimilarity] = {"euclidean": EuclideanPairs(), "hamming": HammingPairs()}
"""the similarities that have other scores of pairs than of blocks, by the names in `SIMILARITIES`"""


@dataclass(frozen=True)
class PairScores:
    """Scores of pairs, beside the scores of blocks."""

    scores: scoring.EmbeddingScores
    query: scoring.Rows
    gallery: scoring.Rows
    similarity: str | scoring.CustomSimilarity

    @property
    def _of_pairs(self) -> PairSimilarity | None:
        return PAIR_SIMILARITIES.get(self.similarity) if isinstance(self.similarity, str) else None

    def at(
        self, queries: Int[Tensor, " pairs"], items: Int[Tensor, " pairs"], values: Float[Tensor, " pairs"]
    ) -> Float[Tensor, " pairs"]:
        """Return the scores of pairs in float64, given their values in a block; distances are computed anew."""
        of_pairs = self._of_pairs
        if of_pairs is None:
            return values.double()
        out = torch.empty(len(queries), dtype=torch.float64, device=self.scores.device)
        for part in segments.ranges(len(queries), max(1, _COORDINATES // self.gallery.dimension)):
            whole = slice(0, part.stop - part.start)
            query = self.query.select(queries[part]).read(whole, torch.float64)
            gallery = self.gallery.select(items[part]).read(whole, torch.float64)
            out[part] = of_pairs.score(query, gallery)
        return out

    def floor(self, rows: slice, columns: slice, least: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """Return values that a block exceeds, for the queries `rows`, at items with a score of pairs above `least`."""
        of_pairs = self._of_pairs
        if of_pairs is None:
            return least
        return of_pairs.floor(self.scores.similarity, self.query.read(rows, self.scores.dtype), columns, least)


def _rounding(block: Float[Tensor, "rows dim"]) -> float:
    """Return four times a bound on the relative rounding of a product of rows, and of a few operations besides.

    The bound holds for any order of the sums: with unit roundoff u, a product of D summands is wrong by at most
    D u / (1 - D u) times the product of both norms (Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
    section 3.1).
    """
    return 2 * (block.shape[1] + 16) * torch.finfo(block.dtype).eps
