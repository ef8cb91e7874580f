"""Verification of given pairs, one score each: the benchmarks of faces, speakers and kinship.

Recognition has one prediction for each query, judged over all queries together.

The protocol of LFW cuts the pairs into folds, in their order, and judges each fold by a threshold on the distance that
the other folds choose from a grid.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES

from .verify import Verification, count_genuine

PREDICTION_TIES = {name: policy for name, policy in TIE_POLICIES.items() if not policy.groups}
"""the policies of `TIE_POLICIES` that order predictions: a correct one is a positive, and its query is its place"""
_LARGEST = 4.0  # squared distance of two unit vectors, where the grid of thresholds ends


class FoldAccuracies(NamedTuple):
    """The share of each fold's pairs that are judged rightly."""

    accuracy: Float[Tensor, " folds"]
    thresholds: Float[Tensor, " folds"]
    """pairs with a distance below it are taken for pairs of one identity"""


@torch.no_grad()
def verify_pairs(
    scores: Float[Tensor, " pairs"] | _checks.Numbers, same: Bool[Tensor, " pairs"] | _checks.Integers
) -> Verification:
    """Count genuine and impostor pairs by their scores, higher is closer; distances enter as `-distances`.

    Args:
        scores: of each pair.
        same: whether the two of a pair are of one identity.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: lengths or devices that do not fit, a NaN, or no pair of one of the two kinds.

    Example:
        >>> from reid_torchmetrics.functional.retrieval import verify_pairs
        >>> found = verify_pairs([0.9, 0.8, 0.6, 0.4], [True, False, True, False])
        >>> found.tar_at_far([0.0, 0.5]), found.area_under_curve()
        (tensor([0.5000, 1.0000], dtype=torch.float64), tensor(0.7500, dtype=torch.float64))
    """
    scores, same = _checked("scores", scores, same)
    genuine, impostors = (scores[mask].sort().values for mask in (same, ~same))
    if not len(genuine) or not len(impostors):
        came = f"{len(genuine)} pairs of one identity and {len(impostors)} of two"
        raise ValueError(f"`same` must be True for some pairs and False for others; got {came}.")
    thresholds, num_genuine_at = count_genuine(genuine)
    at, above = (len(impostors) - torch.searchsorted(impostors, thresholds, right=right) for right in (False, True))
    return Verification(thresholds, num_genuine_at, at, above, len(genuine), len(impostors))


@torch.no_grad()
def accuracy_over_folds(
    distances: Float[Tensor, " pairs"] | _checks.Numbers,
    same: Bool[Tensor, " pairs"] | _checks.Integers,
    *,
    folds: int = 10,
    step: float = 0.01,
) -> FoldAccuracies:
    """Accuracy of each fold, at the first threshold with the most right judgments in the other folds; LFW's protocol.

    The reported number is the mean, `.accuracy.mean()`. Folds are runs of pairs in the order given, as of
    scikit-learn's `KFold`; thresholds are 0, `step`, ... below 4, made for squared distances of unit vectors, and a
    pair of cosine c has the squared distance 2 - 2 c.

    Source: Huang et al., "Labeled Faces in the Wild", 2007; the grid is that of facenet and insightface.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: lengths or devices that do not fit, a NaN, fewer pairs than folds, or a `step` that is not above 0.
    """
    distances, same = _checked("distances", distances, same)
    _checks.positive_int("folds", folds, least=2)
    _checks.nonnegative("step", step)
    if step == 0:
        raise ValueError(f"`step` must be above 0; got {step}.")
    if len(distances) < folds:
        raise ValueError(f"`distances` must have a pair for each of {folds} folds; got {len(distances)}.")
    # As NumPy's `arange`, number by number.
    grid = torch.arange(math.ceil(_LARGEST / step), dtype=torch.float64, device=distances.device) * step
    parts = [*zip(distances.double().tensor_split(folds), same.tensor_split(folds), strict=True)]
    # For each fold, [folds, thresholds]: pairs that are judged rightly in it, and in all others.
    right = torch.stack([_num_right(part, mask, grid) for part, mask in parts])
    in_others = right.sum(0) - right
    first = (in_others == in_others.amax(1, keepdim=True)).byte().cummax(1).values.logical_not().sum(1)
    sizes = torch.tensor([len(part) for part, _ in parts], device=distances.device)
    return FoldAccuracies(right.gather(1, first[:, None])[:, 0] / sizes.double(), grid[first])


def _checked(argument: str, values: object, same: object) -> tuple[Tensor, Tensor]:
    # Python's floats are float64: in float32 different scores might tie.
    values = _checks.floating_vector(argument, np.asarray(values) if isinstance(values, (list, tuple)) else values)
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    _checks.no_nan(argument, values)
    return values, _checks.mask("same", same, len(values), values.device)


def _num_right(distances: Tensor, same: Tensor, thresholds: Tensor) -> Int[Tensor, " thresholds"]:
    """Pairs of one identity below each threshold, and pairs of two at or above it."""
    below, far_below = (torch.searchsorted(distances[mask].sort().values, thresholds) for mask in (same, ~same))
    return below + (~same).sum() - far_below


def global_average_precision(
    confidence: Float[Tensor, " queries"] | _checks.Numbers,
    correct: Bool[Tensor, " queries"] | _checks.Integers,
    has_target: Bool[Tensor, " queries"] | _checks.Integers | None = None,
    *,
    ignore_without_target: bool = False,
    ties: _names.TieName = "pessimistic",
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
    policy, place = PREDICTION_TIES[ties], torch.arange(1, len(correct) + 1, device=correct.device)
    turn = (correct != policy.positives_first).long() if policy.by_place is None else policy.by_place(place)
    order = turn.argsort(stable=True)
    hits = correct[order[confidence[order].argsort(descending=True, stable=True)]].double()
    return (hits.cumsum(0) / place * hits).sum() / has_target.sum()
