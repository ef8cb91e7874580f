"""What galleries are drawn from: the items of an identity, or of an identity seen by a camera.

What is known of the strata ahead of positives, sparsely: most have none ahead for a good model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import count_true
from reid_torchmetrics.functional.retrieval.relevance import Relevance

DRAWN_PER = {
    "identity": "the items of an identity are one stratum (CUHK03, VehicleID)",
    "identity_and_camera": "the items of an identity and a camera are one stratum (SYSU-MM01)",
}


@dataclass(frozen=True)
class GalleryDraw:
    """How a gallery is drawn: `shots` items of every stratum, uniformly, without replacement, independently.

    A stratum of fewer items gives all of them. `shots` None draws everything: nothing is random then.

    Raises:
        TypeError: `shots` is neither an int nor None.
        ValueError: `shots` is below 1, or an unknown `per`.
    """

    shots: int | None = 1
    per: str = "identity"
    """a name in `DRAWN_PER`"""

    def __post_init__(self) -> None:
        if self.shots is not None:
            _checks.positive_int("shots", self.shots)
        _checks.one_of("per", self.per, DRAWN_PER)

    def num_drawn(self, available: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Items that are drawn of strata with `available` items."""
        return available if self.shots is None else available.clamp(max=self.shots)


class Layers(NamedTuple):
    """Items layer by layer: the first of every stratum, the second of those that have one, and so on."""

    item: Int[Tensor, " kept"]
    """strata of a layer by size, the largest first"""
    num_strata: list[int]
    """of each layer"""
    stratum: Int[Tensor, " strata"]
    """in this order, of which every layer has the first few"""


@dataclass(frozen=True)
class Strata:
    """The strata of the kept gallery, numbered by identity and then by camera."""

    of_item: Int[Tensor, " kept"]
    """the stratum of every item"""
    identity: Int[Tensor, " strata"]
    """the number of every stratum's identity, counted from 0"""
    num_items: Int[Tensor, " strata"]

    @property
    def number(self) -> int:
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
    if relevance.gallery_identities is None:
        raise ValueError("`relevance` must come from identities, of which galleries are drawn; got lists of positives.")
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


_CELLS = 1 << 20  # positives times cases, of which the counts are made at a time


class StrataAhead(NamedTuple):
    """For some positives of a tile, the strata with a negative ahead: entries grouped by positive."""

    query: Int[Tensor, " positives"]
    """row in the tile"""
    ordinal: Int[Tensor, " positives"]
    """place in `SortedPositives`"""
    num_strata: Int[Tensor, " positives"]
    """how many entries each positive has"""
    stratum: Int[Tensor, " entries"]
    """those of one identity are consecutive within a positive"""
    case: Int[Tensor, " entries"]
    """place in `Cases`"""

    def in_cases(self, num_cases: int) -> Iterator[CaseCounts]:
        """How often each case occurs, for some positives at a time."""
        stop = self.num_strata.cumsum(0)
        for part in segments.ranges(len(stop), max(1, _CELLS // num_cases)):
            entries = slice(int(stop[part.start - 1]) if part.start else 0, int(stop[part.stop - 1]))
            lengths = self.num_strata[part]
            row = segments.numbers(lengths, entries.stop - entries.start)
            key = row.mul_(num_cases).add_(self.case[entries])
            number = torch.bincount(key, minlength=len(lengths) * num_cases).view(len(lengths), num_cases)
            yield CaseCounts(self.query[part], self.ordinal[part], number)


class CaseCounts(NamedTuple):
    """How often each case occurs among the strata ahead of some positives."""

    query: Int[Tensor, " positives"]
    ordinal: Int[Tensor, " positives"]
    number: Int[Tensor, "positives cases"]
    """any number for a case of which nothing is ahead"""


class Ahead(NamedTuple):
    """What is ahead of some positives."""

    strata: StrataAhead
    """of those that may matter to a CMC"""
    cases: Iterable[CaseCounts]
    """of all of them, part by part"""


class Cases(NamedTuple):
    """All that can be said of a stratum and a positive: of so many candidates, so many are ahead."""

    available: Int[Tensor, " cases"]
    ahead: Int[Tensor, " cases"]
    """0 up to all that are available"""


def number_cases(available: Int[Tensor, "rows strata"]) -> tuple[Cases, Int[Tensor, "rows strata"]]:
    """Number the cases: for each size of a stratum one for 0, 1, ... all items ahead; and the first of each stratum."""
    sizes, size = available.unique(return_inverse=True)
    of_case, ahead = segments.runs(0, sizes + 1)
    return Cases(sizes[of_case], ahead), segments.starts(sizes + 1)[size]


def cells_of_true(mask: Bool[Tensor, "rows columns"]) -> tuple[Int[Tensor, " cells"], Int[Tensor, " cells"]]:
    """Rows and columns where a mask is true."""
    places = places_of_true(mask)
    row = segments.numbers(count_true(mask), len(places))
    return row, places.sub_(row, alpha=mask.shape[1])


def places_of_true(mask: Bool[Tensor, "*shape"]) -> Int[Tensor, " places"]:
    """Where a mask is true, as places in the flat mask; NumPy finds them several times as fast."""
    if mask.device.type != "cpu":
        return mask.view(-1).nonzero()[:, 0]
    return torch.from_numpy(np.flatnonzero(mask.numpy()))
