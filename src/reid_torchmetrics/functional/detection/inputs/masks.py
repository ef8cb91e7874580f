"""Masks of one image: areas, bounding boxes and intersection over union, in whole pixels.

Masks on the CPU are bits, 64 pixels per word, and only words inside both boxes are compared. Run lengths are counted
themselves, or as bits if there are many. On other devices intersections are a product of matrices of 0 and 1. All forms
count exactly, and give the same result to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, final

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _arrays, _checks
from reid_torchmetrics.functional import segments

from .boxes import iou_of_areas
from .counted_masks import BitMasks, CountedMasks, RunMasks
from .run_lengths import RunLengths
from .shapes import ObjectColumns, ShapeType

_MOST_CELLS = 1 << 24  # pixels converted to float32 at a time; float32 counts exactly up to here

Masks = Bool[Tensor, "_masks _height _width"] | Integer[Tensor, "_masks _height _width"] | RunLengths | _checks.Array


@final
@dataclass(frozen=True)
class PixelMasks(CountedMasks):
    """Masks of pixels, on any device."""

    pixels: Bool[Tensor, "masks height width"]

    def __len__(self) -> int:
        """See `CountedMasks`."""
        return len(self.pixels)

    @property
    def size(self) -> tuple[int, int]:  # type: ignore[override]
        """Height and width of the image."""
        return self.pixels.shape[1], self.pixels.shape[2]

    @property
    def counts(self) -> Int[Tensor, " masks"]:
        """See `CountedMasks`."""
        return self.pixels.sum((1, 2))

    @property
    def corners(self) -> Int[Tensor, "masks 4"]:
        """See `CountedMasks`."""
        columns = _ends(self.pixels.any(1))
        rows = _ends(self.pixels.any(2))
        return torch.stack([columns, rows], 2).flatten(1)

    def intersections(self, others: PixelMasks) -> Float[Tensor, "masks others"]:
        """See `CountedMasks`."""
        pixels = self.pixels.flatten(1)
        other_pixels = others.pixels.flatten(1)
        common = torch.zeros((len(pixels), len(other_pixels)), dtype=torch.float64, device=pixels.device)
        num_pixels = max(1, _MOST_CELLS // max(len(pixels) + len(other_pixels), 1))
        for block in segments.ranges(pixels.shape[1], num_pixels):
            common += pixels[:, block].float() @ other_pixels[:, block].float().T
        return common


def counted_iou(masks: CountedMasks, others: CountedMasks, is_crowd: Tensor | None = None) -> Tensor:
    """Compute `mask_iou` for masks of one image in any form."""
    # Run lengths become bits or pixels, the form of the other masks, on their device; two run lengths stay.
    if not (isinstance(masks, RunMasks) and isinstance(others, RunMasks)):
        devices = [some.pixels.device for some in (masks, others) if isinstance(some, PixelMasks)]
        device = devices[0] if devices else None
        masks = _as_pixels(masks, device)
        others = _as_pixels(others, device)
    common = masks.intersections(others)
    if is_crowd is not None:
        is_crowd = is_crowd.to(common.device)  # run lengths are on the CPU, wherever the flags are
    return iou_of_areas(common, masks.areas[:, None], others.areas, is_crowd)


def mask_iou(
    masks1: Masks, masks2: Masks, *, is_crowd: Bool[Tensor, " masks2"] | _checks.Array | None = None
) -> Float[Tensor, "masks1 masks2"]:
    """Compute the intersection over union of every mask in `masks1` with every mask in `masks2`, float64.

    Pixels are counted, so the values are those of pycocotools to the last bit. The value is 0 if a mask is empty.

    Args:
        masks1: bool or integers [masks, height, width] with 0 outside, or `RunLengths`.
        masks2: masks of the same image in one of the same forms.
        is_crowd: whether each of `masks2` is a region with many objects: then the intersection is divided by the
            area of the mask in `masks1` alone.

    Raises:
        TypeError: masks of the wrong dtype.
        ValueError: masks that are not [N, H, W], of images of different sizes, or on different devices.
    """
    masks1, masks2, is_crowd = _arrays.as_tensors(masks1, masks2, is_crowd)
    counted = checked_masks("masks1", masks1)
    other_counted = checked_masks("masks2", masks2)
    if isinstance(masks1, Tensor) and isinstance(masks2, Tensor):
        _checks.same_device("masks1", masks1, "masks2", masks2)
    if counted.size != other_counted.size:
        raise ValueError(
            f"`masks2` must be of an image of {_size_text(counted.size)}; got {_size_text(other_counted.size)}."
        )
    if is_crowd is not None:
        _checks.mask("is_crowd", is_crowd, len(masks2), is_crowd.device)
    return counted_iou(counted, other_counted, is_crowd)


def checked_masks(argument: str, masks: Any) -> CountedMasks:
    """Check masks, and convert them to the fastest form.

    Raises:
        TypeError: neither a tensor nor run lengths, or a tensor of floats, such as probabilities.
        ValueError: a tensor that is not [N, H, W].
    """
    if isinstance(masks, RunLengths):
        return RunMasks.from_run_lengths(masks)
    if not isinstance(masks, Tensor):
        raise TypeError(f"`{argument}` must be a tensor or RunLengths; got {type(masks).__name__}.")
    # torchvision's Mask R-CNN gives probabilities [N, 1, H, W].
    has_channel = masks.ndim == 4 and masks.shape[1] == 1
    pixels = "masks[:, 0]" if has_channel else "masks"
    if masks.dtype not in (torch.bool, *_checks.INTEGER_DTYPES):
        remedy = ""
        if masks.is_floating_point():
            remedy = f" of shape {list(masks.shape)}: give `{pixels} > 0.5` of probabilities"
        raise TypeError(f"`{argument}` must have dtype bool or an integer dtype; got {masks.dtype}{remedy}.")
    if masks.ndim != 3:
        remedy = f": give `{pixels}`" if has_channel else ""
        raise ValueError(f"`{argument}` must have shape [N, H, W]; got {list(masks.shape)}{remedy}.")
    if masks.device.type == "cpu":
        return BitMasks.from_pixels(masks)
    return PixelMasks(masks != 0)


def _as_pixels(masks: CountedMasks, device: torch.device | None) -> CountedMasks:
    """Convert masks to bits or, with a device, to pixels on it."""
    if isinstance(masks, RunMasks):
        masks = masks.to_bits()
    if device is not None and isinstance(masks, BitMasks):
        masks = PixelMasks(masks.pixels.to(device))
    return masks


def _size_text(size: tuple[int, int]) -> str:
    """Return a size for a message, such as "480 x 640"."""
    return " x ".join(map(str, size))


def _ends(flags: Bool[Tensor, "masks places"]) -> Int[Tensor, "masks 2"]:
    """Return the first place of each row with a flag, and the place after the last; 0 and 0 without flags."""
    if not flags.numel():
        return flags.new_zeros((len(flags), 2), dtype=torch.int64)
    first = flags.byte().argmax(1)
    end = flags.shape[1] - flags.flip(1).byte().argmax(1)
    return torch.stack([first, end * flags.any(1)], 1)


@final
@dataclass(frozen=True)
class MaskType(ShapeType):
    """Masks: tensors [masks, height, width], or a list of COCO's dicts of run lengths."""

    key: ClassVar[str] = "masks"
    has_coordinates: ClassVar[bool] = False

    def read(self, name: str, value: Any, *, is_true: bool, any_values: bool = False) -> CountedMasks:
        """See `ShapeType`."""
        if isinstance(value, (list, tuple)):
            value = _run_lengths(name, value)
        elif isinstance(value, Tensor) and not value.numel():  # of any dtype and shape
            value = value.bool() if value.ndim == 3 else value.new_zeros((0, 0, 0), dtype=torch.bool)
        return checked_masks(name, value)

    def boxes(self, shapes: CountedMasks) -> Tensor:
        """See `ShapeType`."""
        return shapes.boxes()

    def areas(self, shapes: CountedMasks) -> Tensor:
        """See `ShapeType`."""
        return shapes.areas

    def overlaps(self, detections: Any, ground_truths: Any, columns: ObjectColumns) -> Tensor:
        """See `ShapeType`."""
        if columns.counts is None:
            return counted_iou(detections, ground_truths, columns.is_crowd)
        return iou_of_images(detections, ground_truths, columns.is_crowd, *columns.counts)

    def rows(self, shapes: Any) -> list[dict[str, Any]]:
        """See `ShapeType`: run lengths, as texts."""
        if not isinstance(shapes, RunMasks):
            shapes = RunMasks.from_run_lengths(RunLengths.from_masks(shapes.pixels))
        return [{"segmentation": mask} for mask in shapes.to_coco()]

    def check_pair(self, name: str, detections: CountedMasks, ground_truths: CountedMasks) -> None:
        """See `ShapeType`."""
        if detections.size != ground_truths.size:
            size = _size_text(detections.size)
            true_size = _size_text(ground_truths.size)
            raise ValueError(f"`{name}` must be of an image of {size}, as those of `preds`; got {true_size}.")


