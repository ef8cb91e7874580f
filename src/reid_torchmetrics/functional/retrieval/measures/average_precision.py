"""Precision-recall curves, and average precision: its rules, its cutoffs and its divisors.

In the formulas a query has n positives at the 1-based ranks r_1 < ... < r_n. A query without positives has NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._names import ApRule, EmptyTargetAction, Normalizer
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks, block_of, check_ranks

from . import terms
from .means import mean_of_total

_MAX_INTERPOLATED = 1 << 16  # positives in a block of queries, where each query has a value for each recall


def average_precision(
    ranks: PositiveRanks, *, rule: ApRule = "rectangle", k: int | None = None, normalizer: Normalizer = "positives"
) -> Float[Tensor, " queries"]:
    """Compute the area under each query's precision-recall curve, for the whole list or its first `k` candidates.

    Rule "rectangle", (1/n) sum_j j/r_j, is scikit-learn's, torchreid's, fast-reid's and TransReID's. Rule
    "trapezoid", (1/n) sum_j (p_j + j/r_j)/2 with p_j = (j-1)/(r_j-1), or 1 at r_j = 1, is the rule of the official
    Market-1501 script, of Oxford's compute_ap and of the revisited Oxford and Paris evaluation. The trapezoid is the
    lower of the two unless every positive comes first. Rules "interpolated_11" (PASCAL VOC 2007) and
    "interpolated_101" (COCO) are the mean over the recalls i/10, or i/100, of the largest precision at that recall or
    a higher one.

    With `k` only positives among the first k candidates add to the area. Their sum is divided by n for the `normalizer`
    "positives" (pytorch-metric-learning, SimpleIR), by min(n, k) for "attainable" (Google Landmarks), by the number of
    hits in the first k, with 0 where there is none, for "hits" (open-metric-learning, TorchMetrics), and by k for "k"
    (SISH). One hit at rank 1 of 2 positives gives 1/2, 1/2, 1 and 1/5 at k = 5. Without `k` the first three differ in
    lists that lack positives alone: "hits" counts those that are retrieved.

    Under the tie policy "grouped" a group of equal scores is one step of the curve, as in scikit-learn.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015; Philbin et al., "Object
    retrieval with large vocabularies and fast spatial matching", CVPR 2007; Everingham et al., "The PASCAL Visual
    Object Classes (VOC) Challenge", IJCV 2010.

    Raises:
        TypeError: `k` is not an int.
        ValueError: an unknown `rule` or `normalizer`, a `k` below 1, `normalizer` "k" without `k`, an interpolated rule
            with a `normalizer` other than "positives" or ranks of the tie policy "expected".
    """
    check_area(rule, k, normalizer)
    definition = AP_RULES[rule]
    if isinstance(definition, int):
        terms.check_certain("rule", f"{rule!r}", ranks)
        num_points = definition
        return terms.per_block(ranks, lambda block: _interpolated(block, num_points, k).mean(1), _MAX_INTERPOLATED)
    return terms.per_block(ranks, lambda block: _area(block, definition, k, normalizer))


def check_area(rule: str, k: int | None, normalizer: str) -> None:
    """Raise unless average precision is defined with this rule, cutoff and normalizer."""
    _checks.one_of("rule", rule, AP_RULES)
    _checks.one_of("normalizer", normalizer, AP_NORMALIZERS)
    _checks.cutoff("k", k)
    if isinstance(AP_RULES[rule], int) and normalizer != "positives":
        raise ValueError(f"`normalizer` must be 'positives' with rule {rule!r}; got {normalizer!r}.")
    if normalizer == "k" and k is None:
        raise ValueError("`normalizer` 'k' must come with a cutoff `k`; got None.")


def average_precision_at_r(ranks: PositiveRanks, *, k: int | None = None) -> Float[Tensor, " queries"]:
    """Compute (1/n) sum_{r_j <= n} j/r_j: average precision at R = n, the number of positives.

    Its mean is MAP@R. With `k` the sum stops at rank min(k, n): pytorch-metric-learning where it retrieves k only.

    Source: Musgrave et al., "A Metric Learning Reality Check", ECCV 2020.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.cutoff("k", k)

    def area(block: PositiveRanks) -> Tensor:
        total = terms.sum_over_positives(block, lambda places: places.precision, terms.most_hits(block, k))
        return total / block.num_positives

    return terms.per_block(ranks, area)


