"""A batch of images with masks or other shapes: a metric keeps their overlaps and areas, not the shapes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.detection.batches import checks as batch_checks
from reid_torchmetrics.functional.detection.inputs import (
    ObjectColumns,
    RunMasks,
    ShapeType,
    box_areas,
    from_xywh,
    iou_of_images,
    pack_names,
    to_xywh,
)

from .image_columns import Dicts, ImageColumns, num_objects

Image = TypeVar("Image")

KEPT_STATES = {
    "shape_bytes": torch.empty(0, dtype=torch.uint8, device="cpu"),
    "shape_lengths": torch.empty(0, dtype=torch.int64, device="cpu"),
}
"""the states of a metric that keeps shapes, without rows: for each image the rows of its files, as text"""
_FLIPS_AT_A_TIME = 1 << 16
_NO_ROWS = torch.empty(0, dtype=torch.float64, device="cpu")
CORNER_STATES = dict.fromkeys(("detection_corners", "ground_truth_corners"), _NO_ROWS.view(0, 8))
"""the states of a metric of shapes that are drawn by their corners, without rows"""


class OverlapTable(NamedTuple):
    """Overlaps and areas of all images of a metric, for one type of shapes."""

    overlaps: Tensor
    """by image, detection and ground truth, float64"""
    detection_areas: Tensor
    ground_truth_areas: Tensor

    def at(self, is_selected: Tensor, counts: Tensor, true_counts: Tensor) -> OverlapTable:
        """Return the rows of the images of a mask, given the numbers of detections and ground truths of all images."""
        num_rows = torch.stack([counts * true_counts, counts, true_counts])
        columns = []
        for column, column_rows in zip(self, num_rows, strict=True):
            columns.append(column[is_selected.repeat_interleave(column_rows)])
        return OverlapTable(*columns)


def table_states(names: Sequence[str]) -> dict[str, Tensor]:
    """Return the states of a metric for the tables of types of shapes, without rows."""
    states = {}
    for name in names:
        for field in OverlapTable._fields:
            states[f"{name}_{field}"] = _NO_ROWS
    return states


@dataclass(frozen=True)
class ShapeBatch:
    """The shapes of a batch."""

    preds: Dicts
    target: Dicts
    """with boxes around the shapes, unless boxes are evaluated themselves"""
    shapes: dict[str, tuple[list[Any], list[Any]]]
    """for each type: detections and ground truths in the form of `ShapeType.read`, part by part"""
    parts: Sequence[slice]
    """the images of each part: one, or several if their shapes are a column"""
    types: Mapping[str, ShapeType]
    box_format: str
    num_invalid: int = 0
    """invalid detected shapes that count, and overlap nothing"""

    @classmethod
    @torch.no_grad()
    def read(
        cls, preds: Dicts, target: Dicts, types: Mapping[str, ShapeType], box_format: str, *, any_detected: bool = False
    ) -> ShapeBatch:
        """Check the shapes of a batch, and the device and number of labels.

        With `any_detected`, shapes of `preds` may hold any values, and invalid ones are counted.

        Raises:
            TypeError: shapes of the wrong type or dtype.
            ValueError: dicts without shapes, or shapes that do not fit.
        """
        if isinstance(preds, ImageColumns) and isinstance(target, ImageColumns) and _have_masks(types, preds, target):
            parts = _parts_of_images(preds, target)
            columns = (_in_parts(preds, parts), _in_parts(target, parts))
            return cls(preds, target, dict.fromkeys(types, columns), parts, types, box_format)
        parts = segments.ranges(len(preds), 1)
        shapes = {name: _read_pairs(kind, preds, target, any_detected=any_detected) for name, kind in types.items()}
        num_invalid = 0
        if any_detected:
            for kind in types.values():
                values = [item[kind.key] for item in preds]
                tensors = [value for value in values if isinstance(value, Tensor) and value.numel()]
                counts = [kind.are_valid(value).logical_not().sum() for value in tensors]
                if counts:
                    num_invalid += int(torch.stack(counts).sum())
        return cls(preds, target, shapes, parts, types, box_format, num_invalid)

    def with_boxes(self) -> ShapeBatch:
        """Return the same batch with boxes around the shapes of the first type."""
        (name, kind), *_ = self.types.items()
        detections, ground_truths = self.shapes[name]
        preds = self._with_boxes(self.preds, detections, kind, keeps_boxes=False)
        target = self._with_boxes(self.target, ground_truths, kind, keeps_boxes=kind.keeps_boxes)
        return replace(self, preds=preds, target=target)

    def _with_boxes(self, items: Dicts, shapes: Sequence[Any], kind: ShapeType, *, keeps_boxes: bool) -> Dicts:
        """Return the dicts of images with boxes around their shapes, on the device of their labels."""
        boxes = (from_xywh(kind.boxes(image_shapes), self.box_format) for image_shapes in shapes)
        if isinstance(items, ImageColumns):
            return items.with_column("boxes", torch.cat(list(boxes)))
        with_boxes: list[Mapping[str, Any]] = []
        for item, image_boxes in zip(items, boxes, strict=True):
            labels = item["labels"]
            device = labels.device if isinstance(labels, Tensor) else image_boxes.device
            is_kept = keeps_boxes and "boxes" in item
            with_boxes.append(item if is_kept else {**item, "boxes": image_boxes.to(device)})
        return with_boxes

    def _texts(self) -> list[str]:
        """Return the rows of each image for COCO's files, of detections and of ground truths, as JSON."""
        (name, kind), *_ = self.types.items()
        texts = []
        sides = []
        for items, shapes in zip((self.preds, self.target), self.shapes[name], strict=True):
            rows = chain.from_iterable(map(kind.rows, shapes))
            sides.append([list(islice(rows, number)) for number in num_objects(items)])
        for item, rows, true_rows in zip(self.target, *sides, strict=True):
            counts = item.get(kind.count_key)
            if counts is not None:
                for row, count in zip(true_rows, counts.view(-1).tolist(), strict=False):
                    row[kind.count_key] = int(count)
            texts.append(json.dumps([rows, true_rows]))
        return texts

    @torch.no_grad()
    def states(self, states: Mapping[str, Tensor], *, keeps: bool) -> dict[str, Tensor]:
        """Return rows for the states of tables, and the areas of ground truths.

        Args:
            states: the rows for the states of boxes.
            keeps: whether rows for `KEPT_STATES` are returned, too.
        """
        added: dict[str, Tensor] = {}
        device = states["ground_truth_areas"].device
        boxes = to_xywh(states["ground_truth_boxes"], self.box_format)
        for name in self.shapes:
            added |= self._table(name, states, boxes)
        for name, kind in self.types.items():
            if kind.has_corners:
                for state, images in zip(CORNER_STATES, self.shapes[name], strict=True):
                    added[state] = torch.cat([kind.corners(shapes).to(device) for shapes in images])
        if keeps:
            added.update(zip(KEPT_STATES, pack_names(self._texts()), strict=True))
        return added

    def _table(self, name: str, states: Mapping[str, Tensor], boxes: Tensor) -> dict[str, Tensor]:
        """Return the overlaps and areas for one type of shapes; `boxes` are the ground truths' in x, y, w, h."""
        kind = self.types[name]
        detections, ground_truths = self.shapes[name]
        if self.num_invalid:
            detections = [kind.measurable(shapes) for shapes in detections]
        given_areas = states["ground_truth_areas"].double()
        device = given_areas.device

        # Areas of ground truths: as given, else of the boxes or the shapes.
        default_areas = box_areas(boxes) if kind.keeps_boxes else _areas(kind, ground_truths, device)
        areas = torch.where(given_areas > 0, given_areas, default_areas)

        # Overlaps, part by part.
        sizes = [len(shapes) for shapes in ground_truths]
        part_areas = areas.split(sizes)
        counts: Sequence[Any] = [None] * len(sizes)
        if isinstance(self.preds, ImageColumns) and isinstance(self.target, ImageColumns):
            counts = [(self.preds.counts[part], self.target.counts[part]) for part in self.parts]
        columns = map(ObjectColumns, boxes.split(sizes), part_areas, states["ground_truth_crowds"].split(sizes), counts)
        images = list(zip(detections, ground_truths, columns, strict=True))
        tables = _each_image(partial(_overlaps, kind), images, device)
        overlaps = torch.cat([table.to(device).flatten() for table in tables])
        if self.num_invalid:
            overlaps.nan_to_num_(0.0)

        # Areas for the area ranges, -1 for an object that counts in none.
        flags: Sequence[Tensor | None] = [None] * len(sizes)
        if kind.count_key:
            flags = batch_checks.checked_flags(kind.count_key, self.target, device)
        range_areas = torch.cat(list(map(kind.areas_in_ranges, ground_truths, part_areas, flags)))
        return {
            f"{name}_overlaps": overlaps,
            f"{name}_detection_areas": _areas(kind, detections, device),
            f"{name}_ground_truth_areas": range_areas,
            "ground_truth_areas": areas,
        }


