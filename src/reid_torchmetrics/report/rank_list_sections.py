"""What a report says of single queries: the hardest ones, and confident mistakes.

A rank list as a row of small pictures with captions, which wraps where the page is narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reid_torchmetrics.functional.retrieval.evaluation import RankLists, RetrievalResults
from reid_torchmetrics.plot import Pictures, picture_at

from .elements import Html, details, element, note, percent, picture, rank, table, thousands
from .page import Section, picture_or_why

_LARGEST = (192, 128)  # width and height in pixels; the height is that of Market-1501's pictures


@dataclass(frozen=True)
class ListPictures:
    """What is drawn of rank lists."""

    lists: RankLists
    pictures: Pictures
    gallery_pictures: Pictures | None
    names: Mapping[int, str]
    """of identities"""

    def row(self, row: int) -> Html:
        """The query, its candidates and, if it is not among them, the first right answer."""
        fields = vars(self.lists).items()
        values: dict[str, Any] = {name: None if each is None else each[row].tolist() for name, each in fields}
        cells = [self._query(values)]
        places = [place for place, index in enumerate(values["index"]) if index >= 0]
        cells += [self._candidate(values, place) for place in places]
        if values["first_positive_rank"] > len(places):
            cells.append(self._first_positive(values))
        return element("div", *cells, class_="pictures")

    def _query(self, values: Mapping[str, Any]) -> Html:
        who = self._who(values["query_identities"], values["query_cameras"])
        number = values["query_index"]
        return _cell("query", lambda: picture_at("pictures", self.pictures, number), "query", who)

    def _candidate(self, values: Mapping[str, Any], place: int) -> Html:
        identity, camera = (values[name] and values[name][place] for name in ("identities", "cameras"))
        kind = "right" if values["is_positive"][place] else "wrong"
        said = f"{place + 1}. {values['scores'][place]:.3f}"
        return _cell(kind, self._of_gallery(values["index"][place]), said, self._who(identity, camera))

    def _first_positive(self, values: Mapping[str, Any]) -> Html:
        said = f"{values['first_positive_rank']}. {values['first_positive_score']:.3f}"
        who = self._who(values["query_identities"], values["first_positive_camera"])
        return _cell("right first", self._of_gallery(values["first_positive_index"]), said, who)

    def _of_gallery(self, index: int) -> Callable[[], Any]:
        if self.gallery_pictures is None:
            return lambda: picture_at("pictures", self.pictures, index)
        of_gallery = self.gallery_pictures
        return lambda: picture_at("gallery_pictures", of_gallery, index)

    def _who(self, identity: int | None, camera: int | None) -> str:
        named = [] if identity is None else [str(self.names.get(identity, f"id\N{NO-BREAK SPACE}{identity}"))]
        return " ".join([*named, *([] if camera is None else [f"cam\N{NO-BREAK SPACE}{camera}"])])


def _cell(kind: str, find: Callable[[], Any], said: str, who: str) -> Html:
    def shown() -> Html:
        image = find()
        image.thumbnail(_LARGEST)
        # A small picture is enlarged by the browser, so that the page holds no more of it.
        scale = max(1.0, min(_LARGEST[0] / image.width, _LARGEST[1] / image.height))
        return picture(image, kind.partition(" ")[0], scale=scale)

    caption = element("figcaption", said, Html("<br>"), who)
    return element("figure", picture_or_why(shown), caption, class_=kind)


_NUM_CANDIDATES = 10
_NUM_OPEN = 10  # so many pictures are seen at once, and the others when they are asked for
_HOW = (
    "the results hold no rank lists; metric.results(nearest=10) gives results that do, and those of evaluate(...) find"
    " them by themselves."
)


@dataclass
class ShownQueries:
    """Single queries of some results, each drawn once on the page."""

    results: RetrievalResults
    lists: RankLists | None
    """of all queries, one after the other; None where the results do not have them"""
    missing: str
    """why they do not"""
    names: Mapping[int, str]
    """of identities"""
    pictures: Pictures | None
    gallery_pictures: Pictures | None
    drawn: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        results: RetrievalResults,
        *,
        names: Mapping[int, str],
        pictures: Pictures | None,
        gallery_pictures: Pictures | None,
    ) -> ShownQueries:
        """With the rank lists that the results hold or can make."""
        lists, missing = _rank_lists(results)
        return cls(results, lists, missing, names, pictures, gallery_pictures)

    def shown(self, queries: Sequence[int], caption: str) -> list[Html]:
        """Pictures of rank lists, where there are some, else a table of numbers."""
        draw = self._table if self.pictures is None or self.lists is None else self._items
        first, others = queries[:_NUM_OPEN], queries[_NUM_OPEN:]
        shown = [draw(first, caption)]
        return [*shown, details(f"{len(others)} more", draw(others, f"{caption}, continued"))] if others else shown

    def _items(self, queries: Sequence[int], caption: str) -> Html:
        return element("ul", *map(self._item, queries), class_="lists", aria_label=caption)

    def _table(self, queries: Sequence[int], caption: str) -> Html:
        columns = ["query", "identity", "camera", "average precision (%)", "first right answer at rank"]
        rows = [[str(self._number(query)), *self._labels(query), *self._values(query)] for query in queries]
        if self.lists is not None:
            columns.append(f"first {self.lists.index.shape[1]} candidates")
            rows = [[*row, self._candidates(query)] for row, query in zip(rows, queries, strict=True)]
        known = [column for column, values in zip(columns, zip(*rows, strict=True), strict=False) if any(values)]
        chosen = [columns.index(column) for column in known]
        return table(caption, known, [[row[place] for place in chosen] for row in rows])

    def _item(self, query: int) -> Html:
        """A query with its rank list, or the way to it where it is on the page already."""
        name = f"query-{query}"
        words = element("p", self._words(query))
        if query in self.drawn:
            return element("li", words, element("p", element("a", "Its rank list is shown above.", href=f"#{name}")))
        self.drawn.add(query)
        return element("li", words, self._pictures().row(query), id=name)

    def _pictures(self) -> ListPictures:
        assert self.lists is not None  # noqa: S101 - for the type checker; see `shown`
        assert self.pictures is not None  # noqa: S101
        return ListPictures(self.lists, self.pictures, self.gallery_pictures, self.names)

    def _words(self, query: int) -> str:
        """What is known of a query, in one line."""
        labels = zip(("identity", "camera"), self._labels(query), strict=True)
        precision, first = self._values(query)
        said = [f"query {self._number(query)}", *(f"{name} {label}" for name, label in labels if label)]
        return ", ".join([*said, f"average precision {precision} %", f"first right answer at rank {first}"])

    def _number(self, query: int) -> int:
        return int(self.results.query_index[query])

    def _labels(self, query: int) -> list[str]:
        results = self.results
        identity = None if results.query_identities is None else int(results.query_identities[query])
        camera = "" if results.query_cameras is None else str(int(results.query_cameras[query]))
        return ["" if identity is None else str(self.names.get(identity, identity)), camera]

    def _values(self, query: int) -> list[str]:
        precision, first = self.results.average_precision[query], self.results.first_rank[query]
        return [percent(float(precision)), rank(float(first))]

    def _candidates(self, query: int) -> str:
        """Which of the first candidates are right, in words, for those who do not see colors or pictures."""
        assert self.lists is not None  # noqa: S101 - for the type checker; see `shown`
        listed = self.lists.index[query] >= 0
        right = (self.lists.is_positive[query].nonzero()[:, 0] + 1).tolist()
        wrong = int(listed.sum()) - len(right)
        return f"{wrong} wrong, right at {', '.join(map(str, right))}" if right else f"{wrong} wrong"


def hardest_section(queries: ShownQueries, num_hardest: int) -> Section:
    """The queries with the lowest average precision."""
    hardest = queries.results.hardest(num_hardest).tolist()
    said = "Queries with the lowest average precision, the lowest first. Queries without a positive are left out."
    shown = queries.shown(hardest, "Queries with the lowest average precision") if hardest else []
    missing = [] if queries.lists is not None else [note(f"Candidates are not shown: {queries.missing}")]
    return Section("hardest", "Hardest queries", [note(said), *missing, *shown])


def mistakes_section(queries: ShownQueries, num_mistakes: int) -> Section:
    """The queries whose best candidate is wrong and scores far above the first right answer."""
    return Section("mistakes", "Confident mistakes", _mistakes(queries, num_mistakes))


def _mistakes(queries: ShownQueries, num_mistakes: int) -> list[Html]:
    if queries.lists is None:
        return [note(f"Not shown: {queries.missing}")]
    mistakes = queries.lists.confident_mistakes(num_mistakes).tolist()
    if not mistakes:
        return [note(f"None: {_why_none(queries.lists)}")]
    said = (
        "Queries whose best candidate is wrong, by how much it scores above the first right answer. Many such queries"
        " are errors of labels."
    )
    return [note(said), *queries.shown(mistakes, "Queries whose best candidate is wrong, by falling margin")]


def _why_none(lists: RankLists) -> str:
    """How it came about that no query is a confident mistake."""
    num_valid = int((lists.first_positive_rank > 0).sum())
    some = f"for {thousands(num_valid)} of {thousands(len(lists))} queries."
    if num_valid == 0:
        return f"the gallery has a right answer {some}"
    if num_valid < len(lists):
        return f"the best candidate is right wherever the gallery has a right answer, {some}"
    return "the best candidate of every query is right."


def _rank_lists(results: RetrievalResults) -> tuple[RankLists | None, str]:
    """The lists of all queries that results hold or can make; None and the reason where they do neither."""
    if results.rank_lists is not None:
        return results.rank_lists.first(min(_NUM_CANDIDATES, results.rank_lists.index.shape[1])), ""
    if results.problem is None:
        return None, _HOW
    try:
        lists = results.nearest(_NUM_CANDIDATES)
    except ValueError as error:
        return None, str(error)
    return lists, ""
