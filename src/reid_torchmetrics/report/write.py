"""Results as a page, also about other models, and the page as a file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path

import torch
from torch import Tensor

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._extras import require
from reid_torchmetrics._files import write_whole
from reid_torchmetrics.functional.detection.evaluation import DetectionResults
from reid_torchmetrics.functional.retrieval.evaluation import Comparison, Difference, RetrievalResults
from reid_torchmetrics.functional.retrieval.verification import Duplicates
from reid_torchmetrics.plot import Pictures, check_pictures, one_warning_of_glyphs, plot_comparison

from .detection_page import Boxes, detection_page
from .elements import UNDEFINED, Html, details, element, figure, note, percent, rank, table
from .page import Page, Section, written
from .retrieval_page import retrieval_page

_MOST_NAMED = 50  # queries that are gained or lost
_OF_EVERY_PAGE = ("results", "path", "title", "comparison")
_PAGES: dict[type, tuple[Callable[..., Page], str]] = {
    RetrievalResults: (retrieval_page, "a retrieval"),
    DetectionResults: (detection_page, "a detection"),
}
"""by the type of results: the function that makes the page, and the kind of evaluation"""


@one_warning_of_glyphs()
def write_report(
    results: RetrievalResults | DetectionResults,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    pictures: Pictures | None = None,
    names: Mapping[int, str] | None = None,
    gallery_pictures: Pictures | None = None,
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
    folders that do not exist are made. Among several processes only one should call this. A picture that is missing has
    the reason in its place, and there is a warning.

    Of a retrieval it shows the numbers with their intervals and conventions, why queries were left out, curves, the
    hardest queries and confident mistakes, pairs of cameras, cameras and identities. Of a detection, by any evaluator,
    it shows the numbers, the classes, curves, errors and the images with the most errors. What the results lack has a
    sentence in its place. For results of `evaluate` without rank lists or pairs of cameras, these are computed: the
    gallery is ranked once more, and once for its cameras.

    Args:
        results: of an evaluation, or from `results` of a metric.
        path: of the file.
        title: None for one that names the protocol.
        pictures: as in `plot.draw_rank_lists`, for the rank lists; of a detection the images by their `image_id`, with
            `detections` and `ground_truths` unless the results hold boxes. None for tables alone.
        names: of a retrieval: of the identities; without a name the number is shown.
        gallery_pictures: of a retrieval: as in `plot.draw_rank_lists`.
        num_hardest: of a retrieval: how many of the hardest queries are shown; None for 60.
        num_mistakes: of a retrieval: how many confident mistakes; None for 20.
        comparison: the result of `compare` for these results and others; None for no such section.
        generator: of a retrieval: source of the intervals' randomness; None for one with the seed 0.
        duplicates: of a retrieval: near duplicates of the queries, by `find_duplicates` or by a metric, for a section
            with the numbers without them.
        duplicate_pictures: of a retrieval: of what queries are near to in `duplicates`; None for those of the gallery.
        class_names: of a detection: by label, else those of the results; without a name the label is shown.
        num_worst: of a detection: how many of the images with the most errors; None for 20.
        detections: of a detection: the boxes of an image by its `image_id`, a dict as for `DetectionMAP.update`: a
            function of the number or the name, or something indexed by it. None for the boxes of
            `metric.results(boxes=True)`.
        ground_truths: of a detection: likewise.
        box_format: of a detection: format of the boxes; None for "xyxy".

    Raises:
        IsADirectoryError: `path` is that of a folder.
        ModuleNotFoundError: Matplotlib is not installed, or Pillow for pictures.
        TypeError: an argument of the wrong type.
        ValueError: an option out of range, or one that does not fit the kind of results.
    """
    # The options that were given, by name: only those of the page that is written are allowed.
    options = {name: each for name, each in locals().items() if name not in _OF_EVERY_PAGE and each is not None}
    require("A report", "matplotlib", *["PIL"] * (pictures is not None))
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"`path` must be that of a file; got the folder {os.fspath(path)!r}.")
    _checks.instance("title", title, (str,))
    _checks.names_of_labels("names", names)
    _checks.names_of_labels("class_names", class_names)
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
    compared = [] if comparison is None else [_comparison_section(results.means, comparison)]
    page = make(results, compared, **options)
    if comparison is not None:
        lead, models = f"{page.title}. {page.lead}", [comparison.names[0], *comparison.by_name]
        page.data["comparison"] = comparison.to_dict()
        page = page._replace(title=f"{', '.join(models[:-1])} and {models[-1]} compared", lead=lead)
    write_whole(path, written(page, title).encode("utf-8", errors="replace"))
    return path


