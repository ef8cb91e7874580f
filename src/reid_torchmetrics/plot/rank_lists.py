"""Rank lists as rows of framed pictures with captions."""

from __future__ import annotations

import math
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

from .canvas import BLACK, DARK, GRAY, GREEN, PALE, RED, Box, Canvas, Color, Image, Lettering
from .pictures import Pictures, picture_at

_LEAST_HEIGHT = 32
_ASPECTS = (1 / 3, 2.0)  # narrowest and widest cell, as width over height
_ASPECT_OF_NOTHING = 0.5
_WIDEST_FOR_TITLE = 640
_SPACE = "  "
_NO_ROWS = "no queries"
_SIGNS = {"check": "\N{CHECK MARK}", "cross": "\N{BALLOT X}", None: ""}
"""in captions that are text"""


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
        names: of the identities; without a name the number is shown.
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
    rows = [
        _row(lists, row, listed_pictures(lists, row, pictures, gallery_pictures), names or {}, average_precision)
        for row in range(len(lists))
    ]
    heads = {0: "query", 1: "candidates", lists.index.shape[1] + 1: "first right"}
    rank, num_candidates = lists.first_positive_rank, (lists.index >= 0).sum(1)
    if bool(((rank >= 1) & (rank <= num_candidates)).all()):  # nothing stands behind the candidates
        rows = [cells for *cells, _ in rows]
    return _draw_rows(rows, heads, height, title or "")


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


def listed_pictures(
    lists: RankLists, row: int, pictures: Pictures, gallery_pictures: Pictures | None
) -> list[ListedPicture]:
    """The query, its candidates, and the first right answer if it is not among them."""
    argument, gallery = ("pictures", pictures) if gallery_pictures is None else ("gallery_pictures", gallery_pictures)
    values: dict[str, Any] = {name: each if each is None else each[row].tolist() for name, each in vars(lists).items()}
    number, identity = values["query_index"], values["query_identities"]
    query = partial(picture_at, "pictures", pictures, number)
    listed = [ListedPicture("query", number, query, identity, values["query_cameras"])]

    def add(kind: str, index: int, **labels: Any) -> None:
        listed.append(ListedPicture(kind, index, partial(picture_at, argument, gallery, index), **labels))

    columns = {"identity": values["identities"], "camera": values["cameras"], "score": values["scores"]}
    for place, index in enumerate(values["index"]):
        if index >= 0:
            labels = {label: column if column is None else column[place] for label, column in columns.items()}
            add("right" if values["is_positive"][place] else "wrong", index, rank=place + 1, **labels)
    if values["first_positive_rank"] >= len(listed):
        first = {label: values[f"first_positive_{label}"] for label in ("rank", "score", "camera")}
        add("first", values["first_positive_index"], identity=identity, **first)
    return listed


class _Cell(NamedTuple):
    """A picture with its frame and caption; without a picture a remark, or a pale place."""

    image: Image | None = None
    color: Color = DARK
    """of the frame"""
    mark: str | None = None
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
        None if cell.image is None else (cell.image, _SPACE.join([_SIGNS[cell.mark], *sum(cell.caption, ())]).strip())
        for cell in _row(lists, row, listed_pictures(lists, row, pictures, gallery_pictures), names)
    ]


def _row(
    lists: RankLists,
    row: int,
    listed: Sequence[ListedPicture],
    names: Mapping[int, str],
    average_precision: Tensor | None = None,
) -> list[_Cell]:
    """The query, its candidates with pale places for those that are lacking, and the first right answer behind them.

    If it is not behind them, a remark says which candidate it is, or that there is none.
    """
    query, *candidates = (_cell(each, names) for each in listed)
    if average_precision is not None:
        said = f"AP {100 * float(average_precision[lists.query[row]]):.1f} %"
        query = query._replace(caption=(*query.caption, (said,)))
    rank = int(lists.first_positive_rank[row])
    first = _Cell(remark=("it is", f"#{rank}") if rank > 0 else ("no right", "answer"))
    if listed[-1].kind == "first":
        first = candidates.pop()
    return [query, *candidates, *[_Cell()] * (lists.index.shape[1] - len(candidates)), first]


def _cell(listed: ListedPicture, names: Mapping[int, str]) -> _Cell:
    who = [] if listed.identity is None else [names.get(listed.identity, f"id {listed.identity}")]
    camera = [] if listed.camera is None else [f"cam {listed.camera}"]
    if listed.kind == "query":
        return _Cell(listed.picture(), caption=((f"query {listed.number}",), (*who, *camera)))
    score = f"{listed.score:.3f}" if abs(listed.score) < 1 else f"{listed.score:.2f}"
    color, mark = (RED, "cross") if listed.kind == "wrong" else (GREEN, "check")
    return _Cell(listed.picture(), color, mark, ((f"#{listed.rank}", score), (*who, *camera)))


