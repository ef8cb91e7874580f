"""`evaluate`: embeddings in files, mapped and never copied, by the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    parser.add_argument("--file-names", default="market1501", metavar="PATTERN", help="how file names hold labels")
    parser.add_argument("--ground-truth", metavar="FILE", help="lists of positives and junk, by the numbers of items")
    added = add_options(
        parser, evaluate, words=(Protocol, EmbeddingMetric, find_relevance, evaluate), without=_FROM_FILES
    )
    add_outputs(parser)
    arguments = parser.parse_args(words)
    outputs, options = Outputs(arguments), chosen(parser, arguments, added)
    # A protocol with its changes means the same to functions and metrics, to which None is the protocol's own value.
    fields = {name: options.pop(name) for name in PROTOCOL_FIELDS if name in options}
    protocol = find_protocol(options.get("protocol", "market1501"))
    protocol.check_relevance(fields, lists=arguments.ground_truth is not None)
    options["protocol"] = protocol.changed(fields)
    sides = _read_sides(arguments)
    with joined() as share:
        try:
            results = _evaluated(sides, options, arguments, share, in_full=outputs.report is not None)
        except ValueError:
            _name_bad_rows(sides)
            raise
        if results.counts.not_ranked:
            _name_bad_rows(sides)
        return outputs.write({"": results}) if share.process == 0 else 0


def _read_sides(arguments: Namespace) -> dict[str, list[SampleFile]]:
    """The files of each side, with their labels; only the queries' where there is no gallery."""
    names = named_values("--names", arguments.names)
    if arguments.gallery:
        given = {"query": arguments.query, "gallery": arguments.gallery}
        sides = {role: read_samples(paths, role=role, names=names) for role, paths in given.items()}
    else:
        sides = _both_in_one(arguments.query, names)
    for guess in dict.fromkeys(guess for files in sides.values() for file in files for guess in file.guesses):
        say(guess)
    if arguments.labels:
        _add_labels(sides, arguments, names)
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


def _both_in_one(path: str, names: Mapping[str, str]) -> dict[str, list[SampleFile]]:
    """The sides of a file with arrays of both; without these all samples are queries, searched among the others."""
    sides = {role: read_samples(path, role=role, names=names) for role in ("query", "gallery")}
    # Without arrays for each side, both have found the same ones.
    query, gallery = ([file.guesses for file in files] for files in sides.values())
    if query == gallery:
        del sides["gallery"]
        say("no gallery: each item is searched among all others")
    return sides


def _add_labels(sides: dict[str, list[SampleFile]], arguments: Namespace, names: Mapping[str, str]) -> None:
    """Give the files the labels of tables."""
    said, tables = " and ".join(arguments.labels), [_read_table(path, names, arguments) for path in arguments.labels]
    if len(tables) == 1 and len(sides) == 2:
        tables = _by_side(tables[0], said, sum(len(file.embeddings) for file in sides["query"]))
    if len(tables) != len(sides):
        raise ValueError(f"`--labels` must be one table, or one of each side; got {len(tables)}.")
    for (role, files), table in zip(sides.items(), tables, strict=True):
        ends = [*accumulate(len(file.embeddings) for file in files)]
        table.pop("roles", None)  # of one side
        for name, values in table.items():
            if len(values) != ends[-1]:
                raise ValueError(
                    f"{said}: `{name}` must have a row for each of {ends[-1]} {role} embeddings; got {len(values)}."
                )
            for file, end in zip(files, ends, strict=True):
                if name in file.labels:
                    raise ValueError(f"{said}: `{name}` must come once; got it from {file.path}, too.")
                file.labels[name] = values[end - len(file.embeddings) : end]


def _read_table(path: str, names: Mapping[str, str], arguments: Namespace) -> dict[str, NDArray[Any]]:
    """The labels of a table, from its columns or from the names of files in it."""
    guesses: list[str] = []
    table = read_labels(path, names=names, guesses=guesses)
    paths = table.pop("names", None)
    if paths is not None and "identities" not in table:
        table |= labels_from_names(paths, arguments.file_names)
        guesses.append(f"{path}: labels from file names as in {arguments.file_names}")
    for guess in guesses:
        say(guess)
    return table


def _by_side(table: dict[str, NDArray[Any]], said: str, num_queries: int) -> list[dict[str, NDArray[Any]]]:
    """The rows of queries and of the gallery: queries come first, unless a column says it."""
    is_query = table.pop("roles", None)
    if is_query is None:
        is_query = np.arange(min(map(len, table.values()))) < num_queries
        say(f"{said}: the first {num_queries} rows as those of the queries")
    return [{name: each[side] for name, each in table.items()} for side in (is_query, ~is_query)]


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
        numbers = {"index": np.arange(total)} if truth is not None else {}
        # Queries are sent to all processes, so that one of them may have all.
        is_alone = role == "query" and len(sides) == 2
        part = share.of(total) if not is_alone else range(total if share.process == 0 else 0)
        for embeddings, labels, rows in _batches(files, part):
            labels |= {name: values[rows.start : rows.stop] for name, values in numbers.items()}
            metric.update(embeddings, is_query=role == "query" if len(sides) == 2 else None, **labels)
    has_cameras = all("cameras" in file.labels for files in sides.values() for file in files)
    return metric.results(nearest=10 if in_full else 0, camera_pairs=in_full and has_cameras)


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
    arrays: dict[str, Any] = {role: files[0].embeddings for role, files in sides.items()}
    for role, files in sides.items():
        own = {name: each for name, each in files[0].labels.items() if role in LABELS[name].sides}
        arrays |= {f"{role}_{name}": each for name, each in own.items()}
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
