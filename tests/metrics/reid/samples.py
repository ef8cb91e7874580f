"""A small re-identification problem in batches, and the metric classes that are tested with it."""

import torch
from torch import Tensor

from reid_torchmetrics import EmbeddingMetric, ReIDCMC, ReIDCMCCurve, ReIDMeanAP, ReIDMINP
from reid_torchmetrics.functional.retrieval import PositiveRanks
from tests.reference.retrieval import Evaluation, evaluate, similarity


class WorstRank(EmbeddingMetric):
    """A measure of a user's own, which raises where there are no ranks."""

    higher_is_better = False

    def summarize(self, ranks: PositiveRanks) -> Tensor:
        return ranks.rank.max()


CLASSES = {
    "map": ReIDMeanAP,
    "map_trapezoid": lambda **options: ReIDMeanAP(rule="trapezoid", **options),
    "minp": ReIDMINP,
    "cmc": ReIDCMC,
    "cmc_5": lambda **options: ReIDCMC(top_k=5, **options),
    "curve": lambda **options: ReIDCMCCurve(max_rank=7, **options),
    "own": WorstRank,
}


def expected(name: str, reference: Evaluation) -> list[float]:
    """What the slow reference says that a class computes."""
    values = {
        "map": lambda: _mean(reference.average_precision["rectangle"]),
        "map_trapezoid": lambda: _mean(reference.average_precision["trapezoid"]),
        "minp": lambda: _mean(reference.inverse_negative_penalty),
        "cmc": lambda: reference.cmc(1),
        "cmc_5": lambda: reference.cmc(5)[-1:],
        "curve": lambda: reference.cmc(7),
        "own": lambda: [max(sum(reference.ranks, []))],
    }
    return values[name]()


def batches(num_queries: int = 12, num_gallery: int = 50, size: int = 8, seed: int = 0) -> list[dict]:
    """Batches of a query loader, then of a gallery loader, with cameras and a few junk items."""
    generator = torch.Generator().manual_seed(seed)
    total = num_queries + num_gallery
    identities = torch.arange(total) % 5
    identities[num_queries::11] = -1
    data = {
        "embeddings": torch.randn(total, 6, generator=generator) + 0.4 * identities[:, None],
        "identities": identities,
        "cameras": torch.randint(0, 3, (total,), generator=generator),
    }
    parts = [(first, min(first + size, num_queries), True) for first in range(0, num_queries, size)]
    parts += [(first, min(first + size, total), False) for first in range(num_queries, total, size)]
    return [
        {name: values[low:high].clone() for name, values in data.items()} | {"is_query": role}
        for low, high, role in parts
    ]


def mixed(given: list[dict]) -> list[dict]:
    """Two batches of both roles, from batches of one role each."""
    parts: list[list[dict]] = [[], []]
    for role in (True, False):
        own = [batch for batch in given if batch["is_query"] is role]
        parts[0].append(own[0])
        parts[1].extend(own[1:])
    joined = []
    for part in parts:
        batch = {name: torch.cat([each[name] for each in part]) for name in part[0] if name != "is_query"}
        roles = [torch.full((len(each["embeddings"]),), each["is_query"]) for each in part]
        joined.append(batch | {"is_query": torch.cat(roles)})
    return joined


def labeled(given: list[dict], scale: float = 1.0) -> list[dict]:
    """Batches with all labels that some rule reads, and numbers."""
    labels = []
    for place, batch in enumerate(given):
        numbers = torch.arange(len(batch["embeddings"]))
        positions = scale * batch["embeddings"][:, :2].double()
        labels.append({"index": 20 * place + numbers, "clothes": numbers % 2, "positions": positions})
    return [dict(batch) | more for batch, more in zip(given, labels, strict=True)]


def needs_more(protocol) -> bool:
    """Whether identities and cameras are not enough for a protocol: it needs positions, clothes or lists."""
    return protocol.radius is not None or protocol.clothes != "keep" or protocol.needs_lists


def reference_of(given: list[dict], **options) -> Evaluation:
    """The slow reference of batches of a query and a gallery loader."""
    sides = []
    for role in (True, False):
        own = [batch for batch in given if batch["is_query"] is role]
        sides.append(
            {name: torch.cat([batch[name] for batch in own]) for name in ("embeddings", "identities", "cameras")}
        )
    query, gallery = sides
    scores = similarity(query["embeddings"].numpy(), gallery["embeddings"].numpy())
    labels = [side[name].tolist() for name in ("identities", "cameras") for side in (query, gallery)]
    return evaluate(scores, *labels, **options)


def fed(metric, given: list[dict]):
    """The metric after all batches."""
    for batch in given:
        metric.update(**batch)
    return metric


def _mean(values: list[float]) -> list[float]:
    valid = [value for value in values if value == value]  # noqa: PLR0124 - not NaN
    return [sum(valid) / len(valid)]