def precision_recall_curve(
    ranks: PositiveRanks, query: int
) -> tuple[Float[Tensor, " points"], Float[Tensor, " points"]]:
    """Return precision j/r_j and recall j/n at each positive of one query, best first; `query` is its number.

    The first point is that of the best positive, (1/r_1, 1/n): no point is added at recall 0. A query without positives
    has no points. Under the tie policy "grouped" each group is one point, at its end.

    Raises:
        TypeError: `query` is not an int.
        ValueError: `query` is not the number of a query, or the ranks are of the tie policy "expected".
    """
    check_ranks(ranks)
    _checks.index("query", query, ranks.num_queries, "queries")
    terms.check_certain("query", f"the curve of query {query}", ranks)
    stop = int(ranks.num_positives[: query + 1].sum())
    start = stop - int(ranks.num_positives[query])
    places = terms.places_of(block_of(ranks, slice(query, query + 1), slice(start, stop)))
    is_point = places.ordinal.diff(prepend=places.ordinal.new_zeros(1)) > 0  # a group is one point
    ordinal = places.ordinal[is_point]
    precision = ordinal / places.rank[is_point]
    recall = ordinal / len(places.ordinal)
    return precision, recall


def mean_precision_recall_curve(
    ranks: PositiveRanks, num_points: int = 101, *, empty_target_action: EmptyTargetAction = "skip"
) -> Float[Tensor, " num_points"]:
    """Compute the mean over queries of the interpolated precision at M = `num_points` recalls i/(M-1), i = 0 ... M-1.

    The interpolated precision at a recall is the largest at that recall or a higher one. With 101 points the mean of
    the curve is the mean of average precision under the rule "interpolated_101". Queries without positives are treated
    as `mean_over_queries` says.

    Source: Manning, Raghavan & Schütze, "Introduction to Information Retrieval", 2008, section 8.4.

    Raises:
        TypeError: `num_points` is not an int.
        ValueError: `num_points` is below 2, the ranks are of the tie policy "expected", or as in `mean_over_queries`.
    """
    _checks.positive_int("num_points", num_points, least=2)
    terms.check_certain("ranks", "the curve", ranks)
    total = torch.zeros(num_points, dtype=torch.float64, device=ranks.rank.device)
    for block in ranks.split(_MAX_INTERPOLATED):
        total += _interpolated(block, num_points).nansum(0)
    return mean_of_total(total, ranks.num_positives > 0, empty_target_action)


