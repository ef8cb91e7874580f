"""Roles of samples, two flags each: query and gallery item; and the place of each query in the gallery.

one file of embeddings
    one role in every row, or both                 each item is searched among the others
    both in some rows                              these are left out of their own ranking
    none in some rows                              these rows are left out
files of queries and of a gallery, with one table  rows of queries, rows of gallery items; a row may be both
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reid_torchmetrics import _arrays, data

from .label_tables import LabelSource
from .sample_sets import Columns, SampleSet
from .terminal import log

_ROW = "row"
"""the column with the number of each row, while one table is split into queries and gallery"""


def number_rows(sample_sets: Mapping[str, SampleSet], tables: Sequence[Columns]) -> list[Columns]:
    """Number the rows of one table about queries and gallery, where some rows are both.

    Roles are left out where all rows have the same one, and there is a row for each item: they do not split the table.
    """
    if len(tables) != 1 or len(sample_sets) != 2 or "roles" not in tables[0]:
        return list(tables)
    table = dict(tables[0])
    roles = table["roles"]
    num_samples = sum(len(sample_set) for sample_set in sample_sets.values())
    if has_one_role(roles) and len(roles) == num_samples:
        log("one role in every row of the labels: it does not tell queries and gallery apart")
        del table["roles"]
    elif roles.all(axis=1).any():
        table[_ROW] = np.arange(len(roles))
    return [table]


def hold_roles(sources: Sequence[LabelSource]) -> bool:
    """Return whether some table of some source holds roles."""
    return any(source.holds("roles") for source in sources)


def split_by_role(sample_sets: Mapping[str, SampleSet], table: Columns) -> tuple[_arrays.Array, _arrays.Array] | None:
    """Return which rows of one table are queries and which are gallery items; None if no roles are there.

    The roles are those of the table, or of an earlier table with as many rows.
    """
    if "roles" in table:
        sample_sets["query"].table_roles = table["roles"]
    roles = sample_sets["query"].table_roles
    if roles is None or any(len(values) != len(roles) for values in table.values()):
        return None
    is_query, is_gallery = roles.T
    return is_query, is_gallery


def set_self_index(sample_sets: Mapping[str, SampleSet], tables: Sequence[Columns]) -> None:
    """Remove the numbers of rows from the tables, and set the place of each query in the gallery."""
    if not all(_ROW in table for table in tables):
        return
    query_rows, gallery_rows = (table.pop(_ROW) for table in tables)
    place_of_row = {row: place for place, row in enumerate(gallery_rows.tolist())}
    self_index = np.array([place_of_row.get(row, -1) for row in query_rows.tolist()], dtype=np.int64)
    sample_sets["query"].self_index = self_index
    _log_self_index(self_index)


def check_roles(sample_sets: Mapping[str, SampleSet]) -> None:
    """Check that roles fit the files; drop roles that say no more than the files.

    Raises:
        ValueError: Gallery items in files of queries or the reverse, one file without queries or without gallery items,
            or rows of both roles in files of queries and files of a gallery.
    """
    if len(sample_sets) == 1:
        _check_single_set(sample_sets["query"])
        return
    for role, sample_set in sample_sets.items():
        roles = sample_set.columns.pop("roles", None)
        if roles is None:
            continue
        path = sample_set.files[0].path
        if not roles[:, 0 if role == "query" else 1].all():
            raise ValueError(f"`roles` must be those of the {role} in {path}; got {_describe_roles(roles)}.")
        has_both = roles.all(axis=1)
        if has_both.any() and sample_sets["query"].self_index is None:
            raise ValueError(
                f"`roles` of queries and gallery must come in one table of all rows, which gives each query's place"
                f" in the gallery; got {int(has_both.sum())} rows that are queries and gallery items with {path}."
            )


def _check_single_set(sample_set: SampleSet) -> None:
    """Check that roles in one file tell queries and gallery apart; drop them where all rows have the same."""
    roles = sample_set.columns.get("roles")
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
    is_query, is_gallery = roles.T
    return len(set(is_query.tolist())) == 1 and len(set(is_gallery.tolist())) == 1 and bool(roles.any())


def are_mixed(roles: _arrays.Array) -> bool:
    """Return whether some samples have both roles, and others one."""
    is_query, is_gallery = roles.T
    return bool((is_query & is_gallery).any()) and bool((is_query != is_gallery).any())


def rows_by_role(
    sample_sets: Mapping[str, SampleSet],
) -> tuple[dict[str, tuple[SampleSet, Any]], _arrays.Array | None]:
    """Return the samples and rows of the queries and of the gallery, and the place of each query in the gallery.

    Where each item is searched among the others there are queries only.
    """
    query_set = sample_sets["query"]
    roles = query_set.columns.get("roles")
    rows: dict[str, tuple[SampleSet, Any]] = {}
    if len(sample_sets) > 1 or roles is None:
        for role, sample_set in sample_sets.items():
            rows[role] = (sample_set, slice(None))
        return rows, query_set.self_index
    is_query, is_gallery = roles.T
    rows["query"] = (query_set, is_query.nonzero()[0])
    if (is_query == is_gallery).all():
        return rows, None
    rows["gallery"] = (query_set, is_gallery.nonzero()[0])
    self_index = data.find_self_index(roles) if are_mixed(roles) else None
    return rows, self_index


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
