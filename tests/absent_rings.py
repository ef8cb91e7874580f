"""A run of the tests where outer rings of the package are deleted: tests that use them are skipped.

rm -r src/reid_torchmetrics/{tasks,diagnosis,plot,report,integrations,files,data,coco,command}
python -m pytest tests/functional tests/metrics
"""

from __future__ import annotations

from collections.abc import Generator
from importlib.util import find_spec

import pytest

PACKAGE = "reid_torchmetrics"
RINGS = ("tasks", "diagnosis", "plot", "report", "integrations", "files", "data", "coco", "command")
ABSENT = [ring for ring in RINGS if find_spec(f"{PACKAGE}.{ring}") is None]


class AbsentRings:
    """Skips tests that import a deleted ring, or that are marked by `needs`."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let a test that fails by the import of a deleted ring be skipped."""
        report = yield
        if report.failed and call.excinfo is not None and _is_by_import(call.excinfo.value):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, str(call.excinfo.value))
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Let a module that cannot be imported without a deleted ring be skipped."""
        report = yield
        text = str(report.longrepr)
        is_of_skipped_module = "cannot import name" in text and "from 'tests." in text
        if report.failed and (is_of_skipped_module or any(_names_ring(text, ring) for ring in ABSENT)):
            report.outcome = "skipped"
            report.longrepr = (str(collector.path), 0, "imports a ring that is deleted")
        return report

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip the tests that are marked."""
        for item in items:
            for marker in item.iter_markers("needs"):
                if not set(marker.args).isdisjoint(ABSENT):
                    item.add_marker(pytest.mark.skip(f"needs {', '.join(marker.args)}"))


def _is_by_import(error: BaseException | None) -> bool:
    """Return whether an error, or one that led to it, is the import of a deleted ring."""
    while error is not None:
        may_name_ring = isinstance(error, ImportError) or _is_of_another_process(error)
        if may_name_ring and any(_names_ring(str(error), ring) for ring in ABSENT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_of_another_process(error: BaseException) -> bool:
    return "Traceback" in str(error)


def _names_ring(text: str, ring: str) -> bool:
    return f"'{PACKAGE}.{ring}" in text or f"cannot import name '{ring}' from '{PACKAGE}'" in text
