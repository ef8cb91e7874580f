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

NEED_EMBEDDINGS = ("similarity", "packed", "rerank", "multi_query", "stream", "order")
"""options that say how embeddings are read or compared"""
_NEED_ITEMS = ("ground_truth", "rerank", "multi_query", "draw", "report", "index", "groups", "distances", "scores")
"""options, labels and kinds of files that need the items of a gallery"""
TIES_BY_PLACE = ("stable",)
"""tie policies that need places in a gallery; their table needs torch, so a test compares both"""


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
        UsageError: Files are missing, or come in two ways.
        ValueError: An option needs what another one excludes.
    """
    if command == "evaluate":
        _check_evaluate(arguments, options)
    elif command == "lists":
        _check_lists(arguments)
    if getattr(arguments, "report", None) is not None or getattr(arguments, "pictures", None) is not None:
        require("A report or a picture", "matplotlib")
    for word in _input_files(command, arguments, options):
        for path in files_of(word):
            if not Path(path).exists():
                raise FileNotFoundError(f"There is no file {path!r}.")


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
        FileNotFoundError: a pattern without a match.
    """
    if Path(word).exists() or not glob.has_magic(word):
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


def check_matrix_options(kind: str, given: Mapping[str, Any]) -> None:
    """Raise if an option that needs embeddings is given beside a matrix.

    Raises:
        ValueError: One is given.
    """
    for name in NEED_EMBEDDINGS:
        if given.get(name) not in (None, False):
            raise ValueError(f"`--{name.replace('_', '-')}` must come with embeddings; got {kind}.")


def check_streamed(given: Mapping[str, Any]) -> None:
    """Raise if an option, a label or a kind of file that is given needs the items of the gallery, or none is there.

    Raises:
        ValueError: One is given, or there is no gallery.
    """
    needs = [name for name in _NEED_ITEMS if given.get(name)]
    ties = given.get("ties")
    if ties in TIES_BY_PLACE:
        needs.append(f"ties {ties}")
    if needs:
        raise ValueError(f"`--stream` must come without `{needs[0]}`, as it drops the items of the gallery; got both.")
    if not given["gallery"]:
        raise ValueError("`--stream` must come with the files of a gallery; got none.")


def _check_evaluate(arguments: SimpleNamespace, options: Mapping[str, Any]) -> None:
    """Raise if options of `evaluate` do not fit each other, or its source."""
    source = find_source(arguments)
    every_option = {**vars(arguments), **options}
    if source.kind is not None:
        check_matrix_options(f"`--{source.kind}`", every_option)
    if arguments.stream:
        check_streamed(every_option)
    if arguments.ground_truth is None and (arguments.truth_form or arguments.from_one):
        raise UsageError("`--truth-form` and `--from-one` must come with `--ground-truth`; got none")


def _check_lists(arguments: SimpleNamespace) -> None:
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
