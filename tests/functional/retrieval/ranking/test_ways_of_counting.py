"""All ways of counting the negatives before a positive on the CPU give the counts of a loop over the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval.ranking import counting
from reid_torchmetrics.functional.retrieval.ranking.counting import (
    Negatives,
    Positives,
    count_negatives,
    negatives_before,
)

WIDTH = 2100  # columns
KINDS = ("floats", "whole", "whole and halves", "large", "infinite", "one row of floats", "equal", "wide range")
WAYS = {
    "as it costs": {},
    "comparing": {"_COST_OF_SORTING": 1e9, "_COST_OF_PICKING": 1e9},
    "sorting": {"_COST_OF_SORTING": 0.0},
    "picking": {"_COST_OF_SORTING": 0.0, "_COST_OF_PICKING": 0.0, "_FEW_VALUES": 2.0},
}


def num_before(scores, removed, threshold, place, rule):
    """The definition: negatives with a higher score and, by the rule, some of those with an equal one."""
    number = 0
    for column, score in enumerate(scores):
        if removed[column]:
            continue
        is_level = score == threshold and (rule == "or tied" or (rule == "by place" and column < place))
        number += bool(score > threshold or is_level)
    return number


def scores_of_a_kind(kind, rng, num_rows, dtype):
    scores = rng.normal(size=(num_rows, WIDTH)).astype(dtype)
    if kind == "floats":
        return scores
    whole = rng.integers(-32, 33, scores.shape).astype(dtype)
    if kind == "whole and halves":
        whole[:, 100:] += 0.5
    if kind == "large":
        whole[:, 100:] *= 3000
    if kind == "infinite":
        whole[rng.random(whole.shape) < 0.1] = -np.inf
        whole[rng.random(whole.shape) < 0.1] = np.inf
    if kind == "one row of floats":
        whole[-1] = scores[-1]
    if kind == "equal":
        whole[:] = 7
    if kind == "wide range":
        whole *= 1000
        whole[:, ::7] += rng.integers(-300, 300, whole[:, ::7].shape).astype(dtype)
    return whole


def make_panel(kind, seed, dtype="f4", first_place=0):
    """A panel, and for each row positives, some of them with places that are columns of negatives."""
    rng = np.random.default_rng(seed)
    num_rows, num_positives = 3, 5
    scores = scores_of_a_kind(kind, rng, num_rows, dtype)
    removed = rng.random(scores.shape) < 0.05
    thresholds = np.full((num_rows, num_positives), -np.inf, dtype)
    places = np.full((num_rows, num_positives), -1)
    for row in range(num_rows):
        listed = num_positives - row  # the others are padding
        columns = rng.choice(WIDTH, listed, replace=False)
        chosen = scores[row, columns].copy()
        if kind != "infinite":
            chosen[0] += 0.25  # level with no negative
        removed[row, columns[::2]] = True  # the others are positives of another part of the gallery
        order = np.lexsort((columns, -chosen))
        thresholds[row, :listed], places[row, :listed] = chosen[order], columns[order] + first_place
    places[0, 0], places[1, 0] = first_place - 5, first_place + WIDTH + 3  # before and behind the panel
    panel = torch.from_numpy(np.where(removed, -np.inf, scores).astype(dtype))
    mask = torch.from_numpy(removed)
    negatives = Negatives(panel, mask.sum(1), lambda: mask, first_place, "scores")
    lowest = torch.from_numpy(np.where(places != -1, thresholds, np.inf).min(1))
    return scores, removed, negatives, Positives(torch.from_numpy(thresholds), torch.from_numpy(places), lowest)


def copy_of(negatives):
    return negatives._replace(scores=negatives.scores.clone())


def expected_counts(scores, removed, positives, first_place, rule):
    counts = np.zeros(tuple(positives.scores.shape), dtype=np.int64)
    for row, (values, places) in enumerate(zip(positives.scores.tolist(), positives.places.tolist(), strict=True)):
        for column, (threshold, place) in enumerate(zip(values, places, strict=True)):
            counts[row, column] = num_before(scores[row], removed[row], threshold, place - first_place, rule)
    return counts


def is_positive(positives):
    return (positives.places != -1).numpy()


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_of_counting_equals_the_loop(kind, way, dtype, monkeypatch):
    for name, value in WAYS[way].items():
        monkeypatch.setattr(counting, name, value)
    scores, removed, negatives, positives = make_panel(kind, seed=KINDS.index(kind), dtype=dtype)
    above, or_tied = count_negatives(copy_of(negatives), positives, or_tied=(False, True))
    # Counts at padding are not read.
    listed = is_positive(positives)
    assert (above.numpy() == expected_counts(scores, removed, positives, 0, "above"))[listed].all()
    assert (or_tied.numpy() == expected_counts(scores, removed, positives, 0, "or tied"))[listed].all()


@pytest.mark.parametrize("first_place", [0, 1000])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", KINDS)
def test_counts_by_place_equal_the_loop(kind, dtype, first_place):
    scores, removed, negatives, positives = make_panel(kind, seed=11, dtype=dtype, first_place=first_place)
    (before,) = negatives_before(copy_of(negatives), positives)
    expected = expected_counts(scores, removed, positives, first_place, "by place")
    assert (before.numpy() == expected)[is_positive(positives)].all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["floats", "whole"])
def test_a_score_of_nan_is_refused_by_every_way(kind, way, monkeypatch):
    for name, value in WAYS[way].items():
        monkeypatch.setattr(counting, name, value)
    _, _, negatives, positives = make_panel(kind, seed=3)
    scores = negatives.scores.clone()
    scores[1, 1500] = torch.nan
    for count in (lambda *parts: count_negatives(*parts, or_tied=(True,)), negatives_before):
        with pytest.raises(ValueError, match="NaN"):
            count(negatives._replace(scores=scores.clone()), positives)
