"""Samples that are sharded over processes: what all hold together, which of them count, and the queries of all.

Each process keeps the samples that it saw. Three processes whose sampler has repeated sample 0 to make numbers even:

    process           0          1          2
    index         0 3 6 9    1 4 7 10   2 5 8 0
    role          q g g q    q g g g    g g q q
    counted       0 3 6 9    1 4 7 10   2 5 8        the query 0 counts where it came first, on process 0
    queries of all, on every process, by `index`: 0 1 8 9
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.scores import Rows, promoted
from reid_torchmetrics.functional.world import DTYPES, World, all_gather_rows, differing

from .repetitions import Numbered
from .same_samples import NUM_SIGNS, SameSamples
from .samples import GALLERY, QUERY, Samples


class _Status(NamedTuple):
    """What a process tells the others of its samples."""

    num_samples: int
    dimension: int
    """0 for a process that never saw a batch"""
    dtype: int
    has_cameras: int
    has_index: int


@dataclass(frozen=True)
class HeldSamples:
    """What the processes hold together, and what one of them holds."""

    samples: Samples
    """of this process; one that has none is given what those of the others have: a dimension, cameras, an index"""
    dtype: torch.dtype
    numbered: tuple[Numbered, Numbered]
    """the queries of this process and its gallery items"""
    same: SameSamples | None
    """what tells whether processes hold the same samples; None where `index` tells, or there is one process"""
    signs: list[list[int]]
    """that they gave each other"""


def examine_samples(world: World, samples: Samples, *, leave_one_out: bool) -> HeldSamples:
    """Compare the samples of all processes.

    Raises:
        DistributedMetricError: dimension or what is given differ between processes.
        ValueError: samples that are queries only, under `leave_one_out`, or samples of one `index` with other labels.
    """

    def look() -> tuple[tuple[tuple[Numbered, Numbered], SameSamples | None], list[int]]:
        if leave_one_out:
            samples.check_leave_one_out()
        same = SameSamples.of(samples) if world.size > 1 and samples.index is None else None
        numbered = Numbered.of(samples, QUERY), Numbered.of(samples, GALLERY)
        return (numbered, same), [*_status(samples), *([0] * NUM_SIGNS if same is None else same.signs())]

    (numbered, same), table = world.guarded_all_gather(look)
    # A process without samples agrees with every other; one that saw empty batches alone knows the dimension.
    num = len(_Status._fields)
    states = [_Status._make(row[:num]) for row in table]
    shaped = [status for status in states if status.dimension] or states
    if len({status.dimension for status in shaped}) > 1:
        raise differing("embedding dimension", [status.dimension or "no samples" for status in states])
    filled = [status for status in states if status.num_samples] or states
    for field in ("has_cameras", "has_index"):
        if len({getattr(status, field) for status in filled}) > 1:
            argument = field.removeprefix("has_")
            raise differing(f"use of `{argument}`", [_use(status, field) for status in states])
    dtype = promoted([DTYPES[status.dtype] for status in shaped])
    if not len(samples):
        samples = _without_samples(samples, shaped[0].dimension or 1, dtype, filled[0])
    same = same if samples.index is None else None  # one without samples has learned now that others have an index
    return HeldSamples(samples, dtype, numbered, same, [row[num:] for row in table])


def _status(samples: Samples) -> _Status:
    return _Status(
        num_samples=len(samples),
        dimension=samples.embeddings[0].shape[1] if samples.embeddings else 0,
        dtype=DTYPES.index(promoted([block.dtype for block in samples.embeddings])),
        has_cameras=int(samples.cameras is not None),
        has_index=int(samples.index is not None),
    )


def _use(status: _Status, field: str) -> str:
    return "no samples" if not status.num_samples else "given" if getattr(status, field) else "not given"


def _without_samples(samples: Samples, dimension: int, dtype: torch.dtype, like: _Status) -> Samples:
    """No samples, but with all that those of the other processes have."""
    # Empty labels stand for "given": what follows then takes the same way on all processes.
    none = torch.empty(0, dtype=torch.int64, device=samples.device)
    nothing = torch.empty((0, dimension), dtype=dtype, device=samples.device)
    return replace(
        samples,
        embeddings=samples.embeddings or [nothing],
        cameras=none if like.has_cameras else None,
        index=none if like.has_index else None,
    )


@dataclass(frozen=True)
class SharedSamples:
    """Some samples of all processes, in the order of the processes."""

    embeddings: Float[Tensor, "samples dim"]
    labels: Int[Tensor, "samples 4"]
    """a column for each of `_LABELS`; zeros where there are none"""
    own: slice
    """those of this process"""

    def label(self, name: str, device: torch.device) -> Int[Tensor, " samples"]:
        """One of `_LABELS`, on the device where samples are ranked."""
        return self.labels[:, _LABELS.index(name)].to(device)


_LABELS = ("identities", "cameras", "index", "roles")


def share_samples(
    world: World, held: HeldSamples, positions: Int[Tensor, " own"], sizes: Sequence[int]
) -> SharedSamples:
    """Send the samples at some positions of each process to all processes; `sizes` says how many each sends."""
    samples = held.samples
    first = sum(sizes[: world.process])

    # Every process has room for the samples of all, fills in its own, and is sent the others'.
    def prepare() -> SharedSamples:
        shared = SharedSamples(
            torch.empty((sum(sizes), samples.dimension), dtype=held.dtype, device=world.device),
            torch.zeros((sum(sizes), len(_LABELS)), dtype=torch.int64, device=world.device),
            slice(first, first + len(positions)),
        )
        for column, name in enumerate(_LABELS):
            labels = getattr(samples, name)
            if labels is not None:  # on all processes or on none
                shared.labels[shared.own, column] = labels[positions].to(world.device, torch.int64)
        # Batch by batch, so that no second copy of the embeddings is made.
        filled = first
        for piece in samples.rows(positions).walk(held.dtype):
            shared.embeddings[filled : filled + len(piece)] = piece
            filled += len(piece)
        return shared

    shared = world.guarded(prepare)
    all_gather_rows(world, shared.labels, sizes)
    all_gather_rows(world, shared.embeddings, sizes)
    return shared


def gather_samples(
    world: World, held: HeldSamples, query: Int[Tensor, " query"], gallery: Int[Tensor, " gallery"]
) -> Samples:
    """The samples that count of all processes, on every process; `query` and `gallery` are positions of this one's."""

    def choose() -> tuple[tuple[HeldSamples, Tensor], list[int]]:
        roles = torch.zeros_like(held.samples.roles)
        roles[query] += QUERY
        roles[gallery] += GALLERY
        chosen = roles.nonzero()[:, 0]
        return (replace(held, samples=replace(held.samples, roles=roles)), chosen), [len(chosen)]

    (held, chosen), table = world.guarded_all_gather(choose)
    samples, device = held.samples, held.samples.device
    shared = share_samples(world, held, chosen, [size for (size,) in table])
    return replace(
        samples,
        embeddings=[shared.embeddings.to(device)],
        identities=shared.label("identities", device),
        cameras=None if samples.cameras is None else shared.label("cameras", device),
        index=None if samples.index is None else shared.label("index", device),
        roles=shared.label("roles", device).to(samples.roles.dtype),
    )


