"""Labels that match nothing, with the reading in which they would match, and labels that match everything."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values, is_beyond_chance, values_if
from reid_torchmetrics.diagnosis.spellings import spelling_that_fits
from reid_torchmetrics.functional.retrieval.relevance import find_near

from .case import MOST_QUERIES, RetrievalCase, cause

FITS = 0.5
"""share of the queries that another reading must give a positive"""
LEAST_QUERIES, LEAST_CANDIDATES = 10, 40
"""queries, and candidates of each, that are needed: in less data negatives may be absent by chance"""
MOST_WITHOUT = 0.9
"""share of the queries that must lack negatives"""
COVERED = 0.75
"""share of the candidates within the radius, from which on the radius does not fit the positions"""
_BETTER = 3  # times the share of queries with a positive in the order at hand
_LARGEST_DEGREE = 180


def have_few_positives(case: RetrievalCase) -> bool:
    """Return whether at least half of the queries have no item of their label, of a few queries all."""
    counts = case.counts
    return counts.not_in_gallery >= max(LEAST_QUERIES if counts.valid else 1, counts.total / 2)


@cause(
    message="{num} of {total} queries have no positive in the gallery. {reading}. Write both sides in one way.",
    suspect=have_few_positives,
)
def unlike_labels(case: RetrievalCase) -> Values | None:
    """Look for labels of queries and gallery in two spellings, orders of axes or units.

    At least half of the queries have no item of their identity, or within the radius, and if others have a positive,
    at least {LEAST_QUERIES}. If names are read in another way, half of these have one, or a quarter where different
    things keep different names, which they must if others have a positive. Or positions of one side have another order
    of axes, another origin on a line, or are degrees.
    """
    if not have_few_positives(case):
        return None
    is_partial = case.counts.valid > 0
    has_names = case.protocol.radius is None
    reading = _spelling_of(case, is_partial) if has_names else _reading_of(*case.positions, is_partial)
    return values_if(reading, num=case.counts.not_in_gallery, total=case.counts.total, reading=reading)


def _spelling_of(case: RetrievalCase, is_partial: bool) -> str | None:
    """Return a sentence about a spelling in which most names of identities match; None if there is none."""
    names = case.ranking.names.get("identities")
    if names is None or case.identities is None:
        return None
    numbers, without = (set(part.tolist()) for part in (case.identities, case.identities[~case.is_valid]))
    query_names = [names[number] for number in names if number in without]
    gallery_names = [names[number] for number in names if number not in numbers]
    spelling = spelling_that_fits(query_names, gallery_names, is_close=is_partial)
    return None if spelling is None else f"Identities would match {spelling.words}"


def _reading_of(
    query: Float[Tensor, "queries axes"], gallery: Float[Tensor, "gallery axes"], radius: float, is_partial: bool
) -> str | None:
    """Return a sentence about what positions of two sides with few pairs within the radius seem to be."""
    if not len(query) or not len(gallery):
        return None
    if _fit_in_another_order(query, gallery, radius):
        return "It seems that `positions` have their axes in another order on one side"
    if is_partial:
        return None
    if query.shape[1] == 1:
        first_query, first_item = float(query.min()), float(gallery.min())
        if _share_near(query - first_query, gallery - first_item, radius) >= FITS:
            return f"`positions` begin at {first_query:,g} in the queries and at {first_item:,g} in the gallery"
    for side, positions, others in (("queries", query, gallery), ("gallery", gallery, query)):
        if bool(positions.abs().max() <= _LARGEST_DEGREE) and bool((others.abs().amin(0) > _LARGEST_DEGREE).any()):
            return f"`positions` are degrees, or have another origin, on the side of the {side}"
    return None


def _fit_in_another_order(query: Tensor, gallery: Tensor, radius: float) -> bool:
    """Return whether most queries are near a gallery item if their axes are exchanged, and far fewer if not."""
    share, share_as_given = _share_near(query.flip(1), gallery, radius), _share_near(query, gallery, radius)
    if share < FITS or share < _BETTER * share_as_given:
        return False
    return is_beyond_chance(share * len(query), len(query), share_as_given)


def _share_near(query: Tensor, gallery: Tensor, radius: float) -> float:
    """Return the share of queries, in a sample, with a gallery item within the radius."""
    _, num_near, _ = find_near(query[:: len(query) // MOST_QUERIES + 1], gallery, radius)
    return float((num_near > 0).double().mean())


@cause(
    message="Nearly all gallery items match nearly every query, so that no order can be wrong: {reason}.",
    explained_by=("positions_in_degrees",),
)
def no_negatives(case: RetrievalCase) -> Values | None:
    """Look for labels or a radius with which nearly everything matches.

    Of at least {LEAST_QUERIES} queries with at least {LEAST_CANDIDATES} candidates, a share of {MOST_WITHOUT} has no
    negative, or, by positions, positives are at least {COVERED} of the candidates.
    """
    ranks, radius = case.ranks, case.protocol.radius
    # Nearly always a sum is enough; most queries must have positives.
    if 3 * len(ranks.rank) < int(ranks.num_candidates.sum()):
        return None
    covered = 1.0 if radius is None else COVERED
    is_enough = case.is_valid & (ranks.num_candidates >= LEAST_CANDIDATES)
    num_covered = int((is_enough & (ranks.num_positives >= covered * ranks.num_candidates)).sum())
    if num_covered < max(LEAST_QUERIES, MOST_WITHOUT * int(is_enough.sum())):
        return None
    if bool((ranks.rank > ranks.num_candidates.max()).any()):  # lists were cut, and their candidates
        return None
    if radius is None:
        return {"reason": "do `identities` name a class, such as 'person'? Pass the label that tells items apart"}
    return {"reason": f"the `radius` is {radius:g}; are `positions` in kilometers? Pass both in one unit"}
