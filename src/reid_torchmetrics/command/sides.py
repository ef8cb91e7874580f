"""The files of queries or of the gallery, as one side of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from reid_torchmetrics import _arrays, _progress, data
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, LABELS

from .processes import Share

Columns: TypeAlias = dict[str, _arrays.Array]

_BLOCK_BYTES = 1 << 26
_FLAGS = {None: (True, True), True: (True, False), False: (False, True)}
"""the flags of samples by `is_query` of metrics"""


class Side:
    """The files of queries or of the gallery, with the labels of all their rows; without a gallery queries are both."""

    def __init__(self, files: list[data.SampleFile]) -> None:
        columns = [file.labels | ({} if file.roles is None else {"roles": file.roles}) for file in files]
        self.columns: Columns = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
        named = [file.names for file in files if file.names is not None]
        self.names: _arrays.Array | None = np.concatenate(named) if len(named) == len(files) else None
        """the names of all rows, where all files have them"""
        self.roles_of_table: _arrays.Array | None = None
        """for queries in files of their own: the roles in one table about both sides"""
        self.self_index: _arrays.Array | None = None
        """for queries in files of their own that are gallery items, too: the own place of each, or -1"""
        self.files = [replace(file, labels={}, roles=None, names=None) for file in files]

    def __len__(self) -> int:
        return sum(len(file.embeddings) for file in self.files)

    def labels(self, rows: Any, prefix: str = "") -> dict[str, Any]:
        """Labels of some rows as arguments, without roles; all extra labels are one mapping."""
        arguments: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, values in self.columns.items():
            if name in LABELS:
                arguments[f"{prefix}{name}"] = values[rows]
            elif name != "roles":
                extra[name] = values[rows]
        if extra:
            arguments[f"{prefix}{EXTRA}"] = extra
        return arguments

    def rows_within(self, part: slice) -> Iterator[tuple[data.SampleFile, slice, slice]]:
        """Rows of each file in a part of all, in the file and in all; of no rows the first file, for its labels."""
        ends = pairwise(accumulate((len(file.embeddings) for file in self.files), initial=0))
        for file, (start, stop) in zip(self.files, ends, strict=True):
            rows = slice(max(part.start, start), min(part.stop, stop))
            if rows.start < rows.stop or (part.start == part.stop and start == 0):
                yield file, slice(rows.start - start, rows.stop - start), rows

    def blocks(self, chosen: _arrays.Array, part: slice, what: str) -> Iterator[tuple[_arrays.Array, Tensor]]:
        """The rows in a part of all that are chosen, and their embeddings, some MiB at a time."""
        files = [each for each in self.rows_within(part) if chosen[each[-1]].any()]
        for file, inside, rows in _progress.steps(files, what):
            (embeddings,) = _arrays.as_tensors(file.embeddings[inside])
            places, size = np.flatnonzero(chosen[rows]), max(1, _BLOCK_BYTES // embeddings[:1].nbytes)
            for block in np.split(places, range(size, len(places), size)):
                yield rows.start + block, embeddings[block]


def batches(sides: Mapping[str, Side], share: Share) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """The embeddings of this process file by file, whether they are queries, and their labels.

    Samples of one file of both sides come by their roles, if some have both or none; None is for both.
    """
    for role, side in sides.items():
        roles = side.columns.get("roles")
        for file, inside, rows in side.rows_within(share.of(len(side))):
            embeddings = file.embeddings[inside]
            if len(sides) == 2 or roles is None:
                yield embeddings, role == "query" if len(sides) == 2 else None, side.labels(rows)
            elif (roles.sum(axis=1) == 1).all():
                yield embeddings, roles[rows, 0], side.labels(rows)
            else:
                for is_query, flags in _FLAGS.items():
                    if (roles == flags).all(axis=1).any():
                        places = np.flatnonzero((roles[rows] == flags).all(axis=1))
                        yield embeddings[places], is_query, side.labels(rows.start + places)
