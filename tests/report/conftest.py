"""Writes reports and reads them."""

import pytest
from matplotlib.figure import Figure

from reid_torchmetrics.report import retrieval_page, write_report
from tests.report import problems
from tests.report.pages import Element, read


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Writes a report and reads it; figures take their time, and have no part in most tests."""

    def write(results=None, **options) -> Element:
        return read(write_report(problems.retrieval() if results is None else results, tmp_path / "r.html", **options))

    for name in ("plot_camera_pairs", "plot_cmc", "plot_first_ranks", "plot_retrieval_precision_recall"):
        monkeypatch.setattr(retrieval_page, name, lambda *_, **__: (Figure((0.1, 0.1)), None))
    return write


@pytest.fixture
def with_lists():
    return problems.of_metric(rank_lists=problems.rank_lists())
