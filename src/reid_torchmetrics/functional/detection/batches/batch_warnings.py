"""Warnings of a batch that can hardly be meant, though it is evaluated: keys without effect, rounded coordinates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reid_torchmetrics._arrays import as_tensors
from reid_torchmetrics.functional.world import Said

from .key_names import LISTS

WHOLE_PIXELS = {torch.bfloat16: 256, torch.float16: 2048}
"""the dtypes that do not hold the coordinates of usual images to a pixel, and up to where they do"""
_LEAST_SHARE = 0.1  # of the coordinates that are larger


def warn_of_unused_keys(
    said: Said, keys: Collection[Any], target: Sequence[Mapping[str, Any]], extras: Collection[str]
) -> None:
    """Warn of keys with values that would change the numbers of another evaluation, and do not change these.

    Args:
        said: what was warned of before.
        keys: of all dicts in `target`.
        target: the dicts of the ground truths.
        extras: what the evaluation uses beside boxes, see `pack`.
    """
    if "difficult" in keys and "difficult" not in extras and _is_new(said, "difficult"):
        num_difficult = sum(_num_flags(item.get("difficult")) for item in target)
        if num_difficult:
            said.tell(
                "difficult",
                f"`difficult` marks {num_difficult} ground truths of a batch, but only Pascal VOC's evaluation uses it"
                ' (`VocMAP`, evaluator "voc"): here they count like all others. Objects that need not be found are'
                " `iscrowd` for COCO.",
            )
    for key in LISTS:
        if key in keys and "lists" not in extras and _is_new(said, "unused lists"):
            has_labels = any(_has_entries(item.get(key)) for item in target)
            if has_labels:
                said.tell(
                    "unused lists",
                    f'`{key}` is given, but only LVIS\' evaluation uses it (`LvisMAP`, evaluator "lvis"): here all'
                    " classes count as annotated in all images.",
                )


def warn_of_rounded_shapes(
    said: Said, preds: Sequence[Mapping[str, Any]], target: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> None:
    """Warn of detected shapes in a dtype that does not hold their coordinates; see `warn_of_rounded_coordinates`."""
    for key in keys:
        detections = [item[key] for item in preds if _is_filled(item[key])]
        ground_truths = [item[key] for item in target if _is_filled(item[key])]
        if not detections or not ground_truths or detections[0].dtype not in WHOLE_PIXELS:
            continue
        low_dtype = detections[0].dtype
        shapes = [shape for shape in detections if shape.dtype == low_dtype]
        if key == "rotated_boxes":  # the angle is no coordinate
            coordinates = [_without_angles(shape).reshape(-1) for shape in shapes]
        else:
            coordinates = [shape[..., :2].reshape(-1) for shape in shapes]
        warn_of_rounded_coordinates(said, key, torch.cat(coordinates), ground_truths[0])


def warn_of_rounded_coordinates(said: Said, key: str, detected: Tensor, true: Tensor) -> None:
    """Warn of detected coordinates in a dtype that does not hold them to a pixel, if the ground truths have more bits.

    In all other dtypes nothing is computed, and no device is waited for.

    Args:
        said: what was warned of before.
        key: of the shapes.
        detected: coordinates of detections.
        true: coordinates of ground truths, of any number.
    """
    limit = WHOLE_PIXELS.get(detected.dtype)
    if limit is None or not detected.numel() or not true.numel() or not _is_new(said, "rounded coordinates"):
        return
    if true.is_floating_point() and torch.finfo(true.dtype).bits <= torch.finfo(detected.dtype).bits:
        return
    share = float((detected.detach().abs() > limit).double().mean())
    if share > _LEAST_SHARE:
        dtype = str(detected.dtype).removeprefix("torch.")
        true_dtype = str(true.dtype).removeprefix("torch.")
        said.tell(
            "rounded coordinates",
            f"Detected `{key}` are {dtype}, ground truths are {true_dtype}: {share:.0%} of the detected coordinates"
            f" are above {limit:,}, beyond which {dtype} holds no single pixels, so even a perfect detector loses"
            f" overlap. Compute `{key}` in float32, for instance by `.float()` before the boxes are decoded.",
        )


def _is_new(said: Said, subject: str) -> bool:
    return said.subjects is None or subject not in said.subjects


def _num_flags(value: Any) -> int:
    """Number of values that are not 0; 0 for what is no array of numbers."""
    (tensor,) = as_tensors(value)
    if not isinstance(tensor, Tensor) or tensor.is_meta or tensor.is_nested or tensor.layout != torch.strided:
        return 0
    return int(tensor.count_nonzero())


def _has_entries(value: Any) -> bool:
    if isinstance(value, (Tensor, np.ndarray)):
        return int(np.prod(value.shape)) > 0
    return isinstance(value, (list, tuple, set)) and len(value) > 0


def _is_filled(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() > 0


def _without_angles(boxes: Tensor) -> Tensor:
    """Coordinates of rotated boxes: corners, or center, width and height without the angle."""
    return boxes[:, :4] if boxes.ndim == 2 and boxes.shape[1] == 5 else boxes
