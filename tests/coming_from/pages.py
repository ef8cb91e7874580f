"""The pages for those who come from another tool: their blocks of code, and what their tables say."""

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import reid_torchmetrics
from reid_torchmetrics import tasks
from tests import test_docs_pages
from tests.coming_from.same import SAME
from tests.golden.cases import RECORDINGS, Problem, Record, RecordedError, as_problem
from tests.golden.peers import assert_equal
from tests.golden.rows_of_pages import RECORDED
from tests.test_docs import tables

FOLDER = Path(__file__).parents[2] / "docs" / "coming_from"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
COLUMNS = ["what differs", "theirs", "ours", "option that gives theirs"]
NONE = "none"
"""stands where no option gives theirs"""
WORDS = {"": "", "no `image_id`": "image_id=None"}
"""words in the place of an option: ours is theirs already, or a key is to be left out of the targets"""


@dataclass(frozen=True)
class Row:
    """A difference that a page states, or a number that is the same."""

    page: str
    what: str
    theirs: str
    ours: str
    option: str
    key: str
    """where theirs is recorded, or run"""

    @property
    def code(self) -> str | None:
        """The option as keyword arguments, "" where there is nothing to set; None where no option gives theirs."""
        if self.option in WORDS:
            return WORDS[self.option]
        found = re.fullmatch(r"`(.+)`", self.option)
        assert found or self.option == NONE, self.option
        return found[1] if found else None


def rows(page: str) -> list[Row]:
    """The differences of a page, and what is the same."""
    (table,) = (table for table in tables(PAGES[page]) if table.header == COLUMNS)
    same = [Row(page, what, number, number, "", key) for what, number, key in SAME[page]]
    return [Row(page, *row.values(), key) for row, key in zip(table.rows, RECORDED[page], strict=True)] + same


def names_of(row: Row) -> str:
    """What a test of a row is called."""
    return f"{row.key}-{row.option.strip('`')}"


def blocks(page: str) -> list[str]:
    """The code of a page that is ours."""
    return test_docs_pages.blocks(FOLDER / f"{page}.md")


def their_blocks(page: str) -> list[str]:
    """The code of a page that needs the other tool."""
    return re.findall(r"```py\n(.*?)```", PAGES[page], flags=re.DOTALL)


def run(code: str, **names: Any) -> dict[str, Any]:
    """Run a block; returns the names that it defines."""
    exec(compile(code, "coming_from", "exec"), names)  # noqa: S102 - our own text
    return names


@cache
def names(page: str) -> dict[str, Any]:
    """What the first block of a page defines, the function to copy among it; its files and prints are let go."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            return run(blocks(page)[0])
        finally:
            os.chdir(before)


OURS = {name: getattr(reid_torchmetrics, name) for name in reid_torchmetrics.__all__}
TASKS = {name: getattr(tasks, name) for name in tasks.__all__}


def options_of(row: Row, known: dict[str, Any]) -> dict[str, Any]:
    """The option of a row as keyword arguments; it may use the names of the page's block and of the problem."""
    return eval(f"dict({row.code or ''})", OURS | known)  # noqa: S307


def recorded(key: str) -> Record | RecordedError:
    """A recorded value by `<case>/<evaluator>/<output>`, or a recorded error by `<case>/<evaluator>/<function>`."""
    for recording in RECORDINGS.values():
        if key in recording.records:
            return recording.records[key]
    (error,) = (
        error
        for recording in RECORDINGS.values()
        for error in recording.errors.values()
        if f"{error.case}/{error.peer}/{error.function}" == key
    )
    return error


@cache
def problem_of(case: str) -> Problem:
    """The distances and labels of a recorded case, or of the problem whose variant it is."""
    name = case.partition("__")[0]
    theme = "retrieval" if name in RECORDINGS["retrieval"].inputs else "draws"
    return as_problem(RECORDINGS[theme].inputs[name])


def as_tensor(value: Any) -> torch.Tensor:
    """A number as float64, an array as it is."""
    return torch.as_tensor(np.asarray(value))


def assert_cell(cell: str, value: Any) -> None:
    """Compare a cell such as `0.25`, `NaN`, `Rank-8: 0.5`, `mean 0.3` or `7 values` with a number or an array, flat."""
    place, _, number = cell.rpartition(" ")
    values = as_tensor(value).double().flatten()
    if number == "values":
        assert len(values) == int(place)
        return
    if place == "mean":
        found = values.mean()
    else:
        found = values[int(re.search(r"\d+", place)[0]) - 1] if place else values.squeeze()
    if number == "NaN":
        assert found.isnan()
    else:
        decimals = len(number.partition(".")[2])
        assert decimals >= 4
        assert float(found) == pytest.approx(float(number), abs=0.5001 * 10**-decimals)


def check_row(row: Row, ours: Callable[[dict[str, Any]], Any], theirs: Record | RecordedError | None = None) -> None:
    """What a row says is true; `ours` gives our value by the options of the row, `theirs` is recorded unless given."""
    default, theirs = ours({}), recorded(row.key) if theirs is None else theirs
    assert_cell(row.ours, default)
    if isinstance(theirs, RecordedError):
        assert (row.theirs, row.option) == (f"`{theirs.error}`", NONE)
        return
    assert_cell(row.theirs, theirs.value)
    if row.code is None:
        with pytest.raises(AssertionError):
            assert_equal(as_tensor(default), theirs)
    else:
        assert_equal(as_tensor(ours(options_of(row, known_in(row)))), theirs)


def live(row: Row, value: Any, *, precision: str = "float64") -> Record:
    """What the other tool, which is installed, has just returned."""
    return Record("live", row.key, np.asarray(value, dtype=np.float64), {"precision": precision})


def known_in(row: Row) -> dict[str, Any]:
    """The names that an option may use: those of the page's code, and the arrays of the problem."""
    case = row.key.partition("/")[0]
    problem = problem_of(case) if case[0] in "abc" else None
    return names(row.page) | ({"g_pids": problem.gallery_identities} if problem else {})
