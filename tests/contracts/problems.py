"""Small retrieval problems of a kind of truth, which is a `Row`: labels, rules, lists, pairs and ties.

A new label needs its values in `DRAWN`, and a row in `rows.py`. A new rule needs a row, and an argument of its name in
`tests/reference/relevance.py`. The tests say so until both are there. Labels that users name are in `EXTRA_LABELS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.relevance import AGREEMENT_RULES, EXTRA, LABELS

NUM_QUERIES, NUM_GALLERY, NUM_ALONE = 6, 20, 10
"""numbers of samples; of those that are queries and gallery at once"""
NUM_LABELS = 5
"""of a sample that may have several"""
REPORTS = (
    *("map", "map_at_r", "minp", "rank_1", "rank_5", "hit_rate_3", "precision_5", "precision_15"),
    *("recall_5", "r_precision", "mrr", "mrr_3", "ndcg_5", "anmrr", "mean_rank", "median_rank"),
)
SINGULAR = {
    "identities": "identity",
    "cameras": "camera",
    "sequences": "sequence",
    "clothes": "clothes",
    "positions": "coordinates",
    "groups": "group",
}
"""what the reference calls the label of one sample; it calls labels that users name by these names"""


@dataclass(frozen=True)
class Row:
    """A kind of truth, and how its problem is made."""

    name: str
    labels: tuple[str, ...] = ("identities",)
    """the labels that samples have, by their names in `LABELS`"""
    names: tuple[str, ...] = ()
    """those of the labels that are names, such as "camera 3"; labels that users name are listed one by one"""
    options: Mapping[str, Any] = field(default_factory=dict)
    """rules and other fields of the protocol, as the user writes them"""
    ties: str = "pessimistic"
    truth: str | None = None
    """the form of `ground_truth`, a key of `FORMS`, where it takes the place of labels"""
    has_several: bool = False
    """whether identities are a matrix of bools"""
    has_missing: bool = False
    """whether some samples have no identity"""
    has_junk: bool = True
    """whether some samples have the identity -1"""
    has_junk_pairs: bool = False
    has_own_places: bool = False
    """whether some queries are in the gallery, and `self_index` says where"""
    reports: tuple[str, ...] = REPORTS

    @property
    def is_leave_one_out(self) -> bool:
        """Whether all samples are queries and gallery at once."""
        return bool(self.options.get("leave_one_out"))

    @property
    def extra_labels(self) -> tuple[str, ...]:
        """The labels of `EXTRA_LABELS` that samples have: those in rules, or all without such a rule."""
        if EXTRA not in self.labels:
            return ()
        in_rules = [name for rule in AGREEMENT_RULES for name in self.options.get(rule, ())]
        return tuple(name for name in EXTRA_LABELS if name in in_rules) or tuple(EXTRA_LABELS)

    @property
    def features(self) -> set[str]:
        """What an entry point must follow, or refuse: the names of labels, of arguments, and of options with values."""
        features = {f"label {name}" for name in self.labels} | {f"names as {name}" for name in self.names}
        features |= {feature_of(name, value) for name, value in self.options.items()}
        features |= {f"{name} by name" for name, value in self.options.items() if lists_names(value)}
        for rule in AGREEMENT_RULES:
            comparable = [name for name, label in LABELS.items() if rule in label.compared_by]
            features |= {f"{rule} of {name}" for name in self._named_by(rule, comparable)}
        features |= self._features_of_extra_labels()
        rules = [rule for rule in AGREEMENT_RULES if rule in self.options]
        if self.options.get("queries_in_draw"):
            features |= {f"{rule} beside queries_in_draw" for rule in rules}
        features.add(f"ties {self.ties}")
        if self.truth is not None:
            features |= {f"{name} beside lists" for name in (*self.labels, *rules)}
            features |= {"self_index beside lists"} if self.has_own_places else set()
            features |= {"leave_one_out beside lists"} if self.is_leave_one_out else set()
        elif {"positive_lists", "junk_lists"} & self.options.keys():
            features.add("names of lists beside labels")
        arguments = {
            "several identities": self.has_several,
            "missing identities": self.has_missing,
            "junk_pairs": self.has_junk_pairs,
            "self_index": self.has_own_places,
            f"ground_truth as {self.truth}": self.truth is not None,
        }
        return features | {name for name, is_given in arguments.items() if is_given}

    def _named_by(self, rule: str, names: Sequence[str]) -> list[str]:
        """Those of some names that `must_agree` or `must_differ` lists."""
        return [name for name in names if name in self.options.get(rule, ())]

    def _features_of_extra_labels(self) -> set[str]:
        """What the labels that users name are, and whether no rule names them."""
        if not self.extra_labels:
            return set()
        kinds = {"names as labels" if name in self.names else "integers as labels" for name in self.extra_labels}
        has_rule = any(self._named_by(rule, self.extra_labels) for rule in AGREEMENT_RULES)
        return kinds if has_rule else kinds | {"labels without a rule"}


def feature_of(name: str, value: object) -> str:
    """The feature of an option: with its value where that is one word of a few, or a flag."""
    return f"{name} {value}" if isinstance(value, (str, bool)) else name


def lists_names(value: object) -> bool:
    """Whether a rule lists names of labels."""
    if isinstance(value, Mapping):
        return any(isinstance(name, str) for name in value)
    return isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(name, str) for name in value)


class BothSides(NamedTuple):
    """The values of a label; queries may lack it."""

    query: list[Any] | None
    gallery: list[Any]


@dataclass(frozen=True)
class Problem:
    """The embeddings and the truth of a row, as a user has them."""

    row: Row
    query: Tensor
    gallery: Tensor
    labels: Mapping[str, BothSides]
    lists: list[dict[str, list[int]]] | None = None
    """of each query gallery positions by the name of the list"""
    junk_pairs: Tensor | None = None
    self_index: list[int] | None = None

    @property
    def scores(self) -> Tensor:
        """The products of all pairs, which are whole numbers and exact."""
        return self.query @ self.gallery.T

    @property
    def options(self) -> dict[str, Any]:
        """The options of the protocol, with the numbers to report."""
        return {**self.row.options, "reports": self.row.reports}

    def labels_of(self, query_prefix: str, gallery_prefix: str) -> dict[str, Any]:
        """The labels as arguments with a prefix for each side."""
        arguments: dict[str, Any] = {}
        for name, values in self.labels.items():
            if values.query is not None:
                arguments[f"{query_prefix}{name}"] = self.as_argument(name, values.query)
            arguments[f"{gallery_prefix}{name}"] = self.as_argument(name, values.gallery)
        return arguments

    def as_argument(self, name: str, values: list[Any]) -> Any:
        """A label of some samples as an argument: a mapping of names to values where users name the labels."""
        if name != EXTRA:
            return values
        return {label: [sample[label] for sample in values] for label in self.row.extra_labels}

    def ground_truth(self, items: Sequence[Any] | None = None) -> Any:
        """The lists in the form of the row; `items` are the names of gallery items, None for positions."""
        if self.row.truth is None or self.lists is None:
            return None
        return FORMS[self.row.truth](self, range(len(self.gallery)) if items is None else items)


def _as_matrix(problem: Problem, _: Sequence[Any]) -> Tensor:
    matrix = torch.zeros(len(problem.query), len(problem.gallery), dtype=torch.bool)
    for query, lists in enumerate(problem.lists or ()):
        matrix[query, lists["ok"]] = True
    return matrix


def _as_positions(problem: Problem, items: Sequence[Any]) -> list[list[Any]]:
    return [[items[place] for place in lists["ok"]] for lists in problem.lists or ()]


def _as_lists_by_name(problem: Problem, items: Sequence[Any]) -> list[dict[str, list[Any]]]:
    return [
        {name: [items[place] for place in places] for name, places in lists.items()} for lists in problem.lists or ()
    ]


FORMS: dict[str, Callable[[Problem, Sequence[Any]], Any]] = {
    "bool matrix": _as_matrix,
    "positions": _as_positions,
    "lists by name": _as_lists_by_name,
}
"""the forms of ground truth"""


def _draw_identities(random: Random, length: int) -> list[int]:
    return [random.choice([0, 0, 1, 1, 2, 2, 3, -1]) for _ in range(length)]


def _draw_positions(random: Random, length: int) -> list[list[float]]:
    return [[10.0 * random.randrange(6), 10.0 * random.randrange(4)] for _ in range(length)]


def _draw_number(random: Random, length: int, number: int, first: int = 0) -> list[int]:
    return [first + random.randrange(number) for _ in range(length)]


EXTRA_LABELS: dict[str, Callable[[Random, int], list[int]]] = {
    "side": lambda random, length: [random.choice([-1, 1]) for _ in range(length)],
    "batch": lambda random, length: _draw_number(random, length, 3),
}
"""the values of the labels that users name"""


def _draw_extra_labels(random: Random, length: int) -> list[dict[str, int]]:
    """A mapping for each sample."""
    columns = [draw(random, length) for draw in EXTRA_LABELS.values()]
    return [dict(zip(EXTRA_LABELS, values, strict=True)) for values in zip(*columns, strict=True)]


DRAWN: dict[str, Callable[[Random, int], list[Any]]] = {
    "identities": _draw_identities,
    "cameras": lambda random, length: _draw_number(random, length, 4, first=1),
    "sequences": lambda random, length: _draw_number(random, length, 6),
    "clothes": lambda random, length: _draw_number(random, length, 2),
    "positions": _draw_positions,
    "groups": lambda random, length: _draw_number(random, length, length // 2, first=100),
    "index": lambda random, length: sorted(random.sample(range(1000), length)),
    EXTRA: _draw_extra_labels,
}
"""the values of each label"""


def make_problem(row: Row, seed: int = 0) -> Problem:
    """Draw the problem of a row."""
    random = Random(seed)  # noqa: S311 - nothing is to be kept secret
    lengths = (NUM_ALONE, NUM_ALONE) if row.is_leave_one_out else (NUM_QUERIES, NUM_GALLERY)
    query, gallery = (_draw_embeddings(random, length) for length in lengths)
    labels = _draw_labels(random, row, lengths)
    self_index = None
    if row.is_leave_one_out:
        gallery, self_index = query, list(range(NUM_ALONE))
        labels = {name: BothSides(values.query, values.query) for name, values in labels.items()}
    elif row.has_own_places:
        self_index = [*random.sample(range(NUM_GALLERY), NUM_QUERIES - 2), -1, -1]
        for number, place in enumerate(self_index[:-2]):
            query[number] = gallery[place]
            for values in labels.values():
                values.query[number] = values.gallery[place]
    lists = None if row.truth is None else _draw_lists(random, row.truth, *lengths)
    pairs = torch.tensor([[random.random() < 0.2 for _ in gallery] for _ in query]) if row.has_junk_pairs else None
    return Problem(row, query, gallery, labels, lists, pairs, self_index)


def _draw_labels(random: Random, row: Row, lengths: tuple[int, int]) -> dict[str, BothSides]:
    # All labels are drawn, so that problems that differ in a label or a rule differ in nothing else.
    drawn = {name: BothSides(*(draw(random, length) for length in lengths)) for name, draw in DRAWN.items()}
    several = BothSides(*(_draw_several(random, length) for length in lengths))
    identities = drawn["identities"]
    identities.query[-2:] = [-1, 9]  # a query that is junk, and one without a positive
    if not row.has_junk:
        identities = BothSides(*([abs(value) for value in side] for side in identities))
    if row.has_missing:
        for side, places in zip(identities, ([1], [0, 7]), strict=True):
            for place in places:
                side[place] = None
    drawn["identities"] = several if row.has_several else identities
    labels = {name: drawn[name] for name in row.labels}
    if "groups" in labels:
        labels = _alike_in_groups(labels)
    if EXTRA in labels:
        labels[EXTRA] = BothSides(*(_named_in(samples, row.names) for samples in labels[EXTRA]))
    return {name: _named(name, values) if name in row.names else values for name, values in labels.items()}


def _draw_embeddings(random: Random, length: int) -> Tensor:
    return torch.tensor([[random.randint(-2, 2) for _ in range(3)] for _ in range(length)]).float()


def _draw_several(random: Random, length: int) -> list[list[bool]]:
    rows = [[random.random() < 0.3 for _ in range(NUM_LABELS)] for _ in range(length)]
    rows[-1] = [False] * NUM_LABELS
    return rows


def _draw_lists(random: Random, form: str, num_queries: int, num_gallery: int) -> list[dict[str, list[int]]]:
    names = ("ok", "good", "junk") if form == "lists by name" else ("ok",)
    queries = []
    for _ in range(num_queries):
        items = random.sample(range(num_gallery), 3 * len(names))
        queries.append({name: items[3 * place : 3 * place + 3] for place, name in enumerate(names)})
    queries[-1] = {name: [] for name in names}
    return queries


def _alike_in_groups(labels: Mapping[str, BothSides]) -> dict[str, BothSides]:
    """Give all members of a group the labels of its first one; queries have no groups."""
    groups = labels["groups"].gallery
    first = [groups.index(group) for group in groups]
    alike = {
        name: BothSides(values.query, [values.gallery[place] for place in first]) for name, values in labels.items()
    }
    return alike | {"groups": BothSides(None, groups)}


def _named(name: str, values: BothSides) -> BothSides:
    return BothSides(*(None if side is None else [name_of(name, value) for value in side] for side in values))


def _named_in(samples: list[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """The labels that users name, of some samples, with names in the place of numbers for some of the labels."""
    return [
        {label: name_of(label, value) if label in names else value for label, value in sample.items()}
        for sample in samples
    ]


def name_of(label: str, value: int | None) -> str | None:
    """The name that stands for a number, such as "camera 3"; junk is "-1", and what is missing stays so."""
    if value is None:
        return None
    return "-1" if value == -1 else f"{SINGULAR.get(label, label)} {value}"