def _draw_rows(rows: Sequence[Sequence[_Cell]], heads: Mapping[int, str], height: int, title: str) -> NDArray[np.uint8]:
    """Draw rows of as many cells each, with pictures of a height in cells of one size.

    A cell has the proportions of the median picture, and pictures keep their own. Columns with a head are set apart.
    """
    cells = [cell for row in rows for cell in row]
    num_columns = len(rows[0]) if rows else 0
    sizes = _CellSizes(height, cells)
    small, large, gap = sizes.small, sizes.large, sizes.gap
    captions = _captions(cells, sizes)
    # Where each column begins, and the last one ends.
    step = sizes.cell_width + gap
    lefts = [
        gap + column * step + 2 * gap * sum(0 < start <= column for start in heads) for column in range(num_columns)
    ]
    width = lefts[-1] + step if rows else gap
    head = gap + (large.height + gap if title else 0)
    top = head + (small.height if rows else 0)
    row_height = sizes.cell_height + max(map(len, captions), default=0) * small.height + 2 * gap
    title = large.cut(title, max(width, _WIDEST_FOR_TITLE) - 2 * gap)
    words = max(large.width(title), small.width("" if rows else _NO_ROWS))
    canvas = Canvas(max(width, words + 2 * gap), top + (len(rows) * row_height or small.height + gap))
    if title:
        canvas.text((gap, gap), title, large)
    if not rows:
        canvas.text((gap, top), _NO_ROWS, small, GRAY)
    starts = [start for start in heads if start < num_columns]
    for start, end in pairwise([*starts, num_columns]):
        canvas.text((lefts[start], head), small.cut(heads[start], (end - start) * sizes.cell_width), small, GRAY)
    for place, (cell, caption) in enumerate(zip(cells, captions, strict=True)):
        row, column = divmod(place, num_columns)
        box = Box(lefts[column], top + row * row_height, sizes.cell_width, sizes.cell_height)
        _draw_cell(canvas, sizes, box, cell, caption)
    return np.array(canvas.image)


class _CellSizes:
    """Sizes in pixels, derived from the height of a picture."""

    def __init__(self, height: int, cells: Sequence[_Cell]) -> None:
        size = max(10, round(0.075 * height))
        self.small, self.large = Lettering(size), Lettering(round(1.3 * size))
        self.frame, self.gap, self.badge = max(2, height // 40), max(4, height // 20), max(10, height // 9)
        aspects = [cell.image.width / cell.image.height for cell in cells if cell.image is not None]
        narrowest, widest = _ASPECTS
        aspect = min(max(median(aspects or [_ASPECT_OF_NOTHING]), narrowest), widest)
        # With the frame; captions need their room.
        self.cell_width = max(round(height * aspect), 5 * size) + 2 * self.frame
        self.cell_height = height + 2 * self.frame


def _captions(cells: Sequence[_Cell], sizes: _CellSizes) -> list[list[str]]:
    """The lines below each picture: if one is too wide for a cell, its parts are lines of their own in all cells."""
    lines = []
    for of_cells in zip_longest(*(cell.caption for cell in cells), fillvalue=()):
        joined = [_SPACE.join(parts) for parts in of_cells]
        is_split = any(sizes.small.is_wider(line, sizes.cell_width) for line in joined)
        lines.append(of_cells if is_split else [(line,) for line in joined])
    return [[line for parts in of_cell for line in parts if line] for of_cell in zip(*lines, strict=True)]


def _draw_cell(canvas: Canvas, sizes: _CellSizes, box: Box, cell: _Cell, caption: Sequence[str]) -> None:
    if not cell.remark:
        canvas.fill(box, PALE)
    if cell.image is not None:
        canvas.paste(cell.image, box.inside(sizes.frame))
        canvas.frame(box, cell.color, sizes.frame)
    if cell.mark is not None:
        right = box.left + box.width - sizes.frame - sizes.badge - 1
        canvas.mark((right, box.top + sizes.frame + 1), sizes.badge, cell.mark, cell.color)
    line_height = sizes.small.height
    above = (box.height - len(cell.remark) * line_height) // 2
    for top, lines, color in ((box.height, caption, BLACK), (above, cell.remark, GRAY)):
        for number, line in enumerate(lines):
            place = Box(box.left, box.top + top + number * line_height, box.width, line_height)
            canvas.centered(place, line, sizes.small, color)
