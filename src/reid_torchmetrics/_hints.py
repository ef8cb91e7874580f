"""Names of other libraries and of papers, and their counterparts here, for messages about unknown names.

The tables are in `hints.json`. One rule holds for arguments, values, reported numbers, attributes, imports and the
command. A name is looked up before spellings are compared: no comparison of spellings finds that "labels" are
identities. A name that is only spelled alike is not a hint if its digits differ, or "%" or "@R" is in one of both: it
is another quantity.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

_MOST_LISTED = 10
_ALIKE = 0.6
"""similarity of two words, from which on one comes first in a list"""
_SIMILAR = 0.75
"""similarity of two words, from which on one may be a misspelling of the other"""

_TABLES = json.loads(Path(__file__).with_name("hints.json").read_text(encoding="utf-8"))


def _by_word(title: str) -> dict[str, Any]:
    """Return what a table of `hints.json` has for each word; words with the same entry share a line."""
    return {word: entry for words, entry in _TABLES[title].items() for word in words.split()}


NAMES = {word: tuple(text.split()) for word, text in _by_word("names").items()}
"""names in other libraries and in papers, and the names here: of arguments, values, numbers, functions, classes and
commands; the first name that there is at a place is suggested, and `<k>` is a cutoff

Papers about metric learning call the hit rate recall.
"""
ADVICE: dict[str, str] = _by_word("advice")
"""words of other libraries without a counterpart here, and what to do instead"""
ATTRIBUTES: dict[str, list[str]] = _by_word("attributes")
"""attributes that results have in other libraries, and what to write instead

