"""Shapes of objects for matching: their areas, and overlaps of detections with ground truths.

`Shapes` are the shapes of all images, packed: boxes themselves, or tables of overlaps for other shapes. A `ShapeType`
computes such tables for one kind of shape in `update`, image by image, so that masks need not be kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics.functional import segments

from .boxes import Sides, box_areas, overlap, to_xywh

Same = TypeVar("Same", bound="Shapes")
Rows: TypeAlias = Int[Tensor, " pairs"]
Crowds: TypeAlias = Bool[Tensor, " pairs"]

LEAST_REACH = 2.0**-9  # for smaller overlaps there is no search, as most boxes are within reach
SLACK = 2.0**-10  # relative tolerance of overlaps, for rounding
_PRECISE_SIDE = 2.0**20  # times the rounding of coordinates: longer sides are precise enough
_LEAST_SIDE = 2.0**-500  # shorter sides may have subnormal areas


class Reach(NamedTuple):
    """Positions of detections on an axis, and for each ground truth the range of its possible matches."""

    position: Float[Tensor, " detections"]
    low: Float[Tensor, " ground_truths"]
    high: Float[Tensor, " ground_truths"]


class Shapes(ABC):
    """The shapes of all detections, or of all ground truths, one in each row; `BoxShapes` is the class of boxes.

    `Detections` and `GroundTruths` take a subclass in place of boxes. A subclass caches values that it needs more than
    once for a shape.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of shapes."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Device of the tensors."""

    @abstractmethod
    def __getitem__(self: Same, rows: Tensor) -> Same:
        """Return the shapes of some rows, in the order of the rows."""

    @abstractmethod
    def areas(self) -> Float[Tensor, " shapes"]:
        """Return the areas for the area ranges, float64."""

    @abstractmethod
    def overlaps(
        self: Same, row: Rows, ground_truths: Same, true_row: Rows, is_crowd: Crowds | None = None
    ) -> Float[Tensor, " pairs"]:
        """Return the overlaps of pairs of these detections with ground truths, from 0 to 1, float64.

        Args:
            row: the row of each pair's detection.
            ground_truths: shapes of the same class.
            true_row: the row of each pair's ground truth.
            is_crowd: whether the ground truth is a crowd, whose overlap is the share of the detection inside. None
                without crowds.
        """

    def reach(  # noqa: PYI019 - as `overlaps`
        self: Same, detections: Same, *, at_least: float, is_crowd: Bool[Tensor, " ground_truths"] | None = None
    ) -> Reach | None:
        """Return the range of detections that may overlap each of these ground truths by `at_least`; None for all.

        With it, `overlaps` is computed for few pairs of a crowded image. A range may be too wide, but must contain all
        detections with that overlap.
        """
        return None

    def repeats(self) -> Bool[Tensor, " shapes"] | None:
        """Return whether each shape equals the previous one, to the last bit of all overlaps; None if none does.

        Runs of equal ground truths are overlapped and matched as one.
        """
        return None


