"""Measures of a query's first positive, and the cumulative matching characteristic: the share that is matched early.

In the formulas the positives of a query have the ranks r_1 < r_2 < ...; a query without positives has NaN. All values
are float64. Under the tie policy "grouped" every candidate has the rank of the last of its group; under "expected"
every value is the expectation over the orders of each group.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import UNRETRIEVED, PositiveRanks, check_ranks, in_float

from . import terms
from .means import mean_of_total

_MAX_CHANCES = 1 << 20  # ranks times queries held at a time


def hit_rate_at(ranks: PositiveRanks, k: int) -> Float[Tensor, " queries"]:
    """1 if r_1 <= k, else 0: whether the first `k` candidates hold a positive.

    Also called recall@k, top-k accuracy and, in re-identification, rank-k. A k beyond the number of candidates is
    allowed: every query with a positive has a hit there.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.positive_int("k", k)

    return terms.of_one_positive(
        ranks,
        lambda first, _: (first <= min(k, UNRETRIEVED)).double(),
        lambda groups, _: 1 - terms.chance_of_none(groups, groups.within(k)),
    )


def reciprocal_rank(ranks: PositiveRanks, *, k: int | None = None) -> Float[Tensor, " queries"]:
    """1/r_1, or 0 if r_1 > k. Its mean over queries is the mean reciprocal rank (MRR).

    Source: Voorhees, "The TREC-8 Question Answering Track Report", 1999.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.cutoff("k", k)

    return terms.of_one_positive(
        ranks,
        lambda first, _: (1 / in_float(first)).masked_fill(first > (first if k is None else k), 0.0),
        lambda groups, _: terms.expected_reciprocal(groups, groups.size if k is None else groups.within(k), last=False),
    )


def first_rank(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """r_1: the rank of the best positive, as a float because a query without positives has NaN.

    If P of t tied candidates are positive, the first of them is expected at the (t+1)/(P+1)-th.
    """
    return terms.of_one_positive(
        ranks,
        lambda first, _: in_float(first),
        lambda tied, _: tied.before + (tied.size + 1) / (tied.num_positives + 1).double(),
    )


def cmc_at(ranks: PositiveRanks, k: int, *, mode: _names.CmcMode = "first_match") -> Float[Tensor, " queries"]:
    """The share of each query that is matched within its first `k` candidates; NaN without positives.

    Mode "first_match" is the CMC of the Market-1501 protocol: 1 if r_1 <= k, else 0. Mode "all_shots" is open-reid's
    default: the share of the positives with r_j - (j-1) <= k, so that each positive is matched in a list without
    the better positives. A k beyond the number of candidates is allowed: everything is matched there.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015; the code of open-reid.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1, or an unknown `mode`.
    """
    _checks.positive_int("k", k)
    _checks.one_of("mode", mode, CMC_MODES)
    value, _ = CMC_MODES[mode]
    return value(ranks, k)


def cmc_curve(
    ranks: PositiveRanks,
    max_rank: int = 50,
    *,
    mode: _names.CmcMode = "first_match",
    empty_target_action: _names.EmptyTargetAction = "skip",
) -> Float[Tensor, " max_rank"]:
    """The mean over queries of `cmc_at` for k = 1 ... `max_rank`, float64.

    It has `max_rank` entries even if the gallery is smaller. Queries without positives are treated as in
    `mean_over_queries`.

    Raises:
        TypeError: `max_rank` is not an int.
        ValueError: `max_rank` is below 1, an unknown `mode`, or as `mean_over_queries`.
    """
    _checks.positive_int("max_rank", max_rank)
    _checks.one_of("mode", mode, CMC_MODES)
    check_ranks(ranks)
    _, total = CMC_MODES[mode]
    return mean_of_total(total(ranks, max_rank), ranks.num_positives > 0, empty_target_action)


def _first_matches(ranks: PositiveRanks, max_rank: int) -> Tensor:
    valid = ranks.num_positives > 0
    if not terms.is_averaged(ranks):
        first = first_rank(ranks)[valid].clamp(max=max_rank + 1).long()
        return torch.bincount(first, minlength=max_rank + 2)[1:-1].cumsum(0).double()
    # The chance of a hit at each rank, of a few queries at a time.
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    groups = terms.groups_of(ranks).of(segments.starts(ranks.tied.num_groups)[valid])
    cutoffs = torch.arange(1, max_rank + 1, device=valid.device)
    total = torch.zeros(max_rank, dtype=torch.float64, device=valid.device)
    for part in torch.stack(groups)[:, :, None].split(max(1, _MAX_CHANCES // max_rank), dim=1):
        rows = terms.Groups(*part)
        total += (1 - terms.chance_of_none(rows, rows.within(cutoffs))).sum(0)
    return total


def _all_shots_at(ranks: PositiveRanks, k: int) -> Tensor:
    def share(block: PositiveRanks) -> Tensor:
        best, width = _negatives_ahead(block)
        matched = (min(k, UNRETRIEVED) - best).clamp(min=0).minimum(width) / width.double()
        return segments.reduce(matched, "sum", block.num_positives) / block.num_positives

    return terms.per_block(ranks, share)


def _all_shots(ranks: PositiveRanks, max_rank: int) -> Tensor:
    is_spread = terms.is_averaged(ranks)
    matched = torch.zeros(max_rank + 1, dtype=torch.float64, device=ranks.rank.device)
    for block in ranks.split():
        best, width = _negatives_ahead(block)
        size = block.num_positives.repeat_interleave(block.num_positives, output_size=len(best))
        parts = 1 / (size * width).double()
        matched.index_add_(0, best.clamp(max=max_rank), parts)
        if is_spread:  # a part at each of `width` ranks: where the parts begin and end, to be summed
            matched.index_add_(0, (best + width).clamp(max=max_rank), -parts)
    if is_spread:
        matched = segments.running_sums(matched)
    return segments.running_sums(matched[:-1])


def _negatives_ahead(ranks: PositiveRanks) -> tuple[Tensor, Tensor]:
    """Fewest negatives ahead of each positive, and the number of equally likely counts from there on."""
    ahead = ranks.rank - terms.ordinals(ranks)
    if ranks.tied is None or not terms.is_averaged(ranks):
        return ahead, torch.ones_like(ahead)
    num_negatives = terms.of_each_positive(ranks, ranks.tied.num_negatives)
    return ahead - num_negatives, num_negatives + 1


CMC_MODES = {"first_match": (hit_rate_at, _first_matches), "all_shots": (_all_shots_at, _all_shots)}
"""Modes of the CMC: a query is matched by its best positive, or by each of its positives.

Of each the value of a query at k, and the sum over the queries with a positive at each k up to the largest."""
