"""Re-identification retrieval from its definitions: one query at a time, Python lists, float64, no cleverness.

The package is compared with this module, so nothing here may come from the package.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

AP_RULES = ("rectangle", "trapezoid")
GROUPING_TIES = ("grouped", "expected")
AVERAGING_TIES = ("expected",)
"""those under which a measure is the mean over all orders of equal scores"""
TIE_ORDERS: dict[str, Callable[[list[int], list[int]], list[int]]] = {
    "pessimistic": lambda positive, negative: negative + positive,
    "optimistic": lambda positive, negative: positive + negative,
    "stable": lambda positive, negative: sorted(positive + negative),
    "grouped": lambda positive, negative: negative + positive,
    "expected": lambda positive, negative: negative + positive,
}
"""the order of a query's candidates before a stable sort by score, by the name of a tie policy"""


@dataclass(frozen=True)
class Candidates:
    """Positions in the gallery, in gallery order, by what they are to one query."""

    positive: list[int]
    negative: list[int]
    junk: list[int]


@dataclass(frozen=True)
class Evaluation:
    """One entry for each query. NaN stands where a query without positives has no value."""

    ranks: list[list[int]]
    num_candidates: list[int]
    average_precision: dict[str, list[float]]
    inverse_negative_penalty: list[float]
    first_rank: list[float]
    tied: list[list[tuple[int, int, int]]] | None = None
    """for each positive under `GROUPING_TIES`, what `tied_group` says"""

    def cmc(self, max_rank: int) -> list[float]:
        """Return the first-match CMC at the ranks 1 to `max_rank`."""
        return first_match_cmc(self.first_rank, max_rank)


def candidates(
    query_identity: int,
    gallery_identities: Sequence[int],
    query_camera: int | None = None,
    gallery_cameras: Sequence[int] | None = None,
    *,
    same_camera: str = "same_identity",
    junk_identities: Sequence[int] = (-1,),
    self_position: int = -1,
) -> Candidates:
    """Sort the gallery of one query into positives, negatives and junk.

    Args:
        query_identity: Identity of the query; 0 is an identity like any other.
        gallery_identities: Identity of each gallery item.
        query_camera: Camera of the query; without cameras none of the `same_camera` rules drops anything.
        gallery_cameras: Camera of each gallery item.
        same_camera: `"same_identity"` makes junk of the items with the query's identity and camera, `"all"` of every
            item of the query's camera, `"keep"` of none.
        junk_identities: Identities that are junk to every query.
        self_position: Where the query itself stands in the gallery, -1 for nowhere.
    """
    found = Candidates([], [], [])
    for position, identity in enumerate(gallery_identities):
        same_identity = identity == query_identity
        camera_matches = gallery_cameras is not None and gallery_cameras[position] == query_camera
        is_junk = (
            identity in junk_identities
            or position == self_position
            or (camera_matches and _camera_rule_drops(same_camera, same_identity=same_identity))
        )
        group = found.junk if is_junk else found.positive if same_identity else found.negative
        group.append(position)
    return found


def _camera_rule_drops(rule: str, *, same_identity: bool) -> bool:
    return {"same_identity": same_identity, "all": True, "keep": False}[rule]


def ranked_hits(
    scores: Sequence[float], positive: Sequence[int], negative: Sequence[int], ties: str = "pessimistic"
) -> list[bool]:
    """Sort the candidates by falling score and say for each rank whether it holds a positive.

    Python's sort keeps the order of equal scores, so the order before the sort is the tie policy.
    """
    before_sorting = TIE_ORDERS[ties](list(positive), list(negative))
    ranking = sorted(before_sorting, key=lambda position: -scores[position])
    positives = set(positive)
    return [position in positives for position in ranking]


def tied_group(
    scores: Sequence[float], positive: Sequence[int], negative: Sequence[int], score: float
) -> tuple[int, int, int]:
    """Return how many positives score higher, how many positives and how many negatives score just as much."""
    return (
        sum(scores[position] > score for position in positive),
        sum(scores[position] == score for position in positive),
        sum(scores[position] == score for position in negative),
    )


def positive_ranks(
    scores: Sequence[float], positive: Sequence[int], negative: Sequence[int], ties: str = "pessimistic"
) -> list[int]:
    """Return the ranks of the positives among the candidates, 1 for the first, ascending."""
    return ranks_of_hits(ranked_hits(scores, positive, negative, ties))


def ranks_of_hits(hits: Sequence[bool]) -> list[int]:
    """Return the 1-based places of the hits in a ranked list."""
    return [rank for rank, hit in enumerate(hits, start=1) if hit]


def average_precision(hits: Sequence[bool], rule: str = "rectangle", num_positives: int | None = None) -> float:
    """Walk down a ranked list and add up the area under precision over recall.

    Recall grows by 1 / `num_positives` at each hit. Above that step lies a rectangle as high as the precision there, or
    a trapezoid between it and the precision one rank earlier, which is 1 before the first rank.

    Args:
        hits: For each rank, whether it holds a positive.
        rule: `"rectangle"` or `"trapezoid"`.
        num_positives: How many positives there are, those that the list misses included; default: the hits.
    """
    num_positives = sum(hits) if num_positives is None else num_positives
    if num_positives == 0:
        return math.nan
    area, num_hits, precision_before = 0.0, 0, 1.0
    for rank, hit in enumerate(hits, start=1):
        num_hits += hit
        precision = num_hits / rank
        if hit:
            area += {"rectangle": precision, "trapezoid": (precision_before + precision) / 2}[rule] / num_positives
        precision_before = precision
    return area


