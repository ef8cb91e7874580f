"""Checks before anything large is imported: of options that belong together, and of files that must exist."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

from reid_torchmetrics import _names
from reid_torchmetrics._extras import require
from reid_torchmetrics._files import natural_order

from .options import rows
from .terminal import UsageError


class Source(NamedTuple):
    """The words of a command line that name embeddings, or a matrix."""

    query: str
    gallery: Sequence[str] | str
    kind: _names.MatrixKind | None
    """None: what the names of arrays say"""


def check_inputs(command: str, arguments: SimpleNamespace, options: Mapping[str, Any]) -> None:
    """Check what is known without reading a file.

    Raises:
        FileNotFoundError: There is no file of a name, or none of a pattern.
        ModuleNotFoundError: Matplotlib is not installed, for a report or pictures.
        UsageError: Options contradict each other.
    """
    if command == "evaluate":
        find_source(arguments)
        if arguments.ground_truth is None and (arguments.truth_form or arguments.from_one):
            raise UsageError("`--truth-form` and `--from-one` must come with `--ground-truth`; got none")
    elif command == "lists":
        _check_truth(arguments)
    if getattr(arguments, "report", None) is not None or getattr(arguments, "pictures", None) is not None:
        require("A report or a picture", "matplotlib")
    for path in _input_files(command, arguments, options):
        files_of(path)


def find_source(arguments: SimpleNamespace) -> Source:
    """Return the files of embeddings, or the file of a matrix.

    Raises:
        UsageError: Neither is given, or several are.
    """
    given = {"distances": getattr(arguments, "distances", None), "scores": getattr(arguments, "scores", None)}
    matrices = {name: path for name, path in given.items() if path is not None}
    if arguments.query is None and len(matrices) != 1:
        came = "both `--distances` and `--scores`" if matrices else "none"
        raise UsageError(
            f"`query` must be a file of embeddings, or `--distances` or `--scores` a file of a matrix; got {came}"
        )
    if arguments.query is None:
        if "distances" in matrices:
            return Source(matrices["distances"], matrices["distances"], "distances")
        return Source(matrices["scores"], matrices["scores"], "scores")
    if matrices:
        options = " and ".join(f"`--{name}`" for name in matrices)
        rule = f"{options} must come without files of embeddings, and labels by `--labels`"
        raise UsageError(f"{rule}; got {arguments.query!r}, too")
    return Source(arguments.query, arguments.gallery or arguments.query, None)


def files_of(word: str) -> list[str]:
    """The files that a word names, in natural order: a file, a folder of arrays by name, or a pattern.

    Raises:
        FileNotFoundError: no such file, or a pattern without a match.
    """
    if Path(word).exists():
        return [word]
    matching = sorted(glob.glob(word, recursive=True), key=natural_order)  # noqa: PTH207 - of any folder
    if not matching:
        raise FileNotFoundError(f"There is no file {word!r}.")
    return matching


def split_array(word: str) -> tuple[str, str | None]:
    """A file and the name of one array in it, behind a colon as in `places.npz:utmQ`; None without a name."""
    file, colon, name = word.rpartition(":")
    is_named = colon and Path(file).suffix and not Path(word).exists()
    return (file, name) if is_named else (word, None)


def _check_truth(arguments: SimpleNamespace) -> None:
    """Raise unless the right items of lists come in one way.

    Raises:
        UsageError: They come in two ways, or in none.
    """
    if bool(arguments.labels) == bool(arguments.positives):
        came = "both" if arguments.labels else "neither"
        raise UsageError(f"the right items must come as a file, or by `--labels` of queries and gallery; got {came}")
    if arguments.labels and arguments.truth_form:
        raise UsageError("`--truth-form` must come with a file of the right items; got `--labels`")


def _input_files(command: str, arguments: SimpleNamespace, options: Mapping[str, Any]) -> Iterator[str]:
    """The words that name files to read."""
    for option in rows(command):
        value = getattr(arguments, option.name, None)
        is_input = option.group in ("files", "labels") and (option.is_positional or option.kind == "FILE")
        if is_input and value is not None:
            yield from [value] if isinstance(value, str) else value
    captions = getattr(arguments, "captions", None)
    if captions is not None and not captions.isdecimal():
        yield captions
    extra_labels = [*(options.get("must_agree") or ()), *(options.get("must_differ") or ())]
    fields = (*get_args(_names.LabelField), *extra_labels)
    for word in getattr(arguments, "labels", None) or ():
        field, sign, path = word.partition("=")
        if not sign:
            yield word
        elif field in fields and not Path(word).exists():  # another field is refused where labels are read
            yield split_array(path)[0]
