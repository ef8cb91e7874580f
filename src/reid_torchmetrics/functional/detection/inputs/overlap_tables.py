"""Shapes that are no longer there: their areas, and a table of how much those of one image overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.inputs.shapes import Shapes


@final
@dataclass(frozen=True)
class TableShapes(Shapes):
    """Detections, or ground truths, whose overlaps were computed before, as those of masks are; see `of_images`."""

    table: Float[Tensor, " entries"]
    """overlaps, image after image, and in an image detection after detection; crowds are reckoned with"""
    places: Int[Tensor, " shapes"]
    """of a detection, where its row begins in the table; of a ground truth, its place in the rows of its image"""
    areas_given: Float[Tensor, " shapes"]

    @classmethod
    def of_images(
        cls,
        table: Float[Tensor, " entries"],
        areas: Float[Tensor, " detections"],
        true_areas: Float[Tensor, " ground_truths"],
        counts: Int[Tensor, " images"],
        true_counts: Int[Tensor, " images"],
    ) -> tuple[TableShapes, TableShapes]:
        """The detections and the ground truths of images that have so many of both; both in the order of the images."""
        image = segments.numbers(counts, len(areas))
        before = segments.starts(counts * true_counts) - segments.starts(counts) * true_counts
        rows = torch.arange(len(areas), device=table.device) * true_counts.index_select(0, image)
        found = cls(table, rows + before.index_select(0, image), areas)
        return found, cls(table, segments.runs(0, true_counts, len(true_areas))[1], true_areas)

    def __len__(self) -> int:
        """See `Shapes`."""
        return len(self.places)

    @property
    def device(self) -> torch.device:
        """See `Shapes`."""
        return self.places.device

    def __getitem__(self, rows: Tensor) -> TableShapes:
        """See `Shapes`."""
        return TableShapes(self.table, self.places[rows], self.areas_given[rows])

    def areas(self) -> Float[Tensor, " shapes"]:
        """See `Shapes`."""
        return self.areas_given.double()

    def overlaps(
        self,
        row: Int[Tensor, " pairs"],
        ground_truths: TableShapes,
        true_row: Int[Tensor, " pairs"],
        is_crowd: Bool[Tensor, " pairs"] | None = None,
    ) -> Float[Tensor, " pairs"]:
        """See `Shapes`; which of them are crowds was known when the table was made."""
        column = ground_truths.places.index_select(0, true_row)
        return self.table.index_select(0, self.places.index_select(0, row).add_(column)).double()
