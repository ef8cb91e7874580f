"""Pairs with their scores: arrays by name, or lists of pairs in text with a file of scores.

VoxCeleb   1 id1/a.wav id2/b.wav
LFW        name 1 4; name 1 other 2            below a header of one or two numbers
others     a b target, a b nontarget (Kaldi); a.jpg b.jpg 1
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array

from .array_files import FORMATS, UNNAMED, file_error, read_arrays
from .list_lines import choose_form
from .table_files import TABLES
from .text_files import are_decimal, parse_floats, read_text_lines

_WORDS_OF_FLAGS = {"True": True, "False": False}
PAIR_NAMES = {
    "scores": "scores score similarities similarity sims sim cosines cosine",
    "same": "same is_same issame actual_issame labels label targets target y",
}
"""names of arrays of pairs by their meaning"""
_FORMS = {
    "first": r"(?P<same>[01])\s+(?P<pair>\S+\s+\S+)",
    "last": r"(?P<pair>\S+\s+\S+)\s+(?P<same>[01]|target|nontarget)",
    "lfw": r"(?P<pair>\S+\s+0*[1-9]\d*(?P<other>\s+\S+)?\s+0*[1-9]\d*)",  # LFW counts images from 1
}
"""patterns of the lines of a list of pairs, by the name of the form"""
_FORMS_IN_WORDS = {
    "first": "1 first second",
    "last": "first second 1; first second target",
    "lfw": "name 1 4 or name 1 other 2",
}

_PLACE_OF_SCORES = "scores must be beside `same` in arrays, or in a file for a list of pairs"


def read_pairs(
    path: str | PathLike[str], scores: str | PathLike[str] | None = None, *, form: _names.PairForm | None = None
) -> tuple[Array, Array]:
    """Read pairs and their scores, for `verify_pairs`.

    Args:
        path: a file of arrays `scores` and `same` by name, or of such columns; or, with a file of scores, a text file
            with a pair in each line, as from LFW, VoxCeleb or Kaldi, or two names and 1 or 0; or an array of flags
            alone, such as InsightFace's `lfw_list.npy`.
        scores: a .npy, or a text file: in each line the score of the pair in the same line of the list, alone or
            before or after the pair.
        form: the form of the lines of a list of pairs; None finds it in the file.
            "first": `1 first second`, as in VoxCeleb's list.
            "last": `first second 1` or `first second target`.
            "lfw": `name 1 4` and `name 1 other 2`.

    Returns:
        The scores, float64 [N], higher is closer, and whether the two of a pair are of one identity, bool [N].

    Raises:
        OSError: There is no such file, or it may not be read.
        ValueError: An unknown `form`, lines that fit several forms, a damaged file, a line of another form, arrays that
            are lacking or not of one length, or scores of other pairs; the message is one line that names the file, and
            the line in it.
    """
    if form is not None:
        _checks.one_of("form", form, _names.PairForm)
    path = Path(path)
    if scores is None:
        if path.suffix.lower() not in TABLES | FORMATS:
            raise file_error(path, _PLACE_OF_SCORES, "none")
        arrays = read_arrays(path, TABLES | FORMATS)
        arrays_of_scores = _arrays_called(arrays, "scores")
        arrays_of_flags = _arrays_called(arrays, "same")
        if len(arrays_of_scores) != 1 or len(arrays_of_flags) != 1:
            rule = "arrays must be `scores`, higher for closer pairs (minus distances), and `same`, one of each"
            raise file_error(path, rule, _checks.listed(filter(None, arrays), str) or "no names")
        (score_values,) = arrays_of_scores
        (same,) = arrays_of_flags
    else:
        score_values, same = _read_with_scores(path, Path(scores), form)
    values = np.asarray(score_values).ravel()
    flags = np.asarray(same).ravel()
    if flags.dtype.kind == "U" and np.isin(flags, list(_WORDS_OF_FLAGS)).all():  # pandas writes them into tables
        flags = np.array([_WORDS_OF_FLAGS[word] for word in flags.tolist()])
    if values.dtype.kind not in "iuf" or len(values) != len(flags) or not np.isin(flags, (0, 1)).all():
        rule = f"scores must be a number for each of {len(flags)} pairs, and `same` 1 or 0"
        others = [flag for flag in flags.tolist() if flag not in (0, 1)]
        got = f"{values.dtype} {list(np.shape(score_values))} and {repr(others[0]) if others else flags.dtype}"
        raise file_error(path if scores is None else Path(scores), rule, got)
    return values.astype(np.float64), flags.astype(bool)


def _arrays_called(arrays: Mapping[str, Any], key: str) -> list[Any]:
    """Return the arrays with one of the names for a key of `PAIR_NAMES`."""
    names = PAIR_NAMES[key].split()
    return [values for name, values in arrays.items() if name.lower() in names]


def _read_with_scores(path: Path, scores: Path, form: str | None) -> tuple[Any, Any]:
    """Return the scores from one file, and the flags from a list of pairs, or from an array alone."""
    pairs: list[str] = []
    if path.suffix.lower() in {".csv", ".parquet", *FORMATS}:
        arrays = read_arrays(path, TABLES | FORMATS)
        same = arrays.get(UNNAMED, ())  # as InsightFace's `lfw_list.npy`
        flags = _arrays_called(arrays, "same")
        if len(flags) == 1 and not _arrays_called(arrays, "scores"):
            (same,) = flags
        if len(same) == 0:
            raise file_error(path, _PLACE_OF_SCORES, scores)
    else:
        pairs, same = _read_list(path, form)
    if scores.suffix.lower() in FORMATS:
        return read_arrays(scores).get(UNNAMED, ()), same
    return _read_scores(scores, pairs), same


def _read_list(path: Path, form: str | None) -> tuple[list[str], list[bool]]:
    """Return the names of each pair, and whether they are of one identity, by the form of all lines.

    Raises:
        ValueError: Lines of several forms, or lines that fit several forms.
    """
    lines = list(read_text_lines(path))
    if lines and re.fullmatch(r"\d+(\s+\d+)?", lines[0][1]):  # LFW's header
        lines = lines[1:]
    one_form_rule = f"lines must all be of one form, {'; '.join(_FORMS_IN_WORDS.values())}"
    if not lines:
        raise file_error(path, one_form_rule, "no line")
    if form is None:
        num_fitting = {name: _count_fitting(lines, pattern) for name, pattern in _FORMS.items()}
        form = choose_form(path, len(lines), num_fitting, _FORMS_IN_WORDS)
    pairs = []
    same = []
    for where, line in lines:
        match = re.fullmatch(_FORMS[form], line)
        if match is None:
            raise file_error(where, one_form_rule, repr(line[:80]))
        pairs.append(" ".join(match["pair"].split()))
        if "same" in match.groupdict():
            same.append(match["same"] in ("1", "target"))
        else:  # LFW names a person once in a pair of one identity
            same.append(match["other"] is None)
    return pairs, same


def _count_fitting(lines: Sequence[tuple[str, str]], pattern: str) -> int:
    """Return the number of lines with a pattern, from the first line to the first one without it."""
    fits = [re.fullmatch(pattern, line) is not None for _, line in lines]
    return fits.index(False) if False in fits else len(fits)


def _read_scores(path: Path, pairs: Sequence[str]) -> list[float]:
    """Return the score in each line; a line with more than a score must name the pair.

    Raises:
        ValueError: Another line.
    """
    numbers: list[float] = []
    for index, (where, line) in enumerate(read_text_lines(path)):
        pair = pairs[index] if index < len(pairs) else "no pair"
        number = " ".join(line.split()).removeprefix(f"{pair} ").removesuffix(f" {pair}")
        score = parse_floats([number]) if are_decimal(number) else None
        if score is None:
            raise file_error(where, f"a line must be the score of {pair}", repr(line[:80]))
        numbers += score
    return numbers
