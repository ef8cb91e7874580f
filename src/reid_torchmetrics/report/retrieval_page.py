"""The page about a retrieval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation import Comparison, RetrievalResults
from reid_torchmetrics.plot import Pictures
from reid_torchmetrics.report.comparison_section import comparison_section
from reid_torchmetrics.report.curve_sections import camera_pairs_section, curves_section
from reid_torchmetrics.report.page import Page
from reid_torchmetrics.report.provenance import provenance_section, versions
from reid_torchmetrics.report.rank_list_sections import Queries, hardest_section, mistakes_section
from reid_torchmetrics.report.retrieval_sections import (
    cameras_section,
    identities_section,
    numbers_section,
    queries_section,
)


@dataclass(frozen=True)
class RetrievalOptions:
    """What may be asked for besides results; see `write_report`."""

    pictures: Pictures | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    gallery_pictures: Pictures | None = None
    num_hardest: int = 60
    num_mistakes: int = 20
    comparison: Comparison | None = None
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    def __post_init__(self) -> None:
        """Check the values."""
        _checks.instance("comparison", self.comparison, (Comparison,))
        _checks.instance("generator", self.generator, (torch.Generator,))
        _checks.positive_int("num_hardest", self.num_hardest)
        _checks.positive_int("num_mistakes", self.num_mistakes)
        if self.gallery_pictures is not None and self.pictures is None:
            raise ValueError("`gallery_pictures` must come with `pictures`, those of the queries; got None for them.")


def retrieval_page(results: RetrievalResults, options: RetrievalOptions) -> Page:
    """All sections about results of a retrieval."""
    queries = Queries.of(
        results, names=options.names, pictures=options.pictures, gallery_pictures=options.gallery_pictures
    )
    data = {"versions": versions(), **results.to_dict()}
    sections = [numbers_section(results, options.generator), queries_section(results)]
    if options.comparison is not None:
        data["comparison"] = options.comparison.to_dict()
        sections.append(comparison_section(results, options.comparison))
    sections += [
        curves_section(results),
        hardest_section(queries, options.num_hardest),
        mistakes_section(queries, options.num_mistakes),
        camera_pairs_section(results),
        cameras_section(results),
        identities_section(results, options.names),
        provenance_section(data),
    ]
    return Page(f"Retrieval by {results.protocol.name}", str(results.setup).capitalize() + ".", sections, data)
