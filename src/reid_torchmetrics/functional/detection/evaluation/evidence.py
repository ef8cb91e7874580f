"""Evidence for advice, collected from matches of images or of packed objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from reid_torchmetrics.functional.box_units import LEAST_BOXES
from reid_torchmetrics.functional.detection.advice import (
    BatchNotes,
    BoxSample,
    DetectionEvidence,
    advise_on_detections,
    count_other_detections,
    find_repetitions,
    sample_boxes,
)
from reid_torchmetrics.functional.detection.batches import ImageNumbering, fingerprints
from reid_torchmetrics.functional.detection.inputs import BoxShapes, CocoGrid, Detections, GroundTruths
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.fingerprints import count_forgotten

from .image_matches import ImageMatches
from .sharded_images import ShardedImages

Result = TypeVar("Result")

_LABEL_STATES = [f"ground_truth_{name}" for name in ("counts", "labels", "areas", "boxes")]


def advise_on_images(
    matches: ImageMatches, sharded: ShardedImages, notes: BatchNotes, value_names: Collection[str] | None = None
) -> None:
    """Give advice on the images of all processes, after their numbers are computed; all processes must call this.

    The first process issues the warnings. Several processes exchange two small messages.

    Args:
        matches: matches of the images of all processes.
        sharded: the images of this process.
        notes: notes on the batches of this process.
        value_names: names of the requested numbers; None for all numbers.
    """
    world, states = sharded.world, sharded.states
    has_ids = bool(states["image_ids"] or states["image_name_lengths"])
    # Matches are cached on all processes or on none, and so are values computed from them.
    repetitions = matches.remember(
        "repetitions", lambda: find_repetitions(world, lambda: fingerprints(states, sharded.device), has_ids=has_ids)
    )
    if world.process:
        return

    def count_changed() -> tuple[int, int]:
        if not matches.num_repeated:
            return 0, 0
        images = sharded.images()
        ids = ImageNumbering.alone(images).ids
        if ids is None:
            return 0, 0
        return count_other_detections(images, ids)

    def find_objects() -> tuple[Detections, GroundTruths]:
        images = sharded.images()
        return ImageNumbering.alone(images).number(images, 0).boxes(matches.request.iou_type)

    def count_repeated_labels() -> int:
        if has_ids:
            return 0
        return count_forgotten(*(states[name] for name in _LABEL_STATES))

    def remember(name: str, compute: Callable[[], Result]) -> Result:
        return matches.remember(("advice", name), compute)

    request = matches.request
    evidence = DetectionEvidence(
        matches=matches.matches,
        grid=request.grid,
        objects=find_objects,
        read_sample=lambda: _read_sample(sharded, notes),
        remember=remember,
        notes=notes,
        iou_type=request.iou_type,
        box_format=sharded.box_format,
        is_one_class=request.micro,
        has_sizes=_asks_for_sizes(request.grid, value_names),
        num_without_lists=matches.num_without_lists,
        read_image_sizes=lambda: _read_image_sizes(sharded, notes),
        repetitions=repetitions,
        count_other_detections=lambda: remember("other detections", count_changed),
        count_repeated_labels=count_repeated_labels,
    )
    advise_on_detections(evidence, world.warning_log)


def _asks_for_sizes(grid: CocoGrid, value_names: Collection[str] | None) -> bool:
    """Return whether a number for an area range is requested."""
    sizes = list(grid.area_ranges)[1:]
    if value_names is None:
        return bool(sizes)
    return any(f"_{size}" in name for name in value_names for size in sizes)


def _read_sample(sharded: ShardedImages, notes: BatchNotes) -> BoxSample | None:
    """Return some boxes from the whole run; None once enough boxes were checked."""
    states = sharded.states
    if notes.has_checked_units or not states["detection_counts"]:
        return None
    detections = sample_boxes(states["detection_boxes"])
    ground_truths = sample_boxes(states["ground_truth_boxes"])
    num_boxes = min(len(detections), len(ground_truths))
    if not num_boxes:
        return None
    notes.has_checked_units = num_boxes >= LEAST_BOXES
    return BoxSample(detections, ground_truths, float(sample_boxes(states["ground_truth_areas"]).amax()))


def _read_image_sizes(sharded: ShardedImages, notes: BatchNotes) -> Tensor | None:
    """Return width and height of each image of this process, by its number; NaN if unknown."""
    if not notes.image_sizes:
        return None
    images = sharded.images()
    numbering = ImageNumbering.alone(images)
    if numbering.ids is None:
        return None
    ids = numbering.ids_by_number.tolist() if numbering.names is None else numbering.names
    sizes = [notes.image_sizes.get(image, (math.nan, math.nan)) for image in ids]
    return torch.tensor(sizes, dtype=torch.float64, device=images.device)


def evidence_of_objects(
    detections: Detections,
    ground_truths: GroundTruths,
    matches: Matches,
    grid: CocoGrid,
    *,
    label_names: Sequence[object] | None = None,
    image_sizes: Tensor | None = None,
) -> DetectionEvidence:
    """Return evidence from packed objects; boxes are x, y, width and height.

    Args:
        detections: detections in all images.
        ground_truths: ground truths in all images.
        matches: matches of these objects.
        grid: the grid of thresholds that they were matched on.
        label_names: the users' label for each label number; None if both are equal.
        image_sizes: width and height of each image, by its number; None if unknown.
    """

    def read_sample() -> BoxSample | None:
        shapes = detections.shapes
        true_shapes = ground_truths.shapes
        if not isinstance(shapes, BoxShapes) or not isinstance(true_shapes, BoxShapes):
            return None
        if not len(shapes) or not len(true_shapes):
            return None
        areas = ground_truths.areas
        largest_area = 0.0 if areas is None else float(areas.amax())
        return BoxSample(sample_boxes([shapes.boxes]), sample_boxes([true_shapes.boxes]), largest_area)

    return DetectionEvidence(
        matches=matches,
        grid=grid,
        objects=lambda: (detections, ground_truths),
        read_sample=read_sample,
        iou_type="bbox" if isinstance(detections.shapes, BoxShapes) else "",
        has_sizes=len(grid.area_ranges) > 1,
        label_names=label_names,
        read_image_sizes=lambda: image_sizes,
    )
