"""Similarities of embeddings, higher is closer.

A similarity only has to order the gallery of each query. `Euclidean`, for example, returns minus half the squared
distance plus a constant for the query, because a square root would make different scores equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks

from .products import product
from .rows import Rows, may_be_codes, promoted

CustomSimilarity = Callable[[Tensor, Tensor], Tensor]
"""A user's similarity: queries [q, D] and gallery items [g, D] to scores [q, g], higher is closer."""

_SAFE_NORMS = {torch.float32: 1e-15, torch.float64: 1e-150}
"""between this norm and its inverse, squares of norms are far from the limits of the dtype"""
_SQUARED_AT_A_TIME = 1 << 17  # values that are squared at a time, so that in float64 they stay in the cache


class Similarity(ABC):
    """The interface of a similarity, with defaults; classes of similarities are final."""

    copies_gallery = False
    """True if `gallery` or `score` copies gallery items, so that they must be called with few items at a time"""

    @staticmethod
    def gallery_statistics(gallery: Rows, dtype: torch.dtype) -> Float[Tensor, " sums"]:  # noqa: ARG004
        """Return sums over the gallery for `__init__`; the sums over parts of a gallery add up."""
        return torch.empty(0, dtype=torch.float64, device=gallery.device)

    @staticmethod  # noqa: B027
    def check_range(*rows: Rows) -> None:
        """Raise if scores need squares of embeddings that float64 cannot hold."""

    def __init__(self, gallery: Rows, dtype: torch.dtype, statistics: Float[Tensor, " sums"]) -> None:  # noqa: B027
        """Prepare for a gallery, or a part of one, by the statistics of the whole gallery; scores have `dtype`."""

    def query(self, block: Tensor) -> Tensor:
        """Prepare queries for `score`."""
        return block

    def gallery(self, block: Tensor, buffer: Tensor | None = None) -> Tensor:
        """Prepare gallery items for `score`; `buffer` may be written to, and may be the block itself."""
        return block

    @abstractmethod
    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        """Write scores of prepared queries against the prepared gallery items `columns` into `out`."""

    def to_comparable(self, query: Tensor, out: Tensor) -> None:  # noqa: B027
        """Turn scores, in place, into similarities that can be compared between queries; `query` is not prepared."""


@final
class Dot(Similarity):
    """Inner product q . g. In float64 the query is divided by a power of two, so that no product leaves the range."""

    def query(self, block: Tensor) -> Tensor:
        """Divide queries by a power of two in float64."""
        if block.dtype != torch.float64:
            return block
        return _over_power_of_two(block, _exponent(block) + block.shape[1].bit_length())

    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        """Write q . g into `out`."""
        product(query, gallery, out)

    def to_comparable(self, query: Tensor, out: Tensor) -> None:
        """Multiply by the power of two."""
        if query.dtype == torch.float64:
            out.copy_(_over_power_of_two(out, -_exponent(query) - query.shape[1].bit_length()))


