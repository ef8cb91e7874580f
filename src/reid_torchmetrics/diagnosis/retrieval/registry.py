"""The registry of causes of wrong numbers of retrieval.

To add a row, write a `Cause` in one of the lists, and in the tests an example for which it alone is found. The page of
causes and the tests read the registry.
"""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Cause, values_if
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST

from . import backwards, facts, infinite_scores, positions, tied_pairs, undefined, unknown_identities
from .case import RetrievalCase
from .sample_causes import SAMPLE_CAUSES

_BACKWARDS = (
    f"There are queries of at least {backwards.LEAST_IDENTITIES} identities, or {backwards.LEAST_QUERIES} queries if"
    f" identities are not known. Rank-1 is below {backwards.FEW_HITS} times the Rank-1 of a random order. The"
    f" opposite order has a Rank-1 of at least {backwards.GOOD}, with at least {backwards.ODDS} times the odds of a"
    " random order."
)
_OF_FACTS: list[Cause[RetrievalCase]] = [
    Cause(
        name="missing_items",
        checks="lists of a whole gallery with a part of it",
        fires="The `ground_truth` of a metric lists items that no sample of the gallery has as `index`.",
        message="`ground_truth` lists items that no sample of the gallery has as `index`: {num} of {num_listed} entries"
        " for {queries}. They do not count, which is right for a part of the gallery only.",
        find=facts.find_missing_items,
    ),
    Cause(
        name="mixed_roles",
        checks="batches with and batches without `is_query`",
        fires="Some batches have `is_query`, and some do not.",
        message="Some batches were given with `is_query` and some without: the samples of the latter are queries and"
        " gallery items at once (leave-one-out). Pass `is_query=False` with batches of the gallery.",
        find=lambda case: values_if(case.samples.updates.has_mixed_roles),
    ),
    Cause(
        name="forgotten_reset",
        checks="an evaluation that begins with the samples of the last one",
        fires="There is no `index`, and the batches since the last evaluation have the same labels as the batches"
        " before it, which are at least 8 samples.",
        message="The last {num} samples have the labels of the {num} before; all count. Was `reset` forgotten?",
        find=lambda case: values_if(case.samples.updates.num_forgotten, num=case.samples.updates.num_forgotten),
    ),
    Cause(
        name="other_embeddings",
        checks="samples that come again with another embedding",
        fires="A process has several samples with the same `index`, and most of the repetitions have an embedding that"
        " differs by more than rounding.",
        message="Samples that came again on their process, {num} of them, have another embedding: among samples with"
        " the same `index` only the first counts. Was `reset` forgotten after the last evaluation, or does `index`"
        " begin anew in each batch? It must be the sample's number in its data set.",
        find=lambda case: values_if(case.samples.num_changed, num=case.samples.num_changed),
    ),
    Cause(
        name="gathered_samples",
        checks="samples that several processes hold",
        fires="There is no `index`, and two processes have at least 8 samples each with the same labels and the same"
        " bits in their embeddings.",
        message="Several processes hold the same samples, and each counts them: they seem to have been gathered by"
        " hand, or not to be sharded at all. Pass `index` to `update`, or give each process its own samples only:"
        " `compute` combines them.",
        find=lambda case: values_if(case.samples.are_gathered),
    ),
    Cause(
        name="padded_samples",
        checks="samples that a distributed sampler repeated",
        fires="There is no `index`, all processes have the same number of samples, and the last samples of a process"
        " are the first samples of process 0, except for rounding.",
        message="A distributed sampler seems to have repeated samples to make the numbers even, and they count twice:"
        " all processes hold equally many, and the last of one are the first of another. Pass `index` to `update`, or"
        " use `UnpaddedDistributedSampler`.",
        find=lambda case: values_if(case.samples.are_padded),
        explained_by=("gathered_samples",),
    ),
    Cause(
        name="rounded_positions",
        checks="positions that were rounded to float32",
        fires="Positions are not whole numbers, all are exact in float32, and float32 rounds by more than a hundredth"
        " of the radius.",
        message="`positions` seem to be rounded to float32: the error is up to {error} at {largest}, and the `radius`"
        " is {radius}. Pass positions that were float64 from the start.",
        suspect=positions.has_radius,
        find=positions.find_rounded,
    ),
    Cause(
        name="positions_in_degrees",
        checks="positions in degrees with a radius in meters",
        fires=f"The radius is at least 1, and positions have two axes with values up to {positions.LATITUDE} and"
        f" {positions.LONGITUDE}, which are far from 0 on one axis.",
        message="`positions` seem to be degrees, as they are within 90 and 180, but the `radius` is {radius}. Pass both"
        " in one unit, such as meters of UTM.",
        suspect=positions.has_radius,
        find=positions.find_degrees,
        explained_by=("rounded_positions",),
    ),
]
"""facts about samples, which need no ranks"""

