"""`evaluate`: embeddings in files, mapped and never copied, by the metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from jsonargparse import Namespace
from numpy.typing import NDArray

from reid_torchmetrics import _arrays
from reid_torchmetrics.data import (
    SampleFile,
    labels_from_names,
    number_identities,
    read_ground_truth,
    read_labels,
    read_samples,
)
from reid_torchmetrics.functional.retrieval import Protocol, RetrievalResults, evaluate, find_protocol, find_relevance
from reid_torchmetrics.functional.retrieval.evaluation import PROTOCOL_FIELDS
from reid_torchmetrics.functional.retrieval.relevance import LABELS, SIDES
from reid_torchmetrics.functional.retrieval.scores import non_finite_rows
from reid_torchmetrics.metrics.reid import EmbeddingMetric, ReIDMetrics

from . import say
from .options import add_options, chosen, named_values, new_parser
from .outputs import Outputs, add_outputs
from .processes import Share, joined

_BY_ONE_CALL = ("max_rank", "multi_query")
"""options of `evaluate` that metrics do not have"""
_FROM_FILES = (
    *("query", "gallery", "ground_truth", "self_index", "gallery_groups"),
    *(f"{side}_{name}" for side in SIDES for name in LABELS),
)


def run(words: Sequence[str]) -> int:
    """Evaluate what the words of the command line say; return the exit status."""
    parser = new_parser("evaluate")
    parser.add_argument("query", help="embeddings of the queries: a file, a folder or a pattern in quotes; or of both")
    parser.add_argument("gallery", nargs="*", help="those of the gallery; without it each item is searched among all")
    parser.add_argument("--labels", nargs="+", default=[], metavar="FILE", help="table of labels, or one of each side")
    parser.add_argument("--names", nargs="+", default=[], metavar="NAME=ARRAY", help="where names are not guessed")
    parser.add_argument("--file-names", metavar="PATTERN", help="how file names in a table hold labels: market1501")
    parser.add_argument("--ground-truth", metavar="FILE", help="lists of positives and junk, by the numbers of items")
    added = add_options(
        parser, evaluate, words=(Protocol, EmbeddingMetric, find_relevance, evaluate), without=_FROM_FILES
    )
    add_outputs(parser)
    arguments = parser.parse_args(words)
    options = chosen(parser, arguments, added)
    # A protocol with its changes means the same to functions and metrics, to which None is the protocol's own value.
    fields = {name: options.pop(name) for name in PROTOCOL_FIELDS if name in options}
    named = options.get("protocol")
    protocol = find_protocol(named or "market1501")
    protocol.check_relevance(fields, lists=arguments.ground_truth is not None)
    options["protocol"] = protocol.changed(fields)
    tables = _Tables(arguments)
    sides = _read_sides(arguments, tables)
    if arguments.ground_truth is None:
        _check_labels(sides, options["protocol"], {"protocol", *fields} if named else {*fields})
    inputs = [*(file.path for files in sides.values() for file in files), *arguments.labels, arguments.ground_truth]
    outputs = Outputs(arguments, inputs)
    with joined() as share:
        try:
            results = _evaluated(sides, options, arguments, share, in_full=outputs.report is not None)
        except ValueError:
            _name_bad_rows(sides)
            raise
        if results.counts.not_ranked:
            _name_bad_rows(sides)
        return outputs.write({"": results}) if share.process == 0 else 0


class _Tables:
    """The tables of labels, and what was typed about names: all of it must be used."""

    def __init__(self, arguments: Namespace) -> None:
        self.paths, self.pattern = arguments.labels, arguments.file_names
        self.names = named_values("--names", arguments.names)
        self._used: dict[str, list[set[str]]] = {"embeddings": [], "tables": []}
        self._has_file_names = False

    def used(self, kind: str) -> set[str]:
        """What one more file or side uses of `--names`."""
        self._used[kind].append(set())
        return self._used[kind][-1]

    def read(self) -> list[dict[str, NDArray[Any]]]:
        """The labels of each table, from its columns or from the names of files in it."""
        tables = []
        for path in self.paths:
            guesses: list[str] = []
            table = read_labels(path, names=self.names, guesses=guesses, used=self.used("tables"))
            paths = table.pop("names", None)
            if paths is not None and "identities" not in table:
                table |= self._of_file_names(path, paths)
                guesses.append(f"{path}: labels from file names as in {self.pattern or 'market1501'}")
                self._has_file_names = True
            elif paths is not None and "names" not in self.names:
                guesses.append(f"{path}: no labels from file names, as it has identities")
            elif paths is not None:
                raise ValueError(f"{path}: `--names` must name file names where identities are missing; got both.")
            tables.append(table)
            for guess in guesses:
                say(guess)
        return tables

    def _of_file_names(self, path: str, paths: NDArray[Any]) -> dict[str, NDArray[Any]]:
        try:
            return labels_from_names(paths, self.pattern or "market1501")
        except ValueError as error:
            remedy = "Say by `--file-names` how they hold labels, or by `--names identities=COLUMN` what does."
            raise ValueError(f"{path}: {error} {remedy}") from None

    def check_all_used(self) -> None:
        """Raise unless all was used, by all files of a kind or by none.

        Raises:
            ValueError: something was not.
        """
        for key, name in self.names.items() if self.paths else ():
            shares = [sum(key in used for used in files) / len(files) for files in self._used.values()]
            if {*shares} != {0, 1}:  # labels that both kinds have are refused before
                raise ValueError(f"`--names` must name arrays or columns that are in the files; got {key}={name}.")
        if self.pattern is not None and not self._has_file_names:
            raise ValueError(
                f"`--file-names` must come with a table of file names without identities; got {self.pattern!r}."
            )


def _read_sides(arguments: Namespace, tables: _Tables) -> dict[str, list[SampleFile]]:
    """The files of each side, with their labels; only the queries' where there is no gallery."""
    given = {"query": arguments.query, "gallery": arguments.gallery or arguments.query}
    sides = {}
    for role, paths in given.items():
        used = tables.used("embeddings") if tables.paths else None  # without tables these files must have all
        sides[role] = read_samples(paths, role=role, names=tables.names, used=used)
    # Without arrays for each side, both have found the same ones in one file.
    query, gallery = ([file.guesses for file in files] for files in sides.values())
    if not arguments.gallery and query == gallery:
        del sides["gallery"]
    for guess in dict.fromkeys(guess for files in sides.values() for file in files for guess in file.guesses):
        say(guess)
    if tables.paths:
        _add_labels(sides, tables)
    tables.check_all_used()
    _check_roles(sides)
    if len(sides) == 1 and sides["query"][0].roles is None:
        say("no gallery: each item is searched among all others")
    first, *others = (files[0] for files in sides.values())
    for other in others:
        if other.embeddings.shape[1] != first.embeddings.shape[1]:
            widths = f"{other.embeddings.shape[1]} and {first.embeddings.shape[1]}"
            raise ValueError(f"{other.path}: embeddings must be as wide as those of {first.path}; got {widths}.")
    # Names become numbers, the same on both sides.
    for name in ("identities", "cameras"):
        files = [file for side in sides.values() for file in side if name in file.labels]
        for file, numbers in zip(files, number_identities(*(file.labels[name] for file in files)), strict=True):
            file.labels[name] = numbers
    return sides


