"""Files of labels for embeddings, matrices and lists: tables, or an array for each label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from reid_torchmetrics import _arrays, _hints, _names, data
from reid_torchmetrics.files import ImagesByName, check_apart, natural_order
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.relevance import LABELS

from .inputs import split_array
from .sample_sets import Columns, SampleSet, SampleSets
from .terminal import log

TABLES = ""
"""the key of files of `--labels` that hold several labels"""
_FIELDS = (*(name for name, label in LABELS.items() if not label.is_extra), "roles", "names")


class LabelRules(NamedTuple):
    """The options of a command line about reading labels."""

    names: Mapping[str, str]
    """names of arrays or columns in the files, by label"""
    missing_identities: _names.MissingLabels
    extra_labels: Sequence[str]
    """the labels that users name in rules"""
    file_names: str | None
    """the pattern of file names; None: the pattern of Market-1501, where there are file names and no identities"""


class LabelSource(NamedTuple):
    """The labels in the files that a word of a command line names: one, or one of each shard."""

    word: str
    paths: Sequence[str]
    lengths: Sequence[int]
    """number of rows in each file"""
    table: Columns
    """rows of all files, one file after the other"""

    @classmethod
    def of_files(cls, word: str, paths: Sequence[str], tables: Sequence[Columns]) -> LabelSource:
        """Join the tables of files.

        Raises:
            ValueError: tables with other labels than the first one.
        """
        labels = tables[0].keys()
        for path, table in zip(paths, tables, strict=True):
            if table.keys() != labels:
                rule = f"the labels must be those of {paths[0]}, {_hints.listed(labels, str)}"
                got = _hints.listed(table, str) or "none"
                raise ValueError(f"{path}: {rule}; got {got}.")
        joined = {name: np.concatenate([table[name] for table in tables]) for name in labels}
        return cls(word, paths, list(map(num_rows_of, tables)), joined)


def num_rows_of(table: Columns) -> int:
    """Return the number of rows of a table."""
    return max((len(values) for values in table.values()), default=0)


def label_files(words: Sequence[str], extra_labels: Sequence[str] = ()) -> dict[str, list[str]]:
    """Group the words of `--labels` by label, as in `cameras=q.npy`; files of several labels are under `TABLES`.

    `extra_labels` are the labels that users name in rules.
    """
    fields = (*_FIELDS, *extra_labels)
    files: dict[str, list[str]] = {}
    for word in words:
        field, sign, path = word.partition("=")
        if not sign or Path(word).exists():
            files.setdefault(TABLES, []).append(word)
        elif field in fields:
            files.setdefault(field, []).append(path)
        else:
            raise ValueError(
                f"`--labels` must be files, or one of {_hints.listed(fields, str)} = a file; got {word!r}."
            )
    return files


def read_table(path: str, rules: LabelRules, used_names: set[str], guesses: list[str]) -> Columns:
    """Read the labels of a table, and the names of its rows as the column "names" if it has them.

    Args:
        path: of the table.
        rules: for reading labels.
        used_names: receives the labels in `rules.names` that the table has.
        guesses: receives lines about columns that are not named.
    """
    columns_found: list[str] = []
    table = data.read_labels(
        path,
        names=rules.names,
        guesses=columns_found,
        used_names=used_names,
        missing_identities=rules.missing_identities,
        labels=rules.extra_labels,
    )
    guesses.extend(line.removeprefix(f"{path}: ") for line in columns_found)
    if "names" in table and "identities" in table and rules.file_names is None:
        guesses.append("no labels from file names, as there are identities")
    return table


def add_labels_of_file_names(columns_by_role: Mapping[str, Columns], rules: LabelRules, guesses: list[str]) -> None:
    """Add the labels in the names of samples to the columns of each side that lack them.

    The pattern is that of `--file-names`, or of Market-1501 where neither identities nor positions are there.

    Raises:
        ValueError: a name that does not have the pattern, or `--file-names` without names.
    """
    pattern = rules.file_names or "market1501"
    for role, columns in columns_by_role.items():
        has_labels = "identities" in columns or "positions" in columns
        if "names" not in columns or (has_labels and rules.file_names is None):
            continue
        try:
            labels = data.labels_from_names(_arrays.as_texts(columns["names"]).tolist(), pattern)
        except ValueError as error:
            rule = str(error).replace("`paths`", f"the file names of the {role}")
            remedy = "Say by `--file-names` how they hold labels, or by `--names identities=COLUMN` what does."
            raise ValueError(f"{rule} {remedy}") from None
        guesses.append(f"labels from file names as in {pattern}")
        for name, values in labels.items():
            columns.setdefault(name, values)
    if rules.file_names is not None and not any("names" in columns for columns in columns_by_role.values()):
        raise ValueError(f"`--file-names` must come with names of files; got {rules.file_names!r} and no names.")


def read_field(word: str, field: str, rules: LabelRules) -> Columns:
    """Read the array of one label: alone in a file, or by its name behind the file's."""
    path, name = split_array(word)
    names = None if name is None else {field: name}
    if field not in rules.extra_labels:
        label_field = cast("_names.LabelField", field)
        return data.read_labels(path, field=label_field, names=names, missing_identities=rules.missing_identities)
    labels = data.read_labels(path, names=names, labels=(field,))
    if field not in labels:
        raise ValueError(
            f"{path}: the file must have an array or a column `{field}`; got {_hints.listed(labels, str)}."
        )
    return {field: labels[field]}