@final
class Cosine(Similarity):
    """Cosine q . g / (|q| |g|); a zero vector has cosine 0 with everything.

    The scores that order a gallery are q . g / |g|, as the norm of the query does not change the order. The product is
    divided by |g| afterwards, so that scores are equal if products and norms are, as for codes of 1 and -1. Codes that
    were divided by their norm have rounded coordinates; they are divided by their magnitude before the product.

    Dividing the scores by |g| avoids a normalized copy of the gallery. In float64, vectors with squares out of range
    are divided by a power of two first; no digit of a cosine changes.
    """

    def __init__(self, gallery: Rows, dtype: torch.dtype, statistics: Float[Tensor, " sums"]) -> None:
        """Measure the norm of every gallery item."""
        self._has_rounded_codes = gallery.norm_bounds(dtype).has_rounded_codes > 0
        self._is_extreme = dtype == torch.float64 and is_extreme(gallery, dtype)
        self.copies_gallery = self._has_rounded_codes or self._is_extreme
        if self.copies_gallery:
            norms = gallery.measure(self._norms, dtype, result_dtype=dtype)
        else:
            norms = gallery.norms(dtype)
        self._inverse_norm = _inverse(norms)

    def _norms(self, block: Tensor) -> Float[Tensor, " rows"]:
        norms: Tensor = torch.linalg.vector_norm(self.gallery(block), dim=1)
        return norms

    def query(self, block: Tensor) -> Tensor:
        """Divide queries that are codes by their magnitude, and queries in float64 by a power of two."""
        block = block.contiguous()
        if block.dtype == torch.float64:
            block = _over_power_of_two(block, _exponent(block))
        # This depends on the query alone, so that its scores in different parts of a gallery can be compared.
        if block.device.type == "cpu" and not bool(may_be_codes(block).any()):
            return block
        return _over_magnitude(block)

    def gallery(self, block: Tensor, buffer: Tensor | None = None) -> Tensor:
        """Divide gallery items by powers of two if some are extreme, and codes by their magnitude if there are any."""
        if self._is_extreme:
            block = _over_power_of_two(block, _exponent(block))
        return _over_magnitude(block) if self._has_rounded_codes else block

    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        """Write q . g / |g| into `out`."""
        inverse_norm = self._inverse_norm[columns]

        def divide(products: Tensor, items: slice, out: Tensor) -> None:
            torch.mul(products, inverse_norm[items], out=out)

        product(query, gallery, out, divide)

    def to_comparable(self, query: Tensor, out: Tensor) -> None:
        """Divide by |q|."""
        norm = torch.linalg.vector_norm(self.query(query), dim=1, keepdim=True)
        out.mul_(_inverse(norm))


@final
class Euclidean(Similarity):
    """Minus half the squared distance, up to a constant for the query: q . g - |g|^2 / 2.

    Queries and gallery items are first moved by about the gallery's mean: distances do not change, and the expansion
    does not cancel if embeddings lie far from the origin. "About" is the mean rounded to multiples of a power of two
    near the spread of the coordinates, so that integers and codes stay exact, and ties among them too.
    """

    @staticmethod
    def gallery_statistics(gallery: Rows, dtype: torch.dtype) -> Float[Tensor, " sums"]:
        """Return the sum of all items per coordinate, the sum of all squares, and the number of items."""
        sums = torch.zeros(gallery.dimension + 2, dtype=torch.float64, device=gallery.device)
        for sum_of_items, sum_of_squares in gallery.map_pieces(lambda block, _: _sums(block), dtype):
            sums[:-2] += sum_of_items
            sums[-2] += sum_of_squares
        sums[-1] = gallery.size
        return sums

    @staticmethod
    def check_range(*rows: Rows) -> None:
        """Raise a ValueError if squared distances of float64 embeddings would overflow, or all vanish."""
        block_maxima: list[float] = []
        for part in rows:
            block_maxima.extend(float(block.abs().max()) for block in part.walk(torch.float64))
        largest = max(block_maxima, default=0.0)
        safe = _SAFE_NORMS[torch.float64]
        if largest and not safe < largest < 1 / safe:
            raise ValueError(
                f"`similarity` 'euclidean' needs a largest coordinate of embeddings between {safe:g} and {1 / safe:g},"
                f" as float64 must hold its square; got {largest:g}."
            )

    def __init__(self, gallery: Rows, dtype: torch.dtype, statistics: Float[Tensor, " sums"]) -> None:
        """Compute the new origin, then the norm of every item relative to it."""
        num_items = statistics[-1].clamp(min=1)
        mean = statistics[:-2] / num_items
        variance = statistics[-2] / num_items - mean.square().sum()
        # Round the mean to multiples of a power of two near the standard deviation of a coordinate.
        log_deviation = (variance / gallery.dimension).clamp(min=torch.finfo(dtype).tiny).log2().div(2)
        grid = torch.exp2(log_deviation.round())
        origin = (mean / grid).round() * grid
        self._origin = origin.to(dtype)
        self.copies_gallery = bool(origin.any())
        squared_norms = gallery.measure(
            lambda block: _squared_norm(block, self.gallery), dtype, result_dtype=torch.float64
        )
        self.half_squared_norm = squared_norms.div_(2).to(dtype)

    def query(self, block: Tensor) -> Tensor:
        """Move queries to the new origin."""
        return block - self._origin if self.copies_gallery else block

    def gallery(self, block: Tensor, buffer: Tensor | None = None) -> Tensor:
        """Move gallery items to the new origin."""
        return torch.sub(block, self._origin, out=buffer) if self.copies_gallery else block

    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        """Write q . g - |g|^2 / 2 into `out`."""
        half_squared_norm = self.half_squared_norm[columns]

        def subtract(products: Tensor, items: slice, out: Tensor) -> None:
            torch.sub(products, half_squared_norm[items], out=out)

        product(query, gallery, out, subtract)

    def to_comparable(self, query: Tensor, out: Tensor) -> None:
        """Turn scores into minus the distance; rounding makes no squared distance negative."""
        half_squared_norm = (_squared_norm(self.query(query)) / 2).to(out.dtype)
        out.sub_(half_squared_norm[:, None]).clamp_(max=0).mul_(-2).sqrt_().neg_()


