"""Samples of one process, as the ranking takes them, and their embeddings that are NaN or infinite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.relevance import (
    DECIDING,
    LABELS,
    MISSING,
    NO_GROUP,
    LabelTables,
    LabelValues,
    check_alike,
    width_of,
)
from reid_torchmetrics.functional.retrieval.scores import Rows

from .shared_names import names_from_tensor

QUERY, GALLERY = 1, 2  # roles of a sample; leave-one-out samples have both
GROUPED = 4  # added to the roles of samples that were given groups: others have none
_NUM_NAMED = 5  # samples that a message names
NUM_NUMBERS = 4 + _NUM_NAMED
"""numbers of `Samples.non_finite`"""


@dataclass(frozen=True)
class Samples:
    """Samples in the order of their batches: embeddings batch by batch, labels as one tensor each.

    Samples are ranked on the device of the labels.
    """

    embeddings: list[Tensor]
    roles: Tensor
    labels: LabelValues
    names: LabelTables = field(default_factory=dict)
    """the names of the labels that came as names"""

    @classmethod
    def joined(cls, states: Mapping[str, list[Tensor]], device: torch.device) -> Samples:
        """Join the batches of each field; labels that no batch has are left out.

        Raises:
            ValueError: batches of merged metrics that do not fit each other, or two names with one hash.
        """
        embeddings = list(states["embeddings"])
        for block in embeddings:
            _checks.same_dimension("embeddings", block.shape[1], "merged embeddings", embeddings[0].shape[1])
        total = sum(map(len, embeddings))
        given = [name for name in LABELS if any(map(len, states[name]))]
        if not total:  # no sample lacks a label
            nothing = {name: LABELS[name].empty(device=device) for name in DECIDING}
            return cls(embeddings, torch.empty(0, dtype=torch.int8, device=device), nothing)
        roles = _joined("roles", states["roles"], total, device)
        is_grouped = roles & GROUPED > 0
        sizes = {name: int(is_grouped.sum()) if name == "groups" else total for name in given}
        labels = {name: _joined(name, states[name], size, device) for name, size in sizes.items()}
        if "groups" in labels:
            of_all = LABELS["groups"].empty(length=total, device=device)
            labels["groups"] = of_all.masked_scatter_(is_grouped, labels["groups"])
        names = names_from_tensor(torch.cat(states["label_names"])) if states.get("label_names") else {}
        for name, table in names.items():
            check_named(name, labels.get(name), table)
        return cls(embeddings, roles & (QUERY | GALLERY), labels, names)

    def exchanged(self) -> Samples:
        """The same samples with the gallery as queries, and the queries as gallery."""
        return replace(self, roles=(self.roles & QUERY) * GALLERY + (self.roles & GALLERY) // GALLERY)

    @property
    def index(self) -> Tensor | None:
        """The number of each sample in its data set, where it is given."""
        return self.labels.get("index")

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.roles)

    @property
    def device(self) -> torch.device:
        """Device of the labels."""
        return self.roles.device

    @property
    def dimension(self) -> int:
        """Dimension of the embeddings."""
        return self.blocks[0].shape[1]

    @cached_property
    def blocks(self) -> list[Tensor]:
        """The embeddings on the device of the labels, at least one block.

        Where every batch costs a launch, they are one block, a copy of all.
        """
        blocks = [block.to(self.device) for block in self.embeddings] or [torch.empty((0, 1), device=self.device)]
        return blocks if self.device.type == "cpu" or len(blocks) == 1 else [torch.cat(blocks)]

    def check_leave_one_out(self) -> None:
        """Raise a ValueError unless every query is a gallery item for all others."""
        num_queries_only = int((self.roles == QUERY).sum())
        if num_queries_only:
            raise ValueError(
                "`is_query` must be left out under a leave-one-out protocol, as every sample is a query and, for all"
                f" others, a gallery item; got {num_queries_only} samples that are queries only."
            )

    def rows(self, positions: Tensor | slice) -> Rows:
        """The embeddings at some positions."""
        return self._rows.select(self.run(positions) if isinstance(positions, Tensor) else positions)

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self.blocks)

    def run(self, positions: Tensor) -> Tensor | slice:
        """Positions that follow each other as a slice, because nothing is copied there; others as they are."""
        is_all = len(positions) == len(self)  # if they ascend; to look at others would wait for a device
        if not len(positions) or not (is_all or self.device.type == "cpu"):
            return positions
        first = 0 if is_all else int(positions[0])
        may_follow = is_all or int(positions[-1]) - first == len(positions) - 1
        follow = may_follow and (len(positions) == 1 or bool((positions[1:] > positions[:-1]).all()))
        return slice(first, first + len(positions)) if follow else positions

    def in_order(self, positions: Tensor) -> Tensor:
        """Positions in the order of the data set, by `index`; without it as they are."""
        return positions if self.index is None else positions[self.index[positions].argsort()]

    def non_finite(self, query: Tensor, gallery: Tensor) -> list[int]:
        """Numbers for `why_undefined`: all samples, the bad ones, queries and gallery items of them, the first few.

        Bad ones have an embedding that is NaN or infinite, and count: as one of some queries and gallery items.
        """
        bad = self._rows.non_finite()
        if not len(bad):  # nearly always: look at nothing else
            return [len(self), *[0] * (NUM_NUMBERS - 1)]
        is_query, is_gallery = torch.isin(bad, query), torch.isin(bad, gallery)
        bad = bad[is_query | is_gallery]
        first = (bad if self.index is None else self.index[bad])[:_NUM_NAMED].tolist()
        first += [0] * (_NUM_NAMED - len(first))
        return [len(self), len(bad), int(is_query.sum()), int(is_gallery.sum()), *first]

    def column_of(self, gallery: Tensor, query: Tensor) -> Tensor | None:
        """Column of each sample of `query` in `gallery`, both of positions; -1 for none. None if all have none."""
        if not bool((self.roles[query] & GALLERY).any()):
            return None
        # A table over all samples: one scatter, one gather.
        columns = torch.full_like(self.roles, -1, dtype=torch.int64)
        columns[gallery] = torch.arange(len(gallery), device=self.device)
        return columns[query]


def _joined(argument: str, batches: Sequence[Tensor], total: int, device: torch.device) -> Tensor:
    for batch in batches:
        if torch.bool in (batch.dtype, batches[0].dtype):
            check_alike(argument, batch, "merged samples", batches[0])
        _checks.same_width(argument, width_of(batch), width_of(batches[0]), "merged samples")
    joined = torch.cat([batch.to(device) for batch in batches])
    _checks.given_for_all(argument, len(joined), total)
    return joined


def check_named(argument: str, values: Tensor | None, table: Mapping[int, str]) -> None:
    """Raise if some samples have integers and others names."""
    if values is None:
        return
    known = torch.tensor([*table, -1, MISSING, NO_GROUP], dtype=torch.int64, device=values.device)
    others = values[~torch.isin(values, known)]
    if len(others):
        came = f"{int(others[0])} beside names"
        raise ValueError(f"`{argument}` must be names for all samples, or integers for all; got {came}.")


def why_undefined(table: Sequence[Sequence[int]], *, has_index: bool) -> str | None:
    """Why there is no result, by `Samples.non_finite` of all processes; None where all embeddings are finite.

    The lowest process with an embedding that is not finite names up to five of its own.
    """
    source = next((process for process, (_, num_bad, *_) in enumerate(table) if num_bad), None)
    if source is None:
        return None
    total, num_bad, num_queries, num_gallery = (sum(column) for column in list(zip(*table, strict=True))[:4])
    numbered_by = "`index`" if has_index else "samples" if len(table) == 1 else f"samples of process {source}"
    first = [*table[source][4:NUM_NUMBERS][: table[source][1]]]
    return (
        f"{num_bad} of {total} embeddings are NaN or infinite ({num_queries} of queries, {num_gallery} of gallery"
        f" items; first at {numbered_by} {first}), so the result is NaN."
    )
