"""Facts about the samples of all processes that were ranked, and the problem of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from .ground_truth import ListedItems
from .problem import RetrievalProblem
from .protocol import Protocol
from .ranking_options import RankingOptions


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
    positions: tuple[Float[Tensor, "queries axes"], Float[Tensor, "gallery axes"], float] | None = None
    """positions of queries and gallery items, and the radius, where there is no problem that has them"""
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
    """what the tool found when it compared the samples of all processes; None for other entry points, or without it"""
    updates: Any = None
    """the `Updates` of the samples; None where nobody is to look at them"""


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
