"""Ranks in a gallery that comes as a stream: blocks are counted and dropped.

The rank of a positive needs its own score, and the number of negatives before it. So all positives come first. Then a
block adds to one number for each positive, in any order, and the numbers of several counters add up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial, wraps
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar, cast

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names, _progress
from reid_torchmetrics._signatures import takes
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import (
    LABELS,
    SIDES,
    Integers,
    Relevance,
    StreamLabels,
    check_needed,
    find_relevance,
    in_one_spelling,
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

from .merging import CountedBlocks, check_same, described
from .positive_ranks import PositiveRanks
from .ranks import RankTable
from .tie_policies import TIE_POLICIES, best_first
from .tiles import GalleryPart, Thresholds, Tiles, cells_of_positives

Method = TypeVar("Method", bound=Callable[..., Any])

_QUERIES = 1024  # put together with their positives at a time
_STREAMED = tuple(name for name, policy in TIE_POLICIES.items() if policy.by_place is None)
_LABELS = tuple(name for name, label in LABELS.items() if label.decides and label.sides == SIDES)


class StreamOptions(TypedDict, total=False):
    """Further labels of queries and positives, and the options of `find_relevance` that a stream can follow."""

    query_sequences: Integers | None
    positive_sequences: Integers | None
    query_clothes: Integers | None
    positive_clothes: Integers | None
    query_positions: Tensor | _checks.Numbers | None
    positive_positions: Tensor | _checks.Numbers | None
    same_camera: _names.CameraRule
    camera_map: Mapping[int, int] | None
    search_cameras: Collection[int] | None
    junk_identities: Collection[int]
    clothes: _names.ClothesRule
    radius: float | None
    self_index: Integers | None


_Counts: TypeAlias = tuple[Int[Tensor, "counts positives"], Int[Tensor, " queries"]]
"""what gallery items add up to: the `num_counts` of the tie policy for each positive, and candidates"""


class _Block(NamedTuple):
    """Gallery items, their labels, and who is relevant among the kept ones."""

    embeddings: Float[Tensor, "items dim"]
    labels: dict[str, Tensor]
    relevance: Relevance

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
    """Rank positives in a gallery that is never held: count its items block by block.

    `positives` are the gallery items of all identities of queries, and any others. The rest comes to `update`, in any
    order. The ranks are those of `rank_positives` for the whole gallery, on the CPU to the bit. Counters with the same
    queries and positives `merge`, so shards of a gallery may be counted anywhere; a counter can be pickled.

    Every item counts as often as it comes. A second block with the same labels and number of items, and with the same
    embeddings in up to 64 rows that are compared, is warned of, once for each counter, if eight of the rows differ.

    Under "euclidean" the last digits of scores depend on the mean of the gallery, and embeddings that float32 cannot
    square change the dtype of all scores. Where that matters, `survey` each block before the first `update`.

    Args:
        query: embeddings of the queries [queries, D].
        positives: embeddings of gallery items [positives, D]: all that have the identity of a query or, with a
            `radius`, lie within it.
        query_identities: identities of the queries.
        positive_identities: identities of `positives`.
        query_cameras: cameras of the queries; None together with `positive_cameras` means that no camera rule applies.
        positive_cameras: cameras of `positives`.
        similarity: as in `rank_positives`.
        ties: as in `rank_positives`, but not "stable", as a stream has no order.
        max_bytes: bound on the scores, and on the prepared rows of a block, that are held at a time; as in
            `rank_positives`.
        options: `query_sequences` and `positive_sequences`, clothes and positions likewise, and the options of
            `find_relevance` without `junk_pairs`; a protocol has them as its `relevance_options`. `self_index` holds
            positions in `positives`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, scores that are NaN, or
            a tie policy by places.

    Example:
        >>> from reid_torchmetrics.functional.retrieval import RankCounter
        >>> query, positives = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 1.0], [1.0, 3.0]])
        >>> counter = RankCounter(query, positives, query_identities=[7], positive_identities=[7, 7])
        >>> counter.update(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), [8, 9])
        >>> counter.update(torch.tensor([[1.0, 0.0]]), [8])
        >>> counter.ranks().rank
        tensor([2, 4])
    """

    @takes(StreamOptions)
    def __init__(
        self,
        query: Float[Tensor, "queries dim"] | _checks.Array,
        positives: Float[Tensor, "positives dim"] | _checks.Array,
        query_identities: Real[Tensor, " queries"] | _checks.Integers | None = None,
        positive_identities: Real[Tensor, " positives"] | _checks.Integers | None = None,
        query_cameras: Real[Tensor, " queries"] | _checks.Integers | None = None,
        positive_cameras: Real[Tensor, " positives"] | _checks.Integers | None = None,
        *,
        similarity: _names.SimilarityName | CustomSimilarity = "cosine",
        ties: _names.TieName = "pessimistic",
        max_bytes: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        check_similarity(similarity)
        _checks.one_of("ties", ties, _STREAMED)
        _checks.cutoff("max_bytes", max_bytes)
        _checks.known_arguments("RankCounter", options, list(StreamOptions.__annotations__))
        rules: dict[str, Any] = {"query_identities": query_identities, "positive_identities": positive_identities}
        rules |= {"query_cameras": query_cameras, "positive_cameras": positive_cameras, **options}
        names = [f"{side}_{name}" for side in ("query", "positive") for name in _LABELS]
        labels = {name: rules.pop(name, None) for name in names}
        reasons = why_needed(SimpleNamespace(**{"radius": None, "clothes": "keep"} | rules))
        check_needed(reasons, labels, "query_", "positive_")
        self.similarity, self.ties, self._function = similarity, ties, described(similarity)
        self_index, self.rules = rules.pop("self_index", None), rules
        self._query, self._labels = _checked("query", query, "query_", labels)
        self._max_bytes = bytes_within(max_bytes, self._query.device)
        self._positives = self._read_block("positives", positives, "positive_", labels, self_index=self_index)
        if self._positives.relevance.doubt is not None:
            warn(self._positives.relevance.doubt)
        self.rules = in_one_spelling(rules)
        self._blocks = CountedBlocks()
        self._thresholds: Thresholds | None = None
        self._dtype, self._sums = self._facts(Rows([self._query]), self._positives.rows)
        self._surveyed = torch.zeros_like(self._sums)

    @_in_pool
    def _facts(self, *rows: Rows) -> tuple[torch.dtype, Float[Tensor, " sums"]]:
        """What scores depend on besides their query and item: a dtype, and sums over the last rows."""
        dtype = score_dtype(self.similarity, *rows)
        return dtype, gallery_statistics(self.similarity, rows[-1], dtype)

    @_in_pool
    def survey(
        self,
        embeddings: Float[Tensor, "items dim"] | _checks.Array,
        identities: Real[Tensor, " items"] | _checks.Integers | None = None,
        cameras: Real[Tensor, " items"] | _checks.Integers | None = None,
        **labels: Unpack[StreamLabels],
    ) -> None:
        """Look at a block of gallery items before any is counted: for the dtype of scores, and the gallery's mean.

        Every block is surveyed once, in one counter or in several: before they count, `merge` adds what they surveyed.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: as for `update`, or items have been counted already.
        """
        if self._thresholds is not None:
            raise ValueError("`survey` must see every block before the first `update`; got a block after it.")
        block = self._block(embeddings, identities, cameras, labels)
        dtype, sums = self._facts(block.rows)
        self._blocks.add(block.embeddings, block.labels)
        self._dtype, self._surveyed = promoted([self._dtype, dtype]), self._surveyed + sums

    @_in_pool
    def update(
        self,
        embeddings: Float[Tensor, "items dim"] | _checks.Array,
        identities: Real[Tensor, " items"] | _checks.Integers | None = None,
        cameras: Real[Tensor, " items"] | _checks.Integers | None = None,
        **labels: Unpack[StreamLabels],
    ) -> None:
        """Count a block of gallery items that are not among `positives`; after an error nothing of it is counted.

        Args:
            embeddings: of the block [items, D].
            identities: identities, none of them a query's; items of junk identities are dropped.
            cameras: given if those of the queries are; likewise `labels`: `sequences`, `clothes`, `positions`.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes, devices or labels that do not fit, embeddings that are not finite or need another dtype
                than scores have, scores that are NaN, or an item that belongs in `positives`.
        """
        thresholds = self._start()
        block = self._block(embeddings, identities, cameras, labels)
        needed = promoted([self._dtype, score_dtype(self.similarity, block.rows)])
        if needed != self._dtype:
            raise ValueError(
                f"`embeddings` must fit scores of {self._dtype}, as `query`, `positives` and blocks that were surveyed"
                f" do; got some that need {needed}, so `survey` every block first."
            )
        counts = self._counts(block, thresholds)
        self._blocks.add(block.embeddings, block.labels)
        self._added: _Counts = _sum(self._added, counts)

    @_in_pool
    def merge(self, other: RankCounter) -> None:
        """Add what another counter with the same queries, positives and options has counted, or surveyed.

        Rules may be spelled in any way. Functions must have the same name, code, defaults and values that they close
        over, or be one object.

        Raises:
            TypeError: something else than a `RankCounter`.
            ValueError: the counter itself, one that has counted a block in a call that this one knows, as copies have,
                other queries, positives or options, or scores that a survey made different.
        """
        _checks.instance("other", other, (RankCounter,))
        if other is self:
            raise ValueError("`other` must be another counter; got the counter itself, which would count twice.")
        _checks.same_device("query", self._query, "other", other._query)
        # A function that cannot be compared by what it does is at least itself.
        itself = {"similarity": other._function} if self.similarity == other.similarity else {}
        check_same(self._problem | itself, other._problem)
        if self._thresholds is other._thresholds is None:
            self._blocks.join(other._blocks)
            self._dtype, self._surveyed = promoted([self._dtype, other._dtype]), self._surveyed + other._surveyed
            return
        mine, theirs = self._start().scores, other._start().scores
        if mine.dtype != theirs.dtype or not torch.equal(mine, theirs):
            raise ValueError("`other` must have surveyed the same blocks before it counted; got other scores.")
        self._blocks.join(other._blocks)
        self._added = _sum(self._added, other._added)

    @_in_pool
    def ranks(self) -> PositiveRanks:
        """The ranks among `positives` and all items that were counted so far."""
        thresholds = self._start()
        before, num_candidates = _sum(self._own, self._added)
        table = RankTable(TIE_POLICIES[self.ties], thresholds.num_positives)
        table.num_positives, table.num_candidates = thresholds.num_positives.clone(), num_candidates
        for rows in segments.ranges(len(self._query), _QUERIES):
            positives, cells, inside = thresholds.of(rows)
            table.add(rows, positives, before[:, inside], cells)
        return table.ranks()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels that were given."""
        return tuple(self._labels)

    @property
    def relevance(self) -> Relevance:
        """Of `positives`: what comes later is relevant to no query."""
        return self._positives.relevance

    def _start(self) -> Thresholds:
        """The scores of the positives, read and counted among themselves before the first block."""
        if self._thresholds is not None:
            return self._thresholds
        relevance, ties = self._positives.relevance, TIE_POLICIES[self.ties]
        num_positives = torch.zeros_like(relevance.run_length)
        scores = [torch.empty(0, dtype=self._dtype, device=self._query.device)]
        tiles = Tiles(self._part(self._positives))
        for rows in _progress.steps(tiles.rows, "Ranking"):
            tile = relevance.tile(rows)
            num_positives[rows] = number = tile.positive.sum(1)
            if bool(number.any()):
                best = best_first(tiles.read(rows, tile), tile.columns, tile.positive, ties=ties).scores
                scores.append(best.view(-1)[cells_of_positives(number, best.shape[1])])
        thresholds = Thresholds(torch.cat(scores), num_positives)
        self._own = self._counts(self._positives, thresholds)
        self._added = torch.zeros_like(self._own[0]), torch.zeros_like(self._own[1])
        self._thresholds, self._blocks = thresholds, CountedBlocks()  # blocks that were surveyed come again
        return thresholds

    def _counts(self, block: _Block, thresholds: Thresholds) -> _Counts:
        """The negatives of a block before each positive, and its candidates."""
        ties, relevance, device = TIE_POLICIES[self.ties], block.relevance, self._query.device
        before = torch.zeros((ties.num_counts, len(thresholds.scores)), dtype=torch.int64, device=device)
        num_candidates = torch.zeros_like(thresholds.num_positives)
        tiles = Tiles(self._part(block), longest_run=self.relevance.longest_run)
        for rows in _progress.steps(tiles.rows, "Ranking"):
            tile = relevance.tile(rows)
            num_candidates[rows] = tile.num_candidates
            positives, cells, inside = thresholds.of(rows)
            if len(cells):
                before[:, inside] = tiles.count(rows, tile, positives).flatten(1)[:, cells]
        return before, num_candidates

    def _part(self, block: _Block) -> GalleryPart:
        whole = {"dtype": self._dtype, "sums": self._sums + self._surveyed}
        options: dict[str, Any] = {"similarity": self.similarity, "max_bytes": self._max_bytes, **whole}
        scores = EmbeddingScores(Rows([self._query]), block.rows, **options)
        return GalleryPart(scores, block.relevance, TIE_POLICIES[self.ties])

    def _block(self, embeddings: object, identities: object, cameras: object, labels: Mapping[str, Any]) -> _Block:
        """A block of the stream; raise if an item of it belongs in `positives`."""
        _checks.known_arguments("update", labels, list(StreamLabels.__annotations__))
        given = {"identities": identities, "cameras": cameras, **labels}
        block = self._read_block("embeddings", embeddings, "", given)
        relevance = block.relevance
        if len(relevance.order) and bool((listed := relevance.run_length > 0).any()):
            query = int(listed.nonzero()[0, 0])
            column = relevance.order[relevance.run_start[query]]
            row = int(column if relevance.kept is None else relevance.kept[column])
            near = self.rules["radius"] is not None
            came = "within the `radius`" if near else f"with identity {int(block.labels['identities'][row])}"
            raise ValueError(
                "`embeddings` must be of items that are relevant to no query: those belong in `positives`; got row"
                f" {row} {came} of query {query}."
            )
        return block

    def _read_block(
        self, argument: str, value: object, prefix: str, given: Mapping[str, Any], *, self_index: Any = None
    ) -> _Block:
        """Gallery items, checked, and what they are to the queries."""
        embeddings, labels = _checked(argument, value, prefix, given)
        _checks.same_device("query", self._query, argument, embeddings)
        _checks.same_dimension("query", self._query.shape[1], argument, embeddings.shape[1])
        for name in sorted(labels.keys() ^ self._labels.keys()):
            has, lacks = (f"{prefix}{name}", f"query_{name}")[:: 1 if name in labels else -1]
            raise ValueError(f"`{prefix}{name}` must be given if `query_{name}` is; got `{has}` without `{lacks}`.")
        both: dict[str, Any] = {f"query_{name}": label for name, label in self._labels.items()}
        both |= {f"gallery_{name}": label for name, label in labels.items()}
        return _Block(embeddings, labels, find_relevance(**both, **self.rules, self_index=self_index))

    @cached_property
    def _problem(self) -> dict[str, str]:
        """All that was given, in words."""
        positives = self._positives
        given = {"query": self._query, "positives": positives.embeddings, "ties": self.ties, **self.rules}
        given |= {f"query_{name}": label for name, label in self._labels.items()}
        given |= {f"positive_{name}": label for name, label in positives.labels.items()}
        given["self_index"] = positives.relevance.own_column
        return {"similarity": self._function} | {name: described(value) for name, value in given.items()}

    def __getstate__(self) -> dict[str, Any]:
        """All fields: of a copy that goes on by itself."""
        return vars(self) | {"_blocks": self._blocks.copy()}


def _sum(one: _Counts, two: _Counts) -> _Counts:
    return one[0] + two[0], one[1] + two[1]


def _checked(argument: str, value: object, prefix: str, given: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Finite embeddings, and the labels that are given, in the dtypes of the table."""
    embeddings = _checks.embeddings(argument, value).detach()
    _checks.finite(argument, Rows([embeddings]).non_finite())
    labels = {name: value for name in _LABELS if (value := given.get(f"{prefix}{name}")) is not None}
    fits = len(embeddings), embeddings.device
    return embeddings, {name: LABELS[name].check(f"{prefix}{name}", value, *fits) for name, value in labels.items()}
