"""Measures of the first k candidates, of the ranks of the first and last positive, and the CMC.

In the formulas a query has n positives at ranks r_1 < ... < r_n; h of them, its hits, are among its first k candidates.
A query without positives has NaN, and the mean decides what it counts. All values are float64.
Under the tie policy "grouped" every candidate has the rank of the last of its group; under "expected" every value is
the expectation over the orders of each group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._names import Gain, PrecisionDivisor, RankVariant
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import UNRETRIEVED, PositiveRanks, check_ranks, in_float

from . import terms
from .means import mean_of_total


def precision_at(ranks: PositiveRanks, k: int, *, divisor: PrecisionDivisor = "k") -> Float[Tensor, " queries"]:
    """Return h/k: the share of positives among the first `k` candidates.

    `divisor`: "k", also where there are fewer candidates (pytorch-metric-learning, TorchMetrics); "attainable",
    min(k, n), so that a perfect ranking has precision 1 (open-metric-learning); "last_positive", min(k, r_n), so that
    nothing counts after the last positive (the revisited Oxford and Paris evaluation). One positive, at rank 1,
    gives 0.1, 1 and 1 at k = 10. "calibrated" is the share among the first min(k, n), as `r_precision` with k (the
    Google Universal Image Embedding challenge): one positive, at rank 2, gives 0, with "attainable" 1.

    Source of "last_positive": Radenovic et al., "Revisiting Oxford and Paris: Large-Scale Image Retrieval
    Benchmarking", CVPR 2018, and its code.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1, or an unknown `divisor`.
    """
    _checks.positive_int("k", k)
    _checks.one_of("divisor", divisor, PRECISION_DIVISORS)
    return terms.per_block(ranks, lambda block: PRECISION_DIVISORS[divisor](block, k))


def recall_at(ranks: PositiveRanks, k: int) -> Float[Tensor, " queries"]:
    """Return h/n: the share of the positives among the first `k` candidates.

    Papers on retrieval that write recall@k mostly mean `hit_rate_at`.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.positive_int("k", k)
    return terms.per_block(ranks, lambda block: terms.num_hits(block, k) / block.num_positives)


