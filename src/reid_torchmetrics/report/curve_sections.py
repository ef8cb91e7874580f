"""The curves of a retrieval, and its pairs of cameras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reid_torchmetrics.functional.retrieval.evaluation import CameraPairs, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.plot import plot_camera_pairs, plot_cmc, plot_first_ranks, plot_retrieval_precision_recall
from reid_torchmetrics.report.elements import Html, details, element, note, table
from reid_torchmetrics.report.figures import figure
from reid_torchmetrics.report.numbers_in_words import heading, of_measure
from reid_torchmetrics.report.page import Section, shown_or_why

_HOW = (
    "Not shown: the results hold no pairs of cameras; metric.results(camera_pairs=True) gives results that do, and"
    " those of evaluate(...) find them by themselves."
)
_MOST_CAMERAS = 40  # a table of the pairs of more is slow, and not read


def curves_section(results: RetrievalResults) -> Section:
    """The CMC, the mean precision over recall, and the ranks of the first right answers."""
    curves: dict[str, tuple[Callable[[], Any], str]] = {
        "cmc": (lambda: plot_cmc(results.cmc), "Share of the queries with a right answer among the first candidates."),
        "precision-recall": (
            lambda: plot_retrieval_precision_recall(results),
            "Mean over queries of the interpolated precision at each recall.",
        ),
        "first-ranks": (lambda: plot_first_ranks(results), "Queries by the rank of their first right answer."),
    }
    shown = [each for name, (draw, caption) in curves.items() for each in _curve(name, draw, caption)]
    return Section("curves", "Curves", [element("div", *shown, class_="figures")])


def _curve(name: str, draw: Callable[[], Any], caption: str) -> list[Html]:
    return shown_or_why(lambda: [figure(draw()[0], name, caption)])


def camera_pairs_section(results: RetrievalResults) -> Section:
    """The first reported number between each two cameras, or all that the results hold."""
    if results.camera_pairs is None and results.problem is None:
        return Section("camera-pairs", "Pairs of cameras", [note(_HOW)])
    return Section("camera-pairs", "Pairs of cameras", shown_or_why(lambda: _camera_pairs(results)))


def _camera_pairs(results: RetrievalResults) -> list[Html]:
    held = results.camera_pairs
    chosen = [next(iter(results.values))] if held is None else [*held]
    pairs = {name: results.by_camera_pair(name) for name in chosen}
    said = "Queries of a camera against the gallery of one camera alone, by {}."
    figures = [
        figure(plot_camera_pairs(each, name=name)[0], f"camera-pairs-{name}", said.format(name))
        for name, each in pairs.items()
        if not parse_report(name)[0].is_rank  # colors are shares
    ]
    shown = {name: _of_most_queries(each) for name, each in pairs.items()}
    tables = [_pairs_table(name, each) for name, each in shown.items()]
    is_cut = any(shown[name].mean.shape != each.mean.shape for name, each in pairs.items())
    few = f", of {_MOST_CAMERAS} cameras at most, those with the most queries" if is_cut else ""
    return [element("div", *figures, class_="figures"), details(f"As tables{few}", *tables)]


def _of_most_queries(pairs: CameraPairs) -> CameraPairs:
    """The pairs of as many cameras of each side as a table can show."""
    rows, columns = (
        pairs.num_valid.sum(other).argsort(descending=True, stable=True)[:_MOST_CAMERAS].sort().values
        for other in (1, 0)
    )
    return CameraPairs(
        pairs.query_cameras[rows],
        pairs.gallery_cameras[columns],
        pairs.mean[rows][:, columns],
        pairs.num_valid[rows][:, columns],
    )


def _pairs_table(name: str, pairs: CameraPairs) -> Html:
    columns = ["query camera", *(f"gallery camera {camera}" for camera in pairs.gallery_cameras.tolist())]
    numbers = zip(pairs.query_cameras.tolist(), pairs.mean.tolist(), strict=True)
    rows = [[str(camera), *(of_measure(name, value) for value in means)] for camera, means in numbers]
    return table(heading(name), columns, rows)
