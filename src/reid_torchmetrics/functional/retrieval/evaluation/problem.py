"""A retrieval problem as it is given: where scores come from, and the labels or lists that say what is relevant.

Lists come with every query of a benchmark, by name; the protocol says which are positives and which junk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from reid_torchmetrics import _arrays, _checks, _names
from reid_torchmetrics.functional.retrieval import scores as of_pairs
from reid_torchmetrics.functional.retrieval.relevance import (
    DECIDING,
    LABELS,
    SIDES,
    GivenJunkPairs,
    LabelTables,
    LabelValues,
    Relevance,
    as_arguments,
    at,
    find_listed_relevance,
    find_relevance,
    junk_pairs_of,
    num_labels_of,
    number_names,
    one_number_each,
    rules_by_number,
)
from reid_torchmetrics.functional.retrieval.reranking import Rerank, check_rerank, rerank_embeddings
from reid_torchmetrics.functional.world import ALONE, World

from .ground_truth import GroundTruth, find_lists
from .groups import Grouping
from .protocol import Protocol
from .ranking_options import SEVERAL_LABELS, RankingOptions, Setup


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Scores come from finite embeddings: of all queries, and of this process's part of the gallery."""

    query: of_pairs.Rows | of_pairs.RowsInBlocks
    gallery: of_pairs.Rows
    similarity: _names.SimilarityName | of_pairs.CustomSimilarity
    rerank: Rerank | None
    max_bytes: int | None
    argument = "query"
    matrix_name = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and of gallery items."""
        return self.query.size, self.gallery.size

    @property
    def device(self) -> torch.device:
        """Where the embeddings are."""
        return self.query.device

    def __post_init__(self) -> None:
        check_rerank(self.rerank, self.similarity)
        _checks.cutoff("max_bytes", self.max_bytes)

    def scores(self, relevance: Relevance, world: World) -> of_pairs.Scores:
        """Scores against the gallery items that `relevance` keeps."""
        _checks.length("query", self.query.size, relevance.num_queries)
        _checks.length("gallery", self.gallery.size, relevance.num_gallery)
        # Only items that are kept are scored, but re-ranking looks for neighbors among all of them.
        if self.rerank is None:
            return self.scores_of(relevance.kept, world)
        assert isinstance(self.query, of_pairs.Rows)  # noqa: S101 - all samples are here
        both = self.query.all(), self.gallery.all()
        return rerank_embeddings(*both, relevance, self.rerank, similarity=self.similarity, max_bytes=self.max_bytes)

    def scores_of(self, items: Int[Tensor, " items"] | None, world: World) -> of_pairs.Scores:
        """Scores against gallery items at some positions, in any order; None for all."""
        gallery, max_bytes = self.gallery.select(items), of_pairs.bytes_within(self.max_bytes, self.device)
        return of_pairs.score_rows(world, self.query, gallery, similarity=self.similarity, max_bytes=max_bytes)

    def opposite(self) -> Embeddings | None:
        """The same with the last candidates first, by one's own similarity; None by a named one."""
        similarity = self.similarity
        if isinstance(similarity, str):
            return None
        return replace(self, similarity=lambda query, gallery: -similarity(query, gallery))


@dataclass(frozen=True, eq=False)
class Matrix:
    """Scores are given, or distances."""

    matrix: Tensor
    max_bytes: int | None
    argument: str = "scores"
    are_distances: bool = False
    similarity = "given scores"
    rerank = None

    @property
    def matrix_name(self) -> str:
        """What the numbers are: "scores" or "distances"."""
        return "distances" if self.are_distances else "scores"

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of queries and of gallery items."""
        return len(self.matrix), self.matrix.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the scores are."""
        return self.matrix.device

    def scores(self, relevance: Relevance, world: World) -> of_pairs.Scores:
        """The scores of the gallery items that `relevance` keeps."""
        _checks.length(self.argument, len(self.matrix), relevance.num_queries)
        _checks.length(f"{self.argument}.T", self.matrix.shape[1], relevance.num_gallery)
        return self.scores_of(relevance.kept, world)

    def scores_of(self, items: Int[Tensor, " items"] | None, world: World) -> of_pairs.Scores:
        """Scores against gallery items at some positions, in any order; None for all."""
        options: dict[str, Any] = {"argument": self.argument, "are_distances": self.are_distances}
        options["max_bytes"] = of_pairs.bytes_within(self.max_bytes, self.device)
        return of_pairs.GivenScores(self.matrix, kept=items, **options)

    def opposite(self) -> Matrix:
        """The same numbers, with the last candidates first."""
        return replace(self, are_distances=not self.are_distances)


