"""Rows about embeddings and scores: copied queries, repeated samples, rows never written, a reverse order, ties.

Files that were joined have samples that come again in one order, and files that were not filled have zero vectors.

If distances were passed as scores, or scores as distances, positives come last. They may also come late with a poor
model, for example one that recognizes cameras instead of persons; but only if the order is reversed, the opposite order
is good. Codes of few bits, rounded scores and collapsed embeddings have ties.

Queries that are also gallery items find their own copy first. Copies from two runs of a network, from a normalized
file, or in float16 are not equal to the bit. So a copy is a positive that is very close to the query, while every other
candidate is far. A model that gives one embedding to all items of an identity has no such positive, nor has one that
has collapsed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import normalize

from reid_torchmetrics.diagnosis.causes import Values, held, is_beyond_chance
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.evaluation import Embeddings
from reid_torchmetrics.functional.retrieval.measures import (
    average_precision,
    hit_rate_at,
    mean_over_identities,
    mean_over_queries,
)
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import num_labels_of, one_number_each
from reid_torchmetrics.functional.retrieval.scores import Rows

from .case import MOST_QUERIES, RetrievalCase, Sample, cause

LEAST_COPIED = 8
"""queries that must have a copy: fewer may be copies in the data set itself"""
CLOSE = 0.01
"""largest distance of a copy from its query, for unit vectors, as a share of that from the copy of another query"""
LEAD = 0.02
"""least difference of the scores of a copy and of the next candidate, as a share of its distance from the mean score"""
_MOST_DIFFERENT = 0.01  # difference of scores of two queries in both directions, as a share of their deviation
LEAST_IN_ORDER = 8
"""samples that must come again in one order: fewer may be twice in the data set itself"""
LEAST_SHARE = 0.5
"""share of pairs at the same distance with equal values in a column that must be equal altogether"""
LEAST_ZEROS = 8
"""mean length of the runs of zero vectors: those of a network are scattered"""
MOST_SORTED = 1 << 16
"""approximate number of values that are sorted; among more, those with a hash of one class are compared"""
_ODD_FACTOR = 0x61C8864680B583EB  # a product's high bits depend on all bits (Knuth, "Sorting and searching", 1973)


def have_themselves_first(case: RetrievalCase) -> bool:
    """Return whether most queries have a positive first."""
    return 2 * int((case.ranks.rank == 1).sum()) > case.counts.valid


@cause(
    message="Most queries have a copy of themselves in the gallery, an item of their identity with the same"
    " embedding up to rounding, and find it first. Pass `self_index`, which says where in the gallery each query"
    " is, and leaves it out; or, if the queries are the gallery, give all samples once, without a `gallery`, or in"
    " a metric without `is_query`.",
    suspect=have_themselves_first,
)
def copied_queries(case: RetrievalCase) -> Values | None:
    """Look for queries that are also gallery items.

    Neither `self_index` nor lists are given. In a sample of the queries most, and at least {LEAST_COPIED}, have a
    positive whose direction is at most {CLOSE} as far from theirs as that of another query's, and which leads the next
    candidate by {LEAD} of the distance from its score to the mean one. In a matrix, two queries have the same score
    with each other's best positive.
    """
    sample = case.sample
    if sample.problem.groups is not None:
        return None
    labels = sample.problem.labels
    # The copies are left out, or lists say what is right. Of samples with several labels few have the same ones.
    has_own_places = labels.self_index is not None and bool((labels.self_index >= 0).any())
    if has_own_places or case.samples.has_lists or num_labels_of(labels.query):
        return None
    best = sample.scores.masked_fill(~sample.is_positive, -torch.inf).argmax(1)
    is_best = torch.arange(sample.scores.shape[1], device=best.device) == best[:, None]
    is_copied = sample.leads(is_best, LEAD) & _are_copies(sample, best)
    # Copies on other processes are not seen here.
    num_gallery = sample.problem.source.shape[1]
    share = num_gallery / (case.samples.num_gallery or num_gallery)
    # A single positive may be close because the model is perfect; with two of them, the other one is far.
    num_positives = sample.is_positive.sum(1)
    for least in (1, 2):
        is_searched = num_positives >= least
        num_copied = len(best[is_copied & is_searched].unique())  # no item is a copy of two queries
        if num_copied < LEAST_COPIED or 2 * num_copied <= share * int(is_searched.sum()):
            return None
    return {}


def _are_copies(sample: Sample, best: Int[Tensor, " sampled"]) -> Bool[Tensor, " sampled"]:
    """Mark queries with a best positive in nearly their direction; in a matrix, with symmetric scores.

    If column c(i) of a matrix is a copy of query i for all i, the score of i with c(j) is that of j with c(i).
    """
    source = sample.problem.source
    if isinstance(source, Embeddings):
        items = best if sample.relevance.kept is None else sample.relevance.kept[best]
        query, item = (normalize(rows.float(), dim=1) for rows in (source.query.local.all(), source.gallery.at(items)))
        distance, other_distance = ((query - rows).norm(dim=1) for rows in (item, item.roll(1, 0)))
        is_close: Tensor = distance < CLOSE * other_distance
        return is_close
    scores = sample.scores[:, best].double()
    is_compared = sample.is_candidate[:, best] & (best[:, None] != best) & scores.isfinite()
    if not bool(is_compared.any()):
        return torch.zeros_like(best, dtype=torch.bool)
    difference = (scores - scores.T).abs().where(is_compared & is_compared.T, torch.nan)
    return difference.nanmedian(dim=1).values <= _MOST_DIFFERENT * scores[is_compared].std(correction=0)


def has_samples(case: RetrievalCase) -> bool:
    """Return whether the embeddings, or the matrix of scores, are known."""
    return case.samples.find_problem is not None


@cause(
    message="{samples} come twice, in one order, with equal embeddings and labels, and count twice. Was a file"
    " joined with itself, or filled up by a distributed sampler? Leave them out, or pass `index` to `update`, which"
    " counts a sample once.",
    suspect=has_samples,
    explained_by=("forgotten_reset", "gathered_samples", "padded_samples"),
)
def repeated_samples(case: RetrievalCase) -> Values | None:
    """Look for samples that come twice.

    At least {LEAST_IN_ORDER} queries or gallery items have the embeddings and labels of others, in the same order.
    Of more than {MOST_SORTED} samples, this is looked for in a part of about that size.
    """
    return _first_count(case, _count_repeated)


@cause(
    message="{samples} are zero vectors, one after the other: are they rows of an array that were never written?"
    " A zero vector is equally far from everything.",
    suspect=has_samples,
)
def zero_embeddings(case: RetrievalCase) -> Values | None:
    """Look for embeddings that were never written.

    Embeddings are zero vectors in runs of at least {LEAST_ZEROS} samples, and more than by chance.
    """
    has_embeddings = isinstance(case.problem.source, Embeddings)
    return _first_count(case, _count_unwritten) if has_embeddings else None


def _first_count(case: RetrievalCase, count: Callable[[Rows, Mapping[str, Tensor]], int]) -> Values | None:
    """Return a count of the queries or of the gallery items in words, the first one above 0."""
    problem = case.problem
    source, labels = problem.source, problem.labels
    if isinstance(source, Embeddings):
        query, gallery = source.query.local, source.gallery
    else:
        query, gallery = Rows([source.matrix]), Rows([source.matrix.T])
    sides = [("queries", query, labels.query)]
    if problem.groups is None and labels.self_index is None:
        sides.append(("gallery items", gallery, labels.gallery))
    for name, rows, labels_of_side in sides:
        num_counted = count(rows, labels_of_side) if rows.dimension else 0
        if num_counted:
            return {"samples": f"{num_counted} of {rows.size} {name}"}
    return None


def _count_repeated(rows: Rows, labels: Mapping[str, Tensor]) -> int:
    """Count rows that are, with their labels, the rows at a fixed distance before them."""
    # Equal values in one column, but 0, which a network may give to many samples, tell the distance.
    column = rows.column(rows.dimension // 2)
    hashes = (column.view(torch.int64) * _ODD_FACTOR) >> 40
    places = (hashes % (1 + rows.size // MOST_SORTED) == 0).nonzero()[:, 0]
    values, order = column[places].sort(stable=True)
    distances = places[order].diff()
    is_equal = (values[1:] == values[:-1]) & (values[1:] != 0) & (distances >= LEAST_IN_ORDER)
    distances = distances[is_equal]
    if len(distances) < LEAST_IN_ORDER:
        return 0
    distance = int(distances.mode().values)
    first = (column[distance:] == column[:-distance]).nonzero()[:, 0]
    num_pairs = len(first)
    first = first[:: max(1, num_pairs // MOST_QUERIES)]
    second = first + distance
    is_same = (rows.at(first) == rows.at(second)).all(1)
    for values in labels.values():
        is_same &= (values[first] == values[second]).view(len(first), -1).all(1)
    share = float(is_same.double().mean())
    if share < LEAST_SHARE or share * num_pairs < LEAST_IN_ORDER:
        return 0
    # A perfect model gives one embedding to all samples of an identity: then equal embeddings show nothing.
    counts = column.unique(return_counts=True)[1]
    num_identities = len(labels["identities"].unique(dim=0)) if "identities" in labels else 0
    chance = float((counts / rows.size).square().sum())
    is_lucky = len(counts) <= num_identities or not is_beyond_chance(num_pairs, rows.size - distance, chance)
    num_distinct = len(rows.at(first[is_same]).unique(dim=0))
    return 0 if is_lucky or num_distinct < LEAST_IN_ORDER else round(share * num_pairs)


def _count_unwritten(rows: Rows, _: Mapping[str, Tensor]) -> int:
    """Count zero vectors if they lie in long runs."""
    if bool(rows.column(rows.dimension // 2).all()):
        return 0
    is_zero = rows.norms(rows.dtype) == 0
    num_zeros = int(is_zero.sum())
    num_runs = int(is_zero.unique_consecutive().sum())
    # Zeros of a share p of all rows by chance have runs of 1 / (1 - p).
    are_long = num_zeros * (1 - num_zeros / rows.size) >= LEAST_ZEROS * num_runs
    return num_zeros if are_long else 0


LEAST_IDENTITIES = 20
"""number of identities of queries that is needed, as the queries of one identity are right or wrong together"""
LEAST_QUERIES = 100
"""number of queries that is needed if identities are not known"""
FEW_HITS = 0.5
"""bound for Rank-1, as a factor of that of a random order"""
GOOD, ODDS = 0.25, 20
"""Rank-1 of a good order, and its odds as a factor of the odds of a random order"""


def may_be_backwards(case: RetrievalCase) -> bool:
    """Return whether scores of the user's own seem to be in reverse order."""
    options = case.samples.options
    has_own_scores = case.matrix is not None or (options is not None and callable(options.similarity))
    return has_own_scores and seems_backwards(case.ranks, case.identities)


