"""Recognition: one prediction for each query, evaluated over all queries together."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES

PREDICTION_TIES = {name: policy for name, policy in TIE_POLICIES.items() if not policy.groups}
"""policies of `TIE_POLICIES` that order predictions; a correct prediction is a positive, and queries are positions"""


def global_average_precision(
    confidence: Float[Tensor, " queries"] | _checks.Numbers,
    correct: Bool[Tensor, " queries"] | _checks.Integers,
    has_target: Bool[Tensor, " queries"] | _checks.Integers | None = None,
    *,
    ignore_without_target: bool = False,
    ties: _names.TieName = "pessimistic",
) -> Float[Tensor, ""]:
    """Return GAP = (1/M) sum_i P(i) rel(i) over the predictions of all queries by descending confidence; micro-AP.

    P(i) is the share of correct predictions among the first i, rel(i) is 1 if the i-th prediction is correct and 0
    otherwise, and M is the number of queries with a target. Every prediction for a query without target is wrong, so a
    confident one costs precision. The evaluation of Google Landmarks sorts stably. float64; NaN if no query has a
    target.

    Source: Perronnin, Liu and Renders, "A Family of Contextual Measures of Similarity between Distributions with
    Application to Image Retrieval", CVPR 2009; Weyand et al., "Google Landmarks Dataset v2", CVPR 2020.

    Args:
        confidence: confidence of the single prediction for each query; minus infinity for a query without prediction.
        correct: whether the prediction is correct.
        has_target: whether the query has a target; None if all queries have one.
        ignore_without_target: leave out the queries without target instead of counting their predictions as wrong.
        ties: the order of equal confidences, a key of `PREDICTION_TIES`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, a NaN, a correct prediction without target.
    """
    _checks.one_of("ties", ties, PREDICTION_TIES)
    confidence = _checks.floating_vector("confidence", confidence)
    _checks.no_nan("confidence", confidence)
    if has_target is None:
        has_target = torch.ones_like(confidence, dtype=torch.bool)
    correct = _checks.mask("correct", correct, len(confidence), confidence.device)
    has_target = _checks.mask("has_target", has_target, len(confidence), confidence.device)
    num_impossible = int((correct & ~has_target).sum())
    if num_impossible > 0:
        raise ValueError(f"`correct` must be False for a query without target; got {num_impossible} that are True.")
    if ignore_without_target:
        confidence = confidence[has_target]
        correct = correct[has_target]
    policy = PREDICTION_TIES[ties]
    position = torch.arange(1, len(correct) + 1, device=correct.device)
    if policy.by_place is None:
        priority = (correct != policy.positives_first).long()
    else:
        priority = policy.by_place(position)
    order = priority.argsort(stable=True)
    order = order[confidence[order].argsort(descending=True, stable=True)]
    is_hit = correct[order].double()
    precision = is_hit.cumsum(0) / position
    return (precision * is_hit).sum() / has_target.sum()
