"""Results of a gallery that came as a stream: every number of a protocol, from what a counter has counted."""

from __future__ import annotations

import torch

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.ranking import RankCounter
from reid_torchmetrics.functional.retrieval.relevance import in_one_spelling

from .protocol import Protocol
from .protocols import find_protocol
from .queries import check_own_places
from .ranking import Ranking
from .ranking_options import Setup
from .results import RetrievalResults, summarize


@torch.no_grad()
def evaluate_stream(
    counter: RankCounter, *, protocol: str | Protocol = "market1501", max_rank: int = 50
) -> RetrievalResults:
    """Evaluate what a `RankCounter` has counted so far: the numbers of `evaluate` for the whole gallery.

    The results hold no embeddings, and so no lists of neighbors.

    Args:
        counter: the counter, after `update` and `merge`; its rules of relevance are the protocol's.
        protocol: a name in `PROTOCOLS` or a `Protocol`.
        max_rank: length of the CMC curve.

    Raises:
        TypeError: `counter` is no `RankCounter`.
        ValueError: a protocol with other rules than the counter's, with two camera rules, with drawn galleries or
            groups, that needs lists, or that searches every query among the others, for a counter without `self_index`
            of all.
    """
    _checks.instance("counter", counter, (RankCounter,))
    _checks.positive_int("max_rank", max_rank)
    protocol = find_protocol(protocol)
    protocol.check_relevance((), lists=False)
    unlike = {
        "draws galleries": protocol.draw is not None,
        "ranks groups": protocol.needs_groups,
        "has two": protocol.for_cmc is not protocol,
    }
    for what in (what for what in unlike if unlike[what]):
        raise ValueError(
            "`protocol` must rank one whole gallery of items by one camera rule, as a counter does; got"
            f" {protocol.name!r}, which {what}."
        )
    if protocol.leave_one_out:
        check_own_places(protocol, counter.relevance.self_index, counter.relevance.num_queries)
    rules, counted = in_one_spelling(protocol.relevance_options), counter.rules
    others = [name for name in rules if rules[name] != counted[name]]
    if others:
        raise ValueError(
            f"`protocol` must have the counter's rules; got {protocol.name!r} with {others[0]}={rules[others[0]]!r} for"
            f" a counter with {counted[others[0]]!r}: give it `**find_protocol({protocol.name!r}).relevance_options`."
        )
    ranks, relevance = counter.ranks(), counter.relevance
    labels = relevance.query_identities, relevance.query_cameras
    index = torch.arange(relevance.num_queries, device=relevance.device)
    ranking = Ranking(ranks, relevance.counts(ranks.num_positives), index, *labels, labels=counter.labels)
    setup = Setup.of(counter.ties, counter.similarity, None, counter.labels)
    return summarize(ranking, ranking, protocol, setup, max_rank=max_rank)
