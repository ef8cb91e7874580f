"""Galleries that are really drawn, a few times, as benchmarks do it; `expect_draws` is what they estimate."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, TiePolicy
from reid_torchmetrics.functional.retrieval.relevance import Relevance
from reid_torchmetrics.functional.retrieval.scores import Scores, Walk, check_match, rows_with_gallery

from .drawn_galleries import DRAWN_TIES, check_queries_in_draw
from .strata import GalleryDraw, Strata, find_strata

_BYTES_BESIDE_SCORE = 60  # keys, their order and masks; more for each repeat


@dataclass(frozen=True, eq=False)
class SampledDraws:
    """Means over the queries with positives, one for each repeat; NaN if there are none."""

    cmc: Float[Tensor, "repeats max_rank"]
    average_precision: Float[Tensor, " repeats"]
    inverse_negative_penalty: Float[Tensor, " repeats"]


@torch.no_grad()
def sample_draws(
    scores: Scores,
    relevance: Relevance,
    draw: GalleryDraw,
    *,
    generator: torch.Generator,
    repeats: int = 10,
    shared: bool = False,
    ties: str = "pessimistic",
    max_rank: int = 50,
    queries_in_draw: bool = False,
) -> SampledDraws:
    """Draw a gallery for every query, `repeats` times, and rank it; what `expect_draws` gives the expectation of.

    Args:
        scores: scores of the kept gallery.
        relevance: who is positive, negative or junk; made from identities.
        draw: how a gallery is drawn.
        generator: source of all randomness; one on the CPU draws the same wherever the scores are.
        repeats: how often galleries are drawn.
        shared: whether all queries of a repeat share one order of preference among the gallery items, so that without
            a camera rule they share one gallery (VehicleID, SYSU-MM01, CUHK03's own protocol). Otherwise every query
            draws for itself (open-reid, torchreid): the same expectation, with less variance.
        ties: "pessimistic", "optimistic" or "stable".
        max_rank: length of the CMC.
        queries_in_draw: a query whose own image is drawn is no query of the repeat. Needs their `self_index`,
            `shared`, and no rule that drops pairs.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: what `expect_draws` raises.
    """
    _checks.one_of("ties", ties, DRAWN_TIES)
    _checks.positive_int("max_rank", max_rank)
    _checks.positive_int("repeats", repeats)
    strata = find_strata(relevance, draw.per)
    check_match(scores, relevance)
    if queries_in_draw:
        check_queries_in_draw(relevance)
        if not shared:
            raise ValueError(
                "`queries_in_draw` must come with `shared`, one gallery for all queries; got `shared` False."
            )
    sampling = _Sampling(scores, relevance, strata, draw, max_rank, queries_in_draw)
    total = workers.run(
        lambda: sampling.of_all(TIE_POLICIES[ties], generator, repeats, shared=shared),
        scores.device,
        inside=scores.keeps_thread or relevance.junk_pairs is not None,
    )
    mean = total[:, 1:] / total[:, :1]
    return SampledDraws(mean[:, :-2], mean[:, -2], mean[:, -1])


@dataclass(frozen=True)
class _Sampling:
    """The problem of `sample_draws`."""

    scores: Scores
    relevance: Relevance
    strata: Strata
    draw: GalleryDraw
    max_rank: int
    queries_in_draw: bool

    def of_all(
        self, ties: TiePolicy, generator: torch.Generator, repeats: int, *, shared: bool
    ) -> Float[Tensor, "repeats measures"]:
        """Sums over all queries; the repeats of a tile are shared out."""
        # A gallery is what has the smallest random keys: one row of keys for all queries, or one for each.
        keys = _keys(1, repeats, self.scores, generator) if shared else None
        total = torch.zeros(repeats, self.max_rank + 3, dtype=torch.float64, device=self.scores.device)
        num_rows = rows_with_gallery(self.scores, _BYTES_BESIDE_SCORE + 8 * repeats, fewest=1)
        walk = Walk(self.scores, num_rows, self.scores.num_gallery)
        for rows in walk.rows:
            measure = functools.partial(self._measure, _Tile(walk, self.relevance, rows, ties))
            of_rows = _keys(rows.stop - rows.start, repeats, self.scores, generator) if keys is None else keys
            total += torch.stack(workers.share(measure, of_rows.unbind(1), most=self.scores.num_tiles))
        return total

    def _measure(self, tile: _Tile, keys: Float[Tensor, "#queries gallery"]) -> Float[Tensor, " measures"]:
        """Draw once for the queries of a tile, and measure."""
        drawn, is_query = _drawn(tile, self.strata, self.draw, keys, queries_in_draw=self.queries_in_draw)
        return _measured(tile, self.strata, drawn, is_query, self.max_rank)


class _Tile:
    """Scores of a tile of queries against the whole gallery, columns in the order in which ties are broken."""

    def __init__(self, walk: Walk, relevance: Relevance, rows: slice, ties: TiePolicy) -> None:
        self.scores = walk.whole(rows)
        _checks.no_nan(walk.scores.argument, self.scores)
        self.positive, negative = relevance.pairs(rows, slice(0, relevance.num_kept))
        self.candidate = self.positive | negative
        self.own_column = None if relevance.own_column is None else relevance.own_column[rows]
        self.ties = ties

    def order(self, columns: Int[Tensor, "queries drawn"], drawn: Bool[Tensor, "queries drawn"]) -> Tensor:
        """Sort drawn columns, best first; those that are not `drawn` are padding and come last."""
        if self.ties.by_place is None:
            turn = (self.positive.gather(1, columns) != self.ties.positives_first).byte()
        else:
            turn = self.ties.by_place(columns)
        first = turn.argsort(dim=1, stable=True)
        columns, drawn = columns.gather(1, first), drawn.gather(1, first)
        padding_last = drawn.byte().argsort(dim=1, descending=True, stable=True)
        columns, drawn = columns.gather(1, padding_last), drawn.gather(1, padding_last)
        scores = self.scores.gather(1, columns).where(drawn, -torch.inf)
        return columns.gather(1, scores.argsort(dim=1, descending=True, stable=True))


def _drawn(
    tile: _Tile, strata: Strata, draw: GalleryDraw, keys: Float[Tensor, "#queries gallery"], *, queries_in_draw: bool
) -> tuple[Bool[Tensor, "queries gallery"], Bool[Tensor, " queries"]]:
    """Which candidates are drawn: those of a stratum with the smallest keys; and which queries stay queries."""
    # The query's own image can be drawn too.
    candidate = tile.candidate
    if queries_in_draw and tile.own_column is not None:
        candidate = candidate.clone()
        row = (tile.own_column >= 0).nonzero()[:, 0]
        candidate[row, tile.own_column[row]] = True
    # Columns by stratum, and by key inside; `num_earlier` counts the candidates of the stratum before.
    order = (strata.of_item + keys / 2).argsort(dim=1).expand(len(candidate), -1)
    inside = candidate.gather(1, order).long()
    so_far = torch.nn.functional.pad(inside.cumsum(1), (1, 0))
    first = segments.starts(strata.num_items)
    num_earlier = so_far[:, :-1] - so_far[:, first].repeat_interleave(strata.num_items, dim=1)
    chosen = inside.bool() if draw.shots is None else inside.bool() & (num_earlier < draw.shots)
    drawn = torch.zeros_like(candidate).scatter_(1, order, chosen)
    # Whose own image was drawn is no query.
    is_query = tile.positive.any(1)
    if queries_in_draw and tile.own_column is not None:
        is_query[row] &= ~drawn[row, tile.own_column[row]]
        drawn &= tile.candidate
    return drawn, is_query


def _measured(
    tile: _Tile, strata: Strata, drawn: Bool[Tensor, "queries gallery"], row: Bool[Tensor, " queries"], max_rank: int
) -> Float[Tensor, " measures"]:
    """Sums over the queries: how many there are, then the CMC, average precision and INP."""
    drawn = drawn & row[:, None]
    # The ranked lists: `columns` [queries, longest], best first, then padding.
    num_drawn = drawn.sum(1)
    slot = torch.arange(int(num_drawn.max()) if len(drawn) else 0, device=drawn.device)
    valid = slot < num_drawn[:, None]
    columns = torch.zeros(valid.shape, dtype=torch.int64, device=drawn.device)
    columns[valid] = drawn.nonzero()[:, 1]
    columns = tile.order(columns, valid)
    # The measures of each query, from its hits.
    hit = tile.positive.gather(1, columns) & valid
    num_hits, rank = hit.cumsum(1), slot + 1
    precision = (hit * num_hits / rank.double()).sum(1) / hit.sum(1)
    penalty = hit.sum(1) / (hit * rank).double().amax(1) if len(slot) else precision
    before = _identities_before(strata.identity[strata.of_item[columns]], (num_hits == 0) & valid, strata)
    hits_at = before[row, None] < torch.arange(1, max_rank + 1, device=drawn.device)
    sums = [row.sum()[None], hits_at.sum(0), precision[row].sum()[None], penalty[row].sum()[None]]
    return torch.cat([values.double() for values in sums])


def _identities_before(identity: Tensor, before: Tensor, strata: Strata) -> Int[Tensor, " queries"]:
    """How many different identities occur where `before` says so."""
    number = int(strata.identity[-1]) + 1 if len(strata.identity) else 0
    seen = torch.zeros(len(identity), number + 1, dtype=torch.bool, device=identity.device)
    seen.scatter_(1, identity.where(before, number), before.new_ones(()).expand_as(before))
    return seen[:, :number].sum(1)


def _keys(num_queries: int, repeats: int, scores: Scores, generator: torch.Generator) -> Tensor:
    size = (num_queries, repeats, scores.num_gallery)
    keys = torch.rand(size, dtype=torch.float64, device=generator.device, generator=generator)
    return keys.to(scores.device)
