"""A canvas for grids of pictures: lettering, frames, dashes and marks; Pillow is imported when something is drawn."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from reid_torchmetrics._extras import require

from .glyphs import note_missing_glyphs

if TYPE_CHECKING:
    import PIL.Image

Image: TypeAlias = "PIL.Image.Image"
"""an image of Pillow, which is imported when something is drawn"""
Color: TypeAlias = tuple[int, int, int]

GREEN: Color = (26, 152, 80)
RED: Color = (215, 48, 39)
BLUE: Color = (33, 102, 230)
GRAY: Color = (128, 128, 128)
DARK: Color = (64, 64, 64)
PALE: Color = (240, 240, 240)
BLACK: Color = (0, 0, 0)
WHITE: Color = (255, 255, 255)

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

_PILLOW_LETTERS = frozenset(map(chr, range(ord(" "), ord("~") + 1))) | {_ELLIPSIS}  # of Pillow's default font
_SCALE = 0.9  # letters of DejaVu Sans become as large as in Pillow's font

# Corners of the lines of each mark, in a square of side 1.
_STROKES = {
    "check": ([(0.25, 0.52), (0.43, 0.70), (0.76, 0.32)],),
    "cross": ([(0.30, 0.30), (0.70, 0.70)], [(0.70, 0.30), (0.30, 0.70)]),
}
_FINER = 4  # marks are drawn larger by this factor, to be smooth


def pillow() -> Any:
    """Import Pillow with its modules `Image`, `ImageDraw` and `ImageFont`.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    require("A grid of pictures", "PIL")
    import PIL.Image  # noqa: PLC0415 - not every evaluation has pictures
    import PIL.ImageDraw  # noqa: PLC0415
    import PIL.ImageFont  # noqa: PLC0415

    return PIL


class Box(NamedTuple):
    """A rectangle of whole pixels."""

    left: int
    top: int
    width: int
    height: int

    @property
    def corners(self) -> tuple[int, int, int, int]:
        """First and last pixel in each direction, as Pillow draws rectangles."""
        return self.left, self.top, self.left + self.width - 1, self.top + self.height - 1

    def inside(self, margin: int) -> Box:
        """Return the rectangle without a margin at each side."""
        return Box(self.left + margin, self.top + margin, self.width - 2 * margin, self.height - 2 * margin)

    def meets(self, other: Box) -> bool:
        """Return whether two rectangles have a pixel in common."""
        left, top, right, bottom = self.corners
        other_left, other_top, other_right, other_bottom = other.corners
        return left <= other_right and other_left <= right and top <= other_bottom and other_top <= bottom


