"""Scenes of discs, rectangles and triangles, drawn from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Target = dict[str, "Tensor | int"]  # boxes as two corners, labels, image_id
Scene = tuple[Tensor, Target]

CLASSES = {0: "disc", 1: "rectangle", 2: "triangle"}
SIDE = 96  # pixels of a scene


def draw_scene(number: int, *, seed: int) -> Scene:
    """Draw one to five shapes, small ones over large ones, and give their boxes; a picture is uint8 [3, side, side]."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + number)

    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator)

    num_shapes = int(torch.randint(1, 6, (), generator=generator))
    halves = 6 * 4 ** random(num_shapes, 1) * (0.8 + 0.4 * random(num_shapes, 2))
    halves = halves[halves.prod(1).argsort(descending=True)]
    centers = halves + random(num_shapes, 2) * (SIDE - 2 * halves)
    labels = torch.randint(len(CLASSES), (num_shapes,), generator=generator)
    pixels = torch.arange(SIDE) + 0.5
    image = random(3, 1, 1) + 0.3 * (random(3, 1, 1) - 0.5) * pixels / SIDE
    for center, half, label in zip(centers, halves, labels.tolist(), strict=True):
        x, y = (pixels - center[0]) / half[0], (pixels[:, None] - center[1]) / half[1]
        inside = {
            "disc": x**2 + y**2 <= 1,
            "rectangle": (x.abs() <= 1) & (y.abs() <= 1),
            "triangle": (2 * x.abs() <= y + 1) & (y <= 1),
        }[CLASSES[label]]
        image = torch.where(inside, random(3, 1, 1), image)
    image = image + 0.08 * torch.randn(3, SIDE, SIDE, generator=generator)
    boxes = torch.cat([centers - halves, centers + halves], dim=1)
    return (255 * image.clamp(0, 1)).byte(), {"boxes": boxes, "labels": labels, "image_id": number}


def collate(scenes: Sequence[Scene]) -> tuple[Tensor, list[Target]]:
    """Stack the pictures and list the targets, which differ in length."""
    images, targets = zip(*scenes, strict=True)
    return torch.stack(images), list(targets)
