"""The page about a retrieval: numbers, models, curves, single queries, cameras and identities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks, _progress
from reid_torchmetrics.functional.model_tables import in_prose
from reid_torchmetrics.functional.retrieval import Breakdown, CameraPairs, RankLists, RetrievalResults, measures
from reid_torchmetrics.functional.retrieval.evaluation import seeded
from reid_torchmetrics.functional.retrieval.verification import Duplicates
from reid_torchmetrics.plot import ListedPicture, Pictures, listed_pictures, picture_at, plot_camera_pairs

from .elements import Html, details, element, figure, form_of, heading, join, note, percent, picture, rank, table
from .page import Page, Section, conventions_note, figures_section, filterable, folded, picture_or_why, shown_or_why

_LEVEL, _REPEATS = 0.95, 1000  # of intervals
_MOST_ROWS = 1000  # a page with more is slow
_MOST_CAMERAS = 40  # a table of the pairs of more is slow, and not read
_LARGEST = (192, 128)  # width and height in pixels; the height is that of Market-1501's pictures
_NUM_CANDIDATES = 10
_NUM_OPEN = 10  # queries that are seen at once; the others are folded
_PRECISION = "average precision"  # in percent
_HOW = (
    "the results hold no {}; metric.results({}) gives results that do, as does the command with --report beside --save,"
    " and those of evaluate(...) find them by themselves."
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
    duplicates: Duplicates | None = None,
    duplicate_pictures: Pictures | None = None,
) -> Page:
    """All sections about results of a retrieval; for the options see `write_report`."""
    _checks.instance("generator", generator, (torch.Generator,))
    _checks.positive_int("num_hardest", num_hardest)
    _checks.positive_int("num_mistakes", num_mistakes)
    if gallery_pictures is not None and pictures is None:
        raise ValueError("`gallery_pictures` must come with `pictures`, those of the queries; got None for them.")
    if duplicate_pictures is not None and (pictures is None or duplicates is None):
        raise ValueError("`duplicate_pictures` must come with `pictures` and `duplicates`; got None for one of them.")
    names = {**results.names_of("identities"), **(names or {})}
    queries = _ReportedQueries(results, names, pictures, gallery_pictures)
    hardest = results.hardest(num_hardest).tolist()
    near = [] if duplicates is None else [_duplicates(queries, duplicates, duplicate_pictures)]
    sections = [
        *compared,
        Section("numbers", "Numbers", _numbers(results, seeded(generator))),
        *(Section("duplicates", "Near duplicates", each) for each in near),
        Section("curves", "Curves", [figures_section(results, "curves")]),
        Section("hardest", "Hardest queries", _hardest(queries, hardest)),
        Section("mistakes", "Confident mistakes", _mistakes(queries, num_mistakes, hardest)),
        Section("camera-pairs", "Pairs of cameras", shown_or_why(_camera_pairs, results)),
        Section("cameras", "Cameras", shown_or_why(_cameras, results)),
        Section("identities", "Identities", shown_or_why(_identities, results, queries.names)),
    ]
    lead = f"{str(results.setup).capitalize()}."
    return Page(f"Retrieval results, {results.protocol.name}", lead, sections, results.to_dict())


def _numbers(results: RetrievalResults, generator: torch.Generator) -> list[Html]:
    """Every reported number with its interval beside the CMC and counts, and below them how they were computed."""
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
    shown = table("Means over queries", columns, rows)
    counts = element("div", *_query_counts(results), class_="counts")
    conventions = {measures.title_of(name): in_prose(words) for name, words in results.conventions.items()}
    first = element("div", shown, figures_section(results, "numbers"), counts, class_="beside")
    return [first, conventions_note(conventions), note(said)]


def _query_counts(results: RetrievalResults) -> list[Html]:
    """How many queries were evaluated, why others were not, and among how many gallery items."""
    counts = results.counts
    rows = [["evaluated", f"{counts.valid:,}", "has a positive in the gallery"]]
    skipped = ((getattr(counts, field), why) for field, why in _REASONS.items())
    rows += [["without a positive", f"{number:,}", why] for number, why in skipped if number]
    rows.append(["all", f"{counts.total:,}", ""])
    valid = results.num_positives > 0
    medians = [
        ["positives", _median(results.num_positives, valid), "matches in the gallery"],
        ["candidates", _median(results.num_candidates, valid), "gallery items, once junk is removed"],
    ]
    substitute = measures.EMPTY_TARGET_ACTIONS[results.protocol.empty_target_action]
    counted = "are left out of the means" if substitute is None else f"count as {substitute:g} in the means"
    return [
        table(f"Queries; those without a positive {counted}", ("queries", "number", "why"), rows, words="why"),
        table("Median over evaluated queries", ("per query", "median", "what"), medians, words="what"),
    ]


def _median(counts: Tensor, valid: Tensor) -> str:
    return rank(float(measures.median_over_queries(counts.double().masked_fill(~valid, torch.nan))))


def _duplicates(queries: _ReportedQueries, found: Duplicates, copies: Pictures | None) -> list[Html]:
    """How many queries have a near copy, the numbers without these, and the closest pairs."""
    results, pictures, num_queries = queries.results, queries.pictures, len(queries.results.query_index)
    affected = found.affected_queries
    _checks.in_range("duplicates.query", affected, 0, num_queries)
    others = results.without(found)
    columns = ("measure", "all queries", "without near copies")
    rows = [[heading(name), *map(form_of(name), (mean, others[name]))] for name, mean in results.means.items()]
    said = f"{len(affected):,} of {num_queries:,} queries have a near copy; pairs: {len(found):,}."
    shown = [note(said), table("Means over queries", columns, rows)]
    if pictures is not None:
        given = [each for each in (copies, queries.gallery_pictures, pictures) if each is not None]
        items = copies if found.within else given[0]
        draw = partial(found.plot, lambda row: picture_at("pictures", pictures, int(results.query_index[row])), items)
        strip = picture_or_why(lambda: picture(draw(), "pairs with the highest scores"))
        shown.append(element("div", strip, class_="scroll", tabindex="0"))
    return shown


def _cameras(results: RetrievalResults) -> list[Html]:
    """The reported numbers of each query camera."""
    parts = {name: results.by_camera(name) for name in results.averaged}
    return [_parts_table("camera", parts, slice(None), results.names_of("cameras"))]


def _identities(results: RetrievalResults, names: Mapping[int, str]) -> list[Html]:
    """The reported numbers of each identity, the hardest by the first number first."""
    parts = {name: results.by_identity(name) for name in results.averaged}
    (name, first), *_ = parts.items()
    is_falling, number = measures.parse_report(name)[0].lower_is_better, len(first.labels)
    worst = (-first.mean if is_falling else first.mean).argsort(stable=True)[:_MOST_ROWS]  # NaN is last
    some = f"All {number}" if number <= _MOST_ROWS else f"The worst {_MOST_ROWS:,} of {number:,}"
    order = f"{'falling' if is_falling else 'rising'} {measures.title_of(name)}"
    shown = _parts_table("identity", parts, worst, names, filter_by="identity beginning with")
    return [details(f"{some} identities, by {order}", shown)]


def _parts_table(
    label: str, parts: Mapping[str, Breakdown], order: Tensor | slice, names: Mapping[int, str], **options: Any
) -> Html:
    """The means of groups of queries, for each number."""
    first, *_ = parts.values()
    columns = {
        label: [str(names.get(each, each)) for each in first.labels[order, 0].tolist()],
        "queries": map(str, first.num_queries[order].tolist()),
        "with a value": map(str, first.num_valid[order].tolist()),
        **{heading(name): map(form_of(name), part.mean[order].tolist()) for name, part in parts.items()},
    }
    return table(f"Means over the queries of each {label}", [*columns], zip(*columns.values(), strict=True), **options)


def _camera_pairs(results: RetrievalResults) -> list[Html]:
    """The first reported number between each two cameras, or all that the results hold."""
    if results.camera_pairs is None and results.problem is None:
        return [note(f"Not shown: {_HOW.format('pairs of cameras', 'camera_pairs=True')}")]
    figures, tables, few = [], [], ""
    for name in [*results.averaged][:1] if results.camera_pairs is None else results.camera_pairs:
        pairs, title = results.by_camera_pair(name), measures.title_of(name)
        if measures.parse_report(name)[0].is_share:  # colors are shares
            said = f"Queries of a camera against the gallery of one camera alone, by {title}."
            figures.append(figure(plot_camera_pairs(pairs, name=title)[0], f"camera-pairs-{name}", said))
        shown = _of_most_queries(pairs)
        if shown.mean.shape != pairs.mean.shape:
            few = f", of {_MOST_CAMERAS} cameras at most, those with the most queries"
        camera_names = pairs.camera_names or {}
        searched = [camera_names.get(camera, camera) for camera in shown.gallery_cameras.tolist()]
        columns = ["query camera", *(f"gallery camera {camera}" for camera in searched)]
        numbers = zip(shown.query_cameras.tolist(), shown.mean.tolist(), strict=True)
        rows = [[str(camera_names.get(camera, camera)), *map(form_of(name), means)] for camera, means in numbers]
        tables.append(table(heading(name), columns, rows))
    return [element("div", *figures, details(f"As tables{few}", *tables), class_="figures")]


def _of_most_queries(pairs: CameraPairs) -> CameraPairs:
    """The pairs of the cameras with the most queries, up to the size of a table."""
    sums = (pairs.num_valid.sum(other) for other in (1, 0))
    rows, columns = (each.argsort(descending=True, stable=True)[:_MOST_CAMERAS].sort().values for each in sums)
    at = rows[:, None], columns
    cameras = pairs.query_cameras[rows], pairs.gallery_cameras[columns]
    return CameraPairs(*cameras, pairs.mean[at], pairs.num_valid[at], pairs.camera_names)


@dataclass
class _ReportedQueries:
    """Single queries of results, each with its rank list once on the page.

    A rank list is a row of small pictures with captions, and wraps where the page is narrow.

    Args:
        results: with rank lists, or with the scores to make them.
        names: of identities.
        pictures: of the queries; None for tables.
        gallery_pictures: None for `pictures`.
    """

    results: RetrievalResults
    names: Mapping[int, str]
    pictures: Pictures | None
    gallery_pictures: Pictures | None

    def __post_init__(self) -> None:
        """Look for the lists of all queries."""
        self.lists, self.missing = _rank_lists(self.results)

    def shown(self, queries: Sequence[int], caption: str) -> Html:
        """Rank lists as pictures where there are pictures, else a table of numbers."""
        if self.pictures is None or self.lists is None:
            return self._table(queries, caption)
        items = [self._item(query, self.lists, self.pictures) for query in _progress.steps(queries, "Pictures")]
        return element("ul", *items, class_="lists", aria_label=caption)

    def _facts(self, query: int) -> dict[str, str]:
        """What is known of a query, in words."""
        identities, cameras = self.results.query_identities, self.results.query_cameras
        identity = None if identities is None else int(identities[query])
        camera = None if cameras is None else int(cameras[query])
        camera_names = self.results.names_of("cameras")
        facts = {
            "query": str(self.results.name_of(query)),
            "identity": None if identity is None else self.names.get(identity, str(identity)),
            "camera": None if camera is None else camera_names.get(camera, str(camera)),
            _PRECISION: percent(float(self.results.average_precision[query])),
            "rank of the first match": rank(float(self.results.first_rank[query])),
        }
        return {name: fact for name, fact in facts.items() if fact is not None}

    def folded(self, queries: Sequence[int], caption: str) -> list[Html]:
        """The first queries, and the others folded; readers can filter all of them by their labels, and sort them."""
        shown = folded(queries, _NUM_OPEN, self.shown, caption)
        return filterable([self._facts(query) for query in queries], ("identity", "camera"), _PRECISION, shown)

    def _table(self, queries: Sequence[int], caption: str) -> Html:
        rows, lists = [self._facts(query) for query in queries], self.lists
        if lists is not None:
            column = f"first {lists.index.shape[1]} candidates"
            rows = [row | {column: _candidates(lists, query)} for row, query in zip(rows, queries, strict=True)]
        headings = [f"{name} (%)" if name == _PRECISION else name for name in rows[0]]
        return table(caption, headings, ([*row.values()] for row in rows))

    def _item(self, query: int, lists: RankLists, pictures: Pictures) -> Html:
        """A query with its rank list."""
        facts = self._facts(query)
        facts[_PRECISION] += " %"
        words = join((join([f"{name} ", element("span", fact)]) for name, fact in facts.items()), ", ")
        row = map(self._figure, listed_pictures(lists, query, pictures, self.gallery_pictures))
        return element("li", element("p", words), element("div", *row, class_="pictures"), id=f"query-{query}")

    def _figure(self, listed: ListedPicture) -> Html:
        kind, alt = ("right first", "right") if listed.kind == "first" else (listed.kind, listed.kind)

        def shown() -> Html:
            image = listed.picture()
            image.thumbnail(_LARGEST)
            # A small picture is enlarged by the browser, so that the page holds no more of it.
            return picture(image, alt, scale=max(1.0, min(_LARGEST[0] / image.width, _LARGEST[1] / image.height)))

        said = "query" if kind == "query" else f"{listed.rank}. {listed.score:.3f}"
        labels = listed.labels(self.names, space="\N{NO-BREAK SPACE}")
        caption = element("figcaption", said, Html("<br>"), " ".join(labels))
        return element("figure", picture_or_why(shown), caption, class_=kind)


def _candidates(lists: RankLists, query: int) -> str:
    """The places of right candidates in words, for readers who do not see colors or pictures."""
    right = (lists.is_positive[query].nonzero()[:, 0] + 1).tolist()
    wrong = int((lists.index[query] >= 0).sum()) - len(right)
    return f"{wrong} wrong, right at {', '.join(map(str, right))}" if right else f"{wrong} wrong"


def _hardest(queries: _ReportedQueries, hardest: Sequence[int]) -> list[Html]:
    """The queries with the lowest average precision."""
    said = "Queries with the lowest average precision, the lowest first. Queries without a positive are left out."
    missing = [] if queries.lists is not None else [note(f"Candidates are not shown: {queries.missing}")]
    caption = "Queries with the lowest average precision"
    return [note(said), *missing, *queries.folded(hardest, caption)]


def _mistakes(queries: _ReportedQueries, num_mistakes: int, shown_before: Sequence[int]) -> list[Html]:
    """The queries with a wrong best candidate that scores far above the first right answer."""
    if queries.lists is None:
        return [note(f"Not shown: {queries.missing}")]
    mistakes = queries.lists.confident_mistakes(num_mistakes).tolist()
    if not mistakes:
        return [note(f"None: {_why_none(queries.lists)}")]
    said = (
        "Queries whose best candidate is wrong, by how much it scores above the first match. Many such queries"
        " are errors of labels."
    )
    above = [] if queries.pictures is None else [query for query in mistakes if query in shown_before]
    links = [element("a", f"query {queries.results.name_of(query)}", href=f"#query-{query}") for query in above]
    others = [query for query in mistakes if query not in above]
    shown = queries.folded(others, "Queries whose best candidate is wrong, by falling margin")
    return [note(said), *([element("p", "Shown above: ", join(links, ", "), ".")] if links else []), *shown]


def _why_none(lists: RankLists) -> str:
    """The reason why no query is a confident mistake."""
    num_valid = int((lists.first_positive_rank > 0).sum())
    some = f"for {num_valid:,} of {len(lists):,} queries."
    if num_valid == 0:
        return f"the gallery has a match {some}"
    if num_valid < len(lists):
        return f"the best candidate is right wherever the gallery has a match, {some}"
    return "the best candidate of every query is right."


def _rank_lists(results: RetrievalResults) -> tuple[RankLists | None, str]:
    """The lists of all queries that results hold or can make; else None and the reason."""
    if results.rank_lists is not None:
        return results.nearest(min(_NUM_CANDIDATES, results.rank_lists.index.shape[1])), ""
    if results.problem is None:
        return None, _HOW.format("rank lists", "nearest=10")
    try:
        return results.nearest(_NUM_CANDIDATES), ""
    except ValueError as error:
        return None, str(error)
