"""What matching knows of objects: their areas, and how much those of detections and of ground truths overlap.

Shapes that are no longer there: their areas, and a table of how much those of one image overlap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments

from .boxes import Sides, box_areas, overlap

Same = TypeVar("Same", bound="Shapes")

_LEAST_REACH = 2.0**-9  # the least overlap for which boxes are looked for nearby: below it, nothing is far away
_SLACK = 2.0**-10  # what is left to rounding: of an overlap, relatively
_SOUND_SIDE = 2.0**20  # times the rounding of coordinates: a longer side is known well enough
_LEAST_SIDE = 2.0**-500  # areas of shorter ones may not be normal numbers


class Reach(NamedTuple):
    """Where detections lie on a line, and between which ends those do that may overlap a ground truth so much."""

    position: Float[Tensor, " detections"]
    low: Float[Tensor, " ground_truths"]
    high: Float[Tensor, " ground_truths"]


class Shapes(ABC):
    """The shapes of all detections, or of all ground truths, one in each row; `BoxShapes` is the class of boxes.

    A class of others is all that a new kind of shape takes: `Detections` and `GroundTruths` hold them in the place of
    boxes. What is computed of a shape more than once belongs into a cached property.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number of shapes."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where they are."""

    @abstractmethod
    def __getitem__(self: Same, rows: Tensor) -> Same:
        """Some of the shapes, by number, in a given order."""

    @abstractmethod
    def areas(self) -> Float[Tensor, " shapes"]:
        """Their areas, float64, which decide on the area range."""

    @abstractmethod
    def overlaps(
        self: Same,
        row: Int[Tensor, " pairs"],
        ground_truths: Same,
        true_row: Int[Tensor, " pairs"],
        is_crowd: Bool[Tensor, " pairs"] | None = None,
    ) -> Float[Tensor, " pairs"]:
        """How much pairs of these shapes and of ground truths overlap, from 0 to 1, float64.

        Args:
            row: of each pair, the row of its detection here.
            ground_truths: shapes of the same class.
            true_row: of each pair, the row of its ground truth there.
            is_crowd: whether that is a crowd: then the share of the detection that lies in it. None if no one is.
        """

    def reach(  # noqa: PYI019 - as `overlaps`
        self: Same,
        detections: Same,
        *,
        at_least: float,
        is_crowd: Bool[Tensor, " ground_truths"] | None = None,
    ) -> Reach | None:
        """Where the detections are that may overlap each of these ground truths by a number, or None for anywhere.

        A class that says more spares `overlaps` most pairs of a crowded image. It may give ends that are too far apart,
        but never leaves out a detection whose overlap is so much.
        """
        return None

    def repeats(self) -> Bool[Tensor, " shapes"] | None:
        """Which shapes are equal to the one before, to the last bit of all overlaps; None if nobody knows.

        Equal ground truths that follow each other are overlapped and matched as one.
        """
        return None


@final
@dataclass(frozen=True)
class BoxShapes(Shapes):
    """Boxes as x, y, width and height; they overlap by intersection over union."""

    boxes: Float[Tensor, "boxes 4"]
    sides_of: Callable[[Tensor], Sides] = Sides.of
    """edges and areas of boxes: `Sides.of` as COCO has them, `Sides.of_corners` as Pascal VOC"""

    def __len__(self) -> int:
        """See `Shapes`."""
        return len(self.boxes)

    @property
    def device(self) -> torch.device:
        """See `Shapes`."""
        return self.boxes.device

    @cached_property
    def _sides(self) -> Sides:
        return self.sides_of(self.boxes)

    def __getitem__(self, rows: Tensor) -> BoxShapes:
        """See `Shapes`."""
        return BoxShapes(self.boxes.index_select(0, rows), self.sides_of)

    def areas(self) -> Float[Tensor, " boxes"]:
        """See `Shapes`: width times height."""
        return box_areas(self.boxes)

    def overlaps(
        self,
        row: Int[Tensor, " pairs"],
        ground_truths: BoxShapes,
        true_row: Int[Tensor, " pairs"],
        is_crowd: Bool[Tensor, " pairs"] | None = None,
    ) -> Float[Tensor, " pairs"]:
        """See `Shapes`."""
        return overlap(self._sides.at(row), ground_truths._sides.at(true_row), is_crowd)

    def reach(
        self, detections: BoxShapes, *, at_least: float, is_crowd: Bool[Tensor, " ground_truths"] | None = None
    ) -> Reach | None:
        """See `Shapes`: where the detections begin, from the left or from the top, whichever tells more.

        If boxes of widths w and v overlap by t or more, their common width is at least t w and t v. So v <= w / t, and
        the other box begins between (1 - t) v to the left and (1 - t) w to the right. Of a crowd the common width is at
        least t v alone.
        """
        if not len(detections) or at_least < _LEAST_REACH:
            return None
        sides = detections._sides
        if not _are_sound(self._sides, sides):
            sides = _without_invalid(sides)
            if not _are_sound(self._sides, sides):
                return None
        axis = min(("left", "right"), ("top", "bottom"), key=lambda ends: _crowding(sides, *ends))
        begin, end = (getattr(self._sides, name) for name in axis)
        least = at_least * (1 - _SLACK)
        high = begin + (1 - least) * (end - begin)
        if is_crowd is not None:
            high = torch.where(is_crowd, end, high)
        return Reach(getattr(sides, axis[0]), begin - (1 - least) / least * (end - begin), high)

    def repeats(self) -> Bool[Tensor, " boxes"]:
        """See `Shapes`."""
        is_repeated = (self.boxes[1:] == self.boxes[:-1]).all(1)
        return functional.pad(is_repeated, (min(1, len(self.boxes)), 0))