@final
class Custom(Similarity):
    """A user's function of a block of queries and a block of gallery items; its scores are taken as comparable."""

    copies_gallery = True  # the function may hold any memory

    def __init__(self, function: CustomSimilarity) -> None:
        """Remember the function."""
        self._function = function

    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        """Write the scores by the user's function into `out`."""
        try:
            scores = self._function(query, gallery)
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # an error that is not about shapes, such as a lack of memory
                raise
            blocks = f"queries {list(query.shape)} and gallery items {list(gallery.shape)}"
            raise RuntimeError(
                f"`similarity` must return scores of shape {list(out.shape)} for {blocks}; got RuntimeError: {error}"
            ) from error
        if not isinstance(scores, Tensor):
            raise TypeError(f"`similarity` must return a floating point tensor; got {type(scores).__name__}.")
        if not scores.is_floating_point():
            raise TypeError(f"`similarity` must return a floating point tensor; got {scores.dtype}.")
        if scores.shape != out.shape:
            raise ValueError(f"`similarity` must return scores of shape {list(out.shape)}; got {list(scores.shape)}.")
        out.copy_(scores)


@final
class Hamming(Similarity):
    """Minus the Hamming distance of codes of 1 and -1: (q . g - D) / 2, exact; ordered by q . g."""

    def score(self, query: Tensor, gallery: Tensor, columns: slice | Tensor, out: Tensor) -> None:
        """Write q . g into `out`."""
        product(query, gallery, out)

    def to_comparable(self, query: Tensor, out: Tensor) -> None:
        """Turn q . g into minus the distance."""
        out.sub_(query.shape[1]).div_(2)


SIMILARITIES: dict[str, type[Similarity]] = {"cosine": Cosine, "euclidean": Euclidean, "dot": Dot, "hamming": Hamming}


def check_similarity(similarity: object) -> None:
    """Raise unless `similarity` is a function or a name in `SIMILARITIES`."""
    if not callable(similarity):
        _checks.one_of("similarity", similarity, SIMILARITIES)


def similarity_name(similarity: Any) -> str:
    """Return the name of a similarity; for a function, its module and name, as its address differs per process."""
    if isinstance(similarity, str):
        return similarity
    has_name = hasattr(similarity, "__qualname__")
    function_or_class = similarity if has_name else type(similarity)
    return f"{function_or_class.__module__}.{function_or_class.__qualname__}"


def gallery_statistics(similarity: str | CustomSimilarity, gallery: Rows, dtype: torch.dtype) -> Float[Tensor, " sums"]:
    """Return the statistics of a whole gallery for `Similarity`, as sums: the sums over parts of a gallery add up."""
    kind = Custom if callable(similarity) else SIMILARITIES[similarity]
    return kind.gallery_statistics(gallery, dtype)


