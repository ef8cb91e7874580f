"""Evaluate ranked lists from a vector index, a server, a run file of TREC or a submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Int, Integer, Real, Shaped
from torch import Tensor
from torch.nn import functional
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional.retrieval.evaluation import (
    DEFAULT_PROTOCOL,
    Labels,
    ListCounts,
    Protocol,
    ProtocolOptions,
    RankedSamples,
    Ranking,
    RankLists,
    RetrievalResults,
    Setup,
    check_own_places,
    summarize,
    take_protocol,
)
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import (
    OPTION_OF_LABEL,
    SIDES,
    LabelValues,
    QueryCounts,
    SideLabels,
    check_needed,
    names_of_labels,
    one_number_each,
    relevance_of,
)
from reid_torchmetrics.functional.world import results_made

from .engine_lists import IndexLists, as_lists
from .ground_truth import listed_where_true
from .labeled_lists import (
    Entries,
    ListedSamples,
    count_positives,
    count_repeated,
    find_pairs_without_junk,
    judge,
    rank_lists,
    read_labeled_lists,
)
from .list_forms import MISSING_QUERIES, ItemReader, ListQueries, Lists, find_queries, read_retrieved, read_truth

ListLabels: TypeAlias = Real[Tensor, " _"] | _checks.IntegersOrNames | Mapping[Any, Any]
"""Labels in the order of the samples, or by their names"""
ListIdentities: TypeAlias = ListLabels | Shaped[Tensor, "_ labels"] | _checks.SeveralLabels
"""One identity for each sample, or a matrix of several labels"""
_NO_SIMILARITY = "none, ranked lists"


class ListOptions(SideLabels, ProtocolOptions, total=False):
    """Further labels of both sides, and fields of the protocol to change."""


@with_typed_options(ListOptions)
@torch.no_grad()
def evaluate_lists(
    retrieved: Lists | IndexLists,
    positives: Lists | None = None,
    *,
    query_identities: ListIdentities | None = None,
    gallery_identities: ListIdentities | None = None,
    query_cameras: ListLabels | None = None,
    gallery_cameras: ListLabels | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    gains: Lists | None = None,
    num_positives: int | Tensor | _checks.Integers | Mapping[Any, int] | None = None,
    protocol: _names.ProtocolName | Protocol | None = None,
    missing_queries: _names.MissingQueries = "neg",
    unknown_queries: _names.UnknownQueries = "error",
    max_rank: int = 50,
    **options: Unpack[ListOptions],
) -> RetrievalResults:
    """Evaluate ranked lists that come from elsewhere, best first; they may be cut off.

    Relevance is given by `positives`, or by labels of queries and gallery items, as in `evaluate`: then junk is removed
    from the lists, and lists of the whole gallery have the numbers of `evaluate`.

    Positives that are not retrieved count: they add 0 to average precision, divided by all positives, and are beyond
    every cutoff. An item that a list repeats keeps its places and scores once; `results.list_counts` has the number of
    such entries, and of lists that are shorter than the reported cutoffs once junk is removed. In the results
    `num_candidates` are the lengths of the lists, and `nearest` returns the lists, with minus the rank as score.

    Args:
        retrieved: for every query its items, ints or strings: a matrix of ints, as `search` of faiss returns it, where
            -1 is nothing; lists; a mapping of queries, ints or strings, to lists; or what `index_lists` returns. A
            mapping of items to scores in the place of a list is ordered as trec_eval 9 and pytrec_eval do: by falling
            score in float32, infinite where float32 overflows, then by the falling item as a string.
        positives: the right items of every query, in the same order or by the same keys, as a matrix, lists or
            mappings of items to grades: above 0, 0 for a judged negative, or below 0 for one that is not judged, as in
            trec_eval. Mappings of names to lists ("easy", "junk") need a protocol that says which are positives and
            which junk. A bool matrix [queries, gallery] marks positions in the gallery.
        query_identities: identities of the queries, in the place of `positives`; as in `evaluate`. Where `retrieved` is
            a mapping, a mapping of the queries to their identities, and likewise all other labels, such as
            `query_labels={"side": {"q": "left"}}`.
        gallery_identities: identities of the gallery; items are positions in it. Where items have names, a mapping of
            the names to identities, and likewise all other labels.
        query_cameras: cameras of the queries.
        gallery_cameras: cameras of the gallery.
        self_index: for every query its own position in the gallery, or -1: it is removed from the list.
        gains: grades of `positives`, where these are a matrix or lists, in the same form.
        num_positives: how many positives a query has, where not all are listed: one number, or one for each query.
        protocol: a name in `PROTOCOLS` or a `Protocol`. The default is that of `evaluate`, "market1501", where both
            sides have cameras, and "trec" for all other lists.
        missing_queries: treatment of a key of `positives` without a list: "neg", it retrieved nothing, or "skip", it is
            left out.
        unknown_queries: treatment of a key of `retrieved` that `positives` lacks: "error", or "skip", it is left out as
            by trec_eval.
        max_rank: length of the CMC curve.
        options: further labels of both sides, such as `query_clothes` or `gallery_positions`, see `find_relevance`; and
            fields of the protocol to change, such as `reports=("map", "ndcg_10")` or `gain="exponential"`.

    Returns:
        Results in the order of `positives`, or of the labels. Keys that are ints are their `query_index`; keys that are
        strings are `query_names`, and items that are strings `gallery_names`, by the numbers in `nearest`.

    Raises:
        TypeError: an argument of the wrong type, ints in one place and strings in another.
        ValueError: other numbers of lists, queries that the truth lacks, items outside of the gallery or listed twice
            in the truth, scores that are NaN, grades that are not finite, options that do not fit, or that have no
            effect because their label is missing; clothes or positions that no rule reads, unless `protocol` is given.
    """
    _checks.one_of("missing_queries", missing_queries, MISSING_QUERIES)
    _checks.one_of("unknown_queries", unknown_queries, _names.UnknownQueries)
    _checks.positive_int("max_rank", max_rank)
    is_named = protocol is not None
    cameras = {"query_cameras": query_cameras, "gallery_cameras": gallery_cameras}
    protocol = protocol_of_lists(protocol, cameras)
    changed_protocol, further_labels, needed = take_protocol(
        protocol, options, lists=positives is not None, lists_argument="positives"
    )
    if changed_protocol.gallery_draw is not None:
        raise ValueError(f"`protocol` must draw no gallery, as lists are given; got {changed_protocol.gallery_draw!r}.")
    labels: dict[str, Any] = {
        "query_identities": query_identities,
        "gallery_identities": gallery_identities,
        **cameras,
        **further_labels,
    }
    _check_arguments_fit(
        positives,
        arguments_of_labels={**labels, "self_index": self_index},
        arguments_of_positives={"gains": gains, "num_positives": num_positives},
    )
    if positives is not None and options.get("leave_one_out"):
        raise ValueError("`leave_one_out` must come with labels and `self_index`; got `positives`.")

    rows = as_lists(retrieved)
    if positives is not None:
        return _evaluate_by_truth(
            rows,
            positives,
            gains=gains,
            num_positives=num_positives,
            protocol=changed_protocol,
            missing_queries=missing_queries,
            unknown_queries=unknown_queries,
            max_rank=max_rank,
        )

    # An option without its label has no effect.
    reasons = changed_protocol.needed_labels | needed
    check_needed(reasons, labels, "query_", "gallery_")
    if not is_named:
        _check_labels_are_read(labels, changed_protocol, options)
    if changed_protocol.needs_groups:
        name = changed_protocol.name
        raise ValueError(f"`positives` must be given under protocol {name!r}, which ranks groups; got none.")
    reader = ItemReader()
    items, queries, arrays = read_labeled_lists(rows, labels, reader, missing_queries, unknown_queries)
    samples = RankedSamples(changed_protocol, protocol)
    return _evaluate_by_labels(items, queries, arrays, samples, reader, self_index=self_index, max_rank=max_rank)


def _check_arguments_fit(
    positives: object, *, arguments_of_labels: Mapping[str, object], arguments_of_positives: Mapping[str, object]
) -> None:
    """Raise unless there are positives or labels, and no argument that needs the other."""
    if positives is not None:
        for name, value in arguments_of_labels.items():
            if value is not None:
                raise ValueError(f"`{name}` must come without `positives`; got both.")
        return
    for name, value in arguments_of_positives.items():
        if value is not None:
            raise ValueError(f"`{name}` must come with `positives`; got none.")
    has_labels = any(value is not None for name, value in arguments_of_labels.items() if name != "self_index")
    if not has_labels:
        raise ValueError("`positives` must be given, or labels such as `query_identities`; got neither.")


def _check_labels_are_read(labels: Mapping[str, object], protocol: Protocol, options: Mapping[str, object]) -> None:
    """Raise if there is a label that no rule of a protocol reads, unless an option says so."""
    for name, option in OPTION_OF_LABEL.items():
        is_decided = name in protocol.needed_labels or options.get(option) is not None
        if labels.get(f"query_{name}") is not None and not is_decided:
            rule = f"must come with a rule that reads it, such as `{option}`, or with the name of a `protocol`"
            raise ValueError(f"`query_{name}` {rule}; got the default protocol {protocol.name!r}, which ignores it.")


def _evaluate_by_truth(
    retrieved: Lists,
    positives: Lists,
    *,
    gains: Lists | None,
    num_positives: Any,
    protocol: Protocol,
    missing_queries: str,
    unknown_queries: str,
    max_rank: int,
) -> RetrievalResults:
    """Evaluate lists by the lists of their positives; the arguments are those of `evaluate_lists`."""
    # Where the truth is a mapping, its keys are the queries; one without a list retrieved nothing.
    positives = listed_where_true("positives", positives)
    queries = find_queries(retrieved, positives, missing_queries, unknown_queries)
    reader = ItemReader()
    truth, num_queries = read_truth(positives, gains, protocol, reader, queries)
    if isinstance(retrieved, Mapping):
        retrieved = [retrieved.get(key, ()) for key in queries.keys or ()]
    items = read_retrieved(retrieved, reader, num_queries)
    truth = truth.to(items.device)

    num_repeated = count_repeated(items)
    items, pairs = find_pairs_without_junk(items, truth, queries, reader)
    ranks, hits = rank_lists(items, pairs, truth, count_positives(truth, queries, num_queries, num_positives))
    ranking = ranking_of_lists(ranks, _query_numbers(queries, items))
    setup = Setup("stable", _NO_SIMILARITY, lists=True, cut=True)
    results = summarize_lists(ranking, items, hits, protocol, setup, max_rank=max_rank)
    results = replace(results, list_counts=ListCounts(num_repeated=num_repeated))
    results_made(results, ListedSamples(items, hits, truth, reader))
    if not results.counts.valid:  # of cut lists nothing else follows from ranks
        results_made(ranking, RankedSamples(protocol, has_lists=True))
    return _with_names(results, queries, reader)


def _evaluate_by_labels(
    items: Entries,
    queries: ListQueries,
    arrays: Mapping[str, Any],
    samples: RankedSamples,
    reader: ItemReader,
    *,
    self_index: Any,
    max_rank: int,
) -> RetrievalResults:
    """Evaluate lists under the labels of their queries and items, by argument; `samples` have the protocol."""
    protocol = samples.protocol
    labels = Labels.from_arguments(arrays, protocol, items.device, self_index=self_index)
    check_own_places(protocol, labels.self_index, len(items))
    labels.check(protocol)
    num_repeated = count_repeated(items)

    ranking, listed, num_candidates = _rank_by_labels(items, queries, labels, protocol, reader)
    cmc_ranking = None
    if protocol.cmc_same_camera is not None:
        cmc_ranking, *_ = _rank_by_labels(items, queries, labels, protocol.for_cmc, reader)

    # Lists are short up to the largest cutoff of the reported numbers, unless all of these read whole lists.
    num_short = 0
    cutoffs = [k for _, k in map(parse_report, protocol.reports)]
    cutoff = max(filter(None, [*cutoffs, protocol.k]), default=None)
    if cutoff is not None:
        num_left = (listed.items >= 0).sum(1)
        num_short = int((num_left < num_candidates.clamp(max=cutoff)).sum())
    results = summarize_lists(
        ranking,
        listed.items,
        listed.hits,
        protocol,
        replace(Setup.of("stable", _NO_SIMILARITY, None, ranking.labels), cut=True),
        max_rank=max_rank,
        gallery_labels=one_number_each(labels.gallery),
        cmc_ranking=cmc_ranking,
    )
    results = replace(results, list_counts=ListCounts(num_short, cutoff, num_repeated))
    results_made(results, listed)
    num_gallery = None
    if labels.gallery:
        first_label, *_ = labels.gallery.values()
        num_gallery = len(first_label)
    results_made(ranking, replace(samples, labels=labels, num_gallery=num_gallery))
    return _with_names(results, queries, reader)


def _rank_by_labels(
    items: Entries, queries: ListQueries, labels: Labels, protocol: Protocol, reader: ItemReader
) -> tuple[Ranking, ListedSamples, Int[Tensor, " queries"]]:
    """Rank the positives of lists under the rules of a protocol; also return the numbers of candidates."""
    rules = labels.names.rules_by_number(protocol.relevance_options)
    relevance = relevance_of(labels.query, labels.gallery, rules, labels.self_index, None)
    items, truth, num_candidates = judge(items, relevance)
    items, pairs = find_pairs_without_junk(items, truth, queries, reader)
    num_positives = truth.query[truth.is_right].bincount(minlength=len(items))
    ranks, hits = rank_lists(items, pairs, truth, num_positives, all_are_judged=True)
    query_labels = one_number_each(labels.query)
    ranking = Ranking(
        ranks,
        relevance.counts(num_positives),
        query_index=_query_numbers(queries, items),
        query_identities=query_labels.get("identities"),
        query_cameras=query_labels.get("cameras"),
        labels=names_of_labels(labels.query),
        names=labels.names,
    )
    return ranking, ListedSamples(items, hits, truth, reader), num_candidates


def _query_numbers(queries: ListQueries, items: Entries) -> Int[Tensor, " queries"]:
    """Return the numbers of the queries in the results."""
    numbers = range(len(items)) if queries.numbers is None else queries.numbers
    return torch.tensor(numbers, dtype=torch.int64, device=items.device)


def _with_names(results: RetrievalResults, queries: ListQueries, reader: ItemReader) -> RetrievalResults:
    """Return results with the names of queries and items, where lists have names."""
    results = replace(results, query_names=queries.names, gallery_names=tuple(reader.names) or None)
    if reader.unnumbered:
        # Items are numbered when a user reads the lists or the names, which is seldom.
        number_lists = partial(reader.number_lists, results.rank_lists)
        vars(results).update(rank_lists=number_lists, gallery_names=reader.all_names)
    return results


def ranking_of_lists(ranks: PositiveRanks, query_index: Tensor, **query_labels: Any) -> Ranking:
    """Return the ranking for the ranks of positives in lists; a query with a positive, retrieved or not, is valid."""
    total = ranks.num_queries
    valid = int((ranks.num_positives > 0).sum())
    counts = QueryCounts(total, valid=valid, junk=0, not_in_gallery=total - valid, same_camera_only=0)
    return Ranking(ranks, counts, query_index, **query_labels)


def summarize_lists(
    ranking: Ranking,
    items: Tensor,
    hits: Tensor,
    protocol: Protocol,
    setup: Setup,
    *,
    max_rank: int,
    scores: Tensor | None = None,
    gallery_labels: LabelValues | None = None,
    cmc_ranking: Ranking | None = None,
) -> RetrievalResults:
    """Return the results for a ranking of lists.

    Args:
        ranking: ranks of the positives.
        items: the lists, -1 at padding.
        hits: mask of the entries that are positives.
        protocol: of the evaluation.
        setup: of the evaluation.
        max_rank: length of the CMC curve.
        scores: of the entries; None for minus the rank.
        gallery_labels: labels of the gallery items, one number each.
        cmc_ranking: the ranking for the CMC, if it has another camera rule.
    """
    results = summarize(ranking, protocol, setup, max_rank=max_rank, cmc_ranking=cmc_ranking)
    labels = {}
    for name, values in (gallery_labels or {}).items():
        if name in ("identities", "cameras"):
            labels[name] = functional.pad(values, (0, 1), value=-1)[items]  # -1 at padding
    cameras = labels.get("cameras")
    if scores is None:
        scores = (-1.0 - torch.arange(items.shape[1], device=items.device)).expand(items.shape)
    first_hit = hits.byte().argmax(1, keepdim=True)
    lacks_hit = ~hits.gather(1, first_hit)[:, 0]
    scores = scores.masked_fill(items < 0, torch.nan)

    def at_first_hit(values: Tensor, padding: float) -> Tensor:
        return values.gather(1, first_hit)[:, 0].masked_fill(lacks_hit, padding)

    lists = RankLists(
        query=torch.arange(ranking.ranks.num_queries, device=items.device),
        query_index=ranking.query_index,
        query_identities=ranking.query_identities,
        query_cameras=ranking.query_cameras,
        index=items,
        identities=labels.get("identities"),
        cameras=cameras,
        scores=scores,
        is_positive=hits,
        first_positive_rank=results.first_rank.masked_fill(lacks_hit, 0).long(),
        first_positive_index=at_first_hit(items, -1),
        first_positive_score=at_first_hit(scores, torch.nan),
        first_positive_camera=None if cameras is None else at_first_hit(cameras, -1),
    )
    return replace(results, rank_lists=lists)


def protocol_of_lists(
    protocol: _names.ProtocolName | Protocol | None, labels: Mapping[str, Any]
) -> _names.ProtocolName | Protocol:
    """Return the protocol of ranked lists: that of the caller; else that of `evaluate` for cameras, or "trec"."""
    if protocol is not None:
        return protocol
    has_cameras = all(labels.get(f"{side}_cameras") is not None for side in SIDES)
    return DEFAULT_PROTOCOL if has_cameras else "trec"
