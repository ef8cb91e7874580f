"""What a report says of a retrieval: numbers, queries, curves, cameras and identities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation import Breakdown, RetrievalResults
from reid_torchmetrics.functional.retrieval.measures import EMPTY_TARGET_ACTIONS, median_over_queries, parse_report
from reid_torchmetrics.report.elements import Html, details, note, table
from reid_torchmetrics.report.numbers_in_words import heading, of_measure, rank, thousands
from reid_torchmetrics.report.page import Section, shown_or_why

_CONFIDENCE, _REPEATS = 0.95, 1000  # of intervals
_MOST_ROWS = 1000  # a page with more is slow
_REASONS = {
    "not_in_gallery": "no other gallery item has its identity",
    "same_camera_only": "every positive is dropped by the camera rule, or by another rule that drops pairs",
    "junk": "its own identity is a junk identity",
    "not_ranked": "not ranked at all, because embeddings are not finite",
}
"""why a query has no value, by the field of `QueryCounts`"""


def numbers_section(results: RetrievalResults, generator: torch.Generator) -> Section:
    """Every reported number with its interval and its convention."""
    rows = [_number_row(results, name, mean, generator) for name, mean in results.means.items()]
    columns = ("measure", "value", f"{100 * _CONFIDENCE:g} % interval", "convention")
    said = (
        f"Intervals are percentile bootstraps over the queries, drawn {_REPEATS:,} times. The gallery stays as it is,"
        " so they are about other queries, not about another gallery or another training run."
    )
    return Section("numbers", "Numbers", [table("Means over queries", columns, rows, words=["convention"]), note(said)])


def _number_row(results: RetrievalResults, name: str, mean: float, generator: torch.Generator) -> list[str]:
    interval = results.interval(name, generator=generator, confidence=_CONFIDENCE, repeats=_REPEATS)
    low, high = (of_measure(name, float(end)) for end in (interval.low, interval.high))
    between = low if low == high else f"{low} to {high}"
    return [heading(name), of_measure(name, mean), between, results.conventions[name]]


def queries_section(results: RetrievalResults) -> Section:
    """How many queries were evaluated, why others were not, and among how many gallery items."""
    counts = results.counts
    rows = [["evaluated", thousands(counts.valid), "has a positive in the gallery"]]
    skipped = {field: getattr(counts, field) for field in _REASONS}
    rows += [["without a positive", thousands(number), _REASONS[field]] for field, number in skipped.items() if number]
    rows.append(["all", thousands(counts.total), ""])
    valid = results.num_positives > 0
    medians = [
        ["positives", _median(results.num_positives, valid), "right answers in the gallery"],
        ["candidates", _median(results.num_candidates, valid), "gallery items, once junk is removed"],
    ]
    caption = f"Queries; those without a positive {_counted_as(results)}"
    tables = [
        table(caption, ("queries", "number", "why"), rows, words=["why"]),
        table("Median over evaluated queries", ("per query", "median", "what"), medians, words=["what"]),
    ]
    return Section("queries", "Queries and gallery", tables)


def _counted_as(results: RetrievalResults) -> str:
    substitute = EMPTY_TARGET_ACTIONS[results.protocol.empty_target_action]
    return "are left out of the means" if substitute is None else f"count as {substitute:g} in the means"


def _median(counts: Tensor, valid: Tensor) -> str:
    return rank(float(median_over_queries(counts.double().masked_fill(~valid, torch.nan))))


def cameras_section(results: RetrievalResults) -> Section:
    """The reported numbers of each query camera."""
    return Section("cameras", "Cameras", shown_or_why(lambda: [_cameras(results)]))


def _cameras(results: RetrievalResults) -> Html:
    parts = {name: results.by_camera(name) for name in results.values}
    return table("Means over the queries of each camera", *_columns("camera", parts, {}))


def identities_section(results: RetrievalResults, names: Mapping[int, str]) -> Section:
    """The reported numbers of each identity, the hardest first."""
    return Section("identities", "Identities", shown_or_why(lambda: [_identities(results, names)]))


def _identities(results: RetrievalResults, names: Mapping[int, str]) -> Html:
    parts = {name: results.by_identity(name) for name in results.values}
    shown = table(
        "Means over the queries of each identity",
        *_columns("identity", parts, names),
        filter_by="identity beginning with",
    )
    first = next(iter(parts))
    order = "falling" if parse_report(first)[0].is_rank else "rising"
    number = len(parts[first].labels)
    some = f"All {number}" if number <= _MOST_ROWS else f"The worst {_MOST_ROWS:,} of {number:,}"
    return details(f"{some} identities, by {order} {first}", shown)


def _columns(
    label: str, parts: Mapping[str, Breakdown], names: Mapping[int, str]
) -> tuple[list[str], Iterable[Sequence[str]]]:
    """Headings and rows of a table of groups, identities by the first number, the worst first."""
    name, first = next(iter(parts.items()))
    order = torch.arange(len(first.mean), device=first.mean.device)
    if label == "identity":  # NaN is last
        rising = -first.mean if parse_report(name)[0].is_rank else first.mean
        order = rising.argsort(stable=True)[:_MOST_ROWS]
    labels = [str(names.get(each, each)) for each in first.labels[order, 0].tolist()]
    columns = [labels, *([str(each) for each in part[order].tolist()] for part in (first.num_queries, first.num_valid))]
    columns += [[of_measure(name, value) for value in part.mean[order].tolist()] for name, part in parts.items()]
    return [label, "queries", "with a value", *map(heading, parts)], zip(*columns, strict=True)
