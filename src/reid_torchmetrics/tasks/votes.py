"""Classification by a vote of the k nearest items: kNN accuracy, from ranked lists of labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Real
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import LIST_METHODS, RankLists


def _weighted_votes(scores: Tensor, temperature: float) -> Tensor:
    best = scores.amax(1, keepdim=True)  # a common factor, which prevents overflow
    return ((scores - best) / temperature).exp()


VOTES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "weighted": _weighted_votes,
    "majority": lambda scores, _: torch.ones_like(scores),
}
"""The weight of each item in a list, from the scores of the list and the temperature."""


def knn_accuracy(
    labels: Real[Tensor, "queries k"] | _checks.Array | Sequence[Sequence[int]],
    scores: Float[Tensor, "queries k"] | _checks.Array | Sequence[Sequence[float]],
    query_labels: Real[Tensor, " queries"] | _checks.Integers,
    *,
    vote: _names.Vote = "weighted",
    temperature: float = 0.07,
    top_k: int = 1,
    only_full: bool = False,
) -> Float[Tensor, " queries"]:
    """Return 1 if a query's label is among the `top_k` labels with the most votes of its k nearest items, else 0.

    With `vote` "weighted" an item has exp(score / `temperature`) votes (DINO), with "majority" one (mMV@5). Among
    labels with equal votes the one with the nearest item goes first. A label without a vote is never right. The mean
    over queries is the accuracy. If the labels 1, 2, 2 have the scores 0.9, 0.8, 0.8, the weighted vote is for 1, the
    majority for 2.

    Source: Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", CVPR 2018; the code
    of DINO (Caron et al., ICCV 2021); Kalra et al., "Yottixel", Medical Image Analysis 2020.

    Args:
        labels: labels of the nearest items, the nearest first, such as `RankLists.identities`.
        scores: scores of these items, higher is closer; NaN where the list has ended, as in `RankLists.scores`.
        query_labels: labels of the queries.
        vote: "weighted" or "majority".
        temperature: temperature of the weighted vote, above 0.
        top_k: number of labels with the most votes that count as right.
        only_full: whether a query with fewer than k items counts as wrong (SISH).

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes that do not fit, an unknown vote, a temperature that is not above 0, or `top_k` below 1.
    """
    _checks.one_of("vote", vote, VOTES)
    _checks.positive_int("top_k", top_k)
    _checks.boolean("only_full", only_full)
    _checks.number("temperature", temperature)
    if not temperature > 0:
        raise ValueError(f"`temperature` must be above 0; got {temperature}.")
    scores = _checks.floating_matrix("scores", scores, "k").double()
    query_labels = _checks.whole_labels("query_labels", query_labels, len(scores), scores.device)
    labels = _checks.tensor("labels", labels, scores.device)
    labels = _checks.whole_labels("labels", labels.flatten(), device=scores.device).view(labels.shape)
    if labels.shape != scores.shape:
        raise ValueError(f"`labels` must have the shape of `scores`, {list(scores.shape)}; got {list(labels.shape)}.")
    can_vote = ~scores.isnan()
    weight = VOTES[vote](scores.masked_fill(~can_vote, -torch.inf), temperature)
    weight = weight.masked_fill(~can_vote, 0.0)
    is_right = _label_places(labels, weight, can_vote, query_labels) <= top_k
    if only_full:
        is_right &= can_vote.all(1)
    return is_right.double()


def _accuracy_of_lists(lists: RankLists, **options: Any) -> Float[Tensor, " queries"]:
    """See `RankLists.knn_accuracy`."""
    if lists.identities is None or lists.query_identities is None:
        raise ValueError("`identities` must have been given to the evaluation; got lists without them.")
    return knn_accuracy(lists.identities, lists.scores, lists.query_identities, **options)


def _label_places(labels: Tensor, weight: Tensor, can_vote: Tensor, query_labels: Tensor) -> Tensor:
    """Return the place of each query's label by votes, infinite if no item votes for it."""
    # Items of one label are a run of the sorted list, and the run begins with the nearest of them. For instance the
    # labels 5, 3, 5 have the runs (3) and (5, 5), with the first positions 1 and 0.
    ordered, order = labels.sort(dim=1, stable=True)
    is_start = torch.ones_like(can_vote)
    is_start[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = is_start.flatten().nonzero()[:, 0]
    lengths = start.diff(append=start.new_tensor([labels.numel()]))
    query = start // labels.shape[1]
    position = order.flatten()[start]
    votes = segments.reduce(weight.gather(1, order).flatten(), "sum", lengths)
    counts = can_vote.gather(1, order).flatten()[start]

    # The votes and the first position of the query's label.
    is_right = counts & (ordered.flatten()[start] == query_labels[query])
    right_votes, right_position = weight.new_full((2, len(labels)), torch.inf)
    right_votes[query[is_right]] = votes[is_right]
    right_position[query[is_right]] = position[is_right].double()

    # Labels with more votes than the query's label go before it, or with as many votes and a nearer item.
    has_more = votes > right_votes[query]
    is_nearer = (votes == right_votes[query]) & (position < right_position[query])
    is_before = counts & (has_more | is_nearer)
    num_before = query[is_before].bincount(minlength=len(labels))
    return (1.0 + num_before).masked_fill(right_votes.isinf(), torch.inf)


LIST_METHODS["knn_accuracy"] = _accuracy_of_lists
