"""Recognition: one prediction per query, judged over all queries together."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, TiePolicy

PREDICTION_TIES = {name: policy for name, policy in TIE_POLICIES.items() if not policy.groups}
"""the policies of `TIE_POLICIES` that order predictions: a correct one is a positive, and its query is its place"""


def global_average_precision(
    confidence: Float[Tensor, " queries"] | _checks.Numbers,
    correct: Bool[Tensor, " queries"] | _checks.Integers,
    has_target: Bool[Tensor, " queries"] | _checks.Integers | None = None,
    *,
    ignore_without_target: bool = False,
    ties: str = "pessimistic",
) -> Float[Tensor, ""]:
    """GAP = (1/M) sum_i P(i) rel(i) over the predictions of all queries, the most confident first; micro-AP.

    P(i) is the share of correct ones among the first i predictions, rel(i) whether the i-th is correct, M the number
    of queries that have a target. A query without target can only be predicted wrongly: a confident prediction for it
    costs precision. Google Landmarks' evaluation sorts stably. float64; NaN if no query has a target.

    Source: Perronnin, Liu and Renders, "A Family of Contextual Measures of Similarity between Distributions with
    Application to Image Retrieval", CVPR 2009; Weyand et al., "Google Landmarks Dataset v2", CVPR 2020.

    Args:
        confidence: of each query's one prediction; minus infinity for a query without prediction.
        correct: whether the prediction is right.
        has_target: whether there is anything to predict for the query; None if there is for all.
        ignore_without_target: leave out the queries without target instead of counting their predictions as wrong.
        ties: who goes first among equal confidences, a key of `PREDICTION_TIES`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, a NaN, a correct prediction without target.
    """
    _checks.one_of("ties", ties, PREDICTION_TIES)
    confidence = _checks.floating_vector("confidence", confidence)
    _checks.no_nan("confidence", confidence)
    has_target = torch.ones_like(confidence, dtype=torch.bool) if has_target is None else has_target
    correct = _checks.mask("correct", correct, len(confidence), confidence.device)
    has_target = _checks.mask("has_target", has_target, len(confidence), confidence.device)
    if num_impossible := int((correct & ~has_target).sum()):
        raise ValueError(f"`correct` must be False for a query without target; got {num_impossible} that are True.")
    if ignore_without_target:
        confidence, correct = confidence[has_target], correct[has_target]
    hits = correct[_most_confident_first(confidence, correct, PREDICTION_TIES[ties])].double()
    place = torch.arange(1, len(hits) + 1, device=hits.device)
    return (hits.cumsum(0) / place * hits).sum() / has_target.sum()


def _most_confident_first(confidence: Tensor, correct: Tensor, ties: TiePolicy) -> Tensor:
    if ties.by_place is None:
        turn = (correct != ties.positives_first).long()
    else:
        turn = ties.by_place(torch.arange(len(correct), device=correct.device))
    order = turn.argsort(stable=True)
    return order[confidence[order].argsort(descending=True, stable=True)]
