"""Pairs that are gone through in an order: each is taken if both of its ends are free."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def take_in_order(
    detection: Int[Tensor, " pairs"],
    ground_truth: Int[Tensor, " pairs"],
    *,
    num_detections: int,
    is_shared: Bool[Tensor, " ground_truths"],
) -> Int[Tensor, " detections"]:
    """The ground truth that each detection takes, -1 for none; the pairs are in the order in which they are looked at.

    A pair that comes before all others of both its ends is taken whatever becomes of the others. So in each round all
    such pairs are taken at once, and those that share an end with one are dropped; there are fewer rounds than the
    largest number of matches in an image.

    Args:
        detection: of each pair.
        ground_truth: of each pair.
        num_detections: how many there are.
        is_shared: ground truths that any number of detections may take.
    """
    taken = detection.new_full((num_detections,), -1)
    is_gone = torch.zeros_like(is_shared)
    first = detection.new_full((num_detections,), len(detection))
    first_true = ground_truth.new_full((len(is_shared),), len(detection))
    left = torch.arange(len(detection), device=detection.device)
    while len(left):
        found, true = detection.index_select(0, left), ground_truth.index_select(0, left)
        is_first = _first(first, found, left) == left
        is_taken = is_first & ((_first(first_true, true, left) == left) | is_shared.index_select(0, true))
        places = is_taken.nonzero()[:, 0]
        taken[found.index_select(0, places)] = true.index_select(0, places)
        is_gone[true.index_select(0, places)] = True
        is_open = ~is_gone.index_select(0, true) | is_shared.index_select(0, true)
        left = left[(taken.index_select(0, found) < 0) & is_open]
    return taken


def _first(least: Tensor, ends: Tensor, places: Tensor) -> Tensor:
    """The first of the places with the same end as each; `least` is room for one number of each end."""
    least.index_fill_(0, ends, torch.iinfo(least.dtype).max)
    return least.scatter_reduce_(0, ends, places, "amin").index_select(0, ends)
