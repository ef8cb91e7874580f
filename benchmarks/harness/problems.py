"""Problems of the benchmarks' size: real labels of Market-1501, made embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

LABELS = Path(__file__).parents[2] / "tests" / "golden" / "market1501_labels.npz"

NOISE = {"good": {512: 1.7, 2048: 2.5}, "useless": {512: 100.0, 2048: 100.0}}
"""of `market1501`, by model and dimension"""

Problem = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""embeddings, identities and cameras, each of query and gallery, as `rank_positives` takes them"""


def market1501(dimension: int, noise: float) -> Problem:
    """3,368 queries and the 15,913 gallery items without junk; the more noise, the worse the model."""
    labels = np.load(LABELS)
    query_identities, gallery_identities, query_cameras, gallery_cameras = (
        torch.from_numpy(labels[f"{side}_{kind}"].astype(np.int64))
        for kind in ("identities", "cameras")
        for side in ("query", "gallery")
    )
    kept = gallery_identities != -1
    gallery_identities, gallery_cameras = gallery_identities[kept], gallery_cameras[kept]
    generator = torch.Generator().manual_seed(0)
    of_identity = torch.randn(1502, dimension, generator=generator)
    of_camera = 0.5 * torch.randn(7, dimension, generator=generator)
    query, gallery = (
        of_identity[identities] + of_camera[cameras] + noise * torch.randn(len(cameras), dimension, generator=generator)
        for identities, cameras in ((query_identities, query_cameras), (gallery_identities, gallery_cameras))
    )
    return query, gallery, query_identities, gallery_identities, query_cameras, gallery_cameras


def msmt17_size(dimension: int) -> Problem:
    """11,659 queries and 82,161 gallery items of 3,060 identities and 15 cameras, as in MSMT17; made labels."""
    generator = torch.Generator().manual_seed(0)
    sides = []
    for size in (11_659, 82_161):
        identities = torch.randint(0, 3060, (size,), generator=generator)
        cameras = torch.randint(0, 15, (size,), generator=generator)
        sides.append((torch.randn(size, dimension, generator=generator), identities, cameras))
    (query, *query_labels), (gallery, *gallery_labels) = sides
    return query, gallery, query_labels[0], gallery_labels[0], query_labels[1], gallery_labels[1]
