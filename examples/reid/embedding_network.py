"""A small network for person re-identification, and what trains it: triplet loss and augmentation.

The head is the BNNeck of Luo et al., "Bag of Tricks and a Strong Baseline for Deep Person Re-identification" (2019).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class EmbeddingNetwork(nn.Module):
    """Four stages of convolutions, pooling over horizontal stripes (head to feet), BNNeck; for pictures of any size."""

    def __init__(
        self, num_identities: int, *, widths: tuple[int, ...] = (16, 48, 96, 192), num_features: int = 256
    ) -> None:
        """Make a network that classifies `num_identities` people in training and embeds anybody afterwards."""
        super().__init__()
        num_stripes = 4
        inputs = (3, *widths[:-1])
        stages = (_stage(before, after) for before, after in zip(inputs, widths, strict=True))
        # Channels last: a third faster on the CPU.
        self.stages = nn.Sequential(*stages).to(memory_format=torch.channels_last)
        self.pool = nn.AdaptiveMaxPool2d((num_stripes, 1))
        self.project = nn.Linear(num_stripes * widths[-1], num_features, bias=False)
        self.neck = nn.BatchNorm1d(num_features)
        self.neck.bias.requires_grad_(False)  # noqa: FBT003
        self.classify = nn.Linear(num_features, num_identities, bias=False)
        nn.init.normal_(self.classify.weight, std=0.001)

    def features(self, images: Tensor) -> Tensor:
        """Map uint8 pictures [N, 3, height, width] to the features before the neck, where the triplet loss acts."""
        pixels = (images / 127.5 - 1).contiguous(memory_format=torch.channels_last)
        return self.project(self.pool(self.stages(pixels)).flatten(1))

    def forward(self, images: Tensor) -> Tensor:
        """Embed pictures for retrieval: the features after the neck, to be compared by cosine similarity."""
        return self.neck(self.features(images))


def _stage(num_inputs: int, num_outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(num_inputs, num_outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(num_outputs),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def batch_hard_triplet_loss(features: Tensor, labels: Tensor, *, margin: float = 0.3) -> Tensor:
    """Hinge on the farthest positive and the nearest negative of every sample (Hermans et al., 2017)."""
    # The square root has no gradient at 0, where every sample meets itself.
    distances = (features[:, None] - features[None]).square().sum(-1).clamp(min=1e-12).sqrt()
    same = labels[:, None] == labels[None]
    farthest_positive = distances.masked_fill(~same, 0).amax(1)
    nearest_negative = distances.masked_fill(same, torch.inf).amin(1)
    return (farthest_positive - nearest_negative + margin).relu().mean()


def augment(images: Tensor, *, max_shift: int = 3) -> Tensor:
    """Mirror, shift, recolor and erase, every picture in its own way; uint8 in and out."""
    num_images, _, height, width = images.shape
    mirrored = torch.rand(num_images, 1, 1, 1, device=images.device) < 0.5
    images = torch.where(mirrored, images.flip(-1), images)
    images = _shift(images, max_shift)
    recolor = torch.empty(num_images, 3, 1, 1, device=images.device).uniform_(0.8, 1.2)
    brightness = torch.empty(num_images, 1, 1, 1, device=images.device).uniform_(0.7, 1.3)
    images = (images * recolor * brightness).clamp(0, 255).to(torch.uint8)
    erased = _random_boxes(num_images, height, width, device=images.device)
    return images.masked_fill(erased, 127)


def _shift(images: Tensor, max_shift: int) -> Tensor:
    num_images, _, height, width = images.shape
    device = images.device
    shifts = torch.randint(-max_shift, max_shift + 1, (2, num_images, 1), device=device)
    rows = (torch.arange(height, device=device) + shifts[0]).clamp(0, height - 1)
    columns = (torch.arange(width, device=device) + shifts[1]).clamp(0, width - 1)
    numbers = torch.arange(num_images, device=device)[:, None, None]
    return images.permute(0, 2, 3, 1)[numbers, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _random_boxes(num_images: int, height: int, width: int, *, device: torch.device) -> Tensor:
    """Mark a box of up to half the height and width in half of the pictures; bool [N, 1, height, width]."""
    top, left = torch.rand(2, num_images, 1, 1, 1, device=device)
    tall, wide = torch.empty(2, num_images, 1, 1, 1, device=device).uniform_(0.1, 0.5)
    y = torch.linspace(0, 1, height, device=device)[:, None]
    x = torch.linspace(0, 1, width, device=device)
    chosen = torch.rand(num_images, 1, 1, 1, device=device) < 0.5
    return chosen & (y >= top) & (y <= top + tall) & (x >= left) & (x <= left + wide)
