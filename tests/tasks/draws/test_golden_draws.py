"""Galleries that are drawn at random against recorded outputs of other evaluators, see `tests/golden/README.md`."""

from functools import cache

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import (
    PositiveRanks,
    Relevance,
    average_precision,
    cmc_curve,
    find_relevance,
    inverse_negative_penalty,
    mean_over_queries,
    scores_from_matrix,
)
from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw
from reid_torchmetrics.functional.retrieval.ranking import count_ranks
from reid_torchmetrics.functional.retrieval.scores.scores import Scores
from reid_torchmetrics.tasks.draws.drawn_galleries import expect_draws
from tests.golden.cases import RECORDINGS, Record, as_problem
from tests.golden.peers import assert_equal, inputs_of

RECORDING = RECORDINGS["draws"]
RECORDS = RECORDING.records

# What evaluators drop, in our words: for CUHK03 open-reid drops all of the query's camera, torchreid does not.
RULES: dict[str, dict[str, object]] = {
    "openreid/mc_mean_cuhk03_separate_cams": {"same_camera": "all"},
    "openreid/mc_mean_sgs": {},
    "openreid/expected_cmc_sgs": {},
    "openreid/expected_cmc_sgs_separate_cams": {"same_camera": "all"},
    "torchreid/mc_mean_eval_cuhk03": {},
    "torchreid/expected_cmc_cuhk03": {},
    "torchreid/mAP_cuhk03": {},
    "sysu/cmc_unique_ids": {"same_camera": "all", "camera_map": {3: 2}},
    "sysu/mAP": {"same_camera": "all", "camera_map": {3: 2}},
    "sysu/mINP": {"same_camera": "all", "camera_map": {3: 2}},
    "sysu/regdb_cmc": {"same_camera": "keep"},
    "sysu/regdb_mAP": {"same_camera": "keep"},
    "sysu/regdb_mINP": {"same_camera": "keep"},
}

# Every recorded array of the theme is in exactly one of these five groups; a test below counts them.
DRAWN_OFTEN = [key for key in RECORDS if "/mc_mean_" in key]
STANDARD_ERRORS = [key for key in RECORDS if "/mc_stderr_" in key]
EXPECTED = [key for key in RECORDS if "/expected_cmc_" in key]
UNIQUE_IDENTITIES = ["f01_sysu/sysu/cmc_unique_ids"]
WHOLE_GALLERY = [key for key in RECORDS if "mAP" in key or "mINP" in key or key == "f01_sysu/sysu/regdb_cmc"]


@cache
def problem_of(case: str, output: str) -> tuple[Scores, Relevance]:
    scores, *labels = inputs_of(as_problem(RECORDING.inputs[case]))
    relevance = find_relevance(*labels, junk_identities=(), **RULES[output])
    return scores_from_matrix(scores, relevance), relevance


def expected_curve(record: Record, *, shots: int | None = 1) -> Tensor:
    draw = GalleryDraw(shots=shots, per="identity")
    results = expect_draws(*problem_of(record.case, record.output), draw, max_rank=len(record.value))
    return results.mean_cmc


def mean_precision(ranks: PositiveRanks) -> Tensor:
    return mean_over_queries(average_precision(ranks))


def mean_penalty(ranks: PositiveRanks) -> Tensor:
    return mean_over_queries(inverse_negative_penalty(ranks))


QUANTITIES = {
    "torchreid/mAP_cuhk03": mean_precision,
    "sysu/mAP": mean_precision,
    "sysu/regdb_mAP": mean_precision,
    "sysu/mINP": mean_penalty,
    "sysu/regdb_mINP": mean_penalty,
    "sysu/regdb_cmc": cmc_curve,
}


def test_every_recorded_array_is_asserted_once() -> None:
    groups = [DRAWN_OFTEN, STANDARD_ERRORS, EXPECTED, UNIQUE_IDENTITIES, WHOLE_GALLERY]
    assert sorted(key for group in groups for key in group) == sorted(RECORDS)
    assert [len(group) for group in groups] == [6, 6, 22, 1, 7]


@pytest.mark.parametrize("key", EXPECTED)
def test_equals_the_mean_over_all_galleries_that_an_evaluator_can_draw(key: str) -> None:
    assert_equal(expected_curve(RECORDS[key]), RECORDS[key])


@pytest.mark.parametrize("key", DRAWN_OFTEN)
def test_is_within_four_standard_errors_of_the_mean_of_400_calls(key: str) -> None:
    record, error = RECORDS[key], RECORDS[key.replace("mc_mean", "mc_stderr")]
    assert record.about["options"]["calls"] == error.about["options"]["calls"] == 400
    difference = expected_curve(record) - torch.from_numpy(record.value)
    assert (difference.abs() <= 4 * torch.from_numpy(error.value) + 1e-6).all()


@pytest.mark.parametrize("key", UNIQUE_IDENTITIES)
def test_a_curve_over_identities_is_that_of_a_gallery_drawn_whole(key: str) -> None:
    assert_equal(expected_curve(RECORDS[key], shots=None), RECORDS[key])


@pytest.mark.parametrize("key", WHOLE_GALLERY)
def test_equals_the_recorded_output_on_the_whole_gallery(key: str) -> None:
    record = RECORDS[key]
    scores, relevance = problem_of(record.case, record.output)
    assert_equal(QUANTITIES[record.output](count_ranks(scores, relevance, ties="pessimistic")), record)
