"""Finds shapes of one color: regions of an image that no edge divides, and what they look like."""

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
    """Find regions whose neighboring pixels differ by less than a contrast, and name them by how they fill their box.

    Of uint8 [images, 3, height, width] it gives a dict of boxes, scores and labels for each image, as detectors do. The
    score is how well the region fills its box for the best of the shapes. A shape is found anew at every contrast.
    """
    smooth = without_noise(images)
    found = [inner_regions(find_regions(smooth, contrast)) for contrast in contrasts]
    of_image, boxes, sizes = (torch.cat(values) for values in zip(*found, strict=True))
    filled = sizes / (boxes[:, 2:] - boxes[:, :2]).prod(1)
    off, labels = (filled[:, None] - FILLED).abs().min(1)
    scores = (1 - 4 * off).clamp(min=0.01)
    own = [of_image == image for image in range(len(images))]
    return [{"boxes": boxes[each], "scores": scores[each], "labels": labels[each]} for each in own]


def without_noise(images: Tensor) -> Tensor:
    """The median of 5 x 5 pixels, which keeps edges where they are; floats in [0, 1]."""
    padded = functional.pad(images.float() / 255, (2, 2, 2, 2), mode="replicate")
    return padded.unfold(2, 5, 1).unfold(3, 5, 1).flatten(4).median(dim=4).values


def find_regions(images: Tensor, contrast: float) -> Tensor:
    """Number the regions, [images, height, width], by their last pixels: row by row from 0."""
    height, width = images.shape[2:]
    is_joined = [(images.diff(dim=dim).abs().amax(1) < contrast).long() for dim in (3, 2)]
    regions = torch.arange(height * width).view(1, height, width).repeat(len(images), 1, 1)
    while True:
        before = regions.flatten(1)
        # To the largest number of a neighbor, then to that which the pixel of this number has.
        for dim, joined in zip((2, 1), is_joined, strict=True):
            size = regions.shape[dim] - 1
            first, second = regions.narrow(dim, 0, size), regions.narrow(dim, 1, size)
            pad = (0, 0) * (2 - dim)
            raised = functional.pad(second * joined, (*pad, 0, 1)), functional.pad(first * joined, (*pad, 1, 0))
            regions = torch.maximum(regions, torch.maximum(*raised))
        regions = regions.flatten(1).gather(1, regions.flatten(1)).view_as(regions)
        if torch.equal(before, regions.flatten(1)):
            return regions


def inner_regions(regions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The image, the box and the number of pixels of each region that is large enough and not at the border."""
    num_images, height, width = regions.shape
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    numbers = regions + height * width * torch.arange(num_images)[:, None, None]
    found, place, sizes = numbers.unique(return_inverse=True, return_counts=True)
    edges = [
        torch.zeros(len(found), dtype=torch.long).scatter_reduce(
            0, place.flatten(), values.repeat(num_images, 1, 1).flatten(), reduce, include_self=False
        )
        for values, reduce in ((x, "amin"), (y, "amin"), (x + 1, "amax"), (y + 1, "amax"))
    ]
    boxes = torch.stack(edges, dim=1)
    is_inner = (boxes[:, :2] > 0).all(1) & (boxes[:, 2] < width) & (boxes[:, 3] < height) & (sizes >= LEAST)
    return found[is_inner] // (height * width), boxes[is_inner].float(), sizes[is_inner]
