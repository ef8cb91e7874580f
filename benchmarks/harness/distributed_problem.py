"""What the benchmark of the cost over processes computes: samples that any process can make, and metrics of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torchmetrics import MetricCollection

from harness.problems import market1501, msmt17_size
from reid_torchmetrics import ReIDCMC, ReIDMeanAP, ReIDMINP

BATCH = 64
LABELS = {"market1501": lambda: market1501(1, 0.0)[2:], "msmt17": lambda: msmt17_size(1)[2:]}
IDENTITIES, CAMERAS = 3060, 15
"""more than there are"""


@dataclass(frozen=True)
class Problem:
    """Samples that are the same whichever process makes them."""

    labels: str
    """a key of `LABELS`"""
    dimension: int
    noise: float
    num_queries: int | None = None
    num_gallery: int | None = None

    def sides(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Identities and cameras of gallery and queries."""
        query_identities, gallery_identities, query_cameras, gallery_cameras = LABELS[self.labels]()
        query = spread(len(query_identities), self.num_queries)
        gallery = spread(len(gallery_identities), self.num_gallery)
        return (gallery_identities[gallery], gallery_cameras[gallery]), (query_identities[query], query_cameras[query])

    def batches(self, rank: int, size: int) -> Iterator[tuple[bool, Tensor, Tensor, Tensor]]:
        """The batches of one process: whether it is one of queries, embeddings, identities, cameras."""
        generator = torch.Generator().manual_seed(1 << 40)
        of_identity = torch.randn(IDENTITIES, self.dimension, generator=generator)
        of_camera = 0.5 * torch.randn(CAMERAS, self.dimension, generator=generator)
        for is_query, (identities, cameras) in enumerate(self.sides()):
            for numbers in torch.arange(rank, len(identities), size).split(BATCH):
                seeds = (2 * numbers + is_query).tolist()
                own = [torch.randn(self.dimension, generator=generator.manual_seed(seed)) for seed in seeds]
                identity, camera = identities[numbers], cameras[numbers]
                embeddings = of_identity[identity] + of_camera[camera] + self.noise * torch.stack(own)
                yield bool(is_query), embeddings, identity, camera

    def count(self) -> tuple[int, int, int]:
        """Numbers of queries, gallery items and positives: items of a query's identity from other cameras."""
        gallery, query = (torch.stack(side) for side in self.sides())
        of_identity = gallery[0].bincount(minlength=IDENTITIES)[query[0]]
        kind = (CAMERAS * gallery[0] + gallery[1]).bincount(minlength=IDENTITIES * CAMERAS)[
            CAMERAS * query[0] + query[1]
        ]
        return query.shape[1], gallery.shape[1], int((of_identity - kind).sum())


def spread(total: int, number: int | None) -> Tensor:
    """Positions of some of `total` items, at equal distances; None for all of them."""
    number = total if number is None else number
    return torch.arange(number) * total // number


WAYS: dict[str, Callable[[], MetricCollection]] = {
    "one metric": lambda: MetricCollection({"map": ReIDMeanAP()}),
    "three metrics": lambda: MetricCollection({"map": ReIDMeanAP(), "rank_1": ReIDCMC(), "minp": ReIDMINP()}),
}


def feed(metrics: MetricCollection, batches: Iterable[tuple[bool, Tensor, Tensor, Tensor]]) -> MetricCollection:
    """The metrics of one process, after an epoch."""
    metrics.reset()
    for is_query, *batch in batches:
        metrics.update(*batch, is_query=is_query)
    return metrics