@cause(
    message="`{argument}` {problem}: right answers come last, and first in the opposite order. {remedy}",
    suspect=may_be_backwards,
)
def distances_as_scores(case: RetrievalCase) -> Values | None:
    """Look for distances that are passed as scores, or scores as distances, or a similarity that returns distances.

    There are queries of at least {LEAST_IDENTITIES} identities, or {LEAST_QUERIES} queries if identities are not known.
    Rank-1 is below {FEW_HITS} times the Rank-1 of a random order. The opposite order has a Rank-1 of at least {GOOD},
    with at least {ODDS} times the odds of a random order.
    """
    if not may_be_backwards(case):
        return None
    sample = case.sample
    identities = one_number_each(sample.problem.labels.query).get("identities")
    # A model that recognizes only cameras multiplies the odds of a random order by the number of cameras at most.
    rank_1, random_rank_1 = _rank_1(sample.ranks("pessimistic", are_opposite=True), identities)
    if rank_1 < GOOD or rank_1 * (1 - random_rank_1) < ODDS * random_rank_1 * (1 - rank_1):
        return None
    if case.matrix is None:
        remedy = "Higher must be closer, so return minus the distance."
        return {"argument": "similarity", "problem": "seems to return distances", "remedy": remedy}
    other = "distances" if case.matrix == "scores" else "scores"
    return {"argument": case.matrix, "problem": f"seem to be {other}", "remedy": f"Pass them as `{other}`."}


