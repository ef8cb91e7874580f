"""Names of labels: the numbers that stand for them in rankings and rules, and the names again for results.

    labels            ["lynx_a", "lynx_b", "unknown"]
    numbers           of the names, in the order of the names where all are there at once (`number_names`), and a hash
                      of each name where samples come in batches or on several processes (`number_of_name`)
    rules             junk_identities=("unknown",) lists the number of that name (`rules_by_number`)
    results           keep the names by their numbers, a `LabelTables`

Values that are missing, such as None and NaN, are refused, or become the identity `MISSING`, which is junk.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _arrays, _checks

from .extra_labels import EXTRA, argument_of, check_mapping, join_columns, names_in_rules
from .labels import LABELS, SIDES

LabelTables: TypeAlias = Mapping[str, Mapping[int, str]]
"""the names of the labels that came as names, by their numbers"""

MISSING = torch.iinfo(torch.int64).min + 1
"""the identity of samples that have none"""
NAMED_LABELS = tuple(name for name, label in LABELS.items() if label.decides and not label.has_columns)
"""the labels with a table of names; extra labels may be names as well, but no result shows them"""
RULES_BY_LABEL = {"junk_identities": "identities", "camera_map": "cameras", "search_cameras": "cameras"}
"""the options that list labels"""

_Number: TypeAlias = Callable[[Sequence[_arrays.Array], str], tuple[dict[int, str], list[_arrays.Array]]]
"""numbers the names of a label, of some sides"""

_JUNK, _JUNK_NAME = -1, "-1"
_NUM_HASHED_BYTES = 8
_MISSING_TYPES = ("NAType", "NaTType")  # of pandas, which need not be installed
_END = b"\n"  # of an encoded table
_WORDS_FOR_UNKNOWN = (
    "unknown",
    "unidentified",
    "undefined",
    "missing",
    "none",
    "null",
    "nan",
    "na",
    "n/a",
    "<na>",
    "?",
)
"""names that data sets give to samples without an identity"""


class NumberedLabels(NamedTuple):
    """Labels with numbers in the place of names, and the names by their numbers."""

    values: dict[str, Any]
    names: dict[str, dict[int, str]]


@functools.lru_cache(maxsize=1 << 20)
def number_of_name(name: str) -> int:
    """The number of a name, the same in all batches and processes: 63 bits of its hash, and -1 for "-1"."""
    if name == _JUNK_NAME:
        return _JUNK
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_NUM_HASHED_BYTES).digest()
    return int.from_bytes(digest, "big") >> 1


def number_names(given: Mapping[str, Any], rules: Mapping[str, Any], sides: Sequence[str] = SIDES) -> NumberedLabels:
    """Labels of two sides with numbers in the place of names, in the order of the names; "-1" is -1.

    Args:
        given: labels that are called by their side and name, such as `query_identities`, and others, which stay.
        rules: the options of `find_relevance`.
        sides: what the labels of samples are called by.

    Raises:
        TypeError: names beside something else.
        ValueError: a missing value, or a rule that lists names of labels that are integers, or the reverse.
    """
    numbered = _numbered(given, rules, [f"{side}_" for side in sides], _number_in_order)
    return numbered._replace(names=without_extra(numbered.names))


def hash_names(given: Mapping[str, Any], rules: Mapping[str, Any], prefix: str = "") -> NumberedLabels:
    """Labels of one side with hashes in the place of names; arguments and errors as of `number_names`.

    The names of labels that users name are there, too.
    """
    return _numbered(given, rules, [prefix], _number_by_hash)


def _numbered(
    given: Mapping[str, Any], rules: Mapping[str, Any], prefixes: Sequence[str], number: _Number
) -> NumberedLabels:
    """Labels of the sides with some `prefixes`, with numbers in the place of names."""
    numbered = NumberedLabels(dict(given), {})
    for label in NAMED_LABELS:
        arguments = [f"{prefix}{label}" for prefix in prefixes]
        _number_label(label, numbered.values, rules, arguments, number, numbered.names)
    _number_extra_labels(numbered, rules, [f"{prefix}{EXTRA}" for prefix in prefixes], number)
    return numbered


def _number_label(
    label: str,
    values: dict[str, Any],
    rules: Mapping[str, Any],
    arguments: Sequence[str],
    number: _Number,
    tables: dict[str, dict[int, str]],
) -> None:
    """Put numbers in the place of the names of a label, and the names into the `tables`."""
    names = _read_label(label, values, rules, arguments)
    if names:
        table, numbers = number(list(names.values()), label)
        values.update(zip(names, numbers, strict=True))
        tables[label] = table


def _number_extra_labels(
    numbered: NumberedLabels, rules: Mapping[str, Any], arguments: Sequence[str], number: _Number
) -> None:
    """Put a matrix of numbers in the place of each mapping of labels that users name."""
    mappings: dict[str, dict[str, Any]] = {}
    for argument in arguments:
        value = numbered.values.get(argument)
        if value is not None:
            mappings[argument] = check_mapping(argument, value, rules)
    for name in names_in_rules(rules):
        values = {argument_of(argument, name): mapping[name] for argument, mapping in mappings.items()}
        _number_label(name, values, {}, list(values), number, numbered.names)
        for argument, mapping in mappings.items():
            mapping[name] = values[argument_of(argument, name)]
    for argument, mapping in mappings.items():
        numbered.values[argument] = join_columns(argument, mapping) if mapping else None


def without_extra(tables: LabelTables) -> dict[str, Any]:
    """The tables of names for results, without extra labels."""
    return {label: table for label, table in tables.items() if label in LABELS}


def may_hold_names(value: object) -> bool:
    """Whether a label may be names, by its kind and its first value."""
    if value is None or isinstance(value, Tensor):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in "iufb"
    return not isinstance(value, (list, tuple)) or not value or type(value[0]) is not int


def _read_label(
    label: str, values: dict[str, Any], rules: Mapping[str, Any], arguments: Sequence[str]
) -> dict[str, _arrays.Array]:
    """The names of a label by the arguments; what the checks take is put into `values`."""
    names: dict[str, _arrays.Array] = {}
    with_numbers: list[str] = []
    for argument in arguments:
        value = values.get(argument)
        if value is None:
            continue
        missing = rules.get("missing") or "error"
        value = _read_values(argument, value, label=label, missing=missing)
        if _are_names(value) and not (value != "").any():
            value = np.full(len(value), MISSING)
        values[argument] = value
        if _are_names(value):
            names[argument] = value
        elif not _is_empty(value) and not (missing == "junk" and are_missing(value)):
            with_numbers.append(argument)
    if names and with_numbers:
        of_names, *_ = names
        came = f"names in `{of_names}` and none in `{with_numbers[0]}`"
        raise TypeError(f"`{of_names}` and `{with_numbers[0]}` must both hold names, or both integers; got {came}.")
    if names or with_numbers:
        check_rules(label, rules, names.values())
    return names


def _number_by_hash(sides: Sequence[_arrays.Array], label: str) -> tuple[dict[int, str], list[_arrays.Array]]:
    """The names by their hashes, and the hashes of each side."""
    pairs: list[tuple[int, str]] = []
    hashes = []
    for side in sides:
        distinct, place = np.unique(side, return_inverse=True)
        numbers = [number_of_name(name) if name else MISSING for name in distinct.tolist()]
        hashes.append(np.array(numbers, dtype=np.int64)[place])
        pairs += zip(numbers, distinct.tolist(), strict=True)
    return merge_names(pairs, label), hashes


def _number_in_order(sides: Sequence[_arrays.Array], _: str) -> tuple[dict[int, str], list[_arrays.Array]]:
    """The names by their numbers in the order of the names, and the numbers of each side."""
    distinct = np.unique(np.concatenate(sides))
    distinct = distinct[(distinct != _JUNK_NAME) & (distinct != "")]
    numbers = []
    for side in sides:
        of_side = np.searchsorted(distinct, side).astype(np.int64)
        of_side[side == _JUNK_NAME] = _JUNK
        of_side[side == ""] = MISSING
        numbers.append(of_side)
    return {_JUNK: _JUNK_NAME, **dict(enumerate(distinct.tolist()))}, numbers


def _read_values(argument: str, value: Any, *, label: str, missing: str) -> Any:
    """Names as an array of strings, "" for a missing one; numbers as the checks take them, `MISSING` for these."""
    if isinstance(value, Tensor):
        return value if missing == "error" else _without_nan(argument, value, label)
    value = _arrays.as_array(value)
    kind = value.dtype.kind if isinstance(value, np.ndarray) else ""
    if isinstance(value, (list, tuple)) or (kind == "O" and value.ndim == 1):
        return _read_objects(argument, list(value), value, label=label, missing=missing)
    if kind in "US" and kind and value.shape == (0,):
        return np.empty(0, dtype=np.int64)
    if kind == "S" and value.ndim == 1:
        value, kind = np.char.decode(value, "utf-8"), "U"
    if kind == "U" and value.ndim == 1:
        _refuse_missing(argument, value == "", value, label=label, missing=missing)
    elif kind == "f" and missing != "error":
        (tensor,) = _arrays.as_tensors(value)
        return _without_nan(argument, tensor, label) if isinstance(tensor, Tensor) else value
    return value


def _read_objects(argument: str, items: list[Any], value: Any, *, label: str, missing: str) -> Any:
    """Names or numbers of a list, or of an array of objects."""
    kinds = set(map(type, items))
    if kinds == {int}:
        return items
    if not kinds or any(isinstance(item, (list, tuple, np.ndarray, Tensor)) for item in items):
        return value
    is_missing = np.array([_is_missing(item) for item in items])
    known = [item for item, is_gone in zip(items, is_missing, strict=True) if not is_gone]
    are_names = [isinstance(item, str) for item in known]
    if any(are_names) and not all(are_names):
        other = known[are_names.index(False)]
        raise TypeError(f"`{argument}` must hold integers only, or names only; got {other!r} beside names.")
    _refuse_missing(argument, is_missing, items, label=label, missing=missing)
    if any(are_names):
        return np.array(["" if is_gone else item for item, is_gone in zip(items, is_missing, strict=True)], dtype=str)
    if not is_missing.any():
        return items if isinstance(value, np.ndarray) else value
    numbers = np.full(len(items), MISSING, dtype=np.int64)
    if known:
        numbers[~is_missing] = _checks.whole_labels(argument, known).numpy()
    return numbers


def _is_missing(item: Any) -> bool:
    if isinstance(item, (float, np.floating)):
        return bool(item != item)  # noqa: PLR0124 - NaN differs from itself
    return item is None or type(item).__name__ in _MISSING_TYPES or (isinstance(item, str) and not item)


def _refuse_missing(argument: str, is_missing: _arrays.Array, values: Any, *, label: str, missing: str) -> None:
    """Raise if values are missing, unless they are identities and may be."""
    if not is_missing.any():
        return
    place = int(is_missing.argmax())
    value = values[place].item() if isinstance(values, np.ndarray) else values[place]
    came = f"{value!r} for sample {place}"
    if label != "identities":
        raise ValueError(f"`{argument}` must hold no missing value; got {came}.")
    if missing == "error":
        remedy = "Pass `missing='junk'` where such samples have no identity."
        raise ValueError(f"`{argument}` must hold no missing value; got {came}. {remedy}")


def _without_nan(argument: str, values: Tensor, label: str) -> Tensor:
    """Labels with `MISSING` in the place of NaN."""
    if not values.is_floating_point() or values.ndim != 1 or label != "identities":
        return values
    is_missing = values.isnan()
    whole = _checks.whole_labels(argument, values.masked_fill(is_missing, 0.0))
    return whole.long().masked_fill(is_missing, MISSING)


def _are_names(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "U" and value.ndim == 1 and len(value) > 0


def are_missing(value: object) -> bool:
    """Whether no sample has the label, so that it is neither names nor integers."""
    return isinstance(value, (np.ndarray, Tensor)) and bool((value == MISSING).all())


def _is_empty(value: Any) -> bool:
    return (isinstance(value, (list, tuple)) and not value) or getattr(value, "shape", None) == (0,)


def check_rules(label: str, rules: Mapping[str, Any], names: Iterable[_arrays.Array]) -> None:
    """Raise if a rule lists numbers of labels that are names, or names of labels that are integers.

    Args:
        label: the name of the label.
        rules: the options of `find_relevance`.
        names: arrays of names; none where the label is integers.

    Raises:
        ValueError: a rule does.
    """
    arrays = list(names)
    for option in (option for option, of in RULES_BY_LABEL.items() if of == label):
        rule = rules.get(option) or ()
        listed = [*rule, *rule.values()] if isinstance(rule, Mapping) else rule
        if isinstance(listed, (str, bytes)) or not isinstance(listed, Collection):
            continue  # another check refuses it
        others = [value for value in listed if value not in (_JUNK, _JUNK_NAME)]
        if arrays and not all(isinstance(value, str) for value in others):
            remedy = _numbers_in(arrays)
            raise ValueError(f"`{option}` must list names, or -1, where {label} are names; got {rule!r}.{remedy}")
        if not arrays and any(isinstance(value, str) for value in others):
            raise ValueError(f"`{option}` must list integers where {label} are integers; got {rule!r}.")


def _numbers_in(names: Sequence[_arrays.Array]) -> str:
    """What to write where all names are one word and a number, as in "cam3"; "" where they are not."""
    parts = [re.fullmatch(r"([^\d]*)(\d+)", name) for name in {*np.concatenate(names).tolist()}]
    words = {part[1] for part in parts if part is not None}
    if None in parts or len(words) != 1:
        return ""
    (word,) = words
    return f" Give the numbers in the names as integers, such as {word + '3'!r} -> 3."


def lists_names(rules: Mapping[str, Any]) -> bool:
    """Whether rules list names other than "-1", or change labels that are missing."""
    listed: list[Any] = []
    for option in RULES_BY_LABEL:
        rule = rules.get(option) or ()
        listed += [*rule, *rule.values()] if isinstance(rule, Mapping) else rule
    return rules.get("missing") == "junk" or any(isinstance(value, str) for value in listed if value != _JUNK_NAME)


def rules_by_number(rules: Mapping[str, Any], tables: LabelTables) -> dict[str, Any]:
    """The options of `find_relevance` with numbers in the place of names, and with missing identities as junk.

    Args:
        rules: the options; `check_rules` has seen them.
        tables: the names of labels by their numbers; names that no sample has get a number that none has.
    """
    by_number = dict(rules)
    for option, label in RULES_BY_LABEL.items():
        rule = rules.get(option)
        if isinstance(rule, (str, bytes)) or not isinstance(rule, Collection):
            continue
        numbers = {name: number for number, name in tables.get(label, {}).items()}

        def number(value: Any, numbers: Mapping[str, int] = numbers) -> Any:
            if not isinstance(value, str):
                return value
            return numbers[value] if value in numbers else number_of_name(value)

        if isinstance(rule, Mapping):
            by_number[option] = {number(value): number(other) for value, other in rule.items()}
        else:
            by_number[option] = tuple(number(value) for value in rule)
    if rules.get("missing") == "junk" and MISSING not in by_number.get("junk_identities", ()):
        by_number["junk_identities"] = (*by_number.get("junk_identities", (_JUNK,)), MISSING)
    return by_number


def in_one_order(values: Iterable[int | str]) -> tuple[int | str, ...]:
    """Integers and names without repetition, integers first, each ascending."""
    return tuple(sorted(set(values), key=lambda value: (isinstance(value, str), value)))


def merge_names(pairs: Iterable[tuple[int, str]], label: str) -> dict[int, str]:
    """The names of a label by their numbers, without missing ones, in the order of the names; pairs may repeat.

    Raises:
        ValueError: two names have one number.
    """
    merged: dict[int, str] = {}
    for number, name in pairs:
        if merged.setdefault(number, name) != name:
            came = f"{merged[number]!r} and {name!r}"
            raise ValueError(f"`{label}` must have names with different hashes; got {came}, so rename one of them.")
    merged.pop(MISSING, None)
    return dict(sorted(merged.items(), key=lambda item: item[1]))


def encode_names(tables: LabelTables) -> bytes:
    """Names as bytes, one after another where several are encoded; their numbers are their hashes."""
    if not tables:
        return b""
    return json.dumps({label: list(table.values()) for label, table in tables.items()}).encode() + _END


def decode_names(encoded: bytes) -> dict[str, dict[int, str]]:
    """The inverse of `encode_names`, of all that were encoded.

    Raises:
        ValueError: two names have one hash.
    """
    found: dict[str, dict[str, None]] = {}
    for line in encoded.split(_END)[:-1]:
        for label, names in json.loads(line).items():
            found.setdefault(label, {}).update(dict.fromkeys(names))
    return {label: merge_names([(number_of_name(name), name) for name in of], label) for label, of in found.items()}


def words_for_unknown(names: Mapping[int, str]) -> dict[int, str]:
    """The names that seem to say that a sample has no identity, by their numbers, on any process."""
    found = {number: name for number, name in names.items() if name.strip().casefold() in _WORDS_FOR_UNKNOWN}
    for word in _WORDS_FOR_UNKNOWN:
        for name in (word, word.upper(), word.capitalize(), "NaN"):
            found.setdefault(number_of_name(name), name)
    return found
