"""Writes reports and reads them."""

import pytest

from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.plot import FIGURES
from reid_torchmetrics.report import retrieval_page, write_report
from tests.report import problems
from tests.report.pages import Element, read


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Writes a report and reads it; figures take their time, and have no part in most tests."""

    def write(results=None, **options) -> Element:
        return read(write_report(problems.retrieval() if results is None else results, tmp_path / "r.html", **options))

    def nothing(*_, ax, **__):
        ax.set_axis_off()  # axes are laid out and drawn slowly

    monkeypatch.setattr(retrieval_page, "plot_camera_pairs", nothing)
    rows = {name: row._replace(plot=nothing) for name, row in FIGURES[RetrievalResults].items()}
    monkeypatch.setitem(FIGURES, RetrievalResults, rows)
    return write


@pytest.fixture
def with_lists():
    return problems.of_metric(rank_lists=problems.rank_lists())