def iou_of_images(
    masks: RunMasks, others: RunMasks, is_crowd: Tensor, num_masks: Tensor, num_others: Tensor
) -> Float[Tensor, " pairs"]:
    """Compute `mask_iou` in each of several images, image by image, given the numbers of masks in each."""
    first = segments.starts(num_others).repeat_interleave(num_masks)
    mask, other = segments.runs(first, num_others.repeat_interleave(num_masks))
    common = masks.intersections_of(others, mask.numpy(), other.numpy())
    if common is not None:
        return iou_of_areas(common, masks.areas[mask], others.areas[other], is_crowd[other])
    tables = []
    edges = [pairwise(segments.edges(counts).tolist()) for counts in (num_masks, num_others)]
    for (first, end), (other_first, other_end) in zip(*edges, strict=True):
        some = slice(other_first, other_end)
        tables.append(counted_iou(masks[first:end], others[some], is_crowd[some]).flatten())
    return torch.cat(tables)


def _run_lengths(name: str, value: Sequence[Any]) -> RunLengths:
    """Return run lengths from a list of COCO's dicts."""
    for mask in value:
        is_dict = isinstance(mask, Mapping)
        if not is_dict or not {"size", "counts"} <= mask.keys():
            got = f"a dict of {_checks.listed(mask)}" if is_dict else type(mask).__name__
            rule = "must be a tensor or a list of dicts of 'size' and 'counts'"
            raise TypeError(f"`{name}` {rule}; got {got} in the list.")
    try:
        return RunLengths.from_coco(value)
    except ValueError as error:
        raise ValueError(f"`{name}` must hold masks of the image: {error}") from None
