"""Packs a batch of `update`: the tensors of all images, one tensor for each state of a metric.

All images are checked at once, with one synchronization of the device. Only a batch that fails is checked image by
image, so that the error names the image.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._checks import FLOATING_DTYPES, INTEGER_DTYPES
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection.batches import checks as batch_checks
from reid_torchmetrics.functional.detection.inputs import ShapeType

from .image_ids import pack_ids
from .images import STATES
from .key_names import ALWAYS_USED_KEYS, KNOWN_KEYS, check_optional_keys, keys_of_dicts
from .shape_batches import ShapeBatch
from .unsound import Dicts, are_sound, are_sound_boxes, without_unsound, without_unsound_objects

_VALUES_OF_ONE_THREAD = 1 << 14  # torch joins up to twice as many with one thread
_MANY_LABELS = 1 << 17  # of one batch; from here on half of their memory is worth a look at them
_MANY_IMAGES = 1 << 8  # enough for several threads to join the columns

Share = Callable[..., Iterable[Any]]
"""`map`, or `workers.share` by several threads"""


class Batch(NamedTuple):
    """A batch, packed."""

    states: dict[str, Tensor]
    """rows for each of `STATES`; ids or names only if the images have them, nothing without images"""
    most_detections: int
    """of any image"""
    num_dropped: int = 0
    """invalid boxes dropped"""
    num_invalid: int = 0
    """invalid detected boxes that count, and overlap nothing"""


class NotedBatch(NamedTuple):
    """A batch with what is not stored of it, for notes that are looked at after the numbers are computed."""

    preds: Dicts
    target: Dicts
    keys: Collection[Any]
    """of all dicts in `target`"""
    extras: Sequence[str]
    """what the evaluation uses beside boxes, see `pack`"""
    shapes: ShapeBatch | None
    """masks, keypoints or rotated boxes, with boxes around them"""
    states: Mapping[str, Tensor]


def text_of_many(limit: int) -> str:
    """The warning for an image with more detections than the largest limit."""
    return (
        f"Encountered more than {limit} detections in a single image; of one class in an image only the {limit} with"
        " the highest scores count. `max_detection_thresholds` sets how many do, and `warn_on_many_detections = False`"
        " on the metric silences this."
    )


@torch.no_grad()
def pack(
    preds: Dicts, target: Dicts, box_format: str, device: torch.device, *, invalid: str, extras: Sequence[str] = ()
) -> Batch:
    """Check a batch and pack it.

    Args:
        preds: of each image `boxes`, `scores` and `labels`.
        target: of each image `boxes` and `labels`, and maybe `iscrowd`, `area` and `image_id`.
        box_format: of the boxes; they keep it.
        device: of the states of a batch without boxes.
        invalid: one of `_names.InvalidAction`.
        extras: what `target` may have besides, keys of `EXTRAS`.

    Raises:
        TypeError: a value of the wrong type or dtype.
        ValueError: keys, shapes, devices or values that do not fit.
    """
    packed, problem, is_sound = Batch({}, 0), None, False

    # All images at once: whatever fails here, the checks of each image say it better.
    def work(share: Share) -> tuple[Batch, bool]:
        batch = _pack(preds, target, device, share)
        is_sound = are_sound(batch.states, box_format)
        batch.states["ground_truth_crowds"] = batch.states["ground_truth_crowds"].bool()
        return batch, is_sound

    try:
        if len(preds) >= _MANY_IMAGES and preds[0]["labels"].device.type == "cpu":
            packed, is_sound = workers.run(partial(work, workers.share), torch.device("cpu"))
        else:
            packed, is_sound = work(map)
    except Exception as error:  # noqa: BLE001 - see above
        problem = error
    if problem is None:
        joined = packed.states["ground_truth_labels"].device
        for extra in extras:
            packed.states.update(_PACKED[extra](target, joined))
        if not is_sound:
            batch_checks.check_crowds(target)  # an invalid crowd is an error always
            packed, is_sound = _with_invalid(packed, box_format, invalid)
    else:  # arrays and lists fail there: they are looked for in no batch of tensors
        preds, target, is_new = batch_checks.with_tensors(preds, target)
        if is_new:
            del problem
            return pack(preds, target, box_format, device, invalid=invalid, extras=extras)
    # Image by image, or the error itself if these checks pass.
    try:
        if not is_sound:
            batch_checks.check_each_image(preds, target, box_format, any_detected=invalid == "count")
        if problem is not None:
            raise problem
    finally:
        del problem  # its traceback would keep this frame, and the batch, alive
    return packed


def _with_invalid(packed: Batch, box_format: str, invalid: str) -> tuple[Batch, bool]:
    """Apply `_names.InvalidAction` to a batch with invalid values; the batch, and whether it is sound then."""
    if invalid == "drop":
        states, num_dropped = without_unsound(packed.states, box_format)
        return packed._replace(states=states, num_dropped=num_dropped), True
    if invalid == "count":
        # Detected boxes may hold anything: with zeros in their place all else is checked.
        boxes = packed.states["detection_boxes"]
        num_invalid = int((~are_sound_boxes(boxes, box_format)).sum())
        others = packed.states | {"detection_boxes": torch.zeros_like(boxes)}
        return packed._replace(num_invalid=num_invalid), are_sound(others, box_format)
    return packed, False


def _pack_difficult(target: Dicts, device: torch.device) -> dict[str, Tensor]:
    """Whether each ground truth of a batch is difficult; all else about the batch was checked.

    Raises:
        TypeError: a flag of the wrong type or dtype.
        ValueError: flags of another shape or device than the ground truths.
    """
    counts = [item["labels"].numel() for item in target]
    flags = _optional(batch_checks.checked_flags("difficult", target, device), counts)
    is_difficult = torch.zeros(sum(counts), dtype=torch.bool, device=device) if flags is None else flags != 0
    return {"ground_truth_difficult": is_difficult}


def _pack_lists(target: Dicts, device: torch.device) -> dict[str, Tensor]:
    """The lists of classes of each image, see `Images`; errors as of `checked_lists`."""
    lists = batch_checks.checked_lists(target)
    counts = torch.tensor([*map(len, lists)], dtype=torch.int64, device="cpu").view(-1, 2)
    labels = torch.tensor([*chain.from_iterable(lists)], dtype=torch.int64, device="cpu")
    return {"listed_labels": labels.to(device), "listed_counts": counts.to(device)}


_PACKED: dict[str, Callable[[Dicts, torch.device], dict[str, Tensor]]] = {
    "difficult": _pack_difficult,
    "lists": _pack_lists,
}
"""the states of each of `EXTRAS` of a batch"""


def _pack(preds: Dicts, target: Dicts, device: torch.device, share: Share) -> Batch:
    sides = {"detection": preds, "ground_truth": target}
    counts = {side: [item["labels"].numel() for item in items] for side, items in sides.items()}

    def join(name: str) -> Tensor | None:
        side, (key, join) = name.rpartition("_")[0], _COLUMNS[name]
        return join([item.get(key) for item in sides[side]], counts[side])

    columns = dict(zip(_COLUMNS, share(join, [*_COLUMNS]), strict=True))
    (device,) = {column.device for column in columns.values() if column is not None} or {device}
    batch = pack_ids(preds, target, device)
    # A missing column is all zeros in the dtype of the empty state.
    for name, column in columns.items():
        if column is None:
            missing, rows = STATES[name], sum(counts[name.rpartition("_")[0]])
            batch[name] = missing.new_zeros((rows, *missing.shape[1:]), device=device)
        else:
            batch[name] = column
    for side, of_side in counts.items():
        # In an eighth of the time of `torch.tensor`.
        batch[f"{side}_counts"] = torch.from_numpy(np.array(of_side, dtype=np.int64)).to(device, non_blocking=True)
    return Batch(batch, max(counts["detection"]))


def _optional(parts: Sequence[Tensor | None], counts: list[int]) -> Tensor | None:
    """Values of all boxes, 0 in images without the key; None if no image with boxes has it."""
    pairs = [*zip(parts, counts, strict=True)]
    if any(part is not None and part.numel() for part, count in pairs if not count):
        raise ValueError
    given = [part for part, count in pairs if part is not None and count]
    if not given:  # values of images without boxes may be on any device
        return None
    if len(given) < len(parts):
        zeros = torch.zeros(max(counts), dtype=given[0].dtype, device=given[0].device)
        given = [zeros[:count] if part is None else part for part, count in pairs]
    return _join(given, counts, batch_checks.FLAG_DTYPES)


def _join(parts: list[Tensor], counts: list[int], dtypes: Sequence[torch.dtype], width: int = 1) -> Tensor | None:
    """Join the tensors of all images to one of [boxes] or, with a width, [boxes, width]; None without boxes.

    Images without boxes may have any empty shape, and any dtype: `torch.tensor([])` is a float.

    Raises:
        ValueError: an image has another number of values than boxes, or shapes or dtypes are wrong.
    """
    if [*map(Tensor.numel, parts)] != (counts if width == 1 else [width * count for count in counts]):
        raise ValueError
    kept = parts if all(counts) else [part for part, count in zip(parts, counts, strict=True) if count]
    if not kept:
        return None
    kinds = {part.dtype for part in kept}
    if not kinds.issubset(dtypes):  # before joining, which could hide a wrong one
        raise ValueError
    if len({kind.is_floating_point for kind in kinds}) > 1:  # float32 does not hold all integers
        kept = [part.double() for part in kept]
    joined = _cat(kept, width * sum(counts))
    if joined.layout is not torch.strided or joined.shape[1:] != ((width,) if width > 1 else ()):
        raise ValueError
    return joined


def _cat(parts: list[Tensor], num_values: int) -> Tensor:
    """`torch.cat` in pieces of one thread each: for many small tensors several threads are far slower."""
    size = max(1, _VALUES_OF_ONE_THREAD * len(parts) // num_values)
    if len(parts) <= size or size == 1 or parts[0].device.type != "cpu" or torch.get_num_threads() == 1:
        return torch.cat(parts)
    return torch.cat([torch.cat(parts[first : first + size]) for first in range(0, len(parts), size)])


def _boxes(parts: list[Tensor], counts: list[int]) -> Tensor | None:
    boxes = _join(parts, counts, batch_checks.BOX_DTYPES, 4)
    return boxes if boxes is None or boxes.is_floating_point() else boxes.double()


def _narrow_labels(parts: list[Tensor], counts: list[int]) -> Tensor | None:
    """Many labels in half the memory if they fit; few are not worth a look at their ends."""
    labels = _join(parts, counts, INTEGER_DTYPES)
    if labels is None or labels.dtype != torch.int64 or len(labels) < _MANY_LABELS or labels.device.type != "cpu":
        return labels
    least, most = (int(end) for end in labels.aminmax())
    ends = torch.iinfo(torch.int32)
    return labels.int() if ends.min <= least and most <= ends.max else labels


_COLUMNS: dict[str, tuple[str, Callable[[list[Any], list[int]], Tensor | None]]] = {
    "detection_boxes": ("boxes", _boxes),
    "detection_labels": ("labels", _narrow_labels),
    "detection_scores": ("scores", partial(_join, dtypes=FLOATING_DTYPES)),
    "ground_truth_boxes": ("boxes", _boxes),
    "ground_truth_labels": ("labels", partial(_join, dtypes=INTEGER_DTYPES)),
    "ground_truth_crowds": ("iscrowd", _optional),
    "ground_truth_areas": ("area", _optional),
}
"""states with a value for each object: the key, and what joins its values in all images, by the numbers of objects, to
one tensor [objects, ...]; None without objects or values"""


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
    note: Callable[[NotedBatch], None],
    keeps: bool = False,
) -> Batch:
    """Check a batch of images with boxes or other shapes, and pack it; see `pack`.

    Args:
        preds: as `update` takes them.
        target: as `update` takes them.
        types: of the shapes; none for boxes alone.
        box_format: of the boxes.
        device: of the states of a batch without boxes.
        has_boxes: whether boxes are evaluated, too.
        invalid: one of `_names.InvalidAction`.
        extras: see `pack`.
        note: called with a batch that has more than is stored: other shapes, or keys that few evaluations use.
        keeps: whether shapes are kept for files.
    """
    batch_checks.check_lengths(preds, target)
    if "lists" in extras:
        batch_checks.check_no_lists(preds)
    keys = keys_of_dicts(target)
    if not keys <= KNOWN_KEYS:
        keeps_boxes = any(kind.keeps_boxes for kind in types.values())
        check_optional_keys(keys, target, uses_difficult="difficult" in extras, uses_boxes=keeps_boxes)
    if not len(preds):
        return Batch({}, 0)
    if not types:
        batch = pack(preds, target, box_format, device, invalid=invalid, extras=extras)
        if not keys <= ALWAYS_USED_KEYS:
            note(NotedBatch(preds, target, keys, extras, None, batch.states))
        return batch
    preds, target, _ = batch_checks.with_tensors(preds, target)
    num_dropped = 0
    if invalid == "drop":
        preds, target, num_dropped = without_unsound_objects(preds, target, types, box_format, has_boxes=has_boxes)
    # The shapes, with boxes around them if the input has no boxes to evaluate.
    shapes = ShapeBatch.read(preds, target, types, box_format, any_detected=invalid == "count")
    if not has_boxes:
        shapes = shapes.with_boxes()
    left = "raise" if invalid == "drop" else invalid
    batch = pack(shapes.preds, shapes.target, box_format, device, invalid=left, extras=extras)
    note(NotedBatch(preds, target, keys, extras, shapes, batch.states))
    # Boxes around invalid shapes are invalid, too: they count once.
    num_invalid = batch.num_invalid if has_boxes else shapes.num_invalid
    given = dict(batch.states)
    if "lists" in extras:  # crowds are plain objects that are ignored
        given["ground_truth_crowds"] = torch.zeros_like(given["ground_truth_crowds"])
    states = batch.states | shapes.states(given, keeps=keeps)
    return batch._replace(states=states, num_dropped=num_dropped, num_invalid=num_invalid)
