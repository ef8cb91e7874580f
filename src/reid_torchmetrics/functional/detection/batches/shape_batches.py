"""A batch of images with masks or other shapes: they become overlaps and areas, and are let go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.batches import checks as batch_checks
from reid_torchmetrics.functional.detection.inputs import TableShapes, to_xywh

from .shape_types import ImageShapes, ShapeType, Truths

Dicts = Sequence[Mapping[str, Any]]
Part = TypeVar("Part")

_FORMATS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "xyxy": lambda corner, size: (corner, corner + size),
    "xywh": lambda corner, size: (corner, size),
    "cxcywh": lambda corner, size: (corner + size / 2, size),
}

TABLE_STATES = ("overlaps", "detection_areas", "ground_truth_areas")


def table_states(names: Sequence[str]) -> dict[str, Tensor]:
    """The states that a metric holds for types of shapes, without rows."""
    return {
        f"{name}_{state}": torch.empty(0, dtype=torch.float64, device="cpu") for name in names for state in TABLE_STATES
    }


@dataclass(frozen=True)
class Table:
    """Overlaps and areas of all images that a metric holds, of one type of shapes."""

    overlaps: Tensor
    """image after image, and in an image detection after detection, float64"""
    detection_areas: Tensor
    ground_truth_areas: Tensor

    def at(self, kept: Tensor, counts: Tensor, true_counts: Tensor) -> Table:
        """Only the images of a mask, of which all have so many detections and ground truths."""
        counts = torch.stack([counts * true_counts, counts, true_counts])
        rows = [kept.repeat_interleave(each) for each in counts]
        return Table(*(column[chosen] for column, chosen in zip(vars(self).values(), rows, strict=True)))

    def shapes(self, counts: Tensor, true_counts: Tensor) -> tuple[TableShapes, TableShapes]:
        """Of detections and of ground truths, as the evaluation takes them."""
        return TableShapes.of_images(self.overlaps, self.detection_areas, self.ground_truth_areas, counts, true_counts)


@dataclass(frozen=True)
class ShapeBatch:
    """The shapes of a batch."""

    preds: Dicts
    target: Dicts
    """with boxes that hold the shapes, where boxes are not evaluated themselves"""
    shapes: dict[str, tuple[list[ImageShapes], list[ImageShapes]]]
    """of each type those of detections and of ground truths, image by image"""
    types: Mapping[str, ShapeType]
    box_format: str
    num_invalid: int = 0
    """detected shapes that overlap nothing because they are not finite or of negative size"""

    @classmethod
    @torch.no_grad()
    def read(
        cls,
        preds: Dicts,
        target: Dicts,
        types: Mapping[str, ShapeType],
        box_format: str,
        *,
        any_detected: bool = False,
    ) -> ShapeBatch:
        """Check the shapes of a batch; nothing else of it is looked at, but for the labels' device and number.

        With `any_detected` those of `preds` may hold any values, and are counted.

        Raises:
            TypeError: shapes of the wrong type or dtype.
            ValueError: dicts without shapes, or shapes that do not fit.
        """
        batch_checks.check_lengths(preds, target)
        shapes, num_invalid = {}, 0
        for name, kind in types.items():
            for argument, items in (("preds", preds), ("target", target)):
                batch_checks.check_keys(argument, items, (kind.key, "labels"))
            found = _read("preds", preds, kind, any_values=any_detected)
            true = _read("target", target, kind)
            num_invalid += _num_invalid(preds, kind) if any_detected else 0
            for position, pair in enumerate(zip(found, true, strict=True)):
                if all(map(len, pair)):
                    kind.check_pair(f"target[{position}]['{kind.key}']", *pair)
            shapes[name] = found, true
        return cls(preds, target, shapes, types, box_format, num_invalid)

    def with_boxes(self) -> ShapeBatch:
        """The same with boxes that hold the shapes of the first type."""
        found, true = next(iter(self.shapes.values()))
        keeps_boxes = next(iter(self.types.values())).keeps_boxes
        return replace(
            self,
            preds=[self._boxed(item, each) for item, each in zip(self.preds, found, strict=True)],
            target=[
                item if keeps_boxes and "boxes" in item else self._boxed(item, each)
                for item, each in zip(self.target, true, strict=True)
            ],
        )

    def _boxed(self, item: Mapping[str, Any], shapes: ImageShapes) -> dict[str, Any]:
        boxes = shapes.boxes()
        boxes = torch.cat(_FORMATS[self.box_format](boxes[:, :2], boxes[:, 2:]), 1)
        return {**item, "boxes": boxes.to(_device(item, boxes))}

    @torch.no_grad()
    def states(self, states: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What the batch adds to the states of tables, and the areas of ground truths; `states` are the others."""
        if not len(self.preds):
            return {}
        added: dict[str, Tensor] = {}
        given = states["ground_truth_areas"].double()
        device = given.device
        boxes = to_xywh(states["ground_truth_boxes"], self.box_format)
        for name, (found, true) in self.shapes.items():
            kind, sizes = self.types[name], [len(each) for each in true]
            own = [kind.own_areas(*each).to(device) for each in zip(true, boxes.split(sizes), strict=True)]
            areas = torch.where(given > 0, given, torch.cat(own))
            columns = (boxes, areas, states["ground_truth_crowds"])
            truths = [Truths(*each) for each in zip(*(column.split(sizes) for column in columns), strict=True)]
            parts = _each_image(_overlaps_by(kind), [*zip(found, true, truths, strict=True)], device)
            counts = [None if kind.count_key is None else item.get(kind.count_key) for item in self.target]
            if kind.count_key is not None:
                batch_checks.check_flags(kind.count_key, self.target, device)
            counted = [kind.true_areas(*each) for each in zip(true, areas.split(sizes), counts, strict=True)]
            overlaps = torch.cat([part.to(device).flatten() for part in parts])
            added[f"{name}_overlaps"] = overlaps.nan_to_num_(0.0) if self.num_invalid else overlaps
            added[f"{name}_detection_areas"] = torch.cat([each.areas().to(device) for each in found])
            added[f"{name}_ground_truth_areas"] = torch.cat(counted)
            added["ground_truth_areas"] = areas
        return added


