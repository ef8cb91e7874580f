"""The options of a metric that decide what its ranking is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from reid_torchmetrics.functional.retrieval.draws import GalleryDraw
from reid_torchmetrics.functional.retrieval.evaluation import Protocol, Setup, similarity_name
from reid_torchmetrics.metrics.base import Settings

_NEUTRAL = {"max_bytes", "training", "compute_on_cpu", "dist_sync_on_step", "sync_on_compute", "compute_with_cache"}
"""attributes of a metric that do not decide its value"""
_SHORTEST_CURVE = 50  # metrics at several ranks share one expectation over drawn galleries

PROTOCOL_FIELDS = tuple(field.name for field in fields(Protocol))


@dataclass(frozen=True)
class RankingOptions:
    """Metrics that agree in these share a ranking."""

    similarity: Any
    ties: str
    same_camera: str
    camera_map: tuple[tuple[int, int], ...]
    search_cameras: tuple[int, ...] | None
    junk_identities: tuple[int, ...]
    rerank: Any = None
    draw: GalleryDraw | None = None
    leave_one_out: bool = False
    queries_in_draw: bool = False
    with_precision: bool = False
    """whether average precision over drawn galleries is wanted, and not their CMC alone"""
    max_rank: int = 0
    """length of the CMC over drawn galleries"""

    @classmethod
    def of(cls, protocol: Protocol, *, of_cmc: bool, longest: int, **chosen: Any) -> RankingOptions:
        """Take what `protocol` says of relevance and of drawn galleries, for the CMC or for other measures."""
        protocol = protocol.for_cmc if of_cmc else protocol
        drawn: dict[str, Any] = {}
        if protocol.draw is not None and (of_cmc or protocol.draws_precision):
            drawn = {
                "draw": protocol.draw,
                "queries_in_draw": protocol.queries_in_draw,
                "with_precision": protocol.draws_precision,
                "max_rank": max(longest, protocol.largest_rank, _SHORTEST_CURVE),
            }
        return cls(
            same_camera=protocol.same_camera,
            camera_map=protocol.camera_map,
            search_cameras=protocol.search_cameras,
            junk_identities=tuple(sorted(set(protocol.junk_identities))),
            leave_one_out=protocol.leave_one_out,
            **drawn,
            **chosen,
        )

    @property
    def of_relevance(self) -> dict[str, Any]:
        """What `find_relevance` takes."""
        return {
            "same_camera": self.same_camera,
            "camera_map": dict(self.camera_map) or None,
            "search_cameras": self.search_cameras,
            "junk_identities": self.junk_identities,
        }

    @property
    def needs_all_samples(self) -> bool:
        """Whether a ranking cannot be put together from those of parts of the gallery."""
        return self.rerank is not None or self.draw is not None

    def setup(self, *, cameras: bool) -> Setup:
        """What decides the numbers besides the protocol."""
        rerank = None if self.rerank is None else repr(self.rerank)
        return Setup(self.ties, similarity_name(self.similarity), rerank, cameras=cameras)

    def describe(self) -> dict[str, str]:
        """Texts that are the same in every process."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["similarity"] = similarity_name(self.similarity)
        return {name: repr(value) for name, value in values.items()}


def describe_settings(metric: str, method: str, attributes: Mapping[str, Any], options: RankingOptions) -> Settings:
    """What was asked of a metric of the class `metric`, and what of its attributes decides the answer."""
    public = {key: value for key, value in attributes.items() if not key.startswith("_") and key not in _NEUTRAL}
    decisive = {key: value for key, value in public.items() if isinstance(value, (str, int, float, tuple))}
    ranked = options.describe()
    chosen = {key: repr(value) for key, value in decisive.items()}
    chosen |= {key: ranked[key] for key in ("similarity", "rerank")}
    protocol = attributes["protocol"]
    chosen |= {field.name: repr(getattr(protocol, field.name)) for field in fields(protocol) if field.name != "name"}
    chosen["protocol"] = repr(protocol.name.partition(" with ")[0])  # what was changed has a name of its own
    return Settings(metric, method, chosen, ranked)
