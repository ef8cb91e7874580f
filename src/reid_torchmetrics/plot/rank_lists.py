"""Rank lists as rows of framed pictures with captions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import RankLists

from .canvas import BLACK, DARK, GRAY, GREEN, PALE, RED, Box, Canvas, Color, Lettering
from .pictures import Pictures, picture_at

if TYPE_CHECKING:
    from PIL.Image import Image

_LEAST_HEIGHT = 32
_ASPECTS = (1 / 3, 2.0)  # narrowest and widest cell, as width over height
_ASPECT_OF_NOTHING = 0.5
_WIDEST_FOR_TITLE = 640
_SPACE = "  "
_NO_ROWS = "no queries"
_HEADS = ("query", "candidates", "first right")
"""above the groups of columns"""
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
    listed = (listed_pictures(lists, row, pictures, gallery_pictures) for row in range(len(lists)))
    rows = [_row(lists, row, each, names or {}, average_precision) for row, each in enumerate(listed)]
    if any(first for _, _, first in rows):  # where another row has a picture, a place says why there is none
        rows = [_with_remark(lists, row, cells) for row, cells in enumerate(rows)]
    return _draw_rows(rows, height, title or "")


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
    fields = vars(lists).items()
    values: dict[str, Any] = {name: None if each is None else each[row].tolist() for name, each in fields}

    def of_gallery(kind: str, index: int, **labels: Any) -> ListedPicture:
        return ListedPicture(kind, index, partial(picture_at, argument, gallery, index), **labels)

    number, identity = values["query_index"], values["query_identities"]
    query = partial(picture_at, "pictures", pictures, number)
    listed = [ListedPicture("query", number, query, identity, values["query_cameras"])]
    for place, index in enumerate(values["index"]):
        if index >= 0:
            kind = "right" if values["is_positive"][place] else "wrong"
            names = {"identity": "identities", "camera": "cameras", "score": "scores"}
            labels = {label: values[name] and values[name][place] for label, name in names.items()}
            listed.append(of_gallery(kind, index, rank=place + 1, **labels))
    if values["first_positive_rank"] >= len(listed):
        first = {label: values[f"first_positive_{label}"] for label in ("rank", "score", "camera")}
        listed.append(of_gallery("first", values["first_positive_index"], identity=identity, **first))
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


_Row: TypeAlias = tuple[Sequence[_Cell], ...]
"""groups of cells that are set apart"""


def _with_remark(lists: RankLists, row: int, cells: _Row) -> _Row:
    query, others, first = cells
    return query, others, first or [_Cell(remark=("it is", f"#{int(lists.first_positive_rank[row])}"))]


def captioned_pictures(
    lists: RankLists, row: int, pictures: Pictures, gallery_pictures: Pictures | None, names: Mapping[int, str]
) -> list[tuple[Image, str] | None]:
    """The query, its candidates and the first right answer behind them, with captions; None where there is none."""
    query, others, first = _row(lists, row, listed_pictures(lists, row, pictures, gallery_pictures), names)
    return [
        None if cell.image is None else (cell.image, _SPACE.join([_SIGNS[cell.mark], *sum(cell.caption, ())]).strip())
        for cell in (*query, *others, *(first or [_Cell()]))
    ]


def _row(
    lists: RankLists,
    row: int,
    listed: Sequence[ListedPicture],
    names: Mapping[int, str],
    average_precision: Tensor | None = None,
) -> _Row:
    """The cells of a list: pale ones stand for candidates that are lacking."""
    query, *others = (_cell(each, names) for each in listed)
    if average_precision is not None:
        said = f"AP {100 * float(average_precision[lists.query[row]]):.1f} %"
        query = query._replace(caption=(*query.caption, (said,)))
    others, first = (others[:-1], others[-1:]) if listed[-1].kind == "first" else (others, [])
    if lists.first_positive_rank[row] < 1:
        first = [_Cell(remark=("no right", "answer"))]
    return [query], [*others, *[_Cell()] * (lists.index.shape[1] - len(others))], first


def _cell(listed: ListedPicture, names: Mapping[int, str]) -> _Cell:
    who = [] if listed.identity is None else [names.get(listed.identity, f"id {listed.identity}")]
    camera = [] if listed.camera is None else [f"cam {listed.camera}"]
    if listed.kind == "query":
        return _Cell(listed.picture(), caption=((f"query {listed.number}",), (*who, *camera)))
    score = f"{listed.score:.3f}" if abs(listed.score) < 1 else f"{listed.score:.2f}"
    color, mark = (RED, "cross") if listed.kind == "wrong" else (GREEN, "check")
    return _Cell(listed.picture(), color, mark, ((f"#{listed.rank}", score), (*who, *camera)))


def _draw_rows(rows: Sequence[_Row], height: int, title: str) -> NDArray[np.uint8]:
    """Draw rows of as many groups each, with pictures of a height in cells of one size.

    A cell has the proportions of the median picture, and pictures keep their own.
    """
    sizes = _CellSizes(height, [cell for row in rows for group in row for cell in group])
    small, large, gap = sizes.small, sizes.large, sizes.gap
    rows = _with_lines(rows, sizes)
    groups = [[row[number] for row in rows] for number in range(len(rows[0]) if rows else 0)]
    num_lines = max((len(cell.caption) for group in groups for cells in group for cell in cells), default=0)
    head = gap + (large.height + gap if title else 0)
    top = head + (small.height if rows else 0)
    row_height = sizes.cell_height + num_lines * small.height + 2 * gap
    width, lefts = _columns([max(map(len, group)) for group in groups], sizes)
    title = large.cut(title, max(width, _WIDEST_FOR_TITLE) - 2 * gap)
    words = max(large.width(title), small.width("" if rows else _NO_ROWS))
    canvas = Canvas(max(width, words + 2 * gap), top + (len(rows) * row_height or small.height + gap))
    if title:
        canvas.text((gap, gap), title, large)
    if not rows:
        canvas.text((gap, top), _NO_ROWS, small, GRAY)
    for text, group, left in zip(_HEADS, groups, lefts, strict=False):
        if any(group):
            canvas.text((left, head), small.cut(text, max(map(len, group)) * sizes.cell_width), small, GRAY)
    for number, row in enumerate(rows):
        for cells, left in zip(row, lefts, strict=True):
            for column, cell in enumerate(cells):
                corner = left + column * (sizes.cell_width + gap), top + number * row_height
                _draw_cell(canvas, sizes, Box(*corner, sizes.cell_width, sizes.cell_height), cell)
    return canvas.pixels()


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


def _with_lines(rows: Sequence[_Row], sizes: _CellSizes) -> list[_Row]:
    """All rows, with one part of a caption a line where all parts of one are too wide for a line."""
    split: set[int] = set()  # lines that are wider than a cell in one of the cells, and are split in all
    for cell in (cell for row in rows for cells in row for cell in cells):
        wide = (sizes.small.is_wider(_SPACE.join(parts), sizes.cell_width) for parts in cell.caption)
        split |= {line for line, is_wide in enumerate(wide) if is_wide}
    return [tuple([_split(cell, split) for cell in cells] for cells in row) for row in rows]


def _split(cell: _Cell, split: Collection[int]) -> _Cell:
    lines: list[str] = []
    for line, parts in enumerate(cell.caption):
        lines += parts if line in split else [_SPACE.join(parts)]
    return cell._replace(caption=tuple((line,) for line in lines if line))


def _columns(nums_columns: Sequence[int], sizes: _CellSizes) -> tuple[int, list[int]]:
    """The width of all cells with margins, and where each group begins; one without cells has no place."""
    step, lefts, end = sizes.cell_width + sizes.gap, [], sizes.gap
    for num_columns in nums_columns:
        is_apart = num_columns > 0 and end > sizes.gap
        lefts.append(end + (2 * sizes.gap if is_apart else 0))
        end = lefts[-1] + num_columns * step
    return end, lefts


def _draw_cell(canvas: Canvas, sizes: _CellSizes, box: Box, cell: _Cell) -> None:
    if not cell.remark:
        canvas.fill(box, PALE)
    if cell.image is not None:
        canvas.paste(cell.image, box.inside(sizes.frame))
        canvas.frame(box, cell.color, sizes.frame)
    if cell.mark is not None:
        right = box.left + box.width - sizes.frame - sizes.badge - 1
        canvas.mark((right, box.top + sizes.frame + 1), sizes.badge, cell.mark, cell.color)
    _write_lines(canvas, sizes, box._replace(top=box.top + box.height), [line for (line,) in cell.caption], BLACK)
    above = (box.height - len(cell.remark) * sizes.small.height) // 2
    _write_lines(canvas, sizes, box._replace(top=box.top + above), cell.remark, GRAY)


def _write_lines(canvas: Canvas, sizes: _CellSizes, box: Box, lines: Sequence[str], color: Color) -> None:
    for number, line in enumerate(lines):
        place = box._replace(top=box.top + number * sizes.small.height, height=sizes.small.height)
        canvas.centered(place, line, sizes.small, color)
