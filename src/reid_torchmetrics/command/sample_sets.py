"""Samples in files: the queries or the gallery of an evaluation; and their roles, two flags each.

one file of embeddings
    one role in every row, or both                 each item is searched among the others
    both in some rows                              these are left out of their own ranking
    none in some rows                              these rows are left out
files of queries and of a gallery, with one table  rows of queries, rows of gallery items; a row may be both
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import accumulate, pairwise
from operator import or_
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _arrays, _names, _progress, data
from reid_torchmetrics.functional.retrieval import Protocol
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, LABELS, SIDES, number_names
from reid_torchmetrics.functional.retrieval.scores import are_bits, as_signs, read_with_marks, union_of_marks
from reid_torchmetrics.functional.world import World

from .processes import Share
from .terminal import log

Columns: TypeAlias = dict[str, _arrays.Array]

_BLOCK_BYTES = 1 << 25
_FURTHER_COLUMNS = ("roles", "names")
"""columns of samples that are no labels"""
_FLAGS = {None: (True, True), True: (True, False), False: (False, True)}
"""the flags of samples by `is_query` of metrics"""


class SampleSet:
    """Files of queries or gallery items, with the labels of all their rows; without a gallery queries are both."""

    def __init__(self, role: _names.Role, files: list[data.SampleFile]) -> None:
        self.role = role
        self.files = [replace(file, labels={}, roles=None, names=None) for file in files]
        self.columns: Columns = {}
        """labels, roles and names of all rows"""
        tables: list[dict[str, Any]] = [file.labels | {"roles": file.roles, "names": file.names} for file in files]
        for name in tables[0]:
            values: list[Any] = [table.get(name) for table in tables]
            if all(part is not None for part in values):  # names may be lacking in some files
                self.columns[name] = np.concatenate(values)

    def __len__(self) -> int:
        return sum(len(file.embeddings) for file in self.files)

    @property
    def kind(self) -> str:
        """Kind of the files: "embeddings", "distances" or "scores"."""
        return self.files[0].kind

    @property
    def roles(self) -> _arrays.Array | None:
        """Two flags of each row, for queries and for gallery items; None if the files and their labels have none."""
        return self.columns.get("roles")

    @property
    def names(self) -> _arrays.Array | None:
        """The name of each row; None if the files and their labels have none."""
        return self.columns.get("names")

    def add(self, table: Columns, source: str) -> None:
        """Add the columns of a table.

        Raises:
            ValueError: The table, from `source`, has not a row for each sample, or a column that is there.
        """
        for name, values in table.items():
            if len(values) != len(self):
                rule = f"`{name}` must have a row for each of {len(self)} {self.role} embeddings"
                raise ValueError(f"{source}: {rule}; got {len(values)}.")
            if name in self.columns:
                raise ValueError(f"{source}: `{name}` must come once; got it from {self.files[0].path}, too.")
        self.columns |= table

    def labels(self, rows: Any, prefix: str = "") -> dict[str, Any]:
        """Return labels of some rows as arguments."""
        labels = {name: values[rows] for name, values in self.columns.items() if name not in _FURTHER_COLUMNS}
        return as_arguments(labels, prefix)

    def with_labels(self) -> list[data.SampleFile]:
        """Return the files with the labels and roles of their rows, for `evaluate`."""
        files = []
        for file, _, rows in self.rows_within(slice(0, len(self))):
            labels = {name: values[rows] for name, values in self.columns.items() if name != "names"}
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


ROW = "row"
"""the column with the number of each row, while one table is split into queries and gallery"""


class SampleSets(dict[str, SampleSet]):
    """The queries and the gallery by role; the queries alone where each item is searched among all others."""

    def __init__(self, query: SampleSet, gallery: SampleSet) -> None:
        super().__init__(query=query, gallery=gallery)
        self.table_roles: _arrays.Array | None = None
        """roles in one table about queries and gallery, for queries in files of their own"""
        self.self_index: _arrays.Array | None = None
        """for queries in files of their own: the place of each in the gallery, or -1; None if none is there"""

    @property
    def query(self) -> SampleSet:
        """The queries."""
        return self["query"]

    @property
    def files(self) -> list[data.SampleFile]:
        """The files of the queries, then those of the gallery."""
        files: list[data.SampleFile] = []
        for sample_set in self.values():
            files.extend(sample_set.files)
        return files

    def labels(self) -> dict[str, Any]:
        """Return the labels of all samples as arguments, such as "query_identities"."""
        labels: dict[str, Any] = {}
        for role, sample_set in self.items():
            labels |= sample_set.labels(slice(None), f"{role}_")
        return labels

    def check_names(self, rules: Mapping[str, Any]) -> None:
        """Raise unless labels of both sides are names, or both integers, as the `rules` that list labels do.

        Raises:
            TypeError: queries have names, and the gallery integers, or the reverse.
            ValueError: one of the `rules` lists numbers of labels that are names, or the reverse.
        """
        number_names(self.labels(), rules, tuple(self))

    def batches(self, share: Share) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
        """Iterate over the embeddings of this process file by file, with `is_query` and labels as metrics take them.

        In one file of queries and gallery, samples come by their roles, if some have both or none; `is_query` is None
        for those with both.
        """
        has_gallery = len(self) == 2
        for role, sample_set in self.items():
            roles = sample_set.roles
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

    def rows_by_role(self) -> tuple[dict[str, tuple[SampleSet, Any]], _arrays.Array | None]:
        """Return the samples and rows of the queries and of the gallery, and the place of each query in the gallery.

        Where each item is searched among the others there are queries only.
        """
        roles = self.query.roles
        rows: dict[str, tuple[SampleSet, Any]] = {}
        if len(self) > 1 or roles is None:
            for role, sample_set in self.items():
                rows[role] = (sample_set, slice(None))
            return rows, self.self_index
        is_query, is_gallery = roles.T
        rows["query"] = (self.query, is_query.nonzero()[0])
        if (is_query == is_gallery).all():
            return rows, None
        rows["gallery"] = (self.query, is_gallery.nonzero()[0])
        self_index = data.find_self_index(roles) if are_mixed(roles) else None
        return rows, self_index

    def set_self_index(self, tables: Sequence[Columns]) -> None:
        """Remove the numbers of rows from the tables of both sides, and set the place of each query in the gallery."""
        if not all(ROW in table for table in tables):
            return
        query_rows, gallery_rows = (table.pop(ROW) for table in tables)
        place_of_row = {row: place for place, row in enumerate(gallery_rows.tolist())}
        self_index = np.array([place_of_row.get(row, -1) for row in query_rows.tolist()], dtype=np.int64)
        self.self_index = self_index
        _log_self_index(self_index)

    def check_roles(self) -> None:
        """Check that roles fit the files; drop roles that say no more than the files.

        Raises:
            ValueError: Gallery items in files of queries or the reverse, one file without queries or without gallery
                items, or rows of both roles in files of queries and files of a gallery.
        """
        if len(self) == 1:
            _check_single_set(self.query)
            return
        for role, sample_set in self.items():
            roles = sample_set.columns.pop("roles", None)
            if roles is None:
                continue
            path = sample_set.files[0].path
            if not roles[:, SIDES.index(role)].all():
                raise ValueError(f"`roles` must be those of the {role} in {path}; got {_describe_roles(roles)}.")
            has_both = roles.all(axis=1)
            if has_both.any() and self.self_index is None:
                raise ValueError(
                    f"`roles` of queries and gallery must come in one table of all rows, which gives each query's place"
                    f" in the gallery; got {int(has_both.sum())} rows that are queries and gallery items with {path}."
                )


def _check_single_set(sample_set: SampleSet) -> None:
    """Check that roles in one file tell queries and gallery apart; drop them where all rows have the same."""
    roles = sample_set.roles
    if roles is None:
        return
    has_role = roles.any(axis=1)
    if has_one_role(roles):
        log(f"one role in every row, {_describe_roles(roles)}: each item is searched among all others")
    elif has_role.any() and roles[has_role].all():
        log("every row is a query and a gallery item: each item is searched among all others")
    elif not roles.any(axis=0).all():
        path = sample_set.files[0].path
        raise ValueError(f"`roles` must tell queries and gallery apart in {path}; got {_describe_roles(roles)}.")
    if not has_role.all():
        log(f"rows without a role, which are left out: {int((~has_role).sum())} of {len(roles)}")
    if has_one_role(roles) or roles.all():
        del sample_set.columns["roles"]
    elif are_mixed(roles):
        _log_self_index(data.find_self_index(roles))


def has_one_role(roles: _arrays.Array) -> bool:
    """Return whether all samples have the same role: query, gallery item or both."""
    return bool(roles.any()) and bool((roles == roles[0]).all())


def are_mixed(roles: _arrays.Array | None) -> bool:
    """Return whether some samples have both roles, and others one; False without roles."""
    if roles is None:
        return False
    is_query, is_gallery = roles.T
    return bool((is_query & is_gallery).any()) and bool((is_query != is_gallery).any())


def _describe_roles(roles: _arrays.Array) -> str:
    """Return the roles of some samples in words, such as "gallery and queries"."""
    words = []
    if roles[:, 1].any():
        words.append("gallery")
    if roles[:, 0].any():
        words.append("queries")
    return " and ".join(words) or "none"


def _log_self_index(self_index: _arrays.Array) -> None:
    """Log the number of queries that are gallery items."""
    num_both = int((self_index >= 0).sum())
    log(f"queries that are gallery items, too, left out of their own ranking: {num_both} of {len(self_index)}")


def open_embeddings(
    query_set: SampleSet,
    gallery_set: SampleSet,
    world: World,
    *,
    protocol: Protocol,
    similarity: _names.SimilarityName | None,
    packed: bool,
) -> tuple[Tensor, Callable[[Tensor | _arrays.Array], Tensor]]:
    """Return the embeddings of all queries, and a function that reads a block of the gallery.

    Each process reads a part of the gallery to know whether 0 and 1 are codes, where the protocol leaves that open.

    Raises:
        DistributedMetricError: an error on some process.
        ValueError: codes of 0 and 1 beside other codes or numbers.
    """
    may_be_codes = protocol.reads_codes and similarity is None
    read = partial(
        read_with_marks, similarity=protocol.similarity_or(similarity), packed=packed, may_be_codes=may_be_codes
    )
    query_parts = [read("query", file.embeddings[:]) for file in query_set.files]
    query = torch.cat([embeddings for embeddings, _ in query_parts])
    part = Share(world.process, world.size).part_of(len(gallery_set))
    has_bits = False

    def find_marks() -> tuple[None, list[int]]:
        found = 0
        for _, embeddings in gallery_set.blocks(np.ones(len(gallery_set), dtype=bool), part, "Reading"):
            _, marks = read("gallery", embeddings)
            if marks is not None:
                found |= union_of_marks(marks)
        return None, [found]

    if may_be_codes:
        query_marks = [union_of_marks(marks) for _, marks in query_parts if marks is not None]
        _, table = world.guarded_all_gather(find_marks)
        has_bits = are_bits(reduce(or_, query_marks, 0), reduce(or_, [found for (found,) in table]))
    if has_bits:
        query = as_signs(query)

    def read_block(embeddings: Tensor | _arrays.Array) -> Tensor:
        values, _ = read("gallery", embeddings)
        return as_signs(values) if has_bits else values

    return query, read_block
