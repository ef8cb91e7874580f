"""Roles of samples, two flags each: the queries, the gallery items, and each query's own place in the gallery.

one file of embeddings
    one role in every row, or both                 each item is searched among the others
    both in some rows                              these are left out of their own ranking
    none in some rows                              these rows are left out
files of queries and of a gallery, with one table  rows of queries, rows of gallery items; a row may be both
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from reid_torchmetrics import _arrays, data

from .sides import Columns, Side
from .terminal import say

_ROW = "row"
"""the column of the numbers of rows, while one table becomes one of each side"""


def number_rows(sides: Mapping[str, Side], tables: Sequence[Columns]) -> list[Columns]:
    """Number the rows of one table about both sides, where some rows are queries and gallery items.

    Roles are left out where all rows have one, and there is a row for each item: they tell no sides apart.
    """
    if len(tables) != 1 or len(sides) != 2 or "roles" not in tables[0]:
        return list(tables)
    table = dict(tables[0])
    roles = table["roles"]
    if has_one_role(roles) and len(roles) == sum(len(side) for side in sides.values()):
        say("one role in every row of the labels: it tells no sides apart")
        del table["roles"]
    elif roles.all(axis=1).any():
        table[_ROW] = np.arange(len(roles))
    return [table]


def are_in(words: Sequence[Sequence[Columns]]) -> bool:
    """Whether some table of some words holds roles."""
    return any("roles" in table for table in chain.from_iterable(words))


def rows_of_sides(sides: Mapping[str, Side], table: Columns) -> tuple[_arrays.Array, _arrays.Array] | None:
    """Rows of queries and of gallery items in one table about both sides, by its roles or by roles of earlier labels.

    Without roles there is no answer.
    """
    if "roles" in table:
        sides["query"].roles_of_table = table["roles"]
    roles = sides["query"].roles_of_table
    if roles is None or any(len(values) != len(roles) for values in table.values()):
        return None
    is_query, is_gallery = roles.T
    return is_query, is_gallery


def note_own_places(sides: Mapping[str, Side], tables: Sequence[Columns]) -> None:
    """Take the numbers of rows from the tables of both sides, and note the own place of each query."""
    if not all(_ROW in table for table in tables):
        return
    query_rows, gallery_rows = (table.pop(_ROW) for table in tables)
    place_of_row = {row: place for place, row in enumerate(gallery_rows.tolist())}
    self_index = np.array([place_of_row.get(row, -1) for row in query_rows.tolist()], dtype=np.int64)
    sides["query"].self_index = self_index
    _say_own_places(self_index)


def settle(sides: Mapping[str, Side]) -> None:
    """Check that roles fit the sides; leave them out where they tell nothing more.

    Raises:
        ValueError: Roles of the other side, or of one file without queries or without gallery items, or rows of both
            roles in files of each side.
    """
    if len(sides) == 1:
        _settle_one_side(*sides.values())
        return
    for role, side in sides.items():
        roles = side.columns.pop("roles", None)
        if roles is None:
            continue
        path = side.files[0].path
        if not roles[:, 0 if role == "query" else 1].all():
            raise ValueError(f"`roles` must be those of the {role} in {path}; got {_in_words(roles)}.")
        if roles.all(axis=1).any() and sides["query"].self_index is None:
            raise ValueError(
                f"`roles` of both sides must come in one table of all rows, where each query's own place is known; got"
                f" {int(roles.all(axis=1).sum())} rows that are queries and gallery items with {path}."
            )


def _settle_one_side(side: Side) -> None:
    roles = side.columns.get("roles")
    if roles is None:
        return
    is_kept = roles[:, 0] | roles[:, 1]
    if has_one_role(roles):
        say(f"one role in every row, {_in_words(roles)}: each item is searched among all others")
    elif is_kept.any() and roles[is_kept].all():
        say("every row is a query and a gallery item: each item is searched among all others")
    elif not roles.any(axis=0).all():
        path = side.files[0].path
        raise ValueError(f"`roles` must tell queries and gallery apart in {path}; got {_in_words(roles)}.")
    if not is_kept.all():
        say(f"{int((~is_kept).sum())} of {len(roles)} rows have no role, and are left out")
    if has_one_role(roles) or roles.all():
        del side.columns["roles"]
    elif are_mixed(roles):
        _say_own_places(data.find_self_index(roles))


def has_one_role(roles: _arrays.Array) -> bool:
    """Whether all samples have the same role: query, gallery item or both."""
    is_uniform = all(len(set(flags)) == 1 for flags in roles.T.tolist())
    return is_uniform and bool(roles.any())


def are_mixed(roles: _arrays.Array) -> bool:
    """Whether some samples have both roles, and others one."""
    is_query, is_gallery = roles.T
    return bool((is_query & is_gallery).any()) and bool((is_query != is_gallery).any())


def rows_by_role(sides: Mapping[str, Side]) -> tuple[dict[str, tuple[Side, Any]], _arrays.Array | None]:
    """The rows of queries and of gallery items, each with its side, and the own places of queries.

    Where each item is searched among the others there are queries only.
    """
    first, *others = sides.values()
    roles = first.columns.get("roles")
    if others or roles is None:
        rows: dict[str, tuple[Side, Any]] = {role: (side, slice(None)) for role, side in sides.items()}
        return rows, first.self_index
    is_query, is_gallery = roles.T
    rows = {"query": (first, is_query.nonzero()[0]), "gallery": (first, is_gallery.nonzero()[0])}
    if (is_query == is_gallery).all():
        del rows["gallery"]
        return rows, None
    return rows, data.find_self_index(roles) if are_mixed(roles) else None


def _in_words(roles: _arrays.Array) -> str:
    """The roles that some samples have: "gallery", "queries"."""
    kinds = {"gallery": roles[:, 1].any(), "queries": roles[:, 0].any()}
    return " and ".join(kind for kind, is_present in kinds.items() if is_present) or "none"


def _say_own_places(self_index: _arrays.Array) -> None:
    num_both = int((self_index >= 0).sum())
    say(f"{num_both} of {len(self_index)} queries are gallery items, too, and are left out of their own ranking")
