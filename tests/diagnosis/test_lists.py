"""Lists in another spelling, with shifted items or worst first are told at every door; right and poor ones are not."""

import json
import random

import numpy as np
import pytest
import torch

from reid_torchmetrics import diagnose, evaluate_lists
from reid_torchmetrics.command import main
from reid_torchmetrics.diagnosis.lists import LIST_CAUSES
from tests import fuzz_warnings
from tests.diagnosis.list_problems import MODELS, SPELLINGS, Searched, advice, named, scored
from tests.profiles import each_row


def by_positives(lists, problem):
    evaluate_lists(lists, problem.positives)


def by_key(lists, problem):
    evaluate_lists(keyed(lists), keyed(problem.positives))


def keyed(lists):
    return {f"q{place}": row for place, row in enumerate(lists)}


def by_grade(lists, problem):
    evaluate_lists(lists, [dict.fromkeys(items, 2) for items in problem.positives])


def by_label(lists, problem):
    evaluate_lists(lists, **problem.labels)


DOORS = {"positives": by_positives, "keys": by_key, "grades": by_grade, "labels": by_label}
"""the lists with positions, and the ground truth in all its forms"""


@each_row("spelling", SPELLINGS)
@pytest.mark.parametrize("model", ["trained", "weak"])
def test_names_in_two_spellings_are_told_with_one_of_each_side(spelling, model):
    problem, names = Searched(1, model=model), SPELLINGS[spelling]
    lists, positives = ([named(each, name) for name in names] for each in (problem.nearest[:, :10], problem.positives))
    (text,) = advice(evaluate_lists, lists[0], positives[1])
    assert "no item in common" in text
    assert any(", such as {!r} and {!r}.".format(*(name(item) for name in names)) in text for item in range(400))
    runs = [{item: float(-place) for place, item in enumerate(row)} for row in lists[1]]
    assert len(advice(evaluate_lists, keyed(runs), keyed(positives[0]))) == 1
    for spelled, right in zip(lists, positives, strict=True):
        assert not advice(evaluate_lists, spelled, right)


@each_row("door", DOORS)
@pytest.mark.parametrize("offset", [1, -1])
def test_items_that_are_shifted_by_one_are_told(door, offset):
    for model in ("perfect", "trained"):
        problem = Searched(2, model=model)
        lists = problem.nearest[:, :5]
        lists = np.where((lists + offset < 400) & (lists + offset >= 0), lists + offset, -1)
        for given in (lists, lists.tolist(), torch.from_numpy(lists)):
            (text,) = advice(DOORS[door], given, problem)
            assert ("1 is subtracted from" if offset == 1 else "1 is added to") in text
        assert not advice(DOORS[door], problem.nearest[:, :5], problem)


def test_ids_of_an_index_that_are_not_positions_are_told():
    problem = Searched(3)
    (text,) = advice(evaluate_lists, problem.nearest[:, :5] + 1000, problem.positives)
    assert "where 1000 is subtracted from each item" in text


@each_row("door", DOORS)
@pytest.mark.parametrize("length", [20, 400])
def test_distances_as_scores_are_told(door, length):
    for model in ("perfect", "trained"):
        problem = Searched(4, model=model)
        nearest = problem.nearest[:, :length]
        (text,) = advice(DOORS[door], scored(nearest, problem.distances), problem)
        assert "worst first" in text
        for right in (scored(nearest, -problem.distances), scored(nearest[:, ::-1], -problem.distances)):
            assert not advice(DOORS[door], right, problem)


def test_scores_that_rise_need_lower_odds_to_be_distances():
    problem = Searched(4, model="middling")
    nearest = problem.nearest[:, :20]
    (text,) = advice(evaluate_lists, scored(nearest, problem.distances), problem.positives)
    assert "worst first" in text
    in_no_order = scored(np.random.default_rng(0).permuted(nearest, axis=1), problem.distances)
    assert not advice(evaluate_lists, in_no_order, problem.positives)


@each_row("door", DOORS)
def test_lists_that_are_worst_first_are_told(door):
    problem = Searched(5)
    (text,) = advice(DOORS[door], problem.nearest[:, ::-1].copy(), problem)
    assert "worst first" in text
    shuffled = scored(np.random.default_rng(0).permuted(problem.nearest, axis=1), problem.distances)
    assert len(advice(DOORS[door], shuffled, problem)) == 1


def of_poor_index(problem, rng):
    lists = problem.nearest[:, :9]
    return np.where(rng.random(lists.shape) < 0.9, rng.integers(len(problem.gallery), size=lists.shape), lists)


