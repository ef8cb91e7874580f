"""Files that a reader has opened, as the embeddings and labels of `evaluate`.

Files may have roles: two flags for each sample, for queries and for gallery items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from reid_torchmetrics.functional.retrieval.evaluation import Files, are_files
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, LABELS, SIDES
from reid_torchmetrics.functional.retrieval.scores import BlocksOfRows


def read_sides(query: Any, gallery: Any, self_index: Any, arguments: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the query, the gallery and `self_index`, as `evaluate` takes them, where one side is files or both are.

    The labels in the files are added to `arguments`.

    Raises:
        ValueError: an error of `_read_files` or `_rows_by_role`.
    """
    rows_by_side: dict[str, Any] = {}
    if are_files(query):
        gallery, self_index, rows_by_side = _rows_by_role(query, gallery, self_index)
    sides = []
    for argument, value in (("query", query), ("gallery", gallery)):
        embeddings = value
        if are_files(value):
            roles = SIDES if gallery is None else (argument,)
            embeddings, labels = _read_files(argument, value, arguments, roles, rows_by_side.get(argument))
            arguments.update(labels)
        sides.append(embeddings)
    return sides[0], sides[1], self_index


def _read_files(
    argument: str, files: Any, arguments: Mapping[str, Any], roles: Sequence[str], rows: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the embeddings of some samples, and their labels by the names of arguments, such as `query_identities`.

    Files are read in place, from their memory maps. Labels that samples of these roles do not have, such as the groups
    of queries, are left out.

    Args:
        argument: "query" or "gallery".
        files: the files of this argument.
        arguments: the labels that the caller passed.
        roles: "query" and "gallery", or the one that the samples have.
        rows: places of the samples among those of all files; None for all samples.

    Raises:
        ValueError: a label that the caller also passed, or that some files lack.
    """
    labels: dict[str, Any] = {}
    extra_labels: dict[str, Any] = {}
    names_in_files = dict.fromkeys(chain.from_iterable(file.labels for file in files))
    for name in names_in_files:
        if name in LABELS and not (LABELS[name].decides and set(LABELS[name].sides).intersection(roles)):
            continue
        columns = [file.labels[name] for file in files if name in file.labels]
        label = f"{argument}_{name if name in LABELS else EXTRA}"
        if len(columns) < len(files):
            raise ValueError(f"`{argument}` must have `{name}` in all files; got it in {len(columns)} of {len(files)}.")
        if arguments.get(label) is not None:
            raise ValueError(f"`{label}` must come once; got it, and `{name}` in the files of `{argument}`.")
        if name in LABELS:
            labels[label] = _end_to_end(columns, rows)
        else:
            extra_labels[name] = _end_to_end(columns, rows)
            labels[label] = extra_labels
    blocks = [file.embeddings[:] for file in files]
    return BlocksOfRows(blocks, None if rows is None else torch.from_numpy(rows)), labels


def _rows_by_role(query: Any, gallery: Any, self_index: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Choose the queries and the gallery items of files that have both, by the `roles` of the samples.

    Rows of neither role are left out. Where all others have both, or all rows one role, there is no gallery: each is
    searched among the others. Files of two sides are left as they are, unless they are the same files.

    Args:
        query: Files of queries, or of all samples.
        gallery: Files of the gallery; None: there are none.
        self_index: As in `evaluate`.

    Returns:
        The gallery and `self_index`, as `evaluate` takes them, and by side the places of its samples among those of all
        files; a side that has all samples is left out.

    Raises:
        ValueError: Roles without queries or without gallery items, or beside `self_index`.
    """
    roles = _roles_of(query)
    is_one_set = gallery is None or (are_files(gallery) and _paths(gallery) == _paths(query))
    if roles is None or not is_one_set:
        return gallery, self_index, {}
    is_query, is_gallery = roles.T
    has_one_role = bool((roles == roles[:1]).all())
    if has_one_role and bool(roles.any()):
        return None, self_index, {}
    if bool((is_query == is_gallery).all()):
        return None, self_index, {"query": np.flatnonzero(is_query)}
    if not (is_query.any() and is_gallery.any()):
        got = f"{int(is_query.sum())} queries and {int(is_gallery.sum())} gallery items"
        raise ValueError(f"`roles` of the files must have queries and gallery items; got {got}.")
    if self_index is not None:
        raise ValueError("`self_index` must be left out for files with roles, which decide it; got both.")
    if bool((is_query & is_gallery).any()):
        place = np.where(is_gallery, is_gallery.cumsum() - 1, -1)
        self_index = place[is_query]
    return query, self_index, {"query": np.flatnonzero(is_query), "gallery": np.flatnonzero(is_gallery)}


def _roles_of(files: Files) -> Any:
    """Return the flags of the samples of all files, bool [N, 2]; None unless all files have some."""
    flags: list[Any] = [getattr(file, "roles", None) for file in files]
    if any(roles is None for roles in flags):
        return None
    return np.concatenate(flags)


def _paths(files: Files) -> list[Any]:
    return [getattr(file, "path", None) for file in files]


def _end_to_end(columns: Sequence[Any], rows: Any) -> Any:
    """Return labels of some rows of all shards, None for all rows: numbers as one array, or names as one list."""
    if all(column.dtype.kind in "bif" for column in columns):
        values = np.concatenate(columns)
        return values if rows is None else values[rows]
    names = list(chain.from_iterable(column.tolist() for column in columns))
    return names if rows is None else [names[row] for row in rows.tolist()]
