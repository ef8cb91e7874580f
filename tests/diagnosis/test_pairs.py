"""Pairs of another sign, and distances beyond the thresholds of LFW, are told at every entry point; nothing else is."""

import random

import numpy as np
import pytest
import torch
from torch.nn import functional

from reid_torchmetrics import PairVerification, diagnose, verify_pairs
from reid_torchmetrics.command import main
from reid_torchmetrics.tasks import accuracy_over_folds
from reid_torchmetrics.tasks.metrics import PAIR_METRICS
from tests import fuzz_warnings
from tests.diagnosis.list_problems import advice
from tests.profiles import each_row

NOISE = {"trained": 0.2, "good": 0.6}
SIGNS = "are farther apart than"


def pairs(noise, *, num=400, dim=24, scale=1.0, relu=False, seed=0):
    """Embeddings of both sides, and flags; blocks of genuine pairs and of impostors take turns, as in LFW's list."""
    generator = torch.Generator().manual_seed(seed)
    same = torch.arange(num) // (num // 8) % 2 == 0
    first, other, error = torch.randn(3, num, dim, generator=generator).unbind()
    second = torch.where(same[:, None], first, other) + noise * error
    if relu:
        first, second = first.relu(), second.relu()
    return scale * first, scale * second, same


def cosines(first, second):
    return functional.cosine_similarity(first, second)


def distances(first, second):
    return ((functional.normalize(first) - functional.normalize(second)) ** 2).sum(1)


def by_metric(first, second, same, report="eer", *, in_forward=False):
    metric = PairVerification(report)
    for part in torch.arange(len(same)).split(150):
        given = [values[part] for values in (first, second, same)]
        metric(*given) if in_forward else metric.update(*given)
    return metric


DOORS = {
    "scores": lambda one, two, same: verify_pairs(cosines(one, two), same),
    "distances": lambda one, two, same: verify_pairs(None, same, distances=distances(one, two)),
    "lists": lambda one, two, same: verify_pairs(cosines(one, two).tolist(), same.tolist()),
    "folds": lambda one, two, same: accuracy_over_folds(distances(one, two), same),
    "results": lambda one, two, same: by_metric(one, two, same).results(),
} | {
    report: lambda one, two, same, report=report: by_metric(one, two, same, report).compute() for report in PAIR_METRICS
}
WRONG = {
    "scores": lambda one, two, same: verify_pairs(distances(one, two), same),
    "distances": lambda one, two, same: verify_pairs(None, same, distances=cosines(one, two)),
    "folds": lambda one, two, same: accuracy_over_folds(cosines(one, two), same),
}
"""the opposite order where it is not that of exchanged flags"""


@each_row("door", DOORS)
@pytest.mark.parametrize("model", NOISE)
def test_pairs_in_the_opposite_order_are_told_and_right_ones_are_not(door, model):
    right = DOORS[door]
    opposite = WRONG.get(door, lambda one, two, same: right(one, two, ~same))
    for relu in (False, True):
        given = pairs(NOISE[model], relu=relu)
        (text,) = advice(opposite, *given)
        assert SIGNS in text
        assert not advice(right, *given)


def hard(seed):
    """A weak model, and the nearest impostors of many."""
    first, second, same = pairs(3.0, num=800, seed=seed)
    scores = cosines(first, second)
    kept = same | (scores > scores[~same].quantile(0.8))
    return first[kept], second[kept], same[kept]


SILENT = {
    "untrained": lambda seed: (*pairs(0.0, num=64, seed=seed)[:2], torch.arange(64) % 2 == 0),
    "few": lambda seed: pairs(9.0, num=8, seed=seed),
    "constant": lambda seed: (torch.ones(64, 4), torch.ones(64, 4), torch.arange(64) % 3 == 0),
    "hard impostors": hard,
}


@each_row("kind", SILENT)
def test_models_that_learned_nothing_and_hard_pairs_are_not_told(kind):
    for seed in range(4):
        given = SILENT[kind](seed)
        for right in DOORS.values():
            if len(given[2]) >= 10:
                assert not advice(right, *given)


@pytest.mark.parametrize("scale", [3.0, 20.0])
def test_distances_of_embeddings_that_are_not_normalized_are_told_with_the_accuracy_that_they_could_have(scale):
    first, second, same = pairs(0.3, scale=scale)
    raw = ((first - second) ** 2).sum(1)
    (text,) = advice(accuracy_over_folds, raw, same)
    assert "Normalize the embeddings" in text
    reached = accuracy_over_folds((raw - raw.min()) / (raw.max() - raw.min()) * 4, same).accuracy.mean()
    assert f"is {reached:.4f} in the place of 0.5000" in text
    (text,) = advice(accuracy_over_folds, -cosines(first, second), same)
    assert "Normalize the embeddings" in text


def test_distances_beyond_the_thresholds_that_cost_nothing_are_not_told():
    first, second, same = pairs(0.1)
    near = (
        ((first - second) ** 2).sum(1).where(~same, distances(first, second))
    )  # impostors at 40, genuine pairs below 4
    assert not advice(accuracy_over_folds, near, same)
    for seed in range(20):
        first, second, _ = pairs(0.0, seed=seed)  # untrained
        by_chance = torch.rand(len(first), generator=torch.Generator().manual_seed(seed)) < 0.5
        assert not advice(
            lambda one=first, two=second, same=by_chance: accuracy_over_folds(((one - two) ** 2).sum(1), same)
        )


@pytest.mark.parametrize(("num", "is_told"), [(9, False), (10, True)])
def test_few_pairs_in_the_opposite_order_are_told_where_it_is_no_luck(num, is_told):
    """One of 48,620 orders of nine pairs of each kind has no pair in its place, and one of 184,756 of ten."""
    same = torch.arange(2 * num) < num
    values = torch.arange(2 * num).double()
    texts = advice(verify_pairs, values, same)
    assert [SIGNS in text for text in texts] == [True] * is_told
    values[num - 1 : num + 1] = values[[num, num - 1]]
    assert not advice(verify_pairs, values, same)


def test_three_pairs_below_many_are_told_of_nothing():
    """They may share a sample, and then all three are right or wrong together."""
    same = torch.arange(134) < 3
    assert not advice(verify_pairs, torch.arange(134).double(), same)


def test_diagnose_tries_all_causes_on_any_pairs():
    first, second, same = pairs(0.2)
    assert [answer.name for answer in diagnose(by_metric(first, second, ~same)).found] == ["opposite_pairs"]
    for given in ({"scores": [0.5, 0.5], "same": [True, False]}, {"distances": [5.0] * 20, "same": [False] * 20}):
        assert not diagnose(None, given).found


@pytest.mark.filterwarnings("always")
def test_the_command_tells_in_its_words(tmp_path, capsys):
    first, second, same = pairs(0.2)
    for values, is_told in ((distances(first, second), True), (cosines(first, second), False)):
        np.savez(tmp_path / "pairs.npz", scores=values, same=same)
        main(["pairs", str(tmp_path / "pairs.npz")])
        printed = capsys.readouterr().err
        assert (SIGNS in printed) is is_told
        assert "`distances`" not in printed


@pytest.mark.parametrize("model", fuzz_warnings.WAYS["pairs"][1])
def test_no_row_fires_where_nothing_is_amiss(model):
    with fuzz_warnings.strictly():
        for seed in range(20):
            fuzz_warnings.given_pairs(random.Random(seed), model)  # noqa: S311 - no secret
