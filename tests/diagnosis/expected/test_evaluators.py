"""The known evaluators: each has a recorded output, and is named for the numbers that were recorded of it."""

from fnmatch import fnmatchcase

import numpy as np

from reid_torchmetrics.diagnosis.expected import Expected, KnownEvaluator
from reid_torchmetrics.diagnosis.expected.known import PAIR_EVALUATORS, RETRIEVAL_EVALUATORS
from tests.diagnosis.expected.recorded import all_numbers
from tests.diagnosis.expected.searches import numbers_of_profile
from tests.profiles import each_row

LEAST_NAMED = 0.97
MOST_BY_CHANCE = 0.05


def names_of() -> dict[str, set[str]]:
    """Names of evaluators by their names in recorded outputs."""
    names: dict[str, set[str]] = {}
    for row in REGISTRIES:
        for proof in row.proofs:
            names.setdefault(proof.split("/")[2], set()).add(row.name)
    return names


REGISTRIES = (*RETRIEVAL_EVALUATORS, *PAIR_EVALUATORS)
ROWS: dict[str, KnownEvaluator] = {f"{row.name} {row.source} {row.words}": row for row in REGISTRIES}


def test_rows_differ():
    assert len(ROWS) == len(REGISTRIES)


@each_row("name", ROWS)
def test_a_row_gives_a_recorded_output(name: str):
    row = ROWS[name]
    assert row.proofs, "a row needs the key of a recorded output"
    for proof in row.proofs:
        numbers = [number for number in all_numbers() if fnmatchcase(number.key, f"{proof}*")]
        assert numbers, f"`proofs` must be keys of recorded outputs; got {proof!r}"
        number = numbers[len(numbers) // 2]
        explanation = number.search().explain(number.text)
        rows = [evaluator for convention in explanation.conventions for _, evaluator in convention.evaluators]
        assert row in rows, explanation


def test_nearly_all_recorded_numbers_name_their_evaluator():
    names = names_of()
    numbers = numbers_of_profile(all_numbers())
    missing = []
    for number in numbers:
        explanation = number.search().explain(number.text)
        if not names.get(number.evaluator, set()) & {*explanation.evaluators}:
            missing.append((number.key, number.text))
    assert len(missing) <= (1 - LEAST_NAMED) * len(numbers), missing


def test_random_numbers_are_seldom_explained():
    generator = np.random.default_rng(0)
    searches = list(dict.fromkeys(number.search() for number in numbers_of_profile(all_numbers())))
    num_explained = 0
    for place in range(1000):
        search = searches[place % len(searches)]
        values = [convention.value for convention in search.conventions]
        number = generator.uniform(min(values), min(1, max(values)))
        num_explained += bool(search.matching(Expected.of(f"{number:.4f}"), search.conventions))
    assert num_explained <= MOST_BY_CHANCE * 1000