@final
@dataclass(frozen=True)
class BoxShapes(Shapes):
    """Boxes, read as x, y, width and height; they overlap by intersection over union."""

    boxes: Float[Tensor, "boxes 4"]
    sides_of: Callable[[Tensor], Sides] = Sides.of
    """function for the edges and areas of boxes: `Sides.of` as in COCO, `Sides.of_corners` as in Pascal VOC"""
    areas_given: Float[Tensor, " boxes"] | None = None
    """areas for the area ranges, if not width times height"""
    box_format: str = "xywh"
    """format of `boxes`; very many boxes stay in their own format, because a converted copy would be large"""

    def __len__(self) -> int:
        """See `Shapes`."""
        return len(self.boxes)

    @property
    def device(self) -> torch.device:
        """See `Shapes`."""
        return self.boxes.device

    @property
    def xywh(self) -> Float[Tensor, "boxes 4"]:
        """The boxes as x, y, width and height."""
        return to_xywh(self.boxes, self.box_format)

    @cached_property
    def _sides(self) -> Sides:
        return self.sides_of(self.xywh)

    def __getitem__(self, rows: Tensor) -> BoxShapes:
        """See `Shapes`; the selected boxes are converted to x, y, width and height."""
        boxes = to_xywh(self.boxes.index_select(0, rows), self.box_format)
        areas = None if self.areas_given is None else self.areas_given.index_select(0, rows)
        return BoxShapes(boxes, self.sides_of, areas)

    def areas(self) -> Float[Tensor, " boxes"]:
        """See `Shapes`: `areas_given`, or width times height."""
        if self.areas_given is not None:
            return self.areas_given
        return box_areas(self.xywh)

    def overlaps(
        self, row: Rows, ground_truths: BoxShapes, true_row: Rows, is_crowd: Crowds | None = None
    ) -> Float[Tensor, " pairs"]:
        """See `Shapes`."""
        return overlap(self._sides.at(row), ground_truths._sides.at(true_row), is_crowd)

    def reach(
        self, detections: BoxShapes, *, at_least: float, is_crowd: Bool[Tensor, " ground_truths"] | None = None
    ) -> Reach | None:
        """See `Shapes`: positions are left or top edges, on the axis that separates boxes better.

        If boxes of widths w and v overlap by t or more, their common width is at least t w and t v. So v <= w / t, and
        the other box begins between (1 - t) v to the left and (1 - t) w to the right. For a crowd the common width is
        at least t v alone.
        """
        if not len(detections) or at_least < LEAST_REACH:
            return None
        # An inverted or infinite box overlaps nothing, like a point.
        sides = detections._sides
        lengths = torch.stack([sides.right - sides.left, sides.bottom - sides.top])
        is_valid = ((lengths >= 0) & (lengths < torch.inf)).all(0)
        sides = Sides(*(column.where(is_valid, 0.0) for column in sides))
        true_sides = self._sides
        if not _are_precise(true_sides, sides):
            return None

        if crowding(sides.top, sides.bottom) < crowding(sides.left, sides.right):
            position = sides.top
            begin = true_sides.top
            end = true_sides.bottom
        else:
            position = sides.left
            begin = true_sides.left
            end = true_sides.right
        least = at_least * (1 - SLACK)
        low = begin - (1 - least) / least * (end - begin)
        high = begin + (1 - least) * (end - begin)
        if is_crowd is not None:
            high = torch.where(is_crowd, end, high)
        return Reach(position, low, high)

    def repeats(self) -> Bool[Tensor, " boxes"] | None:
        """See `Shapes`."""
        is_repeated = (self.boxes[1:] == self.boxes[:-1]).all(1)
        if not bool(is_repeated.any()):
            return None
        return functional.pad(is_repeated, (1, 0))


def _are_precise(true_sides: Sides, sides: Sides) -> bool:
    """Return whether all widths and heights are 0, without any overlap, or far longer than the rounding of edges."""
    edges = []
    lengths = []
    for boxes in (true_sides, sides):
        edges += [boxes.left, boxes.top, boxes.right, boxes.bottom]
        lengths += [boxes.right - boxes.left, boxes.bottom - boxes.top]
    rounding = float(torch.cat(edges).abs().max()) * 2.0**-52
    least = max(rounding * _PRECISE_SIDE, _LEAST_SIDE)
    length = torch.cat(lengths)
    return bool(((length == 0) | (length >= least)).all())  # False for NaN


def crowding(begin: Float[Tensor, " boxes"], end: Float[Tensor, " boxes"]) -> float:
    """Return the mean length of boxes along an axis, relative to the range of their positions."""
    mean_length = (end - begin).mean()
    extent = begin.amax() - begin.amin()
    return float(mean_length / extent)


@final
@dataclass(frozen=True)
class TableShapes(Shapes):
    """Detections or ground truths with precomputed overlaps, such as masks; see `of_images`."""

    table: Float[Tensor, " entries"]
    """overlaps by image, detection and ground truth, with crowds taken into account"""
    places: Int[Tensor, " shapes"]
    """for a detection, the begin of its row in the table; for a ground truth, its column in the rows of its image"""
    areas_given: Float[Tensor, " shapes"]

    @classmethod
    def of_images(
        cls, table: Tensor, areas: Tensor, true_areas: Tensor, counts: Tensor, true_counts: Tensor
    ) -> tuple[TableShapes, TableShapes]:
        """Return the detections and the ground truths of all images, in the order of the images.

        The table of an image has a row for each detection. Example of two images, with 2 detections and 3 ground truths
        in the first, 1 and 2 in the second:

            begin of a detection's row       0 3 | 6
            column of a ground truth         0 1 2 | 0 1

        Args:
            table: overlaps by image, detection and ground truth.
            areas: areas of the detections.
            true_areas: areas of the ground truths.
            counts: number of detections of each image.
            true_counts: number of ground truths of each image.
        """
        image = segments.numbers(counts, len(areas))
        # An image's table begins after the pairs of earlier images; rows have the length of the image's ground truths.
        offsets = segments.starts(counts * true_counts) - segments.starts(counts) * true_counts
        number = torch.arange(len(areas), device=table.device)
        row_begins = number * true_counts.index_select(0, image) + offsets.index_select(0, image)
        columns = segments.runs(0, true_counts, len(true_areas))[1]
        return cls(table, row_begins, areas), cls(table, columns, true_areas)

    def __len__(self) -> int:
        """See `Shapes`."""
        return len(self.places)

    @property
    def device(self) -> torch.device:
        """See `Shapes`."""
        return self.places.device

    def __getitem__(self, rows: Tensor) -> TableShapes:
        """See `Shapes`."""
        return TableShapes(self.table, self.places.index_select(0, rows), self.areas_given.index_select(0, rows))

    def areas(self) -> Float[Tensor, " shapes"]:
        """See `Shapes`."""
        return self.areas_given.double()

    def overlaps(
        self, row: Rows, ground_truths: TableShapes, true_row: Rows, is_crowd: Crowds | None = None
    ) -> Float[Tensor, " pairs"]:
        """See `Shapes`; the table accounts for crowds."""
        column = ground_truths.places.index_select(0, true_row)
        entry = self.places.index_select(0, row).add_(column)
        return self.table.index_select(0, entry).double()


