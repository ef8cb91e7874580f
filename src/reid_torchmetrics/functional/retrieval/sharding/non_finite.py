"""Embeddings that are NaN or infinite among the samples of all processes."""

from __future__ import annotations

from typing import NamedTuple

from reid_torchmetrics.functional.retrieval.sharding.samples import GALLERY, QUERY, Samples

NUM_NAMED = 5  # samples that a message names


class NonFinite(NamedTuple):
    """Embeddings that are NaN or infinite: how many of how many, and where the first are."""

    total: int
    found: int
    queries: int
    gallery: int
    first: list[int]
    numbered_by: str

    @classmethod
    def of(cls, samples: Samples) -> NonFinite:
        """Look through all samples of a process."""
        bad = samples.non_finite()
        if not len(bad):  # nearly always: look at nothing else
            return cls(len(samples), 0, 0, 0, [], "samples")
        roles = samples.roles[bad]
        numbers, numbered_by = (bad, "samples") if samples.index is None else (samples.index[bad], "`index`")
        of_queries, of_gallery = int((roles & QUERY > 0).sum()), int((roles & GALLERY > 0).sum())
        return cls(len(samples), len(bad), of_queries, of_gallery, numbers[:NUM_NAMED].tolist(), numbered_by)

    def reason(self) -> str:
        """Why there is no result."""
        return (
            f"{self.found} of {self.total} embeddings are NaN or infinite ({self.queries} of queries, {self.gallery} of"
            f" gallery items; first at {self.numbered_by} {self.first}), so the result is NaN."
        )