def _comparison_section(means: Mapping[str, float], comparison: Comparison) -> Section:
    """The differences of models, one of them that of the page with these `means`.

    Raises:
        ValueError: no model has the numbers of the page.
    """
    pairs = comparison.by_name
    # In words, for NaN is not itself; without a class detections have -1.
    here = {name: str(math.nan if mean < 0 else mean) for name, mean in means.items()}
    models = {b: {name: str(of.mean_b) for name, of in pair.differences.items()} for b, pair in pairs.items()}
    models[comparison.names[0]] = {name: str(of.mean_a) for name, of in comparison.differences.items()}
    same = [model for model, numbers in models.items() if numbers.items() <= here.items()]
    if not same:
        raise ValueError("`comparison` must be of `results` and of others; got one of other numbers.")
    said = f"All other sections are about {same[0]}. {comparison.chance.capitalize()}; the same draws for all models."
    content = [each for place, pair in enumerate(pairs.values()) for each in _pair(pair, place)]
    return Section("comparison", "Differences", [*content, note(said)])


def _pair(pair: Comparison, place: int) -> list[Html]:
    """What two models differ by."""
    a, b = pair.names
    has_holm = any(each.p_holm >= 0 for each in pair.differences.values())
    holm = ["p by Holm"] if has_holm else []
    interval, unit = f"{100 * pair.level:g} % interval", "queries" if pair.protocol else "classes"
    columns = ["measure", f"{b} - {a}", interval, "p", *holm, a, b, f"{unit} better", "worse", "equal"]
    rows = [_row(difference, has_holm=has_holm) for difference in pair.differences.values()]
    shown = element("div", table(f"Differences of {a} and {b}, and their numbers", columns, rows), class_="beside")
    drawn = figure(plot_comparison(pair)[0], f"comparison-{place}", "Differences with their intervals.")
    if pair.protocol is None:
        return [shown, drawn]
    # The queries whose first candidate became right, and wrong, by their numbers.
    a_setup, b_setup = str(pair.setup_a), str(pair.setup_b)
    gained = _change(f"Queries whose first candidate is right in {b} alone", pair.gained_index)
    lost = _change(f"Queries whose first candidate is right in {a} alone", pair.lost_index)
    setups = note(f"Both: {a_setup}." if a_setup == b_setup else f"{a}: {a_setup}. {b}: {b_setup}.")
    return [shown, element("div", drawn, element("div", gained, lost, setups), class_="figures")]


def _row(difference: Difference, *, has_holm: bool) -> list[str]:
    written = rank if difference.is_rank else percent
    means = [written(mean) for mean in (difference.mean_a, difference.mean_b)]
    changes = difference.difference, difference.low, difference.high
    gain, low, high = (f"+{written(each)}" if each > 0 else written(each) for each in changes)
    p_values = [difference.p_value, difference.p_holm][: 1 + has_holm]
    chance = [UNDEFINED if math.isnan(p_value) else f"{p_value:.4f}" for p_value in p_values]
    counts = [f"{number:,}" for number in (difference.num_better, difference.num_worse, difference.num_equal)]
    heading = difference.title if difference.is_rank else f"{difference.title} (%)"
    between = gain if gain == UNDEFINED else f"{low} to {high}"
    return [heading, gain, between, *chance, *means, *counts]


def _change(said: str, index: Tensor) -> Html:
    said = f"{said}: {len(index)}"
    if not len(index):
        return element("p", f"{said}.")
    more = f" and {len(index) - _MOST_NAMED:,} more, see the JSON below" if len(index) > _MOST_NAMED else ""
    return details(said, element("p", ", ".join(map(str, index[:_MOST_NAMED].tolist())) + more))
