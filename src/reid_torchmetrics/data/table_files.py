"""Tables by suffix: text, and Parquet by PyArrow.

A .csv and .tsv are below a row of names, a .txt with or without one:

VeRi        0001_c001_00016450_0.jpg                                names of files alone
MSMT17      0000/0000_000_01_0303morning_0015_0.jpg 0               no header
CUB         1 3                                                     no header; rows are counted
SOP         image_id class_id super_class_id path                   a header
In-shop     52712, below it image_name item_id evaluation_status    the number of rows, and a header
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import numpy as np

from reid_torchmetrics import _hints
from reid_torchmetrics._arrays import Array
from reid_torchmetrics.files import Allowance

from .array_files import UNNAMED, Format, count_bytes, import_optional
from .array_names import FIELD_NAMES, FURTHER_NAMES
from .foreign_forms import Unread
from .text_files import REMARK, are_decimal, find_delimiter, parse_integers, read_rows, table_text

_MOST_CHARACTERS = 40  # of a text in a message
_IMAGE = re.compile(r".*\.(?:jpe?g|png|bmp|gif|tiff?|webp|ppm)", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan", re.IGNORECASE)
_WORDS = re.findall(r"\w\w+", " ".join([*FIELD_NAMES.values(), *FURTHER_NAMES.values()]))
"""words in the header of a text; a single letter may be a label"""


def read_csv(path: Path) -> dict[str, Array]:
    """Return the columns of a table by the names in its first row, or as "column 1" and so on without names.

    Raises:
        ValueError: Rows of unequal length, no rows, or a repeated name.
    """
    delimiter, numbered_rows = read_rows(path)
    names = [name.strip() for name in numbered_rows[0][1]] if numbered_rows else []
    if _are_values(names):
        return _parse_columns(path, [""] * len(names), numbered_rows, delimiter)
    return _parse_columns(path, names, numbered_rows[1:], delimiter)


def read_text(path: Path) -> dict[str, Array]:
    """Return the columns of a text by white space, tabs or another delimiter, as `read_csv` does.

    A single column without a name is an array without a name; a blank line between its values is a missing one.

    Raises:
        ValueError: Rows of unequal length, no rows, or a repeated name.
    """
    text = table_text(path).removeprefix(REMARK).rstrip()
    all_lines = list(enumerate(map(str.strip, text.split("\n")), start=1))
    lines = [(number, line) for number, line in all_lines if line]
    # In-shop's lists begin with the number of their rows.
    if len(lines) > 2 and lines[0][1].isdecimal() and len(lines[1][1].split()) > 1:
        lines = lines[1:]
    if not lines:
        raise ValueError("0 rows of nothing")

    # Cells are divided by tabs, by white space (None), or by another delimiter: the first one of these in the line.
    first_line = lines[0][1]
    delimiter: str | None = "\t"
    if "\t" not in first_line:
        delimiter = find_delimiter(first_line)
        if len(first_line.split()) > 1 or delimiter not in first_line:
            delimiter = None
    numbered_rows = [(number, list(map(str.strip, line.split(delimiter)))) for number, line in lines]
    rows = [row for _, row in numbered_rows]
    if _has_header(rows):
        return _parse_columns(path, rows[0], numbered_rows[1:], delimiter)
    if len(rows[0]) > 1:
        return _parse_columns(path, [""] * len(rows[0]), numbered_rows, delimiter)
    if len(lines) < len(all_lines) and all(len(row) == 1 for row in rows):
        numbered_rows = [(number, [line]) for number, line in all_lines]
    columns = _parse_columns(path, [""], numbered_rows, delimiter)
    return {UNNAMED: columns["column 1"]}


def parse_vectors(name: str, texts: Sequence[str]) -> Array:
    """Return vectors that were written as text, "[0.1, 0.2]" by JSON or "[0.1 0.2]" by NumPy, as float64 [N, D].

    Raises:
        ValueError: A text is no vector, lacks numbers that NumPy left out, or has another length than the first.
    """
    vectors: list[list[float]] = []
    for row, text in enumerate(texts):
        words = text.strip("[]() \n").replace(",", " ").split()
        start = text[:_MOST_CHARACTERS]
        if "..." in words:
            raise ValueError(
                f"`{name}` must hold whole vectors; got {start!r} in row {row}, whose middle NumPy left out: write"
                " `vector.tolist()` into the table."
            )
        try:
            vector = [float(word) if are_decimal(word) else float("") for word in words]
        except ValueError:
            raise ValueError(f"`{name}` must hold vectors, such as '[0.1, 0.2]'; got {start!r} in row {row}.") from None
        if vectors and len(vector) != len(vectors[0]):
            rule = f"hold vectors of one length, {len(vectors[0])} as in row 0"
            raise ValueError(f"`{name}` must {rule}; got {len(vector)} in row {row}.")
        vectors.append(vector)
    return np.array(vectors)


def names_by_place(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of file names and of identities in a text without a header, as `names` of the readers.

    Empty if more than one column may be either, or if columns have names.
    """
    column_names = [name for name in columns if re.fullmatch(r"column \d+", name)]
    if not column_names or len(column_names) < len(columns):
        return {}
    if len(column_names) > 1:
        # CUB counts its rows in the first column.
        first = columns[column_names[0]]
        from_zero = np.arange(len(first))
        if np.array_equal(first, from_zero) or np.array_equal(first, from_zero + 1):
            column_names = column_names[1:]
    names = {}
    for name in column_names:
        key = "names" if are_images(columns[name]) else "identities"
        names[key] = name
    return names if len(names) == len(column_names) else {}


