"""A batch of images with masks or other shapes: a metric keeps their overlaps and areas, not the shapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.batches import checks as batch_checks
from reid_torchmetrics.functional.detection.inputs import ObjectColumns, ShapeType, box_areas, pack_names, to_xywh
from reid_torchmetrics.functional.detection.inputs import rotated_corners as corners_of

from .unsound import Dicts

Image = TypeVar("Image")

# From corner and size to each of the formats.
_FORMATS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "xyxy": lambda corner, size: (corner, corner + size),
    "xywh": lambda corner, size: (corner, size),
    "cxcywh": lambda corner, size: (corner + size / 2, size),
}

KEPT_STATES = {
    "shape_bytes": torch.empty(0, dtype=torch.uint8, device="cpu"),
    "shape_lengths": torch.empty(0, dtype=torch.int64, device="cpu"),
}
"""the states of a metric that keeps shapes, without rows: of each image their rows for files, as text"""
_NO_ROWS = torch.empty(0, dtype=torch.float64, device="cpu")
CORNER_STATES = dict.fromkeys(("detection_corners", "ground_truth_corners"), _NO_ROWS.view(0, 8))
"""the states of a metric of rotated boxes, without rows: they are drawn by their corners"""


class OverlapTable(NamedTuple):
    """Overlaps and areas of all images of a metric, for one type of shapes."""

    overlaps: Tensor
    """by image, detection and ground truth, float64"""
    detection_areas: Tensor
    ground_truth_areas: Tensor

    def at(self, kept: Tensor, counts: Tensor, true_counts: Tensor) -> OverlapTable:
        """The images of a mask; the counts of detections and ground truths are of all images."""
        counts = torch.stack([counts * true_counts, counts, true_counts])
        rows = [kept.repeat_interleave(each) for each in counts]
        return OverlapTable(*(column[row] for column, row in zip(self, rows, strict=True)))


def table_states(names: Sequence[str]) -> dict[str, Tensor]:
    """The states of a metric for the tables of types of shapes, without rows."""
    return {f"{name}_{state}": _NO_ROWS for name in names for state in OverlapTable._fields}


@dataclass(frozen=True)
class ShapeBatch:
    """The shapes of a batch."""

    preds: Dicts
    target: Dicts
    """with boxes around the shapes, unless boxes are evaluated themselves"""
    shapes: dict[str, tuple[list[Any], list[Any]]]
    """of each type: detections and ground truths, image by image, in the form of `ShapeType.read`"""
    types: Mapping[str, ShapeType]
    box_format: str
    num_invalid: int = 0
    """invalid detected shapes that count, and overlap nothing"""

    @classmethod
    @torch.no_grad()
    def read(
        cls, preds: Dicts, target: Dicts, types: Mapping[str, ShapeType], box_format: str, *, any_detected: bool = False
    ) -> ShapeBatch:
        """Check the shapes of a batch and, of all else, only the device and number of labels.

        With `any_detected` shapes of `preds` may hold any values, and invalid ones are counted.

        Raises:
            TypeError: shapes of the wrong type or dtype.
            ValueError: dicts without shapes, or shapes that do not fit.
        """
        shapes = {name: _read_pairs(kind, preds, target, any_detected=any_detected) for name, kind in types.items()}
        num_invalid = 0
        if any_detected:
            num_invalid = sum(_num_invalid(kind, preds) for kind in types.values())
        return cls(preds, target, shapes, types, box_format, num_invalid)

    def with_boxes(self) -> ShapeBatch:
        """The same with boxes around the shapes of the first type."""
        (detections, ground_truths), *_ = self.shapes.values()
        kind, *_ = self.types.values()
        boxed = [self._boxed(item, kind.boxes(each)) for item, each in zip(self.preds, detections, strict=True)]
        target = [
            item if kind.keeps_boxes and "boxes" in item else self._boxed(item, kind.boxes(each))
            for item, each in zip(self.target, ground_truths, strict=True)
        ]
        return replace(self, preds=boxed, target=target)

    def _texts(self) -> list[str]:
        """The rows of each image for COCO's files, of detections and of ground truths, as JSON."""
        (name, kind), *_ = self.types.items()
        listed = [[*map(kind.rows, pair)] for pair in zip(*self.shapes[name], strict=True)]
        for item, (_, rows) in zip(self.target, listed, strict=True):
            counts = item.get(kind.count_key)
            for row, count in zip(rows, [] if counts is None else counts.view(-1).tolist(), strict=False):
                row[kind.count_key] = int(count)
        return [*map(json.dumps, listed)]

    def _boxed(self, item: Mapping[str, Any], boxes: Tensor) -> dict[str, Any]:
        boxes = torch.cat(_FORMATS[self.box_format](boxes[:, :2], boxes[:, 2:]), 1)
        labels = item["labels"]
        return {**item, "boxes": boxes.to(labels.device) if isinstance(labels, Tensor) else boxes}

    @torch.no_grad()
    def states(self, states: Mapping[str, Tensor], *, keeps: bool) -> dict[str, Tensor]:
        """Rows for the states of tables, and the areas of ground truths; `states` are the rows of boxes.

        If it `keeps` the shapes, also rows for `KEPT_STATES`.
        """
        added: dict[str, Tensor] = {}
        given = states["ground_truth_areas"].double()
        device = given.device
        boxes = to_xywh(states["ground_truth_boxes"], self.box_format)
        for name, (detections, ground_truths) in self.shapes.items():
            kind, sizes = self.types[name], [len(each) for each in ground_truths]
            if self.num_invalid:
                detections = [kind.measurable(shapes) for shapes in detections]  # noqa: PLW2901
            # Areas of ground truths: as given, else of the boxes or the shapes.
            usual = box_areas(boxes) if kind.keeps_boxes else _areas(kind, ground_truths, device)
            areas = torch.where(given > 0, given, usual)
            # Overlaps, image by image.
            columns = [column.split(sizes) for column in (boxes, areas, states["ground_truth_crowds"])]
            images = [*zip(detections, ground_truths, map(ObjectColumns, *columns), strict=True)]
            parts = _each_image(partial(_overlaps, kind), images, device)
            overlaps = torch.cat([part.to(device).flatten() for part in parts])
            # Areas for the area ranges, -1 for an object that counts in none.
            counts = batch_checks.checked_flags(kind.count_key, self.target, device)
            ranged = map(kind.areas_in_ranges, ground_truths, areas.split(sizes), counts)
            added[f"{name}_overlaps"] = overlaps.nan_to_num_(0.0) if self.num_invalid else overlaps
            added[f"{name}_detection_areas"] = _areas(kind, detections, device)
            added[f"{name}_ground_truth_areas"] = torch.cat([*ranged])
            added["ground_truth_areas"] = areas
        for state, side in zip(CORNER_STATES, self.shapes.get("rotated", ()), strict=False):
            added[state] = torch.cat([corners_of(each).flatten(1).to(given.device) for each in side])
        return added | dict(zip(KEPT_STATES, pack_names(self._texts()), strict=True)) if keeps else added


