"""Thresholds of a group between which no overlap lies: they have one outcome, so that one of them is looked at."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor


class Levels(NamedTuple):
    """The thresholds of each group (an image and class) by levels, where each pair passes all of a level or none.

    With overlaps of 0.57, 0.72 and 0.74 the thresholds 0.5 and 0.55 are level 0, which all of them pass, those from 0.6
    to 0.7 are level 1, which two pass, and all others level 2.
    """

    passed: Int[Tensor, " pairs"]
    """number of levels that a pair passes"""
    starts: Int[Tensor, "groups levels"]
    """first threshold of each level, and the number of all thresholds behind the last"""


def find_levels(
    passed: Int[Tensor, " pairs"], group: Int[Tensor, " pairs"], num_groups: int, num_thresholds: int
) -> Levels:
    """The levels of groups, given how many thresholds each of their pairs passes."""
    key = group * (num_thresholds + 1) + passed
    begins = torch.zeros((num_groups, num_thresholds + 1), dtype=torch.bool, device=key.device)
    begins.view(-1)[key] = True
    number = begins.cumsum(1)  # a pair passes a threshold if it passes more thresholds, so a later level begins there
    starts = number.new_full((num_groups, num_thresholds + 2), num_thresholds)
    places = torch.arange(num_thresholds + 1, device=key.device).expand_as(number)
    starts.scatter_reduce_(1, number, places, "amin")
    return Levels(number.view(-1).index_select(0, key), starts)