def _add_labels(sides: dict[str, list[SampleFile]], given: _Tables) -> None:
    """Give the files the labels and roles of tables."""
    said, tables = " and ".join(given.paths), given.read()
    if len(tables) == 1 and len(sides) == 2:
        tables = _by_side(tables[0], said, sum(len(file.embeddings) for file in sides["query"]))
    if len(tables) != len(sides):
        raise ValueError(f"`--labels` must be one table, or one of each side; got {len(tables)}.")
    for (role, files), table in zip(sides.items(), tables, strict=True):
        ends = [*accumulate(len(file.embeddings) for file in files)]
        for name, values in table.items():
            if len(values) != ends[-1]:
                raise ValueError(
                    f"{said}: `{name}` must have a row for each of {ends[-1]} {role} embeddings; got {len(values)}."
                )
            parts = [values[end - len(file.embeddings) : end] for file, end in zip(files, ends, strict=True)]
            files[:] = [_with_label(file, name, rows, said) for file, rows in zip(files, parts, strict=True)]


def _with_label(file: SampleFile, name: str, rows: NDArray[Any], said: str) -> SampleFile:
    """A file with a label, or roles, of a table."""
    if name in file.labels or (name == "roles" and file.roles is not None):
        raise ValueError(f"{said}: `{name}` must come once; got it from {file.path}, too.")
    return replace(file, roles=rows) if name == "roles" else replace(file, labels=file.labels | {name: rows})


