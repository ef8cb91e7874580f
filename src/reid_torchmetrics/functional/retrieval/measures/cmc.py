"""Measures of a query's first positive, and the cumulative matching characteristic (CMC).

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

_MAX_CHANCES = 1 << 20  # ranks times queries in memory at a time


def hit_rate_at(ranks: PositiveRanks, k: int) -> Float[Tensor, " queries"]:
    """Return 1 if r_1 <= k, else 0: whether the first `k` candidates hold a positive.

    Also called recall@k, top-k accuracy and, in re-identification, rank-k. A k beyond the number of candidates is
    allowed: every query with a positive has a hit there.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.positive_int("k", k)

    def hit(first: Tensor, _: Tensor) -> Tensor:
        return (first <= min(k, UNRETRIEVED)).double()

    def expected_hit(groups: terms.Groups, _: Tensor) -> Tensor:
        return 1 - terms.chance_of_none(groups, groups.num_within(k))

    return terms.from_one_positive(ranks, hit, expected_hit)


def reciprocal_rank(ranks: PositiveRanks, *, k: int | None = None) -> Float[Tensor, " queries"]:
    """Return 1/r_1, or 0 if r_1 > k. Its mean over queries is the mean reciprocal rank (MRR).

    Source: Voorhees, "The TREC-8 Question Answering Track Report", 1999.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.cutoff("k", k)

    def reciprocal(first: Tensor, _: Tensor) -> Tensor:
        values = 1 / in_float(first)
        return values if k is None else values.masked_fill(first > k, 0.0)

    def expected_reciprocal(groups: terms.Groups, _: Tensor) -> Tensor:
        num_within = groups.size if k is None else groups.num_within(k)
        return terms.expected_reciprocal(groups, num_within, last=False)

    return terms.from_one_positive(ranks, reciprocal, expected_reciprocal)


def first_rank(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """Return r_1: the rank of the best positive, as a float because a query without positives has NaN.

    If P of t tied candidates are positive, the first of them is expected at the (t+1)/(P+1)-th.
    """

    def rank(first: Tensor, _: Tensor) -> Tensor:
        return in_float(first)

    def expected_rank(groups: terms.Groups, _: Tensor) -> Tensor:
        return groups.before + (groups.size + 1) / (groups.num_positives + 1).double()

    return terms.from_one_positive(ranks, rank, expected_rank)


def cmc_at(ranks: PositiveRanks, k: int, *, mode: _names.CmcMode = "first_match") -> Float[Tensor, " queries"]:
    """Return the share of each query that is matched within its first `k` candidates; NaN without positives.

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
    value_at, _ = CMC_MODES[mode]
    return value_at(ranks, k)


def cmc_curve(
    ranks: PositiveRanks,
    max_rank: int = 50,
    *,
    mode: _names.CmcMode = "first_match",
    empty_target_action: _names.EmptyTargetAction = "skip",
) -> Float[Tensor, " max_rank"]:
    """Compute the mean over queries of `cmc_at` for k = 1 ... `max_rank`, float64.

    It has `max_rank` entries even if the gallery is smaller. Queries without positives are treated as in
    `mean_over_queries`.

    Raises:
        TypeError: `max_rank` is not an int.
        ValueError: `max_rank` is below 1, an unknown `mode`, or as `mean_over_queries`.
    """
    _checks.positive_int("max_rank", max_rank)
    _checks.one_of("mode", mode, CMC_MODES)
    check_ranks(ranks)
    _, total_curve = CMC_MODES[mode]
    return mean_of_total(total_curve(ranks, max_rank), ranks.num_positives > 0, empty_target_action)


def _first_matches(ranks: PositiveRanks, max_rank: int) -> Tensor:
    """Sum the curves of the mode "first_match" over all queries with a positive."""
    valid = ranks.num_positives > 0
    if not terms.is_averaged(ranks):
        first = first_rank(ranks)[valid].clamp(max=max_rank + 1).long()
        num_first = torch.bincount(first, minlength=max_rank + 2)[1:-1]
        return num_first.cumsum(0).double()
    # Sum the chances of a hit at each rank, a few queries at a time.
    assert ranks.tied is not None  # noqa: S101 - for the type checker
    first_group = segments.starts(ranks.tied.num_groups)[valid]
    groups = terms.groups_of(ranks).select(first_group)
    cutoffs = torch.arange(1, max_rank + 1, device=valid.device)
    total = torch.zeros(max_rank, dtype=torch.float64, device=valid.device)
    for part in torch.stack(groups)[:, :, None].split(max(1, _MAX_CHANCES // max_rank), dim=1):
        part_groups = terms.Groups(*part)
        chance_of_none = terms.chance_of_none(part_groups, part_groups.num_within(cutoffs))
        total += (1 - chance_of_none).sum(0)
    return total


def _all_shots_at(ranks: PositiveRanks, k: int) -> Tensor:
    """Return for each query the share of its positives that are matched at k."""

    def share(block: PositiveRanks) -> Tensor:
        fewest, num_counts = _negatives_ahead(block)
        num_matching = (min(k, UNRETRIEVED) - fewest).clamp(min=0).minimum(num_counts)
        chance = num_matching / num_counts.double()
        return segments.reduce(chance, "sum", block.num_positives) / block.num_positives

    return terms.per_block(ranks, share)


def _all_shots(ranks: PositiveRanks, max_rank: int) -> Tensor:
    """Sum the curves of the mode "all_shots" over all queries with a positive."""
    is_averaged = terms.is_averaged(ranks)
    matched = torch.zeros(max_rank + 1, dtype=torch.float64, device=ranks.rank.device)
    for block in ranks.split():
        fewest, num_counts = _negatives_ahead(block)
        num_positives = block.num_positives.repeat_interleave(block.num_positives, output_size=len(fewest))
        part = 1 / (num_positives * num_counts).double()
        matched.index_add_(0, fewest.clamp(max=max_rank), part)
        if is_averaged:  # a positive adds a part at `num_counts` ranks: mark where they begin and end, to be summed
            matched.index_add_(0, (fewest + num_counts).clamp(max=max_rank), -part)
    if is_averaged:
        matched = segments.running_sums(matched)
    return segments.running_sums(matched[:-1])


def _negatives_ahead(ranks: PositiveRanks) -> tuple[Tensor, Tensor]:
    """Return the fewest negatives ahead of each positive, and how many counts from there on are equally likely.

    For instance a positive behind 3 negatives and tied with 2 has 3, 4 or 5 ahead: it has 3 and 3.
    """
    num_ahead = ranks.rank - terms.ordinals(ranks)
    if ranks.tied is None or not terms.is_averaged(ranks):
        return num_ahead, torch.ones_like(num_ahead)
    num_tied = terms.repeat_for_positives(ranks, ranks.tied.num_negatives)
    return num_ahead - num_tied, num_tied + 1


CMC_MODES = {"first_match": (hit_rate_at, _first_matches), "all_shots": (_all_shots_at, _all_shots)}
"""Modes of the CMC: a query is matched by its best positive, or by each of its positives.

For each mode the value of a query at k, and the sum over the queries with a positive at each k up to the largest."""
