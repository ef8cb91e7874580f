"""Verification of given pairs, and recognition: one prediction for each query, evaluated over all queries together.

Benchmarks of faces, speakers and kinship consist of a list of pairs. The protocol of LFW splits the list into folds,
and evaluates each fold at the threshold on the distance that is best for the other folds, chosen from a grid.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.world import results_made

from .all_pairs import CountsAtScores, Verification, count_pairs

PREDICTION_TIES = {name: policy for name, policy in TIE_POLICIES.items() if not policy.groups}
"""policies of `TIE_POLICIES` that order predictions; a correct prediction is a positive, and queries are positions"""
LARGEST_DISTANCE = 4.0
"""largest squared distance of two unit vectors, where the grid of thresholds ends"""


class FoldAccuracies(NamedTuple):
    """Share of correctly classified pairs in each fold."""

    accuracy: Float[Tensor, " folds"]
    thresholds: Float[Tensor, " folds"]
    """pairs with a smaller distance are classified as genuine"""


class ComparedPairs(NamedTuple):
    """The pairs that results were computed from."""

    scores: Float[Tensor, " pairs"]
    """higher is closer; minus the distances where these were given"""
    same: Bool[Tensor, " pairs"]
    given: Literal["scores", "distances", "embeddings"]
    """the argument of the user; scores of embeddings are cosines"""


@torch.no_grad()
def verify_pairs(
    scores: Float[Tensor, " pairs"] | _checks.Numbers | None,
    same: Bool[Tensor, " pairs"] | _checks.Integers,
    *,
    distances: Float[Tensor, " pairs"] | _checks.Numbers | None = None,
) -> Verification:
    """Count genuine and impostor pairs by their scores, where higher is closer.

    The counts are those of `verify` for one query that has all pairs.

    Args:
        scores: score of each pair.
        same: whether the two items of each pair have the same identity.
        distances: distance of each pair, where lower is closer, in the place of `scores`, which must then be None. The
            scores and thresholds of the result are minus the distances.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: lengths or devices that do not fit, a NaN, all pairs genuine or all impostors, or scores and
            distances, or neither.

    Example:
        >>> from reid_torchmetrics.tasks import verify_pairs
        >>> verification = verify_pairs([0.9, 0.8, 0.6, 0.4], [True, False, True, False])
        >>> verification.tar_at_far([0.0, 0.5]), verification.area_under_curve()
        (tensor([0.5000, 1.0000], dtype=torch.float64), tensor(0.7500, dtype=torch.float64))
    """
    if (scores is None) == (distances is None):
        got = "neither" if scores is None else "both"
        raise ValueError(f"`scores` or `distances` must be given, and the other be None; got {got}.")
    if distances is None:
        scores, same = _checked("scores", scores, same)
    else:
        distances, same = _checked("distances", distances, same)
        scores = -distances
    verification = count_given_pairs(scores, same)
    if not verification.is_defined:
        got = f"{verification.num_genuine} pairs of one identity and {verification.num_impostors} of two"
        raise ValueError(f"`same` must be True for some pairs and False for others; got {got}.")
    results_made(verification, ComparedPairs(scores, same, "scores" if distances is None else "distances"))
    return verification


def count_given_pairs(scores: Float[Tensor, " pairs"], same: Bool[Tensor, " pairs"]) -> Verification:
    """Return the counts of `verify_pairs`, also if all pairs are genuine or all are impostors."""
    genuine = scores[same].sort().values
    impostors = scores[~same].sort().values

    def count_impostors(thresholds: Tensor) -> tuple[Tensor, Tensor]:
        num_at = len(impostors) - torch.searchsorted(impostors, thresholds)
        num_above = len(impostors) - torch.searchsorted(impostors, thresholds, right=True)
        return num_at, num_above

    distinct = scores.unique().flip(0)
    num_genuine_at = len(genuine) - torch.searchsorted(genuine, distinct)
    counts = CountsAtScores(distinct, num_genuine_at, num_impostors_at=count_impostors(distinct)[0])
    return replace(count_pairs(genuine, len(impostors), count_impostors), all_scores=counts)


@torch.no_grad()
def accuracy_over_folds(
    distances: Float[Tensor, " pairs"] | _checks.Numbers,
    same: Bool[Tensor, " pairs"] | _checks.Integers,
    *,
    folds: int = 10,
    step: float = 0.01,
) -> FoldAccuracies:
    """Return the accuracy of each fold at the first threshold with the best accuracy in the other folds, as in LFW.

    Report the mean, `.accuracy.mean()`. Folds are runs of consecutive pairs, as in scikit-learn's `KFold`. Thresholds
    are 0, `step`, 2 `step`, ... below 4, for squared distances of unit vectors. A pair with the cosine c has the
    squared distance 2 - 2 c.

    Source: Huang et al., "Labeled Faces in the Wild", 2007; the grid is that of facenet and insightface.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: lengths or devices that do not fit, a NaN, fewer pairs than folds, or a `step` that is not above 0.
    """
    distances, same = _checked("distances", distances, same)
    accuracies = find_accuracies(distances, same, folds, step)
    results_made(accuracies, ComparedPairs(-distances, same, "distances"))
    return accuracies


def find_accuracies(
    distances: Float[Tensor, " pairs"], same: Bool[Tensor, " pairs"], folds: int = 10, step: float = 0.01
) -> FoldAccuracies:
    """Return the accuracies of `accuracy_over_folds`, given tensors that fit each other."""
    _checks.positive_int("folds", folds, least=2)
    _checks.nonnegative("step", step)
    if step == 0:
        raise ValueError(f"`step` must be above 0; got {step}.")
    if len(distances) < folds:
        raise ValueError(f"`distances` must have a pair for each of {folds} folds; got {len(distances)}.")
    # The same numbers as NumPy's `arange`.
    num_thresholds = math.ceil(LARGEST_DISTANCE / step)
    grid = torch.arange(num_thresholds, dtype=torch.float64, device=distances.device) * step
    # Numbers of correctly classified pairs in each fold, and in all other folds, [folds, thresholds].
    sizes, num_correct_of_folds = [], []
    for fold in torch.arange(len(distances), device=distances.device).tensor_split(folds):
        fold_distances, is_genuine = distances[fold].double(), same[fold]
        num_genuine_below = torch.searchsorted(fold_distances[is_genuine].sort().values, grid)
        num_impostors_below = torch.searchsorted(fold_distances[~is_genuine].sort().values, grid)
        num_correct_of_folds.append(num_genuine_below + (~is_genuine).sum() - num_impostors_below)
        sizes.append(len(fold))
    num_correct = torch.stack(num_correct_of_folds)
    num_correct_in_others = num_correct.sum(0) - num_correct
    is_best = num_correct_in_others == num_correct_in_others.amax(1, keepdim=True)
    first_best = is_best.byte().cummax(1).values.logical_not().sum(1)
    num_pairs = torch.tensor(sizes, dtype=torch.float64, device=distances.device)
    accuracy = num_correct.gather(1, first_best[:, None])[:, 0] / num_pairs
    return FoldAccuracies(accuracy, grid[first_best])


def _checked(argument: str, values: object, same: object) -> tuple[Tensor, Tensor]:
    """Return scores or distances and the flags of their pairs as tensors; raise unless they fit each other."""
    if isinstance(values, (list, tuple)):
        values = np.asarray(values)  # floats of Python are float64; different scores might tie in float32
    values = _checks.floating_vector(argument, values)
    values = values.to(torch.promote_types(values.dtype, torch.float32))
    _checks.no_nan(argument, values)
    return values, _checks.mask("same", same, len(values), values.device)


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
    is_hit = correct[order]
    precision = is_hit.cumsum(0).double() / position  # integers, whose sums are exact in any order
    return (precision * is_hit).sum() / has_target.sum()
