"""A rank list as a row of small pictures with captions, which wraps where the page is narrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reid_torchmetrics.functional.retrieval.evaluation import RankLists
from reid_torchmetrics.plot import Pictures, picture_at
from reid_torchmetrics.report.elements import Html, element
from reid_torchmetrics.report.figures import picture
from reid_torchmetrics.report.page import picture_or_why

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
