"""The outcome of an evaluation besides lists: ranks of the positives, means between cameras, and facts for tools."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional.displays import NUM_ROWS, Display, Displayed, counted, cut
from reid_torchmetrics.functional.retrieval.measures import DrawnResults
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import QueryCounts, Vocabulary

from .problem import Labels, ListedItems, RetrievalProblem
from .protocol import Protocol, RankingOptions

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


class Updates(NamedTuple):
    """The batches of a metric on this process."""

    batches: Mapping[str, Sequence[Tensor]]
    kinds: Collection[str]
    """"queries", "gallery" and "both" for the roles of batches, where "both" are samples of leave-one-out"""


@dataclass(frozen=True, eq=False)
class RankedSamples:
    """Facts about samples that were ranked; each entry point fills in those that it has."""

    protocol: Protocol
    """with all options of the caller"""
    named_protocol: object = None
    """the protocol as the caller gave it: a name or a `Protocol`"""
    options: RankingOptions | None = None
    """the settings of the ranking; None for lists and streams"""
    ties_are_open: bool = False
    """whether neither the caller nor the protocol chose a tie policy"""
    find_problem: Callable[[], RetrievalProblem | None] | None = None
    """returns the problem of this process's queries and gallery items alone; None for lists and streams"""
    matrix: str | None = None
    """"scores" or "distances", if a matrix is given"""
    has_lists: bool = False
    """whether relevance came as lists"""
    keeps_thread: bool = True
    """whether a look at them must stay on the calling thread, see `RetrievalProblem.keeps_thread`"""
    has_updates: bool = False
    """whether the samples came by `update`, which takes their roles"""
    labels: Labels | None = None
    """labels of queries and gallery items, where there is no problem that has them"""
    sampled: RetrievalProblem | None = None
    """the problem of some queries and of the items listed for them, for streams"""
    num_gallery: int | None = None
    """gallery items of all processes; None if they are not known"""
    num_images: int | None = None
    """images of the queries before they were pooled; None if `multi_query` was not given"""
    boxes: Mapping[str, Float[Tensor, "boxes 4"]] = field(default_factory=dict)
    """corners of boxes by the name of their argument, for an overlap in pixels"""
    listed_items: ListedItems | None = None
    """entries of lists by number; None if there are no such lists"""
    are_bits: bool = False
    """whether the embeddings of a metric are codes of 0 and 1"""
    compared: Any = None
    """the result of `samples_shared`; None for entry points other than metrics"""
    updates: Any = None
    """the `Updates` of the samples; None if the samples are not looked at"""


@dataclass(frozen=True)
class ListCounts:
    """Counts of the short lists and of the repeated items."""

    num_short: int = 0
    """lists that have fewer items left than `cutoff`, though their query has more candidates"""
    cutoff: int | None = None
    """the largest cutoff of the reported numbers; None where lists are not judged by labels"""
    num_repeated: int = 0
    """entries with an item that its list has before; they keep their places and score nothing"""

    def __str__(self) -> str:
        """Describe the counts in words; empty if all are 0."""
        words = []
        if self.num_short:
            words.append(f"lists with fewer than {self.cutoff} left once junk is removed: {self.num_short}")
        if self.num_repeated:
            words.append(f"items that are repeated in a list and count once: {self.num_repeated}")
        return "; ".join(words)
