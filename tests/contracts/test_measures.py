"""The contract of a measure: what every row of `MEASURES` must satisfy, and rows that do not."""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import find_protocol
from reid_torchmetrics.functional.retrieval.measures import MEASURES, DrawnResults, Measure, measure, measure_drawn
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks
from tests.contracts.missing import assert_nothing_missing
from tests.profiles import each_row
from tests.reference import measures as reference
from tests.reference.measures import Groups
from tests.reference.ties import expectation, groups_of_scores, tied_positives
from tests.tied_groups import groups_of

DOCS = (Path(__file__).parents[2] / "docs" / "measures.md").read_text(encoding="utf-8")
CERTAIN, GROUPED, EXPECTED = "certain", "grouped", "expected"
CUTOFFS = (1, 3, 9)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"rule": "trapezoid", "k": 3, "normalizer": "attainable", "precision_divisor": "attainable", "mode": "all_shots"},
    {"k": 2, "normalizer": "hits", "precision_divisor": "last_positive", "gain": "exponential"},
    {"k": 5, "normalizer": "k", "precision_divisor": "calibrated"},
]
"""options of a protocol, so that each value but those of interpolated rules is there once"""
WITHOUT_EXPECTATION = {"bpref": "the order of judged candidates is not known"}
"""measures that refuse ranks of the tie policy "expected", with the reason"""
OF_ALL_QUERIES = {
    "anmrr": "its cutoff K is bounded by twice the most positives of a query",
    "anmrr_shrec22": "its cutoff K is bounded by twice the most positives of a query",
}
"""measures of a query that depend on other queries, with the reason"""


def queries_of(seed: int, policy: str, number: int = 10) -> list[Groups]:
    """The ranked lists of some queries, two of which have no positive; without ties where the policy is "certain"."""
    random = Random(seed)  # noqa: S311 - nothing is to be kept secret
    queries: list[Groups] = [((0, 1),) * 3, ()]
    while len(queries) < number:
        items = [(random.randint(0, 3), random.random() < 0.4) for _ in range(random.randint(1, 7))]
        if policy == CERTAIN:
            items = [(-place, is_positive) for place, (_, is_positive) in enumerate(items)]
        queries.append(groups_of_scores(items))
    random.shuffle(queries)
    return queries


def ranks_of(queries: list[Groups], policy: str) -> PositiveRanks:
    """The ranks of the positives of ranked lists."""
    ranks = [positive.rank for groups in queries for positive in tied_positives(groups)]
    num_positives = [reference.count(groups) for groups in queries]
    num_candidates = [sum(map(sum, groups)) for groups in queries]
    columns = [torch.tensor(values, dtype=torch.int64) for values in (ranks, num_positives, num_candidates)]
    return PositiveRanks(*columns, None if policy == CERTAIN else groups_of(policy, queries))


_SPLIT = PositiveRanks.split


def query_by_query(ranks: PositiveRanks, *_: int) -> list[PositiveRanks]:
    """Blocks of at most one positive or one query, in place of `PositiveRanks.split`."""
    return [*_SPLIT(ranks, 1)]


def reports_of(row: Measure) -> list[tuple[str, int]]:
    """The names of a row with some cutoffs, each with its k; 0 for none."""
    with_k = [(f"{row.name}_{k}", k) for k in CUTOFFS if row.fits(k)]
    return [(row.name, 0), *with_k] if row.fits(0) else with_k


def values_of(report: str, ranks: PositiveRanks, options: Mapping[str, Any]) -> Tensor:
    """The values of a measure under a protocol with some options changed."""
    return measure(report, ranks, find_protocol("market1501").with_options(options))


def check_measure(row: Measure) -> None:
    """Raise an AssertionError unless a row keeps the contract of a measure; its message says what to add."""
    with mock.patch.dict(MEASURES, {row.name: row}):
        check_reference_and_page(row)
        for policy in (CERTAIN, GROUPED, EXPECTED):
            for seed, options in enumerate(OPTIONS):
                check_values(row, queries_of(seed, policy), policy, options)
        check_direction(row)
        check_expectation(row)


