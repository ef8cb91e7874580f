"""How much a run draws and executes, by `TEST_PROFILE`.

quick      a tenth of the examples, the same in each run, and one parameter of a test, but all rows of a registry
           (`each_row`), without those that are marked `slow`; no shapes are executed, and no process is started
suite      half of the examples, the same in each run
nightly    ten times the examples, and new ones in each run; `--hypothesis-seed` asks for those of another run
"""

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

Value = TypeVar("Value")

PROFILE = os.environ.get("TEST_PROFILE", "suite")
IS_QUICK = PROFILE == "quick"
_TIMES = {"quick": 0.1, "suite": 0.5, "nightly": 10.0}[PROFILE]

settings.register_profile(
    PROFILE, deadline=None, max_examples=round(100 * _TIMES), derandomize=PROFILE != "nightly", print_blob=True
)
settings.load_profile(PROFILE)


def examples(number: int) -> settings:
    """Settings of a test that draws a number of examples of its own, times the factor of the profile."""
    return settings(max_examples=max(1, round(number * _TIMES)))


def of_each(values: Iterable[Value], *, suite: int = 1) -> list[Value]:
    """All values in a nightly run, else the first: the parameters of tests that differ little by them."""
    return [*values][: None if PROFILE == "nightly" else suite]


def each_row(argument: str, names: Iterable[Any]) -> pytest.MarkDecorator:
    """Run a test for rows of a registry, by name: for all of them in a quick run, too.

    Pass the registry itself, or what is derived from it, so that a new row is tested without a change of the test. A
    function may stand beside the names, as users may pass one.
    """
    rows: list[Any] = []
    for name in names:
        label = name if isinstance(name, str) else name.__name__
        rows.append(pytest.param(name, id=label, marks=pytest.mark.row(label)))
    return pytest.mark.parametrize(argument, rows)


def of_quick_run(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests of a quick run: no slow ones, and of each the first parameter, but all rows of registries."""
    first: dict[tuple[str, ...], pytest.Item] = {}
    for item in items:
        rows = [mark.args[0] for mark in item.iter_markers("row")]
        first.setdefault((item.nodeid.partition("[")[0], *rows), item)
    return [item for item in first.values() if item.get_closest_marker("slow") is None]


def calls_with_shapes(room: str) -> int:
    """Of how many calls of each function a module of tests executes the shapes."""
    if PROFILE == "nightly":
        return 0 if room == "device" else 1000
    return 1 if room == "functional" and not IS_QUICK else 0
