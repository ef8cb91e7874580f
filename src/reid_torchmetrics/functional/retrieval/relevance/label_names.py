"""Names of labels: the numbers that stand for them in rankings and rules, and the names again for results.

    labels     ["lynx_a", "lynx_b", "unknown"]
    numbers    0, 1, 2: positions in the order of the names where all are known at once (`number_names`); or a hash of
               each name where samples come in batches or on several processes (`number_of_name`)
    rules      junk_identities=("unknown",) becomes the number of that name (`rules_by_number`)
    results    keep the names by their numbers, as `LabelTables`

Missing values, such as None and NaN, are refused, or become the identity `MISSING`, which is junk. The name "-1" is the
number -1, so a label that is -1 or missing for all samples fits names as well as integers.
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
"""the names by their numbers, for each label that consists of names"""

MISSING = torch.iinfo(torch.int64).min + 1
"""the identity of samples without an identity"""
NAMED_LABELS = tuple(name for name, label in LABELS.items() if label.decides and not label.has_columns)
"""the labels that may have a table of names; extra labels may be names as well, but no result shows them"""
RULES_BY_LABEL = {"junk_identities": "identities", "camera_map": "cameras", "search_cameras": "cameras"}
"""the options that list labels"""

_Number: TypeAlias = Callable[[Sequence[_arrays.Array], str], tuple[dict[int, str], list[_arrays.Array]]]
"""numbers the names of a label, given as one array for each side"""

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
    """Labels with numbers instead of names, and the names by their numbers."""

    values: dict[str, Any]
    names: dict[str, dict[int, str]]


@functools.lru_cache(maxsize=1 << 20)
def number_of_name(name: str) -> int:
    """Return the number of a name, equal in all batches and processes: 63 bits of its hash, and -1 for "-1"."""
    if name == _JUNK_NAME:
        return _JUNK
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_NUM_HASHED_BYTES).digest()
    return int.from_bytes(digest, "big") >> 1


def number_names(given: Mapping[str, Any], rules: Mapping[str, Any], sides: Sequence[str] = SIDES) -> NumberedLabels:
    """Replace names by numbers, in the order of the names and the same for both sides; "-1" becomes -1.

    Args:
        given: values by the names of arguments, such as `query_identities`; values that are no labels stay.
        rules: the options of `find_relevance`.
        sides: what the names of arguments begin with.

    Raises:
        TypeError: names mixed with other values.
        ValueError: a missing value, or a rule that lists names of labels that are integers, or the reverse.
    """
    numbered = _replace_names(given, rules, [f"{side}_" for side in sides], _number_in_order)
    return numbered._replace(names=without_extra(numbered.names))


def hash_names(given: Mapping[str, Any], rules: Mapping[str, Any], prefix: str = "") -> NumberedLabels:
    """Replace names by their hashes, for the labels of one side; errors as in `number_names`.

    The result has the names of extra labels as well.
    """
    return _replace_names(given, rules, [prefix], _number_by_hash)


def _replace_names(
    given: Mapping[str, Any], rules: Mapping[str, Any], prefixes: Sequence[str], number: _Number
) -> NumberedLabels:
    """Replace names by numbers, in all labels of the arguments that begin with `prefixes`."""
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
    """Replace the names of a label in `values` by numbers, and add the names to the `tables`."""
    names = _read_label(label, values, rules, arguments)
    if names:
        table, numbers = number(list(names.values()), label)
        values.update(zip(names, numbers, strict=True))
        tables[label] = table


def _number_extra_labels(
    numbered: NumberedLabels, rules: Mapping[str, Any], arguments: Sequence[str], number: _Number
) -> None:
    """Replace each mapping of extra labels by a matrix of numbers."""
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
    """Return the tables of names for results, without those of extra labels."""
    return {label: table for label, table in tables.items() if label in LABELS}


def may_hold_names(value: object) -> bool:
    """Return whether a label may consist of names, by its type and its first value."""
    if value is None or isinstance(value, Tensor):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in "iufb"
    return not isinstance(value, (list, tuple)) or not value or type(value[0]) is not int


def _read_label(
    label: str, values: dict[str, Any], rules: Mapping[str, Any], arguments: Sequence[str]
) -> dict[str, _arrays.Array]:
    """Return the names of a label by argument; replace its `values` by arrays of names or by numbers to check."""
    names: dict[str, _arrays.Array] = {}
    with_numbers: list[str] = []
    for argument in arguments:
        value = values.get(argument)
        if value is None:
            continue
        missing = rules.get("missing_identities") or "error"
        value = _read_values(argument, value, label=label, missing=missing)
        if _are_names(value) and np.isin(value, ["", _JUNK_NAME]).all():
            value = np.where(value == "", MISSING, _JUNK)
        values[argument] = value
        if _are_names(value):
            names[argument] = value
        elif not _is_empty(value):
            with_numbers.append(argument)
    if names or lists_names(rules):  # else the numbers need not be read
        with_numbers = [argument for argument in with_numbers if not fits_names(values[argument])]
    if names and with_numbers:
        first, *_ = names
        second = with_numbers[0]
        raise TypeError(
            f"`{first}` and `{second}` must both hold names, or both integers; got names in `{first}` and none in"
            f" `{second}`."
        )
    if names or with_numbers:
        check_rules(label, rules, names.values())
    return names


def _number_by_hash(sides: Sequence[_arrays.Array], label: str) -> tuple[dict[int, str], list[_arrays.Array]]:
    """Return the names by their hashes, and the hashes of each side."""
    pairs: list[tuple[int, str]] = []
    hashes = []
    for side in sides:
        distinct, place = np.unique(side, return_inverse=True)
        names = distinct.tolist()
        numbers = [number_of_name(name) if name else MISSING for name in names]
        pairs += zip(numbers, names, strict=True)
        hashes.append(np.array(numbers, dtype=np.int64)[place])
    return merge_names(pairs, label), hashes


def _number_in_order(sides: Sequence[_arrays.Array], _: str) -> tuple[dict[int, str], list[_arrays.Array]]:
    """Return the names by their numbers, in the order of the names, and the numbers of each side."""
    distinct = np.unique(np.concatenate(sides))
    distinct = distinct[(distinct != _JUNK_NAME) & (distinct != "")]
    numbers_by_side = []
    for side in sides:
        numbers = np.searchsorted(distinct, side).astype(np.int64)
        numbers[side == _JUNK_NAME] = _JUNK
        numbers[side == ""] = MISSING
        numbers_by_side.append(numbers)
    table = {_JUNK: _JUNK_NAME}
    table.update(enumerate(distinct.tolist()))
    return table, numbers_by_side


def _read_values(argument: str, value: Any, *, label: str, missing: str) -> Any:
    """Return names as an array of strings, "" for a missing one; or numbers as a check expects them.

    A missing number becomes `MISSING`, if it may be missing.
    """
    if isinstance(value, Tensor):
        return value if missing == "error" else _replace_nan(argument, value, label)
    value = _arrays.as_array(value)
    is_vector = isinstance(value, np.ndarray) and value.ndim == 1
    if isinstance(value, (list, tuple)) or (is_vector and value.dtype.kind == "O"):
        return _read_objects(argument, list(value), value, label=label, missing=missing)
    if is_vector:
        return _read_vector(argument, value, label=label, missing=missing)
    return value


def _read_vector(argument: str, value: _arrays.Array, *, label: str, missing: str) -> Any:
    """Return the names or numbers of an array of one dtype."""
    kind = value.dtype.kind
    if kind == "f" and missing != "error":
        (tensor,) = _arrays.as_tensors(value)
        return _replace_nan(argument, tensor, label) if isinstance(tensor, Tensor) else value
    if kind in "US":
        if not len(value):
            return np.empty(0, dtype=np.int64)
        names = np.char.decode(value, "utf-8") if kind == "S" else value
        _refuse_missing(argument, names == "", names, label=label, missing=missing)
        return names
    return value


def _read_objects(argument: str, items: list[Any], value: Any, *, label: str, missing: str) -> Any:
    """Return the names or numbers of a list, or of an array of objects; `items` are the elements of `value`."""
    types = set(map(type, items))
    if types == {int}:
        return items
    if not items or any(isinstance(item, (list, tuple, np.ndarray, Tensor)) for item in items):
        return value
    is_missing = np.array([_is_missing(item) for item in items])
    present = [item for item, is_gone in zip(items, is_missing, strict=True) if not is_gone]
    numbers = [item for item in present if not isinstance(item, str)]
    are_names = len(numbers) < len(present)
    if are_names and numbers:
        raise TypeError(f"`{argument}` must hold integers only, or names only; got {numbers[0]!r} and names.")
    _refuse_missing(argument, is_missing, items, label=label, missing=missing)
    if are_names:
        names = ["" if is_gone else item for item, is_gone in zip(items, is_missing, strict=True)]
        return np.array(names, dtype=str)
    if not is_missing.any():
        return value
    with_missing = np.full(len(items), MISSING, dtype=np.int64)
    if present:
        with_missing[~is_missing] = _checks.whole_labels(argument, present).numpy()
    return with_missing


def _is_missing(item: Any) -> bool:
    """Return whether a value is None, NaN, "" or a missing value of pandas."""
    if isinstance(item, (float, np.floating)):
        return bool(item != item)  # noqa: PLR0124 - NaN differs from itself
    if isinstance(item, str):
        return not item
    return item is None or type(item).__name__ in _MISSING_TYPES


def _refuse_missing(argument: str, is_missing: _arrays.Array, values: Any, *, label: str, missing: str) -> None:
    """Raise if values are missing, unless they are identities and `missing_identities` is "junk"."""
    is_identity = label == "identities"
    if not is_missing.any() or (is_identity and missing != "error"):
        return
    place = int(is_missing.argmax())
    value = values[place].item() if isinstance(values, np.ndarray) else values[place]
    remedy = " Pass `missing_identities='junk'` where such samples have no identity." if is_identity else ""
    raise ValueError(f"`{argument}` must hold no missing value; got {value!r} for sample {place}.{remedy}")


def _replace_nan(argument: str, values: Tensor, label: str) -> Tensor:
    """Return identities with `MISSING` instead of NaN; other labels unchanged."""
    if not values.is_floating_point() or values.ndim != 1 or label != "identities":
        return values
    is_missing = values.isnan()
    whole = _checks.whole_labels(argument, values.masked_fill(is_missing, 0.0))
    return whole.long().masked_fill(is_missing, MISSING)


def _are_names(value: Any) -> bool:
    """Return whether a value is an array of strings with at least one element."""
    return isinstance(value, np.ndarray) and value.dtype.kind == "U" and value.ndim == 1 and len(value) > 0


def fits_names(value: Any) -> bool:
    """Return whether the numbers of a label are all -1 or missing, so that they fit names as well."""
    (numbers,) = _arrays.as_tensors(value)
    if not isinstance(numbers, Tensor):
        return False
    if not numbers.is_floating_point():
        numbers = numbers.long()  # in uint8, -1 is 255
    return bool(((numbers == _JUNK) | (numbers == MISSING)).all())


def _is_empty(value: Any) -> bool:
    return (isinstance(value, (list, tuple)) and not value) or getattr(value, "shape", None) == (0,)


def check_rules(label: str, rules: Mapping[str, Any], names: Iterable[_arrays.Array]) -> None:
    """Raise if a rule lists integers although the label consists of names, or names although it consists of integers.

    Args:
        label: the name of the label.
        rules: the options of `find_relevance`.
        names: arrays of names; empty if the label consists of integers.

    Raises:
        ValueError: a rule lists the other kind.
    """
    arrays = list(names)
    for option, label_of_option in RULES_BY_LABEL.items():
        rule = rules.get(option) or ()
        if label_of_option != label or not _is_list(rule):
            continue  # another check refuses what is no list
        is_name = [isinstance(value, str) for value in _values_in(rule) if value not in (_JUNK, _JUNK_NAME)]
        if arrays and not all(is_name):
            remedy = _suggest_numbers(arrays)
            raise ValueError(f"`{option}` must list names, or -1, where {label} are names; got {rule!r}.{remedy}")
        if not arrays and any(is_name):
            raise ValueError(f"`{option}` must list integers where {label} are integers; got {rule!r}.")


def _is_list(rule: object) -> bool:
    """Return whether a rule is a collection or mapping of values, and not a single name."""
    return isinstance(rule, Collection) and not isinstance(rule, (str, bytes))


def _values_in(rule: Collection[Any]) -> list[Any]:
    """Return the values in a rule; of a mapping the keys and the values."""
    values = list(rule)
    if isinstance(rule, Mapping):
        values += rule.values()
    return values


def _suggest_numbers(names: Sequence[_arrays.Array]) -> str:
    """Return a hint to use numbers if all names are one word and a number, as in "cam3"; else ""."""
    words = set()
    for name in set(np.concatenate(names).tolist()):
        match = re.fullmatch(r"([^\d]*)(\d+)", name)
        if match is None:
            return ""
        words.add(match[1])
    if len(words) != 1:
        return ""
    example = f"{words.pop()}3"
    return f" Give the numbers in the names as integers, such as {example!r} -> 3."


def lists_names(rules: Mapping[str, Any]) -> bool:
    """Return whether rules list names other than "-1", or change missing labels."""
    if rules.get("missing_identities") == "junk":
        return True
    for option in RULES_BY_LABEL:
        rule: Any = rules.get(option)
        values = _values_in(rule) if _is_list(rule) else []
        if any(isinstance(value, str) and value != _JUNK_NAME for value in values):
            return True
    return False


def rules_by_number(rules: Mapping[str, Any], tables: LabelTables) -> dict[str, Any]:
    """Replace names by numbers in the options of `find_relevance`, and add missing identities to the junk.

    Args:
        rules: options that `check_rules` has accepted.
        tables: the names of labels by their numbers; a name that no sample has gets a number that no sample has.
    """
    by_number = dict(rules)
    for option, label in RULES_BY_LABEL.items():
        rule: Any = rules.get(option)
        if not _is_list(rule):
            continue
        numbers = {name: number for number, name in tables.get(label, {}).items()}
        if isinstance(rule, Mapping):
            by_number[option] = {_number(key, numbers): _number(value, numbers) for key, value in rule.items()}
        else:
            by_number[option] = tuple(_number(value, numbers) for value in rule)
    junk = by_number.get("junk_identities", (_JUNK,))
    if rules.get("missing_identities") == "junk" and MISSING not in junk:
        by_number["junk_identities"] = (*junk, MISSING)
    return by_number


def _number(value: int | str, numbers: Mapping[str, int]) -> int:
    """Return the number of a name, by the table or by its hash; integers unchanged."""
    if not isinstance(value, str):
        return value
    return numbers[value] if value in numbers else number_of_name(value)


def in_one_order(values: Iterable[int | str]) -> tuple[int | str, ...]:
    """Return integers and names without repetition: first the integers, then the names, each ascending."""
    return tuple(sorted(set(values), key=lambda value: (isinstance(value, str), value)))


def merge_names(pairs: Iterable[tuple[int, str]], label: str) -> dict[int, str]:
    """Return the names of a label by their numbers, first "-1", then the others in order, without missing ones.

    Args:
        pairs: numbers and names; they may repeat.
        label: the name of the label, for the error.

    Raises:
        ValueError: two names have one number.
    """
    merged: dict[int, str] = {}
    for number, name in pairs:
        first = merged.setdefault(number, name)
        if first != name:
            raise ValueError(
                f"`{label}` must have names with different hashes; got {first!r} and {name!r}, so rename one of them."
            )
    merged.pop(MISSING, None)
    names = {_JUNK: _JUNK_NAME}
    names.update(sorted(merged.items(), key=lambda item: item[1]))
    return names


def encode_names(tables: LabelTables) -> bytes:
    """Encode the names of the tables; encoded tables may be joined.

    Numbers are left out, as they are hashes, and "-1", which is in every table.
    """
    if not tables:
        return b""
    names = {label: [name for name in table.values() if name != _JUNK_NAME] for label, table in tables.items()}
    return json.dumps(names).encode() + _END


def decode_names(encoded: bytes) -> dict[str, dict[int, str]]:
    """Decode one or more results of `encode_names`, and join their tables.

    Raises:
        ValueError: two names have one hash.
    """
    names_by_label: dict[str, dict[str, None]] = {}  # dicts, as sets would change the order
    for line in encoded.split(_END)[:-1]:
        for label, names in json.loads(line).items():
            names_by_label.setdefault(label, {}).update(dict.fromkeys(names))
    tables = {}
    for label, distinct in names_by_label.items():
        tables[label] = merge_names([(number_of_name(name), name) for name in distinct], label)
    return tables


def words_for_unknown(names: Mapping[int, str]) -> dict[int, str]:
    """Return names, by their numbers, that seem to say that a sample has no identity.

    `names` are the names of this process; the result has usual spellings by their hashes, too, for other processes.
    """
    words = {number: name for number, name in names.items() if name.strip().casefold() in _WORDS_FOR_UNKNOWN}
    for word in _WORDS_FOR_UNKNOWN:
        for name in (word, word.upper(), word.capitalize(), "NaN"):
            words.setdefault(number_of_name(name), name)
    return words
