"""Rows about labels that match nothing, everything, or by mistake, and about positions that do not fit a radius."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import NotHeldError, Values, is_beyond_chance
from reid_torchmetrics.diagnosis.signs import share_of
from reid_torchmetrics.diagnosis.spellings import bare_camera, spelling_that_fits
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.retrieval.relevance import POSITIVES_BY_OPTION, number_of_name

from .case import MOST_QUERIES, RetrievalCase, cause, fact

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
_WORDS_FOR_UNKNOWN = (
    "unknown",
    "unidentified",
    "undefined",
    "missing",
    "none",
    "null",
    "nan",
    "na",
    "n/a",
    "<na>",
    "?",
)
"""names that data sets give to samples without an identity"""


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
    return {"num": case.counts.not_in_gallery, "total": case.counts.total, "reading": reading} if reading else None


def _spelling_of(case: RetrievalCase, is_partial: bool) -> str | None:
    """Return a sentence about a spelling in which most names of identities match; None if there is none."""
    names = case.ranking.names.get("identities")
    if names is None or case.identities is None:
        return None
    numbers, without = (set(part.tolist()) for part in (case.identities, case.identities[~case.is_valid]))
    query_names = [names[number] for number in names if number in without]
    gallery_names = [names[number] for number in names if number not in numbers]
    spelling = spelling_that_fits(query_names, gallery_names, is_close=is_partial)
    return None if spelling is None else f"Identities would match {spelling[0]}"


@cause(
    message="`cameras` have no name in common, so that no rule about them acts. If cameras are the same, such as"
    " {query!r} of queries and {gallery!r} of the gallery, write them alike.",
)
def unlike_cameras(case: RetrievalCase) -> Values | None:
    """Look for cameras of queries and gallery in two spellings.

    Names of cameras of one side are not on the other side, but some have the same number, alone or behind a word with
    the first letter c, or differ in case and in spaces around them alone.
    """
    names = case.ranking.names.get("cameras")
    if names is None or case.protocol.camera_map:
        return None
    labels = case.labels
    names = {**names, **labels.names["cameras"]}  # a stream keeps the names of its items by themselves
    query, gallery = labels.query["cameras"], labels.gallery["cameras"]
    if len(gallery) < (case.samples.num_gallery or 0):
        raise NotHeldError("cameras of all processes")
    if bool(torch.isin(query, gallery).any()):
        return None
    query_names = {bare_camera(names[number]): names[number] for number in query.unique().tolist()}
    for number in gallery.unique().tolist():
        query_name = query_names.get(bare_camera(names[number]))
        if query_name is not None:
            return {"query": query_name, "gallery": names[number]}
    return None


def _reading_of(
    query: Float[Tensor, "queries axes"], gallery: Float[Tensor, "gallery axes"], radius: float, is_partial: bool
) -> str | None:
    """Return a sentence about what positions of two sides with few pairs within the radius seem to be."""
    if not len(query) or not len(gallery):
        return None
    sampled = query[:: len(query) // MOST_QUERIES + 1]
    if _fit_in_another_order(sampled, gallery, radius):
        return "It seems that `positions` have their axes in another order on one side"
    if is_partial:
        return None
    if query.shape[1] == 1 and len(query) >= LEAST_QUERIES:
        first_query, first_item = float(query.min()), float(gallery.min())
        if _share_near(sampled - first_query, gallery - first_item, radius) >= FITS:
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
    """Return the share of queries with a gallery item within the radius."""
    _, num_near, _ = POSITIVES_BY_OPTION["radius"](query, gallery, radius)
    return share_of(num_near > 0)


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


@cause(
    message="`search_cameras` must hold cameras of the gallery; got {cameras}, in which no query has a candidate,"
    " so that the results are NaN.",
)
def missing_search_cameras(case: RetrievalCase) -> Values | None:
    """Look for a search in cameras that do not exist.

    No query has a candidate in the `search_cameras`.
    """
    searched = case.protocol.search_cameras
    has_samples = case.counts.total and case.samples.num_gallery
    return {"cameras": searched} if searched and has_samples and not bool(case.ranks.num_candidates.any()) else None


@cause(
    message="No query can be evaluated, so the result is {result}: of {sizes}, {reason}.",
    explained_by=("not_finite", "missing_search_cameras", "unlike_labels"),
)
def no_positives(case: RetrievalCase) -> Values | None:
    """Look for queries without a positive.

    No query has a positive in the gallery.
    """
    counts, num_gallery = case.counts, case.samples.num_gallery
    if counts.valid:
        return None
    of_updates = case.samples.has_updates
    if not counts.total and of_updates and num_gallery:
        reason = "none has a positive; pass `is_query=True` for the queries"
    elif not counts.total:
        reason = "none has a positive, as no sample was given"
    elif num_gallery == 0 and of_updates:
        reason = "none has a positive; pass `is_query=False` for the gallery"
    elif num_gallery == 0:
        reason = "none has a positive, as the gallery is empty"
    else:
        reason = (
            f"{counts.not_in_gallery} have no other item {_kin(case)} in the gallery that is searched,"
            f" {counts.same_camera_only} lost every positive to rules of cameras, sequences, clothes or other labels,"
            f" {counts.junk} are junk"
        )
    result = "NaN, or what `empty_target_action` counts" if counts.total else "NaN"
    sizes = counted(counts.total, "query")
    if num_gallery is not None:
        sizes += f" against {counted(num_gallery, 'gallery item')}"
    return {"result": result, "sizes": sizes, "reason": reason}


def _kin(case: RetrievalCase) -> str:
    """Describe the items that are positives of a query unless a rule drops them."""
    if case.samples.has_lists:
        return "of their lists"
    radius = case.protocol.radius
    return "of their identity" if radius is None else f"within {radius:g} of their position"


MOST_NUMBERS = 2
"""distinct negative identities; if there are more, they are ordinary identities"""
_LEAST_NUMBER = -999_999  # below it a number is an identity, such as a hash
_FROM_NAN = (-(1 << 31), -(1 << 63))  # values of NaN converted to an integer


@cause(
    message="`identities` hold {listed}, which usually means that a sample has no identity, but such samples match"
    " each other here. Pass `junk_identities=({junk})` to drop them from the gallery and to leave them out as"
    " queries.",
)
def unknown_identities(case: RetrievalCase) -> Values | None:
    """Look for samples without an identity that match each other.

    A query with an identity such as "unknown" has a positive; or a query with a negative number other than -1 has one,
    and at most {MOST_NUMBERS} identities are such numbers.
    """
    names = case.ranking.names.get("identities")
    if case.identities is None or (names is None and not bool((case.identities < -1).any())):
        return None
    matched = case.identities[case.is_valid].unique().tolist()
    if names is not None:
        unknown: list[Any] = _unknown_names(matched, names)
    else:
        unknown = _unknown_numbers(matched)
    listed = ", ".join(map(repr, unknown))
    return {"listed": listed, "junk": f"-1, {listed}"} if unknown else None


def _unknown_numbers(matched: list[int]) -> list[int]:
    """Return the negative numbers besides -1, where they are few among others."""
    negative = [number for number in matched if number < -1]
    has_others = any(number >= 0 for number in matched)
    if not has_others or len(negative) > MOST_NUMBERS:
        return []
    return [number for number in negative if number >= _LEAST_NUMBER or number in _FROM_NAN]


MOST_POSITIONS = 4096
"""number of positions of queries, and of gallery items, that are checked"""
LATITUDE, LONGITUDE = 90, 180
"""the largest values in degrees"""
_PART_OF_RADIUS = 100  # rounding by less than the radius divided by this is accepted


def has_radius(case: RetrievalCase) -> bool:
    """Return whether positions within a radius are positives."""
    return case.protocol.radius is not None


@fact(
    message="`positions` seem to be rounded to float32: the error is up to {error} at {largest}, and the `radius`"
    " is {radius}. Pass positions that were float64 from the start.",
    suspect=has_radius,
)
def rounded_positions(case: RetrievalCase) -> Values | None:
    """Look for positions that were rounded to float32.

    Positions are not whole numbers, all are exact in float32, and float32 rounds by more than a hundredth of the
    radius.
    """
    # Whole numbers, such as numbers of frames, are exact in float32, so they show nothing.
    values, radius = _values_and_radius(case)
    if values is None:
        return None
    largest = values.abs().amax(0)
    rounding = torch.finfo(torch.float32).eps * largest / 2
    are_rounded = bool((values == values.float()).all()) and bool((rounding > radius / _PART_OF_RADIUS).any())
    error, position = float(rounding.max()), float(largest.max())
    return {"error": f"{error:.2g}", "largest": f"{position:,.0f}", "radius": f"{radius:g}"} if are_rounded else None


@fact(
    message="`positions` seem to be degrees, as they are within 90 and 180, but the `radius` is {radius}. Pass both"
    " in one unit, such as meters of UTM.",
    suspect=has_radius,
    explained_by=("rounded_positions",),
)
def positions_in_degrees(case: RetrievalCase) -> Values | None:
    """Look for positions in degrees with a radius in meters.

    The radius is at least 1, and positions have two axes with values up to {LATITUDE} and {LONGITUDE}, which are far
    from 0 on one axis.
    """
    # On a plan of this size meters usually begin near 0 or lie around it; degrees of a region are far from 0 on some
    # axis. Degrees of the whole world look like meters on a plan, and are not detected.
    values, radius = _values_and_radius(case)
    if values is None or radius < 1 or values.shape[1] != 2:
        return None
    smaller, larger = sorted(values.abs().amax(0).tolist())
    spread = values.amax(0) - values.amin(0)
    are_far = (values.abs().amin(0) > spread) & (spread > 0)
    are_degrees = smaller <= LATITUDE and larger <= LONGITUDE and bool(are_far.any())
    return {"radius": f"{radius:g}"} if are_degrees else None


def _values_and_radius(case: RetrievalCase) -> tuple[Tensor | None, float]:
    """Return the first positions of queries and gallery, None if all are whole numbers, and the radius."""
    query, gallery, radius = case.positions
    values = torch.cat([query[:MOST_POSITIONS], gallery[:MOST_POSITIONS]])
    return None if bool((values == values.round()).all()) else values, radius


def _unknown_names(matched: list[int], names: Mapping[int, str]) -> list[str]:
    """Return the names of some identities that seem to say that a sample has no identity, in order.

    `names` are the names of this process; usual spellings are known by their hashes, too, for other processes.
    """
    spellings: dict[int, str] = {}
    for word in _WORDS_FOR_UNKNOWN:
        for name in (word, word.upper(), word.capitalize(), "NaN"):
            spellings[number_of_name(name)] = name
    matched_names = [names.get(number) or spellings.get(number, "") for number in matched]
    return sorted(name for name in matched_names if name.strip().casefold() in _WORDS_FOR_UNKNOWN)
