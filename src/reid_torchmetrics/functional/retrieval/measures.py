"""Measures of retrieval: from the ranks of a query's positives to one value per query.

In the formulas a query has n positives at the 1-based ranks r_1 < ... < r_n. A query without positives has no value:
every measure gives NaN for it, and `mean_over_queries` decides once what becomes of it. All values are float64.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranks import PositiveRanks

EMPTY_TARGET_ACTIONS = {"skip": None, "neg": 0.0, "pos": 1.0, "error": None}
"""What a query without positives counts in the mean; None where it does not count."""


def average_precision(ranks: PositiveRanks, *, rule: str = "rectangle") -> Float[Tensor, " queries"]:
    """Area under a query's precision-recall curve, over its whole ranked list.

    Rule "rectangle", (1/n) sum_j j/r_j, is scikit-learn's, torchreid's, fast-reid's and TransReID's. Rule
    "trapezoid", (1/n) sum_j (p_j + j/r_j)/2 with p_j = (j-1)/(r_j-1), or 1 at r_j = 1, is that of the official
    Market-1501 script, of Oxford's compute_ap and of the revisited Oxford and Paris evaluation. The trapezoid is the
    lower of the two unless every positive comes first.

    Source: Zheng et al., "Scalable Person Re-identification: A Benchmark", ICCV 2015; Philbin et al., "Object
    retrieval with large vocabularies and fast spatial matching", CVPR 2007.

    Raises:
        ValueError: an unknown `rule`.
    """
    _checks.one_of("rule", rule, AP_RULES)
    return _per_query(ranks, lambda block: _mean_over_positives(block, AP_RULES[rule]))


def inverse_negative_penalty(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """n / r_n: the share of positives among the items that must be read to find the last positive.

    Its mean is mINP. Source: Ye et al., "Deep Learning for Person Re-identification: A Survey and Outlook", TPAMI
    2021, where 1 - INP is the negative penalty (r_n - n) / r_n.
    """
    num_positives, last = ranks.num_positives, ranks.num_positives.cumsum(0) - 1
    return _where_positive(ranks, lambda valid: num_positives[valid] / ranks.rank[last[valid]].double())


def first_rank(ranks: PositiveRanks) -> Float[Tensor, " queries"]:
    """r_1: the rank of the best positive, as a float because a query without positives has NaN."""
    first = ranks.num_positives.cumsum(0) - ranks.num_positives
    return _where_positive(ranks, lambda valid: ranks.rank[first[valid]].double())


def mean_over_queries(values: Float[Tensor, " queries"], *, empty_target_action: str = "skip") -> Float[Tensor, ""]:
    """Mean of one value per query; NaN stands for a query without positives.

    `empty_target_action`, TorchMetrics' word: "skip" leaves such queries out (torchreid, fast-reid, open-reid),
    "neg" counts them as 0 (the official Market-1501 script, layumi), "pos" as 1. If no query at all has a value the
    mean is NaN, whatever the action: nothing was measured.

    Raises:
        ValueError: an unknown action, or action "error" and a query without positives.
    """
    valid = ~values.isnan()
    num_valid = int(valid.sum())
    return mean_of_total(values[valid].sum(), num_valid, len(values) - num_valid, empty_target_action)


def mean_of_total(
    total: Float[Tensor, "*shape"], num_valid: int, num_empty: int, empty_target_action: str
) -> Float[Tensor, "*shape"]:
    """Mean over queries, given the `total` over the valid ones: what `mean_over_queries` and curves share."""
    _checks.one_of("empty_target_action", empty_target_action, EMPTY_TARGET_ACTIONS)
    if empty_target_action == "error":
        _checks.no_empty_target(num_empty, num_valid + num_empty)
    if num_valid == 0:
        return torch.full_like(total, torch.nan)
    substitute = EMPTY_TARGET_ACTIONS[empty_target_action]
    if substitute is None:
        return total / num_valid
    return (total + substitute * num_empty) / (num_valid + num_empty)


def _rectangle(ordinal: Tensor, rank: Tensor) -> Tensor:
    return ordinal / rank


def _trapezoid(ordinal: Tensor, rank: Tensor) -> Tensor:
    precision_before = torch.where(rank > 1, (ordinal - 1) / (rank - 1), 1)
    return (precision_before + ordinal / rank) / 2


AP_RULES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"rectangle": _rectangle, "trapezoid": _trapezoid}


def _per_query(ranks: PositiveRanks, measure: Callable[[PositiveRanks], Tensor]) -> Tensor:
    """Apply `measure` to blocks of queries, so that millions of positives need little memory."""
    none = torch.empty(0, dtype=torch.float64, device=ranks.rank.device)
    return torch.cat([none, *(measure(block) for block in ranks.split())])


def _mean_over_positives(ranks: PositiveRanks, term: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Mean over a query's positives of `term`, a function of the positive's ordinal j and rank r_j, in float64."""
    terms = term(ordinals(ranks.num_positives).double(), ranks.rank.double())
    total = torch.segment_reduce(terms, "sum", lengths=ranks.num_positives, unsafe=True)
    return total / ranks.num_positives  # 0 / 0 is NaN for a query without positives


def ordinals(num_positives: Int[Tensor, " queries"]) -> Int[Tensor, " positives"]:
    """j = 1 ... n for every query, in the order of `PositiveRanks.rank`."""
    first = num_positives.cumsum(0) - num_positives
    total = int(num_positives.sum())
    return torch.arange(1, total + 1, device=first.device) - first.repeat_interleave(num_positives, output_size=total)


def _where_positive(ranks: PositiveRanks, value: Callable[[Tensor], Tensor]) -> Tensor:
    """Evaluate `value` for the queries with a positive, NaN for the others."""
    valid = ranks.num_positives > 0
    values = torch.full(valid.shape, torch.nan, dtype=torch.float64, device=valid.device)
    values[valid] = value(valid)
    return values
