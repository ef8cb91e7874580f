"""Packs a batch of `update`: one tensor for each state of a metric, from the tensors of all images.

All images are checked at once, with one synchronization of the device. Only a batch that fails is checked image by
image, so that the error names the image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._arrays import compute_device
from reid_torchmetrics._checks import FLOATING_DTYPES, INTEGER_DTYPES
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.batches import checks as batch_checks
from reid_torchmetrics.functional.detection.inputs import ShapeType

from .image_columns import Dicts, ImageColumns, num_objects, parts_of
from .image_ids import pack_ids
from .images import EXTRAS, STATES
from .invalid_objects import are_valid, are_valid_boxes, drop_invalid_objects
from .key_names import KNOWN_KEYS, check_optional_keys, keys_of_dicts
from .shape_batches import ShapeBatch

_VALUES_OF_ONE_THREAD = 1 << 14  # torch joins up to twice as many with one thread
_MANY_LABELS = 1 << 17  # in one batch; for so many labels, half of their memory is worth a pass for their range
_MANY_IMAGES = 1 << 8  # enough for several threads to join the columns

Share = Callable[..., Iterable[Any]]
"""`map`, or `workers.share` for several threads"""


class GivenBatch(NamedTuple):
    """A checked batch, as it was given."""

    preds: Dicts
    target: Dicts
    keys: Collection[Any]
    """the keys of all dicts in `target`"""
    extras: Sequence[str]
    """columns that the evaluation uses beside boxes, see `pack`"""
    shapes: ShapeBatch | None
    """masks, keypoints or rotated boxes, with boxes around them"""
    states: Mapping[str, Tensor]
    """the rows for the states of boxes"""


class Batch(NamedTuple):
    """A batch as rows for the states of a metric."""

    states: dict[str, Tensor]
    """rows for each of `STATES`; ids or names only if the images have them, nothing without images"""
    most_detections: int
    """the largest number of detections in an image"""
    num_dropped: int = 0
    """invalid boxes that were dropped"""
    num_invalid: int = 0
    """invalid detected boxes that count, and overlap nothing"""
    given: GivenBatch | None = None
    """the batch as it was given; None without images"""


def text_of_many(limit: int) -> str:
    """Return the warning for an image with more detections than the largest limit."""
    return (
        f"Encountered more than {limit} detections in a single image; of one class in an image only the {limit} with"
        " the highest scores count. `max_detection_thresholds` sets how many do."
    )


@torch.no_grad()
def pack(
    preds: Dicts, target: Dicts, box_format: str, device: torch.device, *, invalid: str, extras: Sequence[str] = ()
) -> Batch:
    """Check a batch and pack it.

    Args:
        preds: `boxes`, `scores` and `labels` of each image.
        target: `boxes` and `labels` of each image, and optionally `iscrowd`, `area` and `image_id`.
        box_format: the format of the boxes; they keep it.
        device: the device for the states of a batch without boxes.
        invalid: one of `_names.InvalidAction`.
        extras: further columns that `target` may have, keys of `EXTRAS`.

    Raises:
        TypeError: a value of the wrong type or dtype.
        ValueError: keys, shapes, devices or values that do not fit.
    """
    try:
        packed, is_valid = _pack_together(preds, target, box_format, device)
    except Exception as error:  # noqa: BLE001 - the checks of each image explain any failure better
        problem = error
    else:
        for extra in extras:
            packed.states.update(EXTRAS[extra].pack(target, packed.states["ground_truth_labels"].device))
        if is_valid:
            return packed
        batch_checks.check_crowds(target)  # an invalid crowd is always an error
        if invalid == "drop":
            preds, target, num_dropped = drop_invalid_objects(preds, target, {}, box_format, has_boxes=True)
            valid = pack(preds, target, box_format, device, invalid="raise", extras=extras)
            return valid._replace(most_detections=packed.most_detections, num_dropped=num_dropped)
        if invalid == "count":
            # Detected boxes may hold any values. All other values are checked with zeros in place of these boxes.
            boxes = packed.states["detection_boxes"]
            packed = packed._replace(num_invalid=int((~are_valid_boxes(boxes, box_format)).sum()))
            is_valid = are_valid(packed.states | {"detection_boxes": torch.zeros_like(boxes)}, box_format)
        if not is_valid:
            batch_checks.check_each_image(preds, target, box_format, any_detected=invalid == "count")
        return packed

    try:
        # Arrays and lists fail above; batches of tensors are not searched for them.
        preds, target, is_new = batch_checks.with_tensors(preds, target)
        if not is_new:
            batch_checks.check_each_image(preds, target, box_format, any_detected=invalid == "count")
            raise problem
    finally:
        del problem  # its traceback would keep this frame, and the batch, alive
    return pack(preds, target, box_format, device, invalid=invalid, extras=extras)


def _pack_together(preds: Dicts, target: Dicts, box_format: str, device: torch.device) -> tuple[Batch, bool]:
    """Join the columns of all images, and return whether all values are valid.

    Raises:
        Exception: of any type, if a column is missing or does not fit.
    """
    is_many = len(preds) >= _MANY_IMAGES and not isinstance(preds, ImageColumns)
    if is_many and preds[0]["labels"].device.type == "cpu":
        work = partial(_pack, preds, target, box_format, device, workers.share)
        return workers.run(work, torch.device("cpu"))
    return _pack(preds, target, box_format, device, map)


def _pack(preds: Dicts, target: Dicts, box_format: str, device: torch.device, share: Share) -> tuple[Batch, bool]:
    """Pack all images by one thread or by several; see `_pack_together`."""
    images = {"detection": preds, "ground_truth": target}
    counts = {name: num_objects(items) for name, items in images.items()}

    def join(state: str) -> Tensor | None:
        objects = state.rpartition("_")[0]  # "detection" or "ground_truth"
        key, join_parts = _COLUMNS[state]
        return join_parts(*parts_of(images[objects], key, counts[objects]))

    columns = dict(zip(_COLUMNS, share(join, list(_COLUMNS)), strict=True))
    devices = {column.device for column in columns.values() if column is not None}
    (device,) = devices or {device}
    states = pack_ids(preds, target, device)
    for name, column in columns.items():
        if column is not None:
            states[name] = column
        elif name != "detection_areas":  # they are left out if no image has them
            # All zeros in the dtype of the empty state.
            empty = STATES[name]
            num_rows = sum(counts[name.rpartition("_")[0]])
            states[name] = empty.new_zeros((num_rows, *empty.shape[1:]), device=device)
    for name, numbers in counts.items():
        # By way of NumPy, in an eighth of the time of `torch.tensor`.
        array = np.array(numbers, dtype=np.int64)
        states[f"{name}_counts"] = torch.from_numpy(array).to(device, non_blocking=True)
    is_valid = are_valid(states, box_format)
    states["ground_truth_crowds"] = states["ground_truth_crowds"].bool()
    return Batch(states, max(counts["detection"])), is_valid


def join_optional(parts: Sequence[Tensor | None], counts: list[int]) -> Tensor | None:
    """Join an optional column, with 0 for images without the key; None if no image with boxes has the key."""
    present = []
    has_gaps = False
    for part, count in zip(parts, counts, strict=True):
        if part is None:
            has_gaps = has_gaps or count > 0
        elif count:
            present.append(part)
        elif part.numel():
            raise ValueError
    if not present:  # values of images without boxes may be on any device
        return None
    if has_gaps:
        zeros = torch.zeros(max(counts), dtype=present[0].dtype, device=present[0].device)
        filled = [zeros[:count] if part is None else part for part, count in zip(parts, counts, strict=True)]
        return _join(filled, counts, batch_checks.FLAG_DTYPES)
    return _join(present, [count for count in counts if count], batch_checks.FLAG_DTYPES)


def _join(parts: list[Tensor], counts: list[int], dtypes: Sequence[torch.dtype], width: int = 1) -> Tensor | None:
    """Join the tensors of all images to one of [boxes] or, with a width, [boxes, width]; None without boxes.

    Images without boxes may have any empty shape, and any dtype: `torch.tensor([])` is a float.

    Raises:
        ValueError: an image has another number of values than boxes, or shapes or dtypes are wrong.
    """
    num_values = counts if width == 1 else [width * count for count in counts]
    if list(map(Tensor.numel, parts)) != num_values:
        raise ValueError
    if not all(counts):
        parts = [part for part, count in zip(parts, counts, strict=True) if count]
    if not parts:
        return None
    # Before joining, which could hide a wrong dtype.
    part_dtypes = {part.dtype for part in parts}
    if not part_dtypes.issubset(dtypes):
        raise ValueError
    if len({dtype.is_floating_point for dtype in part_dtypes}) > 1:  # float32 does not hold all integers
        parts = [part.double() for part in parts]
    joined = _cat(parts, sum(num_values))
    row_shape = (width,) if width > 1 else ()
    if joined.layout is not torch.strided or joined.shape[1:] != row_shape:
        raise ValueError
    return joined


def _cat(parts: list[Tensor], num_values: int) -> Tensor:
    """Join as `torch.cat` does, in pieces for one thread each: for many small tensors several threads are slower."""
    size = max(1, _VALUES_OF_ONE_THREAD * len(parts) // num_values)
    if len(parts) <= size or size == 1 or parts[0].device.type != "cpu" or torch.get_num_threads() == 1:
        return torch.cat(parts)
    return torch.cat([torch.cat(parts[first : first + size]) for first in range(0, len(parts), size)])


def _join_areas(parts: list[Tensor | None], counts: list[int]) -> Tensor | None:
    """Join areas of detections, as float64; None if no image with detections has them."""
    if any(part is not None for part in parts):
        for position, (part, count) in enumerate(zip(parts, counts, strict=True)):
            if part is None and count:
                name = f"preds[{position}]['detection_area']"
                raise ValueError(f"`{name}` must be given because `preds` gives it elsewhere; got nothing.")
    areas = join_optional(parts, counts)
    return None if areas is None else areas.double()


def _join_boxes(parts: list[Tensor], counts: list[int]) -> Tensor | None:
    """Join boxes, integers as float64."""
    boxes = _join(parts, counts, batch_checks.BOX_DTYPES, width=4)
    if boxes is None or boxes.is_floating_point():
        return boxes
    return boxes.double()


def _join_narrow_labels(parts: list[Tensor], counts: list[int]) -> Tensor | None:
    """Join labels, as int32 if there are many and all fit; for few labels the pass for their range is not worth it."""
    labels = _join(parts, counts, INTEGER_DTYPES)
    if labels is None or labels.dtype != torch.int64 or len(labels) < _MANY_LABELS or labels.device.type != "cpu":
        return labels
    least, most = labels.aminmax()
    limits = torch.iinfo(torch.int32)
    if limits.min <= int(least) and int(most) <= limits.max:
        return labels.int()
    return labels


_COLUMNS: dict[str, tuple[str, Callable[[list[Any], list[int]], Tensor | None]]] = {
    "detection_boxes": ("boxes", _join_boxes),
    "detection_labels": ("labels", _join_narrow_labels),
    "detection_scores": ("scores", partial(_join, dtypes=FLOATING_DTYPES)),
    "detection_areas": ("detection_area", _join_areas),
    "ground_truth_boxes": ("boxes", _join_boxes),
    "ground_truth_labels": ("labels", partial(_join, dtypes=INTEGER_DTYPES)),
    "ground_truth_crowds": ("iscrowd", join_optional),
    "ground_truth_areas": ("area", join_optional),
}
"""states with a value for each object, each with its key and a function that joins the values of all images, given the
numbers of objects, to one tensor [objects, ...]; None without objects or values"""


def pack_images(
    preds: Dicts,
    target: Dicts,
    types: Mapping[str, ShapeType],
    box_format: str,
    device: torch.device,
    *,
    has_boxes: bool,
    invalid: str,
    extras: Sequence[str] = (),
    keeps: bool = False,
) -> Batch:
    """Check a batch of images with boxes or other shapes, and pack it; see `pack`.

    Args:
        preds: the detections in the form of `update`.
        target: the ground truths in the form of `update`.
        types: the types of the shapes; none for boxes alone.
        box_format: the format of the boxes.
        device: the device for the states of a batch without boxes.
        has_boxes: whether boxes are evaluated, too.
        invalid: one of `_names.InvalidAction`.
        extras: see `pack`.
        keeps: whether shapes are kept for files.
    """
    device = compute_device(device)
    batch_checks.check_lengths(preds, target)
    for extra in extras:
        check_detections = EXTRAS[extra].check_detections
        if check_detections is not None:
            check_detections(preds)
    keys = keys_of_dicts(target)
    if not keys <= KNOWN_KEYS:
        keeps_boxes = any(kind.keeps_boxes for kind in types.values())
        check_optional_keys(keys, target, uses_difficult="difficult" in extras, uses_boxes=keeps_boxes)
    if not len(preds):
        return Batch({}, 0)

    if not types:
        batch = pack(preds, target, box_format, device, invalid=invalid, extras=extras)
        return batch._replace(given=GivenBatch(preds, target, keys, extras, None, batch.states))

    # The shapes, with boxes around them if boxes are not evaluated.
    preds, target, _ = batch_checks.with_tensors(preds, target)
    num_dropped = 0
    if invalid == "drop":
        preds, target, num_dropped = drop_invalid_objects(preds, target, types, box_format, has_boxes=has_boxes)
    shapes = ShapeBatch.read(preds, target, types, box_format, any_detected=invalid == "count")
    if not has_boxes:
        shapes = shapes.with_boxes()

    # Invalid objects were dropped before; any that is left is an error.
    remaining_action = "raise" if invalid == "drop" else invalid
    batch = pack(shapes.preds, shapes.target, box_format, device, invalid=remaining_action, extras=extras)
    given = GivenBatch(preds, target, keys, extras, shapes, batch.states)

    box_states = dict(batch.states)
    if "lists" in extras:  # crowds are plain objects that are ignored
        box_states["ground_truth_crowds"] = torch.zeros_like(box_states["ground_truth_crowds"])
    states = batch.states | shapes.states(box_states, keeps=keeps)
    # Boxes around invalid shapes are invalid, too: they count once.
    num_invalid = batch.num_invalid if has_boxes else shapes.num_invalid
    return batch._replace(states=states, num_dropped=num_dropped, num_invalid=num_invalid, given=given)