def check_shards(sample_set: SampleSet, labels: LabelSource, order: str) -> None:
    """Log the order of the shards of embeddings; raise unless it is the natural one, and files of labels fit it.

    Raises:
        ValueError: shards in another order without `--order given`, or labels of another length than their shard.
    """
    files = sample_set.files
    if len(files) == 1:
        return
    shards = [file.path for file in files]
    natural_shards = sorted(shards, key=natural_order)
    if order != "given":
        for shard, natural in zip(shards, natural_shards, strict=True):
            if shard != natural:
                raise ValueError(
                    f"The files of the {sample_set.role} must be in natural order, as labels are joined by position;"
                    f" got {shard} where {natural} comes. Put the pattern in quotes, or say `--order given`."
                )
    lengths = [len(file.embeddings) for file in files]
    if len(labels.paths) == len(files):
        for shard, length, path, num_rows in zip(shards, lengths, labels.paths, labels.lengths, strict=True):
            if num_rows != length:
                raise ValueError(f"{path}: there must be a row for each of {length} of {shard}; got {num_rows}.")

    paths = labels.paths
    label_text = paths[0] if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"
    _log_shards(sample_set, f"; labels {label_text} in the same order")


def log_positions(sample_sets: SampleSets) -> None:
    """Log each set of several files: its rows are numbered through all of them."""
    for sample_set in sample_sets.values():
        _log_shards(sample_set, "; rows are numbered through all files")


def _log_shards(sample_set: SampleSet, remark: str) -> None:
    """Log the number, the order and the lengths of several files of embeddings, and a remark."""
    files = sample_set.files
    if len(files) == 1:
        return
    shards = [file.path for file in files]
    lengths = [len(file.embeddings) for file in files]
    sizes = f"{counted(lengths[0], 'row')} each" if len(set(lengths)) == 1 else f"{min(lengths)} to {max(lengths)} rows"
    order_text = "in natural order" if shards == sorted(shards, key=natural_order) else "in the order given"
    log(f"{sample_set.role}: {len(files)} files, {shards[0]} ... {shards[-1]} {order_text}, {sizes}{remark}")


def rows_by_name(table: Columns, names: _arrays.Array, path: str) -> Columns:
    """Return the rows of a table in the order of names: of files, perhaps in other folders or with another suffix.

    Raises:
        ValueError: a name that the table lacks, or has twice, or two names for one row.
    """
    table_names = _arrays.as_texts(table["names"]).tolist()
    rows_of_names = ImagesByName(table_names, range(len(table_names)))
    rows: dict[str, list[Any]] = {}
    for name in names.tolist():
        rows[name] = rows_of_names.find(name)
    for name, found in rows.items():
        if len(found) > 1:
            got = f"rows {_hints.listed(found)} for {name!r}"
            raise ValueError(f"{path}: rows that are joined by name must have each name once; got {got}.")
    missing = [name for name, found in rows.items() if not found]
    if missing:
        raise ValueError(
            f"{path}: there must be a row for each embedding, by its name; got none for {len(missing)} of {len(names)},"
            f" first {missing[0]!r}, where the table begins with {table_names[0]!r}."
        )
    check_apart(path, rows)
    ordered_rows = np.array([rows[name][0] for name in names.tolist()], dtype=np.int64)
    return {label: values[ordered_rows] for label, values in table.items() if label != "names"}
