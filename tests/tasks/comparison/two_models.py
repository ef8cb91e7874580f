"""Results of models over the same queries, by the ranks of their positives or from embeddings."""

from collections.abc import Sequence
from dataclasses import asdict

import torch

from reid_torchmetrics.functional.retrieval import PROTOCOLS, RetrievalResults, evaluate, evaluate_scores
from reid_torchmetrics.tasks import Comparison, Difference, compare


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ranked(
    *ranks: int | None, identities: Sequence[int] = (), num_others: int = 20, cameras: bool = False, **options: object
) -> RetrievalResults:
    """Results of queries whose only positive is at these ranks, or is not there: AP and INP are 1 / rank.

    The gallery has one item of every identity that has a rank, and behind them others, of identity 1000.
    """
    own = torch.tensor(identities or range(len(ranks)), dtype=torch.int64)
    there = [label for label, rank in zip(own.tolist(), ranks, strict=True) if rank is not None]
    gallery = torch.tensor([*dict.fromkeys(there), *[1000] * num_others])
    scores = torch.zeros(len(ranks), len(gallery))
    scores[own[:, None] == gallery] = 0.5
    for query, rank in enumerate(ranks):
        if rank is not None:
            scores[query, len(gallery) - num_others :][: rank - 1] = 1
    labels = [own, gallery, torch.zeros_like(own), torch.ones_like(gallery)][: 4 if cameras else 2]
    return evaluate_scores(scores, *labels, **options)


def compared(a: RetrievalResults, b: RetrievalResults, *, seed: int = 0, **options: object) -> Comparison:
    return compare(a, b, generator=seeded(seed), **({"num_resamples": 50, "num_permutations": 50} | options))


def numbers_of(difference: Difference) -> list[float]:
    return list(asdict(difference).values())[:-3]  # but for Holm's correction, the title and the direction


def samples(seed: int, *, noise: float = 1.0) -> dict[str, torch.Tensor]:
    """Embeddings of one model, with labels that are those of every model."""
    labels = seeded(11)
    data = {}
    for side, number in (("query", 30), ("gallery", 60)):
        identities = torch.randint(0, 8, (number,), generator=labels)
        cameras = torch.randint(1, 7, (number,), generator=labels)
        data |= {f"{side}_identities": identities, f"{side}_cameras": cameras}
        centers = torch.randn(8, 8, generator=seeded(12))
        data[side] = centers[identities] + noise * torch.randn(number, 8, generator=seeded(seed))
        data |= {f"{side}_clothes": cameras % 2, f"{side}_positions": 20.0 * identities}
    return data


def evaluated(seed: int, protocol: str = "market1501", **options: object) -> RetrievalResults:
    data = samples(seed)
    if PROTOCOLS[protocol].leave_one_out:
        return evaluate(
            data["gallery"], query_identities=data["gallery_identities"], query_cameras=data["gallery_cameras"],
            protocol=protocol, **options,
        )  # fmt: skip
    if PROTOCOLS[protocol].needs_groups:
        options["gallery_groups"] = 10 * data["gallery_identities"] + data["gallery_cameras"]
    return evaluate(**data, protocol=protocol, **options)
