"""Formats of files without a reader, each with the line of Python that converts it.

"the suffix must be one of .npy, ...; got '.pkl': convert it by `numpy.savez('arrays.npz', **pickle.load(file))`."
"""

from __future__ import annotations

_DICT_TO_NPZ = "numpy.savez('arrays.npz', **{})"
_PICKLE = _DICT_TO_NPZ.format("pickle.load(file)")
_EXCEL = "pandas.read_excel(path).to_csv('table.csv', index=False)"
_FEATHER = "pandas.read_feather(path).to_parquet('table.parquet')"
_TEXT = "numpy.save('embeddings.npy', numpy.loadtxt(path))"
_FAISS = "numpy.save('embeddings.npy', index.reconstruct_n(0, index.ntotal))"
_TORCH_LISTS = "numpy.save('lists.npy', torch.load(path).numpy())"

CONVERSIONS = {
    # Files of arrays and of tables, by suffix.
    ".pkl": _PICKLE,
    ".pickle": _PICKLE,
    ".p": _PICKLE,
    ".json": _DICT_TO_NPZ.format("json.load(file)"),
    ".jsonl": "pandas.read_json(path, lines=True).to_parquet('table.parquet')",
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
    # Contents of files.
    "dict in .npy": _DICT_TO_NPZ.format("array.item()"),
    "embeddings as objects": "numpy.save('embeddings.npy', numpy.stack(list(array)))",
    "lists as objects": "json.dump([items.tolist() for items in array], file)",
    "texts as objects": "array.astype(str)",
    "list in .pt": "torch.save(torch.stack(tensors), path)",
    "NumPy in .pt": _DICT_TO_NPZ.format("torch.load(path, weights_only=False)"),
}
"""lines of Python by the form of file or contents that they convert"""


def conversion(form: str) -> str:
    """Return the end of an error message with the line that converts a form; empty for an unknown form."""
    line = CONVERSIONS.get(form)
    return "" if line is None else f": convert it by `{line}`"
