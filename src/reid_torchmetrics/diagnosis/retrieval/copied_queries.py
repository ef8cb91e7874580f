"""Queries that are also gallery items, and find their own copy first, so that the numbers are too good.

Copies from two runs of a network, from a normalized file, or in float16 are not equal to the bit. So a copy is a
positive that is very close to the query, while every other candidate is far. A model that gives one embedding to all
items of an identity has no such positive, nor has one that has collapsed.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import normalize

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional.retrieval.evaluation import Embeddings
from reid_torchmetrics.functional.retrieval.relevance import num_labels_of

from .case import RetrievalCase, Sample, cause

LEAST_QUERIES = 8
"""queries that must have a copy: fewer may be copies in the data set itself"""
CLOSE = 0.01
"""largest distance of a copy from its query, for unit vectors, as a share of that from the copy of another query"""
LEAD = 0.02
"""least difference of the scores of a copy and of the next candidate, as a share of its distance from the mean score"""
_MOST_DIFFERENT = 0.01  # difference of scores of two queries in both directions, as a share of their deviation


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

    Neither `self_index` nor lists are given. In a sample of the queries most, and at least {LEAST_QUERIES}, have a
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
        if num_copied < LEAST_QUERIES or 2 * num_copied <= share * int(is_searched.sum()):
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