class Queries(NamedTuple):
    """The queries of all processes, in the order of `index`, or of the processes where there is none."""

    embeddings: Rows
    identities: Int[Tensor, " queries"]
    cameras: Int[Tensor, " queries"] | None
    self_index: Int[Tensor, " queries"] | None
    """their positions in this process's gallery, -1 where it does not hold them; None if it holds none"""
    numbers: Int[Tensor, " queries"] | None
    """their `index` in the data set, where they were given"""


def share_queries(
    world: World,
    held: HeldSamples,
    query: Int[Tensor, " own"],
    gallery: Int[Tensor, " gallery"],
    sizes: Sequence[int],
) -> Queries:
    """Send the queries of each process to all processes; `query` and `gallery` are positions of its samples."""
    samples = held.samples
    if world.size == 1:  # nothing is copied
        query = samples.in_order(query)
        cameras = None if samples.cameras is None else samples.cameras[query]
        self_index = samples.column_of(gallery, query)
        index = None if samples.index is None else samples.index[query]
        return Queries(samples.rows(query), samples.identities[query], cameras, _known(self_index), index)
    shared, device = share_samples(world, held, query, sizes), samples.device

    def put_in_order() -> Queries:
        # Only one process holds a query as a gallery item, too: its own, where it is left out.
        self_index = torch.full_like(shared.label("identities", device), -1)
        self_index[shared.own] = samples.column_of(gallery, query)
        # In the order of the data set results do not depend on how samples are sharded.
        is_ordered = samples.index is None
        place = torch.arange(len(self_index), device=device) if is_ordered else shared.label("index", device).argsort()
        return Queries(
            Rows([shared.embeddings.to(device)], None if is_ordered else place),
            shared.label("identities", device)[place],
            None if samples.cameras is None else shared.label("cameras", device)[place],
            _known(self_index[place]),
            None if is_ordered else shared.label("index", device)[place],
        )

    return world.guarded(put_in_order)


def _known(self_index: Int[Tensor, " queries"]) -> Int[Tensor, " queries"] | None:
    return self_index if bool((self_index >= 0).any()) else None