def check_reference_and_page(row: Measure) -> None:
    """Every measure has a slow reference, and a row in the table of its page."""
    name_on_page = f"{row.name}_5" if row.takes_k else row.name
    reference_words = (
        "has no slow reference: add a loop from its definition to tests/reference/measures.py, and its name to"
        " `MEASURES` there"
    )
    found = {
        reference_words: row.name in reference.MEASURES,
        f"has no row in the table of docs/measures.md: add `{name_on_page}`": f"| `{name_on_page}` |" in DOCS,
    }
    assert_nothing_missing(row.name, found)


def check_values(row: Measure, queries: list[Groups], policy: str, options: Mapping[str, Any]) -> None:
    """Values are those of the slow reference, NaN without positives, float64, and the same in any block."""
    ranks = ranks_of(queries, policy)
    most = max(map(reference.count, queries))
    for report, k in reports_of(row):
        if policy == EXPECTED and row.name in WITHOUT_EXPECTATION:
            with pytest.raises(ValueError, match="must have an expectation under ties 'expected'"):
                values_of(report, ranks, options)
            continue
        where = f"of {report!r} under {options}, ties {policy!r},"
        dtype = row.function(ranks, find_protocol("market1501").with_options(options), k).dtype
        assert dtype == torch.float64, f"values {where} must be float64; they are {dtype}"
        values = values_of(report, ranks, options)
        expected = [expected_value(row.name, groups, k, options, most, policy) for groups in queries]
        assert values.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True), (
            f"values {where} differ from `MEASURES[{row.name!r}]` in tests/reference/measures.py; a query without"
            " positives has NaN"
        )
        for block in blocks_of(row, queries, policy):
            parts = [values_of(report, ranks_of(part, policy), options) for part in block]
            assert torch.allclose(torch.cat(parts), values, rtol=1e-12, atol=1e-12, equal_nan=True), (
                f"values {where} depend on other queries: add {row.name!r} to `OF_ALL_QUERIES` with the reason if they"
                " must, else compute each query from its own ranks"
            )
        with mock.patch.object(PositiveRanks, "split", query_by_query):
            parted = values_of(report, ranks, options)
        assert torch.allclose(parted, values, rtol=1e-12, atol=1e-12, equal_nan=True), (
            f"values {where} depend on the blocks of `terms.per_block`: use the block's own numbers in its function"
        )


def blocks_of(row: Measure, queries: list[Groups], policy: str) -> list[list[list[Groups]]]:
    """Ways to cut the queries; none where a value depends on all of them."""
    if row.name in OF_ALL_QUERIES:
        return []
    return [[[groups] for groups in queries], [queries[:5], queries[5:]]]


def expected_value(
    name: str, groups: Groups, k: int, options: Mapping[str, Any], most_positives: int, policy: str
) -> float:
    """The value of a query by the slow reference; NaN without positives."""
    if not reference.count(groups):
        return math.nan

    def value(ranked: Groups) -> Fraction | float:
        return reference.MEASURES[name](ranked, k, options, most_positives)

    return float(expectation(value, groups) if policy == EXPECTED else value(groups))


def check_direction(row: Measure) -> None:
    """A list with all positives in front is better than one with all of them behind; shares lie in [0, 1]."""
    perfect, worst = ((1, 0),) * 2 + ((0, 1),) * 12, ((0, 1),) * 12 + ((1, 0),) * 2
    for report, _ in reports_of(row):
        best, last = values_of(report, ranks_of([perfect, worst], CERTAIN), {}).tolist()
        is_better = best <= last if row.lower_is_better else best >= last
        assert is_better, (
            f"{report!r} is {best} of a perfect list and {last} of the worst: set `is_rank` or `is_loss` in its row"
            " if less is better"
        )
        assert not row.is_share or (0 <= best <= 1 and 0 <= last <= 1), (
            f"{report!r} is {best} of a perfect list and {last} of the worst, no shares of 1: set `is_rank` or"
            " `is_amount` in its row"
        )