def _areas(kind: ShapeType, shapes: Sequence[Any], device: torch.device) -> Tensor:
    """Return the areas of all shapes."""
    return torch.cat([kind.areas(part).to(device) for part in shapes])


def _have_masks(types: Mapping[str, ShapeType], preds: ImageColumns, target: ImageColumns) -> bool:
    """Return whether columns hold all shapes, as run lengths, and of one size in each image."""
    masks, true_masks = (items.columns.get("masks") for items in (preds, target))
    if types.keys() != {"segm"} or not isinstance(masks, RunMasks) or not isinstance(true_masks, RunMasks):
        return False
    has_both = (preds.counts > 0) & (target.counts > 0)
    first, true_first = (segments.starts(items.counts)[has_both] for items in (preds, target))
    return bool((masks.sizes[first] == true_masks.sizes[true_first]).all())


def _parts_of_images(preds: ImageColumns, target: ImageColumns) -> list[slice]:
    """Return parts of the images, each with as many run lengths as fit the cache of a CPU."""
    num_flips = torch.zeros_like(preds.counts)
    for items in (preds, target):
        edges = segments.edges(torch.from_numpy(items.columns["masks"].num_flips))
        num_flips += edges[segments.edges(items.counts)].diff()
    return list(segments.ranges_within(num_flips, _FLIPS_AT_A_TIME))


