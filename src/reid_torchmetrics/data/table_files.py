"""Tables by suffix: text, and Parquet by PyArrow."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from reid_torchmetrics._arrays import Array
from reid_torchmetrics.files import Allowance

from .array_files import Format, import_optional
from .foreign_forms import Unread
from .text_tables import read_csv, read_text
from .word_columns import parse_integers

_NUMBERS = ("int", "uint", "float", "double", "halffloat")
"""beginnings of the names of Parquet's types of numbers"""
_TYPES_OF_VECTORS = (*_NUMBERS, "bool")
"""beginnings of the names of Parquet's types of numbers in vectors"""
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
"""Parquet's types of texts"""
_LISTS = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
"""Parquet's types of lists"""
_MAX_CHARACTERS = 60
"""characters of a type in a message"""


def _read_parquet(path: Path, *, has_vectors: bool = False) -> dict[str, Any]:
    """Return the flat columns of a table, and with `has_vectors` also columns of lists of numbers.

    Other columns are `Unread`.
    """
    parquet = import_optional("pyarrow.parquet", "pyarrow")
    allowance = Allowance(path.stat().st_size)
    with parquet.ParquetFile(path) as file:
        fields = list(file.schema_arrow)
        class_names = _read_class_names(file.schema_arrow)
        flat = [field.name for field in fields if not _storage(field.type).num_fields]
        vectors = [field.name for field in fields if has_vectors and _is_vector(field.type)]
        texts = [field.name for field in fields if str(field.type) in _TEXTS]
        _check_size(file.metadata, len(flat), vectors, allowance)
    table = parquet.read_table(path, columns=flat + vectors, read_dictionary=texts)
    columns: dict[str, Any] = {name: _read_column(name, table[name], allowance) for name in flat}
    columns |= {name: _read_vectors(table[name]) for name in vectors}
    for name, names in class_names.items():
        if not isinstance(columns.get(name, Unread()), Unread):
            columns[name] = _name_numbers(name, columns[name], names, allowance)
    for field in fields:
        if field.name not in columns and not _is_vector(field.type):
            columns[field.name] = Unread(_shortened(field.type))
    return columns


def read_parquet_with_vectors(path: Path) -> dict[str, Any]:
    """Return the flat columns of a table, and its columns of lists of numbers as arrays [N, D]."""
    return _read_parquet(path, has_vectors=True)


def _check_size(metadata: Any, num_flat: int, vectors: Collection[str], allowance: Allowance) -> None:
    """Count the bytes of a table before it is read.

    Raises:
        ValueError: The table takes more than `Allowance` allows.
    """
    # Equal values may take a bit each.
    allowance.spend("a table", 8 * metadata.num_rows * num_flat)
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    allowance.spend("a table", sum(group.total_byte_size for group in groups))
    # PyArrow may abort where the metadata of a column are damaged: they are read for lists alone.
    if not vectors:
        return
    for group in groups:
        leaves = [group.column(index) for index in range(group.num_columns)]
        sizes = [leaf.num_values for leaf in leaves if leaf.path_in_schema.partition(".")[0] in vectors]
        allowance.spend("lists", 8 * sum(sizes))


def _storage(kind: Any) -> Any:
    """Return the type in which the values of a type are stored, that of a tensor for one."""
    return getattr(kind, "storage_type", kind)


def _is_list(kind: Any) -> bool:
    return str(kind).partition("<")[0].partition("[")[0] in _LISTS


def _is_vector(kind: Any) -> bool:
    """Return whether a type of Parquet is of lists of numbers, or of lists of such lists."""
    kind = _storage(kind)
    if not _is_list(kind):
        return False
    inner = kind.value_type
    return _is_vector(inner) if _is_list(inner) else str(inner).startswith(_TYPES_OF_VECTORS)


def _shortened(kind: Any) -> str:
    """Return the name of a type for a message."""
    name = str(kind)
    return name if len(name) <= _MAX_CHARACTERS else f"{name[:_MAX_CHARACTERS]}..."


