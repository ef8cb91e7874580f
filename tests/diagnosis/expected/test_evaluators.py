"""The known evaluators: each has a recorded output, and is named for the numbers that were recorded of it."""

from collections import Counter
from fnmatch import fnmatchcase

import numpy as np

from reid_torchmetrics.diagnosis.expected import RETRIEVAL_EVALUATORS, KnownEvaluator
from tests.diagnosis.expected.recorded import all_numbers
from tests.profiles import each_row

LEAST_NAMED = 0.97
MOST_BY_CHANCE = 0.05
NOT_NAMED: dict[str, str] = {}
"""recorded numbers of an evaluator, by patterns of their keys, that no row gives, and why"""


def names_of() -> dict[str, set[str]]:
    """Names of evaluators by their names in recorded outputs."""
    names: dict[str, set[str]] = {}
    for row in RETRIEVAL_EVALUATORS:
        for proof in row.proofs:
            names.setdefault(proof.split("/")[2], set()).add(row.name)
    return names


ROWS: dict[str, KnownEvaluator] = {f"{row.name} {row.source}": row for row in RETRIEVAL_EVALUATORS}


@each_row("name", ROWS)
def test_a_row_gives_a_recorded_output(name: str):
    row = ROWS[name]
    assert row.proofs, "a row needs the key of a recorded output"
    for proof in row.proofs:
        numbers = [number for number in all_numbers() if fnmatchcase(number.key, f"{proof}*")]
        assert numbers, f"`proof` {proof!r} must be the key of a recorded output"
        explanation = numbers[0].search().explain(numbers[0].text)
        rows = [evaluator for convention in explanation.conventions for _, evaluator in convention.evaluators]
        assert row in rows, explanation


def test_nearly_all_recorded_numbers_name_their_evaluator():
    names = names_of()
    named = Counter[bool]()
    missing = []
    for number in all_numbers():
        if any(fnmatchcase(number.key, pattern) for pattern in NOT_NAMED):
            continue
        explanation = number.search().explain(number.text)
        is_named = bool(names.get(number.evaluator, set()) & {*explanation.evaluators})
        named[is_named] += 1
        if not is_named:
            missing.append((number.key, number.text))
    assert named[True] >= LEAST_NAMED * named.total(), missing


def test_random_numbers_are_seldom_explained():
    generator = np.random.default_rng(0)
    searches = list(dict.fromkeys(number.search() for number in all_numbers()))
    num_explained = 0
    for place in range(1000):
        search = searches[place % len(searches)]
        values = [convention.value for convention in search.conventions]
        number = generator.uniform(min(values), min(1, max(values)))
        num_explained += bool(search.explain(f"{number:.4f}").conventions)
    assert num_explained <= MOST_BY_CHANCE * 1000
