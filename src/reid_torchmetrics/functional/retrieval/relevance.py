"""Who is positive, negative or junk: the labels of a retrieval problem, without any score.

Junk is removed before ranking and never occupies a rank. What is left are a query's candidates: its positives (the
candidates with its identity) and its negatives (all others).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks

SAME_CAMERA_RULES = {
    "same_identity": "drop the gallery items with the query's identity and camera (Market-1501)",
    "all": "drop every gallery item of the query's camera (open-reid's CUHK03)",
    "keep": "drop nothing",
}


@dataclass(frozen=True)
class QueryCounts:
    """How many queries can be evaluated, and why the others cannot."""

    total: int
    valid: int
    """queries with at least one positive"""
    junk: int
    """queries whose own identity is a junk identity"""
    not_in_gallery: int
    """queries whose identity no other gallery item has"""
    same_camera_only: int
    """queries that lost every positive to the camera rule"""
    not_ranked: int = 0
    """queries that were not ranked at all, because embeddings are not finite; then none of the above is known"""


@dataclass(frozen=True)
class TileRelevance:
    """The gallery items with the identity of each query of a tile, padded to the longest row.

    Everything else in the gallery is a negative, except what `Relevance.dropped` marks.
    """

    columns: Int[Tensor, "queries padded"]
    """positions in the kept gallery; ascending; padding repeats some valid position"""
    same_identity: Bool[Tensor, "queries padded"]
    """False at padding"""
    positive: Bool[Tensor, "queries padded"]
    num_candidates: Int[Tensor, " queries"]


@dataclass(frozen=True)
class Relevance:
    """Labels prepared for ranking: the gallery ordered by identity, so that a query's identity is one run of it.

    Gallery positions are those of the kept gallery, that is without junk identities; `kept` maps them back.
    """

    kept: Int[Tensor, " kept"] | None
    """positions of the kept items in the gallery; None if all are kept"""
    num_kept: int
    order: Int[Tensor, " kept"]
    """kept positions sorted by identity, ascending inside an identity"""
    run_start: Int[Tensor, " queries"]
    run_length: Int[Tensor, " queries"]
    own_column: Int[Tensor, " queries"] | None
    """the query's own kept position, -1 where it has none"""
    query_cameras: Int[Tensor, " queries"] | None
    gallery_cameras: Int[Tensor, " kept"] | None
    drops_whole_camera: bool
    num_in_camera: Int[Tensor, " queries"] | None
    """kept items of the query's camera, whatever their identity; only where the whole camera is dropped"""
    is_junk: Bool[Tensor, " queries"]

    @property
    def num_queries(self) -> int:
        """Number of queries."""
        return len(self.run_start)

    @property
    def longest_run(self) -> int:
        """The largest number of kept gallery items that one query shares its identity with."""
        return int(self.run_length.max()) if self.num_queries else 0

    def tile(self, rows: slice) -> TileRelevance:
        """Relevance of the queries `rows`."""
        start, length = self.run_start[rows, None], self.run_length[rows, None]
        place = torch.arange(int(length.max()), device=start.device)
        same_identity = place < length
        columns = self.order[(start + place).clamp_(max=self.num_kept - 1)]
        junk = self._same_identity_junk(rows, columns) & same_identity
        num_candidates = self.num_kept - junk.sum(1)
        if self.drops_whole_camera and self.num_in_camera is not None:
            in_camera = self._same_camera(rows, columns) & same_identity
            num_candidates -= self.num_in_camera[rows] - in_camera.sum(1)
        return TileRelevance(columns, same_identity, same_identity & ~junk, num_candidates)

    def dropped(self, rows: slice, columns: slice) -> Bool[Tensor, "queries columns"] | None:
        """Pairs that the camera rule drops whatever the identity; None where it drops the query's identity only."""
        if not self.drops_whole_camera or self.query_cameras is None or self.gallery_cameras is None:
            return None
        return self.query_cameras[rows, None] == self.gallery_cameras[None, columns]

    @property
    def num_others(self) -> Int[Tensor, " queries"]:
        """Kept gallery items of each query's identity that are not the query itself."""
        return self.run_length if self.own_column is None else self.run_length - (self.own_column >= 0).long()

    def counts(
        self, num_positives: Int[Tensor, " queries"], num_others: Int[Tensor, " queries"] | None = None
    ) -> QueryCounts:
        """How many queries are valid, and why the others are not; `num_positives` as `PositiveRanks` holds it.

        Where this is a part of a gallery, `num_others` is the sum of that property over all parts.
        """
        num_others = self.num_others if num_others is None else num_others
        absent = ~self.is_junk & (num_others == 0)
        lost = ~self.is_junk & (num_others > 0) & (num_positives == 0)
        numbers = (num_positives > 0, self.is_junk, absent, lost)
        return QueryCounts(self.num_queries, *(int(number.sum()) for number in numbers))

    def _same_camera(self, rows: slice, columns: Tensor) -> Tensor:
        if self.query_cameras is None or self.gallery_cameras is None:
            return torch.zeros_like(columns, dtype=torch.bool)
        return self.gallery_cameras[columns] == self.query_cameras[rows, None]

    def _same_identity_junk(self, rows: slice, columns: Tensor) -> Tensor:
        junk = self._same_camera(rows, columns)
        return junk if self.own_column is None else junk | (columns == self.own_column[rows, None])


