"""Samples in files: the queries or the gallery of an evaluation."""

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

_BLOCK_BYTES = 1 << 25
_FLAGS = {None: (True, True), True: (True, False), False: (False, True)}
"""the flags of samples by `is_query` of metrics"""


class SampleSet:
    """Files of queries or gallery items, with the labels of all their rows; without a gallery queries are both."""

    def __init__(self, files: list[data.SampleFile]) -> None:
        columns_of_files: list[Columns] = []
        for file in files:
            roles = {} if file.roles is None else {"roles": file.roles}
            columns_of_files.append(file.labels | roles)
        self.columns: Columns = {}
        for name in columns_of_files[0]:
            self.columns[name] = np.concatenate([columns[name] for columns in columns_of_files])
        names = [file.names for file in files if file.names is not None]
        self.names: _arrays.Array | None = np.concatenate(names) if len(names) == len(files) else None
        """names of all rows, where all files or their labels have them"""
        self.table_roles: _arrays.Array | None = None
        """roles in one table about queries and gallery, for queries in files of their own"""
        self.self_index: _arrays.Array | None = None
        """for queries in files of their own: the place of each in the gallery, or -1; None if none is there"""
        self.files = [replace(file, labels={}, roles=None, names=None) for file in files]

    def __len__(self) -> int:
        return sum(len(file.embeddings) for file in self.files)

    @property
    def kind(self) -> str:
        """Kind of the files: "embeddings", "distances" or "scores"."""
        return self.files[0].kind

    def labels(self, rows: Any, prefix: str = "") -> dict[str, Any]:
        """Return labels of some rows as arguments, without roles."""
        return as_arguments({name: values[rows] for name, values in self.columns.items() if name != "roles"}, prefix)

    def with_labels(self) -> list[data.SampleFile]:
        """Return the files with the labels and roles of their rows, for `evaluate`."""
        files = []
        for file, _, rows in self.rows_within(slice(0, len(self))):
            labels = {name: values[rows] for name, values in self.columns.items()}
            files.append(replace(file, roles=labels.pop("roles", None), labels=labels))
        return files

    def rows_within(self, part: slice) -> Iterator[tuple[data.SampleFile, slice, slice]]:
        """Iterate over the files in a part of all rows, each with its rows as counted in the file and in all files.

        If the part has no rows, the first file comes without rows, for its labels.
        """
        ends = pairwise(accumulate((len(file.embeddings) for file in self.files), initial=0))
        for file, (start, stop) in zip(self.files, ends, strict=True):
            rows = slice(max(part.start, start), min(part.stop, stop))
            if rows.start < rows.stop or (part.start == part.stop and start == 0):
                rows_of_file = slice(rows.start - start, rows.stop - start)
                yield file, rows_of_file, rows

    def blocks(self, is_selected: _arrays.Array, part: slice, title: str) -> Iterator[tuple[_arrays.Array, Tensor]]:
        """Iterate over the selected rows in a part of all rows, with their embeddings, some MiB at a time.

        `title` is the one of the progress bar.
        """
        files = []
        for file, rows_of_file, rows in self.rows_within(part):
            if is_selected[rows].any():
                files.append((file, rows_of_file, rows))
        for file, rows_of_file, rows in _progress.steps(files, title):
            (embeddings,) = _arrays.as_tensors(file.embeddings[rows_of_file])
            selected = np.flatnonzero(is_selected[rows])
            size = max(1, _BLOCK_BYTES // embeddings[:1].nbytes)
            for block in np.split(selected, range(size, len(selected), size)):
                yield rows.start + block, embeddings[block]


def as_arguments(labels: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return labels by the names of arguments, such as "query_cameras"; all extra labels are one mapping."""
    arguments: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, values in labels.items():
        if name in LABELS:
            arguments[f"{prefix}{name}"] = values
        else:
            extra[name] = values
    if extra:
        arguments[f"{prefix}{EXTRA}"] = extra
    return arguments


def all_files(sample_sets: Mapping[str, SampleSet]) -> list[data.SampleFile]:
    """Return the files of the queries, then those of the gallery."""
    files: list[data.SampleFile] = []
    for sample_set in sample_sets.values():
        files.extend(sample_set.files)
    return files


def batches(sample_sets: Mapping[str, SampleSet], share: Share) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    """Iterate over the embeddings of this process file by file, with `is_query` and labels as metrics take them.

    In one file of queries and gallery, samples come by their roles, if some have both or none; `is_query` is None for
    those with both.
    """
    has_gallery = len(sample_sets) == 2
    for role, sample_set in sample_sets.items():
        roles = sample_set.columns.get("roles")
        for file, rows_of_file, rows in sample_set.rows_within(share.part_of(len(sample_set))):
            embeddings = file.embeddings[rows_of_file]
            if has_gallery:
                yield embeddings, role == "query", sample_set.labels(rows)
            elif roles is None:
                yield embeddings, None, sample_set.labels(rows)
            elif (roles.sum(axis=1) == 1).all():
                yield embeddings, roles[rows, 0], sample_set.labels(rows)
            else:
                for is_query, flags in _FLAGS.items():
                    if (roles == flags).all(axis=1).any():
                        matching = np.flatnonzero((roles[rows] == flags).all(axis=1))
                        yield embeddings[matching], is_query, sample_set.labels(rows.start + matching)
