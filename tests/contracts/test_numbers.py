"""Every entry point gives the numbers of the reference for every kind of truth, or refuses it with words that say so.

A kind of truth that an entry point ignored would give other numbers, and one that it refused by accident other words.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.command_lines import COMMAND_LINES
from tests.contracts.entry_points import FUNCTIONS, METRICS, PROCESSES, EntryPoint, feed, words_of_refusal
from tests.contracts.expected import Numbers, expected_numbers
from tests.contracts.problems import Problem, Row, make_problem
from tests.contracts.rows import ROWS
from tests.profiles import PROFILE, each_row, of_each

SEEDS = of_each(range(10))
ENTRY_POINTS = {**FUNCTIONS, **METRICS, **PROCESSES, **COMMAND_LINES}
PROBLEMS = {row.name: row for row in ROWS}

pytestmark = pytest.mark.filterwarnings("ignore")


@cache
def problem_and_numbers(name: str, seed: int) -> tuple[Problem, Numbers]:
    """The problem of a row, and what the reference says of it."""
    problem = make_problem(PROBLEMS[name], seed)
    return problem, expected_numbers(problem)


def fault_in(row: Row, entry_point: EntryPoint, folder: Path, seed: int) -> str:
    """What an entry point does wrong with the problem of a row; empty for nothing."""
    problem, expected = problem_and_numbers(row.name, seed)
    refusals = words_of_refusal(problem.row, entry_point)
    try:
        numbers = entry_point.evaluate(problem, folder)
    except (TypeError, ValueError, RuntimeError) as error:
        message = " ".join(str(error).split())
        is_refusal = any(re.search(words, message) for words in refusals)
        return "" if is_refusal else f"refuses: {message}"
    if refusals:
        return f"gives numbers where it must refuse: {refusals[0]}"
    return difference(numbers, expected, entry_point)


def difference(numbers: Numbers, expected: Numbers, entry_point: EntryPoint) -> str:
    """The first number that differs; empty for none. What an entry point does not tell is not compared."""
    if entry_point.has_all_reports and numbers.means.keys() != expected.means.keys():
        return f"reports {list(numbers.means)}, not {list(expected.means)}"
    for field in Numbers._fields:
        text = differing(getattr(numbers, field), getattr(expected, field), entry_point.tolerance)
        if text:
            return f"{field} {text}"
    return ""


def differing(values: Any, wanted: Any, tolerance: float) -> str:
    """How values, or values by name, differ from those that are wanted; empty if they do not."""
    if values is None or wanted is None:
        return ""
    if isinstance(values, dict):
        texts = [(name, differing(values[name], wanted[name], tolerance)) for name in values]
        return next((f"{name} {text}" for name, text in texts if text), "")
    is_equal = values == pytest.approx(wanted, abs=tolerance, rel=0, nan_ok=True)
    return "" if is_equal else f"{values}, not {wanted}"


IN_TURNS = {
    "evaluate_scores": ["evaluate_scores", "evaluate_scores of distances"],
    "evaluate_lists": ["evaluate_lists", "evaluate_lists by name"],
    "the collection": list(METRICS),
    "a metric on 2 processes": list(PROCESSES),
    "evaluate of files": ["evaluate of files", "evaluate of tables"],
}
"""entry points that are much alike, and have rows in turns, by the first of them"""
OTHERS_IN_TURNS = {other for names in IN_TURNS.values() for other in names[1:]}


def pairs_of(name: str, seed: int) -> list[tuple[str, Row]]:
    """An entry point and a row each. The next seed gives the row to the next one of those that are alike."""
    names = IN_TURNS.get(name, [name])
    rows = ROWS if PROFILE == "nightly" or name == "evaluate" else covering_rows(ENTRY_POINTS[name])
    return [(names[(seed + number) % len(names)], row) for number, row in enumerate(rows)]


def covering_rows(entry_point: EntryPoint) -> list[Row]:
    """A few rows, so that an entry point follows, or refuses, each feature in one of them."""
    outcomes = {row.name: outcomes_of(row, entry_point) for row in ROWS}
    missing = set().union(*outcomes.values())
    covering = []
    while missing:
        best = max(ROWS, key=lambda row: len(outcomes[row.name] & missing))
        covering.append(best)
        missing -= outcomes[best.name]
    return covering


def outcomes_of(row: Row, entry_point: EntryPoint) -> set[tuple[str, bool]]:
    """The features of a row, and whether the entry point refuses it."""
    is_refused = bool(words_of_refusal(row, entry_point))
    return {(feature, is_refused) for feature in row.features}


@pytest.mark.parametrize("seed", SEEDS)
@each_row("name", [name for name in ENTRY_POINTS if name not in OTHERS_IN_TURNS])
def test_an_entry_point_gives_the_numbers_of_the_reference_or_refuses(name, seed, tmp_path):
    assert_right(pairs_of(name, seed), tmp_path, seed)


def assert_right(pairs: Iterable[tuple[str, Row]], folder: Path, seed: int) -> None:
    """Fail with all that is wrong, given pairs of an entry point and a row."""
    wrong = []
    for name, row in pairs:
        files = folder / f"{name}, {row.name}"
        files.mkdir()
        fault = fault_in(row, ENTRY_POINTS[name], files, seed)
        if fault:
            wrong.append(f"{name}, {row.name}: {fault}")
    assert not wrong, "\n".join(["", *wrong])


ON_GLOO = (
    "several identities and cameras",
    "missing names that are junk",
    "a camera rule of the CMC that drops all",
    "groups that are names",
    "numbers of samples",
    "names that agree and numbers that differ",
    "lists by name",
    "lists and sequences",
    "several identities among all others",
    "ties expected",
    "drawn galleries",
)
"""rows that processes of `torch.distributed` are given"""


def on_process(process: int, size: int) -> dict[str, Numbers | str]:
    """The numbers of some rows, or the message of the error, on a process of a group."""
    from tests.contracts.entry_points import numbers_of, one_metric  # noqa: PLC0415

    told: dict[str, Numbers | str] = {}
    for name in ON_GLOO:
        problem = make_problem(PROBLEMS[name])
        metric = one_metric(problem)
        try:
            feed(metric, problem, process, size)
            told[name] = numbers_of(metric.results())
        except (TypeError, ValueError) as error:
            told[name] = str(error)
    return told


@pytest.mark.parametrize("size", of_each([2, 3]))
def test_processes_of_a_group_give_the_numbers_of_the_reference(processes, size):
    entry_point = PROCESSES[f"a metric on {size} processes"]
    for told in processes.run(size, on_process):
        for name in ON_GLOO:
            problem, expected = problem_and_numbers(name, 0)
            refusals = words_of_refusal(problem.row, entry_point)
            if refusals:
                assert re.search(refusals[0], told[name])
            else:
                assert difference(told[name], expected, entry_point) == "", name