def check_expectation(row: Measure) -> None:
    """The expectation over drawn galleries, where it is known, is float64, one per query, and NaN without positives."""
    drawn = DrawnResults(
        cmc=torch.rand(3, 10, dtype=torch.float64),
        average_precision=torch.rand(3, dtype=torch.float64),
        inverse_negative_penalty=torch.rand(3, dtype=torch.float64),
        num_positives=torch.tensor([2, 0, 1]),
        weight=torch.ones(3, dtype=torch.float64),
    )
    for report, k in reports_of(row):
        if row.has_expectation(k):
            values = measure_drawn(report, drawn)
            assert (values.dtype, values.shape) == (torch.float64, (3,)), f"expectation of {report!r}: one per query"
            assert values.isnan().tolist() == [False, True, False], f"expectation of {report!r}: NaN without positives"


@each_row("name", MEASURES)
def test_a_measure_keeps_its_contract(name):
    check_measure(MEASURES[name])


def test_every_reason_is_of_a_row():
    assert (WITHOUT_EXPECTATION.keys() | OF_ALL_QUERIES.keys()) <= MEASURES.keys()
    assert reference.MEASURES.keys() <= MEASURES.keys()


MINE = Measure("mine", lambda ranks, _, k: ranks.num_positives / k, "a measure of one's own at {k}", takes_k=True)
MRR = MEASURES["mrr"]
MRR_OF_BLOCK = replace(
    MRR, function=lambda ranks, *rest: MRR.function(ranks, *rest) / (1 + (len(ranks.num_positives) == 1))
)


def test_a_row_that_forgets_queries_without_positives_has_nan_all_the_same():
    check_measure(replace(MRR, function=lambda ranks, *rest: MRR.function(ranks, *rest).nan_to_num(0)))
    forgetful = replace(MEASURES["minp"], expectation=lambda drawn, _: drawn.average_precision.nan_to_num(0))
    check_measure(forgetful)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (MINE, "'mine' has no slow reference: add a loop from its definition to tests/reference/measures.py"),
        (replace(MRR, function=lambda ranks, *rest: MRR.function(ranks, *rest).float()), "must be float64"),
        (
            replace(MRR, function=lambda ranks, *rest: MRR.function(ranks, *rest)[:, None]),
            "must return a tensor with one value for each query, \\[10\\]; got \\[10, 1\\]",
        ),
        (replace(MRR, function=MEASURES["mean_rank"].function), "differ from `MEASURES\\['mrr'\\]` in tests/reference"),
        (replace(MRR, is_loss=True), "set `is_rank` or `is_loss` in its row"),
        (replace(MEASURES["mean_rank"], is_rank=False, is_loss=True), "set `is_rank` or `is_amount` in its row"),
        (MRR_OF_BLOCK, "depend on other queries: add 'mrr' to `OF_ALL_QUERIES`"),
        (
            replace(MEASURES["minp"], expectation=lambda drawn, _: drawn.average_precision[:2]),
            "expectation of 'minp': one per query|must match the size",
        ),
    ],
)
def test_a_row_that_breaks_the_contract_is_told_what_to_add(row, message):
    with pytest.raises((AssertionError, RuntimeError, ValueError), match=message):
        check_measure(row)


def test_a_row_without_a_line_in_the_table_of_its_page_is_told_so():
    with (
        mock.patch.dict(reference.MEASURES, {"mine": reference.MEASURES["recall"]}),
        pytest.raises(AssertionError, match=r"'mine' has no row in the table of docs/measures\.md"),
    ):
        check_measure(MINE)