def _areas(kind: ShapeType, shapes: Sequence[Any], device: torch.device) -> Tensor:
    return torch.cat([kind.areas(each).to(device) for each in shapes])


def _overlaps(kind: ShapeType, image: tuple[Any, Any, ObjectColumns]) -> Tensor:
    detections, ground_truths, columns = image
    if len(detections) and len(ground_truths):
        return kind.overlaps(detections, ground_truths, columns)
    return columns.areas.new_zeros((len(detections), len(ground_truths)))


def _num_invalid(kind: ShapeType, preds: Dicts) -> int:
    """Number of detected shapes that cannot be evaluated; tensors of one form are looked at together."""
    tensors_by_form: dict[tuple[Any, ...], list[Tensor]] = {}
    for item in preds:
        value = item[kind.key]
        if isinstance(value, Tensor) and value.numel():
            form = (value.shape[1:], value.dtype, value.device)
            tensors_by_form.setdefault(form, []).append(value)
    num_invalid = 0
    for tensors in tensors_by_form.values():
        are_sound = kind.are_sound(tensors[0] if len(tensors) == 1 else torch.cat(tensors))
        num_invalid += int(are_sound.logical_not().sum())
    return num_invalid


def _read_pairs(kind: ShapeType, preds: Dicts, target: Dicts, *, any_detected: bool) -> tuple[list[Any], list[Any]]:
    """Check and read the shapes of one type: detections and ground truths, image by image."""
    for argument, items in (("preds", preds), ("target", target)):
        batch_checks.check_keys(argument, items, (kind.key, "labels"))
    detections, ground_truths = _read("preds", preds, kind, any_values=any_detected), _read("target", target, kind)
    kind.check_images([f"target[{position}]['{kind.key}']" for position in range(len(target))], ground_truths)
    if not any_detected:
        kind.check_images([f"preds[{position}]['{kind.key}']" for position in range(len(preds))], detections)
    for position, pair in enumerate(zip(detections, ground_truths, strict=True)):
        if all(map(len, pair)):
            kind.check_pair(f"target[{position}]['{kind.key}']", *pair)
    return detections, ground_truths


def _read(argument: str, items: Dicts, kind: ShapeType, *, any_values: bool = False) -> list[Any]:
    def read(numbered: tuple[int, Mapping[str, Any]]) -> Any:
        position, item = numbered
        for key in (kind.key, "labels"):
            # Before anything computes with them.
            if isinstance(item[key], Tensor):
                batch_checks.check_has_values(f"{argument}[{position}]['{key}']", item[key])
        name = f"{argument}[{position}]['{kind.key}']"
        shapes = kind.read(name, item[kind.key], is_true=argument == "target", any_values=any_values)
        labels = item["labels"]
        if isinstance(labels, Tensor) and labels.numel() != len(shapes):
            raise ValueError(f"`{name}` must have one for each of {labels.numel()} labels; got {len(shapes)}.")
        return shapes

    first = next((item[kind.key] for item in items if isinstance(item[kind.key], Tensor)), torch.empty(0, device="cpu"))
    return _each_image(read, [*enumerate(items)], first.device)


def _each_image(work: Callable[[Image], Any], images: Sequence[Image], device: torch.device) -> list[Any]:
    """Do work for each image, on a CPU by several threads."""
    return workers.run(lambda: workers.share(work, images), device)
