"""Tied groups as the slow reference has them, with numbers for each positive, and as `TiedGroups` has them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.ranking.positive_ranks import PositiveRanks, TiedGroups


def of_each_positive(ranks: PositiveRanks) -> Tensor:
    """Positives before its group, positives and negatives in it, for each positive: [positives, 3]."""
    assert ranks.tied is not None
    rows, group = [], 0
    for num_groups in ranks.tied.num_groups.tolist():
        better = 0
        for _ in range(num_groups):
            num_positives, num_negatives = int(ranks.tied.num_positives[group]), int(ranks.tied.num_negatives[group])
            rows += [(better, num_positives, num_negatives)] * num_positives
            better += num_positives
            group += 1
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 3)


def groups_of(policy: str, queries: Sequence[Sequence[tuple[int, int]]]) -> TiedGroups:
    """Groups of each query as positives and negatives, best first; a group without a positive is none."""
    listed = [[group for group in groups if group[0]] for groups in queries]
    sizes = torch.tensor([len(groups) for groups in listed], dtype=torch.int64)
    numbers = torch.tensor([group for groups in listed for group in groups], dtype=torch.int64).reshape(-1, 2)
    return TiedGroups(policy, sizes, numbers[:, 0].contiguous(), numbers[:, 1].contiguous())
