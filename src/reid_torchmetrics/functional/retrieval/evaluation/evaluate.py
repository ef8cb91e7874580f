"""Evaluate embeddings or scores under a benchmark protocol, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer, Real, Shaped
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _arrays, _checks, _extras, _names
from reid_torchmetrics._registries import Registry
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.functional.retrieval.relevance import GivenJunkPairs, SideLabels, check_needed
from reid_torchmetrics.functional.retrieval.scores import CustomSimilarity, Rerank, Rows, checked_rows, read_pair
from reid_torchmetrics.functional.world import results_made

from .problem import Embeddings, GroundTruth, Labels, Matrix, RetrievalProblem
from .protocol import Protocol, ProtocolOptions, RankingOptions, Setup
from .protocols import DEFAULT_PROTOCOL, take_protocol
from .rank_lists import RankLists, find_rank_lists
from .ranked import RankedSamples, Ranking
from .ranking import rank_problem, summarize
from .results import RetrievalResults

_LABELS_OF_A_GALLERY = ("query_identities", "gallery_identities", "gallery_positions")
"""labels that decide relevance where a gallery is given; `evaluate(embeddings, labels)` has none of them"""
Files: TypeAlias = Sequence[Any]
"""The shards of a side, in order: each has `embeddings` [N, D], and `labels` by their names in `LABELS` or others"""
POOLED_QUERIES: Registry[Callable[..., Any]] = Registry("POOLED_QUERIES", {})
"""functions of queries, labels and the gallery, which a task adds: "mean" returns the mean query of each identity and
camera, with its labels"""


class EvaluateOptions(SideLabels, ProtocolOptions, total=False):
    """Further labels of both sides, groups of the gallery, and fields of the protocol to change."""

    gallery_groups: Tensor | _checks.IntegersOrNames | None


@dataclass(frozen=True, eq=False)
class EvaluatedProblem:
    """A problem on one process, with the protocol and the tie policy of its evaluation."""

    problem: RetrievalProblem
    protocol: Protocol
    ties: str
    max_rank: int

    def options(self, *, is_cmc: bool = False, ties: str | None = None) -> RankingOptions:
        """Return the options of a ranking, for the CMC or for other measures."""
        source = self.problem.source
        return RankingOptions.of(
            self.protocol,
            is_cmc=is_cmc,
            longest=self.max_rank,
            similarity=source.similarity,
            ties=ties or self.ties,
            rerank=source.rerank,
        )

    def rank(self, ties: str | None = None) -> tuple[Ranking, Ranking]:
        """Rank for all measures, and at last for the CMC, under a tie policy or that of the evaluation."""
        cmc_ranking = rank_problem(self.problem, self.options(is_cmc=True, ties=ties))
        if self.protocol.cmc_same_camera is None:
            return cmc_ranking, cmc_ranking
        return rank_problem(self.problem, self.options(ties=ties)), cmc_ranking

    def describe(self, samples: RankedSamples) -> RankedSamples:
        """Return the facts about samples with those that follow from the problem."""
        problem = self.problem
        return replace(
            samples,
            options=self.options(),
            find_problem=lambda: problem,
            matrix=problem.source.argument if isinstance(problem.source, Matrix) else None,
            keeps_thread=problem.keeps_thread,
            num_gallery=problem.source.shape[1],
        )

    def nearest(self, k: int, queries: Any) -> RankLists:
        """Return the first k candidates of all queries, or of some."""
        (queries,) = _arrays.as_tensors(queries, device=self.problem.source.device)
        return find_rank_lists(self.problem, self.options().protocol, k, queries, ties=self.ties)


@with_typed_options(EvaluateOptions)
@torch.no_grad()
def evaluate(
    query: Shaped[Tensor, "queries dim"] | _checks.Array | Files,
    gallery: Shaped[Tensor, "gallery dim"]
    | Integer[Tensor, " _"]
    | Bool[Tensor, "_ _"]
    | _checks.Array
    | _arrays.TableColumn
    | Files
    | None = None,
    query_identities: Shaped[Tensor, "queries ..."] | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
    gallery_identities: Shaped[Tensor, "gallery ..."] | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
    query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
    gallery_cameras: Real[Tensor, " gallery"] | _checks.IntegersOrNames | None = None,
    *,
    protocol: _names.ProtocolName | Protocol = DEFAULT_PROTOCOL,
    ground_truth: GroundTruth | None = None,
    junk_pairs: GivenJunkPairs | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    similarity: _names.SimilarityName | CustomSimilarity | None = None,
    packed: bool = False,
    rerank: Rerank | None = None,
    multi_query: bool = False,
    ties: _names.TieName | None = None,
    max_rank: int = 50,
    max_bytes: int | None = None,
    **options: Unpack[EvaluateOptions],
) -> RetrievalResults:
    """Rank a gallery for each query, and compute the numbers of a protocol, such as mAP and Rank-1.

    Embeddings are tensors or NumPy arrays. Labels are tensors, arrays or lists; they are moved to the device of the
    embeddings. Labels are integers, whole numbers as floats, or names on both sides. For names, tensors of the results
    hold the numbers of `data.number_identities`, where "-1" stays -1; tables and pictures show the names, which are in
    `results.label_names`. Rules that list labels, such as `junk_identities`, then list names.

    Args:
        query: embeddings of the queries, or files of `data.read_samples` with their labels. Without a `gallery`, or
            with the same files as gallery, the roles in the files select the queries and the gallery items.
        gallery: embeddings of the gallery, or files. None means leave-one-out: every query is searched among the
            others, and there are no labels of the gallery, as in `evaluate(embeddings, query_identities=labels)`, or in
            short `evaluate(embeddings, labels)`.
        query_identities: identities of the queries. If samples have several labels, pass on both sides a matrix [N,
            labels] of bools or of 0 and 1; a positive shares at least one label with its query.
        gallery_identities: identities of the gallery; None if there is no `gallery`.
        query_cameras: cameras of the queries; None together with `gallery_cameras` for no camera rule.
        gallery_cameras: cameras of the gallery.
        protocol: a name in `PROTOCOLS` or a `Protocol`.
        ground_truth: instead of labels, for every query the gallery positions of its positives, or its lists by name
            ("easy", "hard", "junk"; "good", "ok", "junk"), where the protocol defines which of them are positives and
            which are junk; or a bool matrix [queries, gallery].
        junk_pairs: a bool mask [queries, gallery] of pairs to drop, or a function of positions of queries and of
            gallery items that returns such a mask.
        self_index: for every query its own position in the gallery, or -1; a query is not compared with itself. Without
            it, a warning is issued once if most queries seem to be in the gallery.
        similarity: "cosine", "euclidean", "dot", "hamming" for codes, or a function of two blocks. None for the
            similarity of the protocol, or "cosine" if it has none. Codes are of 0 and 1, or of 1 and -1, of any dtype.
        packed: whether codes are bits packed into uint8, as by `numpy.packbits`; with "hamming".
        rerank: an object of a class in `RERANKINGS`, which scores the gallery anew for each query; None for the scores
            of the similarity.
        multi_query: replace the queries of one identity and camera by the mean of their embeddings, each divided by its
            norm (Market-1501's multi-query setting); results have one query for each such group. A warning is issued
            once if no two queries share both.
        ties: order of equal scores; see `rank_positives`. None for the policy of the protocol, or "pessimistic" if it
            has none.
        max_rank: length of the CMC curve.
        max_bytes: bound on the scores that are held at a time; see `rank_positives`.
        options: further labels of both sides, see `find_relevance`: `query_sequences`, `query_clothes`,
            `query_positions` and those of the gallery. `gallery_groups`, int: the group of each gallery item (a track,
            a place, the captions of a video). Groups are ranked in the place of items: the score of a group is that of
            its best member, and members must agree in all other labels. Fields of the protocol to change, such as
            `rule="trapezoid"` or `same_camera="keep"`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, labels that are not
            whole numbers or are missing, or a rule that lists numbers where labels are names, or the reverse.
    """
    # Collect labels from the arguments and from files.
    arguments: dict[str, Any] = {
        "query_identities": query_identities,
        "gallery_identities": gallery_identities,
        "query_cameras": query_cameras,
        "gallery_cameras": gallery_cameras,
        **options,
    }
    has_lists = ground_truth is not None
    query, gallery, self_index = _find_samples(query, gallery, self_index, arguments, has_lists=has_lists)

    # Read the protocol, the queries and the labels.
    named_protocol = protocol
    protocol, side_labels = _read_protocol(named_protocol, arguments, lists=has_lists)
    _checks.boolean("multi_query", multi_query)
    if protocol.leave_one_out and gallery is not None:
        raise ValueError(
            f"`gallery` must be left out under protocol {protocol.name!r}, which searches every query among the others,"
            " so that all samples are given once, as `query`; got a gallery."
        )
    _checks.boolean("packed", packed)
    may_be_codes = protocol.reads_codes and similarity is None
    similarity = protocol.similarity_or(similarity)
    query_rows, gallery_rows = read_pair(query, gallery, similarity, packed=packed, may_be_codes=may_be_codes)
    labels = Labels.from_arguments(
        side_labels,
        protocol,
        query_rows.device,
        self_index=self_index,
        junk_pairs=junk_pairs,
        ground_truth=ground_truth,
    )

    # The images of a query become one, before anything is compared.
    num_images = query_rows.size
    if multi_query:
        query_rows, labels = POOLED_QUERIES["mean"](query_rows, labels, gallery)
    if gallery is None:
        labels = _leave_one_out(labels, query_rows)

    # Rank and summarize.
    checked_rows(query_rows, gallery_rows)
    embeddings = Embeddings(query_rows, gallery_rows, similarity, rerank, max_bytes)
    problem = RetrievalProblem(embeddings, labels)
    problem = problem.grouped(protocol)
    samples = RankedSamples(protocol, named_protocol, num_images=num_images if multi_query else None)
    return _evaluate(problem, samples, ties=ties, max_rank=max_rank, multi_query=multi_query)


@with_typed_options(EvaluateOptions)
@torch.no_grad()
def evaluate_scores(
    scores: Float[Tensor, "queries gallery"] | _checks.Array | None = None,
    query_identities: Shaped[Tensor, "queries ..."] | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
    gallery_identities: Shaped[Tensor, "gallery ..."] | _checks.IntegersOrNames | _checks.SeveralLabels | None = None,
    query_cameras: Real[Tensor, " queries"] | _checks.IntegersOrNames | None = None,
    gallery_cameras: Real[Tensor, " gallery"] | _checks.IntegersOrNames | None = None,
    *,
    distances: Float[Tensor, "queries gallery"] | _checks.Array | None = None,
    protocol: _names.ProtocolName | Protocol = DEFAULT_PROTOCOL,
    ground_truth: GroundTruth | None = None,
    junk_pairs: GivenJunkPairs | None = None,
    self_index: Integer[Tensor, " queries"] | _checks.Integers | None = None,
    ties: _names.TieName | None = None,
    max_rank: int = 50,
    max_bytes: int | None = None,
    **options: Unpack[EvaluateOptions],
) -> RetrievalResults:
    """Evaluate a matrix of scores, higher is closer, or of distances, lower is closer.

    Pass one of both; lists of neighbors hold minus the distance. A warning says once if right answers come last, as if
    distances were passed as scores, or the reverse. The other arguments, the results and the errors are as in
    `evaluate`.

    Args:
        scores: one row per query and one column per gallery item.
        distances: a matrix of the same shape.
        protocol: a name in `PROTOCOLS` or a `Protocol`.
        options: all other keywords of `evaluate` except those that act on embeddings.
    """
    if (scores is None) == (distances is None):
        got = "neither" if scores is None else "both"
        raise ValueError(f"`scores` or `distances` must be given, and not both; got {got}.")
    are_distances = scores is None
    argument = "distances" if are_distances else "scores"
    matrix = _checks.floating_matrix(argument, distances if are_distances else scores, "G")

    # Read the protocol and the labels.
    arguments: dict[str, Any] = {
        "query_identities": query_identities,
        "gallery_identities": gallery_identities,
        "query_cameras": query_cameras,
        "gallery_cameras": gallery_cameras,
        **options,
    }
    has_lists = ground_truth is not None
    named_protocol = protocol
    protocol, side_labels = _read_protocol(named_protocol, arguments, lists=has_lists)
    labels = Labels.from_arguments(
        side_labels,
        protocol,
        matrix.device,
        self_index=self_index,
        junk_pairs=junk_pairs,
        ground_truth=ground_truth,
    )

    # Rank and summarize.
    source = Matrix(matrix, max_bytes, argument, are_distances=are_distances)
    problem = RetrievalProblem(source, labels).grouped(protocol)
    # A matrix does not tell which scores compare a query with itself.
    check_own_places(protocol, labels.self_index, len(matrix))
    return _evaluate(problem, RankedSamples(protocol, named_protocol), ties=ties, max_rank=max_rank)


def _read_protocol(
    protocol: _names.ProtocolName | Protocol, arguments: Mapping[str, Any], *, lists: bool
) -> tuple[Protocol, dict[str, Any]]:
    """Return the protocol with the fields that are changed, and the labels by argument.

    Args:
        protocol: a name or a `Protocol`.
        arguments: labels, and fields of the protocol to change.
        lists: whether relevance is by lists, and not by labels.
    """
    changed_protocol, labels, needed = take_protocol(protocol, arguments, lists=lists)
    # An option without its label has no effect. Leave-one-out: labels of the gallery are those of the queries.
    missing = {name: reason for name, reason in needed.items() if labels.get(f"query_{name}") is None}
    check_needed(missing, labels, "query_", "gallery_")
    return changed_protocol, labels


def _leave_one_out(labels: Labels, query: Rows) -> Labels:
    """Return labels for a gallery that is the queries, each of them left out for itself."""
    needless = [f"gallery_{name}" for name in labels.gallery]
    if labels.self_index is not None:
        needless.append("self_index")
    if needless:
        raise ValueError(f"`{needless[0]}` must come with `gallery`; got it without.")
    own_positions = torch.arange(query.size, device=query.device)
    return replace(labels, gallery=labels.query, self_index=own_positions)


def _evaluate(
    problem: RetrievalProblem,
    samples: RankedSamples,
    *,
    ties: _names.TieName | None,
    max_rank: int,
    multi_query: bool = False,
) -> RetrievalResults:
    """Rank a problem and summarize; `samples` have the facts of the entry point."""
    _checks.positive_int("max_rank", max_rank)
    protocol = samples.protocol
    evaluated = EvaluatedProblem(problem, protocol, protocol.ties_or(ties), max_rank)
    _checks.one_of("ties", evaluated.ties, TIE_POLICIES)
    options = evaluated.options()
    labels = problem.labels
    labels.check(options.protocol)
    ranking, cmc_ranking = evaluated.rank()
    setup = replace(
        Setup.of(evaluated.ties, options.similarity, options.rerank, ranking.labels),
        multi_query=multi_query,
        lists=labels.ground_truth is not None,
        junk_pairs=labels.junk_pairs is not None,
    )
    results = summarize(ranking, protocol, setup, max_rank=max_rank, cmc_ranking=cmc_ranking, problem=evaluated)

    samples = replace(samples, ties_are_open=protocol.leaves_ties_open(ties), has_lists=setup.lists)
    results_made(ranking, evaluated.describe(samples))
    return results


def _find_samples(
    query: Any, gallery: Any, self_index: Any, arguments: dict[str, Any], *, has_lists: bool
) -> tuple[Any, Any, Any]:
    """Return queries, gallery and `self_index` where they may be files, and add the labels in files to `arguments`."""
    has_labels = any(arguments.get(name) is not None for name in _LABELS_OF_A_GALLERY)
    if not (has_labels or has_lists) and are_labels(gallery, query):
        # `evaluate(embeddings, labels)`: a gallery is a matrix of embeddings.
        arguments["query_identities"] = gallery
        gallery = None
    if are_files(query) or are_files(gallery):
        query, gallery, self_index = _extras.files().read_sides(query, gallery, self_index, arguments)
    return query, gallery, self_index


def check_own_places(protocol: Protocol, self_index: Tensor | None, num_queries: int) -> None:
    """Raise unless every query has a place in the gallery, if a protocol searches it among the others."""
    if not protocol.leave_one_out:
        return
    num_unknown = num_queries
    if self_index is not None:
        _checks.integer_labels("self_index", self_index, num_queries)
        num_unknown = int((self_index < 0).sum())
    if num_unknown:
        raise ValueError(
            f"`self_index` must hold every query's own place in the gallery, or `leave_one_out=False` be given, under"
            f" protocol {protocol.name!r}, which searches every query among the others; got {num_unknown} queries"
            " without."
        )


def are_files(value: object) -> bool:
    """Return whether an argument is a list of opened files."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(hasattr(file, "embeddings") and hasattr(file, "labels") for file in value)


def are_labels(value: object, query: object) -> bool:
    """Return whether an argument beside the queries is labels, and so no gallery: a row of values, or a label matrix.

    A matrix of integers or bools is labels unless the queries are codes of the same width.
    """
    if are_files(value):
        return False
    value, query = _arrays.as_tensors(_arrays.as_array(value), _arrays.as_array(query))
    if isinstance(value, (list, tuple)):  # of strings, or of numbers with None
        return len(value) > 0 and all(label is None or isinstance(label, (str, int, float)) for label in value)
    if isinstance(value, np.ndarray):  # of strings or objects
        return value.ndim == 1
    if not isinstance(value, Tensor) or value.is_complex():
        return False
    if value.ndim != 2:
        return value.ndim == 1 and len(value) > 0
    are_codes = isinstance(query, Tensor) and not query.is_floating_point()
    return not value.is_floating_point() and not (are_codes and query.shape[1:] == value.shape[1:])
