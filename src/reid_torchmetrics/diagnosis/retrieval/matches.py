"""Labels that match nothing, with the reading in which they would match, and labels that match everything."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values, values_if
from reid_torchmetrics.diagnosis.spellings import READINGS
from reid_torchmetrics.functional.retrieval.relevance import find_near

from .case import MOST_QUERIES, RetrievalCase

FITS = 0.5
"""share of the queries that another reading must give a positive"""
LEAST_QUERIES, LEAST_CANDIDATES = 10, 40
"""queries, and candidates of each, that are needed: in less data negatives may be absent by chance"""
MOST_WITHOUT = 0.9
"""share of the queries that must lack negatives"""
COVERED = 0.75
"""share of the candidates within the radius, from which on the radius does not fit the positions"""
_BETTER = 3  # times the share of queries with a positive in the order at hand
_MOST_MERGED = 0.1  # share of the names of the gallery that may become equal to others
_LARGEST_DEGREE = 180


def reading_that_fits(case: RetrievalCase) -> str:
    """Return a sentence about a reading of labels in which most queries have a positive; an empty one if none fits."""
    if case.positions is not None:
        reading = position_reading_that_fits(*case.positions)
        return "" if reading is None else f" It seems that `positions` {reading}. Give both sides in one way."
    names = case.ranking.names.get("identities")
    if names is None or case.identities is None:
        return ""
    numbers = set(case.identities.tolist())
    query_names = [name for number, name in names.items() if number in numbers]
    gallery_names = [name for number, name in names.items() if number not in numbers]
    spelling = spelling_that_fits(query_names, gallery_names)
    return "" if spelling is None else f" Identities would match {spelling}. Write both sides in one way."


def spelling_that_fits(query_names: list[str], gallery_names: list[str]) -> str | None:
    """Return a spelling of names, as words with an example, in which most queries have a positive.

    Names must stay apart: a spelling that makes most of them equal fits always.
    """
    for words, read in READINGS.items():
        queries = dict(zip(read(query_names), query_names, strict=True))
        gallery = dict(zip(read(gallery_names), gallery_names, strict=True))
        common = queries.keys() & gallery.keys()
        are_apart = len(gallery) >= (1 - _MOST_MERGED) * len(gallery_names)
        if common and are_apart and len(common) >= FITS * len(query_names):
            name = min(common)
            return f"{words}, such as {queries[name]!r} and {gallery[name]!r}"
    return None


def position_reading_that_fits(
    query: Float[Tensor, "queries axes"], gallery: Float[Tensor, "gallery axes"], radius: float
) -> str | None:
    """Return what positions of two sides that have no pair within the radius seem to be; None if nothing fits."""
    if not len(query) or not len(gallery):
        return None
    if query.shape[1] == 1:
        first_query, first_item = float(query.min()), float(gallery.min())
        if _share_near(query - first_query, gallery - first_item, radius) >= FITS:
            return f"begin at {first_query:,g} in the queries and at {first_item:,g} in the gallery"
    if _fit_in_another_order(query, gallery, radius):
        return "have their axes in another order on one side"
    for side, positions, others in (("queries", query, gallery), ("gallery", gallery, query)):
        if bool(positions.abs().max() <= _LARGEST_DEGREE) and bool((others.abs().amin(0) > _LARGEST_DEGREE).any()):
            return f"are degrees, or have another origin, on the side of the {side}"
    return None


def have_few_positives(case: RetrievalCase) -> bool:
    """Return whether at least half of many queries have no item within the radius."""
    num_without = case.counts.not_in_gallery
    return case.protocol.radius is not None and num_without >= max(LEAST_QUERIES, case.counts.total / 2)


def find_exchanged_axes(case: RetrievalCase) -> Values | None:
    """Return the number of queries without a positive, if most have one in another order of the axes."""
    is_better = case.positions is not None and _fit_in_another_order(*case.positions)
    return values_if(is_better, num=case.counts.not_in_gallery, total=case.counts.total)


def _fit_in_another_order(query: Tensor, gallery: Tensor, radius: float) -> bool:
    """Return whether most queries are near a gallery item if their axes are exchanged, and far fewer if not."""
    share = _share_near(query.flip(1), gallery, radius)
    return share >= FITS and share >= _BETTER * _share_near(query, gallery, radius)


def _share_near(query: Tensor, gallery: Tensor, radius: float) -> float:
    """Return the share of queries, in a sample, with a gallery item within the radius."""
    _, num_near, _ = find_near(query[:: len(query) // MOST_QUERIES + 1], gallery, radius)
    return float((num_near > 0).double().mean())


def find_no_negatives(case: RetrievalCase) -> Values | None:
    """Return why nearly all queries may have no negative, or, by positions, few of them; None if they have others."""
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