def r_precision(ranks: PositiveRanks, *, k: int | None = None) -> Float[Tensor, " queries"]:
    """Return h/n with k = n: precision at R, the number of positives.

    With `k` it is the share among the first min(k, n), as in pytorch-metric-learning where it retrieves only k.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.cutoff("k", k)
    return terms.per_block(ranks, lambda block: _among_attainable(block, k))


def _among_attainable(ranks: PositiveRanks, k: int | None) -> Tensor:
    attainable = terms.most_hits(ranks, k)
    return terms.num_hits(ranks, attainable) / attainable


def retrieval_rank(ranks: PositiveRanks, *, variant: RankVariant = "mpeg7") -> Float[Tensor, " queries"]:
    """Compute (a - (1 + n)/2) / (p - (1 + n)/2), the normalized modified retrieval rank: from 0, perfect, to 1.

    a is the mean over the positives of r_j, or of the penalty p for those beyond rank w. With K = min(4n, 2 N), N the
    most positives of a query, `variant` "mpeg7" has w = K and p = 5K/4, and "shrec22" w = n and p = K + 1. The mean
    over queries is ANMRR. Some codes count ranks from 0, so that perfect lists are below 0.

    Source: Manjunath et al., "Color and Texture Descriptors", IEEE Transactions on Circuits and Systems for Video
    Technology, 2001; the code of the SHREC 2022 track on open-set 3D object retrieval.

    Raises:
        ValueError: an unknown `variant`.
    """
    _checks.one_of("variant", variant, _RETRIEVAL_RANKS)
    largest = int(ranks.num_positives.max()) if ranks.num_queries else 0

    def value(block: PositiveRanks) -> Tensor:
        n = block.num_positives
        reach = (4 * n).clamp(max=2 * largest)  # K
        cutoff, penalty = _RETRIEVAL_RANKS[variant](n, reach)
        total = terms.sum_over_positives(block, lambda places: places.rank, cutoff)
        num_missed = n - terms.num_hits(block, cutoff)
        mean = (total + penalty * num_missed) / n
        perfect = (1 + n) / 2
        return (mean - perfect) / (penalty - perfect)

    return terms.per_block(ranks, value)


_RETRIEVAL_RANKS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "mpeg7": lambda _, reach: (reach, 1.25 * reach),
    "shrec22": lambda num_positives, reach: (num_positives, reach + 1),
}
"""The last rank w that counts as it is, and the penalty p of a positive behind it, from n and K."""


def normalized_dcg(ranks: PositiveRanks, *, k: int | None = None, gain: Gain = "linear") -> Float[Tensor, " queries"]:
    """Compute sum_{r_j <= k} g_j/log2(r_j + 1), divided by the same sum for a perfect ranking: nDCG.

    A positive has gain 1 or, if it has a grade, this grade with `gain` "linear" (trec_eval, ranx) and 2^grade - 1 with
    "exponential" (Burges et al.; Zhao et al. for hashing). `evaluate_lists` takes grades; if samples have several
    labels, the grade is the number of labels that a positive shares with its query. A perfect ranking has all
    positives, retrieved or not, by falling grade. Under the tie policy "expected" it is the nDCG of scikit-learn and
    TorchMetrics: they average over ties.

    Source: Järvelin & Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002; Burges et al.,
    "Learning to Rank using Gradient Descent", ICML 2005; Zhao et al., "Deep Semantic Ranking Based Hashing for
    Multi-Label Image Retrieval", CVPR 2015.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1, or an unknown `gain`.
    """
    _checks.cutoff("k", k)
    _checks.one_of("gain", gain, GAINS)

    def share(block: PositiveRanks) -> Tensor:
        if block.judged is not None:
            grade = block.judged.grade.double()
            largest = segments.reduce(grade, "max", block.num_positives)
            largest = largest.repeat_interleave(block.num_positives, output_size=len(block.rank))
            return _graded_dcg(block, GAINS[gain](grade, largest), k)
        # With equal gains a perfect ranking sums the discounts of the first positions.
        attainable = terms.most_hits(block, k)
        positions = torch.arange(1, int(attainable.max()) + 1, dtype=torch.float64, device=attainable.device)
        discounts = _discount(terms.Places(positions, positions))
        ideal = torch.cat([positions.new_ones(1), segments.running_sums(discounts)])
        return terms.sum_over_positives(block, _discount, k) / ideal[attainable]

    return terms.per_block(ranks, share)


def _exponential_gain(grade: Tensor, largest: Tensor) -> Tensor:
    # 2^(grade - shift) - 2^-shift, where shift is 0 except for huge grades. For tiny grades 2^grade - 1 has no digits.
    shift = (largest - 900).clamp(min=0)
    return torch.where(grade < 2**-10, (grade * math.log(2)).expm1(), 2 ** (grade - shift) - 2**-shift)


GAINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": lambda grade, largest: torch.where(largest < 2.0**900, grade, grade * 2.0**-100),
    "exponential": _exponential_gain,
}
"""The gain of a positive in nDCG, from its grade and the largest of its query.

