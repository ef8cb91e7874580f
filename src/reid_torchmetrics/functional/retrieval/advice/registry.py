"""The registry of advice on retrieval.

A new row is an `Advice` in `RETRIEVAL_ADVICE`, with evidence on which it fires in `examples`; the page of advice and
the tests follow.
"""

from __future__ import annotations

import math

from reid_torchmetrics.functional.advice import Advice, Values, advise
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST, are_shares, are_within
from reid_torchmetrics.functional.world import World

from . import backwards, copied_queries, examples, positions, tied_pairs, unknown_identities
from .evidence import RetrievalEvidence

_MOST_NAMED = 5  # identities in a text


def advise_on_retrieval(evidence: RetrievalEvidence, world: World) -> None:
    """Warn on the first process of what is probably not meant, after ranks are known; all processes must call."""

    def give() -> None:
        if world.process == 0:
            advise(RETRIEVAL_ADVICE.values(), evidence, world.warning_log)

    world.guarded(give)  # a warning may be an error


def _missing_cameras(evidence: RetrievalEvidence) -> Values | None:
    if evidence.missing_cameras is None:
        return None
    name, rules = evidence.missing_cameras
    return {"name": name, "rules": rules}


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
    found = unknown_identities.find_unknown(
        evidence.identities, evidence.is_valid, evidence.names, has_negative=evidence.has_negative
    )
    if not found:
        return None
    named = found[:_MOST_NAMED]
    return {"listed": ", ".join(map(repr, named)), "junk": ", ".join(map(repr, (-1, *named)))}


def _rounded_positions(evidence: RetrievalEvidence) -> Values | None:
    rounding = None if evidence.positions is None else positions.find_rounding(*evidence.positions)
    if rounding is None or evidence.positions is None:
        return None
    *_, radius = evidence.positions
    by, largest = rounding
    return {"by": f"{by:.2g}", "largest": f"{largest:,.0f}", "radius": f"{radius:g}"}


