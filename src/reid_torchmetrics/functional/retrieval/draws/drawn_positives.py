"""The chances of a query's positives in a gallery that is drawn: to be drawn, to come first, to come last."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.draws.hypergeometric import Hypergeometric
from reid_torchmetrics.functional.retrieval.draws.strata import GalleryDraw


class DrawnPositives(NamedTuple):
    """The positives of some queries, best first, and their chances; 0 at padding."""

    drawn: Float[Tensor, "queries padded"]
    """chance to be drawn"""
    best: Float[Tensor, "queries padded"]
    """chance to be drawn and come before all other positives that are drawn"""
    last: Float[Tensor, "queries padded"]
    """chance to be drawn and come after them"""
    num_drawn: Int[Tensor, " queries"]
    """positives that are drawn: a fixed number"""
    others: tuple[Tensor, Tensor, Tensor]
    """other positives of each stratum of the identity, [queries, padded, strata]: all, those ahead of this one, and how
    many of them are drawn if this one is"""


def find_chances(
    stratum: Int[Tensor, "queries padded"], valid: Bool[Tensor, "queries padded"], draw: GalleryDraw
) -> DrawnPositives:
    """Chances of positives that are sorted, best first; `stratum` numbers them within their identity, from 0.

    If m of n items of a stratum are drawn and a positive is one of them, the others are m - 1 of n - 1. Strata are
    drawn independently, so chances multiply.
    """
    num_strata = int(stratum.where(valid, 0).max()) + 1 if stratum.numel() else 1
    own = (stratum[..., None] == torch.arange(num_strata, device=stratum.device)) & valid[..., None]
    own = own.long()  # [queries, padded, strata]: 1 in the stratum of the positive
    available = own.sum(1, keepdim=True)
    num_drawn = draw.num_drawn(available)
    ahead = own.cumsum(1) - own
    others, others_drawn = available - own, num_drawn - own
    drawn = (own * num_drawn / available.clamp(min=1).double()).sum(-1)
    best, last = (
        drawn * Hypergeometric(others, marked, others_drawn).none().prod(-1) for marked in (ahead, others - ahead)
    )
    return DrawnPositives(drawn, best, last, num_drawn.sum((1, 2)), (others, ahead, others_drawn))


def ordinal_density(others_ahead: Hypergeometric, log_x: Float[Tensor, " nodes"]) -> Float[Tensor, "positives nodes"]:
    """The derivative of x E[x^A], where A is the number of drawn positives ahead of a drawn one.

    Its integral over [0, 1] against E[x^B] is E[(1 + A) / (1 + A + B)]. The laws are [positives, strata].
    """
    values, slopes = others_ahead.at(log_x)
    value, slope = values[:, 0], slopes[:, 0]
    for own_value, own_slope in zip(values.unbind(1)[1:], slopes.unbind(1)[1:], strict=True):
        value, slope = value * own_value, slope * own_value + value * own_slope
    return value + slope
