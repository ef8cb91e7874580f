"""Sections of a report about single queries: the hardest ones, and confident mistakes.

A rank list is a row of small pictures with captions, which wraps where the page is narrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reid_torchmetrics import _progress
from reid_torchmetrics.functional.retrieval.evaluation import RankLists, RetrievalResults
from reid_torchmetrics.plot import ListedPicture, Pictures, listed_pictures

from .elements import Html, details, element, join, note, percent, picture, rank, table
from .page import Section, picture_or_why

_LARGEST = (192, 128)  # width and height in pixels; the height is that of Market-1501's pictures
_NUM_CANDIDATES = 10
_NUM_OPEN = 10  # queries that are seen at once; the others are folded
_HOW = (
    "the results hold no rank lists; metric.results(nearest=10) gives results that do, and those of evaluate(...) find"
    " them by themselves."
)


class ReportedQueries:
    """Single queries of results, each with its rank list once on the page.

    Args:
        results: with rank lists, or with the scores to make them.
        names: of identities.
        pictures: of the queries; None for tables.
        gallery_pictures: None for `pictures`.
    """

    def __init__(
        self,
        results: RetrievalResults,
        names: Mapping[int, str],
        pictures: Pictures | None,
        gallery_pictures: Pictures | None,
    ) -> None:
        self.results, self.names = results, names
        self.pictures, self.gallery_pictures = pictures, gallery_pictures
        self.lists, self.missing = _rank_lists(results)
        self._on_page: set[int] = set()

    def link(self, query: int) -> Html | None:
        """A link to the rank list of a query, if it is on the page."""
        return element("a", f"query {self._number(query)}", href=f"#query-{query}") if query in self._on_page else None

    def shown(self, queries: Sequence[int], caption: str) -> list[Html]:
        """Rank lists as pictures where there are pictures, else a table of numbers."""
        first, others = queries[:_NUM_OPEN], queries[_NUM_OPEN:]
        shown = [self._shown(first, caption)]
        if others:
            shown.append(details(f"{len(others)} more", self._shown(others, f"{caption}, continued")))
        return shown

    def _shown(self, queries: Sequence[int], caption: str) -> Html:
        if self.pictures is None or self.lists is None:
            return self._table(queries, caption)
        items = [self._item(query, self.lists, self.pictures) for query in _progress.steps(queries, "Pictures")]
        return element("ul", *items, class_="lists", aria_label=caption)

    def _table(self, queries: Sequence[int], caption: str) -> Html:
        columns = ["query", "identity", "camera", "average precision (%)", "first right answer at rank"]
        rows = [[str(self._number(query)), *self._labels(query), *self._values(query)] for query in queries]
        if self.lists is not None:
            columns.append(f"first {self.lists.index.shape[1]} candidates")
            rows = [[*row, _candidates(self.lists, query)] for row, query in zip(rows, queries, strict=True)]
        known = [place for place, values in enumerate(zip(*rows, strict=True)) if any(values)]
        return table(caption, [columns[place] for place in known], [[row[place] for place in known] for row in rows])

    def _item(self, query: int, lists: RankLists, pictures: Pictures) -> Html:
        """A query with its rank list."""
        labels = zip(("identity", "camera"), self._labels(query), strict=True)
        precision, first = self._values(query)
        said = [f"query {self._number(query)}", *(f"{label} {value}" for label, value in labels if value)]
        said += [f"average precision {precision} %", f"first right answer at rank {first}"]
        words = element("p", ", ".join(said))
        self._on_page.add(query)
        row = map(self._figure, listed_pictures(lists, query, pictures, self.gallery_pictures))
        return element("li", words, element("div", *row, class_="pictures"), id=f"query-{query}")

    def _figure(self, listed: ListedPicture) -> Html:
        kind, alt = ("right first", "right") if listed.kind == "first" else (listed.kind, listed.kind)

        def shown() -> Html:
            image = listed.picture()
            image.thumbnail(_LARGEST)
            # A small picture is enlarged by the browser, so that the page holds no more of it.
            return picture(image, alt, scale=max(1.0, min(_LARGEST[0] / image.width, _LARGEST[1] / image.height)))

        said = "query" if kind == "query" else f"{listed.rank}. {listed.score:.3f}"
        who = []
        if listed.identity is not None:
            who.append(self.names.get(listed.identity, f"id\N{NO-BREAK SPACE}{listed.identity}"))
        if listed.camera is not None:
            who.append(f"cam\N{NO-BREAK SPACE}{listed.camera}")
        caption = element("figcaption", said, Html("<br>"), " ".join(who))
        return element("figure", picture_or_why(shown), caption, class_=kind)

    def _number(self, query: int) -> str | int:
        return self.results.name_of(query)

    def _labels(self, query: int) -> list[str]:
        """Identity and camera, empty where they are not known."""
        columns = self.results.query_identities, self.results.query_cameras
        labels: Iterable[Any] = ("" if column is None else int(column[query]) for column in columns)
        identity, camera = labels
        return [str(self.names.get(identity, identity)), str(camera)]

    def _values(self, query: int) -> list[str]:
        precision, first = self.results.average_precision[query], self.results.first_rank[query]
        return [percent(float(precision)), rank(float(first))]


def _candidates(lists: RankLists, query: int) -> str:
    """The places of right candidates in words, for readers who do not see colors or pictures."""
    right = (lists.is_positive[query].nonzero()[:, 0] + 1).tolist()
    wrong = int((lists.index[query] >= 0).sum()) - len(right)
    return f"{wrong} wrong, right at {', '.join(map(str, right))}" if right else f"{wrong} wrong"


def hardest_section(queries: ReportedQueries, num_hardest: int) -> Section:
    """The queries with the lowest average precision."""
    hardest = queries.results.hardest(num_hardest).tolist()
    said = "Queries with the lowest average precision, the lowest first. Queries without a positive are left out."
    shown = queries.shown(hardest, "Queries with the lowest average precision") if hardest else []
    missing = [] if queries.lists is not None else [note(f"Candidates are not shown: {queries.missing}")]
    return Section("hardest", "Hardest queries", [note(said), *missing, *shown])


def mistakes_section(queries: ReportedQueries, num_mistakes: int) -> Section:
    """The queries with a wrong best candidate that scores far above the first right answer."""
    return Section("mistakes", "Confident mistakes", _mistakes(queries, num_mistakes))


def _mistakes(queries: ReportedQueries, num_mistakes: int) -> list[Html]:
    if queries.lists is None:
        return [note(f"Not shown: {queries.missing}")]
    mistakes = queries.lists.confident_mistakes(num_mistakes).tolist()
    if not mistakes:
        return [note(f"None: {_why_none(queries.lists)}")]
    said = (
        "Queries whose best candidate is wrong, by how much it scores above the first right answer. Many such queries"
        " are errors of labels."
    )
    links = [link for link in map(queries.link, mistakes) if link]
    above = [element("p", "Shown above: ", join(links, ", "), ".")] if links else []
    others = [query for query in mistakes if not queries.link(query)]
    shown = queries.shown(others, "Queries whose best candidate is wrong, by falling margin") if others else []
    return [note(said), *above, *shown]


def _why_none(lists: RankLists) -> str:
    """The reason why no query is a confident mistake."""
    num_valid = int((lists.first_positive_rank > 0).sum())
    some = f"for {num_valid:,} of {len(lists):,} queries."
    if num_valid == 0:
        return f"the gallery has a right answer {some}"
    if num_valid < len(lists):
        return f"the best candidate is right wherever the gallery has a right answer, {some}"
    return "the best candidate of every query is right."


def _rank_lists(results: RetrievalResults) -> tuple[RankLists | None, str]:
    """The lists of all queries that results hold or can make; else None and the reason."""
    if results.rank_lists is not None:
        return results.rank_lists.first(min(_NUM_CANDIDATES, results.rank_lists.index.shape[1])), ""
    if results.problem is None:
        return None, _HOW
    try:
        return results.nearest(_NUM_CANDIDATES), ""
    except ValueError as error:
        return None, str(error)
