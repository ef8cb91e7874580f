"""Evidence for advice on retrieval: ranks, and facts that were collected while they were computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import LabelTables


class ListedItems(NamedTuple):
    """Numbers of queries, of entries in their lists, and of entries that are items of the gallery."""

    num_queries: int
    num_listed: int
    num_found: int


@dataclass(frozen=True, eq=False)
class RetrievalEvidence:
    """The facts that rows of advice read; each entry point fills in the facts that it has."""

    opposite_ranks: PositiveRanks | None = None
    """ranks with the last candidates first, where right answers come last; None where they do not"""
    matrix: str | None = None
    """"scores" or "distances", if a matrix is given"""
    find_worst: Callable[[], float] = lambda: 0.0
    """returns the lowest score of a matrix, or minus the largest distance"""
    identities: Int[Tensor, " queries"] | None = None
    """identities of the queries"""
    is_valid: Bool[Tensor, " queries"] | None = None
    """whether the query has a positive"""
    names: LabelTables = field(default_factory=dict)
    """names of labels"""
    has_negative: bool = False
    """whether some query has an identity below -1"""
    tied_pairs: tuple[int, int] = (0, 0)
    """pairs of a positive and a negative with equal scores, and all such pairs, in a sample"""
    bounds: tuple[float, float] | None = None
    """mean average precision with negatives first and with positives first among equal scores; None if not computed"""
    positions: tuple[Float[Tensor, "queries axes"], Float[Tensor, "gallery axes"], float] | None = None
    """positions of queries and of gallery items, and the radius"""
    missing_cameras: tuple[str, str] | None = None
    """name of a protocol and its camera rules, if no cameras were given"""
    missing_search_cameras: tuple[int | str, ...] = ()
    """the protocol's `search_cameras`, if no gallery item has one of them"""
    listed_items: ListedItems | None = None
    """entries of lists by number; None if there are no such lists"""
    has_copied_queries: Callable[[], bool] = lambda: False
    """returns whether most queries find a copy of themselves in the gallery"""
    is_unpooled: bool = False
    """whether `multi_query` was given, but each query has one image"""
    boxes: Mapping[str, Float[Tensor, "boxes 4"]] = field(default_factory=dict)
    """corners of boxes by the name of their argument, for an overlap in pixels"""
    num_changed: int = 0
    """repetitions of a sample on its process with another embedding"""
    are_gathered: bool = False
    """whether two processes hold the same samples"""
    are_padded: bool = False
    """whether the last samples of a process are the first of the first process"""
    num_forgotten: int = 0
    """samples since the last evaluation, if they have the labels of as many samples before it; 0 otherwise"""
    has_mixed_roles: bool = False
    """whether some batches have `is_query`, and some do not"""
