"""A retrieval problem: embeddings or a matrix of scores, and the labels or lists that decide relevance.

Some benchmarks name lists for each query, such as "good", "ok" and "junk". The protocol says which of them are
positives and which are junk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional.retrieval import scores as scoring
from reid_torchmetrics.functional.retrieval.relevance import (
    GivenJunkPairs,
    LabelValues,
    Relevance,
    Vocabulary,
    check_labels,
    check_needed,
    check_sides,
    find_listed_relevance,
    junk_pairs_of,
    names_of_labels,
    number_names,
    one_number_each,
    relevance_of,
    select_samples,
)
from reid_torchmetrics.functional.world import ALONE, World

from .protocol import Protocol

GroundTruth: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
"""For every query its gallery positions as a tensor, an array or a list, or several by name, as the revisited Oxford
and Paris come; or a bool matrix [queries, gallery]"""

LIST_READERS: Registry[Callable[..., Any]] = Registry("LIST_READERS", {})
"""functions of the argument `ground_truth` and a protocol:
"positions" returns the positives and the junk of every query of an evaluation;
"numbers" returns the lists of a whole data set, which a metric keeps. Equal lists are equal, and their method `at`
returns the lists of some queries as positions of the gallery items of this process, and `ListedItems`"""
GROUPED_GALLERIES: Registry[Any] = Registry("GROUPED_GALLERIES", {})
"""the class with the groups of a gallery, "best_member", which a task adds; the score of a group is that of its best
member"""


class ListedItems(NamedTuple):
    """Numbers of queries, of entries in their lists, and of entries that are items of the gallery."""

    num_queries: int
    num_listed: int
    num_found: int


def read_numbers(ground_truth: object, protocol: object) -> Any:
    """Return the lists of a data set, see `LIST_READERS`; None stands for labels."""
    return None if ground_truth is None else LIST_READERS["numbers"](ground_truth, protocol)


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Finite embeddings of all queries and of this process's shard of the gallery."""

    query: scoring.Rows | scoring.RowsInBlocks
    gallery: scoring.Rows
    similarity: _names.SimilarityName | scoring.CustomSimilarity
    rerank: scoring.Rerank | None
    max_bytes: int | None
    argument = "query"

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and of gallery items."""
        return self.query.size, self.gallery.size

    @cached_property
    def query_hash(self) -> int | None:
        """A hash of the embeddings of the queries and of their order; None where no process has them all."""
        return self.query.fingerprint() if isinstance(self.query, scoring.Rows) else None

    @cached_property
    def device(self) -> torch.device:
        """Device of the embeddings."""
        return self.query.device

    def __post_init__(self) -> None:
        scoring.check_rerank(self.rerank, self.similarity)

    def scores(self, relevance: Relevance, world: World) -> scoring.Scores:
        """Return the scores of the gallery items that `relevance` keeps."""
        _checks.length("query", self.query.size, relevance.num_queries)
        _checks.length("gallery", self.gallery.size, relevance.num_gallery)
        if self.rerank is None:
            return self.scores_of(relevance.kept, world)
        # Re-ranking looks for neighbors among all items, also among those that are not kept.
        assert isinstance(self.query, scoring.Rows)  # noqa: S101 - all samples are on this process
        query = self.query.all()
        gallery = self.gallery.all()
        return self.rerank.score(query, gallery, relevance, similarity=self.similarity, max_bytes=self.max_bytes)

    def scores_of(self, items: Int[Tensor, " items"] | None, world: World) -> scoring.Scores:
        """Return the scores of the gallery items at some positions, in any order; None for all."""
        gallery = self.gallery.select(items)
        max_bytes = scoring.bytes_within(self.max_bytes, self.device)
        return scoring.score_rows(world, self.query, gallery, similarity=self.similarity, max_bytes=max_bytes)


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix of scores, or of distances."""

    matrix: Tensor
    max_bytes: int | None
    argument: str = "scores"
    are_distances: bool = False
    similarity = "given scores"
    rerank = None
    query_hash = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and of gallery items."""
        return len(self.matrix), self.matrix.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of the matrix."""
        return self.matrix.device

    def scores(self, relevance: Relevance, world: World) -> scoring.Scores:
        """Return the scores of the gallery items that `relevance` keeps."""
        _checks.length(self.argument, len(self.matrix), relevance.num_queries)
        _checks.length(f"{self.argument}.T", self.matrix.shape[1], relevance.num_gallery)
        return self.scores_of(relevance.kept, world)

    def scores_of(self, items: Int[Tensor, " items"] | None, world: World) -> scoring.Scores:
        """Return the scores of the gallery items at some positions, in any order; None for all."""
        return scoring.MatrixScores(
            self.matrix,
            kept=items,
            argument=self.argument,
            are_distances=self.are_distances,
            max_bytes=scoring.bytes_within(self.max_bytes, self.device),
        )


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of queries and gallery items, or the lists of each query; they decide relevance."""

    query: LabelValues
    gallery: LabelValues
    junk_pairs: GivenJunkPairs | None = None
    self_index: Tensor | None = None
    ground_truth: GroundTruth | None = None
    names: Vocabulary = field(default_factory=Vocabulary)
    """names by their numbers, for labels that were names; of this process's samples, with the same labels everywhere"""

    @classmethod
    def from_arguments(
        cls,
        arguments: Mapping[str, Any],
        protocol: Protocol,
        device: torch.device,
        *,
        self_index: Any,
        junk_pairs: GivenJunkPairs | None = None,
        ground_truth: GroundTruth | None = None,
    ) -> Labels:
        """Build the labels from arguments that are named `query_...` and `gallery_...`; all values become tensors.

        Raises:
            TypeError: names on one side only, or another error of `check_labels`.
            ValueError: labels beside lists, an error of `check_labels`, or a rule with numbers where labels are names,
                or the reverse.
        """
        numbered = number_names(arguments, protocol.relevance_options)
        self_index, *tensors = _arrays.as_tensors(self_index, *numbered.values.values(), device=device)
        labels = dict(zip(numbered.values, tensors, strict=True))
        if ground_truth is not None:
            for argument, values in labels.items():
                if values is not None:
                    raise ValueError(f"`ground_truth` must come without labels; got `{argument}` too.")
        query, gallery = check_labels(labels)
        return cls(
            query=query,
            gallery=gallery,
            junk_pairs=junk_pairs,
            self_index=self_index,
            ground_truth=ground_truth,
            names=numbered.names,
        )

    def check(self, protocol: Protocol) -> None:
        """Raise unless both sides have the same labels, and all that a protocol needs."""
        if self.ground_truth is None:
            arguments = {f"query_{name}": values for name, values in self.query.items()}
            arguments.update((f"gallery_{name}", values) for name, values in self.gallery.items())
            check_needed(protocol.needed_labels, arguments, "query_", "gallery_")
            check_sides(self.query, self.gallery, self.self_index)

    def of_queries(self, queries: Int[Tensor, " selected"]) -> Labels:
        """Return the labels, or the lists, of some queries alone."""
        lists, junk_pairs = self.ground_truth, self.junk_pairs
        if lists is not None:
            lists = [lists[query] for query in queries.tolist()]
        if callable(junk_pairs):
            junk_of_all = junk_pairs

            def junk_pairs(rows: Tensor, items: Tensor) -> Tensor:
                return junk_of_all(queries[rows], items)

        elif isinstance(junk_pairs, Tensor):
            junk_pairs = junk_pairs[queries.to(junk_pairs.device)]
        elif junk_pairs is not None:
            junk_pairs = junk_pairs[queries.cpu().numpy()]
        return replace(
            self,
            query=select_samples(self.query, queries),
            self_index=None if self.self_index is None else self.self_index[queries],
            ground_truth=lists,
            junk_pairs=junk_pairs,
        )

    def relevance(self, protocol: Protocol, source: Embeddings | Matrix) -> Relevance:
        """Return the relevance under a protocol; labels must be on the device of the scores, lists may be anywhere."""
        if self.ground_truth is not None:
            return self._relevance_by_lists(self.ground_truth, protocol, source)
        rules = self.names.rules_by_number(protocol.relevance_options)
        relevance = relevance_of(self.query, self.gallery, rules, self.self_index, self.junk_pairs)
        _checks.same_device(source.argument, source, "query_identities", relevance)
        return relevance

    def positions_within(self, protocol: Protocol) -> tuple[Tensor, Tensor, float] | None:
        """Return the positions of queries and gallery items, and the protocol's radius; None without a radius."""
        query = self.query.get("positions")
        gallery = self.gallery.get("positions")
        if protocol.radius is None or query is None or gallery is None:
            return None
        return query, gallery, protocol.radius

    def _relevance_by_lists(
        self, ground_truth: GroundTruth, protocol: Protocol, source: Embeddings | Matrix
    ) -> Relevance:
        """Return the relevance by the lists of each query; identities and cameras are kept for breakdowns."""
        num_queries, num_gallery = source.shape
        # Lists come from files, so they are put together on the CPU.
        positives, junk = LIST_READERS["positions"](ground_truth, protocol, num_queries, num_gallery)
        relevance = find_listed_relevance(positives, junk, num_gallery=num_gallery, self_index=self.self_index)
        labels = one_number_each(self.query)
        return replace(
            relevance.to(source.device),
            junk_pairs=junk_pairs_of(self.junk_pairs, num_queries, num_gallery, source.device),
            query_identities=labels.get("identities", relevance.query_identities),
            query_cameras=labels.get("cameras", relevance.query_cameras),
        )


