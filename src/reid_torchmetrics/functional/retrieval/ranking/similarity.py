"""Similarities of embeddings, higher is closer.

A similarity only has to order the gallery of one query: `Euclidean` returns minus half the squared distance plus a
constant of the query, because a square root would merge scores that differ.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking.rows import Rows

CustomSimilarity = Callable[[Tensor, Tensor], Tensor]
"""A user's similarity: queries [q, D] and gallery items [g, D] to scores [q, g], higher is closer."""

_SAFE_NORM = 1e-15  # between this and its inverse, squares stay far from the limits of float32
_SQUARED_AT_A_TIME = 1 << 20  # values
_ROWS, _LANES = 8, 48  # multiples of the sizes of the kernels of matrix products: 4 and 8; 4, 8, 12, 16 and 24
_BLOCK = 21 * _LANES


class Dot:
    """Inner product q . g."""

    @staticmethod
    def survey(gallery: Rows, dtype: torch.dtype) -> Float[Tensor, " sums"]:  # noqa: ARG004
        """Sums over the gallery that `__init__` wants; those of the parts of a gallery add up."""
        return torch.empty(0, dtype=torch.float64, device=gallery.device)

    def __init__(self, gallery: Rows, dtype: torch.dtype, survey: Float[Tensor, " sums"]) -> None:
        """Prepare for a gallery, or for a part of one whose whole is surveyed; scores are of `dtype`."""

    @property
    def rewrites_gallery(self) -> bool:
        """Whether `gallery` returns anything but its argument."""
        return False

    def query(self, block: Tensor) -> Tensor:
        """Queries as `score` takes them."""
        return block

    def gallery(self, block: Tensor) -> Tensor:
        """Gallery items as `score` takes them."""
        return block

    def score(self, query: Tensor, gallery: Tensor, columns: slice, out: Tensor) -> None:
        """Write scores of prepared queries against the prepared gallery items `columns` into `out`."""
        _product(query, gallery, out)

    def complete(self, query: Tensor, out: Tensor) -> None:
        """Turn scores of prepared queries into similarities that can be compared between queries, in place."""


class Cosine(Dot):
    """Cosine q . g / (|q| |g|); a zero vector has cosine 0 with everything.

    Dividing the scores by |g| spares a normalised copy of the gallery.
    """

    def __init__(self, gallery: Rows, dtype: torch.dtype, survey: Float[Tensor, " sums"]) -> None:
        """Measure every gallery item's norm."""
        none = torch.empty(0, dtype=dtype, device=gallery.device)
        self._inverse_norm = torch.cat([none, *map(_inverse_norm, gallery.walk(dtype))])

    def query(self, block: Tensor) -> Tensor:
        """Queries of norm 1."""
        return block * _inverse_norm(block.contiguous())[:, None]

    def score(self, query: Tensor, gallery: Tensor, columns: slice, out: Tensor) -> None:
        """Write cosines into `out`."""
        super().score(query, gallery, columns, out)
        out.mul_(self._inverse_norm[columns])


class Euclidean(Dot):
    """Minus half the squared distance, up to a constant of the query: q . g - |g|^2 / 2.

    Both sides are moved by about the gallery's mean first: distances stay as they are, and the expansion does not
    cancel where embeddings lie far from the origin. "About" is the mean rounded to multiples of a power of two near
    the spread of the coordinates, so that integers and codes stay exact, and ties among them too.
    """

    @staticmethod
    def survey(gallery: Rows, dtype: torch.dtype) -> Float[Tensor, " sums"]:
        """Sum of all items per coordinate, sum of all squares, number of items."""
        sums = torch.zeros(gallery.dimension + 2, dtype=torch.float64, device=gallery.device)
        for block in gallery.walk(dtype):
            sums[:-2] += block.sum(0, dtype=torch.float64)
            sums[-2] += _squared_norm(block).sum()
        sums[-1] = gallery.size
        return sums

    def __init__(self, gallery: Rows, dtype: torch.dtype, survey: Float[Tensor, " sums"]) -> None:
        """Find the origin, then every item's norm as seen from there."""
        num_items = survey[-1].clamp(min=1)
        mean = survey[:-2] / num_items
        variance = survey[-2] / num_items - mean.square().sum()
        grid = torch.exp2((variance / gallery.dimension).clamp(min=torch.finfo(dtype).tiny).log2().div(2).round())
        origin = (mean / grid).round() * grid
        self._origin = origin.to(dtype) if bool(origin.any()) else None
        none = torch.empty(0, dtype=torch.float64, device=gallery.device)
        norms = torch.cat([none, *(_squared_norm(self.gallery(block)) for block in gallery.walk(dtype))])
        self._half_squared_norm = (norms / 2).to(dtype)

    @property
    def rewrites_gallery(self) -> bool:
        """Whether the gallery is moved."""
        return self._origin is not None

    def query(self, block: Tensor) -> Tensor:
        """Queries as seen from the new origin."""
        return block if self._origin is None else block - self._origin

    def gallery(self, block: Tensor) -> Tensor:
        """Gallery items as seen from the new origin."""
        return self.query(block)

    def score(self, query: Tensor, gallery: Tensor, columns: slice, out: Tensor) -> None:
        """Write q . g - |g|^2 / 2 into `out`."""
        _product(query, gallery, out)
        out.sub_(self._half_squared_norm[columns])

    def complete(self, query: Tensor, out: Tensor) -> None:
        """Turn scores into minus the distance; rounding makes no squared distance negative."""
        half_squared_norm = (_squared_norm(query) / 2).to(out.dtype)
        out.sub_(half_squared_norm[:, None]).clamp_(max=0).mul_(-2).sqrt_().neg_()