def inverse_negative_penalty(hits: Sequence[bool]) -> float:
    """Return the share of positives in the list down to the last positive: num_positives / its rank."""
    ranks = ranks_of_hits(hits)
    return len(ranks) / ranks[-1] if ranks else math.nan


def first_rank(hits: Sequence[bool]) -> float:
    """Return the rank of the best positive."""
    ranks = ranks_of_hits(hits)
    return float(ranks[0]) if ranks else math.nan


def first_match_cmc(first_ranks: Sequence[float], max_rank: int) -> list[float]:
    """Return for k = 1 .. `max_rank` the share of queries, among those with a positive, with one in their first k."""
    found = [rank for rank in first_ranks if not math.isnan(rank)]
    if not found:
        return [math.nan] * max_rank
    return [sum(rank <= k for rank in found) / len(found) for k in range(1, max_rank + 1)]


def similarity(query: ArrayLike, gallery: ArrayLike, name: str = "cosine") -> NDArray[np.float64]:
    """Return the float64 scores [queries, gallery], higher is closer; a zero vector has cosine 0 with everything."""
    measure = SIMILARITIES[name]
    gallery = np.asarray(gallery, dtype=np.float64)
    return np.stack([measure(row, gallery) for row in np.asarray(query, dtype=np.float64)])


def _dot(query: NDArray[np.float64], gallery: NDArray[np.float64]) -> NDArray[np.float64]:
    return (gallery * query).sum(axis=1)


def _cosine(query: NDArray[np.float64], gallery: NDArray[np.float64]) -> NDArray[np.float64]:
    norms = np.sqrt((query * query).sum()) * np.sqrt((gallery * gallery).sum(axis=1))
    return np.divide(_dot(query, gallery), norms, out=np.zeros_like(norms), where=norms > 0)


def _minus_distance(query: NDArray[np.float64], gallery: NDArray[np.float64]) -> NDArray[np.float64]:
    difference = gallery - query
    return -np.sqrt((difference * difference).sum(axis=1))


def _minus_differing_signs(query: NDArray[np.float64], gallery: NDArray[np.float64]) -> NDArray[np.float64]:
    return -((gallery > 0) != (query > 0)).sum(axis=1).astype(np.float64)


SIMILARITIES = {"cosine": _cosine, "euclidean": _minus_distance, "dot": _dot, "hamming": _minus_differing_signs}
"""the scores of one query [D] against a gallery [gallery, D], by the name of a similarity"""


def evaluate(
    scores: ArrayLike,
    query_identities: ArrayLike,
    gallery_identities: ArrayLike,
    query_cameras: ArrayLike | None = None,
    gallery_cameras: ArrayLike | None = None,
    *,
    same_camera: str = "same_identity",
    junk_identities: Sequence[int] = (-1,),
    ties: str = "pessimistic",
    self_index: ArrayLike | None = None,
) -> Evaluation:
    """Rank and measure every query of a score matrix [queries, gallery], higher is closer.

    Args:
        scores: Anything numpy takes as an array; so are the labels.
        query_identities: Identity of each query.
        gallery_identities: Identity of each gallery item.
        query_cameras: Camera of each query.
        gallery_cameras: Camera of each gallery item.
        same_camera: As in `candidates`.
        junk_identities: As in `candidates`.
        ties: `"pessimistic"`: a negative with the same score goes first, `"optimistic"`: the positive goes first,
            `"stable"`: gallery order. Under `GROUPING_TIES` ranks and measures are the pessimistic ones.
        self_index: Where each query stands in the gallery (leave-one-out), -1 for nowhere.
    """
    identities = np.asarray(query_identities).tolist()
    gallery = np.asarray(gallery_identities).tolist()
    cameras = [None] * len(identities) if query_cameras is None else np.asarray(query_cameras).tolist()
    others = None if gallery_cameras is None else np.asarray(gallery_cameras).tolist()
    selves = [-1] * len(identities) if self_index is None else np.asarray(self_index).tolist()
    lists, tied = [], []
    rows = np.asarray(scores, dtype=np.float64).tolist()
    for row, identity, camera, itself in zip(rows, identities, cameras, selves, strict=True):
        found = candidates(
            identity,
            gallery,
            camera,
            others,
            same_camera=same_camera,
            junk_identities=junk_identities,
            self_position=itself,
        )
        lists.append(ranked_hits(row, found.positive, found.negative, ties))
        best_first = sorted((row[position] for position in found.positive), reverse=True)
        if ties in GROUPING_TIES:
            tied.append([tied_group(row, found.positive, found.negative, score) for score in best_first])
    return replace(_measure(lists), tied=tied if ties in GROUPING_TIES else None)


def _measure(lists: list[list[bool]]) -> Evaluation:
    return Evaluation(
        ranks=[ranks_of_hits(hits) for hits in lists],
        num_candidates=[len(hits) for hits in lists],
        average_precision={rule: [average_precision(hits, rule) for hits in lists] for rule in AP_RULES},
        inverse_negative_penalty=[inverse_negative_penalty(hits) for hits in lists],
        first_rank=[first_rank(hits) for hits in lists],
    )
