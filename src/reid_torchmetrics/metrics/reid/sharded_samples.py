"""Samples that are sharded over processes: what all hold together, which of them count, and the queries of all."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from reid_torchmetrics.metrics.base import Group, differing
from reid_torchmetrics.metrics.reid.samples import Samples

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOST_RANKINGS = 8  # rankings that a rank can offer for the samples at hand


@dataclass(frozen=True)
class Held:
    """What the ranks hold together."""

    dimension: int
    dtype: torch.dtype
    has_cameras: bool
    has_index: bool
    ranking: int
    """the number of a ranking of these samples that every rank remembers, or 0"""
    next_number: int
    """a number for a new ranking"""

    def complete(self, samples: Samples) -> Samples:
        """The samples of a rank, which may have none, with all that those of the other ranks have."""
        if len(samples):
            return samples
        none = torch.empty(0, dtype=torch.int64, device=samples.device)
        nothing = torch.empty((0, self.dimension), dtype=self.dtype, device=samples.device)
        return replace(
            samples,
            embeddings=samples.embeddings or [nothing],
            cameras=none if self.has_cameras else None,
            index=none if self.has_index else None,
        )


NUM_STATUS = 6 + MOST_RANKINGS


def status(samples: Samples, rankings: Sequence[int]) -> list[int]:
    """What a rank tells the others of its samples, and of the rankings that it remembers."""
    return [
        len(samples),
        random.SystemRandom().getrandbits(62) | 1,  # not torch's generator, whose state is the user's
        samples.embeddings[0].shape[1] if samples.embeddings else 0,
        DTYPES.index(promoted(block.dtype for block in samples.embeddings)),
        int(samples.cameras is not None),
        int(samples.index is not None),
        *rankings,  # the newest first
        *[0] * (MOST_RANKINGS - len(rankings)),
    ]


def held_together(table: list[list[int]]) -> Held:
    """Compare the `status` of all ranks; every rank comes to the same conclusion.

    Raises:
        DistributedMetricError: dimension or what is given differ between ranks.
    """
    shaped = [row for row in table if row[2]] or table
    if len({row[2] for row in shaped}) > 1:
        raise differing("embedding dimension", [row[2] or "no samples" for row in table])
    filled = [row for row in table if row[0]] or table
    for column, argument in ((4, "cameras"), (5, "index")):
        if len({row[column] for row in filled}) > 1:
            raise differing(f"use of `{argument}`", [_use(row, column) for row in table])
    common = set.intersection(*({number for number in row[6:] if number} for row in table))
    return Held(
        dimension=shaped[0][2] or 1,
        dtype=promoted(DTYPES[row[3]] for row in shaped),
        has_cameras=bool(filled[0][4]),
        has_index=bool(filled[0][5]),
        ranking=next((number for number in table[0][6:] if number in common), 0),
        next_number=table[0][1],
    )


def _use(row: list[int], column: int) -> str:
    return "no samples" if not row[0] else "given" if row[column] else "not given"


def first_of_each(group: Group, numbers: Tensor) -> Tensor:
    """Which of this rank's sample numbers no lower rank has, bool; each rank's own are distinct.

    The numbers of one rank at a time are sent, so that no rank holds those of all.
    """

    def prepare() -> tuple[tuple[Tensor, Tensor], list[int]]:
        own = numbers.to(group.device)
        return (own, torch.ones_like(own, dtype=torch.bool)), [len(own)]

    def compare_and_receive(lower: Tensor, size: int) -> Tensor:
        """Strike out what a lower rank has, and make place for the numbers of the next."""
        is_first.logical_and_(~torch.isin(own, lower))
        return own.new_empty(size)

    (own, is_first), sizes = group.exchange(prepare, 1)
    lower = own[:0]
    for source in range(group.size - 1):  # the last has none above it
        part = group.together(functools.partial(compare_and_receive, lower, sizes[source][0]))
        group.broadcast(own if source == group.rank else part, source)
        lower = part if source < group.rank else own[:0]
    compare_and_receive(lower, 0)
    return is_first.to(numbers.device)


@dataclass(frozen=True)
class Shared:
    """Some samples of all ranks, in the order of the ranks."""

    embeddings: Tensor
    labels: Tensor
    """identity, camera, index, role: int64 [samples, 4]"""
    own: slice
    """those of this rank"""
    positions: Tensor
    """the same among this rank's samples"""


def share(group: Group, samples: Samples, positions: Tensor, sizes: list[int], held: Held) -> Shared:
    """Send the samples at some positions to all ranks; `sizes` says how many each rank sends."""
    first = sum(sizes[: group.rank])

    def prepare() -> Shared:
        shared = Shared(
            torch.empty((sum(sizes), held.dimension), dtype=held.dtype, device=group.device),
            torch.zeros((sum(sizes), 4), dtype=torch.int64, device=group.device),
            slice(first, first + len(positions)),
            positions,
        )
        for column, labels in enumerate((samples.identities, samples.cameras, samples.index, samples.roles)):
            if labels is not None:
                shared.labels[shared.own, column] = labels[positions].to(group.device, torch.int64)
        filled = first
        for piece in samples.rows(positions).walk(held.dtype):
            shared.embeddings[filled : filled + len(piece)] = piece
            filled += len(piece)
        return shared

    shared = group.together(prepare)
    group.share(shared.labels, sizes)
    group.share(shared.embeddings, sizes)
    return shared


def gather_samples(group: Group, samples: Samples, held: Held) -> Samples:
    """All samples of all ranks, on every rank."""
    everything = torch.arange(len(samples), device=samples.device)
    _, sizes = group.exchange(lambda: (None, [len(samples)]), 1)
    shared = share(group, samples, everything, [size for (size,) in sizes], held)
    labels = shared.labels.to(samples.device)
    return replace(
        samples,
        embeddings=[shared.embeddings.to(samples.device)],
        identities=labels[:, 0],
        cameras=labels[:, 1] if held.has_cameras else None,
        index=labels[:, 2] if held.has_index else None,
        roles=labels[:, 3].to(samples.roles.dtype),
    )


def promoted(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    """The smallest dtype that holds all of them, float16 at least."""
    return functools.reduce(torch.promote_types, dtypes, torch.float16)
