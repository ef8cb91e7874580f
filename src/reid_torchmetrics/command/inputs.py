"""Checks before anything large is imported: of options that belong together, and of files that must exist."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

from reid_torchmetrics import _hints, _names
from reid_torchmetrics._extras import require
from reid_torchmetrics.files import natural_order

from .options import command_options
from .terminal import UsageError

NEED_EMBEDDINGS = ("similarity", "packed", "rerank", "multi_query", "stream", "order")
"""options about reading or comparing embeddings"""
_NEED_ITEMS = (
    "ground_truth",
    "rerank",
    "multi_query",
    "gallery_draw",
    "report",
    "index",
    "groups",
    "distances",
    "scores",
)
"""options, labels and kinds of files that need the items of a gallery"""
_NEED_EXACT = ("recall_k", "similarity", "packed", "order")
"""options of `lists` about exact search"""


def check_inputs(command: str, arguments: SimpleNamespace, options: Mapping[str, Any]) -> list[str]:
    """Return the files to read; raise unless options fit them, as far as that can be checked without reading a file.

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
    if getattr(arguments, "images", None) is not None:
        _check_images(arguments, options)
    paths = list(chain.from_iterable(map(find_files, _input_words(command, arguments, options))))
    for path in paths:
        if not Path(path).exists():
            raise FileNotFoundError(f"There is no file {path!r}.")
    return paths


def find_source(arguments: SimpleNamespace) -> tuple[str, Sequence[str] | str, _names.MatrixKind | None]:
    """Return the words for the queries and for the gallery, and the kind of a matrix, None for one that its name says.

    Raises:
        UsageError: The command line has neither, or several of them.
    """
    distances: Any = getattr(arguments, "distances", None)
    scores: Any = getattr(arguments, "scores", None)
    if arguments.query is not None:
        matrix_options = []
        if distances is not None:
            matrix_options.append("`--distances`")
        if scores is not None:
            matrix_options.append("`--scores`")
        if matrix_options:
            rule = f"{' and '.join(matrix_options)} must come without files of embeddings, and labels by `--labels`"
            raise UsageError(f"{rule}; got {arguments.query!r}, too")
        return arguments.query, arguments.gallery or arguments.query, None
    if (distances is None) == (scores is None):
        got = "none" if distances is None else "both `--distances` and `--scores`"
        raise UsageError(
            f"`query` must be a file of embeddings, or `--distances` or `--scores` a file of a matrix; got {got}"
        )
    if distances is not None:
        return distances, distances, "distances"
    return scores, scores, "scores"


def find_files(word: str) -> list[str]:
    """Return the files that a word names, in natural order: a file, a folder of arrays by name, or a pattern.

    Raises:
        FileNotFoundError: a pattern without a match.
    """
    if Path(word).exists() or not glob.has_magic(word):
        return [word]
    matches = sorted(glob.glob(word, recursive=True), key=natural_order)  # noqa: PTH207 - of any folder
    if not matches:
        raise FileNotFoundError(f"There is no file {word!r}.")
    return matches


def split_array(word: str) -> tuple[str, str | None]:
    """Split a word such as `places.npz:utmQ` into a file and the name of one array in it; None without a name."""
    file, colon, name = word.rpartition(":")
    has_name = colon and Path(file).suffix and not Path(word).exists()
    return (file, name) if has_name else (word, None)


def check_matrix_options(kind: str, options: Mapping[str, Any]) -> None:
    """Raise if an option that needs embeddings comes with a matrix.

    Raises:
        ValueError: There is one.
    """
    for name in NEED_EMBEDDINGS:
        if options.get(name) not in (None, False):
            raise ValueError(f"`{name}` must come with embeddings; got {kind}.")


