"""What galleries are drawn from: strata, the items of an identity, or of an identity seen by a camera."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.relevance import Relevance


@dataclass(frozen=True)
class GalleryDraw:
    """How a gallery is drawn: `shots` items of every stratum, uniformly, without replacement, independently.

    A stratum of fewer items gives all of them. `shots` None draws everything: nothing is random then.

    Raises:
        TypeError: `shots` is neither an int nor None.
        ValueError: `shots` is below 1, or an unknown `per`.
    """

    shots: int | None = 1
    per: _names.DrawnPer = "identity"
    """what a stratum is of: an "identity" (CUHK03, VehicleID), or an "identity_and_camera" (SYSU-MM01)"""

    def __post_init__(self) -> None:
        _checks.cutoff("shots", self.shots)
        _checks.one_of("per", self.per, _names.DrawnPer)

    def num_drawn(self, available: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Items that are drawn of strata with `available` items."""
        return available if self.shots is None else available.clamp(max=self.shots)


class Layers(NamedTuple):
    """Items layer by layer: the first of every stratum, then the second of every stratum that has one, and so on."""

    item: Int[Tensor, " kept"]
    """strata of a layer by size, the largest first"""
    num_strata: list[int]
    """of each layer"""
    stratum: Int[Tensor, " strata"]
    """strata in this order; every layer has the first few of them"""


@dataclass(frozen=True)
class Strata:
    """The strata of the kept gallery, numbered by identity and then by camera."""

    of_item: Int[Tensor, " kept"]
    """the stratum of every item"""
    identity: Int[Tensor, " strata"]
    """the number of every stratum's identity, counted from 0"""
    num_items: Int[Tensor, " strata"]

    def __len__(self) -> int:
        """Number of strata."""
        return len(self.identity)

    @property
    def one_per_identity(self) -> bool:
        """Whether a stratum holds all items of its identity."""
        return len(self.identity) == 0 or int(self.identity[-1]) + 1 == len(self.identity)

    @cached_property
    def layers(self) -> Layers:
        """The items in layers."""
        num_items, stratum = self.num_items.sort(descending=True, stable=True)
        by_stratum = stratum.argsort()[self.of_item].argsort(stable=True)
        layer = segments.runs(0, num_items)[1]
        return Layers(by_stratum[layer.argsort(stable=True)], layer.bincount().tolist(), stratum)


def find_strata(relevance: Relevance, per: str) -> Strata:
    """Number the strata of the gallery items that `relevance` keeps.

    Raises:
        ValueError: `relevance` does not know the identities, or the cameras that `per` asks for.
    """
    if relevance.shared is not None:
        raise ValueError(
            "`draw` must come with one identity for each sample, to draw galleries of identities; got a matrix of"
            " labels."
        )
    if relevance.gallery_identities is None:
        raise ValueError("`relevance` must come from identities, to draw galleries of them; got lists of positives.")
    identity = relevance.gallery_identities.unique(return_inverse=True)[1]
    key, num_cameras = identity, 1
    if per == "identity_and_camera":
        if relevance.gallery_cameras is None:
            raise ValueError("`relevance` must know cameras where `per` is 'identity_and_camera'; got none.")
        cameras, camera = relevance.gallery_cameras.unique(return_inverse=True)
        num_cameras = max(1, len(cameras))
        key = identity * num_cameras + camera
    keys, of_item, num_items = key.unique(return_inverse=True, return_counts=True)
    return Strata(of_item, torch.div(keys, num_cameras, rounding_mode="floor"), num_items)
