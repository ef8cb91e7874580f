"""The fields of a file of `RetrievalResults`: ranks, labels and options. All numbers are computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.result_files import OWN_AXES
from reid_torchmetrics.functional.retrieval.measures import DrawnResults, first_rank
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from reid_torchmetrics.functional.retrieval.relevance import NAMED_LABELS, QueryCounts

from .labeled_lists import ListCounts
from .protocol import Protocol
from .rank_lists import RankLists
from .ranking import CameraPairs, Ranking
from .ranking_options import Setup

_MOST = 1 << 63
_ROUNDING = 1e-9  # of sums of chances


@dataclass(frozen=True, eq=False)
class StoredLists:
    """Rank lists of all queries, without the labels of the queries; see `RankLists`.

    Among equal scores their order is not that of the ranks under every tie policy.
    """

    index: Int[Tensor, "queries k"]
    identities: Int[Tensor, "queries k"] | None
    cameras: Int[Tensor, "queries k"] | None
    scores: Float[Tensor, "queries k"]
    is_positive: Bool[Tensor, "queries k"]
    first_positive_rank: Int[Tensor, " queries"]
    first_positive_index: Int[Tensor, " queries"]
    first_positive_score: Float[Tensor, " queries"]
    first_positive_camera: Int[Tensor, " queries"] | None

    @classmethod
    def of(cls, lists: RankLists) -> StoredLists:
        """Take the fields of rank lists.

        Raises:
            ValueError: lists that are not of all queries, in their order.
        """
        if not torch.equal(lists.query.cpu(), torch.arange(len(lists), device="cpu")):
            raise ValueError(f"`rank_lists` must be of all queries in their order; got {lists.query[:5].tolist()}.")
        return cls(**{each.name: getattr(lists, each.name) for each in fields(cls)})

    def check(self, has_right: Bool[Tensor, " queries"], num_items: int) -> None:
        """Raise unless padding, and queries without a right answer, are marked throughout, and items exist."""
        is_padding = self.index == -1
        agree = {
            "scores": torch.equal(self.scores.isnan(), is_padding),
            "is_positive": not bool((self.is_positive & is_padding).any()),
            "first_positive_rank": torch.equal(self.first_positive_rank > 0, has_right),
            "first_positive_index": torch.equal(self.first_positive_index != -1, has_right),
            "first_positive_score": torch.equal(~self.first_positive_score.isnan(), has_right),
        }
        for name, is_fitting in agree.items():
            if not is_fitting:
                raise ValueError(f"`rank_lists.{name}` must be defined where there is an item; got other values.")
        _checks.in_range("rank_lists.index", self.index.flatten(), -1, num_items)
        _checks.in_range("rank_lists.first_positive_index", self.first_positive_index, -1, num_items)
        _checks.in_range("rank_lists.first_positive_rank", self.first_positive_rank, 0, _MOST)


@dataclass(frozen=True, eq=False)
class StoredRetrieval:
    """The fields of a file of `RetrievalResults`."""

    ranks: PositiveRanks
    ranks_for_cmc: PositiveRanks | None = field(metadata={OWN_AXES: ("positives", "groups")})
    """ranks under the camera rule of the CMC, where it has one of its own"""
    drawn: DrawnResults | None
    """expectations over drawn galleries; they do not follow from ranks"""
    protocol: Protocol
    setup: Setup
    max_rank: int
    """length of the CMC"""
    num_junk: int
    num_same_camera_only: int
    num_not_ranked: int
    """numbers of queries without positives, by their reason, see `QueryCounts`"""
    query_index: Int[Tensor, " queries"]
    query_identities: Int[Tensor, " queries"] | None
    query_cameras: Int[Tensor, " queries"] | None
    rank_lists: StoredLists | None
    camera_pairs: Mapping[str, CameraPairs] | None
    """means between pairs of cameras; they do not follow from ranks"""
    query_names: tuple[str, ...] | None
    item_names: tuple[str, ...] | None
    label_names: Mapping[str, Mapping[int, str]] | None
    list_counts: ListCounts | None

    def check(self) -> None:
        """Raise unless numbers can be computed from all fields, and these are in their range."""
        _checks.positive_int("max_rank", self.max_rank)
        if self.query_names is not None:
            _checks.length("query_names", len(self.query_names), len(self.query_index))
        for label, names in (self.label_names or {}).items():
            _checks.one_of("label_names", label, NAMED_LABELS)
            for number in names:
                _checks.integer(f"label_names[{label!r}]", number)
        counts = self.counts
        least = min(counts.junk, counts.same_camera_only, counts.not_ranked, counts.not_in_gallery)
        if least < 0:
            raise ValueError(f"`counts` must be at least 0, and those of the ranks; got {counts}.")
        self._check_rankings()
        if self.rank_lists is not None:
            num_items = _MOST if self.item_names is None else len(self.item_names)
            self.rank_lists.check(first_rank(self.ranks).isfinite(), num_items)
        for name, pairs in (self.camera_pairs or {}).items():
            _checks.in_range(f"camera_pairs.{name}.num_valid", pairs.num_valid.flatten(), 0, counts.total + 1)
            _check_defined(f"camera_pairs.{name}.mean", pairs.mean, pairs.num_valid > 0)

    def _check_rankings(self) -> None:
        """Raise unless there is a ranking, or an expectation, for every number that the protocol reports."""
        is_drawn = self.drawn is not None
        if is_drawn and self.protocol.draw is None:
            raise ValueError(f"`drawn` must come with a protocol that draws galleries; got {self.protocol.name!r}.")
        if not is_drawn and self.protocol.draw is not None and self.counts.valid:
            raise ValueError(f"`drawn` must be there under protocol {self.protocol.name!r}; got None.")
        has_rule = self.protocol.for_cmc is not self.protocol
        if (self.ranks_for_cmc is not None) != (has_rule and not is_drawn):
            came = "none" if self.ranks_for_cmc is None else "some"
            raise ValueError(f"`ranks_for_cmc` must be there if the CMC has a camera rule of its own; got {came}.")
        if self.drawn is not None:
            _check_drawn(self.drawn, self.max_rank)

    @property
    def counts(self) -> QueryCounts:
        """The numbers of queries that are valid, and of others by their reason."""
        total, num_valid = self.ranks.num_queries, int((self.ranks.num_positives > 0).sum())
        num_left = total - num_valid - self.num_junk - self.num_same_camera_only - self.num_not_ranked
        return QueryCounts(
            total=total,
            valid=num_valid,
            junk=self.num_junk,
            not_in_gallery=num_left,
            same_camera_only=self.num_same_camera_only,
            not_ranked=self.num_not_ranked,
        )

    def rankings(self) -> tuple[Ranking, Ranking]:
        """Return the ranking of all measures but the CMC, and that of the CMC, as `summarize` takes them."""
        ranking = Ranking(
            self.ranks,
            self.counts,
            self.query_index,
            query_identities=self.query_identities,
            query_cameras=self.query_cameras,
            names=self.label_names or {},
        )
        ranks_for_cmc = self.ranks if self.ranks_for_cmc is None else self.ranks_for_cmc
        return ranking, replace(ranking, ranks=ranks_for_cmc, drawn=self.drawn)

    def full_lists(self) -> RankLists | None:
        """Return the rank lists with the labels of the queries."""
        lists = self.rank_lists
        if lists is None:
            return None
        stored: dict[str, Any] = {each.name: getattr(lists, each.name) for each in fields(lists)}
        return RankLists(
            query=torch.arange(len(self.query_index), device=self.query_index.device),
            query_index=self.query_index,
            query_identities=self.query_identities,
            query_cameras=self.query_cameras,
            **stored,
        )


def _check_drawn(drawn: DrawnResults, max_rank: int) -> None:
    """Raise unless expectations are shares of 1, and undefined for queries without positives only."""
    if drawn.cmc.shape[1] < max_rank:
        raise ValueError(f"`drawn.cmc` must have at least {max_rank} ranks; got {drawn.cmc.shape[1]}.")
    has_positive = drawn.num_positives > 0
    _checks.in_range("drawn.num_positives", drawn.num_positives, 0, _MOST)
    _check_defined("drawn.cmc", drawn.cmc, has_positive[:, None].expand_as(drawn.cmc))
    _check_defined("drawn.weight", drawn.weight, torch.ones_like(has_positive))
    for name in ("average_precision", "inverse_negative_penalty"):
        values = getattr(drawn, name)
        is_asked_for = not bool(values.isnan().all())
        _check_defined(f"drawn.{name}", values, has_positive & is_asked_for)
    for each in fields(drawn):
        values = getattr(drawn, each.name)
        if each.name != "num_positives" and bool(((values < -_ROUNDING) | (values > 1 + _ROUNDING)).any()):
            raise ValueError(f"`drawn.{each.name}` must lie in [0, 1]; got other values.")


def _check_defined(name: str, values: Tensor, is_defined: Tensor) -> None:
    """Raise unless values are NaN where they are undefined, and nowhere else."""
    if not torch.equal(~values.isnan(), is_defined):
        raise ValueError(f"`{name}` must be NaN where it is undefined, and nowhere else; got other values.")
