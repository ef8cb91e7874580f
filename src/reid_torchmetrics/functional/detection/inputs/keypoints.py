"""Keypoints of one image: object keypoint similarity, in place of intersection over union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional import segments

from .boxes import box_areas, check_areas, check_boxes, check_finite
from .shapes import ObjectColumns, ShapeType

COCO_SIGMAS = (
    *(0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072),
    *(0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
)
"""sigmas of the 17 keypoints of a person: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles"""

_LEAST_AREA = 2.0**-52  # pycocotools adds it to every area
_MOST_DISTANCES = 1 << 22  # distances of keypoints that are in memory at a time


def object_keypoint_similarity(
    keypoints: Float[Tensor, "detections keypoints _"] | _checks.Array,
    true_keypoints: Float[Tensor, "ground_truths keypoints 3"] | _checks.Array,
    *,
    areas: Float[Tensor, " ground_truths"] | _checks.Numbers,
    boxes: Float[Tensor, "ground_truths 4"] | _checks.Array | None = None,
    sigmas: Sequence[float] = COCO_SIGMAS,
) -> Float[Tensor, "detections ground_truths"]:
    """Compute the object keypoint similarity of every detection and every ground truth, from 0 to 1, float64.

    It is the mean over the labeled keypoints of exp(-d^2 / (8 sigma^2 area)), where d is the distance. For a ground
    truth without labeled keypoints, d is the distance of a keypoint from its box, enlarged by its own size to each
    side. Source: Ronchi and Perona, "Benchmarking and error diagnosis in multi-instance pose estimation", 2017;
    roundings and the box are those of pycocotools.

    Args:
        keypoints: x and y of each keypoint; a third number is ignored.
        true_keypoints: x, y and visibility of each keypoint; visibility 0 for a keypoint that is not labeled.
        areas: areas of the ground truths, in pixels.
        boxes: x, y, width and height of the ground truths; None for boxes around the labeled keypoints.
        sigmas: disagreement of annotators about each keypoint, as a share of the square root of the area.

    Raises:
        TypeError: tensors of the wrong dtype, or sigmas that are no numbers.
        ValueError: shapes that do not fit, sigmas that are not positive, or values that are not finite.
    """
    check_sigmas("sigmas", sigmas)
    keypoints, true_keypoints, areas, boxes = _arrays.as_tensors(keypoints, true_keypoints, areas, boxes)
    kind = KeypointType(tuple(sigmas))
    detections = kind.read("keypoints", keypoints, is_true=False)
    ground_truths = kind.read("true_keypoints", true_keypoints, is_true=True)
    check_areas("areas", areas, len(ground_truths), ground_truths.device)
    if boxes is None:
        boxes = kind.boxes(ground_truths)
    check_boxes("boxes", boxes)
    return similarity(detections, ground_truths, areas.double(), boxes.double(), sigmas)


def similarity(
    keypoints: Tensor, true_keypoints: Tensor, areas: Tensor, boxes: Tensor, sigmas: Sequence[float]
) -> Tensor:
    """Compute `object_keypoint_similarity` for float64 tensors."""
    num_rows = max(1, _MOST_DISTANCES // max(1, true_keypoints.shape[0] * true_keypoints.shape[1]))
    empty = torch.empty((0, len(true_keypoints)), dtype=torch.float64, device=true_keypoints.device)
    blocks = segments.ranges(len(keypoints), num_rows)
    parts = [paired_similarity(keypoints[block, None], true_keypoints, areas, boxes, sigmas) for block in blocks]
    return torch.cat([empty, *parts])


def paired_similarity(
    keypoints: Tensor, true_keypoints: Tensor, areas: Tensor, boxes: Tensor, sigmas: Sequence[float]
) -> Tensor:
    """Compute the similarity of each pair of a detection and a ground truth, broadcast, for float64 tensors."""
    # Labeled keypoints count, or all keypoints of an object without labeled ones.
    is_labeled = true_keypoints[:, :, 2] > 0
    has_labeled = is_labeled.any(1)
    counts = torch.where(has_labeled, is_labeled.sum(1), len(sigmas))
    weights = (is_labeled | ~has_labeled[:, None]).double()
    variances = (2 * torch.tensor(sigmas, dtype=torch.float64, device=true_keypoints.device)) ** 2

    # The enlarged box, for objects without labeled keypoints.
    corner = boxes[:, :2]
    size = boxes[:, 2:]
    low = (corner - size)[:, None]
    high = (corner + 2 * size)[:, None]

    points = keypoints[..., :2]
    distance_from_box = (low - points).clamp(min=0) + (points - high).clamp(min=0)
    offsets = torch.where(has_labeled[:, None, None], points - true_keypoints[:, :, :2], distance_from_box)
    exponents = (offsets**2).sum(-1) / variances / (areas + _LEAST_AREA)[:, None] / 2
    return ((-exponents).exp() * weights).sum(-1) / counts


def keypoint_boxes(points: Tensor, is_labeled: Tensor | None = None) -> Tensor:
    """Return the boxes [x, y, width, height] around keypoints [objects, keypoints, 2]; 0 without labeled keypoints."""
    if not points.numel():
        return points.new_zeros((len(points), 4))
    if is_labeled is None:
        is_unlabeled = torch.zeros_like(points, dtype=torch.bool)
    else:
        is_unlabeled = ~is_labeled[:, :, None]
    has_no_keypoint = is_unlabeled.all(1)
    low = points.masked_fill(is_unlabeled, torch.inf).amin(1).masked_fill(has_no_keypoint, 0)
    high = points.masked_fill(is_unlabeled, -torch.inf).amax(1).masked_fill(has_no_keypoint, 0)
    return torch.cat([low, high - low], 1)


def check_sigmas(argument: str, sigmas: Any) -> None:
    """Raise unless sigmas are positive numbers, at least one."""
    if not isinstance(sigmas, (tuple, list)):
        raise TypeError(f"`{argument}` must be a tuple or list of floats; got {type(sigmas).__name__}.")
    _checks.nonempty(argument, sigmas)
    for sigma in sigmas:
        _checks.number(argument, sigma)
        if not 0 < sigma < float("inf"):
            raise ValueError(f"`{argument}` must be positive and finite; got {sigma}.")


@final
@dataclass(frozen=True)
class KeypointType(ShapeType):
    """Keypoints: tensors [objects, keypoints, 3], for detections also [objects, keypoints, 2]."""

    key: ClassVar[str] = "keypoints"
    keeps_boxes: ClassVar[bool] = True
    count_key: ClassVar[str] = "num_keypoints"
    sigmas: tuple[float, ...]

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> Tensor:
        """See `ShapeType`: [objects, keypoints, 3] for ground truths, and 2 numbers of each keypoint for detections."""
        num_keypoints = len(self.sigmas)
        widths = (3,) if is_true else (2, 3)
        if not isinstance(value, Tensor):
            raise TypeError(f"`{name}` must be a tensor; got {type(value).__name__}.")
        if not value.numel():  # of any shape
            device = _arrays.compute_device(value.device)
            return torch.empty((0, num_keypoints, widths[0]), dtype=torch.float64, device=device)
        if value.is_complex() or value.dtype == torch.bool:
            raise TypeError(f"`{name}` must have a real dtype; got {value.dtype}.")
        if value.ndim != 3 or value.shape[1] != num_keypoints or value.shape[2] not in widths:
            shape = f"[N, {num_keypoints}, {' or '.join(map(str, widths))}], a keypoint for each sigma"
            raise ValueError(f"`{name}` must have shape {shape}; got {list(value.shape)}.")
        if not any_values:
            check_finite(name, value)
        return value[:, :, : widths[0]].double()

    def are_valid(self, value: Tensor) -> Tensor:
        """See `ShapeType`: whether all numbers are finite."""
        if value.ndim <= 1:
            return super().are_valid(value)
        return value.flatten(1).isfinite().all(1)

    def boxes(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`: around the labeled keypoints of ground truths."""
        is_labeled = shapes[:, :, 2] > 0 if shapes.shape[2] > 2 else None
        return keypoint_boxes(shapes[:, :, :2], is_labeled)

    def areas(self, shapes: Tensor) -> Tensor:
        """See `ShapeType`: areas of the boxes."""
        return box_areas(self.boxes(shapes))

    def overlaps(self, detections: Tensor, ground_truths: Tensor, columns: ObjectColumns) -> Tensor:
        """See `ShapeType`: COCO treats crowds like any other object here."""
        return similarity(detections, ground_truths, columns.areas, columns.boxes.double(), self.sigmas)

    def rows(self, shapes: Tensor) -> list[dict[str, Any]]:
        """See `ShapeType`: x, y and visibility, 1 for detections; for ground truths also the number of keypoints."""
        if shapes.shape[2] == 2:
            with_visibility = functional.pad(shapes, (0, 1), value=1.0)
            return [{"keypoints": keypoints} for keypoints in with_visibility.flatten(1).tolist()]
        rows = []
        num_labeled = (shapes[:, :, 2] > 0).sum(1).tolist()
        for keypoints, number in zip(shapes.flatten(1).tolist(), num_labeled, strict=True):
            rows.append({"keypoints": keypoints, "num_keypoints": number})
        return rows

    def areas_in_ranges(self, ground_truths: Tensor, areas: Tensor, counts: Tensor | None) -> Tensor:
        """See `ShapeType`: an object without a labeled keypoint does not count, unless `num_keypoints` is given."""
        if counts is None:
            is_counted = (ground_truths[:, :, 2] > 0).any(1)
        else:
            is_counted = counts.view(-1) != 0
        return areas.masked_fill(~is_counted.to(areas.device), -1)  # no keypoints, as an empty list, are on the CPU
