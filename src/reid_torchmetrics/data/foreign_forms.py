"""Formats of files without a reader, each with the line of Python that converts it.

"the suffix must be one of .npy, ...; got '.pkl': convert it by `numpy.savez('arrays.npz', **pickle.load(file))`."
"""

from __future__ import annotations

import pickletools
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from reid_torchmetrics.files import has_json_lines

_DICT_TO_NPZ = "numpy.savez('arrays.npz', **{})"
_PICKLE = _DICT_TO_NPZ.format("pickle.load(file)")
_TABLE_TO_PARQUET = "{}.to_parquet('table.parquet')"
_JSON_LINES = _TABLE_TO_PARQUET.format("pandas.read_json(path, lines=True)")
_ROWS = "{}.to_csv('lists.txt', sep=' ', index=False)"
_EXCEL = "pandas.read_excel(path).to_csv('table.csv', index=False)"
_FEATHER = _TABLE_TO_PARQUET.format("pandas.read_feather(path)")
_TEXT = "numpy.save('embeddings.npy', numpy.loadtxt(path))"
_FAISS = "numpy.save('embeddings.npy', index.reconstruct_n(0, index.ntotal))"
_LISTS = "json.dump({}, open('lists.json', 'w'))"
_TORCH_LISTS = "numpy.save('lists.npy', torch.load(path).numpy())"


class Unread(str):
    """Stand for values in a file that are not read, by their type in words."""

    __slots__ = ()


CONVERSIONS = {
    # Files of arrays and of tables, by suffix.
    ".pkl": _PICKLE,
    ".pickle": _PICKLE,
    ".p": _PICKLE,
    ".json": _DICT_TO_NPZ.format("json.load(file)"),
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".joblib": _DICT_TO_NPZ.format("joblib.load(path)"),
    ".xlsx": _EXCEL,
    ".xls": _EXCEL,
    ".ods": _EXCEL,
    ".feather": _FEATHER,
    ".arrow": _FEATHER,
    ".txt": _TEXT,
    ".dat": _TEXT,
    ".fbin": "numpy.save('embeddings.npy', numpy.fromfile(path, 'f4')[2:].reshape(*numpy.fromfile(path, 'i4', 2)))",
    ".ibin": "numpy.save('lists.npy', numpy.fromfile(path, 'i4')[2:].reshape(*numpy.fromfile(path, 'i4', 2)))",
    ".index": _FAISS,
    ".faiss": _FAISS,
    ".h5": _DICT_TO_NPZ.format("{name: values[:] for name, values in file.items()}"),  # where h5py is installed
    # Files of ranked lists and of their ground truth, by suffix.
    "lists in .pkl": "json.dump(pickle.load(file), open('lists.json', 'w'))",
    "lists in .npz": "numpy.save('lists.npy', numpy.load(path)[name])",
    "lists in .pt": _TORCH_LISTS,
    "lists in .pth": _TORCH_LISTS,
    "lists in .mat": "numpy.save('lists.npy', scipy.io.loadmat(path)[name])",
    "lists in .parquet": "numpy.save('lists.npy', numpy.stack(pandas.read_parquet(path)[name]))",
    ".gz": "Path(path).with_suffix('').write_bytes(gzip.open(path).read())",
    "lists in .jsonl": _ROWS.format("pandas.read_json(path, lines=True)"),
    "lists in .gz": "Path('lists.txt').write_bytes(gzip.open(path).read())",
    "rows in .csv": _ROWS.format("pandas.read_csv(path)"),
    "rows in .parquet": _ROWS.format("pandas.read_parquet(path)"),
    "rows in .json": _ROWS.format("pandas.read_json(path)"),
    "hits in .json": _LISTS.format("[[hit[{!r}] for hit in hits] for hits in json.load(file)]"),
    "hits by query in .json": _LISTS.format(
        "{{query: [hit[{!r}] for hit in hits] for query, hits in json.load(file).items()}}"
    ),
    "split in lists": _LISTS.format("json.load(file)[{!r}]"),
    "splits in lists": _LISTS.format("json.load(file)[{!r}][{!r}]"),
    # Contents of files.
    "records in .pkl": _TABLE_TO_PARQUET.format("pandas.DataFrame(pickle.load(file))"),
    "arrays in .pkl": "numpy.save('embeddings.npy', numpy.stack(pickle.load(file)))",
    "pandas in .pkl": _TABLE_TO_PARQUET.format("pandas.read_pickle(path)"),
    "joblib in .pkl": _DICT_TO_NPZ.format("joblib.load(path)"),
    "split in .json": _TABLE_TO_PARQUET.format("pandas.read_json(path, orient='split')"),
    "records in .json": _TABLE_TO_PARQUET.format("pandas.read_json(path)"),
    "stream in .arrow": "import pyarrow.parquet; "
    "pyarrow.parquet.write_table(pyarrow.ipc.open_stream(path).read_all(), 'table.parquet')",
    "datasets": _TABLE_TO_PARQUET.format("datasets.load_from_disk(folder)"),
    "dict in .npy": _DICT_TO_NPZ.format("array.item()"),
    "embeddings as objects": "numpy.save('embeddings.npy', numpy.stack(list(array)))",
    "lists as objects": "json.dump([items.tolist() for items in array], file)",
    "texts as objects": "array.astype(str)",
    "list in .pt": "torch.save(torch.vstack(tensors), path)",  # the vectors or batches of the list
    "samples in .pt": "torch.save(torch.utils.data.default_collate(torch.load(path)), path)",
    "batches in .pt": "batches = torch.load(path); "
    "torch.save({key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}, path)",
    "tuple in .pt": "torch.save(dict(zip(names, torch.load(path))), path)",
    "vectors by name": "numpy.savez('arrays.npz', embeddings=numpy.stack(list(arrays.values())), names=list(arrays))",
    "NumPy in .pt": _DICT_TO_NPZ.format("torch.load(path, weights_only=False)"),
}
"""lines of Python by the form of file or contents that they convert"""


