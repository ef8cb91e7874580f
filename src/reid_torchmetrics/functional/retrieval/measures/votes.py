"""Labels by the vote of the k nearest items: kNN accuracy, from ranked lists of labels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Real
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments

VOTES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "weighted": lambda scores, temperature: ((scores - scores.amax(1, keepdim=True)) / temperature).exp(),
    "majority": lambda scores, _: torch.ones_like(scores),
}
"""The weight of each listed item, from the scores of its list and the temperature."""


def knn_accuracy(
    labels: Real[Tensor, "queries k"],
    scores: Float[Tensor, "queries k"],
    query_labels: Real[Tensor, " queries"] | _checks.Integers,
    *,
    vote: _names.Vote = "weighted",
    temperature: float = 0.07,
    top_k: int = 1,
    only_full: bool = False,
) -> Float[Tensor, " queries"]:
    """1 if the query's label is among the `top_k` labels with the most votes of its k nearest items, else 0.

    Under the `vote` "weighted" an item has exp(score / `temperature`) votes (DINO), under "majority" one (mMV@5). Of
    labels with equal votes the one with the nearest item goes first. A label without a vote is never right. The mean
    over queries is the accuracy. With scores 0.9, 0.8, 0.8 of the labels 1, 2, 2 the weighted vote is for 1, the
    majority for 2.

    Source: Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", CVPR 2018; the code
    of DINO (Caron et al., ICCV 2021); Kalra et al., "Yottixel", Medical Image Analysis 2020.

    Args:
        labels: of the listed items, the nearest first; `RankLists.identities` is one.
        scores: of the listed items, higher is closer; NaN where the list has ended, as in `RankLists.scores`.
        query_labels: of the queries.
        vote: "weighted" or "majority".
        temperature: of the weighted vote, above 0.
        top_k: number of labels that are looked at.
        only_full: whether a query with fewer than k items is wrong (SISH).

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
    labels = _checks.whole_labels("labels", labels.flatten(), device=scores.device).view(labels.shape)
    if labels.shape != scores.shape:
        raise ValueError(f"`labels` must have the shape of `scores`, {list(scores.shape)}; got {list(labels.shape)}.")
    listed = ~scores.isnan()
    weight = VOTES[vote](scores.masked_fill(~listed, -torch.inf), temperature).masked_fill(~listed, 0.0)
    is_right = _places(labels, weight, listed, query_labels) <= top_k
    return (is_right & (listed.all(1) | (not only_full))).double()


def _places(labels: Tensor, weight: Tensor, listed: Tensor, query_labels: Tensor) -> Tensor:
    """The place of each query's label by votes, infinite where nothing votes for it."""
    # Items of one label are a run of the sorted list, which begins with the nearest of them. For instance the labels
    # 5, 3, 5 have the runs (3) and (5, 5), of the first positions 1 and 0.
    ordered, order = labels.sort(dim=1, stable=True)
    is_start = torch.ones_like(listed)
    is_start[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    start = is_start.flatten().nonzero()[:, 0]
    lengths = start.diff(append=start.new_tensor([labels.numel()]))
    votes = segments.reduce(weight.gather(1, order).flatten(), "sum", lengths)
    query, first = start // labels.shape[1], order.flatten()[start]
    # Runs with more votes than that of the query's label go before it, or with as many and a nearer item.
    counts = listed.gather(1, order).flatten()[start]
    own = counts & (ordered.flatten()[start] == query_labels[query])
    own_votes, own_first = weight.new_full((2, len(labels)), torch.inf)
    own_votes[query[own]], own_first[query[own]] = votes[own], first[own].double()
    is_more = votes > own_votes[query]
    ahead = counts & (is_more | ((votes == own_votes[query]) & (first < own_first[query])))
    num_ahead = query[ahead].bincount(minlength=len(labels))
    return (1.0 + num_ahead).masked_fill(own_votes.isinf(), torch.inf)