def find_relevance(
    query_identities: Integer[Tensor, " queries"],
    gallery_identities: Integer[Tensor, " gallery"],
    query_cameras: Integer[Tensor, " queries"] | None = None,
    gallery_cameras: Integer[Tensor, " gallery"] | None = None,
    *,
    same_camera: str = "same_identity",
    junk_identities: Collection[int] = (-1,),
    self_index: Integer[Tensor, " queries"] | None = None,
) -> Relevance:
    """Prepare labels for ranking: which gallery items are positive, negative or junk for every query.

    Junk is every gallery item whose identity is in `junk_identities`, what the camera rule `same_camera` says (see
    `SAME_CAMERA_RULES`; without cameras it drops nothing), and the query itself: `self_index` holds the position of
    every query in the gallery, or -1. Identity 0 is an ordinary identity (a distractor).

    Raises:
        TypeError: a label tensor is not an integer tensor, `junk_identities` does not hold ints.
        ValueError: lengths, devices or options that do not fit, or cameras on one side only.
    """
    _check_labels(query_identities, gallery_identities, query_cameras, gallery_cameras, self_index)
    _checks.one_of("same_camera", same_camera, SAME_CAMERA_RULES)
    _checks.integers("junk_identities", junk_identities)
    query_identities, gallery_identities = query_identities.long(), gallery_identities.long()
    junk = torch.tensor(sorted(junk_identities), dtype=torch.int64, device=gallery_identities.device)
    kept = _kept_positions(gallery_identities, junk)
    run_start, run_length, order = _identity_runs(query_identities, _take(gallery_identities, kept))
    if query_cameras is None or gallery_cameras is None or same_camera == "keep":
        query_cameras = gallery_cameras = None
    else:
        query_cameras, gallery_cameras = query_cameras.long(), _take(gallery_cameras.long(), kept)
    drops_whole_camera = same_camera == "all" and query_cameras is not None
    return Relevance(
        kept=kept,
        num_kept=len(order),
        order=order,
        run_start=run_start,
        run_length=run_length,
        own_column=_own_column(self_index, kept, len(gallery_identities)),
        query_cameras=query_cameras,
        gallery_cameras=gallery_cameras,
        drops_whole_camera=drops_whole_camera,
        num_in_camera=_identity_runs(query_cameras, gallery_cameras)[1]
        if drops_whole_camera and query_cameras is not None and gallery_cameras is not None
        else None,
        is_junk=torch.isin(query_identities, junk),
    )


def _identity_runs(query_labels: Tensor, gallery_labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where every query's label starts in the sorted gallery, how often it occurs, and the sorting order."""
    query_labels = query_labels.contiguous()  # searchsorted warns otherwise
    ordered, order = gallery_labels.sort(stable=True)
    start = torch.searchsorted(ordered, query_labels)
    return start, torch.searchsorted(ordered, query_labels, right=True) - start, order


def _kept_positions(gallery_identities: Tensor, junk: Tensor) -> Tensor | None:
    is_junk = torch.isin(gallery_identities, junk)
    return (~is_junk).nonzero()[:, 0] if bool(is_junk.any()) else None


def _take(values: Tensor, positions: Tensor | None) -> Tensor:
    return values if positions is None else values[positions]


def _own_column(self_index: Tensor | None, kept: Tensor | None, num_gallery: int) -> Tensor | None:
    """Translate gallery positions into kept positions; a query whose own item was dropped has none."""
    if self_index is None:
        return None
    columns = self_index.long()
    if kept is not None:
        column_of = torch.full((num_gallery + 1,), -1, dtype=torch.int64, device=kept.device)
        column_of[kept] = torch.arange(len(kept), device=kept.device)
        columns = column_of[columns]  # -1 reads the last entry, which stays -1
    return columns


def _check_labels(
    query_identities: Tensor,
    gallery_identities: Tensor,
    query_cameras: Tensor | None,
    gallery_cameras: Tensor | None,
    self_index: Tensor | None,
) -> None:
    _checks.integer_labels("query_identities", query_identities)
    _checks.integer_labels("gallery_identities", gallery_identities)
    num_queries, num_gallery, device = len(query_identities), len(gallery_identities), gallery_identities.device
    _checks.same_device("query_identities", query_identities, "gallery_identities", gallery_identities)
    _checks.both_or_neither("query_cameras", query_cameras, "gallery_cameras", gallery_cameras)
    if query_cameras is not None:
        _checks.integer_labels("query_cameras", query_cameras, num_queries, device)
    if gallery_cameras is not None:
        _checks.integer_labels("gallery_cameras", gallery_cameras, num_gallery, device)
    if self_index is not None:
        _checks.integer_labels("self_index", self_index, num_queries, device)
        _checks.in_range("self_index", self_index, -1, num_gallery)
        _checks.own_position("self_index", agrees=_agrees(query_identities, gallery_identities, self_index))
    if self_index is not None and query_cameras is not None and gallery_cameras is not None:
        _checks.own_position("self_index", agrees=_agrees(query_cameras, gallery_cameras, self_index))


def _agrees(query_labels: Tensor, gallery_labels: Tensor, self_index: Tensor) -> bool:
    inside = self_index >= 0
    return bool((query_labels[inside] == gallery_labels[self_index[inside].long()]).all())
