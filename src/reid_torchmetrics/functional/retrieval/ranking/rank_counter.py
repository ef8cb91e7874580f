"""Ranks in a gallery that comes in blocks, here or on other machines: each is counted where it is, and dropped.

The rank of a positive needs its own score, and the number of negatives before it. So all positives come first. Then a
block adds to one number for each positive, in any order, and the numbers of all blocks add up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial, wraps
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar, cast

import torch
from jaxtyping import Float, Real, Shaped
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names, _progress
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional import segments, workers
from reid_torchmetrics.functional.retrieval.relevance import (
    LABEL_OPTIONS,
    LABELS,
    SIDES,
    ExtraLabels,
    Integers,
    IntegersOrNames,
    LabelTables,
    Relevance,
    StreamLabels,
    are_missing,
    argument_of,
    as_arguments,
    check_agreement,
    check_needed,
    find_relevance,
    hash_names,
    in_one_spelling,
    names_in_rules,
    rules_by_number,
    why_needed,
    with_default_rules,
    without_extra,
)
from reid_torchmetrics.functional.retrieval.scores import (
    CustomSimilarity,
    EmbeddingScores,
    Rows,
    bytes_within,
    check_similarity,
    gallery_statistics,
    promoted,
    read_embeddings,
    score_dtype,
)

from .counts import Counts, Nothing, Survey, digest_of, keys_of
from .positive_ranks import PositiveRanks, unchecked_ranks
from .ranks import count_ranks
from .tie_policies import TIE_POLICIES, best_first
from .tiles import GalleryPart, Thresholds, Tiles, cells_of_positives

Identities: TypeAlias = _checks.IntegersOrNames | _checks.SeveralLabels

Method = TypeVar("Method", bound=Callable[..., Any])

_STREAMED = tuple(name for name, policy in TIE_POLICIES.items() if policy.by_place is None)
_LABELS = tuple(name for name, label in LABELS.items() if label.decides and label.sides == SIDES)
_FURTHER_LABELS = tuple(name for name in _LABELS if name not in ("identities", "cameras"))
"""the labels without a place of their own in signatures: the keys of `StreamLabels`"""
_OPTIONS = (
    *(f"{side}_{name}" for name in _FURTHER_LABELS for side in ("query", "positive")),
    *LABEL_OPTIONS,
    "self_index",
)
"""the keys of `StreamOptions`"""


class StreamOptions(TypedDict, total=False):
    """Further labels of queries and positives, and the options of `find_relevance` that a stream can follow."""

    query_sequences: IntegersOrNames | None
    positive_sequences: IntegersOrNames | None
    query_clothes: IntegersOrNames | None
    positive_clothes: IntegersOrNames | None
    query_positions: Tensor | _checks.Numbers | None
    positive_positions: Tensor | _checks.Numbers | None
    query_labels: ExtraLabels | None
    positive_labels: ExtraLabels | None
    same_camera: _names.CameraRule
    camera_map: Mapping[int | str, int | str] | None
    search_cameras: Collection[int | str] | None
    junk_identities: Collection[int | str]
    missing: _names.MissingLabels
    clothes: _names.ClothesRule
    radius: float | None
    must_agree: Collection[str]
    must_differ: Collection[str]
    self_index: Integers | None


_MOST_POSITIONS = 4096  # that are kept of each side


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
    """Rank positives in a gallery that is never held: count its blocks, on any machine and in any order.

    `positives` are the gallery items of all identities of queries, and any others. A counter ranks them among
    themselves when it is made, keeps their scores, and never changes. It can be pickled. `count` tells what a block of
    other items adds, `sum` puts blocks together, and `ranks` are those of `rank_positives` for the whole gallery, on
    the CPU to the bit.

    Every block has a `key`, such as the name of its file: one that comes twice, as from a task that ran again, is an
    error.

    Under "euclidean" the last digits of scores depend on the mean of the gallery, and embeddings that float32 cannot
    square change the dtype of all scores. Where that matters, `survey` every block, and make the counter with the sum.

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
        survey: the sum of what `survey` told of every block, by a counter of the same queries and options; its
            positives may be none.
        max_bytes: bound on the scores, and on the prepared rows of a block, that are held at a time; as in
            `rank_positives`.
        options: `query_sequences` and `positive_sequences`, clothes, positions and labels likewise, and the options of
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
        positive_identities: Shaped[Tensor, "positives ..."]
        | _checks.IntegersOrNames
        | _checks.SeveralLabels
        | None = None,
        query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
        positive_cameras: Real[Tensor, " positives"] | _checks.IntegersOrNames | None = None,
        *,
        similarity: _names.SimilarityName | CustomSimilarity = "cosine",
        ties: _names.TieName = "pessimistic",
        survey: Survey | Nothing = 0,
        max_bytes: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        check_similarity(similarity)
        _checks.one_of("ties", ties, _STREAMED)
        _checks.cutoff("max_bytes", max_bytes)
        _checks.known_arguments("RankCounter", options, _OPTIONS)
        rules: dict[str, Any] = {"query_identities": query_identities, "positive_identities": positive_identities}
        rules |= {"query_cameras": query_cameras, "positive_cameras": positive_cameras, **options}
        names = [f"{side}_{name}" for side in ("query", "positive") for name in _LABELS]
        labels = {name: rules.pop(name, None) for name in names}
        check_agreement({"same_camera": "same_identity"} | rules)
        reasons = why_needed(with_default_rules(rules))
        check_needed(reasons, labels, "query_", "positive_")
        self_index = rules.pop("self_index", None)
        self.similarity, self.ties, self.rules = similarity, ties, rules
        query, labels_of_queries, self._all_names = self._checked("query", query, "query_", labels)
        self.label_names = without_extra(self._all_names)
        # Copies: a part of a larger tensor would be pickled with all of it, and what others hold may change.
        self._query, self.query_labels = query.clone(), {name: each.clone() for name, each in labels_of_queries.items()}
        self._max_bytes = bytes_within(max_bytes, query.device)
        block = self._read_block("positives", positives, "positive_", labels, self_index=self_index)
        self.rules, self.self_index = in_one_spelling(rules), block.relevance.self_index
        self.may_be_unknown = block.relevance.may_be_unknown
        self.positions = self._sample_positions(block, rules["radius"]) if "radius" in rules else None
        self._rank(block, survey)

    @_in_pool
    def _rank(self, block: _Block, survey: Survey | Nothing) -> None:
        """Rank the positives among themselves, and keep their scores."""
        named = "function" if callable(self.similarity) else self.similarity
        self._survey_digest = digest_of(self._query, *chain(*self.query_labels.items()), self.rules, named)
        facts = self._facts_of(Rows([self._query]), block.rows)
        *_, num_wide = self._facts = Survey.added(facts, "survey", survey, self._survey_digest)
        self._dtype = torch.float64 if num_wide else torch.float32
        part = self._part(block)
        self._thresholds, self._longest_run = _read_positives(part), part.relevance.longest_run
        self._own = own = count_ranks(part.scores, part.relevance, ties=self.ties)
        self.query_counts = part.relevance.counts(own.num_positives)
        # Functions are told apart by what they score.
        scored = self._thresholds.scores, own.rank, own.num_positives, own.num_candidates
        self._digest = digest_of(self._survey_digest, self.ties, *scored)

    def _facts_of(self, *rows: Rows) -> Float[Tensor, " numbers"]:
        """What scores depend on besides their query and item: sums over the last rows, and 1 for float64."""
        dtype = score_dtype(self.similarity, *rows)
        sums = gallery_statistics(self.similarity, rows[-1], dtype)
        return torch.cat([sums, sums.new_tensor([dtype == torch.float64])])

    @_in_pool
    def survey(
        self,
        embeddings: Shaped[Tensor, "items dim"] | _checks.Array,
        identities: Shaped[Tensor, "items ..."] | Identities | None = None,
        cameras: Real[Tensor, " items"] | _checks.IntegersOrNames | None = None,
        *,
        key: int | str,
        **labels: Unpack[StreamLabels],
    ) -> Survey:
        """What a block tells of the dtype of scores and of the gallery's mean; arguments and errors as of `count`."""
        block = self._block(embeddings, identities, cameras, labels)
        return Survey(self._facts_of(block.rows).cpu().numpy(), self._survey_digest, keys_of(key))

    @_in_pool
    def count(
        self,
        embeddings: Shaped[Tensor, "items dim"] | _checks.Array,
        identities: Shaped[Tensor, "items ..."] | Identities | None = None,
        cameras: Real[Tensor, " items"] | _checks.IntegersOrNames | None = None,
        *,
        key: int | str,
        **labels: Unpack[StreamLabels],
    ) -> Counts:
        """Count a block of gallery items that are not among `positives`.

        Args:
            embeddings: of the block [items, D].
            identities: identities, none of them a query's; items of junk identities are dropped.
            cameras: given if those of the queries are; likewise `labels`: `sequences`, `clothes`, `positions`, and
                `labels`, a mapping such as {"side": [...]} of what `must_agree` and `must_differ` name.
            key: what tells the block from all others.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: shapes, devices or labels that do not fit, embeddings that are not finite or need another dtype
                than scores have, scores that are NaN, or an item that belongs in `positives`.
        """
        keys, block = keys_of(key), self._block(embeddings, identities, cameras, labels)
        needed = promoted([self._dtype, score_dtype(self.similarity, block.rows)])
        if needed != self._dtype:
            raise ValueError(
                f"`embeddings` must fit scores of {self._dtype}, as `query`, `positives` and blocks that were surveyed"
                f" do; got some that need {needed}, so `survey` every block first."
            )
        part, thresholds = self._part(block), self._thresholds
        shape = part.ties.num_counts, len(thresholds.scores)
        before = torch.zeros(shape, dtype=torch.int64, device=self._query.device)
        num_candidates = torch.zeros_like(thresholds.num_positives)
        tiles = Tiles(part, longest_run=self._longest_run)
        for rows in _progress.steps(tiles.rows, "Ranking"):
            tile = block.relevance.tile(rows)
            num_candidates[rows] = tile.num_candidates
            positives, cells, inside = thresholds.select(rows)
            if len(cells):
                before[:, inside] = tiles.count(rows, tile, positives).flatten(1)[:, cells]
        return Counts(torch.cat([before.flatten(), num_candidates]).cpu().numpy(), self._digest, keys)

    def ranks(self, counts: Counts | Nothing) -> PositiveRanks:
        """The ranks among `positives` and all items of the blocks that were counted; 0 is for no block.

        Raises:
            TypeError: something else than `Counts`, or 0.
            ValueError: counts of another counter.
        """
        own, num_counts = self._own, TIE_POLICIES[self.ties].num_counts
        sizes = num_counts * len(own.rank), own.num_queries
        none = torch.zeros(sum(sizes), dtype=torch.int64, device=own.rank.device)
        before, num_candidates = Counts.added(none, "counts", counts, self._digest).split(sizes)
        before, tied = before.view(num_counts, -1), own.tied
        if tied is not None:
            first = segments.starts(tied.num_positives)
            tied = replace(tied, num_negatives=tied.num_negatives + (before[0] - before[1])[first])
        num_candidates += own.num_candidates
        return unchecked_ranks(own.rank + before[0], own.num_positives.clone(), num_candidates, tied, own.judged)

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
        """A block of the stream; raise if an item of it belongs in `positives`."""
        _checks.known_arguments("count", labels, _FURTHER_LABELS)
        given = {"identities": identities, "cameras": cameras, **labels}
        block = self._read_block("embeddings", embeddings, "", given)
        relevance = block.relevance
        if bool((listed := relevance.run_length > 0).any()):
            query = int(listed.nonzero()[0, 0])
            column = relevance.tile(slice(query, query + 1)).columns[0, 0]
            row = int(column if relevance.kept is None else relevance.kept[column])
            if self.rules["radius"] is not None:
                came = "within the `radius`"
            elif relevance.shared is not None:
                came = "with a label"
            else:
                number = int(block.labels["identities"][row])
                came = f"with identity {self.label_names.get('identities', {}).get(number, number)}"
            raise ValueError(
                "`embeddings` must be of items that are relevant to no query: those belong in `positives`; got row"
                f" {row} {came} of query {query}."
            )
        return block

    def _read_block(
        self, argument: str, value: object, prefix: str, given: Mapping[str, Any], *, self_index: Any = None
    ) -> _Block:
        """Gallery items, checked, and what they are to the queries."""
        embeddings, labels, names = self._checked(argument, value, prefix, given)
        self._check_kinds(prefix, labels, names)
        _checks.same_device("query", self._query, argument, embeddings)
        _checks.same_dimension("query", self._query.shape[1], argument, embeddings.shape[1])
        for name in sorted(labels.keys() ^ self.query_labels.keys()):
            has, lacks = (f"{prefix}{name}", f"query_{name}")[:: 1 if name in labels else -1]
            raise ValueError(f"`{prefix}{name}` must be given if `query_{name}` is; got `{has}` without `{lacks}`.")
        both = as_arguments(self.query_labels, "query_", self.rules) | as_arguments(labels, "gallery_", self.rules)
        rules = rules_by_number(self.rules, self.label_names)
        return _Block(embeddings, labels, find_relevance(**both, **rules, self_index=self_index))

    def _sample_positions(self, block: _Block, radius: float | None) -> tuple[Tensor, Tensor, float] | None:
        """Some positions of both sides, as float64 [N, axes], and their largest distance in a match; for advice."""
        query, positives = self.query_labels.get("positions"), block.labels.get("positions")
        if radius is None or query is None or positives is None:
            return None
        samples = [side[:_MOST_POSITIONS].clone() for side in (query, positives)]
        checked = [LABELS["positions"].check("positions", sample) for sample in samples]
        return checked[0], checked[1], radius

    def _check_kinds(self, prefix: str, labels: Mapping[str, Tensor], names: LabelTables) -> None:
        """Raise if a label is names in a block and integers among the queries, or the reverse."""
        for name, values in labels.items():
            # Labels that are missing for all samples, or of no samples, are neither names nor integers.
            if are_missing(values) or are_missing(self.query_labels[name]):
                continue
            arguments = [(name, f"{prefix}{name}", f"query_{name}")]
            if LABELS[name].is_extra:
                arguments = [
                    (label, argument_of(f"{prefix}{name}", label), argument_of(f"query_{name}", label))
                    for label in names_in_rules(self.rules)
                ]
            for label, argument, query_argument in arguments:
                are_names = label in names, label in self._all_names
                if are_names[0] != are_names[1]:
                    kinds = ["names" if is_name else "integers" for is_name in are_names]
                    rule = f"`{argument}` must be names if `{query_argument}` are, else integers"
                    raise TypeError(f"{rule}; got {kinds[0]} and {kinds[1]}.")

    def _checked(
        self, argument: str, value: object, prefix: str, given: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor], LabelTables]:
        """Finite embeddings, the labels that are given, in the dtypes of the table, and their names."""
        embeddings = read_embeddings(argument, value, self.similarity).detach()
        _checks.finite(argument, Rows([embeddings]).non_finite())
        values, names = hash_names(given, self.rules, prefix)
        labels = {name: values[f"{prefix}{name}"] for name in _LABELS if values.get(f"{prefix}{name}") is not None}
        fits = len(embeddings), embeddings.device
        checked = {name: LABELS[name].check(f"{prefix}{name}", value, *fits) for name, value in labels.items()}
        return embeddings, checked, names


def _read_positives(part: GalleryPart) -> Thresholds:
    """The scores of the positives in a part of the gallery."""
    tiles, num_positives = Tiles(part), torch.zeros_like(part.relevance.run_length)
    scores = [torch.empty(0, dtype=part.scores.dtype, device=part.scores.device)]
    for rows in _progress.steps(tiles.rows, "Ranking"):
        tile = part.relevance.tile(rows)
        num_positives[rows] = tile.num_positives
        if bool(tile.num_positives.any()):
            read = tiles.read(rows, tile, ahead=True)
            best = best_first(read, tile.columns, tile.positive, ties=part.ties).scores
            scores.append(best.view(-1)[cells_of_positives(tile.num_positives, best.shape[1])])
    return Thresholds(torch.cat(scores), num_positives)
