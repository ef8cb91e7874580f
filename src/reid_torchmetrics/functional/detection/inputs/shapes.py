"""Shapes of objects, as matching sees them: their areas, and overlaps of detections with ground truths.

`Shapes` are the shapes of all images, packed: boxes as they are, other shapes as tables of overlaps. `ShapeType` is how
`update` makes such tables of one kind of shape, image by image, so that masks need not be kept.
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

LEAST_REACH = 2.0**-9  # for smaller overlaps there is no search: nothing is far away
SLACK = 2.0**-10  # relative tolerance of overlaps, for rounding
_SOUND_SIDE = 2.0**20  # times the rounding of coordinates: longer sides are precise enough
_LEAST_SIDE = 2.0**-500  # shorter ones may have subnormal areas


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
        """Number of shapes."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Device of the tensors."""

    @abstractmethod
    def __getitem__(self: Same, rows: Tensor) -> Same:
        """Some of the shapes, by row, in the given order."""

    @abstractmethod
    def areas(self) -> Float[Tensor, " shapes"]:
        """Areas, float64, for the area ranges."""

    @abstractmethod
    def overlaps(
        self: Same, row: Rows, ground_truths: Same, true_row: Rows, is_crowd: Crowds | None = None
    ) -> Float[Tensor, " pairs"]:
        """Overlaps of pairs of these detections and of ground truths, from 0 to 1, float64.

        Args:
            row: row of each pair's detection.
            ground_truths: shapes of the same class.
            true_row: row of each pair's ground truth.
            is_crowd: whether the ground truth is a crowd: its overlap is the share of the detection inside. None for
                no crowds.
        """

    def reach(  # noqa: PYI019 - as `overlaps`
        self: Same, detections: Same, *, at_least: float, is_crowd: Bool[Tensor, " ground_truths"] | None = None
    ) -> Reach | None:
        """The range of detections that may overlap each of these ground truths by `at_least`; None for all.

        It spares `overlaps` most pairs of a crowded image. A range may be too wide, but must contain all detections
        with that overlap.
        """
        return None

    def repeats(self) -> Bool[Tensor, " shapes"] | None:
        """Whether each shape equals the one before, to the last bit of all overlaps; None if none does, or unknown.

        Runs of equal ground truths are overlapped and matched as one.
        """
        return None


