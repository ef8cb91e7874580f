"""Metric learning against recorded outputs of its evaluators on embeddings, see `tests/golden/README.md`."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import PositiveRanks, first_rank, mean_over_queries, rank_positives
from reid_torchmetrics.functional.retrieval.measures.average_precision import average_precision, average_precision_at_r
from reid_torchmetrics.functional.retrieval.measures.cutoffs import (
    hit_rate_at,
    precision_at,
    r_precision,
    reciprocal_rank,
)
from reid_torchmetrics.functional.retrieval.measures.means import mean_over_identities, median_over_queries
from reid_torchmetrics.tasks.verification import global_average_precision
from tests.golden.cases import RECORDINGS, Record
from tests.golden.peers import assert_equal

RECORDING = RECORDINGS["embeddings"]
RECORDS = RECORDING.records

# Every recorded array of the theme is in exactly one of these five groups; a test below counts them.
METRIC_LEARNING = [key for key, record in RECORDS.items() if record.output.startswith("pml/")]
PER_QUERY = [key for key, record in RECORDS.items() if record.output.endswith("_per_query")]
LANDMARKS = [key for key, record in RECORDS.items() if record.output.startswith("gld/")]
ACCURACY = ["d03_qg_labels/simpleir/accuracy_1_3_5_10_percent"]
NOT_ASSERTED = {
    "d01_loo_60/oml/pcf_0.5_0.9": "the share of principal components is no measure of retrieval",
    "d02_loo_200_lonely/oml/pcf_0.5_0.9": "the share of principal components is no measure of retrieval",
    "d03_qg_labels/simpleir/precision_1_3_5_10_percent_BUGGY": "cuts the queries at k, not the ranking",
}


@cache
def embeddings_of(case: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings of queries and gallery, identities of queries and gallery; float32 numbers in float64."""
    inputs = {name: torch.from_numpy(array) for name, array in RECORDING.inputs[case].items()}
    if "embeddings" in inputs:
        both, identities = inputs["embeddings"].double(), inputs["identities"]
        return both, both, identities, identities
    query, gallery = inputs["query_embeddings"].double(), inputs["gallery_embeddings"].double()
    return query, gallery, inputs["query_identities"], inputs["gallery_identities"]


@cache
def ranks_of(case: str) -> PositiveRanks:
    """Rank by Euclidean distance; where one set is queries and gallery, no item meets itself."""
    embeddings = embeddings_of(case)
    own = torch.arange(len(embeddings[0])) if "embeddings" in RECORDING.inputs[case] else None
    return rank_positives(*embeddings, similarity="euclidean", junk_identities=(), self_index=own)


MeasureAt = Callable[[PositiveRanks, int | None], Tensor]

METRIC_LEARNING_MEASURES: dict[str, MeasureAt] = {
    "mean_average_precision": lambda ranks, k: average_precision(ranks, k=k),
    "mean_average_precision_at_r": lambda ranks, k: average_precision_at_r(ranks, k=k),
    "mean_reciprocal_rank": lambda ranks, k: reciprocal_rank(ranks, k=k),
    "precision_at_1": lambda ranks, k: precision_at(ranks, 1),
    "r_precision": lambda ranks, k: r_precision(ranks, k=k),
}


PER_QUERY_MEASURES: dict[str, MeasureAt] = {
    "cmc": hit_rate_at,
    "precision": partial(precision_at, divisor="attainable"),
    "map": lambda ranks, k: average_precision(ranks, k=k, normalizer="hits"),
}


def recalled(record: Record) -> tuple[str, int | None]:
    """The measure and the number of neighbours that `pml/<measure>_k<number>` names."""
    name, _, number = record.output.removeprefix("pml/").removesuffix("_avg_of_avgs").rpartition("_k")
    return name, {"None": None, "5": 5, "max_bin_count": most_positives(record.case)}[number]


def most_positives(case: str) -> int:
    return int(ranks_of(case).num_positives.max())


def first_places(case: str) -> Tensor:
    """Rank of the first positive, 11 where none is among the first 10."""
    first = first_rank(ranks_of(case))
    return torch.where(first.isnan(), first, first.clamp(max=11))


