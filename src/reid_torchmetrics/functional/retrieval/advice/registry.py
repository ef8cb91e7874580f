"""The registry of advice on retrieval.

To add a row, write an `Advice` in `_ROWS`, and in `examples` evidence for which it fires. The page of advice and the
tests read the registry.
"""

from __future__ import annotations

import math

from reid_torchmetrics.functional.advice import Advice, Values, advise
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST, are_shares, are_within
from reid_torchmetrics.functional.displays import counted
from reid_torchmetrics.functional.world import World

from . import backwards, copied_queries, examples, positions, tied_pairs, unknown_identities
from .evidence import RetrievalEvidence

_MOST_NAMED = 5  # identities in a message


def advise_on_retrieval(evidence: RetrievalEvidence, world: World) -> None:
    """Warn on process 0 about probable mistakes, once the ranks are known; all processes must call."""

    def warn() -> None:
        if world.process == 0:
            advise(RETRIEVAL_ADVICE.values(), evidence, world.warning_log)

    world.guarded(warn)  # users may turn warnings into errors


def _missing_cameras(evidence: RetrievalEvidence) -> Values | None:
    if evidence.missing_cameras is None:
        return None
    name, rules = evidence.missing_cameras
    return {"name": name, "rules": rules}


def _missing_search_cameras(evidence: RetrievalEvidence) -> Values | None:
    return {"cameras": evidence.missing_search_cameras} if evidence.missing_search_cameras else None


def _missing_items(evidence: RetrievalEvidence) -> Values | None:
    if evidence.listed_items is None:
        return None
    num_queries, num_listed, num_found = evidence.listed_items
    if num_found == num_listed:
        return None
    return {"num": num_listed - num_found, "num_listed": num_listed, "queries": counted(num_queries, "query")}


def _mixed_roles(evidence: RetrievalEvidence) -> Values | None:
    return {} if evidence.has_mixed_roles else None


def _forgotten_reset(evidence: RetrievalEvidence) -> Values | None:
    return {"num": evidence.num_forgotten} if evidence.num_forgotten else None


def _other_embeddings(evidence: RetrievalEvidence) -> Values | None:
    return {"num": evidence.num_changed} if evidence.num_changed else None


def _gathered_samples(evidence: RetrievalEvidence) -> Values | None:
    return {} if evidence.are_gathered else None


def _padded_samples(evidence: RetrievalEvidence) -> Values | None:
    return {} if evidence.are_padded else None


def _infinite_scores(evidence: RetrievalEvidence) -> Values | None:
    if evidence.matrix is None or evidence.find_worst() != -math.inf:
        return None
    return {"argument": evidence.matrix, "infinite": "-inf" if evidence.matrix == "scores" else "inf"}


def _copied_queries(evidence: RetrievalEvidence) -> Values | None:
    return {} if evidence.has_copied_queries() else None


def _is_backwards(evidence: RetrievalEvidence) -> bool:
    opposite = evidence.opposite_ranks
    return opposite is not None and backwards.is_good(opposite, evidence.identities)


def _distances_as_scores(evidence: RetrievalEvidence) -> Values | None:
    if evidence.matrix is None or not _is_backwards(evidence):
        return None
    return {"argument": evidence.matrix, "other": "distances" if evidence.matrix == "scores" else "scores"}


def _distances_as_similarity(evidence: RetrievalEvidence) -> Values | None:
    return {} if evidence.matrix is None and _is_backwards(evidence) else None


def _tied_pairs(evidence: RetrievalEvidence) -> Values | None:
    num_tied, num_pairs = evidence.tied_pairs
    if evidence.bounds is None or not tied_pairs.are_many(num_tied, num_pairs):
        return None
    worst, best = evidence.bounds
    return {"share": f"{num_tied / num_pairs:.0%}", "worst": f"{worst:.4f}", "best": f"{best:.4f}"}