The first text applies whose attribute of `results` there is.
"""


def normalized(word: object) -> str:
    """Return a word in lower case, with one underscore between its parts: "map_r" for "mAP@R"."""
    text = str(word).lower().replace("%", "_percent").replace("<k>", "")
    text = re.sub(r"^r@", "recall@", text)  # "R@1" is recall in metric learning, "r1" a rank
    return re.sub(r"[^a-z0-9.]+", "_", text).strip("_")


def listed(names: Iterable[object], write: Callable[[Any], str] = repr, *, near: object = None) -> str:
    """Return the first ten names for a message, and how many more there are; those spelled like `near` come first."""
    names = list(names)
    if isinstance(near, str) and len(names) > _MOST_LISTED:
        names.sort(key=lambda name: max(_ALIKE, _similarity(normalized(name), normalized(near))), reverse=True)
    text = ", ".join(map(write, names[:_MOST_LISTED]))
    return text if len(names) <= _MOST_LISTED else f"{text} and {len(names) - _MOST_LISTED:,} more"


def is_known(word: str) -> bool:
    """Return whether a word is a name in other libraries."""
    return normalized(word) in NAMES


def argument_meant(word: str, names: Collection[str]) -> str:
    """Return a hint at the argument that was meant, such as ", which may be `k`"; "" if none is known."""
    advised = advice(word)
    # A spelling is a weaker hint than advice, and a name of the table is a stronger one.
    match = counterpart(word, names) if advised else name_meant(word, names)
    return advised if match is None else f", which may be `{match}`"


def value_meant(word: object, names: Iterable[str]) -> str:
    """Return a hint at the value or the number that was meant, such as ", which may be 'dot'"; "" if none is known.

    A name of a number with a cutoff may have "<k>" instead of it: "rank_<k>".
    """
    names = list(names)
    match = name_meant(word, names)
    if match is None:
        return advice(word) or _advice_on_overlap(word, names)
    stem, k = _split(normalized(word))
    if stem == "recall" and match.startswith("hit_rate"):
        return f", which may be {match!r}; 'recall_{k or '<k>'}' is the share of the positives"
    return f", which may be {match!r}"


def attribute_meant(word: str, attributes: Collection[str], numbers: Collection[str] = ()) -> str:
    """Return a hint for an unknown attribute of an object; "" if none is known.

    Args:
        word: the attribute that was asked for.
        attributes: names of the attributes that the object has.
        numbers: names of the numbers that it has as a mapping.
    """
    for text in ATTRIBUTES.get(normalized(word), ()):
        if {*re.findall(r"`results\.(\w+)", text)} <= {*attributes}:
            return f": {text}"
    match = name_meant(word, numbers)
    if match is not None:
        return f": write `results[{match!r}]`"
    match = name_meant(word, [name for name in attributes if not name.startswith("_")])
    return "" if match is None else f", which may be `{match}`"


def name_meant(word: object, names: Iterable[str]) -> str | None:
    """Return the name that a word stands for by the table, or else by its spelling; None if none is known."""
    names = list(names)
    match = counterpart(word, names)
    if match is not None:
        return match
    key = normalized(word)
    spellings = {name: normalized(name) for name in names}
    same_quantity = {name: spelling for name, spelling in spellings.items() if _digits(spelling) == _digits(key)}
    for name, spelling in same_quantity.items():
        if spelling.replace("_", "") == key.replace("_", ""):
            return name
    close = [name for name, spelling in same_quantity.items() if _is_alike(key, spelling)]
    if close:
        return max(close, key=lambda name: _similarity(key, spellings[name]))
    return next((name for name, spelling in same_quantity.items() if _is_cut_short(key, spelling)), None)


def counterpart(word: object, names: Collection[str]) -> str | None:
    """Return the first name of the table for a word that is one of `names`; None if there is none."""
    return next((name for name in _counterparts(normalized(word)) if name in names), None)


def _counterparts(key: str) -> Iterator[str]:
    """Yield the names in the table for a normalized word, with its cutoff instead of "<k>"."""
    yield f"map_{_overlap_in(key)}"
    yield from NAMES.get(key, ())
    stem, k = _split(key)
    for name in NAMES.get(stem, ()):
        if k and "<k>" in name:
            yield name.replace("<k>", k)


def _overlap_in(key: str) -> str:
    """Return the digits of the overlap in a name of AP: "50" for "map_0.5" and "ap50"; "" for other words."""
    parts = re.fullmatch(r"m?ap_?(?:0?\.(\d{1,2})|(\d\d))", key)
    return "" if parts is None else (parts[1] or parts[2]).ljust(2, "0")


def _split(key: str) -> tuple[str, str]:
    """Split a normalized word from the cutoff at its end: "recall" and "10" for "recall_at_10"."""
    parts = re.fullmatch(r"(.*?[a-z])_?([1-9]\d*)?", key)
    if parts is None:
        return key, ""
    return parts[1].removesuffix("_at"), parts[2] or ""


def _digits(key: str) -> list[str]:
    return re.findall(r"[\d.]+", key)


def _similarity(word: str, other: str) -> float:
    return SequenceMatcher(None, word, other).ratio()


def _is_alike(key: str, spelling: str) -> bool:
    """Return whether one word may be a misspelling of the other: each part for itself, so that "mean" is not "r"."""
    parts = key.split("_")
    other_parts = spelling.split("_")
    if len(parts) != len(other_parts):
        return False
    for part, other_part in zip(parts, other_parts, strict=True):
        is_short = min(len(part), len(other_part)) <= 3
        if part != other_part and (is_short or _similarity(part, other_part) < _SIMILAR):
            return False
    return True


def _is_cut_short(key: str, spelling: str) -> bool:
    """Return whether a name begins with a word of three letters at least that ends in the middle of a part."""
    rest = spelling.removeprefix(key)
    return len(key) > 2 and rest != spelling and not rest.startswith("_")


def advice(word: object) -> str:
    """Return what to do instead of a word without a counterpart, such as ": `similarity='cosine'` normalizes"."""
    text = ADVICE.get(normalized(word))
    return "" if text is None else f": {text}"


def _advice_on_overlap(word: object, names: Collection[str]) -> str:
    """Return how to compute the mAP of detections at another overlap than 0.5 and 0.75."""
    overlap = _overlap_in(normalized(word))
    return f": `iou_thresholds=[0.{overlap}]` computes it" if overlap and "map_75" in names else ""