def _are_sound(*sides: Sides) -> bool:
    """Whether all widths and heights are 0, so that nothing overlaps, or far longer than the rounding of edges."""
    edges = torch.cat([edge for each in sides for edge in (each.left, each.top, each.right, each.bottom)])
    least = max(float(edges.abs().max()) * 2.0**-52 * _SOUND_SIDE, _LEAST_SIDE)
    lengths = torch.cat([length for each in sides for length in (each.right - each.left, each.bottom - each.top)])
    return bool(((lengths == 0) | (lengths >= least)).all())  # NaN and infinity are not


def _without_invalid(sides: Sides) -> Sides:
    """The same with a point for each box that is inverted or not finite: neither overlaps anything."""
    lengths = torch.stack([sides.right - sides.left, sides.bottom - sides.top])
    is_valid = ((lengths >= 0) & (lengths < torch.inf)).all(0)
    return Sides(*(column.where(is_valid, 0.0) for column in vars(sides).values()))


def _crowding(sides: Sides, begin: str, end: str) -> float:
    """How long boxes are along an axis against how far they are spread out."""
    first, last = getattr(sides, begin), getattr(sides, end)
    return float((last - first).mean() / (first.amax() - first.amin()))


@final
@dataclass(frozen=True)
class TableShapes(Shapes):
    """Detections, or ground truths, whose overlaps were computed before, as those of masks are; see `of_images`."""

    table: Float[Tensor, " entries"]
    """overlaps, image after image, and in an image detection after detection; crowds are reckoned with"""
    places: Int[Tensor, " shapes"]
    """of a detection, where its row begins in the table; of a ground truth, its place in the rows of its image"""
    areas_given: Float[Tensor, " shapes"]

    @classmethod
    def of_images(
        cls,
        table: Float[Tensor, " entries"],
        areas: Float[Tensor, " detections"],
        true_areas: Float[Tensor, " ground_truths"],
        counts: Int[Tensor, " images"],
        true_counts: Int[Tensor, " images"],
    ) -> tuple[TableShapes, TableShapes]:
        """The detections and the ground truths of images that have so many of both; both in the order of the images."""
        image = segments.numbers(counts, len(areas))
        before = segments.starts(counts * true_counts) - segments.starts(counts) * true_counts
        rows = torch.arange(len(areas), device=table.device) * true_counts.index_select(0, image)
        found = cls(table, rows + before.index_select(0, image), areas)
        return found, cls(table, segments.runs(0, true_counts, len(true_areas))[1], true_areas)

    def __len__(self) -> int:
        """See `Shapes`."""
        return len(self.places)

    @property
    def device(self) -> torch.device:
        """See `Shapes`."""
        return self.places.device

    def __getitem__(self, rows: Tensor) -> TableShapes:
        """See `Shapes`."""
        return TableShapes(self.table, self.places[rows], self.areas_given[rows])

    def areas(self) -> Float[Tensor, " shapes"]:
        """See `Shapes`."""
        return self.areas_given.double()

    def overlaps(
        self,
        row: Int[Tensor, " pairs"],
        ground_truths: TableShapes,
        true_row: Int[Tensor, " pairs"],
        is_crowd: Bool[Tensor, " pairs"] | None = None,
    ) -> Float[Tensor, " pairs"]:
        """See `Shapes`; which of them are crowds was known when the table was made."""
        column = ground_truths.places.index_select(0, true_row)
        return self.table.index_select(0, self.places.index_select(0, row).add_(column)).double()
