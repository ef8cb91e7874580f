"""Files of arrays and of columns: small correct ones, damaged ones, and a strict reading of both."""

import io
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy

from reid_torchmetrics import data
from tests.file_forms import Form, InvalidFileError, check

NAMES = {"embeddings": ("feat", "emb"), "identities": ("pid", "label"), "cameras": ("cam", "camids")}
"""names of arrays by their meaning"""
DTYPES = ("f2", "f4", ">f4", "f8", ">f8", "f16", "i1", "i2", ">i4", "i8", "u1", "u8", "?", "c8", "S3", "U3", "O")
DATES = ("M8[s]", "m8[s]")
OTHER_NAMES = [*(name for names in NAMES.values() for name in names), "nothing"]
NUM_SAMPLES = 6

Arrays = dict[str, Any]


def drawn_arrays(draw: Random) -> Arrays:
    """Embeddings, labels and an array without a meaning, in any order."""
    random = np.random.default_rng(draw.getrandbits(32))
    names = ["zebra", "giraffe", "ape"]
    arrays = {
        draw.choice(NAMES["embeddings"]): random.standard_normal((NUM_SAMPLES, 3)).astype(draw.choice(["f4", "f8"])),
        draw.choice(NAMES["identities"]): np.array(draw.choice([[3, 5, 3, 4, 5, 4], names * 2])),
        draw.choice(NAMES["cameras"]): random.integers(1, 4, NUM_SAMPLES),
        "other": random.random(NUM_SAMPLES),
    }
    return {name: arrays[name] for name in draw.sample([*arrays], len(arrays))}


def with_another_array(arrays: Arrays, draw: Random) -> Arrays:
    """An array is missing, is called otherwise, has another dtype or shape, or a value that no label has."""
    name = draw.choice([*arrays])
    values = np.asarray(arrays[name])
    others = {other: arrays[other] for other in arrays if other != name}
    dtype = draw.choice(DTYPES + DATES)
    shapes = [values[:-1], values[:0], values[None], values[..., None], values[0], np.asfortranarray(values)]
    value = draw.choice([np.nan, np.inf, -1, 0.5, 2.0**60, "", "0", "\u00e4"])
    changes = [
        lambda: others,
        lambda: others | {draw.choice(OTHER_NAMES): values},
        lambda: {**arrays, name: with_dtype(values, dtype)},
        lambda: {**arrays, name: draw.choice(shapes)},
        lambda: {**arrays, name: np.array([value, *values.ravel().tolist()[1:]]).reshape(values.shape)},
    ]
    return draw.choice(changes)()


def with_dtype(values: Any, dtype: str) -> Any:
    try:
        return values.astype(dtype)
    except (TypeError, ValueError):  # of names as numbers
        return np.arange(values.size).reshape(values.shape).astype(dtype)


def with_other_bytes(contents: bytes, draw: Random) -> bytes:
    """The file ends early, or has other bytes, fewer or more ones."""
    at = draw.randrange(len(contents))
    end = min(len(contents), at + draw.choice([1, 1, 1, 4, 16]))
    return draw.choice(
        [
            contents[:at],
            contents[:at] + bytes(byte ^ (1 << draw.randrange(8)) for byte in contents[at:end]) + contents[end:],
            contents[:at] + draw.randbytes(end - at) + contents[end:],
            contents[:at] + b"\0" * (end - at) + contents[end:],
            contents[:at] + contents[end:],
            contents[:at] + draw.randbytes(end - at) + contents[at:],
        ]
    )


def as_form(
    name: str,
    drawn: Callable[[Random], Arrays],
    save: Callable[[Arrays, Random], bytes],
    load: Callable[[bytes], Arrays],
    change: Callable[[Arrays, Random], Arrays],
    *,
    is_read_here: bool,
) -> Form:
    """The form of a file of arrays, by the functions that write them and read them strictly.

    The bytes of a file that another library reads stay as they are.
    """

    def damaged(contents: dict[str, bytes], draw: Random) -> tuple[dict[str, bytes], str]:
        if is_read_here and draw.random() < 0.5:
            return {name: with_other_bytes(contents[name], draw)}, name
        return {name: save(change(load(contents[name]), draw), draw)}, name

    def expect(contents: dict[str, bytes]) -> Any:
        try:
            arrays = {name: as_array(values) for name, values in load(contents[name]).items()}
        except Exception:  # noqa: BLE001 - damaged files make libraries raise anything
            raise InvalidFileError from None
        return expected_samples({name: values for name, values in arrays.items() if values is not None})

    return Form(
        write=lambda draw: {name: save(drawn(draw), draw)},
        read=lambda folder: read_samples(folder / name),
        expect=expect,
        damage=damaged,
    )


def read_samples(path: Path) -> Any:
    (samples,) = data.read_samples(path)
    return {
        "embeddings": str(np.asarray(samples.embeddings).tolist()),
        **{key: values.tolist() for key, values in samples.labels.items()},
    }


def expected_samples(arrays: Arrays) -> Any:
    """The same by the rules for arrays with the names above."""
    arrays_by_meaning = {}
    for meaning, names in NAMES.items():
        matches = [values for name, values in arrays.items() if name.lower() in names]
        check(len(matches) <= 1)
        if matches:
            arrays_by_meaning[meaning] = matches[0]
    check("embeddings" in arrays_by_meaning)
    embeddings = arrays_by_meaning.pop("embeddings")
    check(embeddings.ndim == 2 and embeddings.size > 0)
    check(embeddings.dtype.kind in "biu" or embeddings.dtype.str[1:] in ("f2", "f4", "f8"))
    labels = {meaning: as_labels(values, len(embeddings)) for meaning, values in arrays_by_meaning.items()}
    return {"embeddings": str(embeddings.tolist()), **labels}


