"""`--distances` and `--scores`: a matrix of queries and gallery items in the place of embeddings.

labels                                     queries       gallery items
two files                                  rows          columns
one table with a column such as `split`    its queries   its gallery items, of a square matrix also chosen from it
one file for a square matrix               rows          the same items, each searched among all others
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from reid_torchmetrics import _arrays, data
from reid_torchmetrics.functional.retrieval import Protocol

from .inputs import NEED_EMBEDDINGS, check_matrix_options
from .label_tables import LabelSource, num_rows_of
from .sample_sets import Columns, SampleSet


def is_one_set(sample_sets: Mapping[str, SampleSet], labels: Iterable[Sequence[LabelSource]]) -> bool:
    """Return whether rows and columns of a matrix are the same items: there is one set of labels for both.

    Args:
        sample_sets: Queries and gallery of a matrix, with the labels in its file.
        labels: The files of each kind of label.
    """
    num_rows, num_columns = (len(sample_set) for sample_set in sample_sets.values())
    if num_rows != num_columns:
        return False
    if any(sample_set.columns for sample_set in sample_sets.values()):
        return True
    return any(len(sources) == 1 and sources[0].num_rows == num_rows for sources in labels)


def check_shape(sample_sets: Mapping[str, SampleSet], tables: Sequence[Columns], source: str) -> None:
    """Raise unless a matrix has a row for each query of the labels, and a column for each gallery item.

    Raises:
        ValueError: It has not; the message says if it is transposed.
    """
    file = sample_sets["query"].files[0]
    shape = [len(sample_set) for sample_set in sample_sets.values()]
    label_shape = [num_rows_of(table) for table in tables]
    if shape == label_shape:
        return
    rule = (
        f"`{file.kind}` must have shape {label_shape}, a row for each query and a column for each gallery item of"
        f" {source}"
    )
    hint = ", which is transposed" if shape == label_shape[::-1] else ""
    raise ValueError(f"{file.path}: {rule}; got {shape}{hint}.")


def check_num_rows(sample_sets: Mapping[str, SampleSet], table: Columns, source: str) -> None:
    """Raise unless one table about a matrix has a row for each query and each gallery item.

    Raises:
        ValueError: It has another number of rows.
    """
    num_queries, num_items = (len(sample_set) for sample_set in sample_sets.values())
    num_rows = num_rows_of(table)
    if num_rows == num_queries + num_items:
        return
    samples = f"{num_queries} queries and {num_items} gallery items"
    raise ValueError(f"{source}: there must be a row for each of {samples} of the matrix; got {num_rows}.")


def without_embeddings(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without those about embeddings, if none of these is on.

    Raises:
        ValueError: One is on.
    """
    check_matrix_options(kind, options)
    return {name: value for name, value in options.items() if name not in NEED_EMBEDDINGS}


def leave_one_out_index(file: data.SampleFile, shape: tuple[int, int], protocol: Protocol) -> _arrays.Array | None:
    """Return the place of each query in the gallery if a protocol searches each item among the others; else None.

    Raises:
        ValueError: The matrix is not square then.
    """
    if not protocol.leave_one_out:
        return None
    num_rows, num_columns = shape
    if num_rows != num_columns:
        rule = (
            f"`{file.kind}` must be square under protocol {protocol.name!r}, which searches each item among the others"
        )
        raise ValueError(f"{file.path}: {rule}; got {list(shape)}.")
    return np.arange(num_rows)


def rows_and_columns(matrix: Any, rows: Any, columns: Any) -> Any:
    """Return the part of a matrix at some rows and columns; slices are not copied."""
    if isinstance(rows, slice) and isinstance(columns, slice):
        return matrix[rows, columns]
    return matrix[rows][:, columns]


def rows_with_nan(matrix: Any) -> list[int]:
    """Return the rows of a matrix that hold NaN; some rows are read at a time."""
    rows: list[int] = []
    step = max(1, (1 << 24) // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        (block,) = _arrays.as_tensors(matrix[start : start + step])
        rows_of_block = block.isnan().any(dim=1).nonzero()[:, 0]
        rows.extend(start + row for row in rows_of_block.tolist())
    return rows


def hint_of_matrix(sample_set: SampleSet, tables: Sequence[Columns]) -> str:
    """Return a remedy if embeddings in one file have the shape of a matrix of the labels; else an empty text."""
    file = sample_set.files[0]
    if file.kind != "embeddings" or len(sample_set.files) > 1:
        return ""
    if list(file.embeddings.shape) != [num_rows_of(table) for table in tables]:
        return ""
    return f" A matrix of distances is given by `--distances {file.path}`, of scores by `--scores`."