def seems_backwards(ranks: PositiveRanks, identities: Int[Tensor, " queries"] | None) -> bool:
    """Return whether Rank-1 is clearly below that of a random order. With few queries the answer is no."""
    is_valid = ranks.num_positives > 0
    num_answers, least = int(is_valid.sum()), LEAST_QUERIES
    if identities is not None:
        num_answers, least = len(identities[is_valid].unique()), LEAST_IDENTITIES
    if num_answers < least:
        return False
    rank_1, random_rank_1 = _rank_1(ranks, identities)
    return rank_1 < FEW_HITS * random_rank_1


def _rank_1(ranks: PositiveRanks, identities: Tensor | None) -> tuple[float, float]:
    """Return Rank-1, and that of a random order: means over identities, or over queries if these are not known."""
    is_valid = ranks.num_positives > 0
    hits = hit_rate_at(ranks, 1).where(is_valid, torch.nan)
    random_hits = (ranks.num_positives / ranks.num_candidates.double()).where(is_valid, torch.nan)
    if identities is None:
        identities = torch.arange(len(hits), device=hits.device)
    return float(mean_over_identities(hits, identities)), float(mean_over_identities(random_hits, identities))


FEW, FIRST = 0.25, 3
"""positives per query among the first items; with fewer, identities may be numbered in two ways"""
FAR_AHEAD = 0.2
"""least difference of the scores of the first identity and of the next one, as a share of its distance from the mean"""