def as_labels(values: Any, length: int) -> list[Any]:
    """Whole numbers of 64 bits, or names."""
    vector = values.ravel() if values.ndim == 2 and 1 in values.shape else values
    check(vector.shape == (length,))
    if vector.dtype.kind in "SU":
        names = vector.astype(str).tolist() if vector.dtype.kind == "U" else [name.decode() for name in vector.tolist()]
        check(all(names))
        return names
    check(vector.dtype.kind in "iuf")
    numbers = [int(number) for number in vector.tolist() if np.isfinite(number)]
    check(len(numbers) == length and numbers == vector.tolist())
    most = 2.0 / np.finfo(vector.dtype).eps if vector.dtype.kind == "f" else 2**63
    check(all(-most - (vector.dtype.kind != "f") < number < most for number in numbers))
    return numbers


def npz_of(arrays: Arrays, draw: Random) -> bytes:
    file = io.BytesIO()
    draw.choice([np.savez, np.savez, np.savez_compressed])(file, **arrays)
    return file.getvalue()


def arrays_of_npz(contents: bytes) -> Arrays:
    """The arrays of an archive, where checksums do not count: the package maps the numbers and does not sum them."""
    arrays = {}
    with ZipFile(io.BytesIO(contents)) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            name = member.filename.removesuffix(".npy")
            check(name not in arrays)
            with archive.open(member) as file:
                file._expected_crc = None
                try:
                    arrays[name] = npy.read_array(file, allow_pickle=False)
                except ValueError as error:
                    if "Object arrays" not in str(error):
                        raise
                    arrays[name] = np.array(None)  # which the user may not need
                    continue
                check(not file.read(1))
    return arrays


def drawn_columns(draw: Random) -> Arrays:
    """The same as columns of a table: embeddings are lists."""
    return {name: column_of(values, draw) for name, values in drawn_arrays(draw).items()}


def column_of(values: Any, draw: Random) -> Any:
    """A column of values, or of lists."""
    import pyarrow as pa  # noqa: PLC0415

    flat = pa.array(values.ravel())
    if values.ndim == 1:
        return flat
    lengths = np.arange(0, values.size + 1, values.shape[1], dtype=np.int32)
    return draw.choice(
        [pa.ListArray.from_arrays(lengths, flat), pa.FixedSizeListArray.from_arrays(flat, values.shape[1])]
    )


def with_another_column(columns: Arrays, draw: Random) -> Arrays:
    """A column is missing, is called otherwise, has another type, a null, or lists of other lengths."""
    name = draw.choice([*columns])
    column = columns[name]
    others = {other: columns[other] for other in columns if other != name}
    value = draw.choice([None, "", "\u00e4", 0.5, float("nan"), 2**60, [None], [1.0], []])
    changes = [
        lambda: others,
        lambda: others | {draw.choice(OTHER_NAMES): column},
        lambda: {**columns, name: with_first_value(column, value)},
        lambda: {**columns, name: with_type(column, draw)},
    ]
    return draw.choice(changes)()


def with_first_value(column: Any, value: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    try:
        return pa.array([value, *column.to_pylist()[1:]])
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # of several types
        return pa.array([value] * len(column))


def with_type(column: Any, draw: Random) -> Any:
    """The values in another type, or as lists of one value."""
    import pyarrow as pa  # noqa: PLC0415

    numbers = [pa.float16(), pa.float32(), pa.int8(), pa.uint64(), pa.bool_(), pa.decimal128(20, 3), pa.date32()]
    texts = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int8(), pa.string())]
    kind = draw.choice([*numbers, *texts, pa.timestamp("s"), pa.null()])
    if pa.types.is_list(column.type) and draw.random() < 0.5:
        kind = pa.list_(kind)
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([[value] for value in column.to_pylist()])


def parquet_of(columns: Arrays, draw: Random) -> bytes:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    file = io.BytesIO()
    options = {"compression": draw.choice(["none", "snappy", "zstd"]), "use_dictionary": draw.random() < 0.5}
    pq.write_table(pa.table(columns), file, row_group_size=draw.choice([2, 100]), **options)
    return file.getvalue()


def columns_of_parquet(contents: bytes) -> Arrays:
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pq.read_table(io.BytesIO(contents))
    check(len({*table.column_names}) == table.num_columns)
    return {name: table[name].combine_chunks() for name in table.column_names}


def as_array(column: Any) -> Any:
    """Numbers, names or vectors in a column, with NaN or "" for none; None for values that are passed over."""
    if isinstance(column, np.ndarray):
        return column
    values = column.to_pylist()
    kinds = {type(value) for value in values if value is not None}
    if kinds == {list}:
        return as_vectors(values)
    if kinds in ({str}, {bytes}):
        return np.array([value.decode() if isinstance(value, bytes) else value or "" for value in values])
    if kinds == {bool} or (kinds and kinds <= {int, float}):
        return np.array([np.nan if value is None else value for value in values])
    return np.array(None)


def as_vectors(rows: list[Any]) -> Any:
    """Rows of numbers of one length, each perhaps in a list of its own; None for other lists."""
    while all(isinstance(row, list) and len(row) == 1 and isinstance(row[0], list) for row in rows):
        rows = [row[0] for row in rows]
    try:
        vectors = np.array(rows)
    except ValueError:  # of several lengths
        return None
    return vectors if vectors.ndim == 2 and vectors.size and vectors.dtype.kind in "iufb" else None


ARRAY_FORMS = {
    "npz": as_form("a.npz", drawn_arrays, npz_of, arrays_of_npz, with_another_array, is_read_here=True),
    "parquet": as_form(
        "a.parquet", drawn_columns, parquet_of, columns_of_parquet, with_another_column, is_read_here=False
    ),
}
