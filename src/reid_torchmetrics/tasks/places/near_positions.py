"""Gallery items within a radius of each query, by their positions."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import POSITIVES_BY_OPTION

_PAIRS_AT_A_TIME = 1 << 20  # pairs of a query and an item of its band
_ROUNDING = 1e-14  # of a coordinate; some units in the last place of float64


def find_near(
    query_positions: Float[Tensor, "queries axes"],
    gallery_positions: Float[Tensor, "gallery gallery_axes"],
    radius: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the items within a radius of each query: the start of its run, the length, and all items.

    The items of a run ascend. To save time, items are sorted along one axis, and only items in a band around the query
    are compared with it, about a million pairs at a time.
    """
    _checks.nonnegative("radius", radius)
    if query_positions.shape[1] != gallery_positions.shape[1]:
        raise ValueError(
            "`query_positions` and `gallery_positions` must have as many coordinates; got"
            f" {query_positions.shape[1]} and {gallery_positions.shape[1]}."
        )
    # Along the axis with the largest spread a band has the fewest items. Rounding must not narrow the band.
    spread = (gallery_positions - gallery_positions.mean(0)).abs().sum(0)
    axis = int(spread.argmax())
    along, order = gallery_positions[:, axis].sort()
    center = query_positions[:, axis].contiguous()
    reach = radius + _ROUNDING * (center.abs() + radius)
    first = torch.searchsorted(along, center - reach)
    num_band = torch.searchsorted(along, center + reach, right=True) - first
    query_parts, item_parts = [first[:0]], [first[:0]]
    for part in segments.ranges_within(num_band, _PAIRS_AT_A_TIME):
        query, place = segments.runs(first[part], num_band[part])
        query += part.start
        item = order[place]
        distance = (query_positions[query] - gallery_positions[item]).square_().sum(1).sqrt_()
        is_near = distance <= radius
        query_parts.append(query[is_near])
        item_parts.append(item[is_near])
    query, item = torch.cat(query_parts), torch.cat(item_parts)
    ascending = (query * len(gallery_positions) + item).argsort()
    run_length = torch.bincount(query, minlength=len(query_positions))
    return segments.starts(run_length), run_length, item[ascending]


POSITIVES_BY_OPTION["radius"] = find_near
