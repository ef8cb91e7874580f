"""Finds shapes of one color: regions of an image that no edge divides."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

FILLED = torch.tensor([3.1416 / 4, 1.0, 0.5])
"""how much of its box a disc, a rectangle and a triangle fill"""
LEAST = 36
"""pixels of a region"""


def find_shapes(images: Tensor, contrasts: Sequence[float]) -> list[dict[str, Tensor]]:
    """Find regions whose neighboring pixels differ by less than a contrast.

    Of uint8 [images, 3, height, width] it gives a dict of boxes, scores and labels for
    each image, as detectors do. The label is of the shape that fills its box most like
    the region, the score how well. A shape is found anew at every contrast.
    """
    smooth = without_noise(images)
    found = [inner_regions(find_regions(smooth, contrast)) for contrast in contrasts]
    of_image, boxes, sizes = (torch.cat(values) for values in zip(*found, strict=True))
    filled = sizes / (boxes[:, 2:] - boxes[:, :2]).prod(1)
    off, labels = (filled[:, None] - FILLED).abs().min(1)
    shapes = {"boxes": boxes, "scores": (1 - 4 * off).clamp(min=0.01), "labels": labels}
    return [
        {name: values[of_image == image] for name, values in shapes.items()}
        for image in range(len(images))
    ]


def without_noise(images: Tensor) -> Tensor:
    """The median of 5 x 5 pixels, which keeps edges in place; floats in [0, 1]."""
    padded = functional.pad(images.float() / 255, (2, 2, 2, 2), mode="replicate")
    windows = padded.unfold(2, 5, 1).unfold(3, 5, 1)
    return windows.flatten(4).median(dim=4).values


def find_regions(images: Tensor, contrast: float) -> Tensor:
    """Number the regions by their last pixels, row by row; [images, height, width]."""
    height, width = images.shape[2:]
    joined = {
        dim - 1: (images.diff(dim=dim).abs().amax(1) < contrast).long()
        for dim in (3, 2)
    }
    regions = torch.arange(height * width).view(1, height, width)
    regions = regions.repeat(len(images), 1, 1)
    before = None
    while before is None or not torch.equal(before, regions):
        before = regions
        for dim, is_joined in joined.items():
            regions = _raised(regions, dim, is_joined)
        # From a pixel to the one that it names, and to what that one names.
        flat = regions.flatten(1)
        regions = flat.gather(1, flat).view_as(regions)
    return regions


def _raised(regions: Tensor, dim: int, is_joined: Tensor) -> Tensor:
    """The largest number of a pixel and its neighbors in the same region."""
    size = regions.shape[dim] - 1
    first, second = regions.narrow(dim, 0, size), regions.narrow(dim, 1, size)
    skipped = (0, 0) * (2 - dim)
    from_second = functional.pad(second * is_joined, (*skipped, 0, 1))
    from_first = functional.pad(first * is_joined, (*skipped, 1, 0))
    return torch.maximum(regions, torch.maximum(from_first, from_second))


def inner_regions(regions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Image, box and size of each region that is large and not at the border."""
    num_images, height, width = regions.shape
    image = torch.arange(num_images)[:, None, None]
    numbers = regions + height * width * image
    found, place, sizes = numbers.unique(return_inverse=True, return_counts=True)
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    boxes = torch.empty(len(found), 4, dtype=torch.long)
    sides = ((x, "amin"), (y, "amin"), (x + 1, "amax"), (y + 1, "amax"))
    for side, (values, reduce) in enumerate(sides):
        values = values.expand_as(place).flatten()  # noqa: PLW2901
        boxes[:, side].scatter_reduce_(
            0, place.flatten(), values, reduce, include_self=False
        )
    is_inside = (boxes[:, 0] > 0) & (boxes[:, 2] < width)
    is_inside &= (boxes[:, 1] > 0) & (boxes[:, 3] < height) & (sizes >= LEAST)
    image = found[is_inside] // (height * width)
    return image, boxes[is_inside].float(), sizes[is_inside]