def _positions_in_degrees(evidence: RetrievalEvidence) -> Values | None:
    if evidence.positions is None or not positions.seem_degrees(*evidence.positions):
        return None
    *_, radius = evidence.positions
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
    "Of at least {identities} identities, or {queries} queries without, Rank-1 is below {hits} and mean average"
    " precision below {precision} of a random order's, and the opposite order has a Rank-1 of at least {good}, with"
    " {odds} times the odds of a random order."
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
        fires="A protocol is given by its name, leaves out gallery items by their cameras, and no cameras are given.",
        message="`protocol` {name!r} leaves out gallery items by their cameras ({rules}), but no cameras were given, so"
        " that it leaves out none. Pass the cameras, or `same_camera='keep'` where there are none.",
        inputs=("missing_cameras",),
        find=_missing_cameras,
        example=examples.missing_cameras,
    ),
    Advice(
        name="mixed_roles",
        checks="batches without `is_query` beside others with it",
        fires="Some batches come with `is_query`, and some without; `update` says it, as it alone can see it.",
        message="Some batches were given with `is_query` and some without: the samples of the latter are queries and"
        " gallery items at once (leave-one-out). Pass `is_query=False` with batches of the gallery.",
        inputs=("has_mixed_roles",),
        find=_mixed_roles,
        example=examples.mixed_roles,
    ),
    Advice(
        name="forgotten_reset",
        checks="an evaluation that begins with the samples of the last one",
        fires="The batches since the last evaluation have all the labels of the batches before, of at least 8 samples"
        " without `index`.",
        message="The last {num} samples have the labels of the {num} before; all count. Was `reset` forgotten?",
        inputs=("num_forgotten",),
        find=_forgotten_reset,
        example=examples.forgotten_reset,
    ),
    Advice(
        name="other_embeddings",
        checks="samples that come again with another embedding",
        fires="Samples came again on their process with an `index`, most of them with an embedding that differs by more"
        " than rounding.",
        message="{num} samples came again on their process with another embedding, and do not count: of samples with"
        " the same `index` the first counts. Was `reset` forgotten after the last evaluation, or does `index` begin"
        " anew in each batch? It must be the sample's number in its data set.",
        inputs=("num_changed",),
        find=_other_embeddings,
        example=examples.other_embeddings,
    ),
    Advice(
        name="gathered_samples",
        checks="samples that several processes hold",
        fires="Two processes have the same samples to the bit, of at least 8 without `index`.",
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
        fires="All processes hold equally many samples without `index`, and the last of one are the first of the first"
        " process, but for rounding.",
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
        fires="A score is -inf, or a distance inf.",
        message="`{argument}` of {infinite} rank pairs last, but as candidates that count. To leave pairs out pass"
        " `junk_pairs`, or labels with a rule such as `same_camera`.",
        inputs=("matrix", "find_worst"),
        find=_infinite_scores,
        example=examples.infinite_scores,
    ),
    Advice(
        name="copied_queries",
        checks="queries that are in the gallery, too",
        fires="Neither `self_index` nor lists are given, and of some queries most, at least {least}, have a copy in the"
        " gallery that counts as a right answer, beside right answers that are no copies.",
        message="Most queries have a copy of themselves in the gallery, an item of their identity with the same"
        " embedding, and find it first. Pass `self_index`, each query's own position in the gallery or -1, which leaves"
        " it out; or, if the queries are the gallery, pass no `gallery`.",
        inputs=("has_copied_queries",),
        find=_copied_queries,
        example=examples.copied_queries,
        thresholds={"least": copied_queries.LEAST_QUERIES},
    ),
    Advice(
        name="distances_as_scores",
        checks="distances that are given as scores, or scores as distances",
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
        checks="a similarity of one's own that returns distances",
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
        checks="numbers that the order of equal scores decides",
        fires="Neither the caller nor the protocol chooses `ties`, and of at least {least} pairs of a positive and a"
        " negative more than {share} have equal scores.",
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
        fires='A query is right by a name such as "unknown", or by a negative number besides -1, where identities have'
        " at most {most} of them beside others.",
        message="`identities` hold {listed}, which usually says that a sample has no identity, but such samples match"
        " each other here. Pass `junk_identities=({junk})` to drop them from the gallery and to leave them out as"
        " queries.",
        inputs=("identities", "is_valid", "names", "has_negative"),
        find=_unknown_identities,
        example=examples.unknown_identities,
        thresholds={"most": unknown_identities.MOST_NUMBERS},
    ),
    Advice(
        name="rounded_positions",
        checks="positions that have gone through float32",
        fires="Positions that are not whole numbers are all numbers of float32, which rounds them by more than a"
        " hundredth of the radius.",
        message="`positions` seem to have been float32, which rounds by up to {by} at {largest}, beside a `radius` of"
        " {radius}. Give them in float64.",
        inputs=("positions",),
        find=_rounded_positions,
        example=examples.rounded_positions,
    ),
    Advice(
        name="positions_in_degrees",
        checks="positions in degrees beside a radius in meters",
        fires="The radius is at least 1, and positions on two axes lie within {latitude} and {longitude}, far from 0"
        " along an axis.",
        message="`positions` seem to be degrees, beside a `radius` of {radius}: they lie within 90 and 180. Give both"
        " in one unit, such as meters of UTM.",
        inputs=("positions",),
        find=_positions_in_degrees,
        example=examples.positions_in_degrees,
        thresholds={"latitude": positions.LATITUDE, "longitude": positions.LONGITUDE},
        explained_by=("rounded_positions",),
    ),
    Advice(
        name="nothing_pooled",
        checks="several images of a query, where each has one",
        fires="`multi_query=True` is given, and no two queries have one identity and camera.",
        message="`multi_query=True` pooled nothing: each query is the only one of its identity and camera, so the"
        " numbers are those of single queries. Pass all images of each query, with their identities and cameras.",
        inputs=("is_unpooled",),
        find=_nothing_pooled,
        example=examples.nothing_pooled,
    ),
    Advice(
        name="boxes_in_shares",
        checks="boxes of a person search as shares of the image",
        fires="At least {least} boxes are given, and {most} of them lie within [0, 1].",
        message="Most of {boxes} lie within [0, 1]: they seem to be shares of the image, but the"
        " rule of overlap is in pixels. Multiply them by the image's width and height.",
        inputs=("boxes",),
        find=_boxes_in_shares,
        example=examples.boxes_in_shares,
        thresholds={"least": LEAST_BOXES, "most": MOST},
    ),
]

RETRIEVAL_ADVICE = {row.name: row for row in _ROWS}
"""rows by name; they are asked in this order"""