class Custom(Dot):
    """A user's function of a block of queries and a block of gallery items."""

    def __init__(
        self, gallery: Rows, dtype: torch.dtype, survey: Float[Tensor, " sums"], function: CustomSimilarity
    ) -> None:
        """Remember the function."""
        super().__init__(gallery, dtype, survey)
        self._function = function

    @property
    def rewrites_gallery(self) -> bool:
        """Say so, in order to bound the blocks that the function is given."""
        return True

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


def survey(similarity: str | CustomSimilarity, gallery: Rows, dtype: torch.dtype) -> Float[Tensor, " sums"]:
    """What `prepare` must know of a whole gallery, as sums: those of the parts of a gallery add up."""
    check_similarity(similarity)
    form = Custom if callable(similarity) else SIMILARITIES[similarity]
    return form.survey(gallery, dtype)


def prepare(similarity: str | CustomSimilarity, gallery: Rows, dtype: torch.dtype, sums: Float[Tensor, " sums"]) -> Dot:
    """The similarity's form for one gallery, or for a part of the gallery whose survey is `sums`."""
    if callable(similarity):
        return Custom(gallery, dtype, sums, similarity)
    return SIMILARITIES[similarity](gallery, dtype, sums)


def _product(query: Tensor, gallery: Tensor, out: Tensor) -> None:
    """Write q . g in `out`; equal items have equal scores, which products of one vector with a matrix do not give."""
    if out.device.type == "cpu":
        _product_in_blocks(query, gallery, out)
    elif len(query) == 1:
        out.copy_(torch.mm(query.repeat(2, 1), gallery.T)[:1])
    else:
        torch.mm(query, gallery.T, out=out)


def _product_in_blocks(query: Tensor, gallery: Tensor, out: Tensor) -> None:
    """Write q . g in `out`: a score that depends on the query and the item alone, not on their places or company.

    Matrix products add up in one order as long as no kernel meets an edge of the matrix or an odd address, where it is
    another one (seen with MKL on AMD). So they are taken in blocks of `_ROWS` and `_LANES`, the last overlapping the
    one before; blocks that stay in the cache are faster besides.
    """
    num_queries, num_items = len(query), len(gallery)
    query = functional.pad(query, (0, 0, 0, -num_queries % _ROWS)) if num_queries % _ROWS else query.contiguous()
    buffer = out.new_empty(len(query) * min(_BLOCK, num_items + _LANES))
    for first in range(0, num_items, _BLOCK):
        stop = min(first + _BLOCK, num_items)
        width = stop - first + (first - stop) % _LANES
        start = max(0, stop - width)
        items = functional.pad(gallery, (0, 0, 0, width - num_items)) if num_items < width else gallery[start:stop]
        block = buffer[: len(query) * width].view(len(query), width)
        torch.mm(query, items.contiguous().T, out=block)
        out[:, first:stop] = block[:num_queries, first - start : stop - start]


def _squared_norm(block: Float[Tensor, "rows dim"]) -> Float[Tensor, " rows"]:
    """|x|^2 per row, in float64, a few rows at a time; exact for integers."""
    parts = block.split(max(1, _SQUARED_AT_A_TIME // block.shape[1]))
    return torch.cat([part.double().square().sum(1) for part in parts])


def _inverse_norm(block: Float[Tensor, "rows dim"]) -> Float[Tensor, " rows"]:
    """1 / |x| per row, 0 for a zero vector."""
    norm = torch.linalg.vector_norm(block, dim=1)
    return torch.where(norm > 0, 1 / norm, 0)


def is_extreme(rows: Rows, dtype: torch.dtype) -> bool:
    """Whether squares of embeddings may overflow or vanish in float32."""
    return any(_is_extreme(block) for block in rows.walk(dtype))


def _is_extreme(block: Float[Tensor, "rows dim"]) -> bool:
    norm = torch.linalg.vector_norm(block, dim=1)
    suspects = block[~((norm > _SAFE_NORM) & (norm < 1 / _SAFE_NORM))]  # zero vectors are no trouble
    return bool(suspects.any())
