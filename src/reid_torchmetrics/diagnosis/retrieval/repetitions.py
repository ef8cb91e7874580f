"""Samples that come again in one order, and rows that were never written: files that were joined, or not filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Values, is_beyond_chance
from reid_torchmetrics.functional.retrieval.evaluation import Embeddings
from reid_torchmetrics.functional.retrieval.scores import Rows

from .case import MOST_QUERIES, RetrievalCase, cause

LEAST_IN_ORDER = 8
"""samples that must come again in one order: fewer may be twice in the data set itself"""
LEAST_SHARE = 0.5
"""share of pairs at the same distance with equal values in a column that must be equal altogether"""
LEAST_ZEROS = 8
"""mean length of the runs of zero vectors: those of a network are scattered"""
MOST_SORTED = 1 << 16
"""approximate number of values that are sorted; among more, those with a hash of one class are compared"""
_ODD_FACTOR = 0x61C8864680B583EB  # a product's high bits depend on all bits (Knuth, "Sorting and searching", 1973)


def has_samples(case: RetrievalCase) -> bool:
    """Return whether the embeddings, or the matrix of scores, are known."""
    return case.samples.find_problem is not None


@cause(
    message="{samples} come twice, in one order, with equal embeddings and labels, and count twice. Was a file"
    " joined with itself, or filled up by a distributed sampler? Leave them out, or pass `index` to `update`, which"
    " counts a sample once.",
    suspect=has_samples,
    explained_by=("forgotten_reset", "gathered_samples", "padded_samples"),
)
def repeated_samples(case: RetrievalCase) -> Values | None:
    """Look for samples that come twice.

    At least {LEAST_IN_ORDER} queries or gallery items have the embeddings and labels of others, in the same order.
    Of more than {MOST_SORTED} samples, this is looked for in a part of about that size.
    """
    return _first_count(case, _count_repeated)


@cause(
    message="{samples} are zero vectors, one after the other: are they rows of an array that were never written?"
    " A zero vector is equally far from everything.",
    suspect=has_samples,
)
def zero_embeddings(case: RetrievalCase) -> Values | None:
    """Look for embeddings that were never written.

    Embeddings are zero vectors in runs of at least {LEAST_ZEROS} samples, and more than by chance.
    """
    has_embeddings = isinstance(case.problem.source, Embeddings)
    return _first_count(case, _count_unwritten) if has_embeddings else None


def _first_count(case: RetrievalCase, count: Callable[[Rows, Mapping[str, Tensor]], int]) -> Values | None:
    """Return a count of the queries or of the gallery items in words, the first one above 0."""
    problem = case.problem
    source, labels = problem.source, problem.labels
    if isinstance(source, Embeddings):
        query, gallery = source.query.local, source.gallery
    else:
        query, gallery = Rows([source.matrix]), Rows([source.matrix.T])
    sides = [("queries", query, labels.query)]
    if problem.groups is None and labels.self_index is None:
        sides.append(("gallery items", gallery, labels.gallery))
    for name, rows, labels_of_side in sides:
        num_counted = count(rows, labels_of_side) if rows.dimension else 0
        if num_counted:
            return {"samples": f"{num_counted} of {rows.size} {name}"}
    return None


def _count_repeated(rows: Rows, labels: Mapping[str, Tensor]) -> int:
    """Count rows that are, with their labels, the rows at a fixed distance before them."""
    # Equal values in one column, but 0, which a network may give to many samples, tell the distance.
    column = rows.column(rows.dimension // 2)
    hashes = (column.view(torch.int64) * _ODD_FACTOR) >> 40
    places = (hashes % (1 + rows.size // MOST_SORTED) == 0).nonzero()[:, 0]
    values, order = column[places].sort(stable=True)
    distances = places[order].diff()
    is_equal = (values[1:] == values[:-1]) & (values[1:] != 0) & (distances >= LEAST_IN_ORDER)
    distances = distances[is_equal]
    if len(distances) < LEAST_IN_ORDER:
        return 0
    distance = int(distances.mode().values)
    first = (column[distance:] == column[:-distance]).nonzero()[:, 0]
    num_pairs = len(first)
    first = first[:: max(1, num_pairs // MOST_QUERIES)]
    second = first + distance
    is_same = (rows.at(first) == rows.at(second)).all(1)
    for values in labels.values():
        is_same &= (values[first] == values[second]).view(len(first), -1).all(1)
    share = float(is_same.double().mean())
    if share < LEAST_SHARE or share * num_pairs < LEAST_IN_ORDER:
        return 0
    # A perfect model gives one embedding to all samples of an identity: then equal embeddings show nothing.
    counts = column.unique(return_counts=True)[1]
    num_identities = len(labels["identities"].unique(dim=0)) if "identities" in labels else 0
    chance = float((counts / rows.size).square().sum())
    is_lucky = len(counts) <= num_identities or not is_beyond_chance(num_pairs, rows.size - distance, chance)
    num_distinct = len(rows.at(first[is_same]).unique(dim=0))
    return 0 if is_lucky or num_distinct < LEAST_IN_ORDER else round(share * num_pairs)


def _count_unwritten(rows: Rows, _: Mapping[str, Tensor]) -> int:
    """Count zero vectors if they lie in long runs."""
    if bool(rows.column(rows.dimension // 2).all()):
        return 0
    is_zero = rows.norms(rows.dtype) == 0
    num_zeros = int(is_zero.sum())
    num_runs = int(is_zero[:1].sum() + (is_zero[1:] & ~is_zero[:-1]).sum())
    # Zeros of a share p of all rows by chance have runs of 1 / (1 - p).
    are_long = num_zeros * (1 - num_zeros / rows.size) >= LEAST_ZEROS * num_runs
    return num_zeros if are_long else 0
