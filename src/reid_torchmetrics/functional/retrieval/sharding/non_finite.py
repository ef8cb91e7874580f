"""Embeddings that are NaN or infinite among the samples of all processes that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics.functional.retrieval.sharding.samples import Samples

_NUM_NAMED = 5  # samples that a message names
NUM_NUMBERS = 4 + _NUM_NAMED
"""that a process tells the others"""


class NonFinite(NamedTuple):
    """Embeddings that are NaN or infinite: how many of how many, and where the first are."""

    total: int
    found: int
    queries: int
    gallery: int
    first: list[int]
    numbered_by: str

    @classmethod
    def numbers(cls, samples: Samples, query: Int[Tensor, " query"], gallery: Int[Tensor, " gallery"]) -> list[int]:
        """Look through the samples of a process, of which some count: the fields for `of_all`."""
        bad = samples.non_finite()
        if not len(bad):  # nearly always: look at nothing else
            return [len(samples), 0, 0, 0, *[0] * _NUM_NAMED]
        of_queries, of_gallery = torch.isin(bad, query), torch.isin(bad, gallery)
        bad = bad[of_queries | of_gallery]
        first = (bad if samples.index is None else samples.index[bad])[:_NUM_NAMED].tolist()
        found = [len(bad), int(of_queries.sum()), int(of_gallery.sum())]
        return [len(samples), *found, *first, *[0] * (_NUM_NAMED - len(first))]

    @classmethod
    def of_all(cls, table: Sequence[Sequence[int]], *, has_index: bool) -> NonFinite:
        """The embeddings of all processes, given their `numbers`; the first of them are of one process."""
        # The lowest process that has some names up to five of them.
        source = next((process for process, (_, found, *_) in enumerate(table) if found), 0)
        total, found, queries, gallery = (sum(column) for column in list(zip(*table, strict=True))[:4])
        numbered_by = "`index`" if has_index else "samples" if len(table) == 1 else f"samples of process {source}"
        first = [*table[source][4:NUM_NUMBERS][: table[source][1]]]
        return cls(total, found, queries, gallery, first, numbered_by)

    def reason(self) -> str:
        """Why there is no result."""
        return (
            f"{self.found} of {self.total} embeddings are NaN or infinite ({self.queries} of queries, {self.gallery} of"
            f" gallery items; first at {self.numbered_by} {self.first}), so the result is NaN."
        )