def _unknown_identities(evidence: RetrievalEvidence) -> Values | None:
    identities = unknown_identities.find_unknown(
        evidence.identities, evidence.is_valid, evidence.names, has_negative=evidence.has_negative
    )
    if not identities:
        return None
    identities = identities[:_MOST_NAMED]
    return {"listed": ", ".join(map(repr, identities)), "junk": ", ".join(map(repr, [-1, *identities]))}


def _rounded_positions(evidence: RetrievalEvidence) -> Values | None:
    if evidence.positions is None:
        return None
    query, gallery, radius = evidence.positions
    rounding = positions.find_rounding(query, gallery, radius)
    if rounding is None:
        return None
    error, largest = rounding
    return {"error": f"{error:.2g}", "largest": f"{largest:,.0f}", "radius": f"{radius:g}"}


def _positions_in_degrees(evidence: RetrievalEvidence) -> Values | None:
    if evidence.positions is None:
        return None
    query, gallery, radius = evidence.positions
    if not positions.seem_degrees(query, gallery, radius):
        return None
    return {"radius": f"{radius:g}"}


def _nothing_pooled(evidence: RetrievalEvidence) -> Values | None:
    return {} if evidence.is_unpooled else None


def _boxes_in_shares(evidence: RetrievalEvidence) -> Values | None:
    in_shares = []
    for argument, boxes in evidence.boxes.items():
        if len(boxes) >= LEAST_BOXES and are_within(boxes) and are_shares(boxes, boxes[:, 2:] - boxes[:, :2]):
            in_shares.append(f"{len(boxes)} boxes of `{argument}`")
    return {"boxes": " and of ".join(in_shares)} if in_shares else None


_BACKWARDS = (
    "There are queries of at least {identities} identities, or {queries} queries if identities are not known. Rank-1 is"
    " below {hits} times the Rank-1 of a random order, and mean average precision below {precision} times that of a"
    " random order. The opposite order has a Rank-1 of at least {good}, with at least {odds} times the odds of a random"
    " order."
)
_BACKWARDS_THRESHOLDS = {
    "identities": backwards.LEAST_IDENTITIES,
    "queries": backwards.LEAST_QUERIES,
    "hits": backwards.FEW_HITS,
    "precision": backwards.LITTLE_PRECISION,
    "good": backwards.GOOD,
    "odds": backwards.ODDS,
}

