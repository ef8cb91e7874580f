"""The outcome of an evaluation besides lists: ranks of the positives, means between cameras, and further questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, runtime_checkable
from typing import Protocol as Interface

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed, counted, cut
from reid_torchmetrics.functional.retrieval.measures import DrawnResults
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, Vocabulary

from .rank_lists import RankLists

_LONGEST_NAME = 12  # of a camera in the text


@dataclass(frozen=True)
class Ranking:
    """Ranks of the positives of all queries, and how many queries could be evaluated."""

    ranks: PositiveRanks
    counts: QueryCounts
    query_index: Int[Tensor, " queries"]
    """numbers of the queries in the data set, else their positions"""
    query_identities: Int[Tensor, " queries"] | None = None
    query_cameras: Int[Tensor, " queries"] | None = None
    query_hash: int | None = None
    """as in `RetrievalProblem`"""
    drawn: DrawnResults | None = None
    """expectations over drawn galleries, where the protocol draws them"""
    labels: tuple[str, ...] = ()
    """names of the labels that the evaluation was given"""
    undefined: str | None = None
    """the reason why nothing could be ranked: embeddings that are not finite; None if all are"""
    names: Vocabulary = field(default_factory=Vocabulary)
    """names of label values by their numbers, as in `Labels`"""
    ranks_for_cmc: PositiveRanks | None = None
    """ranks under the camera rule of the CMC, where the protocol has one"""

    def with_cmc(self, ranking: Ranking) -> Ranking:
        """Return the ranking with the ranks and expectations of another one for the CMC."""
        if ranking is self:
            return self
        drawn = ranking.drawn
        if drawn is not None and self.drawn is not None:
            drawn = replace(
                drawn,
                average_precision=self.drawn.average_precision,
                inverse_negative_penalty=self.drawn.inverse_negative_penalty,
            )
        return replace(self, ranks_for_cmc=ranking.ranks, drawn=drawn)


_NOTHING = torch.empty(0, dtype=torch.int64, device="cpu")
NO_RANKING = Ranking(
    PositiveRanks(_NOTHING, _NOTHING, _NOTHING),
    QueryCounts(0, valid=0, junk=0, not_in_gallery=0, same_camera_only=0),
    query_index=_NOTHING,
)
"""the ranking of no query"""


@dataclass(frozen=True, eq=False, repr=False)
class CameraPairs(Displayed):
    """Means of a measure over the valid queries of each query camera, against each gallery camera alone."""

    query_cameras: Int[Tensor, " query_cameras"]
    gallery_cameras: Int[Tensor, " gallery_cameras"]
    mean: Float[Tensor, "query_cameras gallery_cameras"]
    """NaN where no query has a positive in the gallery camera"""
    num_valid: Int[Tensor, "query_cameras gallery_cameras"]
    camera_names: Mapping[int, str] | None = None
    """the names of the cameras by their numbers; None if the evaluation was given integers"""

    def _display(self) -> Display:
        names = self.camera_names or {}

        def names_of(cameras: Tensor) -> list[str]:
            numbers = cameras[:NUM_ROWS].tolist()
            return [cut(str(names.get(number, number)), _LONGEST_NAME) for number in numbers]

        rows = []
        means_of_cameras = self.mean[:NUM_ROWS, :NUM_ROWS].tolist()
        for name, means in zip(names_of(self.query_cameras), means_of_cameras, strict=True):
            rows.append([name, *(f"{mean:.4f}" for mean in means)])
        num_rows, num_columns = self.mean.shape
        query_text = counted(num_rows, "query camera")
        title = f"CameraPairs: means of {query_text} (rows) in {counted(num_columns, 'gallery camera')} (columns)"
        notes = [f"the first {NUM_ROWS} of each"] if max(num_rows, num_columns) > NUM_ROWS else []
        return Display(title, ["", *names_of(self.gallery_cameras)], rows, notes)

    @property
    def mean_without_diagonal(self) -> Float[Tensor, ""]:
        """Mean over the query cameras of the mean over the other gallery cameras; NaN without a valid query.

        It is OpenGait's number for CASIA-B, whose views are the cameras. A pair without a valid query does not count.
        """
        is_same = self.query_cameras[:, None] == self.gallery_cameras
        return self.mean.masked_fill(is_same, torch.nan).nanmean(1).nanmean()


@runtime_checkable
class EvaluatedSamples(Interface):
    """The samples behind results, which answer what is asked of them later."""

    def rank(self, ties: Any) -> Ranking:
        """Rank under a tie policy, for all measures and for the CMC."""

    def nearest(self, k: int, queries: Integer[Tensor, " chosen"] | _checks.Integers | None) -> RankLists:
        """Return the first k candidates of all queries, or of some."""

    def by_camera_pair(self, name: str) -> CameraPairs:
        """Return the means of a reported number between pairs of cameras."""
