"""Claim: the expectation over drawn galleries costs about as much as the ten draws that are used to estimate it.

    python benchmarks/drawn_galleries.py

At the size of CUHK03's classic test set (100 identities, two cameras, 500 x 500 images, every query draws for itself as
in open-reid) the expectation takes less time than ten draws. At that of VehicleID's large one (2,400 identities, about
17,900 images, one gallery for all queries of a draw) a draw is cheap, for its gallery is small, and the expectation
looks at all pairs of images: it takes about the time of ten draws with a good model, at most 1.3 times, and at most 2.5
times with a weak one, average precision and INP included. Beside it, the standard deviation of the mean of ten draws,
which the expectation does not have.
"""

from __future__ import annotations

import statistics
import sys
from typing import NamedTuple

import torch
from torch import Tensor

from harness.claims import claim, interleaved, median_ratio
from reid_torchmetrics.functional.retrieval import cmc_curve, rank_positives, score_embeddings
from reid_torchmetrics.functional.retrieval.draws.drawn_galleries import expect_draws
from reid_torchmetrics.functional.retrieval.draws.strata import GalleryDraw
from reid_torchmetrics.functional.retrieval.measures import DrawnResults
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_relevance

DRAWS = 10
DRAW = GalleryDraw(1)
CUHK03_LIMIT = 1.0
VEHICLE_LIMITS = {"good": (1.25, 1.3), "weak": (6.0, 2.5)}
"""noise of the model, and the limit"""


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


def cuhk03(noise: float) -> float:
    """Print figures of CUHK03's size; return the times of the expectation over those of ten draws."""
    generator = torch.Generator().manual_seed(0)
    seen = images(torch.arange(1000) // 10, torch.arange(1000) % 2, noise, generator)
    query, gallery = (Images(*(part[side::2] for part in seen)) for side in (0, 1))
    relevance = find_relevance(query.identities, gallery.identities, query.cameras, gallery.cameras)
    scores = score_embeddings(query.embeddings, gallery.embeddings, relevance)
    candidate = (query.identities[:, None] != gallery.identities) | (query.cameras[:, None] != gallery.cameras)

    def ten_draws(*, shared: bool = False) -> list[float]:
        matrix, num_keys = scores.all(), 1 if shared else len(candidate)
        return [
            first_rank_of_galleries(matrix, candidate, query, gallery, torch.rand(num_keys, 500, generator=generator))
            for _ in range(DRAWS)
        ]

    expected = expect_draws(scores, relevance, DRAW)
    for shared in (False, True):
        print("  one gallery for all queries of a draw" if shared else "  a gallery for every query")
        report(expected, [statistics.mean(ten_draws(shared=shared)) for _ in range(12)])
    seconds = interleaved(
        {"expectation": lambda: expect_draws(scores, relevance, DRAW), "ten draws": ten_draws}, repeats=5
    )
    return compared(seconds)


def first_rank_of_galleries(scores: Tensor, candidate: Tensor, query: Images, gallery: Images, keys: Tensor) -> float:
    """Draw the candidate of each identity with the largest of random keys, by query or for all; return rank-1."""
    keys = keys.where(candidate, -1.0)
    identity = gallery.identities.expand_as(keys)
    largest = torch.zeros(len(keys), int(identity.max()) + 1).scatter_reduce_(1, identity, keys, "amax")
    drawn = scores.where(keys == largest.gather(1, identity), -torch.inf)
    right = query.identities[:, None] == gallery.identities
    return float((drawn.where(right, -torch.inf).amax(1) > drawn.where(~right, -torch.inf).amax(1)).double().mean())


def vehicle_id(noise: float) -> float:
    """The same of VehicleID's size."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(3, 13, (2400,), generator=generator)
    identities = torch.arange(2400).repeat_interleave(sizes)
    seen = images(identities, torch.zeros_like(identities), noise, generator)
    relevance = find_relevance(identities, identities, self_index=torch.arange(len(identities)))
    scores = score_embeddings(seen.embeddings, seen.embeddings, relevance)

    def expect(*, with_precision: bool = True) -> DrawnResults:
        return expect_draws(scores, relevance, DRAW, queries_in_draw=True, with_precision=with_precision)

    rank_1 = [first_rank_of_a_draw(seen, sizes, generator) for _ in range(6 * DRAWS)]
    several = [statistics.mean(rank_1[first : first + DRAWS]) for first in range(0, len(rank_1), DRAWS)]
    report(expect(), several)
    seconds = interleaved(
        {
            "expectation": expect,
            "its CMC alone": lambda: expect(with_precision=False),
            "ten draws": lambda: [first_rank_of_a_draw(seen, sizes, generator) for _ in range(DRAWS)],
        },
        repeats=2,
    )
    return compared(seconds)


def first_rank_of_a_draw(seen: Images, sizes: Tensor, generator: torch.Generator) -> float:
    """Draw one image of each identity for the gallery, rank all others, and return rank-1."""
    drawn = sizes.cumsum(0) - sizes + (torch.rand(len(sizes), generator=generator) * sizes).long()
    others = torch.ones(len(seen.identities), dtype=torch.bool).index_fill_(0, drawn, 0)
    query, gallery = (Images(*(part[chosen] for part in seen)) for chosen in (others, drawn))
    ranks = rank_positives(query.embeddings, gallery.embeddings, query.identities, gallery.identities)
    return float(cmc_curve(ranks, 50)[0])


def report(expected: DrawnResults, means: list[float]) -> None:
    """Print rank-1 as it is and as ten draws see it."""
    print(
        f"  {len(expected.cmc):,} queries: rank-1 {float(expected.mean_cmc[0]):.4f}, "
        f"mAP {float(expected.mean_average_precision):.4f}; mean of ten draws, {len(means)} times: "
        f"rank-1 {min(means):.4f} to {max(means):.4f}, standard deviation {100 * statistics.stdev(means):.2f} points"
    )


def compared(seconds: dict[str, list[float]]) -> float:
    """Print the median times; return the ratio that is claimed."""
    print("  seconds: " + ", ".join(f"{name} {statistics.median(times):.2f}" for name, times in seconds.items()))
    return median_ratio(seconds["expectation"], seconds["ten draws"])


def main() -> None:
    """Measure every claim; exit with 1 if one fails."""
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    holds = []
    for model, noise in {"good": 1.7, "weak": 6.0}.items():
        print(f"\nCUHK03's size, {model} model")
        holds.append(claim("times ten draws", cuhk03(noise), CUHK03_LIMIT))
    for model, (noise, limit) in VEHICLE_LIMITS.items():
        print(f"\nVehicleID's size, {model} model")
        holds.append(claim("times ten draws", vehicle_id(noise), limit))
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