def _read_class_names(schema: Any) -> dict[str, list[str]]:
    """Return the names of the numbers in columns that `datasets` of Hugging Face wrote as `ClassLabel`, or lists of it.

    Each file numbers its classes anew, so that numbers of two files are not those of the same classes.
    """
    metadata = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = metadata.get("info", {}).get("features", {})
    class_names = {}
    for name, feature in features.items():
        # Of a list, the type of its elements is in a list or under a key.
        element = feature[0] if isinstance(feature, list) else feature.get("feature", feature)
        if isinstance(element, dict) and element.get("_type") == "ClassLabel":
            class_names[name] = element["names"]
    return class_names


def _name_numbers(name: str, numbers: Array, names: Sequence[str], allowance: Allowance) -> Array:
    """Return the names for the numbers of classes, as integers if all names are some; "" or NaN for no class (-1)."""
    numbers = np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
    if len(numbers) and not -1 <= numbers.min() <= numbers.max() < len(names):
        raise ValueError(f"`{name}` with numbers from {numbers.min()} to {numbers.max()} for {len(names)} names")
    # The index -1 is that of the last one.
    distinct = np.asarray([*names, ""])
    integers = parse_integers(names)
    if integers is not None and len(set(integers)) == len(integers):
        distinct = np.asarray([*integers, np.nan])
        if not (numbers == -1).any():
            distinct = np.asarray([*integers, 0])
    allowance.spend(f"`{name}`", distinct.dtype.itemsize * len(numbers))
    return distinct[numbers]


def _read_vectors(column: Any) -> Array | Unread:
    """Return the lists of a column as [N, D]; `Unread` unless each sample has one list, all of one length."""
    chunks = [getattr(chunk, "storage", chunk) for chunk in column.chunks]
    while chunks and _is_list(chunks[0].type.value_type):
        if _lengths(chunks) != {1}:
            return Unread("several lists in a row")
        chunks = [chunk.flatten() for chunk in chunks]
    lengths = _lengths(chunks)
    if len(lengths) != 1 or None in lengths:
        return Unread(f"lists of lengths {', '.join(map(str, list(lengths)[:5])) or 'none'}")
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate(parts).reshape(len(column), -1)


def _lengths(chunks: Sequence[Any]) -> set[int | None]:
    """Return the distinct lengths of lists, None for a null."""
    compute = import_optional("pyarrow.compute", "pyarrow")
    lengths: set[int | None] = set()
    for chunk in chunks:
        lengths.update(compute.list_value_length(chunk).unique().to_pylist())
    return lengths


def _read_column(name: str, column: Any, allowance: Allowance) -> Array:
    """Return a column of numbers, texts or other values; nulls are NaN among numbers and "" among texts."""
    kind = str(column.type)
    if kind.startswith(_NUMBERS):
        return cast("Array", column.to_numpy())  # NaN in the place of a null
    if kind == "bool" and column.null_count:
        return cast("Array", column.cast("uint8").to_numpy())  # NaN in the place of a null
    if kind.startswith("dictionary"):
        return _read_texts(name, column.unify_dictionaries(), allowance)
    # A null of another type is no label, but the column may be another one.
    if column.null_count:
        return np.full(len(column), None)
    return cast("Array", column.to_numpy())


def _read_texts(name: str, column: Any, allowance: Allowance) -> Array:
    """Return a column of texts from a dictionary of distinct texts and the index of each row in it."""
    distinct = np.asarray([])
    if column.num_chunks:
        distinct = np.asarray(column.chunk(0).dictionary.to_pylist())
    # The file has a text once, and the array has it in each row, as long as the longest.
    allowance.spend(f"`{name}`", distinct.dtype.itemsize * len(column))
    if column.null_count:
        distinct = np.append(distinct.astype(str), "")
    indices = [chunk.indices.fill_null(len(distinct) - 1).to_numpy() for chunk in column.chunks]
    return distinct[np.concatenate(indices)] if indices else distinct


TABLES: dict[str, Format] = {
    ".csv": Format(read_csv, "comma-separated values in UTF-8, rows as long as the first, which names them"),
    ".tsv": Format(read_csv, "values separated by tabs in UTF-8, rows as long as the first, which names them"),
    ".parquet": Format(_read_parquet, "a whole table of Parquet"),
}
"""tables by suffix"""
TEXTS: dict[str, Format] = {".txt": Format(read_text, "text in UTF-8, a row in each line, all of one length")}
"""tables that may be lists to other readers"""
