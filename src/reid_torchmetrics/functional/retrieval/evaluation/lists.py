"""Evaluate ranked lists that come from elsewhere: a vector index, a server, a run in TREC's form, a submission.

The truth is pairs of a query and an item; a pair is found in the matrix of lists by its key, query * items + item:

    retrieved  [[7, 4, 7]]     items of query 0 in the truth  4, 7     where the lists have them  [[1, 0, 1]]
                               first places                   1, 0     so ranks                   1, 2
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Int, Integer, Real
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.advice import RetrievalEvidence, advise_on_retrieval
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.functional.retrieval.ranking import Judgments, PositiveRanks, ranks_of_hits
from reid_torchmetrics.functional.retrieval.relevance import (
    QueryCounts,
    SideLabels,
    as_arguments,
    check_needed,
    find_relevance,
    num_labels_of,
    one_number_each,
    rules_by_number,
)
from reid_torchmetrics.functional.world import ALONE

from .ground_truth import listed_where_true
from .labeled_lists import LabeledLists, ListCounts, count_repeated, judge, read_labeled_lists, without
from .list_forms import MISSING_QUERIES, ItemReader, ListQueries, Lists, Truth, find_queries, read_retrieved, read_truth
from .problem import Labels
from .protocol import Protocol, ProtocolOptions
from .protocols import camera_rules_of, find_protocol, take_protocol
from .queries import check_own_places
from .rank_lists import RankLists
from .ranking import Ranking
from .ranking_options import SEVERAL_LABELS, Setup
from .results import RetrievalResults, summarize

Entries: TypeAlias = Int[Tensor, "queries longest"]
"""A number for each entry of the lists"""
ListLabels: TypeAlias = Real[Tensor, " _"] | _checks.IntegersOrNames | Mapping[Any, Any]
"""Labels in the order of the samples, or by their names"""
_ENTRIES_AT_A_TIME = 1 << 18  # of lists, looked up in one go: what that needs stays in the cache


class ListOptions(SideLabels, ProtocolOptions, total=False):
    """Further labels of both sides, and fields of the protocol to change."""


@with_typed_options(ListOptions)
@torch.no_grad()
def evaluate_lists(
    retrieved: Lists,
    positives: Lists | None = None,
    *,
    query_identities: ListLabels | None = None,
    gallery_identities: ListLabels | None = None,
    query_cameras: ListLabels | None = None,
    gallery_cameras: ListLabels | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    gains: Lists | None = None,
    num_positives: int | Tensor | _checks.Integers | Mapping[Any, int] | None = None,
    protocol: _names.ProtocolName | Protocol = "trec",
    missing_queries: _names.MissingQueries = "neg",
    unknown_queries: _names.UnknownQueries = "error",
    max_rank: int = 50,
    **options: Unpack[ListOptions],
) -> RetrievalResults:
    """Evaluate ranked lists that come from elsewhere, best first; they may be cut off.

    What is right is told by `positives`, or by labels of queries and gallery items, as in `evaluate`: then junk is
    taken out of the lists, and lists of the whole gallery have the numbers of `evaluate`.

    Positives that are not retrieved count: they add 0 to average precision, divided by all positives, and are beyond
    every cutoff. An item that a list repeats keeps its places and scores once; `results.list_counts` has the number of
    such entries, and of lists that are shorter than the reported cutoffs once junk is taken out. In the results
    `num_candidates` are the lengths of the lists, and `nearest` gives the lists, with minus the rank as score.

    Args:
        retrieved: for every query its items, ints or strings: a matrix of ints, as `search` of faiss returns it, where
            -1 is nothing; lists; or a mapping of queries, ints or strings, to lists. A mapping of items to scores in
            the place of a list is ordered as trec_eval 9 and pytrec_eval do: by falling score in float32, infinite
            where float32 overflows, then by the falling item as a string.
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
        self_index: for every query its own position in the gallery, or -1: it is taken out of the list.
        gains: grades of `positives`, where these are a matrix or lists, in the same form.
        num_positives: how many positives a query has, where not all are listed: one number, or one for each query.
        protocol: a name in `PROTOCOLS` or a `Protocol`.
        missing_queries: what becomes of a key of `positives` without a list: "neg", it retrieved nothing, or "skip",
            it is left out.
        unknown_queries: what becomes of a key of `retrieved` that `positives` lacks: "error", or "skip", it is left
            out as by trec_eval.
        max_rank: length of the CMC curve.
        options: further labels of both sides, such as `query_clothes` or `gallery_positions`, see `find_relevance`; and
            fields of the protocol to change, such as `reports=("map", "ndcg_10")` or `gain="exponential"`.

    Returns:
        Results in the order of `positives`, or of the labels. Keys that are ints are their `query_index`; keys that are
        strings are `query_names`, and items that are strings `item_names`, by the numbers in `nearest`.

    Raises:
        TypeError: an argument of the wrong type, ints in one place and strings in another.
        ValueError: other numbers of lists, queries that the truth lacks, items outside of the gallery or listed twice
            in the truth, scores that are NaN, grades that are not finite, options that do not fit, or that have no
            effect because their label is missing.
    """
    _checks.one_of("missing_queries", missing_queries, MISSING_QUERIES)
    _checks.one_of("unknown_queries", unknown_queries, _names.UnknownQueries)
    _checks.positive_int("max_rank", max_rank)
    arguments = [name for name in inspect.signature(evaluate_lists).parameters if name != "options"]
    _checks.known_arguments("evaluate_lists", options, arguments)
    chosen, further = take_protocol(protocol, options, lists=positives is not None, lists_argument="positives")
    if chosen.draw is not None:
        raise ValueError(f"`protocol` must draw no gallery, as lists are given; got {chosen.draw!r}.")
    labels: dict[str, Any] = {"query_identities": query_identities, "gallery_identities": gallery_identities}
    labels |= {"query_cameras": query_cameras, "gallery_cameras": gallery_cameras, **further}
    _check_beside(positives, {**labels, "self_index": self_index}, {"gains": gains, "num_positives": num_positives})
    if positives is not None and options.get("leave_one_out"):
        raise ValueError("`leave_one_out` must come with labels and `self_index`; got `positives`.")
    reader, retrieved = ItemReader(), _arrays.to_compute_device(retrieved)
    if positives is None:
        reasons = chosen.needed_labels | find_protocol(protocol).needed_by(options)
        check_needed(reasons, labels, "query_", "gallery_")
        missing_cameras = camera_rules_of(protocol, chosen) if query_cameras is None else None
        if chosen.needs_groups:
            raise ValueError(f"`positives` must be given under protocol {chosen.name!r}, which ranks groups; got none.")
        lists = read_labeled_lists(retrieved, labels, reader, missing_queries, unknown_queries)
        results, evidence = _evaluate_by_labels(lists, self_index, chosen, reader, max_rank=max_rank)
        advise_on_retrieval(replace(evidence, missing_cameras=missing_cameras), ALONE)
        return results
    # Where the truth is a mapping, its keys are the queries; one without a list retrieved nothing.
    positives = listed_where_true("positives", positives)
    queries = find_queries(retrieved, positives, missing_queries, unknown_queries)
    truth, num_queries = read_truth(positives, gains, chosen, reader, queries)
    if isinstance(retrieved, Mapping):
        retrieved = [retrieved.get(key, ()) for key in queries.keys or ()]
    items = read_retrieved(retrieved, reader, num_queries)
    truth = Truth(*(None if values is None else values.to(items.device) for values in truth))  # type: ignore[arg-type]
    num_repeated = count_repeated(items)
    items, place = _places_in(items, truth, queries, reader)
    ranks, hits = _rank(items, place, truth, _count_positives(truth, queries, len(items), num_positives))
    known = {
        "query_index": _numbers_of(queries, items),
        "query_identities": None,
        "identities": None,
        "scores": _minus_rank(items),
    }
    setup = Setup("stable", "none, ranked lists", lists=True, cut=True)
    results = summarize_lists(ranks, items, hits, chosen, setup, max_rank=max_rank, **known)
    counts = ListCounts(num_repeated=num_repeated)
    return _with_names(replace(results, list_counts=counts), queries, reader)


def _evaluate_by_labels(
    lists: LabeledLists, self_index: Any, protocol: Protocol, reader: ItemReader, *, max_rank: int
) -> tuple[RetrievalResults, RetrievalEvidence]:
    """Evaluate lists under the labels of their queries and items; with evidence for advice."""
    items, queries = lists.items, lists.queries
    others: dict[str, Any] = {"junk_pairs": None, "ground_truth": None}
    labels = Labels.of_sides(lists.labels, self_index, protocol, items.device, **others)
    check_own_places(protocol, labels.self_index, len(items))
    num_repeated = count_repeated(items)
    of_queries, of_gallery = one_number_each(labels.query), one_number_each(labels.gallery)
    given = (*labels.query, *([SEVERAL_LABELS] if num_labels_of(labels.query) else []))

    def rank(ruled: Protocol) -> tuple[Ranking, Entries, Tensor, Tensor]:
        rules = rules_by_number(ruled.relevance_options, labels.names)
        named = as_arguments(labels.query, "query_", rules) | as_arguments(labels.gallery, "gallery_", rules)
        relevance = find_relevance(**named, self_index=labels.self_index, **rules)
        left, truth, num_candidates = judge(items, relevance)
        left, place = _places_in(left, truth, queries, reader)
        num_positives = truth.query[truth.is_right].bincount(minlength=len(items))
        ranks, hits = _rank(left, place, truth, num_positives, all_are_judged=True)
        known = of_queries.get("identities"), of_queries.get("cameras")
        ranking = Ranking(
            ranks,
            relevance.counts(num_positives),
            _numbers_of(queries, items),
            *known,
            labels=given,
            names=labels.names,
            may_be_unknown=relevance.may_be_unknown,
        )
        return ranking, left, hits, num_candidates

    ranking, left, hits, num_candidates = rank(protocol)
    for_cmc = ranking if protocol.for_cmc is protocol else rank(protocol.for_cmc)[0]
    cutoff = _largest_cutoff(protocol)
    num_left = (left >= 0).sum(1)
    is_short = torch.zeros_like(num_left, dtype=torch.bool)
    if cutoff is not None:
        is_short = num_left < num_candidates.clamp(max=cutoff)
    counts = ListCounts(int(is_short.sum()), cutoff, num_repeated)
    known: dict[str, Any] = {
        "query_index": ranking.query_index,
        "query_identities": ranking.query_identities,
        "identities": _labels_at(of_gallery.get("identities"), left),
        "query_cameras": ranking.query_cameras,
        "cameras": _labels_at(of_gallery.get("cameras"), left),
        "scores": _minus_rank(left),
    }
    setup = Setup.of("stable", "none, ranked lists", None, given, cut=True)
    results = _summarize(ranking, for_cmc, left, hits, protocol, setup, max_rank=max_rank, **known)
    return _with_names(replace(results, list_counts=counts), queries, reader), ranking.with_evidence()


def _largest_cutoff(protocol: Protocol) -> int | None:
    """The largest cutoff of the numbers that a protocol reports; None where they look at whole lists."""
    cutoffs = [k for _, k in map(parse_report, protocol.reports) if k]
    return max([*cutoffs, *([protocol.k] if protocol.k else [])], default=None)


def _labels_at(labels: Tensor | None, items: Entries) -> Tensor | None:
    """The labels of items, -1 at padding."""
    return None if labels is None else labels[items.clamp(min=0)].where(items >= 0, -1)


def _minus_rank(items: Entries) -> Tensor:
    return (-1.0 - torch.arange(items.shape[1], device=items.device)).expand(items.shape)


def _numbers_of(queries: ListQueries, items: Entries) -> Int[Tensor, " queries"]:
    """What users know a query by."""
    numbers = range(len(items)) if queries.numbers is None else queries.numbers
    return torch.tensor(numbers, dtype=torch.int64, device=items.device)


def _places_in(items: Entries, truth: Truth, queries: ListQueries, reader: ItemReader) -> tuple[Entries, Entries]:
    """The lists without the junk of the truth, and for every entry its pair of the truth, -1 for none."""
    place = _find_pairs(items, truth, queries, reader)
    if bool(truth.is_junk.any()):
        items, place = without((place >= 0) & truth.is_junk[place.clamp(min=0)], items, place)
    return items, place


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
    without_cameras = {"query_cameras": None, "cameras": None}
    return _summarize(ranking, ranking, items, hits, protocol, setup, max_rank=max_rank, **without_cameras, **known)


def _summarize(
    ranking: Ranking,
    for_cmc: Ranking,
    items: Tensor,
    hits: Tensor,
    protocol: Protocol,
    setup: Setup,
    *,
    max_rank: int,
    **known: Any,
) -> RetrievalResults:
    """Results of rankings of lists; `known` are fields of `RankLists`, as in `summarize_lists`, and cameras."""
    results = summarize(ranking, for_cmc, protocol, setup, max_rank=max_rank)
    total = ranking.ranks.num_queries
    first = hits.byte().argmax(1, keepdim=True)
    lacks_hit = ~hits.gather(1, first)[:, 0]
    known["scores"] = known["scores"].masked_fill(items < 0, torch.nan)
    cameras = known["cameras"]
    lists = RankLists(
        query=torch.arange(total, device=items.device),
        index=items,
        is_positive=hits,
        first_positive_rank=results.first_rank.masked_fill(lacks_hit, 0).long(),
        first_positive_index=items.gather(1, first)[:, 0].masked_fill(lacks_hit, -1),
        first_positive_score=known["scores"].gather(1, first)[:, 0].masked_fill(lacks_hit, torch.nan),
        first_positive_camera=None if cameras is None else cameras.gather(1, first)[:, 0].masked_fill(lacks_hit, -1),
        **known,
    )
    return replace(results, rank_lists=lists)


def _check_beside(positives: object, labels: Mapping[str, object], of_lists: Mapping[str, object]) -> None:
    """Raise unless there are positives or identities, and nothing that needs the other."""
    rule, came = ("with", "none") if positives is None else ("without", "both")
    for name, value in (of_lists if positives is None else labels).items():
        if value is not None:
            raise ValueError(f"`{name}` must come {rule} `positives`; got {came}.")
    has_labels = any(value is not None for name, value in labels.items() if name != "self_index")
    if positives is None and not has_labels:
        raise ValueError("`positives` must be given, or labels such as `query_identities`; got neither.")


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
    """The ranks of positives, and where they are in the lists.

    Labels judge every item; of items with grades those that have none are not judged.
    """
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
