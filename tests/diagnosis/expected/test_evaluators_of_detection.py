"""The known evaluators of detection: each has a recorded output, and is named for the numbers that were recorded."""

from collections import Counter
from fnmatch import fnmatchcase

import numpy as np

from reid_torchmetrics.diagnosis.expected import Expected, KnownEvaluator
from reid_torchmetrics.diagnosis.expected.known import DETECTION_EVALUATORS
from tests.diagnosis.expected.recorded_boxes import all_numbers
from tests.diagnosis.expected.searches import numbers_of_profile
from tests.profiles import each_row

LEAST_NAMED = 0.97
MOST_BY_CHANCE = 0.05
NOT_NAMED: dict[str, str] = {
    "peers/*/kwcoco/score_kwcoco": (
        "objects of all classes are matched together, overlaps of 0.5 do not count, and few rows are padded"
    ),
    "peers/*/globox/map_*": (
        "a detection is compared with objects of other sizes only where no free object of the size is left"
    ),
    "lvis/c09_ties/fixed3/*": "the order of the file decides between equal scores at the limit",
    "peers/ties/tidecv/*": "equal scores are in the order in which classes were seen",
}
"""recorded numbers that may be of no convention here, and why"""
ROWS: dict[str, KnownEvaluator] = {f"{row.name} {row.source}": row for row in DETECTION_EVALUATORS}


@each_row("name", ROWS)
def test_a_row_gives_a_recorded_output(name: str):
    row = ROWS[name]
    assert row.proofs, "a row needs the key of a recorded output"
    for proof in row.proofs:
        numbers = [number for number in all_numbers() if fnmatchcase(number.key, f"{proof}*")]
        assert numbers, f"`proof` {proof!r} must be the key of a recorded output"
        explanation = numbers[0].search().explain(f"{numbers[0].value:.4f}")
        rows = [evaluator for convention in explanation.conventions for _, evaluator in convention.evaluators]
        assert row in rows, explanation


def test_nearly_all_recorded_numbers_name_their_evaluator():
    names: dict[str, set[str]] = {}
    for row in DETECTION_EVALUATORS:
        for proof in row.proofs:
            names.setdefault(proof.split("/")[2], set()).add(row.name)
    named = Counter[bool]()
    missing = []
    for number in numbers_of_profile(all_numbers()):
        expected = Expected.of(f"{number.value:.4f}").read(is_share=True)
        giving = [convention for convention in number.search().conventions if expected.equals(convention.value)]
        found = {evaluator.name for convention in giving for _, evaluator in convention.evaluators}
        is_named = bool(names[number.evaluator] & found)
        named[is_named] += 1
        if not is_named:
            missing.append(number.key)
    assert named[True] >= LEAST_NAMED * named.total(), missing
    assert all(any(fnmatchcase(key, pattern) for pattern in NOT_NAMED) for key in missing), missing


def test_random_numbers_are_seldom_explained():
    generator = np.random.default_rng(0)
    searches = dict.fromkeys(number.search() for number in numbers_of_profile(all_numbers()))
    all_values = [[convention.value for convention in search.conventions] for search in searches]
    all_values = [values for values in all_values if min(values) < max(values)]
    num_explained = 0
    for place in range(1000):
        values = all_values[place % len(all_values)]
        number = generator.uniform(min(values), min(1, max(values)))
        num_explained += bool(np.isclose(values, number, rtol=0, atol=0.5e-4).any())
    assert num_explained <= MOST_BY_CHANCE * 1000
