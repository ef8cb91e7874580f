"""Sections of a report about single queries: the hardest ones, and confident mistakes.

A rank list is a row of small pictures with captions, which wraps where the page is narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reid_torchmetrics import _progress
from reid_torchmetrics.functional.retrieval.evaluation import RankLists, RetrievalResults
from reid_torchmetrics.plot import ListedPicture, Pictures, listed_pictures

from .elements import Html, element, join, note, percent, picture, rank, table
from .page import Section, folded, picture_or_why

_LARGEST = (192, 128)  # width and height in pixels; the height is that of Market-1501's pictures
_NUM_CANDIDATES = 10
_NUM_OPEN = 10  # queries that are seen at once; the others are folded
_PRECISION = "average precision"  # in percent
_HOW = (
    "the results hold no rank lists; metric.results(nearest=10) gives results that do, and those of evaluate(...) find"
    " them by themselves."
)


@dataclass
class ReportedQueries:
    """Single queries of results, each with its rank list once on the page.

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
    on_page: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Look for the lists of all queries."""
        self.lists, self.missing = _rank_lists(self.results)

    def shown(self, queries: Sequence[int], caption: str) -> list[Html]:
        """Rank lists as pictures where there are pictures, else a table of numbers."""
        return folded(queries, _NUM_OPEN, lambda some, end: self._shown(some, f"{caption}{end}"))

    def _shown(self, queries: Sequence[int], caption: str) -> Html:
        if self.pictures is None or self.lists is None:
            return self._table(queries, caption)
        items = [self._item(query, self.lists, self.pictures) for query in _progress.steps(queries, "Pictures")]
        return element("ul", *items, class_="lists", aria_label=caption)

    def _facts(self, query: int) -> dict[str, str]:
        """What is known of a query, in words; empty where it is not known."""
        labels = self.results.query_identities, self.results.query_cameras
        identity, camera = (None if values is None else int(values[query]) for values in labels)
        return {
            "query": str(self.results.name_of(query)),
            "identity": "" if identity is None else self.names.get(identity, str(identity)),
            "camera": "" if camera is None else str(camera),
            _PRECISION: percent(float(self.results.average_precision[query])),
            "first right answer at rank": rank(float(self.results.first_rank[query])),
        }

    def _table(self, queries: Sequence[int], caption: str) -> Html:
        rows, lists = [self._facts(query) for query in queries], self.lists
        if lists is not None:
            column = f"first {lists.index.shape[1]} candidates"
            rows = [row | {column: _candidates(lists, query)} for row, query in zip(rows, queries, strict=True)]
        known = [name for name in rows[0] if any(row[name] for row in rows)]
        headings = [f"{name} (%)" if name == _PRECISION else name for name in known]
        return table(caption, headings, ([row[name] for name in known] for row in rows))

    def _item(self, query: int, lists: RankLists, pictures: Pictures) -> Html:
        """A query with its rank list."""
        facts = {name: fact for name, fact in self._facts(query).items() if fact}
        words = ", ".join(f"{name} {fact}{' %' if name == _PRECISION else ''}" for name, fact in facts.items())
        self.on_page.add(query)
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
        identity, camera = listed.identity, listed.camera
        who = [] if identity is None else [self.names.get(identity, f"id\N{NO-BREAK SPACE}{identity}")]
        who += [] if camera is None else [f"cam\N{NO-BREAK SPACE}{camera}"]
        caption = element("figcaption", said, Html("<br>"), " ".join(who))
        return element("figure", picture_or_why(shown), caption, class_=kind)


def _candidates(lists: RankLists, query: int) -> str:
    """The places of right candidates in words, for readers who do not see colors or pictures."""
    right = (lists.is_positive[query].nonzero()[:, 0] + 1).tolist()
    wrong = int((lists.index[query] >= 0).sum()) - len(right)
    return f"{wrong} wrong, right at {', '.join(map(str, right))}" if right else f"{wrong} wrong"


def hardest_section(queries: ReportedQueries, num_hardest: int) -> Section:
    """The queries with the lowest average precision."""
    said = "Queries with the lowest average precision, the lowest first. Queries without a positive are left out."
    missing = [] if queries.lists is not None else [note(f"Candidates are not shown: {queries.missing}")]
    shown = queries.shown(queries.results.hardest(num_hardest).tolist(), "Queries with the lowest average precision")
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
    above = [query for query in mistakes if query in queries.on_page]
    links = [element("a", f"query {queries.results.name_of(query)}", href=f"#query-{query}") for query in above]
    others = [query for query in mistakes if query not in above]
    shown = queries.shown(others, "Queries whose best candidate is wrong, by falling margin")
    return [note(said), *([element("p", "Shown above: ", join(links, ", "), ".")] if links else []), *shown]


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
