"""Rank lists as rows of framed pictures with captions."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, zip_longest
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import RankLists
from reid_torchmetrics.functional.retrieval.verification import Duplicates

from .canvas import DARK, GRAY, GREEN, PALE, RED, Box, Canvas, Image, Lettering
from .glyphs import one_warning_of_glyphs
from .pictures import Pictures, picture_at

_LEAST_HEIGHT = 32
_NARROWEST, _WIDEST, _ASPECT_OF_NOTHING = 1 / 3, 2.0, 0.5  # cells, as width over height
_WIDEST_FOR_TITLE = 640
_IN_A_ROW, _HEIGHT_OF_PAIRS = 10, 128
_SPACE = "  "
_NO_ROWS = "no queries"
_LOOK = {"": (DARK, ""), "check": (GREEN, "\N{CHECK MARK}"), "cross": (RED, "\N{BALLOT X}")}
"""by the mark of a picture: the color of its frame, and the sign in a caption that is text"""


@one_warning_of_glyphs()
def draw_rank_lists(
    lists: RankLists,
    pictures: Pictures,
    *,
    gallery_pictures: Pictures | None = None,
    names: Mapping[int, str] | None = None,
    height: int = 160,
    title: str | None = None,
    average_precision: Tensor | None = None,
) -> NDArray[np.uint8]:
    """Draw one row for each list: the query, its first candidates, and the first right answer if it is not among them.

    Right candidates have a green frame with a check mark, wrong ones a red frame with a cross. Below a candidate are
    its rank and score, and its identity and camera where they are known. Behind the list is the first right answer with
    its rank, or a remark that there is none or which candidate it is. Places behind the last candidate are pale.
    Pictures keep their proportions; a cell has those of the median picture. Text is cut where it is too long. Letters
    with accents, Greek and Cyrillic ones need Matplotlib's fonts; Chinese ones are empty boxes.

    A picture is an image of Pillow; a NumPy array of uint8, [H, W, 3], [H, W, 4] or [H, W]; a tensor [3, H, W] of uint8
    or of floats in [0, 1]; or an item of a data set: a tuple that begins with one of these, or a dict that has it as
    "image".

    Args:
        lists: such as `results.nearest(10)`, or `lists.select(lists.confident_mistakes(10))`.
        pictures: of the queries by `query_index`, and of the gallery by `index`: a function of the number, or something
            indexed by it, such as a data set.
        gallery_pictures: of the gallery, if it is another data set than that of the queries, as it is where the
            evaluation was not given `index`; None for `pictures`.
        names: of the identities; without a name that of the evaluation is shown, or the number.
        height: of a picture, in pixels.
        title: a line above all rows.
        average_precision: [queries of the results], such as `results.average_precision`, to be written below each
            query; None for none.

    Returns:
        An image [H, W, 3]. Without lists it says so.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError: `height` is not an int, or a picture is of another type.
        ValueError: `height` is below 32, or a picture is missing or has another shape or other values.
    """
    _checks.positive_int("height", height, least=_LEAST_HEIGHT)
    _checks.names_of_labels("names", names)
    rows = [_row(lists, row, (pictures, gallery_pictures), names or {}, average_precision) for row in range(len(lists))]
    heads = {0: "query", 1: "candidates", lists.index.shape[1] + 1: "first right"}
    rank, num_candidates = lists.first_positive_rank, (lists.index >= 0).sum(1)
    if bool(((rank >= 1) & (rank <= num_candidates)).all()):  # nothing stands behind the candidates
        rows = [cells for *cells, _ in rows]
    return _draw_rows(rows, heads, height, title or "")


@one_warning_of_glyphs()
def draw_duplicates(
    found: Duplicates, query_images: Pictures, gallery_images: Pictures | None = None, *, k: int = 10
) -> NDArray[np.uint8]:
    """Draw the pairs with the highest scores, for `Duplicates.plot`."""
    _checks.positive_int("k", k)
    if gallery_images is None and not found.within:
        raise ValueError("`gallery_images` must be given for pairs of two sets; got None.")
    best, cells = found.score.argsort(descending=True, stable=True)[:k], []
    images = ("gallery_images", gallery_images) if gallery_images is not None else ("query_images", query_images)
    columns = (each[best].tolist() for each in (found.query, found.gallery, found.score))
    for query, item, score in zip(*columns, strict=True):
        cells.append(_Cell(picture_at("query_images", query_images, query), caption=((f"query {query}",),)))
        cells.append(_Cell(picture_at(*images, item), caption=((f"item {item}", f"{score:.3f}"),)))
    rows = [cells[start : start + _IN_A_ROW] for start in range(0, len(cells), _IN_A_ROW)]
    return _draw_rows(rows, dict.fromkeys(range(0, _IN_A_ROW, 2), ""), _HEIGHT_OF_PAIRS, "")


class ListedPicture(NamedTuple):
    """A picture of a rank list with its labels."""

    kind: str
    """"query", "right", "wrong", or "first" for the first right answer if it is not among the candidates"""
    number: int
    """of the sample"""
    picture: Callable[[], Image]
    identity: int | None
    camera: int | None
    rank: int = 0
    score: float = math.nan
    label_names: Mapping[str, Mapping[int, str]] | None = None
    """the names that the evaluation was given, by the label"""

    def labels(self, names: Mapping[int, str], space: str = " ") -> list[str]:
        """The identity, by its name if it has one, and the camera in words, where they are known."""
        words, label_names = [], self.label_names or {}
        if self.identity is not None:
            of_evaluation = label_names.get("identities", {}).get(self.identity, f"id{space}{self.identity}")
            words.append(names.get(self.identity, of_evaluation))
        if self.camera is not None:
            words.append(label_names.get("cameras", {}).get(self.camera, f"cam{space}{self.camera}"))
        return words


def listed_pictures(lists: RankLists, row: int, pictures: Pictures, gallery: Pictures | None) -> list[ListedPicture]:
    """The query, its candidates, and the first right answer if it is not among them."""
    values: dict[str, Any] = {
        name: each[row].tolist() if isinstance(each, Tensor) else None for name, each in vars(lists).items()
    }
    of_query = "pictures", pictures
    of_gallery = of_query if gallery is None else ("gallery_pictures", gallery)

    def listed(kind: str, source: tuple[str, Pictures], number: int, *labels: Any) -> ListedPicture:
        shown = ListedPicture(kind, number, partial(picture_at, *source, number), *labels)
        return shown._replace(label_names=lists.label_names)

    identity, unknown = values["query_identities"], [None] * len(values["index"])
    shown = [listed("query", of_query, values["query_index"], identity, values["query_cameras"])]
    labels = (unknown if values[name] is None else values[name] for name in ("identities", "cameras"))
    candidates = zip(values["index"], values["is_positive"], *labels, values["scores"], strict=True)
    for rank, (number, is_right, *who, score) in enumerate(candidates, 1):
        if number >= 0:
            shown.append(listed("right" if is_right else "wrong", of_gallery, number, *who, rank, score))
    if values["first_positive_rank"] >= len(shown):
        first = [values[f"first_positive_{name}"] for name in ("camera", "rank", "score")]
        shown.append(listed("first", of_gallery, values["first_positive_index"], identity, *first))
    return shown


class _Cell(NamedTuple):
    """A picture with its frame and caption; without a picture a remark, or a pale place."""

    image: Image | None = None
    mark: str = ""
    """in the upper right corner: "check" or "cross" """
    caption: tuple[tuple[str, ...], ...] = ()
    """the lines below the picture, each as its parts: parts of a line that is too wide have lines of their own"""
    remark: tuple[str, ...] = ()
    """lines in the place of the picture"""


def captioned_pictures(
    lists: RankLists, row: int, pictures: Pictures, gallery_pictures: Pictures | None, names: Mapping[int, str]
) -> list[tuple[Image, str] | None]:
    """The query, its candidates and the first right answer behind them, with captions; None where there is none."""
    return [
        None if cell.image is None else (cell.image, _SPACE.join([_LOOK[cell.mark][1], *sum(cell.caption, ())]).strip())
        for cell in _row(lists, row, (pictures, gallery_pictures), names)
    ]


def _row(
    lists: RankLists, row: int, sides: Sequence[Any], names: Mapping[int, str], precision: Tensor | None = None
) -> list[_Cell]:
    """The cells of a list: the query, its candidates, and the first right answer behind the candidates.

    The `sides` are the pictures of the queries and of the gallery. Pale ones stand for candidates that are lacking. If
    the first right answer is a candidate, or there is none, a remark says so.
    """
    listed = listed_pictures(lists, row, *sides)
    query, *candidates = (_cell(each, names) for each in listed)
    if precision is not None:
        said = f"AP {100 * float(precision[lists.query[row]]):.1f} %"
        query = query._replace(caption=(*query.caption, (said,)))
    rank = int(lists.first_positive_rank[row])
    first = _Cell(remark=("it is", f"#{rank}") if rank > 0 else ("no right", "answer"))
    if listed[-1].kind == "first":
        first = candidates.pop()
    return [query, *candidates, *[_Cell()] * (lists.index.shape[1] - len(candidates)), first]


def _cell(listed: ListedPicture, names: Mapping[int, str]) -> _Cell:
    labels = tuple(listed.labels(names))
    if listed.kind == "query":
        return _Cell(listed.picture(), caption=((f"query {listed.number}",), labels))
    score = f"{listed.score:.3f}" if abs(listed.score) < 1 else f"{listed.score:.2f}"
    mark = "cross" if listed.kind == "wrong" else "check"
    return _Cell(listed.picture(), mark, ((f"#{listed.rank}", score), labels))


def _draw_rows(rows: Sequence[Sequence[_Cell]], heads: Mapping[int, str], height: int, title: str) -> NDArray[np.uint8]:
    """Draw rows of as many cells each, with pictures of a height in cells of one size.

    A cell has the proportions of the median picture, and pictures keep their own. Columns with a head are set apart.
    """
    cells = [cell for row in rows for cell in row]
    num_columns = len(rows[0]) if rows else 0
    size, gap, frame = max(10, round(0.075 * height)), max(4, height // 20), max(2, height // 40)
    small, large = Lettering(size), Lettering(round(1.3 * size))
    # Cells have frames, and captions need their room.
    aspects = [cell.image.width / cell.image.height for cell in cells if cell.image is not None]
    aspect = min(max(median(aspects or [_ASPECT_OF_NOTHING]), _NARROWEST), _WIDEST)
    cell_width, cell_height = max(round(height * aspect), 5 * size) + 2 * frame, height + 2 * frame
    captions = _captions(cells, small, cell_width)
    # Where each column begins, and the last one ends.
    step = cell_width + gap
    starts = [start for start in heads if start < num_columns]
    lefts = [gap + column * step + 2 * gap * (bisect(starts, column) - 1) for column in range(num_columns)]
    width = lefts[-1] + step if rows else gap
    head = gap + (large.height + gap if title else 0)
    top = head + (small.height if rows else 0)
    row_height = cell_height + max(map(len, captions), default=0) * small.height + 2 * gap
    title = large.cut(title, max(width, _WIDEST_FOR_TITLE) - 2 * gap)
    words = max(large.width(title), small.width("" if rows else _NO_ROWS))
    canvas = Canvas(max(width, words + 2 * gap), top + (len(rows) * row_height or small.height + gap))
    if title:
        canvas.text((gap, gap), title, large)
    if not rows:
        canvas.text((gap, top), _NO_ROWS, small, GRAY)
    for start, end in pairwise([*starts, num_columns]):
        canvas.text((lefts[start], head), small.cut(heads[start], (end - start) * cell_width), small, GRAY)
    for place, (cell, caption) in enumerate(zip(cells, captions, strict=True)):
        row, column = divmod(place, num_columns)
        box = Box(lefts[column], top + row * row_height, cell_width, cell_height)
        _draw_cell(canvas, box, cell, frame)
        canvas.centered(box._replace(top=box.top + box.height), caption, small)
        above = (box.height - len(cell.remark) * small.height) // 2
        canvas.centered(box._replace(top=box.top + above), cell.remark, small, GRAY)
    return np.array(canvas.image)


def _captions(cells: Sequence[_Cell], lettering: Lettering, width: int) -> list[list[str]]:
    """The lines below each picture: if one is too wide for a cell, its parts are lines of their own in all cells."""
    lines = []
    for of_cells in zip_longest(*(cell.caption for cell in cells), fillvalue=()):
        joined = [_SPACE.join(parts) for parts in of_cells]
        is_split = any(lettering.is_wider(line, width) for line in joined)
        lines.append(of_cells if is_split else [(line,) for line in joined])
    return [[line for parts in of_cell for line in parts if line] for of_cell in zip(*lines, strict=True)]


def _draw_cell(canvas: Canvas, box: Box, cell: _Cell, frame: int) -> None:
    color, _ = _LOOK[cell.mark]
    if not cell.remark:
        canvas.fill(box, PALE)
    if cell.image is not None:
        canvas.paste(cell.image, box.inside(frame))
        canvas.frame(box, color, frame)
    if cell.mark:
        badge = max(10, (box.height - 2 * frame) // 9)
        canvas.mark((box.left + box.width - frame - badge - 1, box.top + frame + 1), badge, cell.mark, color)