def _overlaps_by(kind: ShapeType) -> Callable[[tuple[ImageShapes, ImageShapes, Truths]], Tensor]:
    def overlaps(image: tuple[ImageShapes, ImageShapes, Truths]) -> Tensor:
        found, true, truths = image
        if not len(found) or not len(true):
            return truths.areas.new_zeros((len(found), len(true)))
        return kind.overlaps(found, true, truths)

    return overlaps


def _num_invalid(items: Dicts, kind: ShapeType) -> int:
    values = [item[kind.key] for item in items]
    sound = [kind.are_sound(value) for value in values if isinstance(value, Tensor) and value.numel()]
    return int((~torch.cat(sound)).sum()) if sound else 0


def _read(argument: str, items: Dicts, kind: ShapeType, *, any_values: bool = False) -> list[ImageShapes]:
    def read(numbered: tuple[int, Mapping[str, Any]]) -> ImageShapes:
        position, item = numbered
        for key in (kind.key, "labels"):
            if isinstance(item[key], Tensor):
                batch_checks.check_held(f"{argument}[{position}]['{key}']", item[key])
        name = f"{argument}[{position}]['{kind.key}']"
        shapes: ImageShapes = kind.read(name, item[kind.key], is_true=argument == "target", any_values=any_values)
        labels = item["labels"]
        if isinstance(labels, Tensor) and labels.numel() != len(shapes):
            raise ValueError(f"`{name}` must have one for each of {labels.numel()} labels; got {len(shapes)}.")
        return shapes

    first = next((item[kind.key] for item in items if isinstance(item[kind.key], Tensor)), torch.empty(0, device="cpu"))
    return _each_image(read, [*enumerate(items)], first.device)


def _each_image(work: Callable[[Part], Any], images: Sequence[Part], device: torch.device) -> list[Any]:
    """Do work for each image; on a CPU images are shared out."""
    return workers.run(lambda: workers.share(work, images), device)


def _device(item: Mapping[str, Any], boxes: Tensor) -> torch.device:
    labels = item["labels"]
    return labels.device if isinstance(labels, Tensor) else boxes.device
