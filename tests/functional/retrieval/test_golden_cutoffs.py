"""Measures at a cutoff against recorded outputs of TorchMetrics, see `tests/golden/README.md`."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import PositiveRanks, mean_over_queries
from reid_torchmetrics.functional.retrieval.measures.average_precision import average_precision
from reid_torchmetrics.functional.retrieval.measures.cutoffs import (
    hit_rate_at,
    normalized_dcg,
    precision_at,
    r_precision,
    recall_at,
    reciprocal_rank,
)
from tests.golden.cases import RECORDINGS, Record
from tests.golden.peers import assert_equal, ranks_of

RECORDS = RECORDINGS["cutoffs"].records

# Every recorded array of the theme is in exactly one of these two groups; a test below counts them.
ZERO_FOR_NOTHING = [key for key, record in RECORDS.items() if record.case == "a11_6q40g_allsamecam"]
PLAIN = [key for key in RECORDS if key not in ZERO_FOR_NOTHING]


def at(measure: Callable[[PositiveRanks, int], Tensor], ranks: PositiveRanks, k: int | None) -> Tensor:
    """Evaluate at a cutoff that may be None, which TorchMetrics takes for each query's number of candidates."""
    if k is not None:
        return measure(ranks, k)
    return torch.cat([measure(query, max(1, int(query.num_candidates))) for query in one_by_one(ranks)])


def one_by_one(ranks: PositiveRanks) -> Iterator[PositiveRanks]:
    parts = ranks.rank.split(ranks.num_positives.tolist())
    for rank, num_positives, num_candidates in zip(
        parts, ranks.num_positives.split(1), ranks.num_candidates.split(1), strict=True
    ):
        yield PositiveRanks(rank, num_positives, num_candidates)


MEASURES: dict[str, Callable[[PositiveRanks, int | None], Tensor]] = {
    "MAP": lambda ranks, k: average_precision(ranks, k=k, normalizer="hits"),
    "MRR": lambda ranks, k: reciprocal_rank(ranks, k=k),
    "Precision": partial(at, precision_at),
    "Recall": partial(at, recall_at),
    "HitRate": partial(at, hit_rate_at),
    "NormalizedDCG": lambda ranks, k: normalized_dcg(ranks, k=k),
    "RPrecision": lambda ranks, _: r_precision(ranks),
}


def ours(record: Record) -> Tensor:
    values = MEASURES[name_of(record)](ranks_of(record.problem, (-1,)), record.about["options"].get("top_k"))
    return mean_over_queries(values, empty_target_action=record.about["options"]["empty_target_action"])


def name_of(record: Record) -> str:
    return record.output.removeprefix("torchmetrics/").partition("_")[0]


def test_every_recorded_array_is_asserted_once() -> None:
    assert sorted([*PLAIN, *ZERO_FOR_NOTHING]) == sorted(RECORDS)
    assert (len(PLAIN), len(ZERO_FOR_NOTHING)) == (500, 50)
    assert {name_of(record) for record in RECORDS.values()} == set(MEASURES)


@pytest.mark.parametrize("name", MEASURES)
def test_equals_the_recorded_outputs(name: str) -> None:
    for record in (RECORDS[key] for key in PLAIN if name_of(RECORDS[key]) == name):
        assert_equal(ours(record), record)


@pytest.mark.parametrize("name", MEASURES)
def test_torchmetrics_has_zero_under_skip_for_no_valid_query_and_here_it_is_nan(name: str) -> None:
    for key, record in RECORDS.items():
        if key in ZERO_FOR_NOTHING and name_of(record) == name:
            assert float(record.value) == 0, key
            skips = record.about["options"]["empty_target_action"] == "skip"
            assert ours(record).isnan() if skips else ours(record) == 0, key


@pytest.mark.parametrize("k", [1, 5, 10])
def test_average_precision_over_hits_is_above_the_one_over_positives(k: int) -> None:
    # 12 queries with about 110 positives each: nearly all of them lie beyond the cutoff.
    ranks = ranks_of("a10_12q400g_manypos", (-1,))
    recorded = float(RECORDS[f"a10_12q400g_manypos/torchmetrics/MAP_k{k}_skip"].value)
    num_hits = [int((of_query.rank <= k).sum()) for of_query in one_by_one(ranks)]
    shares = torch.tensor(num_hits) / ranks.num_positives
    over_hits = average_precision(ranks, k=k, normalizer="hits").nan_to_num()
    torch.testing.assert_close(average_precision(ranks, k=k), over_hits * shares, rtol=0, atol=1e-7)
    assert recorded > 2 * float((over_hits * shares).mean()) > 0
