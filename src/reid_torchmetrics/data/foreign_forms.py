"""Forms of files that no reader takes, each with the line of Python that converts it.

"the suffix must be one of .npy, ...; got '.pkl': convert it by `numpy.savez('arrays.npz', **pickle.load(file))`."
"""

from __future__ import annotations

_DICT_TO_NPZ = "numpy.savez('arrays.npz', **{})"

CONVERSIONS = {
    # Files of arrays and of tables, by suffix.
    **dict.fromkeys((".pkl", ".pickle", ".p"), _DICT_TO_NPZ.format("pickle.load(file)")),
    ".json": _DICT_TO_NPZ.format("json.load(file)"),
    ".jsonl": "pandas.read_json(path, lines=True).to_parquet('table.parquet')",
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "pandas.read_excel(path).to_csv('table.csv', index=False)"),
    **dict.fromkeys((".feather", ".arrow"), "pandas.read_feather(path).to_parquet('table.parquet')"),
    **dict.fromkeys((".txt", ".dat"), "numpy.save('embeddings.npy', numpy.loadtxt(path))"),
    ".fbin": "numpy.save('embeddings.npy', numpy.fromfile(path, 'f4')[2:].reshape(*numpy.fromfile(path, 'i4', 2)))",
    ".ibin": "numpy.save('lists.npy', numpy.fromfile(path, 'i4')[2:].reshape(*numpy.fromfile(path, 'i4', 2)))",
    **dict.fromkeys((".index", ".faiss"), "numpy.save('embeddings.npy', index.reconstruct_n(0, index.ntotal))"),
    ".h5": _DICT_TO_NPZ.format("{name: values[:] for name, values in file.items()}"),  # where h5py is
    # Files of ranked lists and of their truth, by suffix.
    "lists in .pkl": "json.dump(pickle.load(file), open('lists.json', 'w'))",
    "lists in .npz": "numpy.save('lists.npy', numpy.load(path)[name])",
    **dict.fromkeys(("lists in .pt", "lists in .pth"), "numpy.save('lists.npy', torch.load(path).numpy())"),
    "lists in .mat": "numpy.save('lists.npy', scipy.io.loadmat(path)[name])",
    # Contents of files.
    "dict in .npy": _DICT_TO_NPZ.format("array.item()"),
    "embeddings as objects": "numpy.save('embeddings.npy', numpy.stack(list(array)))",
    "lists as objects": "json.dump([items.tolist() for items in array], file)",
    "texts as objects": "array.astype(str)",
    "list in .pt": "torch.save(torch.stack(tensors), path)",
    "NumPy in .pt": _DICT_TO_NPZ.format("torch.load(path, weights_only=False)"),
}
"""a line of Python by the form that it converts"""


def conversion(form: str) -> str:
    """Return the advice to convert a form, to be put behind what came; empty for an unknown form."""
    line = CONVERSIONS.get(form)
    return "" if line is None else f": convert it by `{line}`"
