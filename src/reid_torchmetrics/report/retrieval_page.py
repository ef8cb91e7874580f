"""The page about a retrieval: numbers, models, curves, single queries, cameras and identities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import Breakdown, CameraPairs, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS, median_over_queries, parse_report
from reid_torchmetrics.plot import Pictures, plot_camera_pairs

from .elements import Html, details, element, figure, form_of, heading, note, rank, table, title_of
from .page import Page, Section, conventions_note, figures_section, shown_or_why
from .rank_list_sections import ReportedQueries, hardest_section, mistakes_section

_LEVEL, _REPEATS = 0.95, 1000  # of intervals
_MOST_ROWS = 1000  # a page with more is slow
_MOST_CAMERAS = 40  # a table of the pairs of more is slow, and not read
_HOW = (
    "the results hold no pairs of cameras; metric.results(camera_pairs=True) gives results that do, and those of"
    " evaluate(...) find them by themselves."
)
_REASONS = {
    "not_in_gallery": "no other gallery item has its identity",
    "same_camera_only": "every positive is dropped by the camera rule, or by another rule that drops pairs",
    "junk": "its own identity is a junk identity",
    "not_ranked": "not ranked at all, because embeddings are not finite",
}
"""why a query has no value, by the field of `QueryCounts`"""


def retrieval_page(
    results: RetrievalResults,
    compared: Sequence[Section] = (),
    *,
    pictures: Pictures | None = None,
    names: Mapping[int, str] | None = None,
    gallery_pictures: Pictures | None = None,
    num_hardest: int = 60,
    num_mistakes: int = 20,
    generator: torch.Generator | None = None,
) -> Page:
    """All sections about results of a retrieval; for the options see `write_report`."""
    _checks.instance("generator", generator, (torch.Generator,))
    _checks.positive_int("num_hardest", num_hardest)
    _checks.positive_int("num_mistakes", num_mistakes)
    if gallery_pictures is not None and pictures is None:
        raise ValueError("`gallery_pictures` must come with `pictures`, those of the queries; got None for them.")
    names = names or {}
    queries = ReportedQueries(results, names, pictures, gallery_pictures)
    sections = [
        Section("numbers", "Numbers", _numbers(results, generator or torch.Generator().manual_seed(0))),
        Section("queries", "Queries and gallery", _query_counts(results)),
        *compared,
        Section("curves", "Curves", [figures_section(results, "curves")]),
        hardest_section(queries, num_hardest),
        mistakes_section(queries, num_mistakes),
        Section("camera-pairs", "Pairs of cameras", shown_or_why(_camera_pairs, results)),
        Section("cameras", "Cameras", shown_or_why(_cameras, results)),
        Section("identities", "Identities", shown_or_why(_identities, results, names)),
    ]
    lead = f"{str(results.setup).capitalize()}."
    return Page(f"Retrieval results, {results.protocol.name}", lead, sections, results.to_dict())


def _numbers(results: RetrievalResults, generator: torch.Generator) -> list[Html]:
    """Every reported number with its interval, and below them how they were computed."""
    rows, averaged = [], results.averaged
    for name, mean in results.means.items():
        written, between = form_of(name), "none: no mean over queries"
        if name in averaged:
            interval = results.interval(name, generator=generator, level=_LEVEL, repeats=_REPEATS)
            low, high = (written(float(end)) for end in (interval.low, interval.high))
            between = low if low == high else f"{low} to {high}"
        rows.append([heading(name), written(mean), between])
    columns = ("measure", "value", f"{100 * _LEVEL:g} % interval")
    said = (
        f"Intervals are percentile bootstraps over the queries, drawn {_REPEATS:,} times. The gallery stays as it is,"
        " so they are about other queries, not about another gallery or another training run."
    )
    conventions = conventions_note({title_of(name): said for name, said in results.conventions.items()})
    return [table("Means over queries", columns, rows), conventions, note(said)]


def _query_counts(results: RetrievalResults) -> list[Html]:
    """How many queries were evaluated, why others were not, and among how many gallery items."""
    counts = results.counts
    rows = [["evaluated", f"{counts.valid:,}", "has a positive in the gallery"]]
    skipped = ((getattr(counts, field), why) for field, why in _REASONS.items())
    rows += [["without a positive", f"{number:,}", why] for number, why in skipped if number]
    rows.append(["all", f"{counts.total:,}", ""])
    valid = results.num_positives > 0
    medians = [
        ["positives", _median(results.num_positives, valid), "right answers in the gallery"],
        ["candidates", _median(results.num_candidates, valid), "gallery items, once junk is removed"],
    ]
    substitute = EMPTY_TARGET_ACTIONS[results.protocol.empty_target_action]
    counted = "are left out of the means" if substitute is None else f"count as {substitute:g} in the means"
    return [
        table(f"Queries; those without a positive {counted}", ("queries", "number", "why"), rows, words=["why"]),
        table("Median over evaluated queries", ("per query", "median", "what"), medians, words=["what"]),
    ]


def _median(counts: Tensor, valid: Tensor) -> str:
    return rank(float(median_over_queries(counts.double().masked_fill(~valid, torch.nan))))


def _cameras(results: RetrievalResults) -> list[Html]:
    """The reported numbers of each query camera."""
    return [_parts_table("camera", {name: results.by_camera(name) for name in results.averaged})]


def _identities(results: RetrievalResults, names: Mapping[int, str]) -> list[Html]:
    """The reported numbers of each identity, the hardest by the first number first."""
    parts = {name: results.by_identity(name) for name in results.averaged}
    (name, first), *_ = parts.items()
    is_falling, number = parse_report(name)[0].lower_is_better, len(first.labels)
    worst = (-first.mean if is_falling else first.mean).argsort(stable=True)[:_MOST_ROWS]  # NaN is last
    some = f"All {number}" if number <= _MOST_ROWS else f"The worst {_MOST_ROWS:,} of {number:,}"
    order = f"{'falling' if is_falling else 'rising'} {title_of(name)}"
    shown = _parts_table("identity", parts, worst, names, filter_by="identity beginning with")
    return [details(f"{some} identities, by {order}", shown)]


def _parts_table(
    label: str,
    parts: Mapping[str, Breakdown],
    order: Tensor | slice = slice(None),
    names: Mapping[int, str] | None = None,
    **options: Any,
) -> Html:
    """The means of groups of queries, for each number."""
    first, names = next(iter(parts.values())), names or {}
    columns = {
        label: [str(names.get(each, each)) for each in first.labels[order, 0].tolist()],
        "queries": map(str, first.num_queries[order].tolist()),
        "with a value": map(str, first.num_valid[order].tolist()),
        **{heading(name): map(form_of(name), part.mean[order].tolist()) for name, part in parts.items()},
    }
    rows = zip(*columns.values(), strict=True)
    return table(f"Means over the queries of each {label}", [*columns], rows, **options)


def _camera_pairs(results: RetrievalResults) -> list[Html]:
    """The first reported number between each two cameras, or all that the results hold."""
    if results.camera_pairs is None and results.problem is None:
        return [note(f"Not shown: {_HOW}")]
    figures, tables, few = [], [], ""
    for name in [*results.averaged][:1] if results.camera_pairs is None else results.camera_pairs:
        pairs, title = results.by_camera_pair(name), title_of(name)
        if not parse_report(name)[0].is_rank:  # colors are shares
            said = f"Queries of a camera against the gallery of one camera alone, by {title}."
            figures.append(figure(plot_camera_pairs(pairs, name=title)[0], f"camera-pairs-{name}", said))
        shown = _of_most_queries(pairs)
        tables.append(_pairs_table(name, shown))
        if shown.mean.shape != pairs.mean.shape:
            few = f", of {_MOST_CAMERAS} cameras at most, those with the most queries"
    return [element("div", *figures, class_="figures"), details(f"As tables{few}", *tables)]


def _of_most_queries(pairs: CameraPairs) -> CameraPairs:
    """The pairs of the cameras with the most queries, up to the size of a table."""
    rows, columns = (
        pairs.num_valid.sum(other).argsort(descending=True, stable=True)[:_MOST_CAMERAS].sort().values
        for other in (1, 0)
    )
    at = rows[:, None], columns
    return CameraPairs(pairs.query_cameras[rows], pairs.gallery_cameras[columns], pairs.mean[at], pairs.num_valid[at])


def _pairs_table(name: str, pairs: CameraPairs) -> Html:
    columns = ["query camera", *(f"gallery camera {camera}" for camera in pairs.gallery_cameras.tolist())]
    numbers = zip(pairs.query_cameras.tolist(), pairs.mean.tolist(), strict=True)
    return table(heading(name), columns, ([str(camera), *map(form_of(name), means)] for camera, means in numbers))
