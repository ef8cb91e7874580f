"""Ranks in a gallery that comes in blocks, here or on other machines: a block is counted where it is, and dropped.

The rank of a positive needs its score, and the number of negatives before it. So all positives come first. Then each
block, in any order, gives one number for each positive, and the numbers of all blocks add up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial, wraps
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import torch
from jaxtyping import Float, Real, Shaped
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names, _progress
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.evaluation import Embeddings, Labels, RetrievalProblem
from reid_torchmetrics.functional.retrieval.ranking import (
    TIE_POLICIES,
    GalleryPart,
    PositiveRanks,
    Tiles,
    count_ranks,
    unchecked_ranks,
)
from reid_torchmetrics.functional.retrieval.relevance import (
    LABELS,
    SIDES,
    ExtraLabels,
    Integers,
    IntegersOrNames,
    Positions,
    QueryLabels,
    Relevance,
    SampleLabels,
    Vocabulary,
    argument_of,
    as_arguments,
    check_agreement,
    check_needed,
    find_relevance,
    fits_names,
    hash_names,
    names_in_rules,
    select_samples,
    why_needed,
)
from reid_torchmetrics.functional.retrieval.scores import (
    CustomSimilarity,
    EmbeddingScores,
    Rows,
    bytes_within,
    check_similarity,
    gallery_statistics,
    promoted,
    score_dtype,
)
from reid_torchmetrics.tasks.hashing import read_block

from .counts import Counts, GalleryStatistics, Nothing, digest_of, in_one_spelling, keys_of, read_positives

Identities: TypeAlias = _checks.IntegersOrNames | _checks.SeveralLabels

Method = TypeVar("Method", bound=Callable[..., Any])

_STREAMED = tuple(name for name, policy in TIE_POLICIES.items() if policy.by_place is None)
_LABELS = tuple(name for name, label in LABELS.items() if label.decides and label.sides == SIDES)
_FURTHER_LABELS = tuple(name for name in _LABELS if name not in ("identities", "cameras"))
"""the labels that are no parameter in signatures: the keys of `SampleLabels`"""


class StreamOptions(QueryLabels, total=False):
    """Further labels of queries and positives, and the options of `find_relevance` that a stream can follow."""

    positive_sequences: IntegersOrNames | None
    positive_clothes: IntegersOrNames | None
    positive_positions: Positions | None
    positive_labels: ExtraLabels | None
    same_camera: _names.CameraRule
    camera_map: Mapping[int | str, int | str] | None
    search_cameras: Collection[int | str] | None
    junk_identities: Collection[int | str]
    missing_identities: _names.MissingLabels
    clothes: _names.ClothesRule
    radius: float | None
    must_agree: Collection[str]
    must_differ: Collection[str]
    self_index: Integers | None


_MOST_QUERIES, _MOST_ITEMS = 32, 512  # the first queries, and their positives, that are kept


class _Block(NamedTuple):
    """Gallery items, their labels, and their relevance to the queries."""

    embeddings: Float[Tensor, "items dim"]
    labels: dict[str, Tensor]
    names: Vocabulary
    """names of the labels by their numbers"""
    relevance: Relevance
    marks: int
    """marks of the queries, the positives and the block; see `read_block`"""

    @property
    def rows(self) -> Rows:
        """The items that are kept."""
        return Rows([self.embeddings], self.relevance.kept)


def _in_pool(method: Method) -> Method:
    """Do the work of a method on the thread pool, without gradients."""

    @wraps(method)
    def run(self: RankCounter, *args: Any, **options: Any) -> Any:
        work = partial(torch.no_grad()(method), self, *args, **options)
        return workers.run(work, self._query.device, inside=callable(self.similarity))

    return cast("Method", run)


class RankCounter:
    """Rank positives in a gallery that is never in memory: count its blocks, on any machine and in any order.

    `positives` are all gallery items with the identity of a query, and possibly other items. A counter ranks them among
    themselves when it is made, keeps their scores, and never changes. It can be pickled. `count` counts a block of
    other items, `sum` adds up the counts of blocks, and `ranks` returns the ranks of `rank_positives` for the whole
    gallery, on the CPU to the bit.

    Every block has a `key`, such as the name of its file. Adding two blocks with the same key is an error; a task that
    ran again may cause it.

    Under "euclidean" the last digits of scores depend on the mean of the gallery, and embeddings that float32 cannot
    square change the dtype of all scores. If that matters, add up the `statistics` of all blocks, and
    make the counter with the sum.

    Args:
        query: embeddings of the queries [queries, D].
        positives: embeddings of gallery items [positives, D]: all items with the identity of a query or, with a
            `radius`, within it.
        query_identities: identities of the queries.
        positive_identities: identities of `positives`.
        query_cameras: cameras of the queries; None together with `positive_cameras` means that no camera rule applies.
        positive_cameras: cameras of `positives`.
        similarity: as in `rank_positives`.
        ties: as in `rank_positives`, but not "stable", as a stream has no order.
        statistics: the sum of the `statistics` of all blocks, by a counter with the same queries and options; that
            counter needs no positives.
        max_bytes: bound on the memory for scores and for prepared rows of a block; as in `rank_positives`.
        options: `query_sequences` and `positive_sequences`, the same for clothes, positions and labels, and the options
            of `find_relevance` without `junk_pairs`; a protocol has them in its `relevance_options`. `self_index` holds
            positions in `positives`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, scores that are NaN, or
            a tie policy by places.

    Example:
        >>> from reid_torchmetrics.tasks import RankCounter
        >>> query, positives = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 1.0], [1.0, 3.0]])
        >>> counter = RankCounter(query, positives, query_identities=[7], positive_identities=[7, 7])
        >>> blocks = {"a": torch.tensor([[1.0, 1.0], [0.0, 1.0]]), "b": torch.tensor([[1.0, 0.0]])}
        >>> counts = sum(counter.count(block, [8] * len(block), key=key) for key, block in blocks.items())
        >>> counter.ranks(counts).rank
        tensor([2, 4])
    """

    @with_typed_options(StreamOptions)
    def __init__(
        self,
        query: Shaped[Tensor, "queries dim"] | _checks.Array,
        positives: Shaped[Tensor, "positives dim"] | _checks.Array,
        query_identities: Shaped[Tensor, "queries ..."] | Identities | None = None,
        positive_identities: Shaped[Tensor, "positives ..."] | Identities | None = None,
        query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
        positive_cameras: Real[Tensor, " positives"] | _checks.IntegersOrNames | None = None,
        *,
        similarity: _names.SimilarityName | CustomSimilarity = "cosine",
        ties: _names.TieName = "pessimistic",
        statistics: GalleryStatistics | Nothing = 0,
        max_bytes: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        check_similarity(similarity)
        _checks.one_of("ties", ties, _STREAMED)
        _checks.cutoff("max_bytes", max_bytes)

        # Separate the labels from the rules.
        rules: dict[str, Any] = dict(options)
        rules["query_identities"] = query_identities
        rules["positive_identities"] = positive_identities
        rules["query_cameras"] = query_cameras
        rules["positive_cameras"] = positive_cameras
        labels = {}
        for side in ("query", "positive"):
            for name in _LABELS:
                labels[f"{side}_{name}"] = rules.pop(f"{side}_{name}", None)
        check_agreement({"same_camera": "same_identity"} | rules)
        reasons = why_needed(rules)
        check_needed(reasons, labels, "query_", "positive_")
        self_index = rules.pop("self_index", None)
        self.similarity = similarity
        self.ties = ties
        self.rules = rules

        # Copy the queries: a view would be pickled with its whole tensor, and the caller may change its tensors.
        self._marks = 0
        query, query_labels, self._all_names, self._marks = self._checked("query", query, "query_", labels)
        self.label_names = self._all_names.for_results()
        self._query = query.clone()
        self.query_hash = Rows([self._query]).fingerprint()
        self.query_labels = {name: values.clone() for name, values in query_labels.items()}
        self._max_bytes = bytes_within(max_bytes, query.device)

        block = self._read_block("positives", positives, "positive_", labels, self_index=self_index)
        self._marks = block.marks
        self.rules = in_one_spelling(rules)
        self.self_index = block.relevance.self_index
        self.sample = self._sample(block) if len(query) else None
        self._rank(block, statistics)

    @_in_pool
    def _rank(self, block: _Block, statistics: GalleryStatistics | Nothing) -> None:
        """Rank the positives among themselves, and keep their scores."""
        # Facts that all scores depend on.
        similarity_name = "function" if callable(self.similarity) else self.similarity
        self._statistics_digest = digest_of(
            self._query, *chain(*self.query_labels.items()), self.rules, similarity_name
        )
        facts = self._facts_of(Rows([self._query]), block.rows)
        self._facts = GalleryStatistics.added(facts, "statistics", statistics, self._statistics_digest)
        needs_float64 = bool(self._facts[-1])
        self._dtype = torch.float64 if needs_float64 else torch.float32

        part = self._part(block)
        self._thresholds = read_positives(part)
        self._longest_run = part.relevance.longest_run
        ranks = count_ranks(part.scores, part.relevance, ties=self.ties)
        self._positive_ranks = ranks
        self.query_counts = part.relevance.counts(ranks.num_positives)
        # Functions cannot be hashed, so their scores tell them apart.
        self._digest = digest_of(
            self._statistics_digest,
            self.ties,
            self._thresholds.scores,
            ranks.rank,
            ranks.num_positives,
            ranks.num_candidates,
        )

    def _facts_of(self, *rows: Rows) -> Float[Tensor, " numbers"]:
        """Return the gallery statistics of the last rows, then 1 if scores of the rows need float64, else 0."""
        dtype = score_dtype(self.similarity, *rows)
        sums = gallery_statistics(self.similarity, rows[-1], dtype)
        return torch.cat([sums, sums.new_tensor([dtype == torch.float64])])

    @_in_pool
    def statistics(
        self,
        embeddings: Shaped[Tensor, "items dim"] | _checks.Array,
        identities: Shaped[Tensor, "items ..."] | Identities | None = None,
        cameras: Real[Tensor, " items"] | _checks.IntegersOrNames | None = None,
        *,
        key: int | str,
        **labels: Unpack[SampleLabels],
    ) -> GalleryStatistics:
        """Return statistics of a block that all scores depend on; arguments and errors are as for `count`."""
        block = self._block(embeddings, identities, cameras, labels)
        return GalleryStatistics(self._facts_of(block.rows).cpu().numpy(), self._statistics_digest, keys_of(key))

    @_in_pool
    def count(
        self,
        embeddings: Shaped[Tensor, "items dim"] | _checks.Array,
        identities: Shaped[Tensor, "items ..."] | Identities | None = None,
        cameras: Real[Tensor, " items"] | _checks.IntegersOrNames | None = None,
        *,
        key: int | str,
        **labels: Unpack[SampleLabels],
    ) -> Counts:
        """Count a block of gallery items that are not among `positives`.

        Args:
            embeddings: embeddings of the block [items, D].
            identities: identities, none of them a query's; items of junk identities are dropped.
            cameras: cameras, needed if the queries have cameras.
            key: a key that no other block has.
            labels: `sequences`, `clothes`, `positions`, and `labels`, a mapping such as {"side": [...]} with the names
                in `must_agree` and `must_differ`; needed if the queries have them.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes, devices or labels that do not fit, embeddings that are not finite or need another dtype
                than scores have, scores that are NaN, or an item that belongs in `positives`.
        """
        keys = keys_of(key)
        block = self._block(embeddings, identities, cameras, labels)
        needed_dtype = promoted([self._dtype, score_dtype(self.similarity, block.rows)])
        if needed_dtype != self._dtype:
            # Rounding is no remedy for numbers that float32 cannot square.
            is_wide = block.embeddings.dtype == needed_dtype
            conversion = "convert the block, such as by `numpy.float32(embeddings)`, or " if is_wide else ""
            raise ValueError(
                f"`embeddings` must fit scores of {self._dtype}, as `query`, `positives` and `statistics` do; got"
                f" some that need {needed_dtype}, so {conversion}pass the sum of the `statistics` of all blocks to the"
                " counter."
            )
        part = self._part(block)
        thresholds = self._thresholds
        shape = (part.ties.num_counts, len(thresholds.scores))
        num_before = torch.zeros(shape, dtype=torch.int64, device=self._query.device)
        num_candidates = torch.zeros_like(thresholds.num_positives)
        tiles = Tiles(part, longest_run=self._longest_run)
        for rows in _progress.steps(tiles.rows, "Ranking", parts=tiles.num_fills):
            tile = block.relevance.tile(rows)
            num_candidates[rows] = tile.num_candidates
            positives, cells, inside = thresholds.select(rows)
            if len(cells):
                num_before[:, inside] = tiles.count(rows, tile, positives).flatten(1)[:, cells]
        numbers = torch.cat([num_before.flatten(), num_candidates])
        return Counts(numbers.cpu().numpy(), self._digest, keys)

    def ranks(self, counts: Counts | Nothing) -> PositiveRanks:
        """Return the ranks among `positives` and the items of all counted blocks; pass 0 for no block.

        Raises:
            TypeError: neither `Counts` nor 0.
            ValueError: counts of another counter.
        """
        ranks = self._positive_ranks
        num_counts = TIE_POLICIES[self.ties].num_counts
        sizes = (num_counts * len(ranks.rank), ranks.num_queries)
        zeros = torch.zeros(sum(sizes), dtype=torch.int64, device=ranks.rank.device)
        num_before, num_candidates = Counts.added(zeros, "counts", counts, self._digest).split(sizes)
        num_before = num_before.view(num_counts, -1)
        tied = ranks.tied
        if tied is not None:
            first = segments.starts(tied.num_positives)
            num_tied = (num_before[0] - num_before[1])[first]
            tied = replace(tied, num_negatives=tied.num_negatives + num_tied)
        return unchecked_ranks(
            ranks.rank + num_before[0],
            ranks.num_positives.clone(),
            num_candidates + ranks.num_candidates,
            tied=tied,
            judged=ranks.judged,
        )

    def _part(self, block: _Block) -> GalleryPart:
        scores = EmbeddingScores(
            Rows([self._query]),
            block.rows,
            similarity=self.similarity,
            max_bytes=self._max_bytes,
            dtype=self._dtype,
            sums=self._facts[:-1],
        )
        return GalleryPart(scores, block.relevance, TIE_POLICIES[self.ties])

    def _block(self, embeddings: object, identities: object, cameras: object, labels: Mapping[str, Any]) -> _Block:
        """Return a block of the stream; raise if one of its items belongs in `positives`."""
        _checks.known_arguments("count", labels, _FURTHER_LABELS)
        all_labels = {"identities": identities, "cameras": cameras, **labels}
        block = self._read_block("embeddings", embeddings, "", all_labels)
        relevance = block.relevance
        has_relevant_items = relevance.run_length > 0
        if not bool(has_relevant_items.any()):
            return block

        # Name the first item that is relevant to a query.
        query = int(has_relevant_items.nonzero()[0, 0])
        column = relevance.tile(slice(query, query + 1)).columns[0, 0]
        row = int(column if relevance.kept is None else relevance.kept[column])
        if self.rules["radius"] is not None:
            reason = "within the `radius`"
        elif relevance.shared is not None:
            reason = "with a label"
        else:
            number = int(block.labels["identities"][row])
            identity_names = self.label_names.get("identities", {})
            reason = f"with identity {identity_names.get(number, number)}"
        raise ValueError(
            "`embeddings` must be of items that are relevant to no query: those belong in `positives`; got row"
            f" {row} {reason} of query {query}."
        )

    def _read_block(
        self, argument: str, value: object, prefix: str, values: Mapping[str, Any], *, self_index: Any = None
    ) -> _Block:
        """Check gallery items, and find their relevance to the queries."""
        embeddings, labels, names, marks = self._checked(argument, value, prefix, values)
        _checks.same_device("query", self._query, argument, embeddings)
        _checks.same_dimension("query", self._query.shape[1], argument, embeddings.shape[1])
        unmatched = labels.keys() ^ self.query_labels.keys()
        if unmatched:
            name = min(unmatched)
            present, missing = f"{prefix}{name}", f"query_{name}"
            if name not in labels:
                present, missing = missing, present
            raise ValueError(
                f"`{prefix}{name}` must be given if `query_{name}` is; got `{present}` without `{missing}`."
            )
        self._check_kinds(prefix, labels, names)
        label_arguments = as_arguments(self.query_labels, "query_", self.rules)
        label_arguments |= as_arguments(labels, "gallery_", self.rules)
        rules = self.label_names.rules_by_number(self.rules)
        relevance = find_relevance(**label_arguments, **rules, self_index=self_index)
        return _Block(embeddings, labels, names, relevance, marks)

    def __getstate__(self) -> dict[str, Any]:
        """Return what blocks are counted with, which is small to send."""
        return vars(self) | {"sample": None}

    def _sample(self, block: _Block) -> RetrievalProblem:
        """Return the problem of the first queries and some items listed for them; the first items if there are none."""
        relevance, rows = block.relevance, slice(0, _MOST_QUERIES)
        tile = relevance.tile(rows)
        listed = tile.columns[tile.listed].unique()
        items = listed if len(listed) else torch.arange(relevance.num_kept, device=listed.device)
        items = items[:_MOST_ITEMS] if relevance.kept is None else relevance.kept[items[:_MOST_ITEMS]]
        places = None
        if self.self_index is not None:
            is_own = self.self_index[rows, None] == items
            num_before = (is_own.int().cumsum(1) == 0).sum(1)
            places = num_before.masked_fill(~is_own.any(1), -1)
        query, gallery = Rows([self._query[rows]]), Rows([block.embeddings[items]])
        query_labels, labels = select_samples(self.query_labels, rows), select_samples(block.labels, items)
        names = Vocabulary(self._all_names)
        for label, names_of_items in block.names.items():
            names.add(label, names_of_items.values(), names_of_items)
        return RetrievalProblem(
            Embeddings(query, gallery, self.similarity, rerank=None, max_bytes=None),
            Labels(query_labels, labels, self_index=places, names=names.for_results()),
        )

    def _check_kinds(self, prefix: str, labels: Mapping[str, Tensor], names: Vocabulary) -> None:
        """Raise if a label has names in a block and integers among the queries, or the reverse."""
        columns = []
        for name, values in labels.items():
            argument, query_argument = f"{prefix}{name}", f"query_{name}"
            query_values = self.query_labels[name]
            if not LABELS[name].is_extra:
                columns.append((name, argument, values, query_argument, query_values))
                continue
            for place, extra in enumerate(names_in_rules(self.rules)):
                arguments = argument_of(argument, extra), argument_of(query_argument, extra)
                columns.append((extra, arguments[0], values[:, place], arguments[1], query_values[:, place]))
        for name, argument, values, query_argument, query_values in columns:
            kind = "names" if name in names else "integers"
            query_kind = "names" if name in self._all_names else "integers"
            if kind != query_kind and not (fits_names(values) or fits_names(query_values)):
                rule = f"`{argument}` must be names if `{query_argument}` are, else integers"
                raise TypeError(f"{rule}; got {kind} and {query_kind}.")

    def _checked(
        self, argument: str, value: object, prefix: str, label_values: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor], Vocabulary, int]:
        """Return finite embeddings, the labels that are not None, in their dtypes, the names of labels, and marks."""
        embeddings, marks = read_block(argument, value, self.similarity, earlier=self._marks)
        embeddings = embeddings.detach()
        _checks.finite(argument, Rows([embeddings]).non_finite())
        numbered, names = hash_names(label_values, self.rules, prefix)
        labels = {}
        for name in _LABELS:
            label = numbered.get(f"{prefix}{name}")
            if label is not None:
                labels[name] = LABELS[name].check(f"{prefix}{name}", label, len(embeddings), embeddings.device)
        return embeddings, labels, names, marks
