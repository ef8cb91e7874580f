"""How much a run draws and executes, by `TEST_PROFILE`.

quick      a tenth of the examples, the same in each run, and one parameter of a test, but all rows of a registry
           (`each_row`), without those that are marked `slow`; no shapes are executed, and no process is started
suite      half of the examples, the same in each run; of expensive tests that differ little by their
           parameters (`SAMPLED`, and those that are marked `sampled`) a sixth of the parameters, but all rows of a
           registry; without those that are marked `nightly`
nightly    all tests and parameters, ten times the examples, and new ones in each run; `--hypothesis-seed` asks for
           those of another run
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings

Value = TypeVar("Value")

PROFILE = os.environ.get("TEST_PROFILE", "suite")
IS_QUICK = PROFILE == "quick"
_TIMES = {"quick": 0.1, "suite": 0.5, "nightly": 10.0}[PROFILE]

SAMPLED = {
    "advice",
    "diagnosis",
    "command",
    "device",
    "distributed",
    "examples",
    "integrations",
    "plot",
    "report",
    "sharding",
}
"""packages with expensive tests that differ little by their parameters"""

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


def of_profile(items: Sequence[pytest.Item]) -> Sequence[pytest.Item]:
    """The tests that the profile runs."""
    if PROFILE == "nightly":
        return items
    if IS_QUICK:
        return of_quick_run(items)
    return of_suite_run(items)


def of_quick_run(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """No slow tests, and of the others the first parameter, but all rows of registries."""
    first, _ = _by_parameter(items)
    return [item for item in first if not (item.get_closest_marker("slow") or item.get_closest_marker("nightly"))]


def of_suite_run(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """No nightly tests, and of sampled ones the first parameter, all rows of registries, and a sixth of the others."""
    _, others = _by_parameter(item for item in items if _is_sampled(item))
    left_out = {item for item in items if item.get_closest_marker("nightly")}
    for of_one_test in others.values():
        for place, item in enumerate(of_one_test):
            if place % 6 != 5:
                left_out.add(item)
    return [item for item in items if item not in left_out]


def _is_sampled(item: pytest.Item) -> bool:
    return not SAMPLED.isdisjoint(item.path.parts) or item.get_closest_marker("sampled") is not None


def _by_parameter(items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], dict[str, list[pytest.Item]]]:
    """The first parameter of each test and all rows of registries, and the other parameters by the name of the test."""
    first: dict[tuple[str, ...], pytest.Item] = {}
    others: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        name = item.nodeid.partition("[")[0]
        rows = [mark.args[0] for mark in item.iter_markers("row")]
        if first.setdefault((name, *rows), item) is not item:
            others[name].append(item)
    return list(first.values()), others


def calls_with_shapes(room: str) -> int:
    """Of how many calls of each function a module of tests executes the shapes."""
    if PROFILE == "nightly":
        return 0 if room == "device" else 1000
    return 1 if room == "functional" and not IS_QUICK else 0
