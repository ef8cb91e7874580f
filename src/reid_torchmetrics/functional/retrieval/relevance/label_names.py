"""Labels that may be names: read, checked, and replaced by the numbers of a `Vocabulary`, which results translate back.

    labels     ["lynx_a", "lynx_b", "unknown"]
    numbers    0, 1, 2: positions in the order of the names where all are known at once; or a hash of each name where
               samples come in batches or on several processes (`number_of_name`)
    results    keep the names by their numbers: {"identities": {0: "lynx_a", ...}}

The name "-1" is the number -1, and a missing identity is `MISSING`.
Names and integers do not mix, and the rules that list labels, such as `junk_identities`, list the same kind. Missing
values, such as None and NaN, are refused, or become the identity `MISSING`, which is junk. A label that is -1 or
missing for all samples fits names as well as integers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows

from .labels import EXTRA, LABELS, SIDES, argument_of, check_mapping, join_columns, names_in_rules

MISSING = torch.iinfo(torch.int64).min + 1
"""the identity of samples without an identity"""
JUNK, JUNK_NAME = -1, "-1"
RULES_BY_LABEL = {"junk_identities": "identities", "camera_map": "cameras", "search_cameras": "cameras"}
"""the options that list labels"""
_NUM_HASHED_BYTES = 8
_END = b"\n"  # of an encoded vocabulary
_HASHES_FOLLOW = b"\t"  # behind the names of an encoded vocabulary


def hash_names_once(names: Sequence[str]) -> dict[str, int]:
    """Return the hash of each name, 63 bits, equal in all batches and processes."""
    digests = [
        hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_NUM_HASHED_BYTES).digest() for name in names
    ]
    hashes = np.frombuffer(b"".join(digests), dtype=">u8") >> 1
    return dict(zip(names, hashes.tolist(), strict=True))


def number_of_name(name: str) -> int:
    """Return the hash of a name, and -1 for "-1"."""
    return JUNK if name == JUNK_NAME else hash_names_once([name])[name]


class Vocabulary(dict[str, Mapping[int, str]]):
    """The names by their numbers, for each label that consists of names, and "-1" by -1."""

    def number_in_order(self, label: str, sides: Sequence[_arrays.Array]) -> list[_arrays.Array]:
        """Add the names of a label, numbered in their order, and return the numbers of each side."""
        distinct, place = np.unique(np.concatenate(sides), return_inverse=True)
        is_named = (distinct != JUNK_NAME) & (distinct != "")
        names = distinct[is_named].tolist()
        numbers = is_named.cumsum() - 1
        numbers[distinct == JUNK_NAME] = JUNK
        numbers[distinct == ""] = MISSING
        self[label] = {JUNK: JUNK_NAME, **dict(enumerate(names))}
        ends = np.cumsum([len(side) for side in sides])
        return np.split(numbers[place], ends[:-1])

    def number_by_hash(self, label: str, sides: Sequence[_arrays.Array]) -> list[_arrays.Array]:
        """Add the names of a label by their hashes, and return the hashes of the only side."""
        (side,) = sides
        names = side.tolist()
        distinct = [name for name in dict.fromkeys(names) if name not in (JUNK_NAME, "")]
        hash_of = hash_names_once(distinct)
        self.add(label, hash_of, hash_of.values())
        numbers: Iterable[int] = hash_of.values()
        if len(hash_of) < len(names):  # else each sample has a name of its own
            hash_of |= {JUNK_NAME: JUNK, "": MISSING}
            numbers = map(hash_of.__getitem__, names)
        return [np.fromiter(numbers, dtype=np.int64, count=len(names))]

    def add(self, label: str, names: Collection[str], hashes: Collection[int]) -> None:
        """Add names of a label, each once, and their hashes.

        Raises:
            ValueError: two names have one hash.
        """
        known = self.get(label, {})
        added = {JUNK: JUNK_NAME}
        added.update(zip(hashes, names, strict=True))
        repeated = known.keys() & added.keys()
        if len(added) <= len(names) or any(known[number] != added[number] for number in repeated):
            name_of = dict(known)
            for name, number in sorted(zip(names, hashes, strict=True)):
                first = name_of.setdefault(number, name)
                if first != name:
                    raise ValueError(
                        f"`{label}` must have names with different hashes; got {first!r} and {name!r}, so rename one of"
                        " them."
                    )
        self[label] = {**known, **added} if known else added

    def for_results(self) -> Vocabulary:
        """Return the names in order, "-1" first, without those of labels that users name."""
        in_order = Vocabulary()
        for label, names in self.items():
            if label in LABELS:
                named = sorted((name, number) for number, name in names.items() if number != JUNK)
                in_order[label] = {JUNK: JUNK_NAME, **{number: name for name, number in named}}
        return in_order

    def rules_by_number(self, rules: Mapping[str, Any]) -> dict[str, Any]:
        """Replace names by numbers in options of `find_relevance`, and add missing identities to the junk.

        A name that no sample has gets a number that no sample has.
        """
        by_number = dict(rules)
        for option, label in RULES_BY_LABEL.items():
            names = [value for value in listed_values(rules, option) if isinstance(value, str)]
            if not names:
                continue
            rule = rules[option]
            numbers = self._numbers_of(label, names)
            if isinstance(rule, Mapping):
                by_number[option] = {numbers.get(key, key): numbers.get(value, value) for key, value in rule.items()}
            else:
                by_number[option] = tuple(numbers.get(value, value) for value in rule)
        junk = by_number.get("junk_identities", (JUNK,))
        if rules.get("missing_identities") == "junk" and MISSING not in junk:
            by_number["junk_identities"] = (*junk, MISSING)
        return by_number

    def _numbers_of(self, label: str, names: Collection[str]) -> dict[str, int]:
        """Return the numbers of some names."""
        numbers = {name: number_of_name(name) for name in names}
        for number, name in self.get(label, {}).items():
            if name in numbers:
                numbers[name] = number
        return numbers

    def to_tensor(self) -> Tensor:
        """Encode names and hashes as bytes, for states and messages; several encoded vocabularies may be joined.

        "-1", which each label has, is left out.
        """
        if not self:
            return torch.empty(0, dtype=torch.uint8, device="cpu")
        names_by_label: dict[str, list[str]] = {}
        hashes: list[int] = []
        for label, names in self.items():
            names_by_label[label] = [name for name in names.values() if name != JUNK_NAME]
            hashes += [number for number in names if number != JUNK]
        encoded_hashes = base64.b64encode(np.array(hashes, dtype="<i8").tobytes())
        encoded = json.dumps(names_by_label).encode() + _HASHES_FOLLOW + encoded_hashes + _END
        return torch.from_numpy(np.frombuffer(encoded, dtype=np.uint8).copy())

    @classmethod
    def from_tensor(cls, encoded: Tensor) -> Vocabulary:
        """Decode one or more results of `to_tensor`, and join them.

        Raises:
            ValueError: two names have one hash.
        """
        vocabulary = cls()
        for line in encoded.cpu().numpy().tobytes().split(_END)[:-1]:
            encoded_names, _, encoded_hashes = line.partition(_HASHES_FOLLOW)
            hashes = np.frombuffer(base64.b64decode(encoded_hashes), dtype="<i8").tolist()
            for label, names in json.loads(encoded_names).items():
                if encoded_hashes:
                    hashes_of_label, hashes = hashes[: len(names)], hashes[len(names) :]
                else:  # a state of an earlier version
                    hashes_of_label = list(hash_names_once(names).values())
                vocabulary.add(label, names, hashes_of_label)
        return vocabulary

    def gather(self, world: World) -> Vocabulary:
        """Gather the names of all processes, which must have the same labels, for results.

        Raises:
            DistributedMetricError: an error on some process, such as two names with one hash.
        """
        if not self or world.size == 1:
            return self.for_results()

        def encode() -> tuple[Tensor, list[int]]:
            encoded = self.to_tensor()
            return encoded, [len(encoded)]

        encoded, table = world.guarded_all_gather(encode)
        sizes = [size for (size,) in table]
        (received,) = exchange_rows(world, sizes, SentRows(lambda: [encoded], dtype=torch.uint8))
        return world.guarded(lambda: Vocabulary.from_tensor(received).for_results())


def listed_values(rules: Mapping[str, Any], option: str) -> list[Any]:
    """Return the values in a rule that lists labels, of a mapping the keys and values; none if it is no list."""
    rule: Any = rules.get(option)
    if not isinstance(rule, Collection) or isinstance(rule, (str, bytes)):
        return []  # another check refuses what is no list
    values = list(rule)
    if isinstance(rule, Mapping):
        values += rule.values()
    return values


def in_one_order(values: Iterable[int | str]) -> tuple[int | str, ...]:
    """Return integers and names without repetition: first the integers, then the names, each ascending."""
    return tuple(sorted(set(values), key=lambda value: (isinstance(value, str), value)))


NAMED_LABELS = tuple(name for name, label in LABELS.items() if label.decides and not label.has_columns)
"""the labels that may have a table of names; extra labels may be names as well, but no result shows them"""
_Number: TypeAlias = Callable[[Vocabulary, str, Sequence[_arrays.Array]], list[_arrays.Array]]
"""adds the names of a label to a vocabulary, given one array for each side, and returns their numbers"""

_MISSING_TYPES = ("NAType", "NaTType")  # of pandas, which need not be installed


class NumberedLabels(NamedTuple):
    """Labels with numbers instead of names, and the names by their numbers."""

    values: dict[str, Any]
    names: Vocabulary


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
    numbered = _replace_names(given, rules, [f"{side}_" for side in sides], Vocabulary.number_in_order)
    for name in names_in_rules(rules):
        numbered.names.pop(name, None)
    return numbered


def hash_names(given: Mapping[str, Any], rules: Mapping[str, Any], prefix: str = "") -> NumberedLabels:
    """Replace names by their hashes, for the labels of one side; errors as in `number_names`.

    The result has the names of extra labels as well.
    """
    return _replace_names(given, rules, [prefix], Vocabulary.number_by_hash)


def _replace_names(
    given: Mapping[str, Any], rules: Mapping[str, Any], prefixes: Sequence[str], number: _Number
) -> NumberedLabels:
    """Replace names by numbers, in all labels of the arguments that begin with `prefixes`."""
    numbered = NumberedLabels(dict(given), Vocabulary())
    must_be_read = lists_names(rules)
    for label in NAMED_LABELS:
        arguments = [f"{prefix}{label}" for prefix in prefixes]
        present = [argument for argument in arguments if given.get(argument) is not None]
        if present and (must_be_read or not all(_are_numbers(given[argument]) for argument in present)):
            _number_label(label, numbered.values, rules, present, number, numbered.names)
    _number_extra_labels(numbered, rules, [f"{prefix}{EXTRA}" for prefix in prefixes], number)
    return numbered


def _number_label(
    label: str,
    values: dict[str, Any],
    rules: Mapping[str, Any],
    arguments: Sequence[str],
    number: _Number,
    vocabulary: Vocabulary,
) -> None:
    """Replace the names of a label in `values` by numbers, or by arrays to check; add the names to the `vocabulary`."""
    names: dict[str, _arrays.Array] = {}
    with_numbers: list[str] = []
    remedy = _remedy_for_missing(label, rules)
    for argument in arguments:
        value = _read_values(argument, values[argument], remedy)
        are_names = isinstance(value, np.ndarray) and value.dtype.kind == "U" and value.ndim == 1 and len(value) > 0
        if are_names and value[0] in ("", JUNK_NAME) and np.isin(value, ["", JUNK_NAME]).all():
            value = np.where(value == "", MISSING, JUNK)
            are_names = False
        values[argument] = value
        if are_names:
            names[argument] = value
        elif not _is_empty(value):
            with_numbers.append(argument)
    if not names and not lists_names(rules):  # then numbers need not be read
        return
    with_numbers = [argument for argument in with_numbers if not fits_names(values[argument])]
    if names and with_numbers:
        first, *_ = names
        second = with_numbers[0]
        raise _mixture(first, names[first], second, values[second])
    if names or with_numbers:
        _check_rules(label, rules, list(names.values()))
    if names:
        values.update(zip(names, number(vocabulary, label, list(names.values())), strict=True))


def _number_extra_labels(
    numbered: NumberedLabels, rules: Mapping[str, Any], arguments: Sequence[str], number: _Number
) -> None:
    """Replace each mapping of extra labels by a matrix of numbers."""
    mappings: dict[str, dict[str, Any]] = {}
    for argument in arguments:
        value = numbered.values.get(argument)
        if value is not None:
            mappings[argument] = check_mapping(argument, value, rules)
    if not mappings:
        return
    for name in names_in_rules(rules):
        values = {argument_of(argument, name): mapping[name] for argument, mapping in mappings.items()}
        _number_label(name, values, {}, list(values), number, numbered.names)
        for argument, mapping in mappings.items():
            mapping[name] = values[argument_of(argument, name)]
    for argument, mapping in mappings.items():
        numbered.values[argument] = join_columns(argument, mapping) if mapping else None


def may_hold_names(value: object) -> bool:
    """Return whether a label may consist of names, by its type and its first value."""
    if value is None or isinstance(value, Tensor):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in "iufb"
    return not isinstance(value, (list, tuple)) or not value or type(value[0]) is not int


def _remedy_for_missing(label: str, rules: Mapping[str, Any]) -> str | None:
    """Return what an error about missing values of a label ends with; None if they are no error."""
    if label != "identities":
        return ""
    if rules.get("missing_identities") == "junk":
        return None
    return " Pass `missing_identities='junk'` where such samples have no identity."


def _mixture(argument: str, names: _arrays.Array, numbered_argument: str, values: Any) -> TypeError:
    """Return the error for an argument with names beside one with numbers, which may be of any type."""
    number = values.tolist() if hasattr(values, "tolist") else values
    while isinstance(number, (list, tuple)):
        number = number[0]
    return TypeError(
        f"`{argument}` and `{numbered_argument}` must both hold names, or both integers; got {str(names[0])!r} first in"
        f" `{argument}` and {number!r} in `{numbered_argument}`."
    )


def _read_values(argument: str, value: Any, remedy: str | None) -> Any:
    """Return names as an array of strings, "" for a missing one; or numbers as a check expects them.

    A missing value is an error that ends with the `remedy`; without one, a missing number becomes `MISSING`.
    """
    if isinstance(value, Tensor):
        return _replace_nan(argument, value) if remedy is None else value
    value = _arrays.as_array(value)
    is_vector = isinstance(value, np.ndarray) and value.ndim == 1
    if isinstance(value, (list, tuple)) or (is_vector and value.dtype.kind == "O"):
        return _read_objects(argument, list(value), value, remedy)
    if is_vector:
        return _read_vector(argument, value, remedy)
    return value


def _read_vector(argument: str, value: _arrays.Array, remedy: str | None) -> Any:
    """Return the names or numbers of an array of one dtype."""
    kind = value.dtype.kind
    if kind == "f" and remedy is None:
        (tensor,) = _arrays.as_tensors(value)
        return _replace_nan(argument, tensor) if isinstance(tensor, Tensor) else value
    if kind in "US":
        if not len(value):
            return np.empty(0, dtype=np.int64)
        names = _arrays.as_texts(value) if kind == "S" else value
        _refuse_missing(argument, names == "", names, remedy)
        return names
    return value


def _read_objects(argument: str, items: list[Any], value: Any, remedy: str | None) -> Any:
    """Return the names or numbers of a list, or of an array of objects; `items` are the elements of `value`."""
    types = set(map(type, items))
    if types == {int}:
        return items
    if types == {str}:
        return _read_vector(argument, np.array(items), remedy)
    if not items or any(isinstance(item, (list, tuple, np.ndarray, Tensor)) for item in items):
        return value
    is_missing = np.array([_is_missing(item) for item in items])
    present = [item for item, is_gone in zip(items, is_missing, strict=True) if not is_gone]
    numbers = [item for item in present if not isinstance(item, str)]
    are_names = len(numbers) < len(present)
    if are_names and numbers:
        raise TypeError(f"`{argument}` must hold integers only, or names only; got {numbers[0]!r} and names.")
    _refuse_missing(argument, is_missing, items, remedy)
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


def _refuse_missing(argument: str, is_missing: _arrays.Array, values: Any, remedy: str | None) -> None:
    """Raise if values are missing, and there is a remedy for the error."""
    if remedy is None or not is_missing.any():
        return
    place = int(is_missing.argmax())
    value = values[place].item() if isinstance(values, np.ndarray) else values[place]
    raise ValueError(f"`{argument}` must hold no missing value; got {value!r} for sample {place}.{remedy}")


def _replace_nan(argument: str, values: Tensor) -> Tensor:
    """Return labels with `MISSING` instead of NaN."""
    if not values.is_floating_point() or values.ndim != 1:
        return values
    is_missing = values.isnan()
    whole = _checks.whole_labels(argument, values.masked_fill(is_missing, 0.0))
    return whole.long().masked_fill(is_missing, MISSING)


def _are_numbers(value: Any) -> bool:
    """Return whether a value is a tensor or an array of numbers, by its type alone."""
    return isinstance(value, Tensor) or (isinstance(value, np.ndarray) and value.dtype.kind in "iufb")


def fits_names(value: Any) -> bool:
    """Return whether the numbers of a label are all -1 or missing, so that they fit names as well."""
    (numbers,) = _arrays.as_tensors(value)
    if not isinstance(numbers, Tensor):
        return False
    if not numbers.is_floating_point():
        numbers = numbers.long()  # in uint8, -1 is 255
    return bool(((numbers == JUNK) | (numbers == MISSING)).all())


def _is_empty(value: Any) -> bool:
    return (isinstance(value, (list, tuple)) and not value) or getattr(value, "shape", None) == (0,)


def _check_rules(label: str, rules: Mapping[str, Any], arrays: Sequence[_arrays.Array]) -> None:
    """Raise if a rule lists integers although a label consists of names, given as arrays, or the reverse."""
    for option, label_of_option in RULES_BY_LABEL.items():
        if label_of_option != label:
            continue
        rule = rules.get(option)
        is_name = [isinstance(value, str) for value in listed_values(rules, option) if value not in (JUNK, JUNK_NAME)]
        if arrays and not all(is_name):
            remedy = _suggest_numbers(arrays)
            raise ValueError(f"`{option}` must list names, or -1, where {label} are names; got {rule!r}.{remedy}")
        if not arrays and any(is_name):
            raise ValueError(f"`{option}` must list integers where {label} are integers; got {rule!r}.")


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
        if any(isinstance(value, str) and value != JUNK_NAME for value in listed_values(rules, option)):
            return True
    return False
