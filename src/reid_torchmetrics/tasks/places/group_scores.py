"""Scores of groups of gallery items, such as tracks: the score of a group is that of its best member.

Members are ordered by group, and are scored piece by piece; a group may span several pieces:

    groups              a  a  b  c  c  c
    scores              .1 .5 .3 .2 .9 .4
    pieces of four      .1 .5 .3 .2              a .5, b .3, c .2
                              .3 .2 .9 .4        b .3, c .9: the larger of both pieces
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.scores import BLOCK, Scores

_MOST_LENGTHS = 1 << 17  # lengths of groups that are repeated for a few rows at a time


class GroupScores(Scores):
    """Scores of groups, from scores of their members; a maximum is exact, so that pieces change no score."""

    def __init__(self, members: Scores, positions: Int[Tensor, " members"], sizes: Int[Tensor, " groups"]) -> None:
        """Take the scores of all members, group by group, their positions, and the number of members of each group."""
        self.argument = members.argument
        self.dtype = members.dtype
        self.device = members.device
        self.keeps_thread = members.keeps_thread
        self.num_tiles = members.num_tiles
        self.num_queries = members.num_queries
        self.num_gallery = len(sizes)
        self.max_bytes = members.max_bytes // 2  # the other half is for scores of members
        self._members = members
        self._positions = positions
        self._sizes = sizes
        self._edges = segments.edges(sizes)
        self._edges_list: list[int] = self._edges.tolist()
        # One width for tiles of any height: prepared rows are kept for each piece.
        width = self.max_bytes // (self.dtype.itemsize * max(1, min(self.num_queries, BLOCK)))
        self._width = max(1, width // BLOCK * BLOCK or width)

    def fill(self, out: Float[Tensor, "queries columns"], rows: slice, columns: slice) -> None:
        """Write the scores of the queries `rows` against the groups `columns` into `out`."""
        edges = self._edges_list
        out.fill_(-torch.inf)
        for piece in segments.equal_ranges(slice(edges[columns.start], edges[columns.stop]), self._width):
            scores = out.new_empty((len(out), piece.stop - piece.start))
            self._members.fill(scores, rows, piece)
            # The groups with members in the piece, and their number of members there.
            first = bisect_right(edges, piece.start) - 1
            last = bisect_left(edges, piece.stop)
            lengths = self._edges[first : last + 1].clamp(piece.start, piece.stop).diff()
            _add_largest(out[:, first - columns.start : last - columns.start], scores, lengths)

    def to_comparable(self, out: Float[Tensor, "queries listed"], rows: slice) -> None:
        """Turn scores of groups into comparable ones in the same way as scores of members."""
        self._members.to_comparable(out, rows)

    def best_members(self, query: Int[Tensor, " pairs"], group: Int[Tensor, " pairs"]) -> Int[Tensor, " pairs"]:
        """Return the position of the best member for each pair of a query and a group; of equal members the first."""
        best = torch.empty_like(group)
        for inside, sizes, positions in self.all_best_members(query, group):
            best[inside] = positions[segments.starts(sizes)]
        return best

    def all_best_members(
        self, query: Int[Tensor, " pairs"], group: Int[Tensor, " pairs"]
    ) -> Iterator[tuple[Int[Tensor, " some"], Int[Tensor, " some"], Int[Tensor, " members"]]]:
        """Yield some pairs at a time, the number of equal best members of each, and the positions of these members."""
        num_members = self._edges_list[-1]
        num_rows = max(1, self.max_bytes // max(1, self.dtype.itemsize * num_members))
        for rows in segments.ranges(self.num_queries, num_rows):
            inside = ((query >= rows.start) & (query < rows.stop)).nonzero()[:, 0]
            if not len(inside):
                continue
            scores = torch.empty((rows.stop - rows.start, num_members), dtype=self.dtype, device=self.device)
            for piece in segments.equal_ranges(slice(0, num_members), self._width):
                self._members.fill(scores[:, piece], rows, piece)
            # A pair is a segment of values: the scores of the group's members for the query.
            sizes = self._sizes[group[inside]]
            pair, column = segments.runs(self._edges[group[inside]], sizes)
            values = scores[(query[inside] - rows.start)[pair], column]
            is_best = values == segments.reduce(values, "max", sizes)[pair]
            num_best = segments.reduce(is_best.double(), "sum", sizes).long()
            yield inside, num_best, self._positions[column[is_best]]


def _add_largest(
    out: Float[Tensor, "queries groups"], scores: Float[Tensor, "queries members"], lengths: Int[Tensor, " groups"]
) -> None:
    """Raise `out` to the largest score of each group, a few rows at a time, as each row needs all lengths."""

    def add(rows: slice) -> None:
        repeated_lengths = lengths.expand(rows.stop - rows.start, -1).contiguous()
        best = torch.segment_reduce(scores[rows], "max", lengths=repeated_lengths, axis=1, unsafe=True)
        torch.maximum(out[rows], best, out=out[rows])

    num_rows = max(1, _MOST_LENGTHS // max(1, len(lengths)))
    workers.share(add, segments.ranges(len(out), num_rows))
