"""What the data sets of this example have in common: samples, splits and how training draws from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

if TYPE_CHECKING:
    from collections.abc import Iterator

JUNK = -1
DISTRACTOR = 0
Sample = tuple[Tensor, int, int, int]


class PersonDataset(Dataset[Sample]):
    """Pictures of people, each with an identity and a camera; identities are numbered as in Market-1501.

    Identity -1 is junk (no search may find or miss it), identity 0 is a distractor (no query shows this person).
    """

    def __init__(self, identities: list[int], cameras: list[int]) -> None:
        """Hold the labels; a subclass knows the pictures."""
        self.identities = torch.tensor(identities)
        self.cameras = torch.tensor(cameras)

    def picture(self, index: int) -> Tensor:
        """Give picture number `index`, uint8 [3, height, width]."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Count the pictures."""
        return len(self.identities)

    def __getitem__(self, index: int) -> Sample:
        """Give a picture, its identity, its camera and its number in the data set."""
        return self.picture(index), int(self.identities[index]), int(self.cameras[index]), index


class Splits(NamedTuple):
    """Training shows other people than the test, which searches every query in the gallery."""

    train: PersonDataset
    query: PersonDataset
    gallery: PersonDataset


class IdentitySampler(Sampler[list[int]]):
    """Batches of P identities with K pictures each, so that every picture meets positives and negatives."""

    def __init__(
        self,
        dataset: PersonDataset,
        *,
        num_identities: int = 16,
        num_pictures: int = 4,
        num_devices: int = 1,
        seed: int,
    ) -> None:
        """Draw batches of `num_identities` times `num_pictures`.

        In an epoch the samplers of all devices, each with another seed, draw about as many pictures as there are.
        """
        self.members = [
            (dataset.identities == identity).nonzero().flatten() for identity in dataset.identities.unique()
        ]
        self.num_identities = num_identities
        self.num_pictures = num_pictures
        self.num_batches = max(1, len(dataset) // (num_identities * num_pictures * num_devices))
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        """Count the batches of an epoch."""
        return self.num_batches

    def __iter__(self) -> Iterator[list[int]]:
        """Give the numbers of the pictures, batch by batch."""
        for _ in range(self.num_batches):
            people = torch.randperm(len(self.members), generator=self.generator)[: self.num_identities]
            yield [index for person in people.tolist() for index in self._draw(self.members[person])]

    def _draw(self, members: Tensor) -> list[int]:
        order = torch.randperm(len(members), generator=self.generator)
        # Somebody with fewer than K pictures gives some of them twice.
        return members[order.repeat(self.num_pictures)[: self.num_pictures]].tolist()
