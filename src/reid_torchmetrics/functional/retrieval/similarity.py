"""Similarities of embeddings, higher is closer.

A similarity only has to order the gallery of one query: `Euclidean` returns minus half the squared distance plus a
constant of the query, because a square root would merge scores that differ.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.rows import Rows

CustomSimilarity = Callable[[Tensor, Tensor], Tensor]
"""A user's similarity: queries [q, D] and gallery items [g, D] to scores [q, g], higher is closer."""

_SAFE_NORM = 1e-15  # between this and its inverse, squares stay far from the limits of float32


class Dot:
    """Inner product q . g."""

    rewrites_gallery = False

    def __init__(self, gallery: Rows, dtype: torch.dtype) -> None:
        """Collect what the similarity needs to know of the whole gallery; scores are of `dtype`."""

    def query(self, block: Tensor) -> Tensor:
        """Queries as `score` takes them."""
        return block

    def gallery(self, block: Tensor) -> Tensor:
        """Gallery items as `score` takes them."""
        return block

    def score(self, query: Tensor, gallery: Tensor, columns: slice, out: Tensor) -> None:
        """Write scores of prepared queries against the prepared gallery items `columns` into `out`."""
        torch.mm(query, gallery.T, out=out)


class Cosine(Dot):
    """Cosine q . g / (|q| |g|); a zero vector has cosine 0 with everything.

    Dividing the scores by |g| spares a normalised copy of the gallery.
    """

    def __init__(self, gallery: Rows, dtype: torch.dtype) -> None:
        """Measure every gallery item's norm."""
        none = torch.empty(0, dtype=dtype, device=gallery.device)
        self._inverse_norm = torch.cat([none, *map(_inverse_norm, gallery.walk(dtype))])

    def query(self, block: Tensor) -> Tensor:
        """Queries of norm 1."""
        return block * _inverse_norm(block)[:, None]

    def score(self, query: Tensor, gallery: Tensor, columns: slice, out: Tensor) -> None:
        """Write cosines into `out`."""
        super().score(query, gallery, columns, out)
        out.mul_(self._inverse_norm[columns])


class Euclidean(Dot):
    """Minus half the squared distance, up to a constant of the query: q . g - |g|^2 / 2.

    Both sides are moved to the gallery's mean first, which leaves distances as they are and keeps the expansion from
    cancelling when all embeddings lie far from the origin.
    """

    rewrites_gallery = True

    def __init__(self, gallery: Rows, dtype: torch.dtype) -> None:
        """Find the gallery's mean."""
        total = torch.zeros(gallery.dimension, dtype=torch.float64, device=gallery.device)
        for block in gallery.walk(dtype):
            total += block.sum(0, dtype=torch.float64)
        self._mean = (total / max(1, gallery.size)).to(dtype)

    def query(self, block: Tensor) -> Tensor:
        """Queries relative to the gallery's mean."""
        return block - self._mean

    def gallery(self, block: Tensor) -> Tensor:
        """Gallery items relative to the gallery's mean."""
        return block - self._mean

    def score(self, query: Tensor, gallery: Tensor, columns: slice, out: Tensor) -> None:
        """Write q . g - |g|^2 / 2 into `out`."""
        norm = torch.linalg.vector_norm(gallery, dim=1, dtype=torch.float64)
        torch.addmm(norm.square().mul(-0.5).to(out.dtype), query, gallery.T, out=out)


class Custom(Dot):
    """A user's function of a block of queries and a block of gallery items."""

    rewrites_gallery = True  # bounds the blocks that the function is given

    def __init__(self, gallery: Rows, dtype: torch.dtype, function: CustomSimilarity) -> None:
        """Remember the function."""
        super().__init__(gallery, dtype)
        self._function = function

    def score(self, query: Tensor, gallery: Tensor, columns: slice, out: Tensor) -> None:
        """Write what the user's function returns into `out`."""
        scores = self._function(query, gallery)
        _checks.score_block("similarity", scores, out.shape)
        out.copy_(scores)


SIMILARITIES = {"cosine": Cosine, "euclidean": Euclidean, "dot": Dot}


def check_similarity(similarity: object) -> None:
    """Raise unless `similarity` is a function or a name in `SIMILARITIES`."""
    if not callable(similarity):
        _checks.one_of("similarity", similarity, SIMILARITIES)


def prepare(similarity: str | CustomSimilarity, gallery: Rows, dtype: torch.dtype) -> Dot:
    """The similarity's form for one gallery; scores are of `dtype`."""
    check_similarity(similarity)
    if callable(similarity):
        return Custom(gallery, dtype, similarity)
    return SIMILARITIES[similarity](gallery, dtype)


def _inverse_norm(block: Float[Tensor, "rows dim"]) -> Float[Tensor, " rows"]:
    """1 / |x| per row, 0 for a zero vector; in float64 where squares in the block's dtype might overflow or vanish."""
    norm = torch.linalg.vector_norm(block, dim=1)
    extreme = ~((norm > _SAFE_NORM) & (norm < 1 / _SAFE_NORM))
    if not bool(extreme.any()):
        return torch.reciprocal(norm)
    inverse = 1 / norm.double()
    inverse[extreme] = 1 / torch.linalg.vector_norm(block[extreme].double(), dim=1)
    return torch.where(inverse.isfinite(), inverse, 0).clamp_(max=torch.finfo(block.dtype).max).to(block.dtype)
