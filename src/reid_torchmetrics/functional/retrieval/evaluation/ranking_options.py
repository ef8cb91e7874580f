"""What of a protocol, and of a metric's options, decides a ranking."""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any

from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.setup import Setup, similarity_name

_OF_RELEVANCE = (
    "same_camera",
    "camera_map",
    "search_cameras",
    "junk_identities",
    "leave_one_out",
    "positive_lists",
    "junk_lists",
)
_OF_DRAWS = ("draw", "queries_in_draw", "draws_precision")
_SHORTEST_CURVE = 50  # metrics at several ranks share one expectation over drawn galleries


@functools.lru_cache(maxsize=64)  # a metric asks at every step, and checking a protocol takes a tenth of a millisecond
def _decisive(protocol: Protocol, *, of_cmc: bool) -> Protocol:
    """What of a protocol decides a ranking, for the CMC or for other measures."""
    protocol = protocol.for_cmc if of_cmc else protocol
    draws = protocol.draw is not None and (of_cmc or protocol.draws_precision)
    decisive = {name: getattr(protocol, name) for name in (*_OF_RELEVANCE, *(_OF_DRAWS if draws else ()))}
    decisive["junk_identities"] = tuple(sorted(set(protocol.junk_identities)))
    return Protocol(name="", source="", **decisive)


@dataclass(frozen=True)
class RankingOptions:
    """Metrics that hold the same samples and agree in these share a ranking."""

    protocol: Protocol
    """with the fields that decide relevance and draws; all others have their defaults"""
    similarity: Any
    ties: str
    rerank: Any = None
    max_rank: int = 0
    """length of the CMC over drawn galleries"""

    @classmethod
    def of(cls, protocol: Protocol, *, of_cmc: bool, longest: int, **chosen: Any) -> RankingOptions:
        """Take what `protocol` says of relevance and of drawn galleries, for the CMC or for other measures."""
        decisive = _decisive(protocol, of_cmc=of_cmc)
        max_rank = 0 if decisive.draw is None else max(longest, protocol.largest_rank, _SHORTEST_CURVE)
        return cls(decisive, max_rank=max_rank, **chosen)

    @property
    def needs_all_samples(self) -> bool:
        """Whether a ranking cannot be put together from those of parts of the gallery."""
        return self.rerank is not None or self.protocol.draw is not None

    def setup(self, *, cameras: bool) -> Setup:
        """What decides the numbers besides the protocol."""
        rerank = None if self.rerank is None else repr(self.rerank)
        return Setup(self.ties, similarity_name(self.similarity), rerank, cameras=cameras)

    def describe(self) -> dict[str, str]:
        """Texts that are the same in every process."""
        values = {name: getattr(self.protocol, name) for name in (*_OF_RELEVANCE, *_OF_DRAWS)}
        values |= {field.name: getattr(self, field.name) for field in fields(self) if field.name != "protocol"}
        values["similarity"] = similarity_name(self.similarity)
        return {name: repr(value) for name, value in values.items()}
