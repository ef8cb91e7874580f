"""Strata: the groups that a gallery is drawn from, one for each identity, or for each identity and camera."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import Relevance


class Layers(NamedTuple):
    """Items layer by layer: the first of every stratum, then the second of every stratum that has one, and so on.

    Strata are sorted by size, the largest first, so that the strata of a layer are the first few of the layer before.
    """

    item: Int[Tensor, " kept"]
    """items, layer by layer"""
    num_strata: list[int]
    """number of strata, and of items, in each layer"""
    stratum: Int[Tensor, " strata"]
    """strata by size, the largest first"""


@dataclass(frozen=True)
class Strata:
    """The strata of the kept gallery, numbered by identity and then by camera."""

    item_stratum: Int[Tensor, " kept"]
    """the stratum of each item"""
    identity: Int[Tensor, " strata"]
    """the identity of each stratum, numbered from 0"""
    num_items: Int[Tensor, " strata"]

    def __len__(self) -> int:
        """Return the number of strata."""
        return len(self.identity)

    @property
    def one_per_identity(self) -> bool:
        """Return whether each stratum holds all items of its identity."""
        if len(self.identity) == 0:
            return True
        num_identities = int(self.identity[-1]) + 1
        return num_identities == len(self.identity)

    @cached_property
    def layers(self) -> Layers:
        """Arrange the items in layers."""
        num_items, stratum = self.num_items.sort(descending=True, stable=True)
        size_rank = stratum.argsort()  # of each stratum
        items_by_size = size_rank[self.item_stratum].argsort(stable=True)
        _, layer = segments.runs(0, num_items)
        return Layers(
            item=items_by_size[layer.argsort(stable=True)],
            num_strata=layer.bincount().tolist(),
            stratum=stratum,
        )


def find_strata(relevance: Relevance, per: str) -> Strata:
    """Number the strata of the gallery items that `relevance` keeps.

    Raises:
        ValueError: `relevance` has no identities, or no cameras although `per` needs them.
    """
    if relevance.shared is not None:
        raise ValueError(
            "`gallery_draw` must come with one identity for each sample, to draw galleries of identities; got a matrix"
            " of labels."
        )
    if relevance.gallery_identities is None:
        raise ValueError("`relevance` must come from identities, to draw galleries of them; got lists of positives.")
    _, identity = relevance.gallery_identities.unique(return_inverse=True)
    key = identity
    num_cameras = 1
    if per == "identity_and_camera":
        if relevance.gallery_cameras is None:
            raise ValueError("`relevance` must know cameras where `per` is 'identity_and_camera'; got none.")
        cameras, camera = relevance.gallery_cameras.unique(return_inverse=True)
        num_cameras = max(1, len(cameras))
        key = identity * num_cameras + camera
    keys, stratum, num_items = key.unique(return_inverse=True, return_counts=True)
    identity_of_stratum = torch.div(keys, num_cameras, rounding_mode="floor")
    return Strata(stratum, identity_of_stratum, num_items)
