"""Evaluate embeddings, scores, or what a counter has counted of a stream, under a benchmark protocol in one call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float, Integer, Real, Shaped
from torch import Tensor
from typing_extensions import Unpack

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._signatures import with_typed_options
from reid_torchmetrics.functional.retrieval.advice import (
    RetrievalEvidence,
    advise_on_retrieval,
    find_copies,
    has_copied_queries,
)
from reid_torchmetrics.functional.retrieval.ranking import Counts, RankCounter
from reid_torchmetrics.functional.retrieval.relevance import (
    SIDES,
    GivenJunkPairs,
    SideLabels,
    check_needed,
    in_one_spelling,
    num_labels_of,
    one_number_each,
    rules_by_number,
)
from reid_torchmetrics.functional.retrieval.reranking import Rerank
from reid_torchmetrics.functional.retrieval.scores import CustomSimilarity, checked_rows, read_embeddings
from reid_torchmetrics.functional.world import ALONE, warn_once

from .ground_truth import GroundTruth
from .opened_files import Files, are_files, are_labels, read_files, rows_by_role
from .problem import Embeddings, Labels, Matrix, RetrievalProblem
from .protocol import Protocol, ProtocolOptions
from .protocols import DEFAULT_PROTOCOL, camera_rules_of, find_protocol, take_protocol
from .queries import check_own_places, pool_queries
from .ranking import Ranking, examine_ranking, rank_problem
from .ranking_options import SEVERAL_LABELS, Setup
from .results import RetrievalResults, summarize


class EvaluateOptions(SideLabels, ProtocolOptions, total=False):
    """Further labels of both sides, groups of the gallery, and fields of the protocol to change."""

    gallery_groups: Tensor | _checks.IntegersOrNames | None


@with_typed_options(EvaluateOptions)
@torch.no_grad()
def evaluate(
    query: Shaped[Tensor, "queries dim"] | _checks.Array | Files,
    gallery: Shaped[Tensor, "gallery dim"] | Integer[Tensor, " _"] | _checks.Array | Files | None = None,
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
    """Evaluate embeddings under a protocol.

    Embeddings are tensors or NumPy arrays, labels these or lists, which go to the device of the embeddings. Labels are
    integers, whole numbers as floats, or names on both sides. Tensors of the results hold the numbers that
    `data.number_identities` gives to names, where "-1" stays -1; tables and pictures show the names, which are in
    `results.label_names`. Rules that list labels, such as `junk_identities`, list names then.

    Args:
        query: embeddings of the queries, or files of `data.read_samples`, with the labels that they hold; by the roles
            that they hold without a `gallery`, or with the same files as gallery.
        gallery: embeddings of the gallery, or files; None for leave-one-out, where every query is searched among the
            others and labels of the gallery are left out: `evaluate(embeddings, query_identities=labels)`, or in short
            `evaluate(embeddings, labels)`.
        query_identities: identities of the queries; or where samples have several labels, on both sides a matrix [N,
            labels] of bools or of 0 and 1, and a positive shares at least one of them.
        gallery_identities: identities of the gallery; None where there is no `gallery`.
        query_cameras: cameras of the queries; None together with `gallery_cameras` for no camera rule.
        gallery_cameras: cameras of the gallery.
        protocol: a name in `PROTOCOLS` or a `Protocol`.
        ground_truth: instead of labels, for every query the gallery positions of its positives, or its lists by name
            ("easy", "hard", "junk"; "good", "ok", "junk"), of which the protocol says which are positives and which
            junk; or a bool matrix [queries, gallery].
        junk_pairs: a bool mask [queries, gallery] of pairs to drop, or a function of positions of queries and of
            gallery items that returns such a mask.
        self_index: for every query its own position in the gallery, or -1: it is left out there. Without, a warning
            says once if most queries seem to be in the gallery.
        similarity: "cosine", "euclidean", "dot", "hamming" for codes, or a function of two blocks; None for that of
            the protocol, "cosine" unless it names another. Codes are of 0 and 1, or of 1 and -1, of any dtype.
        packed: whether codes are bits packed into uint8, as by `numpy.packbits`; with "hamming".
        rerank: `KReciprocal(...)`, which starts from Euclidean distances, of unit vectors under "cosine", or
            `QueryExpansion(...)`.
        multi_query: replace the queries of one identity and camera by the mean of their embeddings, each divided by its
            norm (Market-1501's multi-query setting); results are per such group. A warning says once if no two queries
            share both.
        ties: who goes first among equal scores; see `rank_positives`. None for that of the protocol, "pessimistic"
            unless it names another.
        max_rank: length of the CMC curve.
        max_bytes: bound on the scores that are held at a time; see `rank_positives`.
        options: further labels of both sides, see `find_relevance`: `query_sequences`, `query_clothes`,
            `query_positions` and those of the gallery; `gallery_groups`, int, the group of each gallery item, which
            are ranked in the place of the items (tracks, places, captions of a video): the score of a group is that of
            its best member, and members must agree in all other labels; and fields of the protocol to change, such as
            `rule="trapezoid"` or `same_camera="keep"`.

    Raises:
        TypeError: an argument of the wrong type or dtype.
        ValueError: shapes, devices or options that do not fit, embeddings that are not finite, labels that are not
            whole numbers or are missing, or a rule that lists numbers where labels are names, or the reverse.
    """
    given: dict[str, Any] = {"query_identities": query_identities, "gallery_identities": gallery_identities}
    given |= {"query_cameras": query_cameras, "gallery_cameras": gallery_cameras, **options}
    # `evaluate(embeddings, labels)`: a gallery is a matrix, so a row of numbers or names can only be identities.
    if query_identities is None and are_labels(gallery):
        gallery, given["query_identities"] = None, gallery
    if are_files(query):
        query, gallery, self_index = rows_by_role(query, gallery, self_index)
        query, labels_of_files = read_files("query", query, given)
        given |= labels_of_files
    if are_files(gallery):
        gallery, labels_of_files = read_files("gallery", gallery, given)
        given |= labels_of_files
    sides = [given.pop(f"{side}_{name}") for name in ("identities", "cameras") for side in SIDES]
    named, protocol, missing_cameras = _chosen(evaluate, sides, protocol, given, lists=ground_truth is not None)
    _checks.boolean("multi_query", multi_query)
    if protocol.leave_one_out and gallery is not None:
        raise ValueError(
            f"`gallery` must be left out under protocol {protocol.name!r}, which searches every query among the others,"
            " so that all samples are given once, as `query`; got a gallery."
        )
    _checks.boolean("packed", packed)
    may_be_codes = protocol.reads_codes and similarity is None
    similarity = protocol.similarity_or(similarity)
    read = partial(read_embeddings, similarity=similarity, packed=packed, may_be_codes=may_be_codes)
    query = read("query", query)
    others = {"junk_pairs": junk_pairs, "ground_truth": ground_truth}
    labels = Labels.of_sides(named, self_index, protocol, query.device, **others)
    # The images of a query become one, before anything is compared.
    is_unpooled = False
    if multi_query:
        num_images = len(query)
        query, labels = _pooled(query, labels, gallery)
        is_unpooled = 0 < num_images == len(query)
    # Leave-one-out: the gallery is the queries.
    if gallery is None:
        beside = [f"gallery_{name}" for name in labels.gallery] + ["self_index"] * (labels.self_index is not None)
        if beside:
            raise ValueError(f"`{beside[0]}` must come with `gallery`; got it without.")
        gallery, places = query, torch.arange(len(query), device=query.device)
        labels = replace(labels, gallery=labels.query, self_index=places)
    else:
        gallery = read("gallery", gallery)
    problem = RetrievalProblem(Embeddings(*checked_rows(query, gallery), similarity, rerank, max_bytes), labels)
    find_copied = partial(_has_copied_queries, query, gallery, problem, protocol)
    problem = problem.grouped(protocol)
    setup = problem.setup(ties=protocol.ties_or(ties), multi_query=multi_query)
    evidence = RetrievalEvidence(
        missing_cameras=missing_cameras, is_unpooled=is_unpooled, has_copied_queries=find_copied
    )
    counts_ties = protocol.leaves_ties_open(ties)
    return _evaluate(problem, protocol, setup, evidence, max_rank=max_rank, counts_ties=counts_ties)


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
    """Evaluate given scores, higher is closer, or given distances, lower is closer.

    One of both is given; lists of neighbors hold minus the distance. A warning says once if right answers come last,
    as if the one was taken for the other. The other arguments, the results and the errors are as in `evaluate`.
    """
    if (scores is None) == (distances is None):
        came = "neither" if scores is None else "both"
        raise ValueError(f"`scores` or `distances` must be given, and not both; got {came}.")
    argument, given = ("scores", scores) if distances is None else ("distances", distances)
    matrix = _checks.floating_matrix(argument, given, "G")
    sides = query_identities, gallery_identities, query_cameras, gallery_cameras
    lists = ground_truth is not None
    named, chosen, missing_cameras = _chosen(evaluate_scores, sides, protocol, options, lists=lists)
    others = {"junk_pairs": junk_pairs, "ground_truth": ground_truth}
    labels = Labels.of_sides(named, self_index, chosen, matrix.device, **others)
    source = Matrix(matrix, max_bytes, argument, are_distances=distances is not None)
    problem = RetrievalProblem(source, labels).grouped(chosen)
    # A matrix does not tell which of its scores are of a query and itself.
    check_own_places(chosen, labels.self_index, len(matrix))
    setup = problem.setup(ties=chosen.ties_or(ties))
    evidence = RetrievalEvidence(
        missing_cameras=missing_cameras, find_worst=partial(_find_worst, matrix, are_distances=distances is not None)
    )
    counts_ties = chosen.leaves_ties_open(ties)
    return _evaluate(problem, chosen, setup, evidence, max_rank=max_rank, counts_ties=counts_ties)


@torch.no_grad()
def evaluate_stream(
    counter: RankCounter,
    counts: Counts | Literal[0],
    *,
    protocol: _names.ProtocolName | Protocol = DEFAULT_PROTOCOL,
    max_rank: int = 50,
) -> RetrievalResults:
    """Evaluate what a `RankCounter` has counted: the numbers of `evaluate` for the whole gallery.

    The results hold no embeddings, and so no lists of neighbors.

    Args:
        counter: the counter; its rules of relevance are the protocol's.
        counts: the sum of what it counted in all blocks; 0 for no block.
        protocol: a name in `PROTOCOLS` or a `Protocol`.
        max_rank: length of the CMC curve.

    Raises:
        TypeError: `counter` is no `RankCounter`, or `counts` no `Counts`.
        ValueError: counts of another counter; a protocol with other rules than the counter's, with two camera rules,
            with drawn galleries or groups, that needs lists, or that searches every query among the others, for a
            counter without `self_index` of all.
    """
    _checks.instance("counter", counter, (RankCounter,))
    _checks.positive_int("max_rank", max_rank)
    named, protocol = protocol, find_protocol(protocol)
    protocol.check_relevance({}, lists=False)
    unlike = {
        "draws galleries": protocol.draw is not None,
        "ranks groups": protocol.needs_groups,
        "has two": protocol.for_cmc is not protocol,
    }
    for what in (what for what in unlike if unlike[what]):
        raise ValueError(
            "`protocol` must rank one whole gallery of items by one camera rule, as a counter does; got"
            f" {protocol.name!r}, which {what}."
        )
    check_own_places(protocol, counter.self_index, counter.query_counts.total)
    rules, counted = in_one_spelling(protocol.relevance_options), counter.rules
    if others := [name for name in rules if rules[name] != counted[name]]:
        raise ValueError(
            f"`protocol` must have the counter's rules; got {protocol.name!r} with {others[0]}={rules[others[0]]!r} for"
            f" a counter with {counted[others[0]]!r}: give it `**find_protocol({protocol.name!r}).relevance_options`."
        )
    ranks, given = counter.ranks(counts), one_number_each(counter.query_labels)
    index = torch.arange(ranks.num_queries, device=ranks.rank.device)
    sides = given.get("identities"), given.get("cameras")
    several = [SEVERAL_LABELS] if num_labels_of(counter.query_labels) else []
    names = (*counter.query_labels, *several)
    ranking = Ranking(
        ranks,
        counter.query_counts,
        index,
        *sides,
        labels=names,
        names=counter.label_names,
        may_be_unknown=counter.may_be_unknown,
    )
    setup = Setup.of(counter.ties, counter.similarity, None, names)
    results = summarize(ranking, ranking, protocol, setup, max_rank=max_rank)
    missing_cameras = None if "cameras" in counter.query_labels else camera_rules_of(named, protocol)
    evidence = ranking.with_evidence(missing_cameras=missing_cameras, positions=counter.positions)
    advise_on_retrieval(evidence, ALONE)
    return results


def _find_worst(matrix: Tensor, *, are_distances: bool) -> float:
    """Return the least score of a matrix, or minus the largest distance."""
    if not matrix.numel():
        return 0.0
    return float(-matrix.amax() if are_distances else matrix.amin())


def _has_copied_queries(query: Tensor, gallery: Tensor, problem: RetrievalProblem, protocol: Protocol) -> bool:
    """Whether most queries seem to find themselves."""
    # With `self_index` the copies are left out, and lists are the benchmark's own answer.
    labels = problem.labels
    if labels.self_index is not None or labels.ground_truth is not None or not len(find_copies(query, gallery)[0]):
        return False
    labels = replace(labels, gallery={name: each for name, each in labels.gallery.items() if name != "groups"})
    return has_copied_queries(query, gallery, labels.relevance(protocol, problem.source))


def _chosen(
    function: Any, sides: Sequence[Any], protocol: Any, options: Mapping[str, Any], *, lists: bool
) -> tuple[dict[str, Any], Protocol, tuple[str, str] | None]:
    """All labels by name, the protocol with the options that are its fields, and its rules about missing cameras.

    The options fit labels, or lists.
    """
    arguments = [name for name in inspect.signature(function).parameters if name != "options"]
    _checks.known_arguments(function.__name__, options, arguments)
    chosen, labels = take_protocol(protocol, options, lists=lists)
    names = (f"{side}_{name}" for name in ("identities", "cameras") for side in SIDES)
    given = dict(zip(names, sides, strict=True)) | labels
    missing_cameras = None
    if not lists:
        # An option without its label has no effect. Leave-one-out: labels of the gallery are those of the queries.
        reasons = find_protocol(protocol).needed_by(options)
        missing = {name: reason for name, reason in reasons.items() if given.get(f"query_{name}") is None}
        check_needed(missing, given, "query_", "gallery_")
        if given["query_cameras"] is None:
            missing_cameras = camera_rules_of(protocol, chosen)
    return given, chosen, missing_cameras


def _evaluate(
    problem: RetrievalProblem,
    protocol: Protocol,
    setup: Setup,
    evidence: RetrievalEvidence,
    *,
    max_rank: int,
    counts_ties: bool,
) -> RetrievalResults:
    """Rank, summarize, and give advice; `evidence` is what the caller knows for it."""
    _checks.positive_int("max_rank", max_rank)
    ranked: dict[str, Any] = {"ties": setup.ties, "longest": max_rank}
    options = problem.ranking_options(protocol, for_cmc=True, **ranked)
    options = replace(options, counts_ties=counts_ties)
    # Once, or twice where the CMC has a camera rule of its own.
    ranking = for_cmc = rank_problem(problem, options)
    if protocol.for_cmc is not protocol:
        ranking = rank_problem(problem, problem.ranking_options(protocol, for_cmc=False, **ranked))
    cameras, searched = problem.labels.gallery.get("cameras"), protocol.search_cameras
    numbers = rules_by_number(protocol.relevance_options, problem.labels.names)["search_cameras"]
    if not ranking.counts.valid and cameras is not None and len(cameras) and searched:
        warn_once(
            ALONE,
            "search cameras",
            f"`search_cameras` must hold cameras of the gallery; got {searched}, which no gallery item has, so that the"
            " results are NaN.",
            lambda: not set(numbers or ()) & set(cameras.tolist()),
        )
    results = replace(summarize(ranking, for_cmc, protocol, setup, max_rank=max_rank), problem=problem)
    examined = examine_ranking(replace(for_cmc, evidence=evidence), problem, options)
    advise_on_retrieval(replace(ranking, evidence=examined).with_evidence(), ALONE)
    return results


def _pooled(query: Tensor, labels: Labels, gallery: object) -> tuple[Tensor, Labels]:
    """The mean query of every identity and camera."""
    # Images that are pooled need one identity and camera each; they may differ in all other labels.
    identities = labels.query.get("identities")
    came = ["no `query_identities`"] if identities is None else []
    came += ["no `gallery`"] if gallery is None else []
    came += [f"`query_{name}`" for name in labels.query if name not in ("identities", "cameras")]
    came += ["a matrix of labels as `query_identities`"] if num_labels_of(labels.query) else []
    came += ["`self_index`"] if labels.self_index is not None else []
    if identities is None or came:
        raise ValueError(
            "`multi_query` needs `query_identities` and a `gallery`, no labels but identities and cameras, and no"
            f" `self_index`; got {' and '.join(came)}."
        )
    pooled = pool_queries(query, identities, labels.query.get("cameras"))
    of_pooled = {"identities": pooled.identities} | ({} if pooled.cameras is None else {"cameras": pooled.cameras})
    return pooled.embeddings, replace(labels, query=of_pooled)