@dataclass(frozen=True, eq=False)
class Labels:
    """What decides relevance: labels of both sides, or the lists that come with each query."""

    query: LabelValues
    gallery: LabelValues
    junk_pairs: GivenJunkPairs | None = None
    self_index: Tensor | None = None
    ground_truth: GroundTruth | None = None
    names: LabelTables = field(default_factory=dict)
    """the names of this process's samples, for labels that came as names; all processes have tables of the same ones"""

    @classmethod
    def of_sides(
        cls, given: Mapping[str, Any], self_index: Any, protocol: Protocol, device: torch.device, **others: Any
    ) -> Labels:
        """Take apart labels that are named `query_...` and `gallery_...`; names, arrays and lists become tensors.

        Raises:
            TypeError: names beside something else.
            ValueError: labels beside lists, or a rule with numbers where labels are names, or the reverse.
        """
        given, names = number_names(given, protocol.relevance_options)
        self_index, *values = _arrays.as_tensors(self_index, *given.values(), device=device)
        labels = {name: value for name, value in zip(given, values, strict=True) if value is not None}
        for argument in labels if others["ground_truth"] is not None else ():
            raise ValueError(f"`ground_truth` must come without labels; got `{argument}` too.")
        query, gallery = (
            {name: LABELS[name].check(each, labels[each]) for name in DECIDING if (each := f"{side}_{name}") in labels}
            for side in SIDES
        )
        return cls(query, gallery, self_index=self_index, names=names, **others)

    def relevance(self, protocol: Protocol, source: Embeddings | Matrix) -> Relevance:
        """Who is positive, negative or junk under a protocol; lists may be anywhere, labels must be with the scores."""
        if self.ground_truth is not None:
            # Lists come from files, so they are put together on the CPU.
            num_queries, num_gallery = source.shape
            positives, junk = find_lists(self.ground_truth, protocol, num_queries, num_gallery)
            listed = find_listed_relevance(positives, junk, num_gallery=num_gallery, self_index=self.self_index)
            labels = one_number_each(self.query)
            shown: Any = {f"query_{name}": labels[name] for name in ("identities", "cameras") if name in labels}
            junk_pairs = junk_pairs_of(self.junk_pairs, num_queries, num_gallery, source.device)
            return replace(listed.to(source.device), junk_pairs=junk_pairs, **shown)
        options: dict[str, Any] = {"junk_pairs": self.junk_pairs, "self_index": self.self_index}
        rules = rules_by_number(protocol.relevance_options, self.names)
        given = as_arguments(self.query, "query_", rules) | as_arguments(self.gallery, "gallery_", rules)
        relevance = find_relevance(**given, **options, **rules)
        _checks.same_device(source.argument, source, "query_identities", relevance)
        return relevance


