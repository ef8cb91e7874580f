"""Queries that are also gallery items, and find their own copy first, so that the numbers are too good.

Copies from two runs of a network, from a normalized file, or in float16 are not equal to the bit. So a copy is a
positive that is very close to the query, while every other candidate is far. A model that gives one embedding to all
items of an identity has no such positive, nor has one that has collapsed.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.evaluation import Embeddings
from reid_torchmetrics.functional.retrieval.relevance import num_labels_of

from .case import RetrievalCase, Sample, cause

LEAST_QUERIES = 8
"""queries that must have a copy: fewer may be copies in the data set itself"""
CLOSE, FAR = 0.01, 0.1
"""largest distance of a copy from its query, for unit vectors, and as a share of the distance of other candidates"""
_ROUNDING = 1e-4  # candidates that are closer to the query differ by rounding only
_LEAST_SPREAD = 0.1  # distance of the next candidate, as a share of the largest one; less in a perfect model
_MOST_DIFFERENT = 0.01  # difference of scores of two queries in both directions, as a share of their deviation
_LEAST_LEAD = 0.1  # lead of the best positive over the next candidate, as a share of the same deviation


def have_themselves_first(case: RetrievalCase) -> bool:
    """Return whether most queries have a positive first."""
    first_of_query = segments.starts(case.ranks.num_positives)[case.is_valid]
    return 2 * int((case.ranks.rank[first_of_query] == 1).sum()) > case.counts.valid


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
    positive that is at most {CLOSE} of their norm away from them, and at most {FAR} times as far as the next candidate,
    which is apart. In a matrix, two queries have the same score with each other's best positive.
    """
    sample = case.sample
    if sample is None or sample.problem.groups is not None or sample.scores.shape[1] < 2:
        return None
    labels = sample.problem.labels
    # The copies are left out, or lists say what is right. Of samples with several labels few have the same ones.
    has_own_places = labels.self_index is not None and bool((labels.self_index >= 0).any())
    if has_own_places or case.samples.has_lists or num_labels_of(labels.query):
        return None
    scores = sample.scores.masked_fill(~sample.is_positive, -torch.inf)
    best = scores.argmax(1)
    source = sample.problem.source
    is_copied = _are_close(sample, source, best) if isinstance(source, Embeddings) else _are_mirrored(sample, best)
    # Copies on other processes are not seen here.
    _, num_gallery = source.shape
    share = num_gallery / (case.samples.num_gallery or num_gallery)
    # A single positive may be close because the model is perfect; with two of them, the other one is far.
    num_positives = sample.is_positive.sum(1)
    for least in (1, 2):
        is_searched = num_positives >= least
        num_copied = len(best[is_copied & is_searched].unique())  # no item is a copy of two queries
        if num_copied < LEAST_QUERIES or 2 * num_copied <= share * int(is_searched.sum()):
            return None
    return {}


def _without(sample: Sample, best: Int[Tensor, " sampled"]) -> Float[Tensor, "sampled gallery"]:
    """Return the scores of the candidates but for the best positives; -inf in the place of others."""
    scores = sample.scores.masked_fill(~sample.is_candidate, -torch.inf)
    return scores.scatter(1, best[:, None], -torch.inf)


def _are_close(sample: Sample, source: Embeddings, best: Int[Tensor, " sampled"]) -> Bool[Tensor, " sampled"]:
    """Mark queries with a positive first and in nearly their direction, while the next candidate is in another one."""
    others = _without(sample, best)
    is_first = sample.scores.gather(1, best[:, None])[:, 0] >= others.amax(1)
    items = torch.cat([best, others.argmax(1)])
    if sample.relevance.kept is not None:
        items = sample.relevance.kept[items]
    directions = normalize(source.gallery.at(items).float(), dim=1).view(2, len(best), -1)
    query = normalize(source.query.local.all().float(), dim=1)
    own_distance, next_distance = (directions - query).norm(dim=2)
    least = max(_ROUNDING, _LEAST_SPREAD * float(torch.cdist(query, directions[0]).max()))
    is_far = (next_distance > least) & (own_distance <= FAR * next_distance)
    has_directions = query.any(1) & directions.any(2).all(0)
    is_copied: Tensor = is_first & is_far & (own_distance <= CLOSE) & has_directions
    return is_copied


def _are_mirrored(sample: Sample, best: Int[Tensor, " sampled"]) -> Bool[Tensor, " sampled"]:
    """Mark queries with scores that are symmetric in the queries and their best positives, as those of one set are.

    If column c(i) is a copy of query i for all i, the score of i with c(j) is that of j with c(i).
    """
    scores = sample.scores[:, best].double()
    next_scores = _without(sample, best).amax(1)
    is_compared = sample.is_candidate[:, best] & (best[:, None] != best) & scores.isfinite()
    if not bool(is_compared.any()):
        return torch.zeros_like(best, dtype=torch.bool)
    deviation = scores[is_compared].std(correction=0)
    difference = (scores - scores.T).abs().where(is_compared & is_compared.T, torch.nan)
    is_symmetric = difference.nanmedian(dim=1).values <= _MOST_DIFFERENT * deviation
    return is_symmetric & (scores.diagonal() - next_scores > _LEAST_LEAD * deviation)