def _interpolated(ranks: PositiveRanks, num_points: int, k: int | None = None) -> Float[Tensor, "queries points"]:
    """Return the largest precision at recall i/(M-1) or higher, for i = 0 ... M-1 with M = `num_points`; else NaN.

    The recall j/n reaches i/(M-1) if (M-1) j >= i n, decided in integers. A recall that is not reached within
    the first `k` candidates has precision 0.

    For instance n = 2 positives at the ranks 1 and 4 have the precisions 1 and 1/2 at the recalls 1/2 and 1. With M = 5
    the recalls 0, 1/4 and 1/2 are reached by the first one, 3/4 and 1 by the second: 1, 1, 1, 1/2, 1/2.
    """
    places = terms.places_of(ranks)
    num_positives = ranks.num_positives[:, None]
    precision = places.precision
    if k is not None:
        precision = precision.masked_fill(places.rank > k, 0.0)
    level = torch.arange(num_points, device=num_positives.device)
    first_ordinal = (-(-level * num_positives // (num_points - 1))).clamp(min=1)  # that reaches the level
    # The largest precision between the positives that reach two levels, and then at all higher levels.
    lengths = torch.cat([first_ordinal, num_positives + 1], dim=1).diff()
    best = torch.segment_reduce(precision, "max", lengths=lengths.flatten(), initial=0.0, unsafe=True)
    envelope = best.view(lengths.shape).flip(1).cummax(1).values.flip(1)
    return envelope.masked_fill(num_positives == 0, torch.nan)


AP_RULES: dict[str, terms.Term | int] = {
    "rectangle": lambda places: places.precision,
    "trapezoid": lambda places: (places.precision_before + places.precision) / 2,
    "interpolated_11": 11,
    "interpolated_101": 101,
}
"""The term of a positive in the area, or the number of recalls for the interpolated precision."""

AP_NORMALIZERS: dict[str, Callable[[PositiveRanks, int | None], Tensor]] = {
    "positives": lambda ranks, _: ranks.num_positives,
    "attainable": terms.most_hits,
    "hits": terms.num_hits,
    "k": lambda ranks, k: torch.full_like(ranks.num_positives, k or 1),
}
"""The divisor of the sum over the hits among the first k candidates."""


def _area(ranks: PositiveRanks, term: terms.Term, k: int | None, normalizer: str) -> Tensor:
    if k is not None and normalizer == "hits" and terms.is_averaged(ranks):
        return _expected_mean_over_hits(ranks, term, k)
    divisor = AP_NORMALIZERS[normalizer](ranks, k)
    return terms.sum_over_positives(ranks, term, k) / divisor.clamp(min=1)


def _expected_mean_over_hits(ranks: PositiveRanks, term: terms.Term, k: int) -> Tensor:
    """Compute E[S/H]: S sums `term` over the H hits among the first k candidates; 0 where H = 0.

    H is random only if position k cuts a group of tied candidates: the group has h hits in its first m candidates with
    probability C(P, h) C(t-P, m-h) / C(t, m), and given h these m are a group of their own with h positives.
    """
    groups = terms.groups_of(ranks)
    is_cut = (groups.before < k) & (groups.before + groups.size > k) & (groups.size > groups.num_positives)
    query = terms.query_of_groups(ranks)[is_cut]
    # Count up to the group that is cut.
    cutoff = torch.full_like(ranks.num_positives, k)
    cutoff[query] = groups.before[is_cut]
    total = terms.sum_over_positives(ranks, term, cutoff)
    num_hits = terms.num_hits(ranks, cutoff)
    means = total / num_hits.clamp(min=1)
    means[query] = _mean_over_hits_in_cut_group(groups.select(is_cut), total[query], term, k)
    return means


def _mean_over_hits_in_cut_group(groups: terms.Groups, total: Tensor, term: terms.Term, k: int) -> Tensor:
    """Compute E[S/H] for queries with a group that position k cuts; `total` sums `term` over the positives ahead of it.

    For instance k = 1 cuts a group of 1 positive and 1 negative at the top: h is 0 or 1 with probability 1/2 each.
    """
    num_within = k - groups.before
    # One entry for each possible number of hits of each group.
    lengths = num_within.minimum(groups.num_positives) + 1
    group, hits = segments.runs(0, lengths)
    misses = num_within[group] - hits
    entries = groups.select(group)
    num_negatives = entries.size - entries.num_positives
    logs = terms.LogFactorials(groups.size)
    log_ways = logs.choose(entries.num_positives, hits) + logs.choose(num_negatives, misses.minimum(num_negatives))
    log_all = logs.choose(groups.size, num_within)[group]
    chance = (log_ways - log_all).exp().masked_fill(misses > num_negatives, 0.0)

    first_candidates = entries._replace(size=num_within[group], num_positives=hits)
    added = hits * terms.expected_in_group(term, first_candidates, first_candidates.size)
    values = chance * (total[group] + added) / (entries.better + hits).clamp(min=1)
    return segments.reduce(values, "sum", lengths)
