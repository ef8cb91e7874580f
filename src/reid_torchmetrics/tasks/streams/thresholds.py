"""The scores of all positives of a counter, with which the items of all blocks are compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _progress
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.ranking import GalleryPart, Positives, Tiles, best_first, cells_of_positives


@dataclass(frozen=True, eq=False)
class Thresholds:
    """The scores of all positives, query by query, the best first."""

    scores: Float[Tensor, " positives"]
    num_positives: Int[Tensor, " queries"]

    @cached_property
    def edges(self) -> list[int]:
        """Position of the first positive of each query, and at the end the number of all positives."""
        return segments.edges(self.num_positives).tolist()

    def select(self, rows: slice) -> tuple[Positives, Int[Tensor, " positives"], slice]:
        """Return the positives of some queries in padded rows, their cells, and their range among all positives."""
        num_positives = self.num_positives[rows]
        inside = slice(self.edges[rows.start], self.edges[rows.stop])
        width = max(1, int(num_positives.max()))
        cells = cells_of_positives(num_positives, width)
        padded = self.scores.new_full((len(num_positives), width), -torch.inf)
        padded.view(-1)[cells] = self.scores[inside]
        last = (num_positives - 1).clamp(min=0)
        lowest = padded.gather(1, last[:, None])[:, 0].where(num_positives > 0, torch.inf)
        places = torch.zeros_like(padded, dtype=torch.int64)
        return Positives(padded, places, lowest), cells, inside


def read_positives(part: GalleryPart) -> Thresholds:
    """Read the scores of the positives in a part of the gallery."""
    tiles = Tiles(part)
    num_positives = torch.zeros_like(part.relevance.run_length)
    thresholds = [torch.empty(0, dtype=part.scores.dtype, device=part.scores.device)]
    for rows in _progress.steps(tiles.rows, "Ranking", parts=tiles.num_fills):
        tile = part.relevance.tile(rows)
        num_positives[rows] = tile.num_positives
        if bool(tile.num_positives.any()):
            scores = tiles.read(rows, tile, ahead=True)
            best = best_first(scores, tile.columns, tile.positive, ties=part.ties).scores
            thresholds.append(best.view(-1)[cells_of_positives(tile.num_positives, best.shape[1])])
    return Thresholds(torch.cat(thresholds), num_positives)
