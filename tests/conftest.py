"""Runs the functional layer under its own shape annotations, and Hypothesis by the profile of `profiles.py`."""

import gc
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import absent_rings, executed_shapes, profiles

if TYPE_CHECKING:
    from tests.distributed.processes import Processes

TESTS = Path(__file__).parent

collect_ignore_glob = ["golden/record_*.py"]  # scripts that need the evaluators whose outputs they record

gc.disable()  # until all is imported and collected


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Collect the garbage of tests alone, and seldom: modules and items are many, and stay."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # by default each evaluation is several collections, which find nothing
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Let tests of other rings be skipped where some of the package is deleted."""
    if absent_rings.ABSENT:
        config.pluginmanager.register(absent_rings.AbsentRings())


if not profiles.IS_QUICK:
    executed_shapes.install()

if "PYTEST_XDIST_WORKER" in os.environ:  # the workers, and what they start, share the cores
    import torch  # not in the process that starts them, for which they wait

    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in the docstrings of files of tests, which have none."""
    collectors = yield
    if not file_path.name.startswith("test_"):
        return collectors
    return [collector for collector in collectors if type(collector) is pytest.Module]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests and the parameters that are not of the profile; one worker has all tests of `processes`.

    The first worker is given the first eighth of the tests, and the last tests should be short.
    """
    kept = profiles.of_profile(items)
    config.hook.pytest_deselected(items=[*{*items}.difference(kept)])
    items[:] = sorted(kept, key=lambda item: ("processes" not in item.fixturenames, item.path.parent != TESTS))


@pytest.fixture(autouse=profiles.IS_QUICK)
def _no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip a test at the first process that it starts."""

    def skip(*_: object, **__: object) -> None:
        pytest.skip("a quick run starts no process")

    monkeypatch.setattr(subprocess.Popen, "__init__", skip)
    monkeypatch.setattr(BaseProcess, "start", skip)


if profiles.PROFILE == "nightly":

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Everything is installed at night: a skip is a failure."""
        report = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            report.outcome = "failed"
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        collector: pytest.Collector,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """So is a module that is skipped."""
        report = yield
        if report.skipped:
            report.outcome = "failed"
        return report


@pytest.fixture(autouse=True)
def _seed() -> None:
    import torch  # noqa: PLC0415 - not in the process that starts the workers

    torch.default_generator.manual_seed(20240917)  # `torch.manual_seed` formats the stack for each other device


@pytest.fixture(autouse=True)
def _no_figure_stays_open() -> Iterator[None]:
    """Close what a test drew with pyplot, as TorchMetrics' `plot` does: others ask whether a figure was left open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def nothing_kept() -> None:
    """Let nothing be ranked or matched before: tests that count ask for it."""
    from reid_torchmetrics.functional.detection.evaluation.image_matches import matchings  # noqa: PLC0415 - after the hook
    from reid_torchmetrics.metrics.reid.ranking import rankings  # noqa: PLC0415

    matchings.clear()
    rankings.clear()


@pytest.fixture(scope="module", autouse=True)
def _shapes(request: pytest.FixtureRequest) -> None:
    """Execute the shapes in the first calls of each module of tests."""
    executed_shapes.forget_calls()
    executed_shapes.execute(profiles.calls_with_shapes(request.path.relative_to(TESTS).parts[0]))


@pytest.fixture
def unannotated() -> Iterator[None]:
    """Let bad input reach the argument checks: a user has no annotations executed before them."""
    before = executed_shapes.execute(0)
    yield
    executed_shapes.execute(before)


@pytest.fixture(scope="session")
def processes() -> "Iterator[Processes]":
    """Processes that all tests share: to start them takes seconds."""
    from tests.distributed.processes import Processes  # noqa: PLC0415 - for the same reason

    pool = Processes()
    yield pool
    pool.stop()
