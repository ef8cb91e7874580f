"""Rank lists as rows of pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import RankLists

from .canvas import GREEN, RED
from .cell_grid import Cell, Row, draw_cells
from .pictures import Pictures, picture_at

if TYPE_CHECKING:
    from PIL.Image import Image

_LEAST_HEIGHT = 32


def draw_rank_lists(
    lists: RankLists,
    pictures: Pictures,
    *,
    gallery_pictures: Pictures | None = None,
    names: Mapping[int, str] | None = None,
    height: int = 160,
    title: str | None = None,
) -> NDArray[np.uint8]:
    """Draw one row for each list: the query, its first candidates, and the first right answer if it is not among them.

    Right candidates have a green frame with a check mark, wrong ones a red frame with a cross. Below a candidate are
    its rank and score, and its identity and camera where they are known. Behind the list is the first right answer with
    its rank, or that there is none. Places behind the last candidate are pale. Pictures keep their proportions; a cell
    has those of the median picture. Text is cut where it is too long. Letters with accents, Greek and Cyrillic ones
    need Matplotlib's fonts; Chinese ones are empty boxes.

    A picture is an image of Pillow; a NumPy array of uint8, [H, W, 3], [H, W, 4] or [H, W]; a tensor [3, H, W] of uint8
    or of floats in [0, 1]; or an item of a data set: a tuple that begins with one of these, or a dict that has it as
    "image".

    Args:
        lists: such as `results.nearest(10)`, or `lists.select(lists.confident_mistakes(10))`.
        pictures: of the queries by `query_index`, and of the gallery by `index`: a function of the number, or what is
            indexed by it, such as a data set.
        gallery_pictures: of the gallery, if it is another data set than that of the queries, as it is where the
            evaluation was not given `index`; None for `pictures`.
        names: of the identities; without a name the number is shown.
        height: of a picture, in pixels.
        title: a line above all rows.

    Returns:
        An image [H, W, 3]. Without lists it says so.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError: `height` is not an int, or a picture is of another type.
        ValueError: `height` is below 32, or a picture is missing or has another shape or other values.
    """
    _checks.positive_int("height", height, least=_LEAST_HEIGHT)
    _checks.names_of_labels("names", names)
    cells = _Cells.of(lists, pictures, gallery_pictures, names or {})
    rows = [cells.row(row) for row in range(len(lists))]
    return draw_cells(rows, height=height, title=title, if_empty="no queries")


@dataclass(frozen=True)
class _Cells:
    """What makes the cells of lists."""

    lists: Mapping[str, Any]
    """fields of the lists, as Python's numbers"""
    query_picture: Callable[[int], Image]
    gallery_picture: Callable[[int], Image]
    names: Mapping[int, str]

    @classmethod
    def of(cls, lists: RankLists, pictures: Pictures, gallery: Pictures | None, names: Mapping[int, str]) -> _Cells:
        values = {name: None if each is None else each.tolist() for name, each in vars(lists).items()}
        argument, gallery = ("pictures", pictures) if gallery is None else ("gallery_pictures", gallery)
        return cls(
            values,
            lambda number: picture_at("pictures", pictures, number),
            lambda number: picture_at(argument, gallery, number),
            names,
        )

    def row(self, row: int) -> Row:
        """The query, the candidates, and the first right answer if it is not among them."""
        places = range(len(self.lists["index"][row]))
        is_shown = 1 <= self.lists["first_positive_rank"][row] <= len(places)
        return (
            [self._query(row)],
            [self._candidate(row, place) for place in places],
            [] if is_shown else [self._first_positive(row)],
        )

    def _query(self, row: int) -> Cell:
        number = self.lists["query_index"][row]
        who = self._who(self._label("query_identities", row), self._label("query_cameras", row))
        return Cell(self.query_picture(number), caption=((f"query {number}",), who))

    def _candidate(self, row: int, place: int) -> Cell:
        index = self.lists["index"][row][place]
        if index < 0:
            return Cell()
        color, mark = (GREEN, "check") if self.lists["is_positive"][row][place] else (RED, "cross")
        who = self._who(self._label("identities", row, place), self._label("cameras", row, place))
        said = (f"#{place + 1}", _written(self.lists["scores"][row][place]))
        return Cell(self.gallery_picture(index), color, mark, (said, who))

    def _first_positive(self, row: int) -> Cell:
        rank = self.lists["first_positive_rank"][row]
        if rank < 1:
            return Cell(remark=("no right", "answer"))
        who = self._who(None, self._label("first_positive_camera", row))
        said = (f"rank {rank}", _written(self.lists["first_positive_score"][row]))
        return Cell(self.gallery_picture(self.lists["first_positive_index"][row]), GREEN, "check", (said, who))

    def _label(self, name: str, row: int, place: int | None = None) -> int | None:
        """An identity or a camera, where they are known."""
        values = self.lists[name]
        if values is None:
            return None
        label: int = values[row] if place is None else values[row][place]
        return label

    def _who(self, identity: int | None, camera: int | None) -> tuple[str, ...]:
        named = () if identity is None else (self.names.get(identity, f"id {identity}"),)
        return named if camera is None else (*named, f"cam {camera}")


def _written(score: float) -> str:
    """A score with three decimals, or with two if it is large."""
    return f"{score:.3f}" if abs(score) < 1 else f"{score:.2f}"