@cause(
    message="Queries of {num} of {total} identities find an item of one other identity first, by far and always the"
    " same one: identities seem to be numbered in another way in the gallery. Give each one number on both sides.",
    suspect=lambda case: int((case.ranks.rank <= FIRST).sum()) < FEW * case.counts.valid,
)
def renumbered_identities(case: RetrievalCase) -> Values | None:
    """Look for identities that are numbered in two ways.

    Fewer than {FEW} positives per query are among the first {FIRST} items. In a sample of the queries, more identities
    than by luck have a partner, another identity of the gallery that comes first for them alone, before all others by
    {FAR_AHEAD} of the distance from its score to the mean one.
    """
    held("identities", case.identities)
    sample = case.sample
    identity = sample.problem.labels.query["identities"]
    other = case.labels.gallery["identities"]
    if sample.relevance.kept is not None:
        other = other[sample.relevance.kept]
    found = other[sample.scores.argmax(1)]
    is_sign = (found != identity) & sample.leads(other == found[:, None], FAR_AHEAD)
    pairs = torch.stack([identity, found])[:, is_sign].unique(dim=1)
    # Each identity that comes again in the pairs of a side takes one away.
    num = sum(len(side.unique()) for side in pairs) - pairs.shape[1]
    total = len(identity.unique())
    # Of forty random scores, the first one is so far ahead in two of five cases.
    return {"num": num, "total": total} if is_beyond_chance(num, total, 0.5) else None


@cause(
    message="`{argument}` of {infinite} rank pairs last, but as candidates that count. To leave pairs out pass"
    " `junk_pairs`, or labels with a rule such as `same_camera`.",
)
def infinite_scores(case: RetrievalCase) -> Values | None:
    """Look for infinite scores or distances that are meant to leave out pairs.

    A score is -inf, or a distance is inf.
    """
    if case.matrix is None or not bool((case.sample.scores[case.sample.is_candidate] == -math.inf).any()):
        return None
    return {"argument": case.matrix, "infinite": "-inf" if case.matrix == "scores" else "inf"}


MOST_TIED = 0.05
"""share of pairs of a positive and a negative that may tie without a warning"""
LEAST_PAIRS, QUERIES_PER_PART = 1000, 64
"""pairs of the average query, times the parts of 64 queries that a sample has; fewer show nothing"""


def ties_decide(case: RetrievalCase) -> bool:
    """Return whether no option orders equal scores, and some query has enough pairs for a sign."""
    if not case.samples.ties_are_open:
        return False
    ranks = case.ranks
    num_pairs = ranks.num_positives * (ranks.num_candidates - ranks.num_positives)
    num_parts = -(-min(len(num_pairs), MOST_QUERIES) // QUERIES_PER_PART)
    return bool((num_parts * num_pairs >= LEAST_PAIRS).any())


@cause(
    message="{share} of the pairs of a positive and a negative have equal scores, so that the order of equal scores"
    " decides the numbers: mean average precision of {queries} is {worst} where negatives go first"
    " (`ties='pessimistic'`, the default) and {best} where positives do ('optimistic'). Pass `ties` to choose, such"
    " as 'expected'.",
    suspect=ties_decide,
    explained_by=("zero_embeddings",),
)
def tied_pairs(case: RetrievalCase) -> Values | None:
    """Look for numbers that depend on the order of equal scores.

    Neither the caller nor the protocol sets `ties`, and in a sample more than a share of {MOST_TIED} of the pairs of a
    positive and a negative have equal scores. The average query has {LEAST_PAIRS} pairs, or fewer by the number of
    parts of {QUERIES_PER_PART} queries in the sample.
    """
    if not case.samples.ties_are_open:
        return None
    ranks = case.sample.ranks("expected")
    tied = ranks.tied
    assert tied is not None  # noqa: S101 - "expected" lists the groups with equal scores
    num_tied = int((tied.num_positives * tied.num_negatives).sum())
    num_pairs = int((ranks.num_positives * (ranks.num_candidates - ranks.num_positives)).sum())
    num_queries = len(case.sample.scores)
    num_parts = -(-num_queries // QUERIES_PER_PART)
    if num_pairs * num_parts < LEAST_PAIRS * num_queries or num_tied <= MOST_TIED * num_pairs:
        return None
    worst, best = case.sample.ranks("pessimistic"), case.sample.ranks("optimistic")
    return {
        "share": f"{num_tied / num_pairs:.0%}",
        "queries": counted(num_queries, "query"),
        "worst": f"{float(mean_over_queries(average_precision(worst))):.4f}",
        "best": f"{float(mean_over_queries(average_precision(best))):.4f}",
    }