class Lettering:
    """Pillow's default font in one size, and Matplotlib's DejaVu Sans for texts with other letters.

    Without Matplotlib, and for letters that DejaVu Sans lacks, such as Chinese ones, there are empty boxes, and a
    warning names them.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._font = pillow().ImageFont.load_default(size=size)
        self._ascent, descent = self._font.getmetrics()
        self.height: int = self._ascent + descent

    def font_of(self, text: str) -> tuple[Any, int]:
        """Return the font for a text, and its offset downwards, so that all texts stand on one line."""
        font = self._font
        if not _PILLOW_LETTERS.issuperset(text):
            font = self._wide_font
            has_dejavu = font is not self._font
            letters = _dejavu_letters() if has_dejavu else _PILLOW_LETTERS
            missing = {letter for letter in text if letter not in letters and not letter.isspace()}
            if missing:
                note_missing_glyphs("DejaVu Sans" if has_dejavu else "of Pillow", missing)
        ascent, _ = font.getmetrics()
        return font, self._ascent - ascent

    @cached_property
    def _wide_font(self) -> Any:
        """DejaVu Sans; the default font where it is not installed."""
        try:
            return pillow().ImageFont.truetype(_dejavu_path(), size=round(_SCALE * self._size))
        except (ModuleNotFoundError, OSError):
            return self._font

    def width(self, text: str) -> int:
        """Return the width of a text in pixels, on one line."""
        text = " ".join(text.splitlines())
        font, _ = self.font_of(text)
        length: float = font.getlength(text)
        return math.ceil(length)

    def is_wider(self, text: str, width: int) -> bool:
        """Return whether a text is wider than `width` pixels; a text with more letters is not measured."""
        return len(text) > width or self.width(text) > width

    def cut(self, text: str, width: int, *, keeps_end: bool = False) -> str:
        """Return a text on one line, with an ellipsis for its end if it is too wide; empty if there is no room.

        With `keeps_end` the ellipsis stands for its beginning: names of files differ in their ends.
        """
        text = " ".join(text.splitlines())
        if not self.is_wider(text, width):
            return text
        # A letter is at least one pixel wide: only the first or last letters can have room.
        text = text[-width - 1 :] if keeps_end else text[: width + 1]

        def shorten(length: int) -> str:
            if keeps_end:
                return _ELLIPSIS + text[len(text) - length :]
            return text[:length].rstrip() + _ELLIPSIS

        num_fitting = bisect_right(range(len(text)), width, key=lambda length: self.width(shorten(length)))
        return shorten(num_fitting - 1) if num_fitting else ""


def _dejavu_path() -> str:
    """Return the path of DejaVu Sans among the fonts of Matplotlib."""
    import matplotlib as mpl  # noqa: PLC0415 - most texts have no such letters

    return str(Path(mpl.get_data_path()) / "fonts/ttf/DejaVuSans.ttf")


@lru_cache(maxsize=1)
def _dejavu_letters() -> frozenset[str]:
    """Return the letters that DejaVu Sans has."""
    from matplotlib.ft2font import FT2Font  # noqa: PLC0415

    return frozenset(map(chr, FT2Font(_dejavu_path()).get_charmap()))


class Canvas:
    """A white picture to draw on."""

    def __init__(self, width: int, height: int) -> None:
        self.image: Image = pillow().Image.new("RGB", (width, height), WHITE)
        self._draw = pillow().ImageDraw.Draw(self.image)

    def fill(self, box: Box, color: Color) -> None:
        """Fill a rectangle."""
        self._draw.rectangle(box.corners, fill=color)

    def frame(self, box: Box, color: Color, thickness: int) -> None:
        """Draw the edges of a rectangle, inside of it."""
        self._draw.rectangle(box.corners, outline=color, width=thickness)

    def dashed_frame(self, box: Box, color: Color, thickness: int, dash: int) -> None:
        """Draw the edges of a rectangle in dashes, with as much white between them; at most half as thick as a side."""
        self.frame(box, WHITE, thickness)
        left, top, right, bottom = box.corners
        for start in range(left, right + 1, 2 * dash):
            end = min(start + dash - 1, right)
            for edge in (top, bottom - thickness + 1):
                self._draw.rectangle((start, edge, end, edge + thickness - 1), fill=color)
        for start in range(top, bottom + 1, 2 * dash):
            end = min(start + dash - 1, bottom)
            for edge in (left, right - thickness + 1):
                self._draw.rectangle((edge, start, edge + thickness - 1, end), fill=color)

    def outline(self, corners: Any, color: Color, thickness: int, dash: float = math.inf) -> None:
        """Draw the edges of a polygon on white, in dashes of about a length, each beginning and ending with one."""
        points = [tuple(corner) for corner in corners]
        # The first edge is drawn twice, so that the first corner has a joint, too.
        self._draw.line([*points, *points[:2]], WHITE, thickness + 3, joint="curve")
        for start, end in pairwise([*points, points[0]]):
            num_dashes = max(1, math.ceil(math.dist(start, end) / (2 * dash)))
            ends = np.linspace(start, end, 2 * num_dashes)
            for dash_start, dash_end in zip(ends[::2], ends[1::2], strict=True):
                self._draw.line([*dash_start, *dash_end], color, thickness)

    def paste(self, image: Image, box: Box) -> None:
        """Put a picture into the middle of a rectangle, as large as it fits."""
        image = resized(image, box.width, box.height)
        left = box.left + (box.width - image.width) // 2
        top = box.top + (box.height - image.height) // 2
        self.image.paste(image, (left, top))

    def text(self, corner: tuple[int, int], text: str, lettering: Lettering, color: Color = BLACK) -> None:
        """Write a line of text, from its upper left corner on."""
        font, offset = lettering.font_of(text)
        left, top = corner
        self._draw.text((left, top + offset), text, fill=color, font=font)

    def centered(self, box: Box, lines: Sequence[str], lettering: Lettering, color: Color = BLACK) -> None:
        """Write lines of text into the middle of a rectangle from its top on, each cut where it is too wide."""
        for number, line in enumerate(lines):
            text = lettering.cut(line, box.width)
            left = box.left + (box.width - lettering.width(text)) // 2
            self.text((left, box.top + number * lettering.height), text, lettering, color)

    def mark(self, corner: tuple[int, int], size: int, mark: str, color: Color) -> None:
        """Draw a white check mark or cross on a disc, from its upper left corner on."""
        disc = _disc(size, mark, color)
        self.image.paste(disc, corner, disc)


def resized(image: Image, width: int, height: int) -> Image:
    """Return a picture in its proportions, as large as it fits."""
    scale = min(width / image.width, height / image.height)
    size = (max(1, round(scale * image.width)), max(1, round(scale * image.height)))
    if size == image.size:
        return image
    return image.resize(size, pillow().Image.Resampling.BICUBIC)


@lru_cache(maxsize=32)
def _disc(size: int, mark: str, color: Color) -> Image:
    """Return a disc with a mark, transparent around it."""
    side = _FINER * size
    disc: Image = pillow().Image.new("RGBA", (side, side), (*WHITE, 0))
    draw = pillow().ImageDraw.Draw(disc)
    draw.ellipse((0, 0, side - 1, side - 1), fill=WHITE)
    ring = side // 12
    draw.ellipse((ring, ring, side - 1 - ring, side - 1 - ring), fill=color)
    for stroke in _STROKES[mark]:
        draw.line([(x * side, y * side) for x, y in stroke], fill=WHITE, width=side // 7, joint="curve")
    return disc.resize((size, size), pillow().Image.Resampling.BOX)
