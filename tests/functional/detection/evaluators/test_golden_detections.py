"""Person search against recorded outputs of its evaluator, see `tests/golden/README.md`.

The evaluator ranks the detections of a probe's gallery images. What it says about boxes is said here; with the matched
detections as listed positives and the detections of other images as junk, the rest is ranking.
"""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from reid_torchmetrics.functional.retrieval import PositiveRanks, average_precision, cmc_at, scores_from_matrix
from reid_torchmetrics.functional.retrieval.ranking import count_ranks
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance
from tests.golden.cases import RECORDINGS
from tests.golden.peers import assert_equal

RECORDING = RECORDINGS["detections"]
INPUTS = RECORDING.inputs["h01_person_search"]
IMAGES = np.arange(len(INPUTS["num_detections"])).repeat(INPUTS["num_detections"])  # of every detection
BOXES, CONFIDENCES = INPUTS["detections"][:, :4], INPUTS["detections"][:, 4]
SCORES = INPUTS["probe_features"] @ INPUTS["detection_features"].T


def intersection_over_union(box: NDArray[np.float64], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    intersection = sides.clip(min=0).prod(axis=1)
    return intersection / ((box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - intersection)


def found_in(probe: int, image: int, person: NDArray[np.float64]) -> list[int]:
    """Which detection counts as the person of an image: of those that overlap enough, the one most like the probe."""
    size = person[2:]
    box = np.concatenate([person[:2], person[:2] + size])
    overlap = min(0.5, size.prod() / (size + 10).prod())  # small people may be missed by more
    candidates = np.flatnonzero((image == IMAGES) & (CONFIDENCES >= 0.5))
    matched = candidates[intersection_over_union(box, BOXES[candidates]) >= overlap]
    return [int(matched[SCORES[probe, matched].argmax()])] if len(matched) else []


def positives_of(probe: int) -> list[int]:
    places = zip(INPUTS["gallery_images"][probe], INPUTS["ground_truth_xywh"][probe], strict=True)
    return [found for image, person in places if not np.isnan(person[0]) for found in found_in(probe, image, person)]


def junk_of(probe: int) -> NDArray[np.int64]:
    is_searched = np.isin(IMAGES, INPUTS["gallery_images"][probe]) & (CONFIDENCES >= 0.5)
    return np.flatnonzero(~is_searched)


def rank_detections() -> PositiveRanks:
    probes = range(len(SCORES))
    relevance = find_listed_relevance(
        [torch.tensor(positives_of(probe), dtype=torch.int64) for probe in probes],
        [torch.from_numpy(junk_of(probe)) for probe in probes],
        num_gallery=SCORES.shape[1],
    )
    return count_ranks(scores_from_matrix(torch.from_numpy(SCORES), relevance), relevance, ties="pessimistic")


@pytest.mark.slow
def test_average_precision_is_scaled_by_the_share_of_people_that_were_detected() -> None:
    ranks = rank_detections()
    num_people = torch.from_numpy((~np.isnan(INPUTS["ground_truth_xywh"][:, :, 0])).sum(axis=1))
    found = average_precision(ranks).nan_to_num(nan=0.0) * ranks.num_positives / num_people
    assert_equal(found, RECORDING.records["h01_person_search/person_search/AP_per_probe"])


@pytest.mark.slow
def test_the_top_k_is_a_first_match_over_all_detections() -> None:
    ranks = rank_detections()
    hits = torch.stack([cmc_at(ranks, k).nan_to_num(nan=0.0) for k in (1, 5, 10)], dim=1)
    assert_equal(hits, RECORDING.records["h01_person_search/person_search/top1_5_10_per_probe"])


def test_every_recorded_array_is_asserted() -> None:
    assert len(RECORDING.records) == 2
