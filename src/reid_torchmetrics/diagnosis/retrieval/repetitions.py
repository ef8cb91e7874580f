"""Samples that come again in one order, and rows that were never written: files that were joined, or not filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from reid_torchmetrics.functional.retrieval.evaluation import Embeddings
from reid_torchmetrics.functional.retrieval.scores import Rows

from .case import MOST_QUERIES, RetrievalCase

LEAST_IN_ORDER = 8
"""samples that must come again in one order: fewer may be twice in the data set itself"""
LEAST_SHARE = 0.5
"""share of pairs at the same distance with equal values in a column that must be equal altogether"""
LEAST_ZEROS = 8
"""mean length of the runs of zero vectors: those of a network are scattered"""


def has_samples(case: RetrievalCase) -> bool:
    """Return whether the embeddings, or the matrix of scores, are known."""
    return case.samples.find_problem is not None


def _sides(case: RetrievalCase) -> Iterator[tuple[str, Rows, Mapping[str, Tensor]]]:
    """Yield the name, the embeddings or scores, and the labels of the queries and of the gallery items."""
    problem = case.problem
    if problem is None:
        return
    source, labels = problem.source, problem.labels
    if isinstance(source, Embeddings):
        query, gallery = source.query.local, source.gallery
    else:
        query, gallery = Rows([source.matrix]), Rows([source.matrix.T])
    yield "queries", query, labels.query
    if problem.groups is None and labels.self_index is None:
        yield "gallery items", gallery, labels.gallery


def find_repeated(case: RetrievalCase) -> str | None:
    """Return how many queries or gallery items come again with their labels, in words; None if none do."""
    for side, rows, labels in _sides(case):
        num_repeated = _count_repeated(rows, labels)
        if num_repeated:
            return f"{num_repeated} of {rows.size} {side}"
    return None


def _count_repeated(rows: Rows, labels: Mapping[str, Tensor]) -> int:
    """Count rows that are, with their labels, the rows at a fixed distance before them."""
    if not rows.dimension:
        return 0
    # Equal values in one column, but 0, which a network may give to many samples, tell the distance.
    column = rows.column(rows.dimension // 2)
    values, order = column.sort(stable=True)
    distances = order.diff()
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
    num_identities = len(labels["identities"].unique(dim=0)) if "identities" in labels else 0
    is_perfect = len(column.unique()) <= num_identities
    num_distinct = len(rows.at(first[is_same]).unique(dim=0))
    return 0 if is_perfect or num_distinct < LEAST_IN_ORDER else round(share * num_pairs)


def find_zeros(case: RetrievalCase) -> str | None:
    """Return how many queries or gallery items are runs of zero vectors, in words; None if there are no such runs."""
    if case.matrix is not None:
        return None
    for side, rows, _ in _sides(case):
        num_zeros = _count_unwritten(rows)
        if num_zeros:
            return f"{num_zeros / rows.size:.0%} of the {rows.size} {side}"
    return None


def _count_unwritten(rows: Rows) -> int:
    """Count zero vectors if they lie in long runs."""
    if not rows.dimension or bool(rows.column(rows.dimension // 2).all()):
        return 0
    is_zero = rows.norms(rows.dtype) == 0
    num_zeros = int(is_zero.sum())
    num_runs = int(is_zero[:1].sum()) + int((is_zero[1:] & ~is_zero[:-1]).sum())
    # Zeros of a share p of all rows by chance have runs of 1 / (1 - p).
    share = num_zeros / max(1, rows.size)
    if not num_zeros or num_zeros / num_runs * (1 - share) < LEAST_ZEROS:
        return 0
    return num_zeros
