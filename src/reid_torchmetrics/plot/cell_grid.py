"""A grid of framed pictures with captions: rows of groups of cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .canvas import BLACK, DARK, GRAY, PALE, Box, Canvas, Color, Lettering

if TYPE_CHECKING:
    from PIL.Image import Image

_ASPECTS = (1 / 3, 2.0)  # narrowest and widest cell, as width over height
_ASPECT_OF_NOTHING = 0.5
_WIDEST_FOR_TITLE = 640
_SPACE = "  "


class Cell(NamedTuple):
    """A picture with what is said of it; without a picture a remark, or a pale place."""

    image: Image | None = None
    color: Color = DARK
    """of the frame"""
    mark: str | None = None
    """in the upper right corner: "check" or "cross" """
    caption: tuple[tuple[str, ...], ...] = ()
    """the lines below the picture, each as its parts: parts of a line that is too wide have lines of their own"""
    remark: tuple[str, ...] = ()
    """lines in the place of the picture"""


Row = Sequence[Sequence[Cell]]
"""groups of cells that are set apart"""


def draw_cells(rows: Sequence[Row], *, height: int, title: str | None, if_empty: str) -> NDArray[np.uint8]:
    """Draw rows of as many groups each, with pictures of a height in cells of one size; `if_empty` stands for no rows.

    A cell has the proportions of the median picture, and pictures keep their own.
    """
    style = _Style.of(height, [cell for row in rows for group in row for cell in group])
    groups = [_Group.of([row[number] for row in rows], style) for number in range(len(rows[0]) if rows else 0)]
    top = style.gap + (style.large.height + style.gap if title else 0)
    num_lines = max((group.num_lines for group in groups), default=0)
    row_height = style.cell_height + num_lines * style.small.height + 2 * style.gap
    width, lefts = _columns(groups, style)
    title = style.large.cut(title or "", max(width, _WIDEST_FOR_TITLE) - 2 * style.gap)
    words = max(style.large.width(title), style.small.width("" if rows else if_empty))
    canvas = Canvas(max(width, words + 2 * style.gap), top + (len(rows) * row_height or style.small.height + style.gap))
    if title:
        canvas.text((style.gap, style.gap), title, style.large)
    if not rows:
        canvas.text((style.gap, top), if_empty, style.small, GRAY)
    for number in range(len(rows)):
        for group, left in zip(groups, lefts, strict=True):
            _draw_in_row(canvas, style, (left, top + number * row_height), group.cells[number])
    return canvas.pixels()


@dataclass(frozen=True)
class _Style:
    """Sizes in pixels, which follow from the height of a picture."""

    small: Lettering
    large: Lettering
    frame: int
    gap: int
    badge: int
    cell_width: int
    """with the frame"""
    cell_height: int

    @classmethod
    def of(cls, height: int, cells: Sequence[Cell]) -> _Style:
        size, frame = max(10, round(0.075 * height)), max(2, height // 40)
        aspects = [cell.image.width / cell.image.height for cell in cells if cell.image is not None]
        narrowest, widest = _ASPECTS
        aspect = min(max(median(aspects or [_ASPECT_OF_NOTHING]), narrowest), widest)
        return cls(
            small=Lettering(size),
            large=Lettering(round(1.3 * size)),
            frame=frame,
            gap=max(4, height // 20),
            badge=max(10, height // 9),
            cell_width=max(round(height * aspect), 5 * size) + 2 * frame,  # captions need their room
            cell_height=height + 2 * frame,
        )


class _Group(NamedTuple):
    """The cells of a group in each row, with captions as they are written: one part a line."""

    cells: list[list[Cell]]
    num_columns: int
    num_lines: int

    @classmethod
    def of(cls, rows: Sequence[Sequence[Cell]], style: _Style) -> _Group:
        is_split = _are_too_wide([cell for cells in rows for cell in cells], style)
        cells = [[_with_lines(cell, is_split) for cell in row] for row in rows]
        num_lines = max((len(cell.caption) for row in cells for cell in row), default=0)
        return cls(cells, max(map(len, rows), default=0), num_lines)


def _are_too_wide(cells: Sequence[Cell], style: _Style) -> list[bool]:
    """Whether each line of the captions is wider than a cell somewhere: it is then divided in all of them."""
    num_lines = max((len(cell.caption) for cell in cells), default=0)
    is_split = [False] * num_lines
    for cell in cells:
        for line, parts in enumerate(cell.caption):
            is_split[line] |= style.small.is_wider(_SPACE.join(parts), style.cell_width)
    return is_split


def _with_lines(cell: Cell, is_split: Sequence[bool]) -> Cell:
    lines: list[str] = []
    for parts, split in zip(cell.caption, is_split, strict=False):
        lines += parts if split else [_SPACE.join(parts)]
    return cell._replace(caption=tuple((line,) for line in lines if line))


def _columns(groups: Sequence[_Group], style: _Style) -> tuple[int, list[int]]:
    """The width of all cells with margins, and where each group begins; one without cells has no place."""
    step, lefts, end = style.cell_width + style.gap, [], style.gap
    for group in groups:
        is_apart = group.num_columns > 0 and end > style.gap
        lefts.append(end + (2 * style.gap if is_apart else 0))
        end = lefts[-1] + group.num_columns * step
    return end, lefts


def _draw_in_row(canvas: Canvas, style: _Style, corner: tuple[int, int], cells: Sequence[Cell]) -> None:
    left, top = corner
    for cell in cells:
        _draw_cell(canvas, style, Box(left, top, style.cell_width, style.cell_height), cell)
        left += style.cell_width + style.gap


def _draw_cell(canvas: Canvas, style: _Style, box: Box, cell: Cell) -> None:
    if cell.image is not None:
        canvas.fill(box, PALE)
        canvas.paste(cell.image, box.inside(style.frame))
        canvas.frame(box, cell.color, style.frame)
    elif not cell.remark:
        canvas.fill(box, PALE)
    if cell.mark is not None:
        right = box.left + box.width - style.frame - style.badge - 1
        canvas.mark((right, box.top + style.frame + 1), style.badge, cell.mark, cell.color)
    _draw_lines(canvas, style, box._replace(top=box.top + box.height), [line for (line,) in cell.caption], BLACK)
    above = (box.height - len(cell.remark) * style.small.height) // 2
    _draw_lines(canvas, style, box._replace(top=box.top + above), cell.remark, GRAY)


def _draw_lines(canvas: Canvas, style: _Style, box: Box, lines: Sequence[str], color: Color) -> None:
    for number, line in enumerate(lines):
        place = box._replace(top=box.top + number * style.small.height, height=style.small.height)
        canvas.centered(place, line, style.small, color)
