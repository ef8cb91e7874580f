"""The page about a retrieval: numbers, models, curves, single queries, cameras and identities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import _checks, _progress
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.model_tables import Number, in_prose
from reid_torchmetrics.functional.retrieval import Breakdown, CameraPairs, RankLists, RetrievalResults, measures
from reid_torchmetrics.plot import (
    ListedPicture,
    Pictures,
    hardest_queries,
    listed_pictures,
    picture_at,
    plot_camera_pairs,
)
from reid_torchmetrics.tasks import Duplicates
from reid_torchmetrics.tasks.comparison import seeded

from .elements import Html, details, element, figure, formatter_of, join, note, percent_text, picture, rank_text, table
from .page import (
    Page,
    Section,
    content_or_reason,
    conventions_note,
    figures_section,
    filterable,
    folded,
    picture_or_reason,
)

_LEVEL = 0.95  # of intervals
_REPEATS = 1000  # draws for an interval
_MOST_ROWS = 1000  # a page with more is slow
_MOST_CAMERAS = 40  # a table of the pairs of more is slow, and not read
_LARGEST_WIDTH = 192  # of a picture, in pixels
_LARGEST_HEIGHT = 128  # as in Market-1501
_NUM_CANDIDATES = 10
_NUM_OPEN = 10  # queries that are seen at once; the others are folded
_PRECISION = "average precision"  # in percent
_FIRST_MATCH = "rank of the first match"
_LACKING = (
    "the results hold no {}; metric.results({}) gives results that do, as does the command with --report beside --save,"
    " and those of evaluate(...) find them by themselves."
)
_REASONS = {
    "not_in_gallery": "no other gallery item has its identity",
    "same_camera_only": "every positive is dropped by the camera rule, or by another rule that drops pairs",
    "junk": "its own identity is a junk identity",
    "not_ranked": "not ranked at all, because embeddings are not finite",
}
"""reasons why queries have no value, by the field of `QueryCounts`"""


def retrieval_page(
    results: RetrievalResults,
    compared: Sequence[Section] = (),
    *,
    pictures: Pictures | None = None,
    identity_names: Mapping[int, str] | None = None,
    gallery_pictures: Pictures | None = None,
    image_names: Mapping[int, str] | None = None,
    gallery_image_names: Mapping[int, str] | None = None,
    num_hardest: int = 60,
    num_mistakes: int = 20,
    generator: torch.Generator | None = None,
    duplicates: Duplicates | None = None,
    duplicate_pictures: Pictures | None = None,
) -> Page:
    """Return the page about results of a retrieval; for the options see `write_report`."""
    _checks.instance("generator", generator, (torch.Generator,))
    _checks.positive_int("num_hardest", num_hardest)
    _checks.positive_int("num_mistakes", num_mistakes)
    if gallery_pictures is not None and pictures is None:
        raise ValueError("`gallery_pictures` must come with `pictures`, those of the queries; got None for them.")
    if duplicate_pictures is not None and (pictures is None or duplicates is None):
        raise ValueError("`duplicate_pictures` must come with `pictures` and `duplicates`; got None for one of them.")
    all_names = {**results.names_of("identities"), **(identity_names or {})}
    if gallery_image_names is None:
        gallery_image_names = image_names
    queries = _ReportedQueries(results, all_names, pictures, gallery_pictures, image_names, gallery_image_names)
    hardest, hardest_sentence = hardest_queries(results, num_hardest)
    duplicate_sections = []
    if duplicates is not None:
        content = _duplicates(queries, duplicates, duplicate_pictures)
        duplicate_sections.append(Section("duplicates", "Near duplicates", content))
    sections = [
        *compared,
        Section("numbers", "Numbers", _numbers(results, seeded(generator))),
        *duplicate_sections,
        Section("curves", "Curves", [figures_section(results, "curves")]),
        Section("hardest", "Hardest queries", _hardest(queries, hardest.tolist(), hardest_sentence)),
        Section("mistakes", "Confident mistakes", _mistakes(queries, num_mistakes, hardest.tolist())),
        Section("camera-pairs", "Pairs of cameras", content_or_reason(_camera_pairs, results)),
        Section("cameras", "Cameras", content_or_reason(_cameras, results)),
        Section("identities", "Identities", content_or_reason(_identities, results, all_names)),
    ]
    lead = f"{str(results.setup).capitalize()}."
    return Page(f"Retrieval results, {results.protocol.name}", lead, sections, results.to_dict())


def _numbers(results: RetrievalResults, generator: torch.Generator) -> list[Html]:
    """Return every reported number with its interval, the CMC and counts next to them, and the conventions below."""
    rows = []
    averaged = results.averaged
    for name, number in results.numbers.items():
        format_number = formatter_of(number)
        interval_text = "none: no mean over queries"
        if name in averaged:
            interval = results.interval(name, generator=generator, level=_LEVEL, num_resamples=_REPEATS)
            low = format_number(float(interval.low))
            high = format_number(float(interval.high))
            interval_text = low if low == high else f"{low} to {high}"
        rows.append([number.heading, format_number(number.value), interval_text])
    columns = ("measure", "value", f"{100 * _LEVEL:g} % interval")
    numbers = table("Means over queries", columns, rows)
    counts = element("div", *_query_counts(results), class_="counts")
    conventions = {number.title: in_prose(number.convention) for number in results.numbers.values()}
    remark = note(
        f"Intervals are percentile bootstraps over the queries, drawn {_REPEATS:,} times. The gallery stays as it is,"
        " so they are about other queries, not about another gallery or another training run."
    )
    first = element("div", numbers, figures_section(results, "numbers"), counts, class_="beside")
    return [first, conventions_note(conventions), remark]


def _query_counts(results: RetrievalResults) -> list[Html]:
    """Return the counts of evaluated queries, and of others by reason, and the medians of gallery items per query."""
    counts = results.counts
    rows = [["evaluated", f"{counts.valid:,}", "has a positive in the gallery"]]
    for field, reason in _REASONS.items():
        num_queries = getattr(counts, field)
        if num_queries:
            rows.append(["without a positive", f"{num_queries:,}", reason])
    rows.append(["all", f"{counts.total:,}", ""])
    is_valid = results.num_positives > 0
    medians = [
        ["positives", _median(results.num_positives, is_valid), "matches in the gallery"],
        ["candidates", _median(results.num_candidates, is_valid), "gallery items, once junk is removed"],
    ]
    substitute = measures.EMPTY_TARGET_ACTIONS[results.protocol.empty_target_action]
    effect = "are left out of the means" if substitute is None else f"count as {substitute:g} in the means"
    return [
        table(f"Queries; those without a positive {effect}", ("queries", "number", "why"), rows, words="why"),
        table("Median over evaluated queries", ("per query", "median", "what"), medians, words="what"),
    ]


def _median(counts: Tensor, is_valid: Tensor) -> str:
    """Return the median over the valid queries as a text."""
    valid_counts = counts.double().masked_fill(~is_valid, torch.nan)
    return rank_text(float(measures.median_over_queries(valid_counts)))


def _duplicates(queries: _ReportedQueries, duplicates: Duplicates, copies: Pictures | None) -> list[Html]:
    """Return the threshold, the number of queries with a near copy, the means without these, and the closest pairs.

    `copies` are the pictures of the items in `duplicates`; None for those of the gallery.
    """
    results = queries.results
    pictures = queries.pictures
    duplicates.check_queries("duplicates", len(results.query_index), results.query_hash)
    _checks.in_range("duplicates.query", duplicates.affected_queries, 0, len(results.query_index))
    means_without = results.means_without(duplicates)
    rows = []
    for name, number in results.numbers.items():
        format_number = formatter_of(number)
        rows.append([number.heading, format_number(number.value), format_number(means_without[name])])
    columns = ("measure", "all queries", "without near copies")
    content = [
        note(f"{duplicates.summary}."),
        table("Means over queries", columns, rows),
    ]
    if pictures is None or len(duplicates) == 0:
        return content

    item_pictures = copies
    if item_pictures is None and not duplicates.within_one_set:
        item_pictures = pictures if queries.gallery_pictures is None else queries.gallery_pictures

    def query_picture(row: int) -> Any:
        return picture_at("pictures", pictures, int(results.query_index[row]))

    def draw_pairs() -> Html:
        return picture(duplicates.plot(query_picture, item_pictures), "pairs with the highest scores")

    content.append(element("div", picture_or_reason(draw_pairs), class_="scroll", tabindex="0"))
    return content


def _cameras(results: RetrievalResults) -> list[Html]:
    """Return the reported numbers of each query camera."""
    breakdowns = {name: results.by_camera(name) for name in results.averaged}
    return [_breakdown_table("camera", results, breakdowns, slice(None), results.names_of("cameras"))]


def _identities(results: RetrievalResults, names: Mapping[int, str]) -> list[Html]:
    """Return the reported numbers of each identity, the hardest by the first number first."""
    breakdowns = {name: results.by_identity(name) for name in results.averaged}
    (first_name, first), *_ = breakdowns.items()
    number = results.numbers[first_name]
    order_word = "falling" if number.lower_is_better else "rising"
    means = -first.mean if number.lower_is_better else first.mean
    hardest = means.argsort(stable=True)[:_MOST_ROWS]  # NaN is last
    num_identities = len(first.labels)
    number_text = f"All {num_identities}"
    if num_identities > _MOST_ROWS:
        number_text = f"The worst {_MOST_ROWS:,} of {num_identities:,}"
    filter_by = "identity beginning with"
    identity_table = _breakdown_table("identity", results, breakdowns, hardest, names, filter_by=filter_by)
    summary = f"{number_text} identities, by {order_word} {number.title}"
    return [details(summary, identity_table)]


def _breakdown_table(
    label: str,
    results: RetrievalResults,
    breakdowns: Mapping[str, Breakdown],
    order: Tensor | slice,
    names: Mapping[int, str],
    *,
    filter_by: str = "",
) -> Html:
    """Return the means of groups of queries, for each number; `order` selects and sorts the groups."""
    first, *_ = breakdowns.values()
    columns: dict[str, Iterable[str]] = {
        label: [str(names.get(group, group)) for group in first.labels[order, 0].tolist()],
        "queries": map(str, first.num_queries[order].tolist()),
        "with a value": map(str, first.num_valid[order].tolist()),
    }
    for name, breakdown in breakdowns.items():
        number = results.numbers[name]
        columns[number.heading] = map(formatter_of(number), breakdown.mean[order].tolist())
    rows = zip(*columns.values(), strict=True)
    return table(f"Means over the queries of each {label}", list(columns), rows, filter_by=filter_by)


def _camera_pairs(results: RetrievalResults) -> list[Html]:
    """Return the first reported number between each two cameras, or all that the results hold."""
    if results.camera_pairs is not None:
        names = list(results.camera_pairs)
    elif results.problem is not None:
        names = list(results.averaged)[:1]
    else:
        return [note(f"Not shown: {_LACKING.format('pairs of cameras', 'camera_pairs=True')}")]
    figures = []
    tables = []
    summary = "As tables"
    for name in names:
        pairs = results.by_camera_pair(name)
        number = results.numbers[name]
        if number.is_share:  # colors are shares
            caption = "Queries of a camera against the gallery of one camera alone."
            plot = partial(plot_camera_pairs, pairs, name=number.title)
            figures.append(figure(plot, f"camera-pairs-{name}", caption))
        if max(pairs.mean.shape) > _MOST_CAMERAS:
            summary = f"As tables, of {_MOST_CAMERAS} cameras at most, those with the most queries"
        tables.append(_camera_table(number, pairs))
    return [element("div", *figures, details(summary, *tables), class_="figures")]


def _camera_table(number: Number, pairs: CameraPairs) -> Html:
    """Return a number between pairs of the cameras with the most queries, query cameras as rows."""
    names = pairs.camera_names or {}
    queries = _largest(pairs.num_valid.sum(1))
    galleries = _largest(pairs.num_valid.sum(0))
    columns = [f"gallery camera {names.get(label, label)}" for label in pairs.gallery_cameras[galleries].tolist()]
    means = pairs.mean[queries[:, None], galleries].tolist()
    rows = []
    for camera, camera_means in zip(pairs.query_cameras[queries].tolist(), means, strict=True):
        rows.append([str(names.get(camera, camera)), *map(formatter_of(number), camera_means)])
    return table(number.heading, ["query camera", *columns], rows)


def _largest(counts: Tensor) -> Tensor:
    """Return the indices of the largest counts, as many as a table may have cameras, in ascending order."""
    return counts.argsort(descending=True, stable=True)[:_MOST_CAMERAS].sort().values


@dataclass
class _ReportedQueries:
    """Single queries of results, each with its rank list once on the page.

    A rank list is a row of small pictures with captions, and wraps where the page is narrow.

    Args:
        results: with rank lists, or with the scores to make them.
        names: of identities.
        pictures: of the queries; None for tables.
        gallery_pictures: None for `pictures`.
        image_names: names of the files of the queries by number; None for no names.
        gallery_image_names: names for the gallery.
    """

    results: RetrievalResults
    names: Mapping[int, str]
    pictures: Pictures | None
    gallery_pictures: Pictures | None
    image_names: Mapping[int, str] | None = None
    gallery_image_names: Mapping[int, str] | None = None

    def __post_init__(self) -> None:
        """Find the rank lists of all queries, or the reason why there are none."""
        self.lists, self.reason = _find_rank_lists(self.results)

    def show(self, queries: Sequence[int], caption: str) -> Html:
        """Return rank lists as pictures where there are pictures, else a table of numbers."""
        if self.pictures is None or self.lists is None:
            return self._table(queries, caption)
        items = [self._item(query, self.lists, self.pictures) for query in _progress.steps(queries, "Pictures")]
        return element("ul", *items, class_="lists", aria_label=caption)

    def show_folded(self, queries: Sequence[int], caption: str) -> list[Html]:
        """Return the first queries open and the others folded."""
        return folded(queries, _NUM_OPEN, self.show, caption)

    def facts(self, query: int) -> dict[str, str]:
        """Return the labels and numbers of a query as texts, by name."""
        results = self.results
        facts = {"query": str(results.name_of(query))}
        if self.image_names is not None:
            facts["file"] = self.image_names.get(int(results.query_index[query]), "")
        if results.query_identities is not None:
            identity = int(results.query_identities[query])
            facts["identity"] = self.names.get(identity, str(identity))
        if results.query_cameras is not None:
            camera = int(results.query_cameras[query])
            facts["camera"] = results.names_of("cameras").get(camera, str(camera))
        facts[_PRECISION] = percent_text(float(results.average_precision[query]))
        facts[_FIRST_MATCH] = rank_text(float(results.first_rank[query]))
        return facts

    def _table(self, queries: Sequence[int], caption: str) -> Html:
        """Return the facts of some queries, and their candidates in words, as a table."""
        rows = []
        ids = {}
        for query in queries:
            row = self.facts(query)
            ids[row["query"]] = f"query-{query}"
            if self.lists is not None:
                row[f"first {self.lists.index.shape[1]} candidates"] = _describe_candidates(self.lists, query)
            rows.append(row)
        headings = [f"{name} (%)" if name == _PRECISION else name for name in rows[0]]
        return table(caption, headings, [list(row.values()) for row in rows], ids=ids)

    def _item(self, query: int, lists: RankLists, pictures: Pictures) -> Html:
        """Return a query with its rank list as pictures."""
        facts = self.facts(query)
        facts[_PRECISION] += " %"
        words: list[Html] = []
        for name, fact in facts.items():
            heading = name if words else name.capitalize()
            words.append(join([f"{heading} ", element("span", fact)]))
        space = "\N{NO-BREAK SPACE}"
        listed = listed_pictures(lists, query, pictures, self.gallery_pictures, self.names, space=space)
        row = element("div", *map(self._figure, listed), class_="pictures")
        return element("li", element("p", join(words, ", ")), row, id=f"query-{query}")

    def _figure(self, listed: ListedPicture) -> Html:
        """Return a picture of a rank list with its caption."""
        is_first = listed.kind == "first"
        alt = "right" if is_first else listed.kind
        title = "query" if listed.kind == "query" else f"{listed.rank}. {listed.score:.3f}"
        lines = [title, " ".join(listed.labels)]
        image_names = self.image_names if listed.kind == "query" else self.gallery_image_names
        if image_names is not None and listed.number in image_names:
            lines.append(PurePosixPath(image_names[listed.number]).stem)
        caption = element("figcaption", join(lines, Html("<br>")))
        image = picture_or_reason(partial(_small_picture, listed, alt))
        return element("figure", image, caption, class_="right first" if is_first else listed.kind)


def _small_picture(listed: ListedPicture, alt: str) -> Html:
    """Embed a picture of a rank list.

    A small one is enlarged by the browser, so that the page does not grow.
    """
    image = listed.picture()
    image.thumbnail((_LARGEST_WIDTH, _LARGEST_HEIGHT))
    scale = min(_LARGEST_WIDTH / image.width, _LARGEST_HEIGHT / image.height)
    return picture(image, alt, scale=max(1.0, scale))


def _describe_candidates(lists: RankLists, query: int) -> str:
    """Return the ranks of right candidates in words, for readers who do not see colors or pictures."""
    right_ranks = (lists.is_positive[query].nonzero()[:, 0] + 1).tolist()
    num_wrong = int((lists.index[query] >= 0).sum()) - len(right_ranks)
    if not right_ranks:
        return f"{num_wrong} wrong"
    return f"{num_wrong} wrong, right at {', '.join(map(str, right_ranks))}"


def _hardest(queries: _ReportedQueries, hardest: Sequence[int], sentence: str) -> list[Html]:
    """Return the queries with an average precision below 1, the lowest first, under fields to filter and sort them."""
    if not hardest:
        return [note(f"{sentence}.")]
    content = [note(f"{sentence}. They are listed by their average precision, the lowest first.")]
    if queries.lists is None:
        content.append(note(f"Candidates are not shown: {queries.reason}"))
    lists = queries.show_folded(hardest, "Queries with the lowest average precision")
    facts = [queries.facts(query) for query in hardest]
    return content + filterable(facts, ("identity", "camera"), _PRECISION, lists)


def _mistakes(queries: _ReportedQueries, num_mistakes: int, hardest: Sequence[int]) -> list[Html]:
    """Return the queries with a wrong best candidate that scores far above the first right answer.

    Queries among the `hardest`, which are shown above, are links to these.
    """
    if queries.lists is None:
        return [note(f"Not shown: {queries.reason}")]
    mistakes = queries.lists.confident_mistakes(num_mistakes).tolist()
    if not mistakes:
        return [note(f"None: {_why_no_mistake(queries.lists)}")]
    content = [
        note(
            "Queries whose best candidate is wrong, by how much it scores above the first match. Check their labels"
            " first."
        )
    ]
    links = []
    unlinked = []
    for query in mistakes:
        if query in hardest:
            links.append(element("a", f"query {queries.results.name_of(query)}", href=f"#query-{query}"))
        else:
            unlinked.append(query)
    if links:
        content.append(element("p", "Shown above: ", join(links, ", "), "."))
    return content + queries.show_folded(unlinked, "Queries whose best candidate is wrong, by falling margin")


def _why_no_mistake(lists: RankLists) -> str:
    """Return the reason why no query is a confident mistake."""
    num_valid = int((lists.first_positive_rank > 0).sum())
    num_lists = len(lists)
    if num_valid == 0:
        return f"the gallery has a match for 0 of {counted(num_lists, 'query')}."
    if num_valid < num_lists:
        share = f"{num_valid:,} of {counted(num_lists, 'query')}"
        return f"the best candidate is right wherever the gallery has a match, for {share}."
    return "the best candidate of every query is right."


def _find_rank_lists(results: RetrievalResults) -> tuple[RankLists | None, str]:
    """Return the rank lists of all queries that results hold or can make; else None and the reason."""
    if results.rank_lists is not None:
        num_candidates = results.rank_lists.index.shape[1]
        return results.nearest(min(_NUM_CANDIDATES, num_candidates)), ""
    if results.problem is None:
        return None, _LACKING.format("rank lists", "nearest=10")
    try:
        return results.nearest(_NUM_CANDIDATES), ""
    except ValueError as error:
        return None, str(error)