_OF_RANKS: list[Cause[RetrievalCase]] = [
    Cause(
        name="missing_cameras",
        checks="a benchmark with rules about cameras, without cameras",
        fires="A protocol is given by its name and drops gallery items by their cameras, but no cameras are given.",
        message="`protocol` {name!r} leaves out gallery items by their cameras ({rules}), but no cameras were given, so"
        " no item is left out. Pass the cameras, or `same_camera='keep'` where there are none.",
        find=facts.find_missing_cameras,
    ),
    Cause(
        name="not_finite",
        checks="embeddings that are NaN or infinite",
        fires="A metric was given embeddings that are not finite, so that nothing was ranked.",
        message="{reason}",
        find=lambda case: values_if(case.ranking.undefined, reason=case.ranking.undefined),
    ),
    Cause(
        name="missing_search_cameras",
        checks="a search in cameras that do not exist",
        fires="No query has a candidate in the `search_cameras`.",
        message="`search_cameras` must hold cameras of the gallery; got {cameras}, in which no query has a candidate,"
        " so that the results are NaN.",
        find=undefined.find_missing_search_cameras,
    ),
    Cause(
        name="no_positives",
        checks="queries without a positive",
        fires="No query has a positive in the gallery.",
        message="No query can be evaluated, so the result is {result}: of {sizes}, {reason}.{reading}",
        find=undefined.find_no_positives,
        explained_by=("not_finite", "missing_search_cameras"),
    ),
    Cause(
        name="infinite_scores",
        checks="infinite scores or distances that are meant to leave out pairs",
        fires="A score is -inf, or a distance is inf.",
        message="`{argument}` of {infinite} rank pairs last, but as candidates that count. To leave pairs out pass"
        " `junk_pairs`, or labels with a rule such as `same_camera`.",
        find=infinite_scores.find_infinite,
    ),
    Cause(
        name="distances_as_scores",
        checks="distances that are passed as scores, or scores as distances",
        fires=_BACKWARDS,
        message="`{argument}` seem to be {other}: right answers come last, and first in the opposite order. Pass them"
        " as `{other}`.",
        suspect=backwards.may_be_backwards,
        find=backwards.find_opposite_matrix,
    ),
    Cause(
        name="distances_as_similarity",
        checks="a similarity function that returns distances",
        fires=_BACKWARDS,
        message="`similarity` seems to return distances: right answers come last, and first in the opposite order."
        " Higher must be closer, so return minus the distance.",
        suspect=backwards.may_be_backwards,
        find=backwards.find_opposite_similarity,
    ),
    Cause(
        name="tied_pairs",
        checks="numbers that depend on the order of equal scores",
        fires="Neither the caller nor the protocol sets `ties`, and in a sample of at least"
        f" {tied_pairs.LEAST_PAIRS} pairs of a positive and a negative more than a share of {tied_pairs.MOST_TIED}"
        " have equal scores.",
        message="{share} of the pairs of a positive and a negative have equal scores, so that the order of equal scores"
        " decides the numbers: mean average precision of {queries} is {worst} where negatives go first"
        " (`ties='pessimistic'`, the default) and {best} where positives do ('optimistic'). Pass `ties` to choose, such"
        " as 'expected'.",
        suspect=tied_pairs.ties_decide,
        find=tied_pairs.find_tied_pairs,
    ),
    Cause(
        name="unknown_identities",
        checks="samples without an identity that match each other",
        fires='A query with an identity such as "unknown" has a positive; or a query with a negative number other than'
        f" -1 has one, and at most {unknown_identities.MOST_NUMBERS} identities are such numbers.",
        message="`identities` hold {listed}, which usually means that a sample has no identity, but such samples match"
        " each other here. Pass `junk_identities=({junk})` to drop them from the gallery and to leave them out as"
        " queries.",
        find=unknown_identities.find_unknown,
    ),
    Cause(
        name="nothing_pooled",
        checks="`multi_query` where each query has a single image",
        fires="`multi_query=True` is given, and no two queries have the same identity and camera.",
        message="`multi_query=True` pooled nothing: each query is the only one of its identity and camera, so the"
        " numbers are those of single queries. Pass all images of each query, with their identities and cameras.",
        find=facts.find_nothing_pooled,
    ),
    Cause(
        name="boxes_in_shares",
        checks="boxes of a person search as shares of the image",
        fires=f"At least {LEAST_BOXES} boxes are given, and a share of at least {MOST} is within [0, 1].",
        message="Most of {boxes} lie within [0, 1]: they seem to be shares of the image, but the rule of overlap is in"
        " pixels. Multiply the boxes by the image's width and height.",
        find=facts.find_boxes_in_shares,
    ),
]

FACTS = {row.name: row for row in _OF_FACTS}
"""rows by name that are asked where samples were not ranked, such as for rank lists"""
RETRIEVAL_CAUSES = FACTS | {row.name: row for row in (*_OF_RANKS, *SAMPLE_CAUSES)}
"""rows by name, in the order in which they are asked"""
