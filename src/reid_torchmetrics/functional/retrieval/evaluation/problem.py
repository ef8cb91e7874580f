"""A retrieval problem as it is given: where scores come from, and the labels or lists that say what is relevant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.setup import Setup, similarity_name
from reid_torchmetrics.functional.retrieval.relevance import JunkPairs, Relevance, find_listed_relevance, find_relevance
from reid_torchmetrics.functional.retrieval.reranking import Rerank, check_rerank, rerank_embeddings
from reid_torchmetrics.functional.retrieval.scores import CustomSimilarity, Rows, Scores, given_scores, score_rows
from reid_torchmetrics.functional.world import ALONE, World


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Scores are those of finite embeddings: of all queries, and of this process's part of the gallery."""

    query: Rows
    gallery: Rows
    similarity: str | CustomSimilarity
    rerank: Rerank | None
    max_bytes: int

    def __post_init__(self) -> None:
        check_rerank(self.rerank, self.similarity)

    def scores(self, relevance: Relevance, world: World) -> Scores:
        """Scores against the gallery items that `relevance` keeps."""
        _checks.length("query", self.query.size, relevance.num_queries)
        _checks.length("gallery", self.gallery.size, relevance.num_gallery)
        if self.rerank is None:
            gallery = self.gallery.select(relevance.kept)
            return score_rows(world, self.query, gallery, similarity=self.similarity, max_bytes=self.max_bytes)
        both = self.query.all(), self.gallery.all()
        return rerank_embeddings(*both, relevance, self.rerank, similarity=self.similarity, max_bytes=self.max_bytes)


@dataclass(frozen=True, eq=False)
class Matrix:
    """Scores are given."""

    matrix: Tensor
    max_bytes: int
    similarity = "given scores"
    rerank = None

    def scores(self, relevance: Relevance, world: World) -> Scores:
        """The scores of the gallery items that `relevance` keeps."""
        return given_scores(self.matrix, relevance, max_bytes=self.max_bytes)


_LABELS = (
    "query_identities",
    "gallery_identities",
    "query_cameras",
    "gallery_cameras",
    "query_sequences",
    "gallery_sequences",
)


@dataclass(frozen=True, eq=False)
class Labels:
    """What says what is relevant: labels of both sides, or the lists that come with each query."""

    query_identities: Tensor | None
    gallery_identities: Tensor | None
    query_cameras: Tensor | None = None
    gallery_cameras: Tensor | None = None
    query_sequences: Tensor | None = None
    gallery_sequences: Tensor | None = None
    junk_pairs: JunkPairs | None = None
    self_index: Tensor | None = None
    ground_truth: Sequence[Mapping[str, Any]] | None = None
    num_queries: int = 0
    num_gallery: int = 0

    def __post_init__(self) -> None:
        labels = [name for name in _LABELS if getattr(self, name) is not None]
        _checks.relevance_given(labels, lists=self.ground_truth is not None)

    def relevance(self, protocol: Protocol) -> Relevance:
        """Who is positive, negative or junk under a protocol."""
        if self.ground_truth is not None:
            return self._listed(self.ground_truth, protocol)
        assert self.query_identities is not None  # noqa: S101 - for the type checker
        assert self.gallery_identities is not None  # noqa: S101
        return find_relevance(
            self.query_identities,
            self.gallery_identities,
            self.query_cameras,
            self.gallery_cameras,
            query_sequences=self.query_sequences,
            gallery_sequences=self.gallery_sequences,
            junk_pairs=self.junk_pairs,
            self_index=self.self_index,
            **protocol.relevance_options,
        )

    def _listed(self, ground_truth: Sequence[Mapping[str, Any]], protocol: Protocol) -> Relevance:
        _checks.lists_by_name("ground_truth", ground_truth, self.num_queries)
        _checks.named_lists("ground_truth", ground_truth, protocol.positive_lists, protocol.junk_lists)
        sides = (protocol.positive_lists, protocol.junk_lists)
        positives, junk = (_joined(ground_truth, names, self.num_gallery) for names in sides)
        _checks.listed_once(
            "ground_truth", [torch.cat(pair).sort().values for pair in zip(positives, junk, strict=True)]
        )
        listed = find_listed_relevance(positives, junk, num_gallery=self.num_gallery, self_index=self.self_index)
        return replace(listed, junk_pairs=self.junk_pairs)


@dataclass(frozen=True, eq=False)
class RetrievalProblem:
    """Scores and labels together."""

    source: Embeddings | Matrix
    labels: Labels
    places: Int[Tensor, " gallery"] | None = None
    """of the gallery items in the whole gallery, ascending, where they are a part of it and ties need them"""

    def prepare(self, protocol: Protocol, world: World = ALONE) -> tuple[Scores, Relevance]:
        """Scores and relevance under a protocol."""
        relevance = world.guarded(lambda: self.labels.relevance(protocol))
        return self.source.scores(relevance, world), relevance

    def setup(self, *, ties: str, multi_query: bool = False) -> Setup:
        """What decides the numbers besides the protocol."""
        labels = self.labels
        return Setup(
            ties,
            similarity_name(self.source.similarity),
            None if self.source.rerank is None else repr(self.source.rerank),
            cameras=labels.query_cameras is not None,
            lists=labels.ground_truth is not None,
            sequences=labels.query_sequences is not None,
            junk_pairs=labels.junk_pairs is not None,
            multi_query=multi_query,
        )


def _joined(ground_truth: Sequence[Mapping[str, Any]], names: tuple[str, ...], num_gallery: int) -> list[Tensor]:
    """The named lists of every query, one after the other; a list that a query lacks is empty."""
    none = torch.empty(0, dtype=torch.int64)
    joined = []
    for query, lists in enumerate(ground_truth):
        parts = [none]
        for name in names:
            argument, positions = f"ground_truth[{query}][{name!r}]", lists.get(name, none)
            _checks.array_like(argument, positions)
            positions = torch.as_tensor(positions)
            if positions.numel():  # an empty list is a tensor of floats
                _checks.integer_labels(argument, positions)
                _checks.in_range(argument, positions, 0, num_gallery)
                parts.append(positions)
        joined.append(torch.cat([part.to(parts[-1].device) for part in parts]))
    return joined
