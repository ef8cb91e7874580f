"""Pairs with their scores: arrays by name, or lists of pairs in text with a file of scores.

VoxCeleb   1 id1/a.wav id2/b.wav
LFW        name 1 4; name 1 other 2            below a header of one or two numbers
others     a b target, a b nontarget (Kaldi); a.jpg b.jpg 1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import Array

from .array_files import FORMATS, UNNAMED, file_error, read_arrays, read_text_lines
from .list_lines import NUMBER
from .table_files import TABLES

PAIR_NAMES = {
    "scores": "scores score similarities similarity sims sim cosines cosine",
    "same": "same is_same issame actual_issame labels label targets target y",
}
"""what an array of pairs may be called, by what it is"""
_FORMS = {
    "first": r"(?P<same>[01])\s+(?P<pair>\S+\s+\S+)",
    "last": r"(?P<pair>\S+\s+\S+)\s+(?P<same>[01]|target|nontarget)",
    "lfw": r"(?P<pair>\S+\s+0*[1-9]\d*(?P<other>\s+\S+)?\s+0*[1-9]\d*)",  # LFW counts images from 1
}
"""what a line of a list of pairs is, by the name of the form"""
_FORMS_IN_WORDS = {
    "first": "1 first second",
    "last": "first second 1; first second target",
    "lfw": "name 1 4 or name 1 other 2",
}


def read_pairs(
    path: str | PathLike[str], scores: str | PathLike[str] | None = None, *, form: _names.PairForm | None = None
) -> tuple[Array, Array]:
    """Read pairs and their scores, for `verify_pairs`.

    Args:
        path: of arrays `scores` and `same` by name, also of columns of a .csv; or, with a file of scores, of a text
            file with a pair in each line, as of LFW, VoxCeleb or Kaldi, or two names and 1 or 0; or of flags alone,
            such as InsightFace's `lfw_list.npy`.
        scores: of a .npy, or of a text file: in each line the score of the pair in the same line of the list, alone or
            before or after the pair.
        form: of the lines of a list of pairs: "first", `1 first second`, as of VoxCeleb; "last", `first second 1` or
            `first second target`; or "lfw", `name 1 4` and `name 1 other 2`. None for the one form that all lines have.

    Returns:
        The scores, float64 [N], higher is closer, and whether the two of a pair are of one identity, bool [N].

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: an unknown `form`, lines that fit several forms, a damaged file, a line of another form, arrays that
            are lacking or not of one length, or scores of other pairs; the message is one line that names the file, and
            the line in it.
    """
    if form is not None:
        _checks.one_of("form", form, _names.PairForm)
    path, beside = Path(path), None if scores is None else Path(scores)
    tables = TABLES.keys() | FORMATS if beside is None else {".csv", ".parquet", *FORMATS}
    is_list = path.suffix.lower() not in tables
    # InsightFace writes an array of flags alone, `lfw_list.npy`.
    flags_alone = () if is_list or beside is None else read_arrays(path, TABLES | FORMATS).get(UNNAMED, ())
    if (is_list or len(flags_alone) > 0) != (beside is not None):
        rule = "scores must be beside `same` in arrays, or in a file for a list of pairs"
        raise file_error(path, rule, beside or "none")
    if beside is not None:
        pairs, same = _read_list(path, form) if is_list else ([], flags_alone)
        is_array = beside.suffix.lower() in FORMATS
        given = read_arrays(beside).get(UNNAMED, ()) if is_array else _read_scores(beside, pairs)
    else:
        arrays = read_arrays(path, TABLES | FORMATS)
        named = [(key, name) for key, names in PAIR_NAMES.items() for name in arrays if name.lower() in names.split()]
        if [key for key, _ in named] != [*PAIR_NAMES]:
            raise file_error(path, "arrays must be `scores` and `same`, one of each", ", ".join(arrays))
        given, same = (arrays[name] for _, name in named)
    values, flags = np.asarray(given).ravel(), np.asarray(same).ravel()
    if values.dtype.kind not in "iuf" or len(values) != len(flags) or not np.isin(flags, (0, 1)).all():
        rule = f"scores must be a number for each of {len(flags)} pairs, and `same` 1 or 0"
        raise file_error(beside or path, rule, f"{values.dtype} {[*np.shape(given)]} and {flags.dtype}")
    return values.astype(np.float64), flags.astype(bool)


def _read_list(path: Path, form: str | None) -> tuple[list[str], Sequence[bool]]:
    """The names of each pair, and whether they are of one identity, by a form that all lines have."""
    lines = [*read_text_lines(path)]
    lines = lines[1:] if lines and re.fullmatch(r"\d+(\s+\d+)?", lines[0][1]) else lines
    if not lines:
        raise file_error(path, f"lines must all be of one form, {_in_words(_FORMS)}", "no line")
    forms = [form] if form is not None else _fitting_forms(lines)
    if len(forms) > 1:
        raise file_error(
            path,
            f"lines must fit one form, which `form` says (`--form` in the command), one of {', '.join(forms)}",
            f"lines that are {_in_words(forms)}",
        )
    pairs, same = [], []
    for where, line in lines:
        if not (found := re.fullmatch(_FORMS[forms[0]], line)):
            raise file_error(where, f"lines must all be of one form, {_in_words(_FORMS)}", repr(line[:80]))
        pairs.append(" ".join(found["pair"].split()))
        # LFW names a person once in a pair of one.
        same.append(found["same"] in ("1", "target") if "same" in found.groupdict() else found["other"] is None)
    return pairs, same


def _fitting_forms(lines: Sequence[tuple[str, str]]) -> list[str]:
    """The forms that all lines have; if none has all, the one that has most lines from the first on."""
    num_fitting = {}
    for name, pattern in _FORMS.items():
        fits = [re.fullmatch(pattern, line) is not None for _, line in lines]
        num_fitting[name] = fits.index(False) if False in fits else len(fits)
    most = max(num_fitting.values())
    forms = [name for name, number in num_fitting.items() if number == most]
    return forms if most == len(lines) else forms[:1]


def _in_words(forms: Iterable[str]) -> str:
    return "; ".join(_FORMS_IN_WORDS[form] for form in forms)


def _read_scores(path: Path, pairs: list[str]) -> list[float]:
    """The score in each line; one with more than it must name the pair."""
    numbers = []
    for place, (where, line) in enumerate(read_text_lines(path)):
        pair = pairs[place] if place < len(pairs) else "no pair"
        number = " ".join(line.split()).removeprefix(f"{pair} ").removesuffix(f" {pair}")
        if not re.fullmatch(NUMBER, number):
            raise file_error(where, f"a line must be the score of {pair}", repr(line[:80]))
        numbers.append(float(number))
    return numbers