def _by_side(table: dict[str, NDArray[Any]], said: str, num_queries: int) -> list[dict[str, NDArray[Any]]]:
    """The rows of queries and of the gallery: queries come first, unless a column says it."""
    is_query = table.get("roles")
    if is_query is None:
        is_query = np.arange(min(map(len, table.values()))) < num_queries
        say(f"{said}: the first {num_queries} rows as those of the queries")
    return [{name: each[side] for name, each in table.items()} for side in (is_query, ~is_query)]


def _check_roles(sides: Mapping[str, Sequence[SampleFile]]) -> None:
    """Raise unless roles agree with the sides, or tell queries and gallery apart in one side."""
    for role, files in sides.items():
        kinds = {bool(kind) for file in files if file.roles is not None for kind in np.unique(file.roles)}
        wanted = [set(), {role == "query"} if len(sides) == 2 else {True, False}]
        if kinds not in wanted:
            rule = f"be those of the {role}" if len(sides) == 2 else "tell queries and gallery apart"
            came = " and ".join({True: "queries", False: "gallery"}[kind] for kind in sorted(kinds))
            raise ValueError(f"`roles` must {rule} in {files[0].path}; got {came}.")


def _check_labels(sides: Mapping[str, Sequence[SampleFile]], protocol: Protocol, typed: Collection[str]) -> None:
    """Raise unless there are the labels of a protocol, and cameras if a rule about them was asked for."""
    names = {name for files in sides.values() for file in files for name in file.labels}
    for name in protocol.needed_labels.keys() - names:
        raise ValueError(
            f"`{name}` must be given {protocol.needed_labels[name]}, as an array or a column of that name, or by"
            f" `--names {name}=NAME`; got none in the files."
        )
    rules = {name: getattr(protocol, name) for name in ("same_camera", "cmc_same_camera", "camera_map")}
    for name, rule in rules.items() if "cameras" not in names else ():
        if rule not in (None, "keep", ()) and {name, "protocol"} & {*typed}:
            raise ValueError(
                f"`cameras` must be given for `{name}` {rule!r}, or `--same-camera keep`; got none in the files."
            )
        if rule not in (None, "keep", ()):
            say(f"no cameras: `{name}` {rule!r} of {protocol.name} drops nothing")


