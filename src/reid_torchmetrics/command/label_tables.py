"""Files of labels that come beside what is evaluated: tables, or an array for each label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reid_torchmetrics import data
from reid_torchmetrics.functional.retrieval.relevance import LABELS

from .sides import Columns

FILE_NAMES = "--file-names"
TABLE_FILES = ""
"""what files of `--labels` are that hold several labels"""
_FIELDS = (*LABELS, "roles")


def label_files(words: Sequence[str]) -> dict[Any, list[str]]:
    """The files of labels by what each is, such as `cameras=q.npy`; tables are of no label alone."""
    files: dict[str, list[str]] = {}
    for word in words:
        field, sign, path = word.partition("=")
        is_table = not sign or Path(word).exists()
        if not is_table and field not in _FIELDS:
            raise ValueError(f"`--labels` must be files, or one of {', '.join(_FIELDS)} = a file; got {word!r}.")
        files.setdefault(TABLE_FILES if is_table else field, []).append(word if is_table else path)
    return files


def read_table(
    path: str,
    names: Mapping[str, str],
    pattern: str | None,
    used: set[str],
    said: list[str],
    *,
    keeps_names: bool = False,
) -> Columns:
    """The labels of a table, from its columns or from the names of files in it.

    `said` gets what was guessed; the names of the rows are left out unless `keeps_names`.
    """
    guesses: list[str] = []
    table = data.read_labels(path, names=names, guesses=guesses, used=used)
    file_names, known = table.pop("names", None), pattern or "market1501"
    if file_names is not None and "identities" not in table:
        used.add(FILE_NAMES)
        try:
            table |= data.labels_from_names(file_names, known)
        except ValueError as error:
            remedy = "Say by `--file-names` how they hold labels, or by `--names identities=COLUMN` what does."
            raise ValueError(f"{path}: {error} {remedy}") from None
        guesses.append(f"labels from file names as in {known}")
    elif file_names is not None and "names" in names and not keeps_names:
        raise ValueError(f"{path}: `--names` must name file names where identities are missing; got both.")
    elif file_names is not None and not keeps_names:
        guesses.append("no labels from file names, as there are identities")
    if file_names is not None and keeps_names:
        table["names"] = file_names
    said += [line.removeprefix(f"{path}: ") for line in guesses]
    return table
