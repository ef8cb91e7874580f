"""Facts that only the batches of a metric show."""

from __future__ import annotations

from typing import NamedTuple

from reid_torchmetrics.diagnosis.signs import count_forgotten
from reid_torchmetrics.functional.retrieval.evaluation import Updates
from reid_torchmetrics.functional.retrieval.relevance import RELEVANCE_LABELS
from reid_torchmetrics.functional.retrieval.sharding import GROUPED
from reid_torchmetrics.functional.world import World


class UpdateFacts(NamedTuple):
    """Facts about the batches of all processes."""

    num_forgotten: int = 0
    """samples since the last evaluation, if they have the labels of as many samples before it; 0 otherwise"""
    has_mixed_roles: bool = False
    """whether some batches have `is_query`, and some do not"""


def read_updates(updates: Updates | None, world: World) -> UpdateFacts:
    """Return the facts about the batches of all processes, which all must call; None stands for no batches to look at.

    All processes have batches to look at, or none has.
    """
    if updates is None:
        return UpdateFacts()

    def count() -> tuple[None, list[int]]:
        return None, [_count_forgotten(updates), "queries" in updates.kinds, "both" in updates.kinds]

    _, table = world.guarded_all_gather(count)
    num_forgotten, have_queries, have_both_roles = map(list, zip(*table, strict=True))
    return UpdateFacts(sum(num_forgotten), any(have_queries) and any(have_both_roles))


def _count_forgotten(updates: Updates) -> int:
    """Count the samples that repeat those of the last evaluation, where no `index` tells."""
    batches = updates.batches
    if batches["index"]:
        return 0
    labels = [batches[name] for name in RELEVANCE_LABELS if name != "groups"]
    groups = []
    if batches["groups"]:
        # Batches without groups are represented by their roles.
        batches_of_groups = iter([batch for batch in batches["groups"] if len(batch)])
        for roles in batches["roles"]:
            has_groups = bool((roles[:1] & GROUPED).any())
            groups.append(next(batches_of_groups, roles) if has_groups else roles)
    return count_forgotten(batches["roles"], groups, *labels)
