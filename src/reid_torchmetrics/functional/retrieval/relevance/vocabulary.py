"""Vocabularies of labels: the numbers that stand for names in rankings and rules, and the names again for results.

    labels     ["lynx_a", "lynx_b", "unknown"]
    numbers    0, 1, 2: positions in the order of the names where all are known at once; or a hash of each name where
               samples come in batches or on several processes (`number_of_name`)
    results    keep the names by their numbers: {"identities": {0: "lynx_a", ...}}

The name "-1" is the number -1, and a missing identity is `MISSING`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics import _arrays
from reid_torchmetrics.functional.world import SentRows, World, exchange_rows

from .labels import LABELS

MISSING = torch.iinfo(torch.int64).min + 1
"""the identity of samples without an identity"""
JUNK, JUNK_NAME = -1, "-1"
RULES_BY_LABEL = {"junk_identities": "identities", "camera_map": "cameras", "search_cameras": "cameras"}
"""the options that list labels"""
_NUM_HASHED_BYTES = 8
_END = b"\n"  # of an encoded vocabulary


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
        """Add the names of a label by their hashes, and return the hashes of each side."""
        hashes = []
        for side in sides:
            names = side.tolist()
            distinct = [name for name in dict.fromkeys(names) if name not in (JUNK_NAME, "")]
            hash_of = hash_names_once(distinct)
            self.add(label, hash_of)
            hash_of |= {JUNK_NAME: JUNK, "": MISSING}
            hashes.append(np.fromiter(map(hash_of.__getitem__, names), dtype=np.int64, count=len(names)))
        return hashes

    def add(self, label: str, hash_of: Mapping[str, int]) -> None:
        """Add names of a label and their hashes.

        Raises:
            ValueError: two names have one hash.
        """
        known = self.get(label, {JUNK: JUNK_NAME})
        merged = {**known, **{number: name for name, number in hash_of.items()}}
        if len(merged) < len(hash_of.keys() | known.values()):
            name_of = {**known}
            for name in sorted(hash_of):
                first = name_of.setdefault(hash_of[name], name)
                if first != name:
                    raise ValueError(
                        f"`{label}` must have names with different hashes; got {first!r} and {name!r}, so rename one of"
                        " them."
                    )
        self[label] = merged

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
        """Encode the names as bytes, for states and messages; several encoded vocabularies may be joined.

        Numbers are left out, as they are hashes, and "-1", which each label has.
        """
        names_by_label = {}
        for label, names in self.items():
            names_by_label[label] = [name for name in names.values() if name != JUNK_NAME]
        encoded = json.dumps(names_by_label).encode() + _END if self else b""
        return torch.from_numpy(np.frombuffer(encoded, dtype=np.uint8).copy())

    @classmethod
    def from_tensor(cls, encoded: Tensor) -> Vocabulary:
        """Decode one or more results of `to_tensor`, and join them.

        Raises:
            ValueError: two names have one hash.
        """
        vocabulary = cls()
        for label, names in _decode(encoded).items():
            vocabulary.add(label, hash_names_once(names))
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


def labels_with_names(encoded: Tensor) -> Collection[str]:
    """Return the labels in a result of `Vocabulary.to_tensor`."""
    return _decode(encoded).keys()


def _decode(encoded: Tensor) -> dict[str, list[str]]:
    """Return the distinct names of each label, in the order in which they were encoded."""
    names_by_label: dict[str, dict[str, None]] = {}  # dicts, as sets would change the order
    for line in encoded.cpu().numpy().tobytes().split(_END)[:-1]:
        for label, names in json.loads(line).items():
            names_by_label.setdefault(label, {}).update(dict.fromkeys(names))
    return {label: list(names) for label, names in names_by_label.items()}


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
