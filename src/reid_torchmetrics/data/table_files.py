"""Tables by suffix: text, and Parquet by PyArrow."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from reid_torchmetrics._arrays import Array
from reid_torchmetrics._files import Allowance

from .array_files import Format, import_optional
from .text_tables import read_csv, read_text
from .word_columns import parse_integers

_NUMBERS = ("int", "uint", "float", "double", "halffloat")
"""beginnings of the names of Parquet's types of numbers"""
_TEXTS = ("string", "large_string", "binary", "large_binary")
"""Parquet's types of texts"""
_LISTS = ("list", "large_list", "fixed_size_list")
"""Parquet's types of lists"""


def _read_parquet(path: Path, *, has_vectors: bool = False) -> dict[str, Any]:
    """Return the flat columns of a table, and with `has_vectors` also columns of lists of floats."""
    parquet = import_optional("pyarrow.parquet", "pyarrow")
    allowance = Allowance(path.stat().st_size)
    with parquet.ParquetFile(path) as file:
        fields = list(file.schema_arrow)
        class_names = _read_class_names(file.schema_arrow)
        flat = [field.name for field in fields if not field.type.num_fields]
        vectors = [field.name for field in fields if has_vectors and _is_vector(field.type)]
        texts = [field.name for field in fields if str(field.type) in _TEXTS]
        _check_size(file.metadata, len(flat), vectors, allowance)
    table = parquet.read_table(path, columns=flat + vectors, read_dictionary=texts)
    columns = {name: _read_column(name, table[name], allowance) for name in flat}
    for name in class_names.keys() & columns.keys():
        columns[name] = _name_numbers(name, columns[name], class_names[name], allowance)
    columns |= {name: _read_vectors(name, table[name]) for name in vectors}
    return columns


def read_parquet_with_vectors(path: Path) -> dict[str, Any]:
    """Return the flat columns of a table, and its columns of lists of floats as arrays [N, D]."""
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


def _is_vector(kind: Any) -> bool:
    """Return whether a type of Parquet is of lists of floats."""
    is_list = str(kind).partition("<")[0] in _LISTS
    return is_list and str(kind.field(0).type) in ("halffloat", "float", "double")


def _read_class_names(schema: Any) -> dict[str, list[str]]:
    """Return the names of the numbers in columns that `datasets` of Hugging Face wrote as `ClassLabel`.

    Each file numbers its classes anew, so that numbers of two files are not those of the same classes.
    """
    metadata = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = metadata.get("info", {}).get("features", {})
    return {name: feature["names"] for name, feature in features.items() if feature.get("_type") == "ClassLabel"}


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


def _read_vectors(name: str, column: Any) -> Array:
    """Return the lists of a column as [N, D]."""
    compute = import_optional("pyarrow.compute", "pyarrow")
    lengths = compute.list_value_length(column).unique().to_pylist()
    if len(lengths) != 1 or lengths[0] is None:
        raise ValueError(f"`{name}` with lists of lengths {', '.join(map(str, lengths[:5])) or 'none'}")
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(parts).reshape(-1, lengths[0])


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