_ROWS: list[Advice[RetrievalEvidence]] = [
    Advice(
        name="missing_cameras",
        checks="a benchmark with rules about cameras, without cameras",
        fires="A protocol is given by its name and drops gallery items by their cameras, but no cameras are given.",
        message="`protocol` {name!r} leaves out gallery items by their cameras ({rules}), but no cameras were given, so"
        " no item is left out. Pass the cameras, or `same_camera='keep'` where there are none.",
        inputs=("missing_cameras",),
        find=_missing_cameras,
        example=examples.missing_cameras,
    ),
    Advice(
        name="missing_search_cameras",
        checks="a search in cameras that do not exist",
        fires="No gallery item has one of the `search_cameras`.",
        message="`search_cameras` must hold cameras of the gallery; got {cameras}, which no gallery item has, so that"
        " the results are NaN.",
        inputs=("missing_search_cameras",),
        find=_missing_search_cameras,
        example=examples.missing_search_cameras,
    ),
    Advice(
        name="missing_items",
        checks="lists of a whole gallery with a part of it",
        fires="The `ground_truth` of a metric lists items that no sample of the gallery has as `index`.",
        message="`ground_truth` lists items that no sample of the gallery has as `index`: {num} of {num_listed} entries"
        " for {queries}. They do not count, which is right for a part of the gallery only.",
        inputs=("listed_items",),
        find=_missing_items,
        example=examples.missing_items,
    ),
    Advice(
        name="mixed_roles",
        checks="batches with and batches without `is_query`",
        fires="Some batches have `is_query`, and some do not. This row warns in `update`.",
        message="Some batches were given with `is_query` and some without: the samples of the latter are queries and"
        " gallery items at once (leave-one-out). Pass `is_query=False` with batches of the gallery.",
        inputs=("has_mixed_roles",),
        find=_mixed_roles,
        example=examples.mixed_roles,
    ),
    Advice(
        name="forgotten_reset",
        checks="an evaluation that begins with the samples of the last one",
        fires="There is no `index`, and the batches since the last evaluation have the same labels as the batches"
        " before it, which are at least 8 samples.",
        message="The last {num} samples have the labels of the {num} before; all count. Was `reset` forgotten?",
        inputs=("num_forgotten",),
        find=_forgotten_reset,
        example=examples.forgotten_reset,
    ),
    Advice(
        name="other_embeddings",
        checks="samples that come again with another embedding",
        fires="A process has several samples with the same `index`, and most of the repetitions have an embedding that"
        " differs by more than rounding.",
        message="Samples that came again on their process, {num} of them, have another embedding: among samples with"
        " the same `index` only the first counts. Was `reset` forgotten after the last evaluation, or does `index`"
        " begin anew in each batch? It must be the sample's number in its data set.",
        inputs=("num_changed",),
        find=_other_embeddings,
        example=examples.other_embeddings,
    ),
    Advice(
        name="gathered_samples",
        checks="samples that several processes hold",
        fires="There is no `index`, and two processes have at least 8 samples each with the same labels and the same"
        " bits in their embeddings.",
        message="Several processes hold the same samples, and each counts them: they seem to have been gathered by"
        " hand, or not to be sharded at all. Pass `index` to `update`, or give each process its own samples only:"
        " `compute` combines them.",
        inputs=("are_gathered",),
        find=_gathered_samples,
        example=examples.gathered_samples,
    ),
    Advice(
        name="padded_samples",
        checks="samples that a distributed sampler repeated",
        fires="There is no `index`, all processes have the same number of samples, and the last samples of a process"
        " are the first samples of process 0, except for rounding.",
        message="A distributed sampler seems to have repeated samples to make the numbers even, and they count twice:"
        " all processes hold equally many, and the last of one are the first of another. Pass `index` to `update`, or"
        " use `UnpaddedDistributedSampler`.",
        inputs=("are_padded",),
        find=_padded_samples,
        example=examples.padded_samples,
        explained_by=("gathered_samples",),
    ),
    Advice(
        name="infinite_scores",
        checks="infinite scores or distances that are meant to leave out pairs",
        fires="A score is -inf, or a distance is inf.",
        message="`{argument}` of {infinite} rank pairs last, but as candidates that count. To leave pairs out pass"
        " `junk_pairs`, or labels with a rule such as `same_camera`.",
        inputs=("matrix", "find_worst"),
        find=_infinite_scores,
        example=examples.infinite_scores,
    ),
    Advice(
        name="copied_queries",
        checks="queries that are also gallery items",
        fires="Neither `self_index` nor lists are given. In a sample of the queries most, and at least {least}, have a"
        " copy in the gallery that counts as a positive, and some positives are not copies.",
        message="Most queries have a copy of themselves in the gallery, an item of their identity with the same"
        " embedding, and find it first. Pass `self_index`, which says where in the gallery each query is, and leaves"
        " it out; or, if the queries are the gallery, pass no `gallery`.",
        inputs=("has_copied_queries",),
        find=_copied_queries,
        example=examples.copied_queries,
        thresholds={"least": copied_queries.LEAST_QUERIES},
    ),
    Advice(
        name="distances_as_scores",
        checks="distances that are passed as scores, or scores as distances",
        fires=_BACKWARDS,
        message="`{argument}` seem to be {other}: right answers come last, and first in the opposite order. Pass them"
        " as `{other}`.",
        inputs=("matrix", "opposite_ranks", "identities"),
        find=_distances_as_scores,
        example=examples.distances_as_scores,
        thresholds=_BACKWARDS_THRESHOLDS,
    ),
    Advice(
        name="distances_as_similarity",
        checks="a similarity function that returns distances",
        fires=_BACKWARDS,
        message="`similarity` seems to return distances: right answers come last, and first in the opposite order."
        " Higher must be closer, so return minus the distance.",
        inputs=("matrix", "opposite_ranks", "identities"),
        find=_distances_as_similarity,
        example=examples.distances_as_similarity,
        thresholds=_BACKWARDS_THRESHOLDS,
    ),
    Advice(
        name="tied_pairs",
        checks="numbers that depend on the order of equal scores",
        fires="Neither the caller nor the protocol sets `ties`, and in a sample of at least {least} pairs of a positive"
        " and a negative more than a share of {share} have equal scores.",
        message="{share} of the pairs of a positive and a negative have equal scores, so that the order of equal scores"
        " decides the numbers: mean average precision is {worst} where negatives go first (`ties='pessimistic'`, the"
        " default) and {best} where positives do ('optimistic'). Pass `ties` to choose, such as 'expected'.",
        inputs=("tied_pairs", "bounds"),
        find=_tied_pairs,
        example=examples.tied_pairs,
        thresholds={"least": tied_pairs.LEAST_PAIRS, "share": tied_pairs.MOST_TIED},
    ),
    Advice(
        name="unknown_identities",
        checks="samples without an identity that match each other",
        fires='A query with an identity such as "unknown" has a positive; or a query with a negative number other than'
        " -1 has one, and at most {most} identities are such numbers.",
        message="`identities` hold {listed}, which usually means that a sample has no identity, but such samples match"
        " each other here. Pass `junk_identities=({junk})` to drop them from the gallery and to leave them out as"
        " queries.",
        inputs=("identities", "is_valid", "names", "has_negative"),
        find=_unknown_identities,
        example=examples.unknown_identities,
        thresholds={"most": unknown_identities.MOST_NUMBERS},
    ),
    Advice(
        name="rounded_positions",
        checks="positions that were rounded to float32",
        fires="Positions are not whole numbers, all are exact in float32, and float32 rounds by more than a hundredth"
        " of the radius.",
        message="`positions` seem to be rounded to float32: the error is up to {error} at {largest}, and the `radius`"
        " is {radius}. Pass positions that were float64 from the start.",
        inputs=("positions",),
        find=_rounded_positions,
        example=examples.rounded_positions,
    ),
    Advice(
        name="positions_in_degrees",
        checks="positions in degrees with a radius in meters",
        fires="The radius is at least 1, and positions have two axes with values up to {latitude} and {longitude},"
        " which are far from 0 on one axis.",
        message="`positions` seem to be degrees, as they are within 90 and 180, but the `radius` is {radius}. Pass both"
        " in one unit, such as meters of UTM.",
        inputs=("positions",),
        find=_positions_in_degrees,
        example=examples.positions_in_degrees,
        thresholds={"latitude": positions.LATITUDE, "longitude": positions.LONGITUDE},
        explained_by=("rounded_positions",),
    ),
    Advice(
        name="nothing_pooled",
        checks="`multi_query` where each query has a single image",
        fires="`multi_query=True` is given, and no two queries have the same identity and camera.",
        message="`multi_query=True` pooled nothing: each query is the only one of its identity and camera, so the"
        " numbers are those of single queries. Pass all images of each query, with their identities and cameras.",
        inputs=("is_unpooled",),
        find=_nothing_pooled,
        example=examples.nothing_pooled,
    ),
    Advice(
        name="boxes_in_shares",
        checks="boxes of a person search as shares of the image",
        fires="At least {least} boxes are given, and a share of at least {most} is within [0, 1].",
        message="Most of {boxes} lie within [0, 1]: they seem to be shares of the image, but the rule of overlap is in"
        " pixels. Multiply the boxes by the image's width and height.",
        inputs=("boxes",),
        find=_boxes_in_shares,
        example=examples.boxes_in_shares,
        thresholds={"least": LEAST_BOXES, "most": MOST},
    ),
]

RETRIEVAL_ADVICE = {row.name: row for row in _ROWS}
"""rows by name, in the order in which they are evaluated"""
