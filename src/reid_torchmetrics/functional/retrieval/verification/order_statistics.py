"""Exact order statistics of the scores of all impostors, without ever holding them.

Floats in their order are integers in theirs, so the score of a given rank can be searched for among integers: a pass
over all pairs counts the impostors at or above many possible scores at once and leaves one of the gaps between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.verification.scored_pairs import ScoredPairs

_GAPS = 1 << 16  # per rank and pass: two passes find a float32, four a float64
_MOST_GAPS = 1 << 20  # of all ranks: with more ranks there are fewer for each, and more passes
_INTEGERS = {torch.float32: torch.int32, torch.float64: torch.int64}


def impostor_scores_at(pairs: ScoredPairs, ranks: Sequence[int]) -> Float[Tensor, " ranks"]:
    """The scores of the impostors at 1-based `ranks` from the highest score down; every rank exists."""
    wanted, of_rank = torch.tensor(ranks, dtype=torch.int64, device=pairs.device).unique(return_inverse=True)
    num_ranks, wanted = len(wanted), wanted[:, None]
    limits = torch.tensor([-torch.inf, torch.inf], dtype=pairs.dtype, device=pairs.device)
    # At or above `low` there are at least as many impostors as the rank says; above `high` there are fewer.
    low, high = _codes(limits)[:, None, None].expand(2, num_ranks, 1).unbind()
    while bool((low < high).any()):  # every pass leaves one gap between two edges
        edges = _edges(low, high)  # [ranks, gaps]
        distinct, of_edge = edges.unique(return_inverse=True)
        num_at = pairs.count_impostors(_floats(distinct, pairs.dtype)).at[of_edge]
        num_reached = (num_at >= wanted).sum(1, keepdim=True)  # they come first, for counts fall as edges rise
        low = torch.cat([low, edges], 1).gather(1, num_reached)
        high = torch.cat([edges - 1, high], 1).gather(1, num_reached)
    return _floats(low[of_rank, 0], pairs.dtype)


def impostor_quantiles(pairs: ScoredPairs, shares: Sequence[float]) -> Float[Tensor, " shares"]:
    """The scores that about these shares of the impostors exceed, interpolated linearly, float64; NaN without any.

    With the scores s_1 >= ... >= s_n and h = 1 + share (n - 1), that is s_h, or between neighbors
    s_floor(h) + (h - floor(h)) (s_floor(h)+1 - s_floor(h)): `torch.quantile` of minus the scores. NaN, too, between
    infinity and minus infinity.
    """
    num_impostors = pairs.num_impostors()
    if not num_impostors:
        return torch.full((len(shares),), torch.nan, dtype=torch.float64, device=pairs.device)
    positions = [share * (num_impostors - 1) for share in shares]
    first = [int(position) for position in positions]
    second = [min(position + 1, num_impostors - 1) for position in first]
    scores = impostor_scores_at(pairs, [position + 1 for position in first + second]).double()
    upper, lower = scores[: len(shares)], scores[len(shares) :]
    weight = torch.tensor(positions, dtype=torch.float64, device=pairs.device).frac()
    # Infinities have no difference; between infinity and minus infinity there is nothing to interpolate.
    are_finite = upper.isfinite() & lower.isfinite()
    between = torch.where(are_finite, upper + weight * (lower - upper), (1 - weight) * upper + weight * lower)
    return torch.where((weight == 0) | (lower == upper), upper, between)


def _edges(low: Int[Tensor, "ranks 1"], high: Int[Tensor, "ranks 1"]) -> Int[Tensor, "ranks gaps"]:
    """Codes in (`low`, `high`], equally far apart, the last of them `high`; repeated where there are few."""
    half = max(1, min(_GAPS, _MOST_GAPS // len(low)) // 2)
    gaps = 2 * half
    # high - low would overflow, and so would all steps in one go.
    step = high // gaps - low // gaps + (high % gaps > low % gaps)
    steps = torch.arange(1 - half, half + 1, device=low.device)
    return torch.minimum(low + step * half + step * steps, high)


def _codes(values: Float[Tensor, " values"]) -> Int[Tensor, " values"]:
    """Integers in the order of the floats: their bits, of which a negative number's are turned over."""
    integer = _INTEGERS[values.dtype]
    bits = values.view(integer)
    return torch.where(bits < 0, bits ^ torch.iinfo(integer).max, bits).long()


def _floats(codes: Int[Tensor, " values"], dtype: torch.dtype) -> Float[Tensor, " values"]:
    """The floats that have these codes."""
    integer = _INTEGERS[dtype]
    bits = codes.to(integer)
    return torch.where(bits < 0, bits ^ torch.iinfo(integer).max, bits).view(dtype)
