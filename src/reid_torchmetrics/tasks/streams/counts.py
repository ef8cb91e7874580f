"""Sums over blocks of a gallery, on one machine or several; what they depend on, in one spelling; and a sample."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Int, Real, Shaped
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.displays import Displayed
from reid_torchmetrics.functional.retrieval.ranking import GalleryPart, Positives, Tiles, best_first, cells_of_positives
from reid_torchmetrics.functional.retrieval.relevance import (
    AGREEMENT_RULES,
    LABEL_OPTIONS,
    find_relevance,
    in_one_order,
)

Sum = TypeVar("Sum", bound="_Sum")
Nothing: TypeAlias = Literal[0]
"""the `sum` of no blocks"""


@dataclass(frozen=True, eq=False, repr=False)
class _Sum(Displayed):
    """Numbers for some blocks, on the CPU, small to send."""

    numbers: Shaped[np.ndarray, " numbers"]
    digest: str
    """a hash of everything besides the blocks that the numbers depend on"""
    keys: frozenset[int | str]
    """the keys of the blocks"""

    def __add__(self: Sum, other: Sum | Nothing) -> Sum:  # noqa: PYI019 - which the checks of tests cannot follow
        """Return the numbers for the blocks of both; 0 stands for no block, on either side.

        Raises:
            ValueError: a key that both have, or numbers by counters that differ.
        """
        if isinstance(other, int) and other == 0:
            return self
        if type(other) is not type(self):
            return NotImplemented
        _check_digest("other", other.digest, self.digest)
        common_keys = self.keys & other.keys
        if common_keys:
            key = min(common_keys, key=str)
            raise ValueError(f"`other` must have no key in common, as every block counts once; got {key!r} twice.")
        return replace(self, numbers=self.numbers + other.numbers, keys=self.keys | other.keys)

    def __radd__(self: Sum, zero: int) -> Sum:  # noqa: PYI019
        """Return the sum itself if it is added to 0, the start of `sum`."""
        return self if zero == 0 else NotImplemented

    @classmethod
    def added(cls, start: Real[Tensor, " numbers"], argument: str, value: object, digest: str) -> Tensor:
        """Add the numbers of `value`, which must have the same `digest`, to `start`; the value 0 adds nothing."""
        if isinstance(value, int) and value == 0:
            return start
        if not isinstance(value, cls):
            raise TypeError(f"`{argument}` must be {cls.__name__}, or 0 for no block; got {type(value).__name__}.")
        _check_digest(argument, value.digest, digest)
        return start + torch.as_tensor(value.numbers, device=start.device)


@final
class Counts(_Sum):
    """Numbers by `RankCounter.count` that move the ranks; `+` and `sum` add up blocks.

    `numbers` are int64: for each positive the negatives before it, under tie policies with groups also the negatives
    above it, then for each query its candidates. A pickle stores them in the smallest dtype. `keys` are the keys of the
    blocks.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Return all fields, the numbers in the smallest dtype."""
        dtype = np.min_scalar_type(self.numbers.max(initial=0))
        return vars(self) | {"numbers": self.numbers.astype(dtype)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take all fields."""
        vars(self).update(state, numbers=state["numbers"].astype(np.int64))


@final
class GalleryStatistics(_Sum):
    """Numbers by `RankCounter.statistics` that all scores depend on; `+` and `sum` add up blocks.

    `numbers` are float64: sums over the gallery for the similarity, and the number of blocks with scores in float64.
    """


def keys_of(key: int | str) -> frozenset[int | str]:
    """Return the keys of a block, one; raise unless it is an int or a string."""
    if isinstance(key, str):
        return frozenset([str(key)])
    if isinstance(key, (int, np.integer)):
        return frozenset([int(key)])
    raise TypeError(f"`key` must be an int or a string; got {type(key).__name__}.")


def digest_of(*values: object) -> str:
    """Return a hash that is the same in all processes: of the bits of tensors, and of the `repr` of other values."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, Tensor):
            digest.update(f"{value.dtype} {list(value.shape)}".encode())
            digest.update(value.reshape(-1).cpu().contiguous().view(torch.uint8).numpy().data)
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()[:32]


def _check_digest(argument: str, digest: str, expected: str) -> None:
    if digest != expected:
        raise ValueError(
            f"`{argument}` must be of a counter with the same queries, positives, options and statistics; got that of"
            " another one."
        )


def in_one_spelling(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked rules of `find_relevance` in a form that is equal for equal rules.

    Defaults are filled in, collections are sorted, and each label occurs once.
    """
    parameters = inspect.signature(find_relevance).parameters
    rules = {name: rules.get(name, parameters[name].default) for name in LABEL_OPTIONS}
    mapping = rules["camera_map"] or {}
    changed = {camera: mapping[camera] for camera in in_one_order(mapping) if camera != mapping[camera]}
    rules["camera_map"] = changed or None
    if rules["search_cameras"] is not None:
        rules["search_cameras"] = in_one_order(rules["search_cameras"])
    if rules["radius"] is not None:
        rules["radius"] = float(rules["radius"])
    for name in ("junk_identities", *AGREEMENT_RULES):
        rules[name] = in_one_order(rules[name])
    return rules


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The scores of all positives, query by query, the best first."""

    scores: Float[Tensor, " positives"]
    num_positives: Int[Tensor, " queries"]

    @cached_property
    def edges(self) -> list[int]:
        """Position of the first positive of each query, and at the end the number of all positives."""
        return segments.edges(self.num_positives).tolist()

    def select(self, rows: slice) -> tuple[Positives, Int[Tensor, " positives"], slice]:
        """Return the positives of some queries in padded rows, their cells, and their range among all positives."""
        num_positives = self.num_positives[rows]
        inside = slice(self.edges[rows.start], self.edges[rows.stop])
        width = max(1, int(num_positives.max()))
        cells = cells_of_positives(num_positives, width)
        padded = self.scores.new_full((len(num_positives), width), -torch.inf)
        padded.view(-1)[cells] = self.scores[inside]
        last = (num_positives - 1).clamp(min=0)
        lowest = padded.gather(1, last[:, None])[:, 0].where(num_positives > 0, torch.inf)
        places = torch.zeros_like(padded, dtype=torch.int64)
        return Positives(padded, places, lowest), cells, inside


def read_positives(part: GalleryPart) -> Thresholds:
    """Read the scores of the positives in a part of the gallery."""
    tiles = Tiles(part)
    num_positives = torch.zeros_like(part.relevance.run_length)
    thresholds = [torch.empty(0, dtype=part.scores.dtype, device=part.scores.device)]
    for rows in _progress.steps(tiles.rows, "Ranking", parts=tiles.num_fills):
        tile = part.relevance.tile(rows)
        num_positives[rows] = tile.num_positives
        if bool(tile.num_positives.any()):
            scores = tiles.read(rows, tile, ahead=True)
            best = best_first(scores, tile.columns, tile.positive, ties=part.ties).scores
            thresholds.append(best.view(-1)[cells_of_positives(tile.num_positives, best.shape[1])])
    return Thresholds(torch.cat(thresholds), num_positives)
