"""Files of labels that come beside what is evaluated: tables, or an array for each label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, cast

import numpy as np

from reid_torchmetrics import _arrays, _names, data
from reid_torchmetrics._files import natural_order
from reid_torchmetrics.functional.retrieval.relevance import LABELS

from .inputs import split_array
from .sides import Columns, Side
from .terminal import say

FILE_NAMES = "--file-names"
TABLE_FILES = ""
"""what files of `--labels` are that hold several labels"""
_FIELDS = (*(name for name, label in LABELS.items() if not label.is_extra), "roles")


def label_files(words: Sequence[str], extra: Sequence[str] = ()) -> dict[Any, list[str]]:
    """The files of labels by what each is, such as `cameras=q.npy`; tables are of no label alone.

    `extra` are the labels that users name in rules.
    """
    fields = (*_FIELDS, *extra)
    files: dict[str, list[str]] = {}
    for word in words:
        field, sign, path = word.partition("=")
        is_table = not sign or Path(word).exists()
        if not is_table and field not in fields:
            raise ValueError(f"`--labels` must be files, or one of {', '.join(fields)} = a file; got {word!r}.")
        files.setdefault(TABLE_FILES if is_table else field, []).append(word if is_table else path)
    return files


def read_table(
    path: str,
    asked: Mapping[str, Any],
    pattern: str | None,
    used: set[str],
    said: list[str],
    *,
    keeps_names: bool = False,
) -> Columns:
    """The labels of a table, from its columns or from the names of files in it.

    `asked` are further options of `read_labels`. `said` gets what was guessed; the names of the rows are left out
    unless `keeps_names`.
    """
    guesses: list[str] = []
    table = data.read_labels(path, guesses=guesses, used=used, **asked)
    file_names, known = table.pop("names", None), pattern or "market1501"
    if file_names is not None and ("identities" not in table or pattern is not None):
        used.add(FILE_NAMES)
        try:
            table = data.labels_from_names(file_names, known) | table
        except ValueError as error:
            remedy = "Say by `--file-names` how they hold labels, or by `--names identities=COLUMN` what does."
            raise ValueError(f"{path}: {error} {remedy}") from None
        guesses.append(f"labels from file names as in {known}")
    elif file_names is not None and "names" in asked["names"] and not keeps_names:
        raise ValueError(f"{path}: `--names` must name file names where identities are missing; got both.")
    elif file_names is not None:
        guesses.append("no labels from file names, as there are identities")
    if file_names is not None and keeps_names:
        table["names"] = file_names
    said += [line.removeprefix(f"{path}: ") for line in guesses]
    return table


def read_field(word: str, field: str, missing: _names.MissingLabels, extra: Sequence[str] = ()) -> Columns:
    """The array of one label: alone in a file, or by its name behind the file's.

    `extra` are the labels that users name in rules.
    """
    path, name = split_array(word)
    names = None if name is None else {field: name}
    if field not in extra:
        return data.read_labels(path, field=cast("_names.LabelField", field), names=names, missing=missing)
    labels = data.read_labels(path, names=names, labels=(field,))
    if field not in labels:
        raise ValueError(f"{path}: the file must have an array or a column `{field}`; got {', '.join(labels)}.")
    return {field: labels[field]}


def joined(tables: Sequence[Columns], paths: Sequence[str]) -> Columns:
    """The rows of the tables of shards, one after the other."""
    first, *others = tables
    for path, table in zip(paths[1:], others, strict=True):
        if table.keys() != first.keys():
            came = ", ".join(table) or "none"
            raise ValueError(f"{path}: the labels must be those of {paths[0]}, {', '.join(first)}; got {came}.")
    return {name: np.concatenate([table[name] for table in tables]) for name in first}


def check_shards(side: Side, role: str, tables: Sequence[Columns], paths: Sequence[str], order: str) -> None:
    """Say the order of the shards of embeddings; raise unless it is the natural one, and files of labels fit it.

    Raises:
        ValueError: shards in another order that was not asked for, or labels of another length than their shard.
    """
    files = side.files
    if len(files) == 1:
        return
    shards = [file.path for file in files]
    natural = sorted(shards, key=natural_order)
    if shards != natural and order != "given":
        place = [one == other for one, other in zip(shards, natural, strict=True)].index(False)
        raise ValueError(
            f"The files of the {role} must be in natural order, as labels are joined by position; got {shards[place]}"
            f" where {natural[place]} comes. Put the pattern in quotes, or say `--order given`."
        )
    lengths = [len(file.embeddings) for file in files]
    if len(paths) == len(files):
        for shard, path, length, table in zip(shards, paths, lengths, tables, strict=True):
            num_rows = max((len(values) for values in table.values()), default=0)
            if num_rows != length:
                raise ValueError(f"{path}: there must be a row for each of {length} of {shard}; got {num_rows}.")
    sizes = f"{lengths[0]} rows each" if len({*lengths}) == 1 else f"{min(lengths)} to {max(lengths)} rows"
    in_order = "in natural order" if shards == natural else "in the order given"
    labels = paths[0] if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"
    where = f"{len(files)} files, {shards[0]} ... {shards[-1]} {in_order}, {sizes}"
    say(f"{role}: {where}; labels {labels} in the same order")


def rows_by_name(table: Columns, names: _arrays.Array, path: str) -> Columns:
    """The rows of a table in the order of names: of paths, or of names of files.

    Raises:
        ValueError: a name that the table lacks, or has twice.
    """
    listed, wanted = table["names"].tolist(), names.tolist()
    if not {*wanted} <= {*listed}:  # by the name of the file, where folders differ
        short, short_wanted = ([PurePath(name.replace("\\", "/")).name for name in each] for each in (listed, wanted))
        if len({*short}) == len(short):
            listed, wanted = short, short_wanted
    places: dict[str, int] = {}
    for place, name in enumerate(listed):
        if name in places and name in {*wanted}:
            raise ValueError(f"{path}: rows that are joined by name must have each name once; got {name!r} twice.")
        places[name] = place
    missing = [row for row, name in enumerate(wanted) if name not in places]
    if missing:
        came = f"none for {len(missing)} of {len(wanted)}, first {str(names[missing[0]])!r}"
        raise ValueError(f"{path}: there must be a row for each embedding, by its name; got {came}.")
    rows = np.array([places[name] for name in wanted], dtype=np.int64)
    return {label: values[rows] for label, values in table.items() if label != "names"}
