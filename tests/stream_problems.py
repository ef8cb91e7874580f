"""Galleries that come as blocks, their counters, and the ranks of the whole in memory."""

import torch

from reid_torchmetrics.functional.retrieval import PositiveRanks, rank_positives
from reid_torchmetrics.tasks import Counts, RankCounter

QUERIES, POSITIVES = 7, 20


def drawn(seed: int, num_items: int = 60, *, whole: bool = True, dtype: torch.dtype = torch.float32):
    """Queries, positives and blocks of (embeddings, identities, cameras): few values, so that scores tie."""
    random = torch.Generator().manual_seed(seed)

    def side(size: int, first: int, last: int):
        values = torch.randint(-2, 3, (size, 3), generator=random).to(dtype)
        values = values if whole else values + torch.randn(size, 3, generator=random).to(dtype)
        identities = torch.randint(first, last, (size,), generator=random)
        return values, identities, torch.randint(0, 3, (size,), generator=random)

    query, positives, items = side(QUERIES, -1, 4), side(POSITIVES, -1, 5), side(num_items, 4, 9)
    items[1][:3] = -1
    cuts = torch.randint(0, num_items + 1, (4,), generator=random).sort().values.tolist()  # some blocks may be empty
    blocks = list(zip(*(values.tensor_split(cuts) for values in items), strict=True))
    return query, positives, blocks


def counter_of(query, positives, **options) -> RankCounter:
    labels = {"query_identities": query[1], "positive_identities": positives[1]}
    return RankCounter(
        query[0], positives[0], **labels, query_cameras=query[2], positive_cameras=positives[2], **options
    )


def counted(counter: RankCounter, blocks) -> Counts:
    """What a counter counts in blocks, each by its number."""
    return sum(counter.count(*block, key=number) for number, block in enumerate(blocks))


def joined(positives, blocks):
    return [torch.cat(parts) for parts in zip(positives, *blocks, strict=True)]


def stored(query, positives, blocks, **options) -> PositiveRanks:
    gallery = joined(positives, blocks)
    return rank_positives(query[0], gallery[0], query[1], gallery[1], query[2], gallery[2], **options)


def assert_equal(ranks: PositiveRanks, expected: PositiveRanks) -> None:
    for name in ("rank", "num_positives", "num_candidates"):
        assert torch.equal(getattr(ranks, name), getattr(expected, name))
    assert (ranks.tied is None) == (expected.tied is None)
    if ranks.tied is not None:
        assert ranks.tied.policy == expected.tied.policy
        for name in ("num_groups", "num_positives", "num_negatives"):
            assert torch.equal(getattr(ranks.tied, name), getattr(expected.tied, name))
