"""One batch of `DetectionMAP.update` with masks or other shapes: boxes and overlaps, packed for the states.

It stands apart from `shape_batches`, of which `packing` needs the states.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .iou_types import ShapeType
from .packing import Batch, Dicts, pack
from .shape_batches import ShapeBatch
from .units import Units
from .unsound_shapes import without_unsound_objects


def pack_shapes(
    preds: Dicts,
    target: Dicts,
    types: Mapping[str, ShapeType],
    box_format: str,
    device: torch.device,
    units: Units,
    *,
    has_boxes: bool,
    invalid: str,
) -> Batch:
    """Check a batch of images with shapes and pack it; see `pack`.

    Args:
        preds: as `update` takes them.
        target: as `update` takes them.
        types: of the shapes.
        box_format: how boxes are given.
        device: where the states of a batch without boxes are to be.
        units: notes what is odd about the shapes.
        has_boxes: whether boxes are evaluated, too.
        invalid: one of `INVALID`.
    """
    num_dropped, left = 0, "raise" if invalid == "drop" else invalid
    if invalid == "drop":
        preds, target, num_dropped = without_unsound_objects(
            preds, target, types, box_format=box_format, has_boxes=has_boxes
        )
    shapes = ShapeBatch.read(preds, target, types, box_format, any_detected=invalid == "count")
    if not has_boxes:
        shapes = shapes.with_boxes()
    batch = pack(shapes.preds, shapes.target, box_format, device, invalid=left)
    units.note(shapes, batch.states)
    # Boxes that hold invalid shapes are among them.
    num_invalid = batch.num_invalid if has_boxes else shapes.num_invalid
    states = batch.states | shapes.states(batch.states)
    return batch._replace(states=states, num_dropped=num_dropped, num_invalid=num_invalid)
