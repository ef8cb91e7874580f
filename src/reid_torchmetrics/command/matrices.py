"""`--distances` and `--scores`: a matrix of queries and gallery items in the place of embeddings.

labels                                     queries       gallery items
two files                                  rows          columns
one table with a column such as `split`    its queries   its gallery items, of a square matrix also chosen from it
one file for a square matrix               rows          the same items, each searched among all others
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from reid_torchmetrics import _arrays, data
from reid_torchmetrics.functional.retrieval import Protocol

from .inputs import NEED_EMBEDDINGS, check_matrix_options
from .sides import Columns, Side


def is_one_set(sides: Mapping[str, Side], labels: Iterable[Sequence[Sequence[Columns]]]) -> bool:
    """Whether rows and columns of a matrix are the same items, as there is one set of labels for both.

    Args:
        sides: Both sides of a matrix, with the labels in its file.
        labels: For each kind of label the words that name files, and for each word the tables of its files.
    """
    num_rows, num_columns = (len(side) for side in sides.values())
    if num_rows != num_columns:
        return False
    if any(side.columns for side in sides.values()):
        return True
    return any(len(words) == 1 and num_rows_of(words[0]) == num_rows for words in labels)


def num_rows_of(tables: Sequence[Columns]) -> int:
    """Number of rows of the tables of a word."""
    return sum(max((len(values) for values in table.values()), default=0) for table in tables)


def check_shape(sides: Mapping[str, Side], tables: Sequence[Columns], words: str) -> None:
    """Raise unless a matrix has a row for each query of the labels, and a column for each gallery item.

    Raises:
        ValueError: It has not; the message says if it is transposed.
    """
    file = sides["query"].files[0]
    shape = [len(side) for side in sides.values()]
    wanted = [num_rows_of([table]) for table in tables]
    if shape == wanted:
        return
    rule = f"`{file.kind}` must have shape {wanted}, a row for each query and a column for each gallery item of {words}"
    hint = ", which is transposed" if shape == wanted[::-1] else ""
    raise ValueError(f"{file.path}: {rule}; got {shape}{hint}.")


def check_num_rows(sides: Mapping[str, Side], table: Columns, words: str) -> None:
    """Raise unless a table about both sides of a matrix has a row for each query and each gallery item.

    Raises:
        ValueError: It has another number of rows.
    """
    num_queries, num_items = (len(side) for side in sides.values())
    num_rows = num_rows_of([table])
    if num_rows == num_queries + num_items:
        return
    wanted = f"{num_queries} queries and {num_items} gallery items"
    raise ValueError(f"{words}: there must be a row for each of {wanted} of the matrix; got {num_rows}.")


def without_embeddings(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the options about embeddings, if none of them is on.

    Raises:
        ValueError: One is not.
    """
    check_matrix_options(kind, options)
    return {name: value for name, value in options.items() if name not in NEED_EMBEDDINGS}


def own_places(file: data.SampleFile, shape: tuple[int, int], protocol: Protocol) -> _arrays.Array | None:
    """Places of queries in the gallery where a protocol searches each among the others; else None.

    Raises:
        ValueError: The matrix is not square then.
    """
    if not protocol.leave_one_out:
        return None
    if shape[0] != shape[1]:
        rule = (
            f"`{file.kind}` must be square under protocol {protocol.name!r}, which searches each item among the others"
        )
        raise ValueError(f"{file.path}: {rule}; got {list(shape)}.")
    return np.arange(shape[0])


def rows_and_columns(matrix: Any, rows: Any, columns: Any) -> Any:
    """The part of a matrix at some rows and columns; all of it is not copied."""
    if isinstance(rows, slice) and isinstance(columns, slice):
        return matrix[rows, columns]
    return matrix[rows][:, columns]


def bad_rows(matrix: Any) -> list[int]:
    """Rows of a matrix that hold NaN, some rows at a time."""
    rows: list[int] = []
    step = max(1, (1 << 24) // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        (block,) = _arrays.as_tensors(matrix[start : start + step])
        places = block.isnan().any(dim=1).nonzero()[:, 0]
        rows += [start + place for place in places.tolist()]
    return rows


def hint_of_matrix(side: Side, lengths: Collection[int]) -> str:
    """A remedy where embeddings of one file have the shape of a matrix of the labels; else empty."""
    file = side.files[0]
    if file.kind != "embeddings" or len(side.files) > 1:
        return ""
    if list(file.embeddings.shape) != list(lengths):
        return ""
    return f" A matrix of distances is given by `--distances {file.path}`, of scores by `--scores`."