@dataclass(frozen=True, eq=False)
class RetrievalProblem:
    """Scores and labels together."""

    source: Embeddings | Matrix
    labels: Labels
    places: Int[Tensor, " gallery"] | None = None
    """places of the gallery items in the whole gallery, ascending: numbers in the data set, else positions; None if
    they are the whole gallery, or if nothing asks for places"""
    query_index: Int[Tensor, " queries"] | None = None
    """numbers of the queries in the data set, where they are known"""
    groups: Grouping | None = None
    """groups of gallery items; they are ranked in the place of the items, and the labels of the gallery are theirs"""
    member_positions: Float[Tensor, "gallery axes"] | None = None
    """positions of the gallery items, if some members of a group of this process have different positions"""

    @property
    def numbers_of_queries(self) -> Int[Tensor, " queries"]:
        """What users know a query by: its number in the data set, else its position."""
        if self.query_index is not None:
            return self.query_index
        return torch.arange(self.source.shape[0], device=self.source.device)

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the labels that were given."""
        several = [SEVERAL_LABELS] if num_labels_of(self.labels.query) else []
        return (*self.labels.query, *several, *(["groups"] if self.groups is not None else []))

    def positions_within(self, protocol: Protocol) -> tuple[Tensor, Tensor, float] | None:
        """Positions of queries and of gallery items, and their largest distance in a match, if there is one."""
        query, gallery = self.labels.query.get("positions"), self.labels.gallery.get("positions")
        if protocol.radius is None or query is None or gallery is None:
            return None
        checked = [LABELS["positions"].check("positions", side) for side in (query, gallery)]
        return checked[0], checked[1], protocol.radius

    def grouped(self, protocol: Protocol, prefix: str = "gallery_") -> RetrievalProblem:
        """The same problem with groups in the place of gallery items, if they have groups.

        `prefix` is that of the user's arguments for labels of the gallery.

        Raises:
            TypeError: groups of the wrong dtype.
            ValueError: groups that members with different labels have, or an option that has no meaning for groups.
        """
        labels, argument = dict(self.labels.gallery), f"{prefix}groups"
        if "groups" not in labels:
            if protocol.needs_groups:
                raise ValueError(f"`{argument}` must be given under protocol {protocol.name!r}; got none.")
            return self
        of_items = {name: getattr(self.labels, name) for name in ("junk_pairs", "self_index", "ground_truth")}
        of_items |= {"rerank": self.source.rerank, "draw": protocol.draw}
        for came in (name for name, value in of_items.items() if value is not None):
            names = ", ".join(f"`{name}`" for name in of_items)
            raise ValueError(f"`{argument}` must come without {names}, which act on items; got `{came}`.")
        for name, values in labels.items():
            labels[name] = LABELS[name].check(f"{prefix}{name}", values, self.source.shape[1], self.source.device)
        given = labels.pop("groups")
        groups = Grouping.of(given)
        # Under a radius the best member's position decides, where members differ in it.
        positions = None if protocol.radius is None else labels.get("positions")
        groups.check(argument, given, {name: each for name, each in labels.items() if each is not positions})
        positions = positions if positions is not None and len(groups.differing(positions)) else None
        of_groups = replace(self.labels, gallery=at(labels, groups.first))
        return replace(self, labels=of_groups, groups=groups, member_positions=positions)

    def prepare(self, protocol: Protocol, ties: str, world: World = ALONE) -> tuple[of_pairs.Scores, Relevance]:
        """Scores and relevance under a protocol and a tie policy."""
        # Each process has relevance for its own part of the gallery, so it may fail on one alone.
        relevance = world.guarded(lambda: self.labels.relevance(protocol, self.source))
        groups = self.groups
        if groups is None:
            return self.source.scores(relevance, world), relevance
        _checks.length(self.source.argument, self.source.shape[0], relevance.num_queries)
        kept = groups.kept(relevance)
        scores = of_pairs.GroupScores(self.source.scores_of(kept.members, world), kept.members, kept.sizes)
        if protocol.radius is None:
            return scores, relevance

        def find_near_groups(radius: float) -> Relevance:
            # The groups of this process may all stay in place while those of another process do not.
            if self.member_positions is None:
                return relevance
            query_positions = LABELS["positions"].check("query_positions", self.labels.query["positions"])
            return kept.find_near(relevance, scores, query_positions, self.member_positions, radius, ties)

        # All processes know the radius, so all of them come here.
        return scores, world.guarded(partial(find_near_groups, protocol.radius))

    def kept_places(self, relevance: Relevance) -> Int[Tensor, " kept"] | None:
        """Places of the gallery items that a relevance keeps, or of the first items of its groups."""
        places = self.places if self.places is None or self.groups is None else self.places[self.groups.first]
        return places if places is None or relevance.kept is None else places[relevance.kept]

    def ranking_options(self, protocol: Protocol, *, ties: str, for_cmc: bool, longest: int = 1) -> RankingOptions:
        """What decides the ranking under a protocol, for the CMC or for other measures."""
        source = {"similarity": self.source.similarity, "rerank": self.source.rerank}
        return RankingOptions.of(protocol, for_cmc=for_cmc, longest=longest, ties=ties, **source)

    def setup(self, *, ties: str, multi_query: bool = False) -> Setup:
        """What decides the numbers besides the protocol."""
        labels, source = self.labels, self.source
        others = {"lists": labels.ground_truth is not None, "junk_pairs": labels.junk_pairs is not None}
        return Setup.of(ties, source.similarity, source.rerank, self.given, multi_query=multi_query, **others)
