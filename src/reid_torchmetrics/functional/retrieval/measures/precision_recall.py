"""Precision-recall curves: of one query, and the mean over queries at given recalls."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks, block_of, check_ranks

from .average_precision import MAX_INTERPOLATED, interpolated_precision
from .means import mean_of_total
from .terms import check_certain, places_of


def precision_recall_curve(
    ranks: PositiveRanks, query: int
) -> tuple[Float[Tensor, " points"], Float[Tensor, " points"]]:
    """Precision j/r_j and recall j/n at each of a query's positives, best first; `query` is its number.

    The first point is the best positive's, (1/r_1, 1/n): none is made up at recall 0. A query without positives has no
    points. Under the tie policy "grouped" each group is one point, at its end.

    Raises:
        TypeError: `query` is not an int.
        ValueError: `query` is not the number of a query, or the ranks are of the tie policy "expected".
    """
    check_ranks(ranks)
    _checks.index("query", query, ranks.num_queries, "queries")
    check_certain("query", f"the curve of query {query}", ranks)
    places = places_of(_only(ranks, query))
    kept = places.ordinal.diff(prepend=places.ordinal.new_zeros(1)) > 0
    ordinal = places.ordinal[kept]
    return ordinal / places.rank[kept], ordinal / len(places.ordinal)


def mean_precision_recall_curve(
    ranks: PositiveRanks, num_points: int = 101, *, empty_target_action: str = "skip"
) -> Float[Tensor, " num_points"]:
    """Mean over queries of the interpolated precision at the recalls i/(M-1), i = 0 ... M-1 with M = `num_points`.

    The interpolated precision at a recall is the largest at that recall or a higher one. With 101 points the mean of
    the curve is the mean of average precision under the rule "interpolated_101". Queries without positives are treated
    as `mean_over_queries` says.

    Source: Manning, Raghavan & Schütze, "Introduction to Information Retrieval", 2008, section 8.4.

    Raises:
        TypeError: `num_points` is not an int.
        ValueError: `num_points` is below 2, the ranks are of the tie policy "expected", or what `mean_over_queries`
            raises.
    """
    _checks.positive_int("num_points", num_points, least=2)
    check_certain("ranks", "the curve", ranks)
    total = torch.zeros(num_points, dtype=torch.float64, device=ranks.rank.device)
    for block in ranks.split(MAX_INTERPOLATED):
        total += interpolated_precision(block, num_points).nansum(0)
    num_valid = int((ranks.num_positives > 0).sum())
    return mean_of_total(total, num_valid, ranks.num_queries - num_valid, empty_target_action)


def _only(ranks: PositiveRanks, query: int) -> PositiveRanks:
    stop = int(ranks.num_positives[: query + 1].sum())
    return block_of(ranks, slice(query, query + 1), slice(stop - int(ranks.num_positives[query]), stop))