def recognized(case: str, *, ignore_without_target: bool) -> Tensor:
    """GAP of predicting the identity of the nearest item, with minus its distance as confidence."""
    query, gallery, query_identities, gallery_identities = embeddings_of(case)
    nearest = torch.cdist(query, gallery).min(dim=1)
    correct = gallery_identities[nearest.indices] == query_identities
    has_target = torch.isin(query_identities, gallery_identities)
    return global_average_precision(
        -nearest.values, correct, has_target, ignore_without_target=ignore_without_target, ties="stable"
    )


def mean_at(case: str, k: int) -> Tensor:
    return mean_over_queries(average_precision(ranks_of(case), k=k, normalizer="attainable"))


LANDMARK_MEASURES: dict[str, Callable[[str], Tensor]] = {
    "mAP_at_5": lambda case: mean_at(case, 5),
    "mAP_at_10": lambda case: mean_at(case, 10),
    "mAP_at_100": lambda case: mean_at(case, 100),
    "mean_precisions_10": lambda case: torch.stack(
        [mean_over_queries(precision_at(ranks_of(case), k)) for k in range(1, 11)]
    ),
    "mean_median_position_10": lambda case: torch.stack(
        [mean_over_queries(first_places(case)), median_over_queries(first_places(case))]
    ),
    "GAP": lambda case: recognized(case, ignore_without_target=False),
    "GAP_ignore_non_gt": lambda case: recognized(case, ignore_without_target=True),
}


def test_every_recorded_array_is_asserted_once_or_left_out_with_a_reason() -> None:
    groups = [METRIC_LEARNING, PER_QUERY, LANDMARKS, ACCURACY, NOT_ASSERTED]
    assert sorted(key for group in groups for key in group) == sorted(RECORDS)
    assert [len(group) for group in groups] == [70, 30, 7, 1, 3]


@pytest.mark.parametrize("key", METRIC_LEARNING)
def test_equals_the_recorded_accuracy(key: str) -> None:
    record = RECORDS[key]
    name, k = recalled(record)
    values = METRIC_LEARNING_MEASURES[name](ranks_of(record.case), k)
    if record.output.endswith("avg_of_avgs"):
        assert_equal(mean_over_identities(values, embeddings_of(record.case)[2]), record)
    else:
        assert_equal(mean_over_queries(values), record)


@pytest.mark.parametrize("key", PER_QUERY)
def test_equals_the_recorded_value_of_every_query(key: str) -> None:
    record = RECORDS[key]
    name, k = record.output.removeprefix("oml/").removesuffix("_per_query").split("_at_")
    values = PER_QUERY_MEASURES[name](ranks_of(record.case), int(k))
    # Without positives the evaluator says 0, except for the precision, which divides by their number.
    assert_equal(values if name == "precision" else values.nan_to_num(nan=0.0), record)


@pytest.mark.parametrize("key", LANDMARKS)
def test_equals_the_recorded_output_of_google_landmarks(key: str) -> None:
    record = RECORDS[key]
    assert_equal(LANDMARK_MEASURES[record.output.removeprefix("gld/")](record.case), record)


@pytest.mark.parametrize("key", ACCURACY)
def test_equals_the_recorded_share_of_queries_with_a_hit_in_percent(key: str) -> None:
    ranks = ranks_of(RECORDS[key].case)
    shares = [mean_over_queries(hit_rate_at(ranks, k), empty_target_action="neg") for k in (1, 3, 5, 10)]
    assert_equal(100 * torch.stack(shares), RECORDS[key])


def test_average_precision_is_a_number_where_simpleir_fails_on_lists_of_unequal_length() -> None:
    (error,) = RECORDING.errors.values()
    assert (error.error, error.peer, error.function) == ("ValueError", "simpleir", "compute_map")
    assert "inhomogeneous shape" in error.message
    values = [float(mean_over_queries(average_precision(ranks_of(error.case), k=k))) for k in error.options["topk"]]
    assert np.all(np.diff(values) > 0)
