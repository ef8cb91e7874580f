"""Writing of a report: the page about results, with the differences of other models, as a file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._extras import require
from reid_torchmetrics.files import write_whole
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.displays import UNDEFINED
from reid_torchmetrics.functional.retrieval.evaluation import RetrievalResults
from reid_torchmetrics.plot import (
    COLUMN_SIZE,
    Pictures,
    check_pictures,
    last_p_value,
    one_warning_of_glyphs,
    plot_comparison,
    size_for_differences,
)
from reid_torchmetrics.tasks import Comparison, Difference, Duplicates

from .detection_page import Boxes, detection_page
from .elements import Html, details, element, figure, join, note, number_text, percent_text, rank_text, table
from .page import Page, Section, render
from .retrieval_page import retrieval_page

_MOST_NAMED = 50  # queries that are gained or lost
_OPTIONS_OF_ALL_PAGES = ("results", "path", "title", "comparison")
_PAGES: dict[type, tuple[Callable[..., Page], str]] = {
    RetrievalResults: (retrieval_page, "a retrieval"),
    DetectionResults: (detection_page, "a detection"),
}
"""the function that makes the page and the kind of evaluation, by the type of results"""


@one_warning_of_glyphs()
def write_report(
    results: RetrievalResults | DetectionResults,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    pictures: Pictures | None = None,
    identity_names: Mapping[int, str] | None = None,
    gallery_pictures: Pictures | None = None,
    image_names: Mapping[int, str] | Mapping[str, str] | None = None,
    gallery_image_names: Mapping[int, str] | None = None,
    num_hardest: int | None = None,
    num_mistakes: int | None = None,
    comparison: Comparison | None = None,
    generator: torch.Generator | None = None,
    duplicates: Duplicates | None = None,
    duplicate_pictures: Pictures | None = None,
    class_names: Mapping[int, str] | None = None,
    num_worst: int | None = None,
    detections: Boxes | None = None,
    ground_truths: Boxes | None = None,
    box_format: _names.BoxFormat | None = None,
) -> Path:
    """Write one page of HTML about the results of an evaluation, and return its path.

    The page loads nothing, and can be sent as one file. The same results and options give the same bytes, with the same
    versions of Matplotlib and Pillow. The file is written as a whole, and replaces an older one, with its permissions;
    folders that do not exist are made. If there are several processes, only one should call this function. If a picture
    is missing, the page has the reason in its place, and there is a warning.

    For a retrieval the page shows the numbers with their intervals and conventions, why queries were left out, curves,
    the hardest queries and confident mistakes, pairs of cameras, cameras and identities. For a detection, by any
    evaluator, it shows the numbers, the classes, curves, errors and the images with the most errors. A sentence says
    what the results lack. If results of `evaluate` have no rank lists or pairs of cameras, these are computed: the
    gallery is ranked once more, and once for its cameras.

    Args:
        results: of an evaluation, or from `results` of a metric.
        path: of the file.
        title: None for a title with the name of the protocol.
        pictures: for a retrieval the pictures of the rank lists, as in `plot.draw_rank_lists`; for a detection the
            images by their `image_id`, with `detections` and `ground_truths` unless the results hold boxes. None for
            tables alone.
        identity_names: for a retrieval: names of the identities; without a name the number is shown.
        gallery_pictures: for a retrieval: as in `plot.draw_rank_lists`.
        image_names: names of the image files by the numbers or names that `pictures` take, which the page shows beside
            the images; None for no names.
        gallery_image_names: for a retrieval: names for the gallery; None for `image_names`.
        num_hardest: for a retrieval: number of the hardest queries on the page; None for 60.
        num_mistakes: for a retrieval: number of confident mistakes; None for 20.
        comparison: the result of `compare` for these results and others; None for no such section.
        generator: for a retrieval: random generator for the intervals; None for one with the seed 0.
        duplicates: for a retrieval: near duplicates of the queries, from `find_duplicates` or from a metric, for a
            section with the numbers without them.
        duplicate_pictures: for a retrieval: pictures of the samples that the queries are near to in `duplicates`; None
            for those of the gallery.
        class_names: for a detection: names of the classes by label; None for those of the results. Without a name the
            label is shown.
        num_worst: for a detection: number of images with the most errors; None for 20.
        detections: for a detection: the boxes of an image by its `image_id`, a dict as for `DetectionMAP.update`: a
            function of the number or the name, or something indexed by it. None for the boxes of
            `metric.results(boxes=True)`.
        ground_truths: for a detection: likewise.
        box_format: for a detection: format of the boxes; None for "xyxy".

    Raises:
        IsADirectoryError: `path` is that of a folder.
        ModuleNotFoundError: Matplotlib is not installed, or Pillow for pictures.
        TypeError: an argument of the wrong type.
        ValueError: an option out of range, or one that does not fit the kind of results.
    """
    # The options in the call, by name: only those of the page that is written are allowed.
    arguments = dict(locals())
    for name in _OPTIONS_OF_ALL_PAGES:
        del arguments[name]
    options = {name: value for name, value in arguments.items() if value is not None}
    packages = ["matplotlib"] if pictures is None else ["matplotlib", "PIL"]
    require("A report", *packages)
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"`path` must be that of a file; got the folder {os.fspath(path)!r}.")
    _checks.instance("title", title, (str,))
    _checks.names_of_labels("identity_names", identity_names)
    _checks.names_of_labels("class_names", class_names)
    _checks.names_of_labels("image_names", image_names)
    _checks.names_of_labels("gallery_image_names", gallery_image_names)
    for name in ("pictures", "gallery_pictures", "duplicate_pictures"):
        check_pictures(name, options.get(name))
    _checks.instance("duplicates", duplicates, (Duplicates,))
    _checks.instance("comparison", comparison, (Comparison,))
    if type(results) not in _PAGES:
        rule = "those of an evaluation, such as `evaluate` or `evaluate_boxes`, or of a metric's `results()`"
        raise TypeError(f"`results` must be {rule}; got {type(results).__name__}.")
    make, kind = _PAGES[type(results)]
    for name, value in options.items():
        if name not in signature(make).parameters:
            raise ValueError(f"`{name}` must be left out for results of {kind}; got {type(value).__name__}.")
    if comparison is None:
        page = make(results, **options)
    else:
        page = make(results, [_comparison_section(results.means, comparison)], **options)
        page.data["comparison"] = comparison.to_dict()
        *models, last_model = [comparison.names[0], *comparison.by_name]
        page_title = f"{', '.join(models)} and {last_model} compared"
        page = page._replace(title=page_title, lead=f"{page.title}. {page.lead}")
    write_whole(path, render(page, title).encode("utf-8", errors="replace"))
    return path


def _comparison_section(means: Mapping[str, float], comparison: Comparison) -> Section:
    """Return the differences between models, one of which has the `means` of the page.

    Raises:
        ValueError: no model has the numbers of the page.
    """
    model = _find_model(means, comparison)
    if model is None:
        raise ValueError("`comparison` must be of `results` and of others; got one of other numbers.")
    content: list[Html] = []
    for number, pair in enumerate(comparison.by_name.values()):
        content.extend(_compare_pair(pair, number))
    chance = comparison.chance.capitalize()
    content.append(note(f"All other sections are about {model}. {chance}; the same draws for all models."))
    return Section("comparison", "Differences", content)


def _find_model(means: Mapping[str, float], comparison: Comparison) -> str | None:
    """Return the model that has the `means` of a page; None if there is none.

    Numbers are compared as texts, for NaN does not equal itself.
    """
    # Without a class detections have -1 in the place of NaN.
    page_numbers = {name: str(math.nan if mean < 0 else mean) for name, mean in means.items()}
    numbers_of_models: dict[str, dict[str, str]] = {}
    for model, pair in comparison.by_name.items():
        numbers_of_models[model] = {name: str(row.mean_b) for name, row in pair.differences.items()}
    baseline = comparison.names[0]
    numbers_of_models[baseline] = {name: str(row.mean_a) for name, row in comparison.differences.items()}
    for model, numbers in numbers_of_models.items():
        if numbers.items() <= page_numbers.items():
            return model
    return None


def _compare_pair(pair: Comparison, number: int) -> list[Html]:
    """Return the differences between two models as a table and a figure, with the queries that changed."""
    a, b = pair.names
    has_holm = any(difference.p_holm >= 0 for difference in pair.differences.values())
    interval = f"{100 * pair.level:g} % interval"
    unit = "queries" if pair.protocol else "classes"
    p_columns = ["p", "p by Holm"] if has_holm else ["p"]
    columns = ["measure", f"{b} - {a}", interval, *p_columns, a, b, f"{unit} better", "worse", "equal"]
    significance = 1 - pair.level
    differences_of_pair = pair.differences.values()
    rows = [_difference_row(row, has_holm=has_holm, significance=significance) for row in differences_of_pair]
    differences = table(f"Differences of {a} and {b}, and their numbers", columns, rows)
    size = size_for_differences(COLUMN_SIZE, len(rows))
    drawing = figure(partial(_plot_differences, pair), f"comparison-{number}", "", size)
    content = [element("div", differences, class_="beside"), note(f"● p ≤ {significance:g}; ○ p > {significance:g}")]
    if pair.protocol is None:
        return [*content, drawing]

    # The queries whose first candidate became right, or wrong, by their numbers.
    gained = _list_queries(f"Queries whose first candidate is right in {b} alone", pair.gained_index)
    lost = _list_queries(f"Queries whose first candidate is right in {a} alone", pair.lost_index)
    a_setup = str(pair.setup_a)
    b_setup = str(pair.setup_b)
    setups = note(f"Both: {a_setup}." if a_setup == b_setup else f"{a}: {a_setup}. {b}: {b_setup}.")
    return [*content, element("div", drawing, element("div", gained, lost, setups), class_="figures")]


def _plot_differences(comparison: Comparison, ax: Any) -> None:
    """Draw the differences without the numbers beside them, which are in the table."""
    plot_comparison(comparison, ax=ax)
    for text in list(ax.texts):
        text.remove()


def _difference_row(difference: Difference, *, has_holm: bool, significance: float) -> list[str]:
    """Return the cells of one measure in the table of differences.

    A dot before the difference and before the p-value that decides is filled if the difference is significant.
    """
    format_number = rank_text if difference.is_rank else percent_text
    heading = difference.title if difference.is_rank else f"{difference.title} (%)"
    gain, low, high = (
        f"+{format_number(change)}" if change > 0 else format_number(change)
        for change in (difference.difference, difference.low, difference.high)
    )
    interval = gain if gain == UNDEFINED else f"{low} to {high}"
    p_values = [difference.p_value, difference.p_holm] if has_holm else [difference.p_value]
    p_texts = [number_text(p_value, ".4f") for p_value in p_values]
    if not math.isnan(difference.p_value):
        dot = element("span", "●" if last_p_value(difference) <= significance else "○", class_="dot")
        gain = join([dot, gain], " ")
        p_texts[-1] = join([dot, p_texts[-1]], " ")
    return [
        heading,
        gain,
        interval,
        *p_texts,
        format_number(difference.mean_a),
        format_number(difference.mean_b),
        f"{difference.num_better:,}",
        f"{difference.num_worse:,}",
        f"{difference.num_equal:,}",
    ]


def _list_queries(title: str, query_index: Tensor) -> Html:
    """Return the numbers of some queries, folded under their count."""
    num_queries = len(query_index)
    summary = f"{title}: {num_queries}"
    if num_queries == 0:
        return element("p", f"{summary}.")
    text = ", ".join(map(str, query_index[:_MOST_NAMED].tolist()))
    if num_queries > _MOST_NAMED:
        text += f" and {num_queries - _MOST_NAMED:,} more, see the JSON below"
    return details(summary, element("p", text))
