"""Numbers of ranks that other evaluators compute and no option gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.retrieval.measures import (
    Measure,
    average_precision,
    average_precision_at_r,
    hit_rate_at,
    normalized_dcg,
    precision_at,
    r_precision,
    reciprocal_rank,
)
from reid_torchmetrics.functional.retrieval.ranking import UNRETRIEVED, PositiveRanks

from .rows import CUTOFFS

Values = Callable[[PositiveRanks], Tensor]
OWN_MEASURES: dict[str, Measure] = {}
"""the measures by their names in `retrieval.json`"""


def _add(name: str, words: str, values: Values, *, is_cmc: bool = False) -> None:
    """Add a measure by its name, such as "fast-reid: metric"; the words say what it is."""
    title = name.partition(": ")[2]
    OWN_MEASURES[name] = Measure(title, lambda ranks, *_: values(ranks), words, is_cmc=is_cmc)


_add(
    "fast-reid: metric",
    "the mean of mAP and Rank-1",
    lambda ranks: (average_precision(ranks) + hit_rate_at(ranks, 1)) / 2,
    is_cmc=True,
)
_add(
    "torchmetrics.retrieval: RetrievalPrecision",
    "positives / candidates",
    lambda ranks: ranks.num_positives / ranks.num_candidates,
)
_add("trec_eval: relative_P_5", "hits / min(5, positives)", lambda ranks: precision_at(ranks, 5, divisor="attainable"))

# pytorch-metric-learning retrieves k items, by default the largest number of positives.
_METRIC_LEARNING_MEASURES: dict[str, Callable[..., Tensor]] = {
    "mean_average_precision": average_precision,
    "mean_average_precision_at_r": average_precision_at_r,
    "mean_reciprocal_rank": reciprocal_rank,
    "r_precision": r_precision,
}


def _cut_at(function: Callable[..., Tensor], k: int | None, ranks: PositiveRanks) -> Tensor:
    """Return a measure of the first `k` items; None stands for the largest number of positives of a query."""
    return function(ranks, k=int(ranks.num_positives.max()) if k is None else k)


for _name, _function in _METRIC_LEARNING_MEASURES.items():
    for _words, _cutoff in (("5", 5), ("max_bin_count", None)):
        _add(
            f"pytorch-metric-learning: {_name}, k={_words}",
            f"of the first {_words} items",
            partial(_cut_at, _function, _cutoff),
        )


def _f1(k: int, ranks: PositiveRanks) -> Tensor:
    """Return 2 P R / (P + R) of precision and recall of the first `k` items."""
    return 2 * k * precision_at(ranks, k) / (k + ranks.num_positives)


for _k in CUTOFFS:
    _add(f"PyTorch Geometric: LinkPredF1({_k})", f"F1 of the first {_k} items", partial(_f1, _k))


def _found(ranks: PositiveRanks) -> PositiveRanks:
    """Return the ranks without positives that were not retrieved."""
    is_found = ranks.rank <= UNRETRIEVED
    counts = segments.reduce(is_found.double(), "sum", ranks.num_positives).long()
    return PositiveRanks(ranks.rank[is_found], counts, ranks.num_candidates)


def _jaccard(ranks: PositiveRanks) -> Tensor:
    """Return the positives that were found, divided by the union of the list and all positives."""
    num_found = _found(ranks).num_positives
    return num_found / (ranks.num_positives + ranks.num_candidates - num_found)


def _with_empty_lists(values: Values, ranks: PositiveRanks) -> Tensor:
    """Return values with 1 for an empty list of a query without a positive, in the mean over all queries.

    Such a query has no value of its own: the others share the sum of these ones.
    """
    is_due = ranks.num_positives > 0
    num_empty = (~is_due & (ranks.num_candidates == 0)).sum()
    return values(ranks).double().nan_to_num() + num_empty / is_due.sum()


_DUPLICATES: dict[str, tuple[str, Values]] = {
    "map": ("average precision", average_precision),
    "ndcg": ("nDCG of the positives found", lambda ranks: normalized_dcg(_found(ranks))),
    "jaccard": ("positives found / union of list and positives", _jaccard),
}
for _name, (_words, _values) in _DUPLICATES.items():
    _add(
        f"imagededup: {_name}",
        f"{_words}, or 1 of an empty list of a file without duplicates",
        partial(_with_empty_lists, _values),
    )
