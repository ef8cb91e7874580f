"""Writes the files of a problem: arrays, tables, JSON and text, by the name of the file."""

import json
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch


def write_file(path: Path, content: Any) -> None:
    """Write a file in the format of its name; content of type str is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif path.suffix == ".npy":
        np.save(path, content)
    elif path.suffix == ".npz":
        np.savez(path, **content)
    elif path.suffix == ".pt":
        torch.save({name: torch.as_tensor(values) for name, values in content.items()}, path)
    elif path.suffix == ".csv":
        path.write_text(table(content), encoding="utf-8")
    else:
        path.write_text(json.dumps(content), encoding="utf-8")


def table(columns: Mapping[str, Any]) -> str:
    """Return columns as the text of a CSV file; columns of a matrix are numbered, and short ones end in empty cells."""
    flat: dict[str, Any] = {}
    for name, values in columns.items():
        if isinstance(values, np.ndarray) and values.ndim == 2:
            flat |= {f"{name}_{number}": column for number, column in enumerate(values.T.tolist())}
        else:
            flat[name] = values.tolist() if isinstance(values, np.ndarray) else values
    rows = zip_longest(*flat.values(), fillvalue="")
    return "\n".join([",".join(flat), *(",".join(map(str, row)) for row in rows)]) + "\n"
