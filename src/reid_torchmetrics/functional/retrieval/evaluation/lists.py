"""Evaluate ranked lists that come from elsewhere: a vector index, a server, a run in TREC's form, a submission.

The truth is pairs of a query and an item; a pair is found in the matrix of lists by its key, query * items + item:

    retrieved  [[7, 4, 7]]     items of query 0 in the truth  4, 7     where the lists have them  [[1, 0, 1]]
                               first places                   1, 0     so ranks                   1, 2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Int, Integer, Shaped
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics._signatures import takes
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import Judgments, PositiveRanks, ranks_of_hits
from reid_torchmetrics.functional.retrieval.relevance import LABELS, QueryCounts, find_relevance, number_names

from .list_forms import MISSING_QUERIES, ItemReader, ListQueries, Lists, Truth, find_queries, read_retrieved, read_truth
from .protocol import Protocol, ProtocolOptions
from .protocols import find_protocol
from .queries import check_own_places
from .rank_lists import RankLists
from .ranking import Ranking
from .ranking_options import Setup
from .results import RetrievalResults, summarize

Entries: TypeAlias = Int[Tensor, "queries longest"]
"""A number for each entry of the lists"""
_ENTRIES_AT_A_TIME = 1 << 18  # of lists, looked up in one go: what that needs stays in the cache


@takes(ProtocolOptions)
@torch.no_grad()
def evaluate_lists(
    retrieved: Lists,
    positives: Lists | None = None,
    *,
    query_identities: Shaped[Tensor, "queries ..."] | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
    gallery_identities: Shaped[Tensor, "gallery ..."] | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    gains: Lists | None = None,
    num_positives: int | Tensor | _checks.Integers | Mapping[Any, int] | None = None,
    protocol: _names.ProtocolName | Protocol = "trec",
    missing_queries: _names.MissingQueries = "neg",
    unknown_queries: _names.UnknownQueries = "error",
    max_rank: int = 50,
    **options: Unpack[ProtocolOptions],
) -> RetrievalResults:
    """Evaluate ranked lists that come from elsewhere, best first; they may be cut off.

    Positives that are not retrieved count: they add 0 to average precision, divided by all positives, and are beyond
    every cutoff. An item that a list repeats keeps its places and scores once. In the results `num_candidates` are the
    lengths of the lists, and `nearest` gives the lists, with minus the rank as score.

    Args:
        retrieved: for every query its items, ints or strings: a matrix of ints, as `search` of faiss returns it, where
            -1 is nothing; lists; or a mapping of queries, ints or strings, to lists. A mapping of items to scores in
            the place of a list is ordered as trec_eval 9 and pytrec_eval do: by falling score in float32, infinite
            where float32 overflows, then by the falling item as a string.
        positives: the right items of every query, in the same order or by the same keys, as a matrix, lists or
            mappings of items to grades: above 0, 0 for a judged negative, or below 0 for one that is not judged, as in
            trec_eval. Mappings of names to lists ("easy", "junk") need a protocol that says which are positives and
            which junk.
        query_identities: identities of the queries, in the place of `positives`; as in `evaluate`.
        gallery_identities: identities of the gallery; items are positions in it.
        self_index: for every query its own position in the gallery, or -1: it is taken out of the list.
        gains: grades of `positives`, where these are a matrix or lists, in the same form.
        num_positives: how many positives a query has, where not all are listed: one number, or one for each query.
        protocol: a name in `PROTOCOLS` or a `Protocol`.
        missing_queries: what becomes of a key of `positives` without a list: "neg", it retrieved nothing, or "skip",
            it is left out.
        unknown_queries: what becomes of a key of `retrieved` that `positives` lacks: "error", or "skip", it is left
            out as by trec_eval.
        max_rank: length of the CMC curve.
        options: fields of the protocol to change, such as `reports=("map", "ndcg_10")` or `gain="exponential"`.

    Returns:
        Results in the order of `positives`. Keys that are ints are their `query_index`; keys that are strings are
        `query_names`, and items that are strings `item_names`, by the numbers in `nearest`.

    Raises:
        TypeError: an argument of the wrong type, ints in one place and strings in another.
        ValueError: other numbers of lists, queries that the truth lacks, items outside of the gallery or listed twice
            in the truth, scores that are NaN, grades that are not finite, options that do not fit.
    """
    _checks.one_of("missing_queries", missing_queries, MISSING_QUERIES)
    _checks.one_of("unknown_queries", unknown_queries, _names.UnknownQueries)
    chosen = find_protocol(protocol).changed(options)
    if chosen.draw is not None:
        raise ValueError(f"`protocol` must draw no gallery, as lists are given; got {chosen.draw!r}.")
    labels = {"query_identities": query_identities, "gallery_identities": gallery_identities, "self_index": self_index}
    _check_beside(positives, labels, {"gains": gains, "num_positives": num_positives})
    reader, queries, query, gallery, retrieved = ItemReader(), ListQueries(), None, None, _arrays.at_work(retrieved)
    if positives is None:
        # Items are positions in the gallery.
        labels = number_names(labels, chosen.relevance_options)
        query, gallery, self_index = _arrays.as_tensors(*labels.values(), device=getattr(retrieved, "device", None))
        query = LABELS["identities"].check("query_identities", query)
        gallery = LABELS["identities"].check("gallery_identities", gallery)
        if chosen.needs_groups:
            raise ValueError(f"`positives` must be given under protocol {chosen.name!r}, which ranks groups; got none.")
        items = read_retrieved(retrieved, reader, len(query))
        items, truth = _judged_by_identities(items, query, gallery, self_index, chosen)
    else:
        # Where the truth is a mapping, its keys are the queries; one without a list retrieved nothing.
        queries = find_queries(retrieved, positives, missing_queries, unknown_queries)
        truth, num_queries = read_truth(positives, gains, chosen, reader, queries)
        if isinstance(retrieved, Mapping):
            retrieved = [retrieved.get(key, ()) for key in queries.keys or ()]
        items = read_retrieved(retrieved, reader, num_queries)
        truth = Truth(*(None if values is None else values.to(items.device) for values in truth))  # type: ignore[arg-type]
    place = _find_pairs(items, truth, queries, reader)
    if bool(truth.is_junk.any()):
        items, place = _without((place >= 0) & truth.is_junk[place.clamp(min=0)], items, place)
    num_right = _count_positives(truth, queries, len(items), num_positives)
    several = query is not None and query.ndim > 1
    ranks, hits = _rank(items, place, truth, num_right, all_are_judged=several)
    numbers = range(len(items)) if queries.numbers is None else queries.numbers
    is_one = query is not None and query.ndim == 1
    listed_identities = None
    if gallery is not None and is_one:
        listed_identities = gallery[items.clamp(min=0)].where(items >= 0, -1)
    known = {
        "query_index": torch.tensor(numbers, dtype=torch.int64, device=items.device),
        "query_identities": query if is_one else None,
        "identities": listed_identities,
        "scores": (-1.0 - torch.arange(items.shape[1], device=items.device)).expand(items.shape),
    }
    setup = Setup("stable", "none, ranked lists", lists=positives is not None, cut=True, several_labels=several)
    results = summarize_lists(ranks, items, hits, chosen, setup, max_rank=max_rank, **known)
    return _with_names(results, queries, reader)


def _with_names(results: RetrievalResults, queries: ListQueries, reader: ItemReader) -> RetrievalResults:
    results = replace(results, query_names=queries.names, item_names=tuple(reader.names) or None)
    if reader.unnumbered:  # until they are asked for, which is seldom
        lists = partial(_numbered, results.rank_lists, reader)
        vars(results).update(rank_lists=lists, item_names=reader.all_names)
    return results


def _numbered(lists: Any, reader: ItemReader) -> Any:
    return replace(lists, index=reader.numbered(lists.index))


def summarize_lists(
    ranks: PositiveRanks, items: Tensor, hits: Tensor, protocol: Protocol, setup: Setup, *, max_rank: int, **known: Any
) -> RetrievalResults:
    """Results of ranks in lists of items, -1 at padding, where `hits` marks positives.

    A query with a positive, retrieved or not, is valid. `known` are the fields of `RankLists` for scores, for numbers
    and identities of the queries, and for identities of the items.
    """
    _checks.positive_int("max_rank", max_rank)
    total, valid = ranks.num_queries, int((ranks.num_positives > 0).sum())
    counts = QueryCounts(total, valid=valid, junk=0, not_in_gallery=total - valid, same_camera_only=0)
    ranking = Ranking(ranks, counts, known["query_index"], known["query_identities"])
    results = summarize(ranking, ranking, protocol, setup, max_rank=max_rank)
    first = hits.byte().argmax(1, keepdim=True)
    lacks_hit = ~hits.gather(1, first)[:, 0]
    known["scores"] = known["scores"].masked_fill(items < 0, torch.nan)
    lists = RankLists(
        query=torch.arange(total, device=items.device),
        query_cameras=None,
        index=items,
        cameras=None,
        is_positive=hits,
        first_positive_rank=results.first_rank.masked_fill(lacks_hit, 0).long(),
        first_positive_index=items.gather(1, first)[:, 0].masked_fill(lacks_hit, -1),
        first_positive_score=known["scores"].gather(1, first)[:, 0].masked_fill(lacks_hit, torch.nan),
        first_positive_camera=None,
        **known,
    )
    return replace(results, rank_lists=lists)


def _check_beside(positives: object, labels: Mapping[str, object], of_lists: Mapping[str, object]) -> None:
    """Raise unless there are positives or identities, and nothing that needs the other."""
    rule, came = ("with", "none") if positives is None else ("without", "both")
    for name, value in (of_lists if positives is None else labels).items():
        if value is not None:
            raise ValueError(f"`{name}` must come {rule} `positives`; got {came}.")
    for name in ("query_identities", "gallery_identities"):
        if positives is None and labels[name] is None:
            raise ValueError(f"`{name}` must be given, or `positives`; got neither.")


def _judged_by_identities(
    items: Entries, query: Tensor, gallery: Tensor, self_index: Tensor | None, protocol: Protocol
) -> tuple[Entries, Truth]:
    """The lists without items that are junk for all, and the pairs of one identity, the query itself as junk."""
    protocol.check_relevance((), lists=False)
    relevance = find_relevance(query, gallery, self_index=self_index, **protocol.relevance_options)
    _checks.in_range("retrieved", items.flatten(), -1, len(gallery))
    check_own_places(protocol, self_index, len(query))
    grade = None
    if relevance.shared is not None:
        item, num_shared = relevance.shared.entries(slice(0, len(query)))
        of, grade = segments.numbers(relevance.run_length, len(item)), num_shared.double()
    else:
        of, entry = segments.runs(relevance.run_start, relevance.run_length)
        item = relevance.order[entry]
    if relevance.kept is not None:
        is_kept = torch.isin(torch.arange(len(gallery), device=of.device), relevance.kept)
        item, (items,) = relevance.kept[item], _without((items >= 0) & ~is_kept[items.clamp(min=0)], items)
    self_index = relevance.self_index
    is_junk = torch.zeros_like(item, dtype=torch.bool) if self_index is None else item == self_index[of]
    return items, Truth(of, item, is_junk, grade)


def _without(junk: Bool[Tensor, "queries longest"], *entries: Entries) -> list[Entries]:
    """Numbers of the entries that are no junk, moved together."""
    if not bool(junk.any()):
        return [*entries]
    order = junk.byte().argsort(dim=1, stable=True)
    is_gone = junk.gather(1, order)
    return [each.gather(1, order).masked_fill(is_gone, -1) for each in entries]


def _find_pairs(items: Entries, truth: Truth, queries: ListQueries, reader: ItemReader) -> Entries:
    """For every entry of the lists its pair of the truth, -1 for none."""
    pairs = torch.full_like(items, -1)
    if not len(truth.item):
        return pairs
    # Keys fit int64 unless items are huge numbers: then they are numbered.
    item, span = truth.item, int(truth.item.max()) + 1
    if span * len(items) >= 1 << 62:
        distinct, item = item.unique(return_inverse=True)
        span, entry = len(distinct), torch.searchsorted(distinct, items).clamp_(max=len(distinct) - 1)
        items = entry.masked_fill(distinct[entry] != items, -1)
    keys, order = (truth.query * span + item).sort()
    if bool((twice := keys[1:] == keys[:-1]).any()):
        pair = order[int(twice.nonzero()[0, 0])]
        came = f"item {reader.name(int(truth.item[pair]))} twice for query {queries.name(int(truth.query[pair]))}"
        raise ValueError(f"`positives` must list an item once for a query; got {came}.")
    for rows in segments.ranges(len(items), max(1, _ENTRIES_AT_A_TIME // items.shape[1])):
        block = items[rows]
        first = span * torch.arange(rows.start, rows.stop, device=items.device)[:, None]
        wanted = (block + first).masked_fill_((block < 0) | (block >= span), -1)
        place = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
        pairs[rows] = order[place].masked_fill_(keys[place] != wanted, -1)
    return pairs


def _rank(
    items: Entries, place: Entries, truth: Truth, num_positives: Tensor, *, all_are_judged: bool = False
) -> tuple[PositiveRanks, Tensor]:
    """The ranks of positives, and where they are in the lists; every item is judged by labels, but not by grades."""
    # Where a pair comes first in its list, which is as long as the matrix is wide; behind it if it never comes.
    num_queries, longest = items.shape
    query, column = (place >= 0).nonzero(as_tuple=True)
    first = torch.full_like(truth.item, longest)
    first.scatter_reduce_(0, place[query, column], column, "amin")

    def at(pairs: Tensor) -> Bool[Tensor, "queries longest"]:
        marks = torch.zeros_like(items, dtype=torch.bool)
        marks[truth.query[pairs], first[pairs]] = True
        return marks

    is_positive = at(truth.is_right & (first < longest))
    lengths = ((items >= 0) * torch.arange(1, longest + 1, device=items.device)).amax(1)
    judged = None
    if truth.grade is not None:
        # In the order of ranks: by query, then by first place.
        chosen = truth.is_right.nonzero()[:, 0]
        chosen = chosen[(truth.query[chosen] * (longest + 1) + first[chosen]).argsort(stable=True)]
        judged = Judgments(truth.grade[chosen])
        if not all_are_judged:
            is_negative = ~truth.is_junk & (truth.grade == 0)
            before = at(is_negative & (first < longest)).cumsum(1)
            before = before[truth.query[chosen], first[chosen].clamp(max=longest - 1)]
            num_negatives = torch.bincount(truth.query[is_negative], minlength=num_queries)
            judged = Judgments(truth.grade[chosen], before, num_negatives)
    rank = is_positive.nonzero()[:, 1] + 1
    return ranks_of_hits(rank, is_positive.sum(1), num_positives, lengths, judged), is_positive


def _count_positives(truth: Truth, queries: ListQueries, num_queries: int, declared: Any) -> Int[Tensor, " queries"]:
    """The numbers of positives that are listed, or declared numbers, at least as many."""
    listed = truth.query[truth.is_right].bincount(minlength=num_queries)
    declared = queries.values_of("num_positives", declared)
    if declared is None:
        return listed
    if truth.grade is not None:
        raise ValueError("`num_positives` must come with positives that have no grades; got grades.")
    if isinstance(declared, int):
        _checks.positive_int("num_positives", declared, least=0)
        declared = torch.full_like(listed, declared)
    counts = _checks.integer_labels("num_positives", declared, len(listed)).long().to(listed.device)
    for query in (counts < listed).nonzero()[:1, 0].tolist():
        came = f"{int(counts[query])} for query {queries.name(query)}, which has {int(listed[query])}"
        raise ValueError(f"`num_positives` must count the positives that are listed, too; got {came}.")
    return counts
