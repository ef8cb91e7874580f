"""The page about a retrieval: numbers, models, curves, single queries, cameras and identities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import Breakdown, CameraPairs, Comparison, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS, median_over_queries, parse_report
from reid_torchmetrics.plot import Pictures, plot_camera_pairs

from .comparison_section import comparison_section
from .elements import Html, details, element, figure, heading, note, of_measure, rank, table, title_of
from .page import Page, Section, conventions_note, figures_section, provenance_section, shown_or_why, versions
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
    *,
    pictures: Pictures | None = None,
    names: Mapping[int, str] | None = None,
    gallery_pictures: Pictures | None = None,
    num_hardest: int = 60,
    num_mistakes: int = 20,
    comparison: Comparison | None = None,
    generator: torch.Generator | None = None,
) -> Page:
    """All sections about results of a retrieval; for the options see `write_report`."""
    _checks.instance("comparison", comparison, (Comparison,))
    _checks.instance("generator", generator, (torch.Generator,))
    _checks.positive_int("num_hardest", num_hardest)
    _checks.positive_int("num_mistakes", num_mistakes)
    if gallery_pictures is not None and pictures is None:
        raise ValueError("`gallery_pictures` must come with `pictures`, those of the queries; got None for them.")
    names = names or {}
    queries = ReportedQueries(results, names, pictures, gallery_pictures)
    data = {"versions": versions(), **results.to_dict()}
    sections = [
        Section("numbers", "Numbers", _numbers(results, generator or torch.Generator().manual_seed(0))),
        Section("queries", "Queries and gallery", _query_counts(results)),
    ]
    if comparison is not None:
        data["comparison"] = comparison.to_dict()
        sections.append(comparison_section(results.means, comparison))
    sections += [
        Section("curves", "Curves", [figures_section(results, "curves")]),
        hardest_section(queries, num_hardest),
        mistakes_section(queries, num_mistakes),
        Section("camera-pairs", "Pairs of cameras", shown_or_why(lambda: _camera_pairs(results))),
        Section("cameras", "Cameras", shown_or_why(lambda: [_cameras(results)])),
        Section("identities", "Identities", shown_or_why(lambda: [_identities(results, names)])),
        provenance_section(data),
    ]
    return Page(f"Retrieval results, {results.protocol.name}", str(results.setup).capitalize() + ".", sections, data)


def _numbers(results: RetrievalResults, generator: torch.Generator) -> list[Html]:
    """Every reported number with its interval, and below them how they were computed."""
    rows = [_number_row(results, name, mean, generator) for name, mean in results.means.items()]
    columns = ("measure", "value", f"{100 * _LEVEL:g} % interval")
    said = (
        f"Intervals are percentile bootstraps over the queries, drawn {_REPEATS:,} times. The gallery stays as it is,"
        " so they are about other queries, not about another gallery or another training run."
    )
    conventions = conventions_note({title_of(name): said for name, said in results.conventions.items()})
    return [table("Means over queries", columns, rows), conventions, note(said)]


def _number_row(results: RetrievalResults, name: str, mean: float, generator: torch.Generator) -> list[str]:
    if name not in results.averaged:
        return [heading(name), of_measure(name, mean), "none: no mean over queries"]
    interval = results.interval(name, generator=generator, level=_LEVEL, repeats=_REPEATS)
    low, high = (of_measure(name, float(end)) for end in (interval.low, interval.high))
    between = low if low == high else f"{low} to {high}"
    return [heading(name), of_measure(name, mean), between]


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
    caption = f"Queries; those without a positive {_counted_as(results)}"
    return [
        table(caption, ("queries", "number", "why"), rows, words=["why"]),
        table("Median over evaluated queries", ("per query", "median", "what"), medians, words=["what"]),
    ]


def _counted_as(results: RetrievalResults) -> str:
    substitute = EMPTY_TARGET_ACTIONS[results.protocol.empty_target_action]
    return "are left out of the means" if substitute is None else f"count as {substitute:g} in the means"


def _median(counts: Tensor, valid: Tensor) -> str:
    return rank(float(median_over_queries(counts.double().masked_fill(~valid, torch.nan))))


def _cameras(results: RetrievalResults) -> Html:
    """The reported numbers of each query camera."""
    parts = {name: results.by_camera(name) for name in results.averaged}
    return table("Means over the queries of each camera", *_columns("camera", parts, {}))


def _identities(results: RetrievalResults, names: Mapping[int, str]) -> Html:
    """The reported numbers of each identity, the hardest first."""
    parts = {name: results.by_identity(name) for name in results.averaged}
    columns, rows = _columns("identity", parts, names)
    shown = table("Means over the queries of each identity", columns, rows, filter_by="identity beginning with")
    first, *_ = parts
    order = "falling" if parse_report(first)[0].lower_is_better else "rising"
    number = len(parts[first].labels)
    some = f"All {number}" if number <= _MOST_ROWS else f"The worst {_MOST_ROWS:,} of {number:,}"
    return details(f"{some} identities, by {order} {title_of(first)}", shown)


def _columns(
    label: str, parts: Mapping[str, Breakdown], names: Mapping[int, str]
) -> tuple[list[str], Iterable[Sequence[str]]]:
    """Headings and rows of a table of groups, identities by the first number, the worst first."""
    (name, first), *_ = parts.items()
    order = torch.arange(len(first.mean), device=first.mean.device)
    if label == "identity":  # NaN is last
        rising = -first.mean if parse_report(name)[0].lower_is_better else first.mean
        order = rising.argsort(stable=True)[:_MOST_ROWS]
    labels = [str(names.get(each, each)) for each in first.labels[order, 0].tolist()]
    columns = [labels, *([str(each) for each in part[order].tolist()] for part in (first.num_queries, first.num_valid))]
    columns += [[of_measure(name, value) for value in part.mean[order].tolist()] for name, part in parts.items()]
    return [label, "queries", "with a value", *map(heading, parts)], zip(*columns, strict=True)


def _camera_pairs(results: RetrievalResults) -> list[Html]:
    """The first reported number between each two cameras, or all that the results hold."""
    if results.camera_pairs is None and results.problem is None:
        return [note(f"Not shown: {_HOW}")]
    names = [*results.averaged][:1] if results.camera_pairs is None else [*results.camera_pairs]
    pairs = {name: results.by_camera_pair(name) for name in names}
    said = "Queries of a camera against the gallery of one camera alone, by {}."
    figures = [
        figure(plot_camera_pairs(each, name=title_of(name))[0], f"camera-pairs-{name}", said.format(title_of(name)))
        for name, each in pairs.items()
        if not parse_report(name)[0].is_rank  # colors are shares
    ]
    shown = {name: _of_most_queries(each) for name, each in pairs.items()}
    tables = [_pairs_table(name, each) for name, each in shown.items()]
    is_cut = any(shown[name].mean.shape != each.mean.shape for name, each in pairs.items())
    few = f", of {_MOST_CAMERAS} cameras at most, those with the most queries" if is_cut else ""
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
    rows = [[str(camera), *(of_measure(name, value) for value in means)] for camera, means in numbers]
    return table(heading(name), columns, rows)