def check_streamed(inputs: Mapping[str, Any]) -> None:
    """Raise if an option, a label or a kind of file among the inputs needs the items of a gallery in a stream.

    Raises:
        ValueError: There is one, or there is no gallery.
    """
    needs = [name for name in _NEED_ITEMS if inputs.get(name)]
    ties = inputs.get("ties")
    if ties in get_args(_names.TieByPlace):
        needs.append(f"ties={ties!r}")
    if needs:
        raise ValueError(f"`--stream` must come without `{needs[0]}`, as it drops the items of the gallery; got both.")
    if not inputs["gallery"]:
        raise ValueError("`--stream` must come with the files of a gallery; got none.")


def _check_evaluate(arguments: SimpleNamespace, options: Mapping[str, Any]) -> None:
    """Raise unless the options of `evaluate` fit each other, and its source."""
    _, _, kind = find_source(arguments)
    inputs = vars(arguments) | dict(options)
    if kind is not None:
        check_matrix_options(f"`--{kind}`", inputs)
    if arguments.stream:
        check_streamed(inputs)
    if arguments.ground_truth is None and (arguments.ground_truth_form or arguments.one_based):
        raise UsageError("`--ground-truth-form` and `--one-based` must come with `--ground-truth`; got none")


def _check_lists(arguments: SimpleNamespace) -> None:
    """Raise unless the right items of lists come in one way, and options about exact search come with it.

    Raises:
        UsageError: They come in two ways, or in none.
    """
    if arguments.exact:
        if len(arguments.exact) < 2:
            got = _hints.listed(arguments.exact, str)
            raise UsageError(f"`--exact` must name the files of the queries and of the gallery; got {got}")
        if arguments.positives:
            raise UsageError(f"`--exact` must come with labels, not with {arguments.positives!r}; got both")
        if arguments.ground_truth_form:
            raise UsageError("`--ground-truth-form` must come with a file of the right items; got `--exact`")
        return
    for name in _NEED_EXACT:
        if getattr(arguments, name) is not None:
            raise UsageError(f"`{name}` must come with `--exact`; got none")
    if bool(arguments.labels) == bool(arguments.positives):
        got = "both" if arguments.labels else "neither"
        raise UsageError(f"the right items must come as a file, or by `--labels` of queries and gallery; got {got}")
    if arguments.labels and arguments.ground_truth_form:
        raise UsageError("`--ground-truth-form` must come with a file of the right items; got `--labels`")


def _check_images(arguments: SimpleNamespace, options: Mapping[str, Any]) -> None:
    """Raise unless the images are those of a report, and in a folder that exists.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        NotADirectoryError: There is no folder of this name.
        UsageError: There is no report, or an option without images of single samples.
    """
    if arguments.report is None:
        raise UsageError("`--images` must come with `--report`, which shows them; got no report")
    if options.get("multi_query"):
        raise UsageError("`--images` must come without `--multi-query`, by which a query is several images; got both")
    if getattr(arguments, "image_size", None) is not None:
        raise UsageError("`--images` must come without `--image-size`, as the images have their sizes; got both")
    require("A report with images", "PIL")
    if not Path(arguments.images).is_dir():
        raise NotADirectoryError(f"There is no folder {arguments.images!r}.")


def _input_words(command: str, arguments: SimpleNamespace, options: Mapping[str, Any]) -> list[str]:
    """Return the words that name files to read."""
    words: list[str] = []
    for option in command_options(command):
        value = getattr(arguments, option.name, None)
        if value is None or option.group not in ("files", "labels", "exact"):
            continue
        if not (option.is_positional or option.kind == "FILE" or option.name == "exact"):
            continue
        if isinstance(value, str):
            words.append(value)
        else:
            words.extend(value)
    captions = getattr(arguments, "captions", None)
    if captions is not None and not captions.isdecimal():
        words.append(captions)
    fields = {*get_args(_names.LabelField), *(options.get("must_agree") or ()), *(options.get("must_differ") or ())}
    for word in getattr(arguments, "labels", None) or ():
        field, sign, path = word.partition("=")
        file, _ = split_array(path)
        if not sign or Path(word).exists():
            words.append(word)
        elif field in fields or Path(file).exists():  # another field is refused where labels are read
            words.append(file)
    return words