def _evaluated(
    sides: dict[str, list[SampleFile]], options: dict[str, Any], arguments: Namespace, share: Share, *, in_full: bool
) -> RetrievalResults:
    """All processes get the same results; `in_full` asks for what a report shows."""
    truth = None if arguments.ground_truth is None else read_ground_truth(arguments.ground_truth, by_name=False)
    if set(_BY_ONE_CALL) & options.keys():
        return _by_one_call(sides, options, truth, share)
    metric = ReIDMetrics(ground_truth=truth, **options)
    for role, files in sides.items():
        total = sum(len(file.embeddings) for file in files)
        is_query = _roles_of(files, role if len(sides) == 2 else None)
        numbers = {} if truth is None else {"index": _numbers(is_query, total)}
        # Queries are sent to all processes, so that one of them may have all.
        is_alone = role == "query" and len(sides) == 2
        part = share.of(total) if not is_alone else range(total if share.process == 0 else 0)
        for embeddings, labels, rows in _batches(files, part):
            labels |= {name: values[rows.start : rows.stop] for name, values in numbers.items()}
            of_rows = is_query[rows.start : rows.stop] if isinstance(is_query, np.ndarray) else is_query
            metric.update(embeddings, is_query=of_rows, **labels)
    has_cameras = all("cameras" in file.labels for files in sides.values() for file in files)
    return metric.results(nearest=10 if in_full else 0, camera_pairs=in_full and has_cameras)


def _roles_of(files: Sequence[SampleFile], role: str | None) -> bool | NDArray[np.bool_] | None:
    """The `is_query` of a side, or of the rows of files of both; None where each item is searched among all."""
    if role is not None:
        return role == "query"
    roles = [file.roles for file in files if file.roles is not None]
    return np.concatenate(roles) if roles else None


def _numbers(is_query: bool | NDArray[np.bool_] | None, total: int) -> NDArray[np.int64]:
    """The number of each row in its side."""
    if not isinstance(is_query, np.ndarray):
        return np.arange(total)
    return np.where(is_query, is_query.cumsum(), (~is_query).cumsum()) - 1


def _batches(files: Sequence[SampleFile], part: range) -> Iterator[tuple[Any, dict[str, NDArray[Any]], range]]:
    """What each file has of some rows of all; nothing is copied."""
    start = 0
    for file in files:
        length = len(file.embeddings)
        rows = range(max(part.start, start) - start, min(part.stop, start + length) - start)
        if rows.start < rows.stop or (not part and start == 0):
            here = slice(rows.start, rows.stop)
            labels = {name: values[here] for name, values in file.labels.items()}
            yield file.embeddings[here], labels, range(rows.start + start, rows.stop + start)
        start += length


def _by_one_call(
    sides: dict[str, list[SampleFile]], options: dict[str, Any], truth: Any, share: Share
) -> RetrievalResults:
    """By `evaluate`, for what metrics do not have."""
    if share.size > 1 or any(len(files) > 1 or "index" in files[0].labels for files in sides.values()):
        given, *_ = (name for name in _BY_ONE_CALL if name in options)
        raise ValueError(
            f"`--{given.replace('_', '-')}` must come with one file of each side, without `index`, in one process."
        )
    rows: dict[str, tuple[SampleFile, Any]] = {role: (files[0], slice(None)) for role, files in sides.items()}
    file = sides["query"][0]
    if len(sides) == 1 and file.roles is not None:
        rows = {"query": (file, file.roles.nonzero()[0]), "gallery": (file, (~file.roles).nonzero()[0])}
    arrays: dict[str, Any] = {}
    for role, (file, chosen_rows) in rows.items():
        arrays[role] = file.embeddings[chosen_rows]
        given_labels = {name: each for name, each in file.labels.items() if role in LABELS[name].sides}
        arrays |= {f"{role}_{name}": each[chosen_rows] for name, each in given_labels.items()}
    return evaluate(**arrays, ground_truth=truth, **options)


def _name_bad_rows(sides: Mapping[str, Sequence[SampleFile]]) -> None:
    """Raise if some embeddings are not finite: their file and rows."""
    for file in (file for files in sides.values() for file in files):
        (embeddings,) = _arrays.as_tensors(file.embeddings)
        bad = non_finite_rows(embeddings).tolist()
        if bad:
            raise ValueError(
                f"{file.path}: embeddings must be finite; got {len(bad)} rows that are not, first {bad[0]}."
            )