_JOBLIB = b"joblib"
_NUM_BYTES = 4096
"""bytes at the start of a file that tell its contents"""


def conversion_of_file(path: Path) -> str:
    """Return the end of an error message with the line that converts a file, by its suffix and its first bytes."""
    suffix = path.suffix.lower()
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(_NUM_BYTES)
    form = suffix
    if suffix in (".pkl", ".pickle", ".p"):
        form = _form_of_pickle(start)
    elif suffix == ".json" and re.match(rb'\s*\{\s*"columns"\s*:\s*\[', start):
        form = "split in .json"
    elif suffix == ".json" and has_json_lines(path):
        form = ".jsonl"
    elif suffix == ".json" and re.match(rb'\s*(\[|\{\s*"[^"]*"\s*:\s*\{)', start):
        form = "records in .json"
    elif suffix == ".arrow" and start and not start.startswith(b"ARROW1"):
        form = "stream in .arrow"
    return conversion(form)


def _form_of_pickle(start: bytes) -> str:
    """Return the form of a pickle by its first operations, none of which is executed."""
    if _JOBLIB in start:
        return "joblib in .pkl"
    kinds = []
    with suppress(Exception):  # the start of a file ends anywhere
        for opcode, argument, _ in pickletools.genops(start):
            if "pandas" in str(argument):
                return "pandas in .pkl"
            if opcode.name in ("EMPTY_LIST", "LIST", "EMPTY_DICT", "DICT") or "numpy" in str(argument):
                kinds.append(opcode.name.removeprefix("EMPTY_"))
    if kinds[:1] != ["LIST"]:
        return ".pkl"
    return "records in .pkl" if kinds[1:2] == ["DICT"] else "arrays in .pkl"


def conversion_of_lists(content: Any) -> str:
    """Return the end of an error message with the line that converts lists in JSON of sentence-transformers or MTEB."""
    rows = content if isinstance(content, list) else list(content.values())
    hits = [row[0] for row in rows if isinstance(row, list) and row]
    if hits:
        first_hit = hits[0]
        keys: list[Any] = []
        if isinstance(first_hit, dict):  # an object with a key such as `corpus_id`
            keys = [key for key in first_hit if key.lower().endswith("id")]
        elif isinstance(first_hit, list) and first_hit:  # an item with its score
            keys = [0]
        form = "hits in .json" if isinstance(content, list) else "hits by query in .json"
        return conversion(form).format(keys[0]) if keys else ""
    if isinstance(content, list):
        return conversion("rows in .json")
    for subset, splits in content.items():
        for split, queries in splits.items() if isinstance(splits, dict) else ():
            if isinstance(queries, dict):
                is_nested = any(isinstance(row, dict) for row in queries.values())
                return conversion("splits in lists" if is_nested else "split in lists").format(subset, split)
    return ""


def conversion(form: str) -> str:
    """Return the end of an error message with the line that converts a form; empty for an unknown form."""
    line = CONVERSIONS.get(form)
    return "" if line is None else f": convert it by `{line}`"