@dataclass(frozen=True, eq=False)
class RetrievalProblem:
    """Scores and labels together."""

    source: Embeddings | Matrix
    labels: Labels
    places: Int[Tensor, " gallery"] | None = None
    """places of the gallery items in the whole gallery, ascending: numbers in the data set, else positions; None if
    they are the whole gallery, or if nothing needs places"""
    query_index: Int[Tensor, " queries"] | None = None
    """numbers of the queries in the data set; None if the evaluation was not given `index`"""
    groups: Any = None
    """groups of gallery items; they are ranked in the place of the items, and the labels of the gallery are theirs"""

    @property
    def query_numbers(self) -> Int[Tensor, " queries"]:
        """Number of each query in the data set, or its position if the evaluation was not given `index`."""
        if self.query_index is not None:
            return self.query_index
        return torch.arange(self.source.shape[0], device=self.source.device)

    def of_queries(self, queries: Int[Tensor, " selected"]) -> RetrievalProblem:
        """Return the problem of some queries alone."""
        source = self.source
        if isinstance(source, Embeddings):
            part: Embeddings | Matrix = replace(source, query=source.query.local.select(queries))
        else:
            part = replace(source, matrix=source.matrix[queries])
        labels = self.labels.of_queries(queries)
        return replace(self, source=part, labels=labels, query_index=self.query_numbers[queries])

    @property
    def keeps_thread(self) -> bool:
        """Whether work must stay on the calling thread: on other devices, and where it calls a function of the user."""
        calls_function = callable(self.source.similarity) or callable(self.labels.junk_pairs)
        return calls_function or self.source.device.type != "cpu"

    @property
    def provided_labels(self) -> tuple[str, ...]:
        """Names of the labels that the evaluation was given."""
        names = names_of_labels(self.labels.query)
        return names if self.groups is None else (*names, "groups")

    def grouped(self, protocol: Protocol, prefix: str = "gallery_") -> RetrievalProblem:
        """Return the problem with groups in the place of gallery items, if the gallery has groups.

        Args:
            protocol: may need groups.
            prefix: the prefix of the user's arguments for labels of the gallery.

        Raises:
            TypeError: groups of the wrong dtype.
            ValueError: groups with members of different labels, or an option that has no meaning for groups.
        """
        if "groups" not in self.labels.gallery:
            if protocol.needs_groups:
                raise ValueError(f"`{prefix}groups` must be given under protocol {protocol.name!r}; got none.")
            return self
        grouped: RetrievalProblem = GROUPED_GALLERIES["best_member"].of(self, protocol, prefix)
        return grouped

    def prepare(self, protocol: Protocol, ties: str, world: World = ALONE) -> tuple[scoring.Scores, Relevance]:
        """Return the scores and the relevance under a protocol and a tie policy."""
        # Each process has relevance for its own part of the gallery, so it may fail on one alone.
        relevance = world.guarded(lambda: self.labels.relevance(protocol, self.source))
        if self.groups is None:
            return self.source.scores(relevance, world), relevance

        prepared: tuple[scoring.Scores, Relevance] = self.groups.prepare(self, relevance, protocol, ties, world)
        return prepared

    def kept_places(self, relevance: Relevance) -> Int[Tensor, " kept"] | None:
        """Return the places of the gallery items that a relevance keeps, or of the first items of its groups."""
        places = self.places
        if places is not None and self.groups is not None:
            places = places[self.groups.first]
        if places is not None and relevance.kept is not None:
            places = places[relevance.kept]
        return places
