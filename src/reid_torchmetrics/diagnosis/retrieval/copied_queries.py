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

from reid_torchmetrics.functional.retrieval.relevance import num_labels_of

from .case import RetrievalCase, Sample

LEAST_QUERIES = 8
"""queries that must have a copy: fewer may be copies in the data set itself"""
CLOSE, FAR = 0.01, 0.1
"""largest distance of a copy from its query, for unit vectors, and as a share of the distance of other candidates"""
_ROUNDING = 1e-4  # candidates that are closer to the query differ by rounding only
_AT_A_TIME = 16  # queries
_MOST_COMPARED = 8  # best positives, and best candidates, that are compared with a query
_MOST_DIFFERENT = 0.01  # difference of scores of two queries in both directions, as a share of their deviation
_LEAST_LEAD = 0.1  # lead of the best positive over the next candidate, as a share of the same deviation


def has_copied_queries(case: RetrievalCase) -> bool:
    """Return whether most queries seem to be gallery items that count as their own positives."""
    sample = case.sample
    if sample is None or sample.scores.shape[1] < 2:
        return False
    labels = sample.problem.labels
    # The copies are left out, or lists say what is right. Of samples with several labels few have the same ones.
    has_own_places = labels.self_index is not None and bool((labels.self_index >= 0).any())
    if has_own_places or case.has_lists or num_labels_of(labels.query):
        return False
    num_positives = sample.is_positive.sum(1)
    is_copied = _are_close(sample) if sample.query is not None else _are_mirrored(sample)
    # A single positive may be close because the model is perfect; with two of them, the other one is far.
    for is_searched in (num_positives >= 1, num_positives >= 2):
        num_copied = int((is_copied & is_searched).sum())
        if num_copied < LEAST_QUERIES or 2 * num_copied <= _share(case, sample) * int(is_searched.sum()):
            return False
    return True


def _share(case: RetrievalCase, sample: Sample) -> float:
    """Return the share of the gallery that this process has."""
    return sample.scores.shape[1] / max(case.num_gallery or 0, sample.scores.shape[1])


def _best(sample: Sample, mask: Bool[Tensor, "sampled gallery"], most: int) -> Tensor:
    scores = sample.scores.masked_fill(~mask, -torch.inf)
    return scores.topk(min(most, scores.shape[1]), dim=1).indices


def _are_close(sample: Sample) -> Bool[Tensor, " sampled"]:
    """Mark queries with a positive in nearly their direction, while other candidates are in clearly different ones."""
    positives = _best(sample, sample.is_positive, _MOST_COMPARED)
    candidates = _best(sample, sample.is_candidate, _MOST_COMPARED + 1)
    places = torch.cat([positives, candidates], dim=1)
    rows = torch.arange(len(places), device=places.device).split(_AT_A_TIME)
    distances = torch.cat([_distances(sample, places, part) for part in rows])
    to_positives = distances.masked_fill(~sample.is_positive.gather(1, places), torch.inf)
    own_distance, nearest = to_positives.min(1, keepdim=True)
    is_other = sample.is_candidate.gather(1, places) & (places != places.gather(1, nearest))
    next_distance = distances.masked_fill(~is_other, torch.inf).amin(1, keepdim=True)
    is_far = (next_distance > _ROUNDING) & (own_distance <= FAR * next_distance)
    is_copied: Tensor = (is_far & (own_distance <= CLOSE))[:, 0]
    return is_copied


def _are_mirrored(sample: Sample) -> Bool[Tensor, " sampled"]:
    """Mark queries with scores that are symmetric in the queries and their best positives, as those of one set are.

    If column c(i) is a copy of query i for all i, the score of i with c(j) is that of j with c(i).
    """
    best = _best(sample, sample.is_positive, 1)[:, 0]
    scores = sample.scores[:, best].double()
    others = sample.is_candidate.clone()
    others[torch.arange(len(best), device=best.device), best] = False
    next_scores = sample.scores.masked_fill(~others, -torch.inf).amax(1).double()
    is_compared = sample.is_candidate[:, best] & (best[:, None] != best) & scores.isfinite()
    if not bool(is_compared.any()):
        return torch.zeros_like(sample.queries, dtype=torch.bool)
    deviation = scores[is_compared].std(correction=0)
    difference = (scores - scores.T).abs().where(is_compared & is_compared.T, torch.nan)
    is_symmetric = difference.nanmedian(dim=1).values <= _MOST_DIFFERENT * deviation
    return is_symmetric & (scores.diagonal() - next_scores > _LEAST_LEAD * deviation)


def _distances(
    sample: Sample, places: Int[Tensor, "sampled places"], rows: Int[Tensor, " rows"]
) -> Float[Tensor, "rows places"]:
    """Return the distances of unit vectors of some queries and gallery items, or of the nearest members of groups."""
    groups = sample.problem.groups
    places = places[rows]
    num_members = torch.ones_like(places) if groups is None else groups.sizes[places]
    cell = torch.arange(places.numel(), device=places.device).repeat_interleave(num_members.flatten())
    members, query = sample.members_at(places.flatten()), sample.query
    assert members is not None and query is not None  # noqa: S101, PT018 - the source has embeddings
    queries = normalize(query[rows].float(), dim=1)[cell // places.shape[1]]
    distances = (normalize(members.float(), dim=1) - queries).norm(dim=1)
    nearest = torch.full((places.numel(),), torch.inf, device=distances.device)
    return nearest.scatter_reduce(0, cell, distances, "amin").view_as(places)
