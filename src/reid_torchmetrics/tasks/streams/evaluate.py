"""Evaluate the counts of a streamed gallery under a benchmark protocol, in one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from reid_torchmetrics import _checks, _names
from reid_torchmetrics.functional.retrieval.evaluation import (
    DEFAULT_PROTOCOL,
    Protocol,
    RankedSamples,
    Ranking,
    RankingOptions,
    RetrievalResults,
    Setup,
    check_own_places,
    find_protocol,
    summarize,
)
from reid_torchmetrics.functional.retrieval.relevance import names_of_labels, one_number_each
from reid_torchmetrics.functional.world import results_made

from .counts import Counts, in_one_spelling
from .rank_counter import RankCounter


@torch.no_grad()
def evaluate_stream(
    counter: RankCounter,
    counts: Counts | Literal[0],
    *,
    protocol: _names.ProtocolName | Protocol = DEFAULT_PROTOCOL,
    max_rank: int = 50,
) -> RetrievalResults:
    """Evaluate the counts of a `RankCounter`: the numbers of `evaluate` for the whole gallery.

    The results hold no embeddings, and so no lists of neighbors.

    Args:
        counter: the counter; its rules of relevance are the protocol's.
        counts: the sum of its counts in all blocks; 0 for no block.
        protocol: a name in `PROTOCOLS` or a `Protocol`.
        max_rank: length of the CMC curve.

    Raises:
        TypeError: `counter` is no `RankCounter`, or `counts` no `Counts`.
        ValueError: counts of another counter; a protocol with other rules than the counter's, with two camera rules,
            with drawn galleries or groups, that needs lists, or that searches every query among the others, for a
            counter without `self_index` of all.
    """
    if not isinstance(counter, RankCounter):
        raise TypeError(f"`counter` must be a RankCounter; got {type(counter).__name__}.")
    _checks.positive_int("max_rank", max_rank)
    named_protocol = protocol
    protocol = find_protocol(named_protocol)
    _check_fits_counter(protocol, counter)

    ranks = counter.ranks(counts)
    labels = one_number_each(counter.query_labels)
    label_names = names_of_labels(counter.query_labels)
    ranking = Ranking(
        ranks,
        counter.query_counts,
        query_index=torch.arange(ranks.num_queries, device=ranks.rank.device),
        query_identities=labels.get("identities"),
        query_cameras=labels.get("cameras"),
        query_hash=counter.query_hash,
        labels=label_names,
        names=counter.label_names,
    )
    setup = Setup.of(counter.ties, counter.similarity, None, label_names)
    results = summarize(ranking, protocol, setup, max_rank=max_rank)

    samples = RankedSamples(protocol, named_protocol)
    if counter.sample is not None:
        options = RankingOptions.of(protocol, similarity=counter.similarity, ties=counter.ties)
        samples = replace(samples, sampled=counter.sample, options=options)
    results_made(ranking, samples)
    return results


def _check_fits_counter(protocol: Protocol, counter: RankCounter) -> None:
    """Raise unless a protocol ranks one whole gallery by the rules of a counter."""
    protocol.check_relevance({}, lists=False)
    obstacle = None
    if protocol.gallery_draw is not None:
        obstacle = "draws galleries"
    elif protocol.needs_groups:
        obstacle = "ranks groups"
    elif protocol.cmc_same_camera is not None:
        obstacle = "has two"
    if obstacle is not None:
        raise ValueError(
            "`protocol` must rank one whole gallery of items by one camera rule, as a counter does; got"
            f" {protocol.name!r}, which {obstacle}."
        )
    check_own_places(protocol, counter.self_index, counter.query_counts.total)
    for name, rule in in_one_spelling(protocol.relevance_options).items():
        if rule != counter.rules[name]:
            raise ValueError(
                f"`protocol` must have the counter's rules; got {protocol.name!r} with {name}={rule!r} for a counter"
                f" with {counter.rules[name]!r}: give it `**find_protocol({protocol.name!r}).relevance_options`."
            )