@final
@dataclass(frozen=True)
class BoxShapes(Shapes):
    """Boxes, read as x, y, width and height; they overlap by intersection over union."""

    boxes: Float[Tensor, "boxes 4"]
    sides_of: Callable[[Tensor], Sides] = Sides.of
    """edges and areas of boxes: `Sides.of` as in COCO, `Sides.of_corners` as in Pascal VOC"""
    areas_given: Float[Tensor, " boxes"] | None = None
    """areas for the area ranges, if not width times height"""
    box_format: str = "xywh"
    """of `boxes`; it is another one for very many boxes, since all of them converted would be a large copy"""

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
        return self.boxes if self.box_format == "xywh" else to_xywh(self.boxes, self.box_format)

    @cached_property
    def _sides(self) -> Sides:
        return self.sides_of(self.xywh)

    def __getitem__(self, rows: Tensor) -> BoxShapes:
        """See `Shapes`; these boxes are converted."""
        as_given = BoxShapes(self.boxes.index_select(0, rows), box_format=self.box_format)
        areas = None if self.areas_given is None else self.areas_given.index_select(0, rows)
        return BoxShapes(as_given.xywh, self.sides_of, areas)

    def areas(self) -> Float[Tensor, " boxes"]:
        """See `Shapes`: as given, or width times height."""
        return box_areas(self.xywh) if self.areas_given is None else self.areas_given

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
        the other box begins between (1 - t) v to the left and (1 - t) w to the right. Of a crowd the common width is at
        least t v alone.
        """
        if not len(detections) or at_least < LEAST_REACH:
            return None
        # An inverted or infinite box overlaps nothing, like a point.
        sides = detections._sides
        lengths = torch.stack([sides.right - sides.left, sides.bottom - sides.top])
        is_valid = ((lengths >= 0) & (lengths < torch.inf)).all(0)
        sides = Sides(*(column.where(is_valid, 0.0) for column in vars(sides).values()))
        if not _are_sound(self._sides, sides):
            return None
        across, down = crowding(sides.left, sides.right), crowding(sides.top, sides.bottom)
        axis = ("top", "bottom") if down < across else ("left", "right")
        begin, end = (getattr(self._sides, name) for name in axis)
        least = at_least * (1 - SLACK)
        high = begin + (1 - least) * (end - begin)
        if is_crowd is not None:
            high = torch.where(is_crowd, end, high)
        return Reach(getattr(sides, axis[0]), begin - (1 - least) / least * (end - begin), high)

    def repeats(self) -> Bool[Tensor, " boxes"] | None:
        """See `Shapes`."""
        is_repeated = (self.boxes[1:] == self.boxes[:-1]).all(1)
        return functional.pad(is_repeated, (1, 0)) if bool(is_repeated.any()) else None


def _are_sound(*sides: Sides) -> bool:
    """Whether all widths and heights are 0, without any overlap, or far longer than the rounding of edges."""
    edges = torch.cat([edge for each in sides for edge in (each.left, each.top, each.right, each.bottom)])
    least = max(float(edges.abs().max()) * 2.0**-52 * _SOUND_SIDE, _LEAST_SIDE)
    lengths = torch.cat([length for each in sides for length in (each.right - each.left, each.bottom - each.top)])
    return bool(((lengths == 0) | (lengths >= least)).all())  # NaN and infinity are not


def crowding(begin: Float[Tensor, " boxes"], end: Float[Tensor, " boxes"]) -> float:
    """Mean length of boxes along an axis, relative to the range of their positions."""
    return float((end - begin).mean() / (begin.amax() - begin.amin()))


@final
@dataclass(frozen=True)
class TableShapes(Shapes):
    """Detections or ground truths with overlaps computed before, such as masks; see `of_images`."""

    table: Float[Tensor, " entries"]
    """overlaps by image, detection and ground truth, with crowds taken into account"""
    places: Int[Tensor, " shapes"]
    """of a detection, where its row begins in the table; of a ground truth, its place in the rows of its image"""
    areas_given: Float[Tensor, " shapes"]

    @classmethod
    def of_images(
        cls, table: Tensor, areas: Tensor, true_areas: Tensor, counts: Tensor, true_counts: Tensor
    ) -> tuple[TableShapes, TableShapes]:
        """The detections and the ground truths of images, in the order of the images; counts are per image."""
        # A pair is at the sum of a place for its detection, the row in its image's table, and one for the column.
        image = segments.numbers(counts, len(areas))
        before = segments.starts(counts * true_counts) - segments.starts(counts) * true_counts
        rows = torch.arange(len(areas), device=table.device) * true_counts.index_select(0, image)
        detections = cls(table, rows + before.index_select(0, image), areas)
        return detections, cls(table, segments.runs(0, true_counts, len(true_areas))[1], true_areas)

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
        return self.table.index_select(0, self.places.index_select(0, row).add_(column)).double()


class ObjectColumns(NamedTuple):
    """Boxes, areas and crowds of the ground truths of an image, beside their shapes."""

    boxes: Tensor
    """x, y, width, height"""
    areas: Tensor
    """as given, or of the shapes if not positive"""
    is_crowd: Tensor


class ShapeType(ABC):
    """A kind of shape: `update` computes overlaps and areas, and drops the shapes.

    The shapes of an image, its detections or its ground truths, may have any form with a length.
    """

    key: ClassVar[str]
    keeps_boxes: ClassVar[bool] = False
    """whether boxes given for ground truths are used, and give areas where none is given"""
    has_coordinates: ClassVar[bool] = True
    """whether the tensors of `key` are coordinates, so that a dtype may round them"""
    count_key: ClassVar[str] = ""
    """optional key of ground truths; an object with a 0 there counts in no area range; "" for no such key"""

    @abstractmethod
    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Any:
        """Check and read the shapes of an image; with `any_values` they may be invalid.

        Raises:
            TypeError: a value of the wrong type or dtype.
            ValueError: a shape that does not fit.
        """

    def are_sound(self, value: Tensor) -> Tensor:
        """Whether each shape of an image, as given, can be evaluated; True for all if `read` refuses the tensor."""
        return torch.ones(len(value), dtype=torch.bool, device=value.device)

    def check_images(self, names: Sequence[str], images: Sequence[Any]) -> None:  # noqa: B027 - most shapes need no more
        """Raise for a shape that `read` takes and that cannot be measured; all images are checked together.

        Args:
            names: what a message calls the shapes of each image.
            images: the shapes of each image, in the form of `read`.
        """

    def measurable(self, shapes: Any) -> Any:
        """Return the shapes, with shapes without area in the place of the ones that `check_images` refuses."""
        return shapes

    @abstractmethod
    def boxes(self, shapes: Any) -> Tensor:
        """Bounding boxes [x, y, width, height], float64."""

    @abstractmethod
    def areas(self, shapes: Any) -> Tensor:
        """Areas, float64."""

    @abstractmethod
    def overlaps(self, detections: Any, ground_truths: Any, columns: ObjectColumns) -> Tensor:
        """Overlap of every detection with every ground truth of the image, float64; NaN means 0."""

    def areas_in_ranges(self, ground_truths: Any, areas: Tensor, counts: Tensor | None) -> Tensor:
        """Areas for the area ranges; -1 for a ground truth that counts in none, see `count_key`."""
        return areas

    @abstractmethod
    def rows(self, shapes: Any) -> list[dict[str, Any]]:
        """The shapes as the rows of COCO's files have them, by the keys there."""

    def check_pair(self, name: str, detections: Any, ground_truths: Any) -> None:  # noqa: B027 - most shapes fit any other
        """Raise unless both are of the same image."""
