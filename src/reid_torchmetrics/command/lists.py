"""`lists`: ranked lists in files, by `evaluate_lists`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reid_torchmetrics.data import read_ground_truth, read_retrieved
from reid_torchmetrics.functional.retrieval import evaluate_lists
from reid_torchmetrics.functional.retrieval.evaluation import take_protocol
from reid_torchmetrics.functional.retrieval.relevance import EXTRA, LABELS, SIDES, names_in_rules

from .kinds import named_values
from .label_tables import FILE_NAMES, TABLE_FILES, label_files, read_field, read_table
from .outputs import Outputs
from .sides import Columns
from .terminal import say


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Evaluate ranked lists; return the exit status."""
    named: Any = options.get("protocol") or "trec"
    protocol, _ = take_protocol(named, options, lists=bool(arguments.positives), lists_argument="positives")
    extra = names_in_rules(protocol.relevance_options)
    files = label_files(arguments.labels, extra)
    names = named_values("--names", arguments.names)
    if not files:
        _check_used(names, arguments.file_names, used=set())
    outputs = Outputs(arguments, [arguments.retrieved, *([arguments.positives] if arguments.positives else [])])
    from_one = bool(arguments.from_one)
    retrieved = read_retrieved(arguments.retrieved, form=arguments.form, from_one=from_one)
    if files:
        asked = {"names": names, "missing": options.get("missing") or "error", "labels": extra}
        labels = _read_labels(files, asked, arguments.file_names, retrieved)
        return outputs.write({"": evaluate_lists(retrieved, **labels, **options)})
    positives = read_ground_truth(arguments.positives, form=arguments.truth_form, from_one=from_one)
    is_one_list = isinstance(retrieved, list) and not any(isinstance(items, list) for items in retrieved)
    if Path(arguments.retrieved).suffix == ".txt" and is_one_list:
        # The names that one query has retrieved, in a file of its name.
        query = Path(arguments.retrieved).stem
        if query not in positives:
            rule = f"must be named like a query of {arguments.positives}"
            raise ValueError(f"{arguments.retrieved}: {rule}; got {query!r}.")
        retrieved, positives = {query: retrieved}, {query: positives[query]}
    return outputs.write({"": evaluate_lists(retrieved, positives, **options)})


def _read_labels(
    files: Mapping[Any, list[str]], asked: Mapping[str, Any], pattern: str | None, retrieved: Any
) -> dict[str, Any]:
    """The labels of queries and gallery items, as `evaluate_lists` takes them."""
    guesses: list[str] = []
    columns: list[Columns] = [{}, {}]
    paths: list[str] = []
    used: set[str] = set()
    for field, of_field in files.items():
        if len(of_field) != len(SIDES):
            raise ValueError(f"`--labels` must be a file of the queries and one of the gallery; got {len(of_field)}.")
        for of_side, path in zip(columns, of_field, strict=True):
            if field == TABLE_FILES:
                of_side.update(read_table(path, asked, pattern, used, guesses, keeps_names=True))
            else:
                of_side.update(read_field(path, field, asked["missing"], asked["labels"]))
            paths.append(path)
    _check_used(asked["names"], pattern, used)
    if guesses:
        say(f"guessed: {', '.join(dict.fromkeys(guesses))}")
    has_keys = isinstance(retrieved, Mapping)
    lists = [*retrieved.values()] if has_keys else retrieved
    is_named = isinstance(lists, list) and any(isinstance(item, str) for item in chain.from_iterable(lists))
    query, gallery = columns
    of_queries = _named_by_rows(query, paths[0], "query", needs_names=has_keys)
    return of_queries | _named_by_rows(gallery, paths[1], "gallery", needs_names=is_named)


def _check_used(names: Mapping[str, str], pattern: str | None, used: Collection[str]) -> None:
    """Raise unless a table uses each name, and the pattern of file names.

    Raises:
        ValueError: something is not used.
    """
    for key, name in names.items():
        if key not in used:
            raise ValueError(f"`--names` must name columns in the tables of `--labels`; got {key}={name}.")
    if pattern is not None and FILE_NAMES not in used:
        raise ValueError(f"`{FILE_NAMES}` must come with a table of file names without identities; got {pattern!r}.")


def _named_by_rows(table: Columns, path: str, side: str, *, needs_names: bool) -> dict[str, Any]:
    """The labels of a side; where lists have names, by the names of the rows."""
    names = table.pop("names", None)
    if "index" in table:
        raise ValueError(f"{path}: `index` must be left out, as lists hold positions of rows, or names; got it.")
    roles = table.pop("roles", None)
    if roles is not None and not roles[:, SIDES.index(side)].all():
        opposite = "gallery" if side == "query" else "queries"
        raise ValueError(f"{path}: `roles` must be those of the {side}; got some of the {opposite}.")
    labels = dict(table)
    if not needs_names:
        return _as_arguments(labels, side)
    if names is None:
        raise ValueError(f"{path}: the table must name its rows, as the lists name them; got no such column.")
    rows = names.tolist()
    if len({*rows}) < len(rows):
        twice = [name for place, name in enumerate(rows) if name in rows[:place]]
        raise ValueError(f"{path}: the table must name each row once; got {twice[0]!r} twice.")
    by_name = {label: dict(zip(rows, values.tolist(), strict=True)) for label, values in labels.items()}
    return _as_arguments(by_name, side)


def _as_arguments(labels: Mapping[str, Any], side: str) -> dict[str, Any]:
    """Labels of a side as arguments of `evaluate_lists`; all extra labels are one mapping."""
    arguments = {f"{side}_{name}": values for name, values in labels.items() if name in LABELS}
    extra = {name: values for name, values in labels.items() if name not in LABELS}
    if extra:
        arguments[f"{side}_{EXTRA}"] = extra
    return arguments
