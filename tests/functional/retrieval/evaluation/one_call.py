"""Samples that the tests of one call share, and what the slow reference says of them."""

import math

import torch
from torch import Tensor

from tests.reference.retrieval import evaluate as reference
from tests.reference.retrieval import similarity


def samples(total: int, *, seed: int, num_cameras: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings, identities and cameras of clustered samples; identity -1 is among them."""
    generator = torch.Generator().manual_seed(seed)
    identities = torch.arange(total) % 9 - 1
    centers = torch.randn(10, 6, generator=torch.Generator().manual_seed(7))
    noise = torch.randn(total, 6, generator=generator)
    return centers[identities] + noise, identities, torch.randint(1, num_cameras + 1, (total,), generator=generator)


QUERY, QUERY_ID, QUERY_CAM = samples(20, seed=1)
GALLERY, GALLERY_ID, GALLERY_CAM = samples(80, seed=2)
LABELS = (QUERY_ID, GALLERY_ID, QUERY_CAM, GALLERY_CAM)
SCORES = torch.from_numpy(similarity(QUERY.numpy(), GALLERY.numpy()))
EXPECTED = reference(SCORES, *LABELS)


def mean(values) -> float:
    valid = [value for value in values if not math.isnan(value)]
    return sum(valid) / len(valid)


LISTS = [
    {"easy": torch.tensor([0, 1]), "hard": torch.tensor([5]), "junk": torch.tensor([2])},
    {"easy": torch.tensor([], dtype=torch.int64), "hard": torch.tensor([7, 3]), "junk": torch.tensor([])},
]