class ObjectColumns(NamedTuple):
    """Boxes, areas and crowds of the ground truths of one image, or of several, beside their shapes."""

    boxes: Tensor
    """x, y, width, height"""
    areas: Tensor
    """areas in the input, or of the shapes where these are not positive"""
    is_crowd: Tensor
    counts: tuple[Tensor, Tensor] | None = None
    """numbers of detections and of ground truths of several images; None for one image"""


class ShapeType(ABC):
    """A type of shape: `update` computes overlaps and areas, and drops the shapes.

    The shapes of an image, its detections or its ground truths, may have any form with a length.
    """

    key: ClassVar[str]
    keeps_boxes: ClassVar[bool] = False
    """whether `boxes` of ground truths are used, also for areas that are not in the input"""
    has_coordinates: ClassVar[bool] = True
    """whether the tensors of `key` are coordinates, so that a dtype may round them"""
    count_key: ClassVar[str] = ""
    """optional key of ground truths; an object with a 0 there counts in no area range; "" for no such key"""
    has_corners: ClassVar[bool] = False
    """whether shapes are drawn by four corners, and not by their boxes"""
    fault: ClassVar[str] = "are not finite or have a negative size"
    """words for shapes that are not valid, in a warning"""
    reason: ClassVar[str] = "the network has not learned yet, or `box_format` is another one"
    """words for the usual cause"""

    @abstractmethod
    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Any:
        """Check and read the shapes of an image; with `any_values` they may be invalid.

        Raises:
            TypeError: a value of the wrong type or dtype.
            ValueError: a shape that does not fit.
        """

    def are_valid(self, value: Tensor) -> Tensor:
        """Return whether each shape of a tensor can be evaluated; True for all if `read` refuses the tensor."""
        return torch.ones(len(value), dtype=torch.bool, device=value.device)

    def rules_in_files(self, shapes: Tensor) -> dict[str, Tensor]:
        """Return for each rule of ground truths in files, in words, whether each shape of a tensor keeps it."""
        return {"finite numbers": self.are_valid(shapes)}

    def check_images(self, names: Sequence[str], images: Sequence[Any]) -> None:  # noqa: B027 - most shapes need no more
        """Raise for a shape that `read` accepts and that cannot be measured; all images are checked together.

        Args:
            names: the name of the shapes of each image in a message.
            images: the shapes of each image, in the form of `read`.
        """

    def measurable(self, shapes: Any) -> Any:
        """Replace the shapes that `check_images` refuses by shapes without area."""
        return shapes

    @abstractmethod
    def boxes(self, shapes: Any) -> Tensor:
        """Return bounding boxes [x, y, width, height], float64."""

    def corners(self, shapes: Any) -> Tensor:
        """Return four corners [shapes, 8], x and y of each, if the type `has_corners`."""
        raise NotImplementedError

    @abstractmethod
    def areas(self, shapes: Any) -> Tensor:
        """Return areas, float64."""

    @abstractmethod
    def overlaps(self, detections: Any, ground_truths: Any, columns: ObjectColumns) -> Tensor:
        """Return the overlap of every detection with every ground truth of the image, float64; NaN means 0."""

    def areas_in_ranges(self, ground_truths: Any, areas: Tensor, counts: Tensor | None) -> Tensor:
        """Return areas for the area ranges; -1 for a ground truth that counts in none, see `count_key`."""
        return areas

    @abstractmethod
    def rows(self, shapes: Any) -> list[dict[str, Any]]:
        """Return the columns of the shapes in the rows of COCO's files."""

    def check_pair(self, name: str, detections: Any, ground_truths: Any) -> None:  # noqa: B027 - most shapes fit any other
        """Raise unless detections and ground truths are of images of the same size."""