def score_dtype(similarity: str | CustomSimilarity, *rows: Rows) -> torch.dtype:
    """Return the dtype of scores: that of the embeddings, or float64 if float32 cannot hold their squares."""
    check_similarity(similarity)
    dtype = promoted([part.dtype for part in rows])
    if not callable(similarity) and any(is_extreme(part, dtype) for part in rows):
        SIMILARITIES[similarity].check_range(*rows)
        return torch.float64
    return dtype


def is_extreme(rows: Rows, dtype: torch.dtype) -> bool:
    """Return whether squares of embeddings may overflow or vanish in a dtype, float32 or float64."""
    bounds = rows.norm_bounds(dtype)
    safe = _SAFE_NORMS[dtype]
    if bounds.least > safe and bounds.largest < 1 / safe:  # nearly always
        return False
    norms = rows.norms(dtype)
    is_safe = (norms > safe) & (norms < 1 / safe)

    def has_unsafe_row(block: Tensor, part: slice) -> bool:
        return bool(block[~is_safe[part]].any())  # rows of zeros are safe

    return any(rows.map_pieces(has_unsafe_row, dtype))


def _over_magnitude(block: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
    """Divide the rows that are codes by their magnitude, so that their signs remain, exactly.

    A row is a code if all its coordinates have the same magnitude, not 0.
    """
    magnitude = block.abs()
    largest = magnitude.amax(1, keepdim=True)
    is_code = (largest > 0) & (magnitude.amin(1, keepdim=True) == largest)
    return block / torch.where(is_code, largest, 1)


def _sums(block: Float[Tensor, "rows dim"]) -> tuple[Tensor, Tensor]:
    """Return the sum per coordinate, and the sum of all squares, in float64."""
    return _sum_of_rows(block), _squared_norm(block).sum()


def _sum_of_rows(block: Float[Tensor, "rows dim"]) -> Float[Tensor, " dim"]:
    """Return the sum per coordinate in float64; the CPU copies a few rows at a time, so that they stay in its cache."""
    if block.device.type != "cpu":
        return block.sum(0, dtype=torch.float64)
    total = torch.zeros(block.shape[1], dtype=torch.float64, device=block.device)
    for rows in block.split(max(1, _SQUARED_AT_A_TIME // block.shape[1])):
        total += rows.to(torch.float64).sum(0)
    return total


def _squared_norm(block: Tensor, prepare: Callable[[Tensor], Tensor] = torch.positive) -> Float[Tensor, " rows"]:
    """Return |x|^2 per prepared row, in float64, a few rows at a time; exact for integers."""
    num_rows = max(1, _SQUARED_AT_A_TIME // block.shape[1])
    norm = torch.empty(len(block), dtype=torch.float64, device=block.device)
    for rows, out in zip(block.split(num_rows), norm.split(num_rows), strict=True):
        torch.sum(prepare(rows).to(torch.float64, copy=True).square_(), 1, out=out)
    return norm


def _inverse(norm: Float[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
    """Return 1 / |x|, or 0 for a zero vector."""
    return norm.reciprocal().masked_fill_(norm == 0, 0)


def _exponent(block: Float[Tensor, "rows dim"]) -> Int[Tensor, "rows 1"]:
    """Return, for every row, the exponent of a power of two just above its largest coordinate."""
    return torch.frexp(block.abs().amax(1, keepdim=True)).exponent


def _over_power_of_two(block: Tensor, exponent: Tensor) -> Float[Tensor, "rows columns"]:
    """Divide every row by two to the power of its `exponent`: exact but at the limits of float64.

    There are two steps, because exponents of coordinates may be twice as far apart as exponents of a factor.
    """
    half = exponent // 2
    return block * _power_of_two(-half) * _power_of_two(half - exponent)


def _power_of_two(exponent: Int[Tensor, "rows 1"]) -> Float[Tensor, "rows 1"]:
    """Return 2^exponent in float64, built from its bits, because functions for powers round."""
    return ((exponent.long() + 1023) << 52).view(torch.float64)
