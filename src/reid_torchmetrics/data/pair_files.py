"""Pairs with their scores: arrays by name, or lists of pairs in text with a file of scores.

VoxCeleb   1 id1/a.wav id2/b.wav
LFW        name 1 4; name 1 other 2            below a header of one or two numbers
others     a b target, a b nontarget (Kaldi); a.jpg b.jpg 1
"""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path

import numpy as np

from reid_torchmetrics._arrays import Array

from .array_files import FORMATS, UNNAMED, read_arrays, refused, text_lines
from .list_files import NUMBER
from .sample_files import TABLES

PAIR_NAMES = {
    "scores": "scores score similarities similarity sims sim cosines cosine",
    "same": "same is_same issame actual_issame labels label targets target y",
}
"""what an array of pairs may be called, by what it is"""
_FORMS = (
    r"(?P<same>[01])\s+(?P<pair>\S+\s+\S+)",
    r"(?P<pair>\S+\s+\d+(?P<other>\s+\S+)?\s+\d+)",
    r"(?P<pair>\S+\s+\S+)\s+(?P<same>[01]|target|nontarget)",
)
_FORMS_IN_WORDS = "1 first second; first second 1; first second target; name 1 4 or name 1 other 2"


def read_pairs(path: str | PathLike[str], scores: str | PathLike[str] | None = None) -> tuple[Array, Array]:
    """Read pairs and their scores, for `verify_pairs`.

    Args:
        path: of arrays `scores` and `same` by name, also of columns of a .csv; or, with a file of scores, of a text
            file with a pair in each line, as of LFW, VoxCeleb or Kaldi, or two names and 1 or 0.
        scores: of a .npy, or of a text file: in each line the score of the pair in the same line of the list, alone or
            before or after the pair.

    Returns:
        The scores, float64 [N], higher is closer, and whether the two of a pair are of one identity, bool [N].

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: a damaged file, a line of another form, arrays that are lacking or not of one length, or scores of
            other pairs; the message is one line that names the file, and the line in it.
    """
    path, beside = Path(path), None if scores is None else Path(scores)
    if (path.suffix.lower() in TABLES | FORMATS) != (beside is None):
        rule = "scores must be beside `same` in arrays, or in a file for a list of pairs"
        raise refused(path, rule, beside or "none")
    if beside is not None:
        pairs, same = _read_list(path)
        is_array = beside.suffix.lower() in FORMATS
        given = read_arrays(beside).get(UNNAMED, ()) if is_array else _read_scores(beside, pairs)
    else:
        arrays = read_arrays(path, TABLES | FORMATS)
        named = [(key, name) for key, names in PAIR_NAMES.items() for name in arrays if name.lower() in names.split()]
        if [key for key, _ in named] != [*PAIR_NAMES]:
            raise refused(path, "arrays must be `scores` and `same`, one of each", ", ".join(arrays))
        given, same = (arrays[name] for _, name in named)
    values, flags = np.asarray(given).ravel(), np.asarray(same).ravel()
    if values.dtype.kind not in "iuf" or len(values) != len(flags) or not np.isin(flags, (0, 1)).all():
        rule = f"scores must be a number for each of {len(flags)} pairs, and `same` 1 or 0"
        raise refused(beside or path, rule, f"{values.dtype} {[*np.shape(given)]} and {flags.dtype}")
    return values.astype(np.float64), flags.astype(bool)


def _read_list(path: Path) -> tuple[list[str], list[bool]]:
    """The names of each pair, and whether they are of one identity; the first line tells the form of all."""
    lines = [*text_lines(path)]
    lines = lines[1:] if lines and re.fullmatch(r"\d+(\s+\d+)?", lines[0][1]) else lines
    form = next((form for form in _FORMS if lines and re.fullmatch(form, lines[0][1])), "")
    pairs, same = [], []
    for where, line in lines or [(str(path), "no line")]:
        if not (found := re.fullmatch(form, line)):
            raise refused(where, f"lines must all be of one form, {_FORMS_IN_WORDS}", repr(line[:80]))
        pairs.append(" ".join(found["pair"].split()))
        # LFW names a person once in a pair of one.
        same.append(found["same"] in ("1", "target") if "same" in found.groupdict() else found["other"] is None)
    return pairs, same


def _read_scores(path: Path, pairs: list[str]) -> list[float]:
    """The score in each line; one with more than it must name the pair."""
    numbers = []
    for place, (where, line) in enumerate(text_lines(path)):
        pair = pairs[place] if place < len(pairs) else "no pair"
        number = " ".join(line.split()).removeprefix(f"{pair} ").removesuffix(f" {pair}")
        if not re.fullmatch(NUMBER, number):
            raise refused(where, f"a line must be the score of {pair}", repr(line[:80]))
        numbers.append(float(number))
    return numbers
