"""How the scores of genuine pairs and of impostors are spread: exact counts in bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores

from .scored_pairs import ScoredPairs


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Numbers of pairs by their score; a bin has its lower edge and not its upper one, but for the last, with both."""

    edges: Float[Tensor, " edges"]
    """float64, ascending; one more than bins"""
    num_genuine: Int[Tensor, " bins"]
    num_impostors: Int[Tensor, " bins"]


@torch.no_grad()
def score_histogram(
    scores: Scores, relevance: Relevance, *, bins: int = 100, limits: Sequence[float] | None = None
) -> ScoreHistogram:
    """Count genuine and impostor pairs in equally wide bins of their score, tile by tile; junk is neither.

    The counts are exact. Every score is computed three times, twice with `limits`. The scores of the genuine pairs are
    held at once, of the others at most `scores.max_bytes`.

    The bins go from the lowest score to the highest; where all are equal to s, from s - max(1, |s|) / 2 to
    s + max(1, |s|) / 2; without pairs from 0 to 1. With `limits` the bins of several evaluations are the same. Scores
    beyond them, infinite ones too, are then counted in the outermost bins, so no pair is lost.

    Args:
        scores: as for `verify`.
        relevance: who is positive, negative or junk.
        bins: their number.
        limits: the first and the last edge, (-1, 1) for a cosine say; None for the range of the scores.

    Raises:
        TypeError: `bins` is not an int, or `limits` are not numbers.
        ValueError: `bins` is below 1, `limits` are not two finite numbers that ascend, a score of a pair that is not
            junk is NaN, or one is infinite and there are no `limits`.
    """
    _checks.positive_int("bins", bins)
    if limits is not None:
        _check_limits(limits)
    pairs = ScoredPairs(scores, relevance)
    genuine = pairs.genuine_scores()
    low, high = _range(pairs, genuine, scores.argument) if limits is None else (float(limits[0]), float(limits[1]))
    edges = _edges(low, high, bins, pairs.device)
    least = _rounded_up(edges[1:-1], pairs.dtype)
    num_genuine_at = len(genuine) - torch.searchsorted(genuine, least)
    num_impostors_at = pairs.count_impostors(least).at
    return ScoreHistogram(
        edges, _between(num_genuine_at, len(genuine)), _between(num_impostors_at, pairs.num_impostors())
    )


def _check_limits(limits: object) -> None:
    """Raise unless `limits` are two numbers that bins can lie between."""
    if not isinstance(limits, (tuple, list)):
        raise TypeError(f"`limits` must be a tuple or list of two numbers, or None; got {type(limits).__name__}.")
    for limit in limits:
        _checks.number("limits", limit)
    if len(limits) != 2 or not 0 < limits[1] - limits[0] < math.inf:
        raise ValueError(f"`limits` must be two finite numbers, the lower one first; got {limits!r}.")


def _range(pairs: ScoredPairs, genuine: Float[Tensor, " genuine"], argument: str) -> tuple[float, float]:
    """Where the bins begin and end."""
    lowest, highest = pairs.impostor_range()
    if len(genuine):
        lowest, highest = min(lowest, float(genuine[0])), max(highest, float(genuine[-1]))
    if lowest > highest:
        return 0.0, 1.0
    if not math.isfinite(highest - lowest):
        raise ValueError(
            f"`{argument}` must give finite scores unless there are `limits`; got scores from {lowest} to {highest}."
        )
    half = max(1.0, abs(lowest)) / 2 if lowest == highest else 0.0
    return lowest - half, highest + half


def _edges(low: float, high: float, bins: int, device: torch.device) -> Float[Tensor, " edges"]:
    """Equidistant from `low` to `high`, which are hit exactly."""
    share = torch.arange(bins + 1, dtype=torch.float64, device=device) / bins
    edges = (low + (high - low) * share).clamp(max=high)
    edges[-1] = high
    return edges


def _rounded_up(edges: Float[Tensor, " edges"], dtype: torch.dtype) -> Float[Tensor, " edges"]:
    """The lowest values of a dtype that are not below the edges: scores reach either or neither."""
    nearest = edges.to(dtype)
    return torch.where(nearest.double() < edges, nearest.nextafter(torch.full_like(nearest, torch.inf)), nearest)


def _between(num_at: Int[Tensor, " inner"], total: int) -> Int[Tensor, " bins"]:
    """Numbers in the bins, from those at or above the edges between them."""
    ends = num_at.new_tensor([total]), num_at.new_tensor([0])
    return -torch.cat([ends[0], num_at, ends[1]]).diff()
