"""The command as an entry point: the files of a problem, its options as words, and the numbers that are printed."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reid_torchmetrics import GalleryDraw
from reid_torchmetrics.command import main
from tests.contracts.entry_points import PROTOCOL, TIES_BY_PLACE, TIES_OF_GROUPS, EntryPoint, Numbers, whole_lists
from tests.contracts.problems import Problem

SIDES = ("query", "gallery")


class CommandError(ValueError):
    """What the command said before it ended with another status than 0."""


def run(words: list[str]) -> dict[str, float]:
    """The numbers that the command prints."""
    out, err, show = io.StringIO(), io.StringIO(), warnings.showwarning
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([*words, "--json", "-"])
    finally:
        warnings.showwarning = show
    if status:
        raise CommandError(err.getvalue())
    measures = json.loads(out.getvalue())["measures"]
    return {name: np.nan if row["value"] is None else row["value"] for name, row in measures.items()}


def words_of(problem: Problem, folder: Path) -> list[str]:
    """The options of a problem."""
    words, config = list[str](), dict[str, Any]()
    for name, value in problem.options.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, GalleryDraw):
            words += [f"{flag}.shots", str(value.shots)]
        elif isinstance(value, Mapping):
            words += [flag, json.dumps(value)]
        elif isinstance(value, bool):
            words += [flag if value else f"--no-{name.replace('_', '-')}"]
        elif isinstance(value, tuple) and not value:
            config[name] = []
        elif isinstance(value, tuple):
            words += [flag, *map(str, value)]
        else:
            words += [flag, str(value)]
    if config:
        (folder / "options.yaml").write_text(json.dumps(config), encoding="utf-8")
        words += ["--config", str(folder / "options.yaml")]
    # What only functions take.
    if problem.junk_pairs is not None:
        words += ["--junk-pairs", "junk_pairs.npy"]
    if problem.row.has_own_places:
        words += ["--self-index", "self_index.npy"]
    return words


def columns_of(problem: Problem, side: str, *, repeats: bool = True) -> dict[str, list[Any]]:
    """The labels of a side by name, and its embeddings; with numbers of samples two rows are repeated."""
    columns: dict[str, list[Any]] = {"embeddings": getattr(problem, side).tolist()}
    for name, values in problem.labels.items():
        if getattr(values, side) is not None:
            labels = problem.as_argument(name, getattr(values, side))
            columns |= labels if isinstance(labels, Mapping) else {name: labels}
    if "index" in columns and repeats:
        columns = {name: values + values[:2] for name, values in columns.items()}
    return columns


def as_array(name: str, values: list[Any]) -> np.ndarray:
    """A column as an array of a file, in which a missing number is NaN and a missing name is empty."""
    if name == "embeddings":
        return np.array(values, dtype=np.float32)
    if any(isinstance(value, str) for value in values):
        return np.array([value or "" for value in values])
    return np.array([np.nan if value is None else value for value in values])


def arrays_by_name(problem: Problem, folder: Path, *, repeats: bool = True) -> list[str]:
    """A file of each side, with embeddings and labels."""
    sides = SIDES[:1] if problem.row.is_leave_one_out else SIDES
    for side in sides:
        columns = columns_of(problem, side, repeats=repeats)
        np.savez(folder / f"{side}.npz", **{name: as_array(name, values) for name, values in columns.items()})
    return [str(folder / f"{side}.npz") for side in sides]


def tables(problem: Problem, folder: Path) -> list[str]:
    """A file of the embeddings of each side, and a table of its labels; what no cell can hold is an array."""
    sides = SIDES[:1] if problem.row.is_leave_one_out else SIDES
    words, labels = [], []
    for side in sides:
        columns = columns_of(problem, side)
        np.save(folder / f"{side}.npy", as_array("embeddings", columns.pop("embeddings")))
        words.append(str(folder / f"{side}.npy"))
        if problem.row.has_several:
            np.save(folder / f"several_{side}.npy", np.array(columns.pop("identities")))
            labels.append(f"identities={folder / f'several_{side}.npy'}")
        if "positions" in columns:
            columns |= dict(zip(("easting", "northing"), zip(*columns.pop("positions"), strict=True), strict=True))
        if columns:
            _write_table(folder / f"{side}.csv", columns)
            labels.append(str(folder / f"{side}.csv"))
    return [*words, "--labels", *labels] if labels else words


def _write_table(path: Path, columns: Mapping[str, Any]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in zip(*columns.values(), strict=True))


def scores(problem: Problem, folder: Path) -> list[str]:
    """One file with the scores of all pairs, and the labels of both sides."""
    arrays = {"scores": problem.scores.double().numpy()}
    for side in SIDES:
        for name, values in columns_of(problem, side, repeats=False).items():
            if name != "embeddings":
                arrays[f"{side}_{name}"] = as_array(name, values)
    np.savez(folder / "scores.npz", **arrays)
    return [str(folder / "scores.npz")]


def by_evaluate(
    problem: Problem, folder: Path, *, files: Callable[..., list[str]] = arrays_by_name, more: tuple[str, ...] = ()
) -> Numbers:
    """`evaluate` with embeddings or scores in files."""
    words = ["evaluate", *files(problem, folder), *more, *words_of(problem, folder), "--ties", problem.row.ties]
    words += [] if files is scores else ["--similarity", "dot"]
    truth = problem.ground_truth()
    if truth is not None:
        words += ["--ground-truth", _write_truth(truth, folder)]
    return Numbers(run(words))


def _write_truth(truth: Any, folder: Path) -> str:
    path = folder / "truth.json"
    path.write_text(json.dumps(truth if isinstance(truth, list) else truth.tolist()), encoding="utf-8")
    return str(path)


def by_lists(problem: Problem, folder: Path) -> Numbers:
    """`lists` with the whole gallery in the order of each query."""
    np.save(folder / "lists.npy", np.array(whole_lists(problem)))
    words = ["lists", str(folder / "lists.npy"), "--protocol", PROTOCOL, *words_of(problem, folder)]
    if problem.row.ties in TIES_OF_GROUPS:
        words += ["--ties", problem.row.ties]
    truth = problem.ground_truth()
    if truth is not None:
        words.insert(2, _write_truth(truth, folder))
    if problem.labels:
        files = arrays_by_name(problem, folder, repeats=False)
        words += ["--labels", *files, *(files if problem.row.is_leave_one_out else ())]
    return Numbers(run(words))


_OF_COMMAND = {
    "junk_pairs": "unrecognized arguments: --junk-pairs",
    "self_index": "unrecognized arguments: --self-index",
    "names of lists beside labels": "`--positive-lists` must come with lists for every query; got labels",
}
_OF_FILES = {**_OF_COMMAND, "sequences beside lists": "`sequences` must come without `--ground-truth`"}
_OF_TABLES = {
    **_OF_FILES,
    # Where another column is a label, the command leaves these alone.
    "labels beside lists": "a column must be a label by its name, or by `--names identities=NAME`; got side",
}
_OF_SCORES = {
    **_OF_COMMAND,
    "label index": "`--scores` must come without `index`",
    "cameras beside lists": "`--ground-truth` must come without labels; got `cameras` of the query",
    "sequences beside lists": "`--ground-truth` must come without labels; got `sequences` of the query",
}
_OF_STREAMS = {
    **_OF_COMMAND,
    "label index": "`--stream` must come without `index`",
    "label groups": "`--stream` must come without `groups`",
    "ground_truth": "`--stream` must come without `--ground-truth`",
    "cmc_same_camera": "one camera rule.*cmc_same_camera=.*which has two",
    "leave_one_out": "`--stream` must come with the files of a gallery",
    **{f"ties {name}": f"`--stream` must come without `--ties {name}`" for name in TIES_BY_PLACE},
    "gallery_draw": "`--stream` must come without `--gallery-draw`",
}
_OF_LISTS = {
    **_OF_COMMAND,
    "label index": "`index` must be left out, as lists hold positions of rows, or names",
    "label groups": "Unexpected keyword arguments: `groups` of the gallery",
    "ground_truth as bool matrix": "`positives` must hold items that are all ints, or all strings; got bool",
    "leave_one_out": "`--leave-one-out` must come with labels|the rows of queries in the gallery must hold every",
    "cameras beside lists": "as a file, or by `--labels` of queries and gallery; got both",
    "sequences beside lists": "as a file, or by `--labels` of queries and gallery; got both",
    "labels beside lists": "as a file, or by `--labels` of queries and gallery; got both",
    **{f"ties {name}": "unrecognized arguments: --ties" for name in TIES_OF_GROUPS},
    "gallery_draw": "`--protocol` must draw no gallery",
    "gallery_draw_for_map": "unrecognized arguments: --no-gallery-draw-for-map",
    "queries_in_draw": "unrecognized arguments: --queries-in-draw",
}
COMMAND_LINES = {
    "evaluate of files": EntryPoint(by_evaluate, _OF_FILES),
    "evaluate of tables": EntryPoint(partial(by_evaluate, files=tables), _OF_TABLES),
    "evaluate of scores in files": EntryPoint(partial(by_evaluate, files=scores), _OF_SCORES),
    "evaluate of a stream": EntryPoint(partial(by_evaluate, more=("--stream",)), _OF_STREAMS),
    "lists of files": EntryPoint(by_lists, _OF_LISTS),
}
"""the forms of the command"""
