"""Claims: the expectation over drawn galleries costs about as much as the ten draws that are used to estimate it.

    python benchmarks/drawn_galleries.py [PART ...]     # of cuhk03, vehicle_id

At the size of CUHK03's classic test set (100 identities, two cameras, 500 x 500 images, every query draws for itself as
in open-reid) the expectation takes less time than ten draws. At that of VehicleID's large one (2,400 identities, about
17,900 images, one gallery for all queries of a draw) a draw is cheap, for its gallery is small, and the expectation
looks at all pairs of images. Average precision and INP are included.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from harness.claims import compare, interleaved, main
from reid_torchmetrics.functional.retrieval import cmc_curve, rank_positives, score_embeddings
from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_relevance
from reid_torchmetrics.tasks.draws.drawn_galleries import expect_draws

DRAWS = 10
DRAW = GalleryDraw(1)


class Images(NamedTuple):
    """Made images: clusters of one identity each, spread by noise and by the camera."""

    embeddings: Tensor
    identities: Tensor
    cameras: Tensor


def images(identities: Tensor, cameras: Tensor, noise: float, generator: torch.Generator) -> Images:
    """The more noise, the worse the model."""
    of_identity = torch.randn(int(identities.max()) + 1, 128, generator=generator)
    of_camera = 0.5 * torch.randn(int(cameras.max()) + 1, 128, generator=generator)
    spread = noise * torch.randn(len(identities), 128, generator=generator)
    return Images(of_identity[identities] + of_camera[cameras] + spread, identities, cameras)


def cuhk03() -> None:
    """A gallery for every query."""
    for model, noise in {"good": 1.7, "weak": 6.0}.items():
        generator = torch.Generator().manual_seed(0)
        seen = images(torch.arange(1000) // 10, torch.arange(1000) % 2, noise, generator)
        query, gallery = (Images(*(part[side::2] for part in seen)) for side in (0, 1))
        relevance = find_relevance(query.identities, gallery.identities, query.cameras, gallery.cameras)
        scores = score_embeddings(query.embeddings, gallery.embeddings, relevance)
        candidate = (query.identities[:, None] != gallery.identities) | (query.cameras[:, None] != gallery.cameras)

        def ten_draws(s=scores, c=candidate, q=query, g=gallery, generator=generator) -> list[float]:
            matrix = s.all()
            return [
                first_rank_of_galleries(matrix, c, q, g, torch.rand(len(c), 500, generator=generator))
                for _ in range(DRAWS)
            ]

        ways = {"expectation": lambda s=scores, r=relevance: expect_draws(s, r, DRAW), "ten draws": ten_draws}
        seconds = interleaved(ways, repeats=9)
        text = (
            f"The expectation over drawn galleries takes no longer than ten draws of CUHK03's size by a {model} model."
        )
        compare(text, *seconds.values(), 1)


def first_rank_of_galleries(scores: Tensor, candidate: Tensor, query: Images, gallery: Images, keys: Tensor) -> float:
    """Draw the candidate of each identity with the largest of random keys, by query or for all; return rank-1."""
    keys = keys.where(candidate, -1.0)
    identity = gallery.identities.expand_as(keys)
    largest = torch.zeros(len(keys), int(identity.max()) + 1).scatter_reduce_(1, identity, keys, "amax")
    drawn = scores.where(keys == largest.gather(1, identity), -torch.inf)
    right = query.identities[:, None] == gallery.identities
    return float((drawn.where(right, -torch.inf).amax(1) > drawn.where(~right, -torch.inf).amax(1)).double().mean())


def vehicle_id() -> None:
    """A gallery for all queries."""
    for model, noise, limit in (("good", 1.25, 1.3), ("weak", 6.0, 2.5)):
        generator = torch.Generator().manual_seed(0)
        sizes = torch.randint(3, 13, (2400,), generator=generator)
        identities = torch.arange(2400).repeat_interleave(sizes)
        seen = images(identities, torch.zeros_like(identities), noise, generator)
        relevance = find_relevance(identities, identities, self_index=torch.arange(len(identities)))
        scores = score_embeddings(seen.embeddings, seen.embeddings, relevance)
        ways = {
            "expectation": partial(expect_draws, scores, relevance, DRAW, queries_in_draw=True),
            "ten draws": lambda s=seen, n=sizes, g=generator: [first_rank_of_a_draw(s, n, g) for _ in range(DRAWS)],
        }
        text = f"The expectation over drawn galleries costs what ten draws of VehicleID's size do, by a {model} model."
        compare(text, *interleaved(ways, repeats=3).values(), limit)


def first_rank_of_a_draw(seen: Images, sizes: Tensor, generator: torch.Generator) -> float:
    """Draw one image of each identity for the gallery, rank all others, and return rank-1."""
    drawn = sizes.cumsum(0) - sizes + (torch.rand(len(sizes), generator=generator) * sizes).long()
    others = torch.ones(len(seen.identities), dtype=torch.bool).index_fill_(0, drawn, 0)
    query, gallery = (Images(*(part[chosen] for part in seen)) for chosen in (others, drawn))
    ranks = rank_positives(query.embeddings, gallery.embeddings, query.identities, gallery.identities)
    return float(cmc_curve(ranks, 50)[0])


if __name__ == "__main__":
    main(cuhk03, vehicle_id)