RIGHT = {
    "short": lambda problem, _: problem.nearest[:, :1],
    "whole": lambda problem, _: problem.nearest,
    "part of the gallery": lambda problem, _: [[item for item in row if item % 3] for row in problem.nearest.tolist()],
    "poor index": of_poor_index,
    "random": lambda problem, rng: rng.integers(len(problem.gallery), size=(len(problem.nearest), 12)),
    "one for all": lambda problem, _: np.broadcast_to(problem.nearest[0, :12], (len(problem.nearest), 12)),
    "without the first": lambda problem, _: problem.nearest[:, 3:40],
    "unordered": lambda problem, rng: scored(rng.permuted(problem.nearest[:, :30], axis=1), -problem.distances),
}


@each_row("kind", RIGHT)
@pytest.mark.parametrize("model", MODELS)
def test_right_and_poor_lists_are_not_told(kind, model):
    for seed, sizes in enumerate([{}, {"num_gallery": 60, "num_queries": 200}, {"is_sorted": True}]):
        problem, rng = Searched(seed, model=model, **sizes), np.random.default_rng(seed)
        lists = RIGHT[kind](problem, rng)
        for door in DOORS.values():
            assert not advice(door, lists, problem)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_lists_that_begin_with_the_query_itself_are_not_told(is_sorted):
    problem = Searched(0, num_queries=1, is_sorted=is_sorted)
    identities, gallery = problem.gallery_identities, problem.gallery
    nearest = np.argsort(((gallery[:, None] - gallery) ** 2).sum(-1), axis=1)
    positives = [np.flatnonzero(identities == label) for label in identities]
    others = [items[items != place].tolist() for place, items in enumerate(positives)]
    for length in (2, 3, 8):
        assert not advice(evaluate_lists, nearest[:, :length], others)


def test_lists_of_the_query_alone_are_not_told_where_the_next_item_is_its_positive():
    lists = [[query] for query in range(40)]
    partners = [[query ^ 1] for query in range(40)]
    assert not advice(evaluate_lists, lists, partners)
    next_items = [[(query + 1) % 40] for query in range(40)]
    assert not advice(evaluate_lists, lists, next_items)


def test_names_of_other_items_are_not_told():
    problem = Searched(6)
    lists = named(problem.nearest[:, :10], lambda item: f"web_{(item * 7919) % 100_003}.jpg")
    assert not advice(evaluate_lists, lists, named(problem.positives, lambda item: f"img_{item}.jpg"))


@each_row("door", {name: door for name, door in DOORS.items() if name != "keys"})
@pytest.mark.parametrize(("length", "other_score", "is_told"), [(10, 1.0, True), (9, 1.0, False), (10, 0.5, False)])
def test_runs_whose_scores_are_all_equal_are_told(door, length, other_score, is_told):
    problem = Searched(2)
    runs = [dict.fromkeys(row, 1.0) for row in problem.nearest[:, :length].tolist()]
    runs[0][next(iter(runs[0]))] = other_score
    texts = advice(DOORS[door], runs, problem)
    assert [text.startswith("All scores of a list are equal") for text in texts] == [True] * is_told


def test_diagnose_tries_all_causes_on_any_lists():
    problem = Searched(0)
    given = {"retrieved": problem.nearest[:, :5] + 1, "positives": problem.positives}
    assert [answer.name for answer in diagnose(None, given).found] == ["shifted_items"]
    for retrieved, positives in (
        ([], []),
        ([[]], [[]]),
        ([[], [3]], [[1], []]),
        ([["a"]], [["b"]]),
        (problem.nearest, problem.positives),
    ):
        answers = diagnose(None, {"retrieved": retrieved, "positives": positives})
        assert {*LIST_CAUSES} <= {answer.name for answer in answers}
        assert {answer.name for answer in answers.found} == (set() if any(map(len, positives)) else {"no_positives"})


@pytest.mark.filterwarnings("always")
def test_the_command_tells_in_its_words(tmp_path, capsys):
    problem = Searched(7)
    ours, theirs = SPELLINGS["folders"]
    sides = {"run.json": named(problem.nearest[:, :9], ours), "truth.json": named(problem.positives, theirs)}
    for name, lists in sides.items():
        (tmp_path / name).write_text(json.dumps(keyed(lists)), encoding="utf-8")
    assert main(["lists", *(str(tmp_path / name) for name in sides)]) == 0
    assert "no item in common" in capsys.readouterr().err
    np.save(tmp_path / "I.npy", problem.nearest[:, :5] + 1)
    (tmp_path / "truth.json").write_text(json.dumps(problem.positives), encoding="utf-8")
    words = ["lists", str(tmp_path / "I.npy"), str(tmp_path / "truth.json")]
    assert main(words) == 0
    assert "1 is subtracted from each item" in capsys.readouterr().err


def spelled(problem, ours, theirs):
    return named(problem.nearest[:, :5], ours), named(problem.positives, theirs)


@pytest.mark.parametrize("model", fuzz_warnings.WAYS["lists"][1])
def test_no_row_fires_where_nothing_is_amiss(model):
    with fuzz_warnings.strictly():
        for seed in range(4):
            fuzz_warnings.ranked_lists(random.Random(seed), model)  # noqa: S311 - no secret
