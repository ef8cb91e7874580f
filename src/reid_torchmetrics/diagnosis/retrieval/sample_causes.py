"""Rows about the samples themselves: copies, repetitions, zero vectors, and labels that match nothing or everything."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Cause

from . import copied_queries, matches, repetitions
from .case import RetrievalCase

SAMPLE_CAUSES: list[Cause[RetrievalCase]] = [
    Cause(
        name="copied_queries",
        checks="queries that are also gallery items",
        fires="Neither `self_index` nor lists are given. In a sample of the queries most, and at least {least}, have a"
        " positive that is at most {close} of their norm away from them, and at most {far} times as far as the next"
        " candidate, which is apart. In a matrix, two queries have the same score with each other's best positive.",
        message="Most queries have a copy of themselves in the gallery, an item of their identity with the same"
        " embedding up to rounding, and find it first. Pass `self_index`, which says where in the gallery each query"
        " is, and leaves it out; or, if the queries are the gallery, give all samples once, without a `gallery`, or in"
        " a metric without `is_query`.",
        suspect=copied_queries.have_themselves_first,
        find=copied_queries.find_copies,
        thresholds={
            "least": copied_queries.LEAST_QUERIES,
            "close": copied_queries.CLOSE,
            "far": copied_queries.FAR,
        },
    ),
    Cause(
        name="exchanged_axes",
        checks="positions of queries and gallery with their axes in two orders",
        fires="At least half of the queries, and at least {queries}, have no item within the radius. In another order"
        " of the axes of one side a share of at least {fits} has one.",
        message="{num} of {total} queries have no gallery item within the `radius`, but most would have one if"
        " `positions` of one side had their axes in the other order. Give both sides in one order.",
        suspect=matches.have_few_positives,
        find=matches.find_exchanged_axes,
        thresholds={"queries": matches.LEAST_QUERIES, "fits": matches.FITS},
        explained_by=("no_positives",),
    ),
    Cause(
        name="no_negatives",
        checks="labels or a radius with which nearly everything matches",
        fires="Of at least {queries} queries with at least {candidates} candidates, a share of {most} has no negative,"
        " or, by positions, positives are at least {covered} of the candidates.",
        message="Nearly all gallery items match nearly every query, so that no order can be wrong: {reason}.",
        suspect=matches.lack_negatives,
        find=matches.name_reason,
        thresholds={
            "queries": matches.LEAST_QUERIES,
            "candidates": matches.LEAST_CANDIDATES,
            "most": matches.MOST_WITHOUT,
            "covered": matches.COVERED,
        },
        explained_by=("positions_in_degrees",),
    ),
    Cause(
        name="repeated_samples",
        checks="samples that come twice",
        fires="At least {least} queries or gallery items have the embeddings and labels of others, in the same order.",
        message="{samples} come twice, in one order, with equal embeddings and labels, and count twice. Was a file"
        " joined with itself, or filled up by a distributed sampler? Leave them out, or pass `index` to `update`, which"
        " counts a sample once.",
        suspect=repetitions.has_samples,
        find=repetitions.find_repeated,
        thresholds={"least": repetitions.LEAST_IN_ORDER},
        explained_by=("forgotten_reset", "gathered_samples", "padded_samples"),
    ),
    Cause(
        name="zero_embeddings",
        checks="embeddings that were never written",
        fires="Embeddings are zero vectors in runs of at least {least} samples, and more than by chance.",
        message="{samples} are zero vectors, one after the other: are they rows of an array that were never written?"
        " A zero vector is equally far from everything.",
        suspect=repetitions.has_samples,
        find=repetitions.find_zeros,
        thresholds={"least": repetitions.LEAST_ZEROS},
    ),
]
