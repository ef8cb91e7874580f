"""Rank the samples that metrics hold, once for all metrics that hold the same samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import torch
from torchmetrics.utilities import rank_zero_warn

from reid_torchmetrics.functional.retrieval.evaluation import Ranking, RankingOptions, rank_samples
from reid_torchmetrics.functional.retrieval.sharding import Samples
from reid_torchmetrics.functional.world import Alone
from reid_torchmetrics.metrics.base import DistributedWorld, Settings, drawn_number, meet, number_of_all
from reid_torchmetrics.metrics.reid.ranking_cache import KeptRanking, RankedSamples, rankings

_NEUTRAL = {"max_bytes", "training", "compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache"}
"""attributes of a metric that do not decide its value"""


@torch.no_grad()
def rank_once(
    world: DistributedWorld | Alone,
    options: RankingOptions,
    *,
    collect: Callable[[], tuple[Samples, int]],
    describe: Callable[[], Settings],
    max_bytes: int,
    warn: bool,
) -> Ranking:
    """Rank the samples of all processes, or find that they were ranked for another metric.

    An error at the end is this process's alone: `conclude` tells the others.

    Args:
        world: the processes that share the samples.
        options: how samples are ranked.
        collect: gives this process's samples, and when the last of them came by `ranking_cache.last_update_time`.
        describe: says what was asked for, which must be the same on all processes.
        max_bytes: bound on the scores that are held at a time.
        warn: whether to say why nothing can be ranked, once per ranking.

    Raises:
        DistributedMetricError: an error on some process, or metrics or samples that differ between processes.
    """

    def look() -> tuple[tuple[RankedSamples, KeptRanking | None], list[int]]:
        samples, time = collect()
        members = () if isinstance(world, Alone) else world.members
        wanted = RankedSamples(samples, time, options, members)
        kept = rankings.find(wanted.states, wanted.key)
        if kept is None or not kept.result.is_for(wanted):
            return (wanted, None), [drawn_number(), 0]
        return (wanted, kept.result), [drawn_number(), kept.number]

    (wanted, found), table = meet(world, look, describe)
    # Samples may have changed on another process alone: a ranking is used again if all processes have it.
    if found is None or number_of_all([offered for _, offered in table]) is None:
        found = KeptRanking(rank_samples(wanted.samples, options, world, max_bytes=max_bytes), wanted)
        if wanted.samples.embeddings or wanted.members:  # nothing but newer samples ends what has no embeddings
            rankings.keep(wanted.states, wanted.key, found, number=table[0][0])
    if warn and found.ranking.undefined:  # on all processes alike; a warning may be an error
        say = rank_zero_warn if world.size == 1 else warnings.warn
        entry = found
        world.guarded(lambda: entry.warn_once(wanted, say) if world.process == 0 else None)
    return found.ranking


def meet_samples(
    world: DistributedWorld | Alone,
    *,
    collect: Callable[[], tuple[Samples, int]],
    describe: Callable[[], Settings],
) -> Samples:
    """This process's samples, once all processes are known to ask for the same; `collect` and `describe` as above.

    Raises:
        DistributedMetricError: an error on some process, or metrics that differ between processes.
    """
    (samples, _), _ = meet(world, lambda: (collect(), ()), describe)
    return samples


def describe_settings(
    metric: str, method: str, attributes: Mapping[str, Any], options: RankingOptions, asked: Mapping[str, str]
) -> Settings:
    """What was asked of a metric of the class `metric`, and what of its attributes decides the answer.

    `asked` are the arguments of the method, as texts.
    """
    public = {key: value for key, value in attributes.items() if not key.startswith("_") and key not in _NEUTRAL}
    decisive = {key: value for key, value in public.items() if isinstance(value, (str, int, float, tuple))}
    ranked = options.describe()
    chosen = {key: repr(value) for key, value in decisive.items()}
    chosen |= {key: ranked[key] for key in ("similarity", "rerank")}
    protocol = attributes["protocol"]
    chosen |= {field.name: repr(getattr(protocol, field.name)) for field in fields(protocol) if field.name != "name"}
    chosen["protocol"] = repr(protocol.name.partition(" with ")[0])  # what was changed has a name of its own
    chosen |= asked  # an argument goes before an option of its name: the `k` of rank lists before that of AP
    return Settings(metric, method, chosen, ranked)
