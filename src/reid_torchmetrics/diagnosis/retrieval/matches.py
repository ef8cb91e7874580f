"""Labels that match nothing, with the reading in which they would match, and labels that match everything."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

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
_MOST_MERGED = 0.1  # share of the names of a side that may become equal to others


def _in_lower_case(name: str) -> str:
    return " ".join(name.split()).casefold()


def _as_number(name: str) -> str:
    try:
        return str(float(name))
    except ValueError:
        return _in_lower_case(name)


def _without_folder(name: str) -> str:
    return re.split(r"[\\/]", _in_lower_case(name))[-1].partition(".")[0]


def _number_at_end(name: str) -> str:
    digits = re.search(r"(\d+)\W*$", name)
    return name if digits is None else digits[1].lstrip("0")


_SPELLINGS: dict[str, Callable[[str], str]] = {
    "in lower case and without spaces around them": _in_lower_case,
    "as numbers": _as_number,
    "without their folder and ending": _without_folder,
    "by the number at their end": _number_at_end,
}


def spelling_that_fits(query_names: list[str], gallery_names: list[str]) -> str | None:
    """Return a spelling of names, as words with an example, in which most queries have a positive.

    Names of one side must stay apart: a spelling that makes most of them equal fits always.
    """
    for words, spell in _SPELLINGS.items():
        spelled_queries = {spell(name): name for name in query_names}
        spelled_gallery = {spell(name): name for name in gallery_names}
        common = spelled_queries.keys() & spelled_gallery.keys()
        num_names = len(query_names) + len(gallery_names)
        is_apart = len(spelled_queries) + len(spelled_gallery) >= (1 - _MOST_MERGED) * num_names
        if is_apart and common and len(common) >= FITS * len(spelled_queries):
            name = min(common)
            return f"{words}, such as {spelled_queries[name]!r} and {spelled_gallery[name]!r}"
    return None


def _is_in_degrees(positions: Float[Tensor, "samples axes"]) -> bool:
    """Return whether two coordinates may be a latitude and a longitude."""
    if positions.shape[1] != 2 or bool((positions == positions.round()).all()):
        return False
    return bool(positions.abs().amax() <= 180 and positions.abs().amax(0).amin() <= 90)


def position_reading_that_fits(
    query: Float[Tensor, "queries axes"], gallery: Float[Tensor, "gallery axes"], radius: float
) -> str | None:
    """Return what positions of two sides that have no pair within the radius seem to be; None if nothing fits."""
    if not len(query) or not len(gallery):
        return None
    readings: dict[str, Tensor] = {
        "are in kilometers for the queries and in meters in the gallery": query * 1000,
        "are in meters for the queries and in kilometers in the gallery": query / 1000,
    }
    if query.shape[1] == 1:
        first_query, first_item = query.min().item(), gallery.min().item()
        words = f"begin at {first_query:,g} in the queries and at {first_item:,g} in the gallery"
        readings = {words: query - first_query + first_item}
    elif fit_in_another_order(query, gallery, radius):
        return "have their axes in another order on one side"
    for words, values in readings.items():
        share, share_of_pairs = _shares_near(values, gallery, radius)
        if share >= FITS > share_of_pairs:
            return words
    for words, one, other in (("queries", query, gallery), ("gallery", gallery, query)):
        if _is_in_degrees(one) and bool((other.abs().amin(0) > 180).any()):
            return f"are degrees on the side of the {words} and meters on the other side"
    return None


def fit_in_another_order(
    query: Float[Tensor, "queries axes"], gallery: Float[Tensor, "gallery axes"], radius: float
) -> bool:
    """Return whether most queries are near a gallery item if their axes are exchanged, and far fewer if not."""
    if not len(query) or not len(gallery) or query.shape[1] == 1:
        return False
    share, _ = _shares_near(query, gallery, radius)
    other_share, _ = _shares_near(query.flip(1), gallery, radius)
    return other_share >= max(FITS, _BETTER * share)


def _shares_near(query: Tensor, gallery: Tensor, radius: float) -> tuple[float, float]:
    """Return the share of queries with a gallery item within the radius, and of pairs within it, in a sample."""
    size = min(len(query), MOST_QUERIES)
    query = query[torch.arange(size, device=query.device) * len(query) // size]
    _, num_near, _ = find_near(query, gallery, radius)
    return float((num_near > 0).double().mean()), float(num_near.double().mean()) / len(gallery)


def reading_that_fits(case: RetrievalCase) -> str:
    """Return a sentence about a reading of labels in which most queries have a positive; an empty one if none fits."""
    if case.positions is not None:
        reading = position_reading_that_fits(*case.positions)
        return "" if reading is None else f" It seems that `positions` {reading}. Give both sides in one way."
    names = case.names.get("identities")
    if names is None or case.identities is None:
        return ""
    numbers = set(case.identities.tolist())
    query_names = [name for number, name in names.items() if number in numbers]
    gallery_names = [name for number, name in names.items() if number not in numbers]
    spelling = spelling_that_fits(query_names, gallery_names)
    return "" if spelling is None else f" Identities would match {spelling}. Write both sides in one way."


def lack_negatives(case: RetrievalCase) -> bool:
    """Return whether nearly all queries have no negative, or, by positions, at most as many as positives."""
    ranks = case.ranks
    # Nearly always a sum is enough; most queries must have positives.
    if 3 * len(ranks.rank) < int(ranks.num_candidates.sum()):
        return False
    is_enough = case.is_valid & (ranks.num_candidates >= LEAST_CANDIDATES)
    num_queries = int(is_enough.sum())
    if num_queries < LEAST_QUERIES:
        return False
    if bool((ranks.rank > ranks.num_candidates.max()).any()):  # a list was cut, and its candidates with it
        return False
    covered = 1.0 if case.protocol.radius is None else COVERED
    is_covered = is_enough & (ranks.num_positives >= covered * ranks.num_candidates)
    return int(is_covered.sum()) >= MOST_WITHOUT * num_queries


def reason_for_no_negatives(case: RetrievalCase) -> str:
    """Return why items match nearly all queries, in words."""
    if case.positions is not None:
        _, gallery, radius = case.positions
        extent = float((gallery.amax(0) - gallery.amin(0)).max()) if len(gallery) else 0.0
        return (
            f"the `radius` is {radius:g}, and positions of the gallery extend over {extent:.3g}. Are they in"
            " kilometers, or normalized? Pass both in one unit"
        )
    if case.identities is not None:
        num_identities = len(case.identities[case.is_valid].unique())
        words = "one identity" if num_identities == 1 else f"{num_identities} identities"
        return f"they have {words} only. Is it a class, such as 'person'? Pass the label that tells items apart"
    return "their labels tell no items apart. Pass labels that do"