Where grades are huge, all gains of a query are scaled by one factor, so that they do not overflow."""


def _graded_dcg(ranks: PositiveRanks, gains: Tensor, k: int | None) -> Tensor:
    # A perfect ranking sorts by falling gain, query by query; both sorts are stable.
    query, place = segments.runs(1, ranks.num_positives)
    by_gain = gains.argsort(descending=True, stable=True)
    by_query = query[by_gain].argsort(stable=True)
    perfect_gains = gains[by_gain[by_query]]

    values = perfect_gains * _discount(terms.Places(place.double(), place.double()))
    if k is not None:
        values = values.masked_fill(place > k, 0.0)
    ideal = segments.reduce(values, "sum", ranks.num_positives)
    return terms.sum_over_positives(ranks, _discount, k, weights=gains) / ideal


def cumulative_gain_at(ranks: PositiveRanks, k: int) -> Float[Tensor, " queries"]:
    """Compute (1/k) sum_{r_j <= k} g_j, the average cumulative gain: the mean grade of the first `k` candidates.

    If samples have several labels, a grade g_j is the number of labels that a positive shares with its query, so that
    the value may be above 1; a negative counts 0. Without grades it is `precision_at`. A list that is shorter than k is
    filled with negatives.

    Source: Järvelin & Kekäläinen, "IR evaluation methods for retrieving highly relevant documents", SIGIR 2000; Zhao et
    al., "Deep Semantic Ranking Based Hashing for Multi-Label Image Retrieval", CVPR 2015.

    Raises:
        TypeError: `k` is not an int.
        ValueError: `k` is below 1.
    """
    _checks.positive_int("k", k)

    def gain(block: PositiveRanks) -> Tensor:
        if block.judged is None:
            return terms.num_hits(block, k) / k
        grades = block.judged.grade.double()
        total = terms.sum_over_positives(block, lambda places: torch.ones_like(places.rank), k, weights=grades)
        return total / k

    return terms.per_block(ranks, gain)


def binary_preference(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """Compute bpref, (1/n) sum_j 1 - min(b_j, n) / min(n, N), over the retrieved positives.

    b_j of the N judged negatives are before positive j; 1 is added if there are none. Judged negatives have grade 0 in
    `evaluate_lists`; without grades every negative is judged. The definition is that of trec_eval; ranx has another
    number.

    Source: Buckley and Voorhees, "Retrieval Evaluation with Incomplete Information", SIGIR 2004.

    Raises:
        ValueError: the tie policy is "expected".
    """
    terms.check_certain("bpref", "the order of judged candidates", ranks)

    def preference(block: PositiveRanks) -> Tensor:
        places = terms.places_of(block)
        num_before = places.rank - places.ordinal
        num_negatives = block.num_candidates - block.num_positives
        judged = block.judged
        if judged is not None and judged.num_before is not None and judged.num_negatives is not None:
            num_before = judged.num_before.double()
            num_negatives = judged.num_negatives
        # n and N of each positive.
        num_positives = block.num_positives.repeat_interleave(block.num_positives).double()
        divisor = num_positives.minimum(num_negatives.repeat_interleave(block.num_positives)).clamp(min=1)
        preferences = 1 - num_before.minimum(num_positives) / divisor
        preferences = preferences.masked_fill(block.rank > UNRETRIEVED, 0.0)
        return segments.reduce(preferences, "sum", block.num_positives) / block.num_positives

    return terms.per_block(ranks, preference)


def inverse_negative_penalty(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """Return n / r_n: the share of positives among the items up to the last positive.

    Its mean is mINP. Source: Ye et al., "Deep Learning for Person Re-identification: A Survey and Outlook", TPAMI
    2021, where 1 - INP is the negative penalty (r_n - n) / r_n.
    """
    return terms.from_one_positive(
        ranks,
        lambda last, num_positives: num_positives / in_float(last),
        lambda groups, num_positives: num_positives * terms.expected_reciprocal(groups, groups.size, last=True),
        last=True,
    )


def _discount(places: terms.Places) -> Tensor:
    return 1 / (places.rank + 1).log2()


def _up_to_last_positive(ranks: PositiveRanks, k: int) -> Tensor:
    """Return h / min(k, r_n), or its expectation."""
    hits = terms.num_hits(ranks, k)[ranks.num_positives > 0]

    def share(last: Tensor, _: Tensor) -> Tensor:
        return hits / last.clamp(max=k)

    def expected_share(groups: terms.Groups, num_positives: Tensor) -> Tensor:
        # h/k, but n/r_n if the last positive comes before rank k.
        num_earlier = groups.num_within(k - 1)
        chance = terms.chance_of_none(groups, groups.size - num_earlier)
        reciprocal = terms.expected_reciprocal(groups, num_earlier, last=True)
        return (hits - num_positives * chance) / k + num_positives * reciprocal

    return terms.from_one_positive(ranks, share, expected_share, last=True)


PRECISION_DIVISORS: dict[str, Callable[[PositiveRanks, int], Tensor]] = {
    "k": lambda ranks, k: terms.num_hits(ranks, k) / k,
    "attainable": lambda ranks, k: terms.num_hits(ranks, k) / terms.most_hits(ranks, k),
    "last_positive": _up_to_last_positive,
    "calibrated": _among_attainable,
}
"""Precision at k, for each divisor of the number of hits."""

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
    return terms.from_one_positive(
        ranks,
        lambda first, _: (first <= min(k, UNRETRIEVED)).double(),
        lambda groups, _: 1 - terms.chance_of_none(groups, groups.num_within(k)),
    )


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
    return terms.from_one_positive(
        ranks,
        lambda first, _: in_float(first),
        lambda groups, _: groups.before + (groups.size + 1) / (groups.num_positives + 1).double(),
    )


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
    _checks.positive_int("k", k)

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