def _in_parts(items: ImageColumns, parts: Sequence[slice]) -> list[Any]:
    """Return the masks of each part of the images."""
    edges = segments.edges(items.counts).tolist()
    return [items.columns["masks"][edges[part.start] : edges[part.stop]] for part in parts]


def overlaps_of_masks(preds: ImageColumns, target: ImageColumns, is_crowd: Tensor) -> Tensor:
    """Return the overlaps of all detections with all ground truths of each image, given columns of run lengths."""
    parts = _parts_of_images(preds, target)
    edges = segments.edges(target.counts).tolist()

    def compute_overlaps(part: tuple[RunMasks, RunMasks, slice]) -> Tensor:
        masks, true_masks, images = part
        crowds = is_crowd[edges[images.start] : edges[images.stop]]
        return iou_of_images(masks, true_masks, crowds, preds.counts[images], target.counts[images])

    pairs = list(zip(_in_parts(preds, parts), _in_parts(target, parts), parts, strict=True))
    return torch.cat([_NO_ROWS, *workers.share(compute_overlaps, pairs)])


def _overlaps(kind: ShapeType, part: tuple[Any, Any, ObjectColumns]) -> Tensor:
    """Return the overlaps of all detections with all ground truths, in one image or in each of several."""
    detections, ground_truths, columns = part
    if columns.counts is None and not (len(detections) and len(ground_truths)):
        return columns.areas.new_zeros((len(detections), len(ground_truths)))
    return kind.overlaps(detections, ground_truths, columns)


def _read_pairs(kind: ShapeType, preds: Dicts, target: Dicts, *, any_detected: bool) -> tuple[list[Any], list[Any]]:
    """Check and read the shapes of one type: detections and ground truths, image by image."""
    for argument, items in (("preds", preds), ("target", target)):
        batch_checks.check_keys(argument, items, (kind.key, "labels"))
    detections = _read("preds", preds, kind, any_values=any_detected)
    ground_truths = _read("target", target, kind)
    kind.check_images([f"target[{position}]['{kind.key}']" for position in range(len(target))], ground_truths)
    if not any_detected:
        kind.check_images([f"preds[{position}]['{kind.key}']" for position in range(len(preds))], detections)
    for position, pair in enumerate(zip(detections, ground_truths, strict=True)):
        if all(map(len, pair)):
            kind.check_pair(f"target[{position}]['{kind.key}']", *pair)
    return detections, ground_truths


def _read(argument: str, items: Dicts, kind: ShapeType, *, any_values: bool = False) -> list[Any]:
    """Check and read the shapes of one type in one argument of `update`."""

    def read(numbered_item: tuple[int, Mapping[str, Any]]) -> Any:
        position, item = numbered_item
        name = f"{argument}[{position}]['{kind.key}']"
        labels = item["labels"]
        # Before anything computes with them.
        if isinstance(item[kind.key], Tensor):
            batch_checks.check_has_values(name, item[kind.key])
        if isinstance(labels, Tensor):
            batch_checks.check_has_values(f"{argument}[{position}]['labels']", labels)
        shapes = kind.read(name, item[kind.key], is_true=argument == "target", any_values=any_values)
        if isinstance(labels, Tensor) and labels.numel() != len(shapes):
            raise ValueError(f"`{name}` must have one for each of {labels.numel()} labels; got {len(shapes)}.")
        return shapes

    device = torch.device("cpu")
    for item in items:
        if isinstance(item[kind.key], Tensor):
            device = item[kind.key].device
            break
    return _each_image(read, list(enumerate(items)), device)


def _each_image(work: Callable[[Image], Any], images: Sequence[Image], device: torch.device) -> list[Any]:
    """Do work for each image, on a CPU by several threads."""
    return workers.run(lambda: workers.share(work, images), device)
