"""Rows about the samples themselves: copies, repetitions, zero vectors, and labels that match nothing or everything."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Cause

from . import copied_queries, matches, repetitions
from .case import RetrievalCase

SAMPLE_CAUSES: list[Cause[RetrievalCase]] = [
    Cause(
        name="copied_queries",
        checks="queries that are also gallery items",
        fires="Neither `self_index` nor lists are given. In a sample of the queries most, and at least"
        f" {copied_queries.LEAST_QUERIES}, have a positive that is at most {copied_queries.CLOSE} of their norm away"
        f" from them, and at most {copied_queries.FAR} times as far as the next candidate, which is apart. In a"
        " matrix, two queries have the same score with each other's best positive.",
        message="Most queries have a copy of themselves in the gallery, an item of their identity with the same"
        " embedding up to rounding, and find it first. Pass `self_index`, which says where in the gallery each query"
        " is, and leaves it out; or, if the queries are the gallery, give all samples once, without a `gallery`, or in"
        " a metric without `is_query`.",
        suspect=copied_queries.have_themselves_first,
        find=copied_queries.find_copies,
    ),
    Cause(
        name="exchanged_axes",
        checks="positions of queries and gallery with their axes in two orders",
        fires=f"At least half of the queries, and at least {matches.LEAST_QUERIES}, have no item within the radius."
        f" In another order of the axes of one side a share of at least {matches.FITS} has one.",
        message="{num} of {total} queries have no gallery item within the `radius`, but most would have one if"
        " `positions` of one side had their axes in the other order. Give both sides in one order.",
        suspect=matches.have_few_positives,
        find=matches.find_exchanged_axes,
        explained_by=("no_positives",),
    ),
    Cause(
        name="no_negatives",
        checks="labels or a radius with which nearly everything matches",
        fires=f"Of at least {matches.LEAST_QUERIES} queries with at least {matches.LEAST_CANDIDATES} candidates, a"
        f" share of {matches.MOST_WITHOUT} has no negative, or, by positions, positives are at least"
        f" {matches.COVERED} of the candidates.",
        message="Nearly all gallery items match nearly every query, so that no order can be wrong: {reason}.",
        find=matches.find_no_negatives,
        explained_by=("positions_in_degrees",),
    ),
    Cause(
        name="repeated_samples",
        checks="samples that come twice",
        fires=f"At least {repetitions.LEAST_IN_ORDER} queries or gallery items have the embeddings and labels of"
        " others, in the same order.",
        message="{samples} come twice, in one order, with equal embeddings and labels, and count twice. Was a file"
        " joined with itself, or filled up by a distributed sampler? Leave them out, or pass `index` to `update`, which"
        " counts a sample once.",
        suspect=repetitions.has_samples,
        find=repetitions.find_repeated,
        explained_by=("forgotten_reset", "gathered_samples", "padded_samples"),
    ),
    Cause(
        name="zero_embeddings",
        checks="embeddings that were never written",
        fires=f"Embeddings are zero vectors in runs of at least {repetitions.LEAST_ZEROS} samples, and more than by"
        " chance.",
        message="{samples} are zero vectors, one after the other: are they rows of an array that were never written?"
        " A zero vector is equally far from everything.",
        suspect=repetitions.has_samples,
        find=repetitions.find_zeros,
    ),
]
