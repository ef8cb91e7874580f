"""Writes reports and reads them."""

import pytest

from reid_torchmetrics.plot import FIGURES
from reid_torchmetrics.report import retrieval_page, write, write_report
from tests.report import problems
from tests.report.pages import Element, read


@pytest.fixture
def empty_figures(monkeypatch):
    """Draw nothing into figures, which take their time, and have no part in most tests."""

    def nothing(*_, ax, **__):
        ax.set_axis_off()  # axes are laid out and drawn slowly

    monkeypatch.setattr(retrieval_page, "plot_camera_pairs", nothing)
    monkeypatch.setattr(write, "plot_comparison", nothing)
    for kind, rows in FIGURES.items():
        monkeypatch.setitem(FIGURES, kind, {name: row._replace(plot=nothing) for name, row in rows.items()})


@pytest.fixture
def report(tmp_path, empty_figures):
    """Writes a report and reads it."""

    def written(results=None, **options) -> Element:
        return read(write_report(problems.retrieval() if results is None else results, tmp_path / "r.html", **options))

    return written


@pytest.fixture
def with_lists():
    return problems.of_metric(rank_lists=problems.rank_lists())