def join_positions(columns: Mapping[str, Any], user_names: Mapping[str, str]) -> dict[str, Any]:
    """Join two columns of coordinates, such as easting and northing, as positions.

    Args:
        columns: Columns of a table by name.
        user_names: Names of columns from the user, for other meanings; they are not joined.
    """
    joined = dict(columns)
    spellings = {}
    for name, values in columns.items():
        if name not in user_names.values() and np.ndim(values) == 1:
            spellings[name.lower()] = name
    for joined_name in FIELD_NAMES["positions"].split():
        pair = [spellings[word] for word in joined_name.split("/") if word in spellings]
        if "/" in joined_name and len(pair) == 2:
            joined[joined_name] = np.stack([joined.pop(name) for name in pair], axis=1)
    return joined


def are_images(values: Any) -> bool:
    """Return whether all values of an array are names of image files."""
    is_text = isinstance(values, np.ndarray) and values.dtype.kind == "U" and values.ndim == 1
    return is_text and all(_IMAGE.fullmatch(name) for name in values.tolist())


def is_header_missing(names: Sequence[str]) -> bool:
    """Return whether some column has a place or a value as its name, so that the first row is no header."""
    return any(_NUMBER.fullmatch(name) or _IMAGE.fullmatch(name) or name.startswith("column ") for name in names)


def parse_cells(texts: Sequence[str], allowance: Allowance | None = None) -> Array:
    """Convert texts to integers or floats if all are numbers, with NaN for empty ones; else return strings.

    Raises:
        ValueError: The strings take more bytes than `allowance` allows.
    """
    if all(are_decimal(text.strip()) for text in texts):
        for dtype in (np.int64, np.float64):
            with suppress(ValueError, OverflowError):
                return np.array(texts, dtype=dtype)
        num_empty = sum(not text for text in texts)
        if 0 < num_empty < len(texts):
            with suppress(ValueError, OverflowError):
                return np.array([text or "nan" for text in texts], dtype=np.float64)
    if allowance is not None:
        allowance.spend("texts", count_bytes(texts))
    return np.array(texts, dtype=str)


def _are_values(names: Sequence[str]) -> bool:
    """Return whether a first row is one of numbers; columns may be called by their places, from 0 or 1 on."""
    from_zero = [str(place) for place in range(len(names))]
    one_based = [str(place + 1) for place in range(len(names))]
    if len(names) > 1 and list(names) in (from_zero, one_based):
        return False
    return bool(names) and all(_NUMBER.fullmatch(name) for name in names)


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has a word of the field, or words above columns of numbers."""
    header, *values = rows
    if not values or any(_NUMBER.fullmatch(name) for name in header):
        return False
    columns = list(zip(*values, strict=False))  # as many as all rows have
    if any(name in column for name, column in zip(header, columns, strict=False)):
        return False
    if any(name.lower().replace("-", "_") in _WORDS for name in header):
        return True
    return len(columns) > 1 and any(parse_cells(column).dtype.kind != "U" for column in columns)


def _with_decimal_points(cells: Sequence[str]) -> Sequence[str]:
    """Return numbers with points in the place of decimal commas, as Excel and R write them; other cells as they are."""
    changed = [cell.replace(",", ".") for cell in cells]
    are_numbers = all(_NUMBER.fullmatch(cell.strip()) or not cell for cell in changed)
    return changed if are_numbers else cells


def _parse_columns(
    path: Path, names: Sequence[str], numbered_rows: Sequence[tuple[int, Sequence[str]]], delimiter: str | None
) -> dict[str, Array]:
    """Return the columns of a table by name.

    Args:
        path: The file, for the number of bytes that it may take.
        names: Names of the columns; "" for a column without a name.
        numbered_rows: The number of each line, and its cells.
        delimiter: The delimiter of the cells; commas in numbers are decimal ones beside another one.

    Raises:
        ValueError: Rows of unequal length, no rows, or a repeated name.
    """
    # A blank cell is what pandas and R write above the numbers of rows, and Excel behind the last column.
    header = [name or f"column {place}" for place, name in enumerate(names, start=1)]
    for line_number, row in numbered_rows:
        if len(row) != len(header):
            raise ValueError(f"{len(row)} cells for {len(header)} names in line {line_number}")
    if not numbered_rows or len(set(header)) < len(header):
        raise ValueError(f"{len(numbered_rows)} rows of {_hints.listed(header, str) or 'nothing'}")
    columns: Iterable[Sequence[str]] = zip(*(row for _, row in numbered_rows), strict=True)
    if delimiter != ",":
        columns = map(_with_decimal_points, columns)
    allowance = Allowance(path.stat().st_size)
    return {name: parse_cells(column, allowance) for name, column in zip(header, columns, strict=True)}


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
        if field.name not in columns:
            name = str(field.type)
            columns[field.name] = Unread(name if len(name) <= _MAX_CHARACTERS else f"{name[:_MAX_CHARACTERS]}...")
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
