"""Lists of an index that do not fit the embeddings beside them are told; those of a poor index or model are not."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import diagnose, index_recall
from reid_torchmetrics.data import read_samples
from tests.diagnosis.list_problems import MODELS, Searched, advice
from tests.profiles import each_row, of_each

GALLERIES = {
    "array": lambda problem: problem.gallery,
    "tensor": lambda problem: torch.from_numpy(problem.gallery),
    "list of blocks": lambda problem: np.split(problem.gallery, 4),
    "float32": lambda problem: problem.gallery.astype(np.float32),
}


@each_row("gallery", GALLERIES)
@pytest.mark.parametrize("offset", [1, -1])
def test_positions_that_are_shifted_by_one_are_told(gallery, offset):
    for model in of_each(MODELS, suite=2):
        problem = Searched(1, model=model, num_queries=30)
        for k in (1, 5):
            lists = problem.nearest[:, :k] + offset
            lists[(lists < 0) | (lists >= 400)] = -1
            given = (problem.query, GALLERIES[gallery](problem))
            (text,) = advice(index_recall, lists, *given, k=k, similarity="euclidean")
            assert "do not fit the embeddings" in text
            assert ("subtracted" if offset == 1 else "added") in text
            assert not advice(index_recall, problem.nearest[:, :k], *given, k=k, similarity="euclidean")


def test_lists_in_the_opposite_order_are_told_for_any_gallery():
    problem = Searched(2)
    for lists in (problem.nearest[:, 9::-1], problem.nearest[:, 99::-1], problem.nearest[:, ::-1]):
        blocks = (block for block in np.split(problem.gallery, 4))
        (text,) = advice(index_recall, lists.copy(), problem.query, blocks, k=10, similarity="euclidean")
        assert "opposite order" in text
    nearest = zip(problem.nearest, problem.distances, strict=True)
    runs = [{int(item): float(row[item]) for item in items} for items, row in nearest]
    (text,) = advice(index_recall, runs, problem.query, problem.gallery, similarity="euclidean")
    assert "opposite order" in text


def quantized(values, step=2.0):
    return (values / step).round() * step


LISTS = {
    "exact": lambda problem, _: problem.nearest,
    "of another similarity": lambda problem, _: np.argsort(-problem.query @ problem.gallery.T, axis=1),
    "of coarse codes": lambda problem, _: np.argsort(
        ((quantized(problem.query)[:, None] - quantized(problem.gallery)) ** 2).sum(-1), axis=1, kind="stable"
    ),
    "random": lambda problem, rng: rng.permuted(problem.nearest, axis=1),
    "one for all": lambda problem, _: np.broadcast_to(problem.nearest[0], problem.nearest.shape),
    "of a part": lambda problem, _: problem.nearest[problem.nearest % 4 > 0].reshape(len(problem.query), -1),
    "of shuffled ids": lambda problem, rng: rng.permutation(len(problem.gallery))[problem.nearest],
    "empty": lambda problem, _: np.full((len(problem.query), 20), -1),
}


@each_row("kind", LISTS)
@pytest.mark.parametrize("model", MODELS)
def test_lists_of_a_poor_index_are_not_told(kind, model):
    for seed, sizes in enumerate([{}, {"num_gallery": 25, "num_queries": 200}, {"is_sorted": True, "dim": 2}]):
        problem = Searched(seed, model=model, **sizes)
        lists = LISTS[kind](problem, np.random.default_rng(seed))
        given = (problem.query, problem.gallery)
        for k in (1, 2, 10):
            assert not advice(index_recall, lists[:, :k].copy(), *given, k=k, similarity="euclidean")
        assert not advice(index_recall, lists[:, :10].copy(), *given)


def test_lists_of_frames_without_the_query_itself_are_not_told():
    frames = np.arange(200)[:, None] + 0.1 * np.random.default_rng(0).standard_normal((200, 1))
    nearest = np.argsort(np.abs(frames - frames.T), axis=1)
    for k in (1, 2, 4):
        assert not advice(index_recall, nearest[:, 1 : k + 1], frames, frames, k=k, similarity="euclidean")


def test_a_few_queries_are_not_told():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        query, gallery = rng.standard_normal((rng.integers(1, 12), 3)), rng.standard_normal((rng.integers(1, 80), 3))
        lists = np.argsort(rng.random((len(query), len(gallery))), axis=1)
        for k in (1, 3):
            assert not advice(index_recall, lists, query, gallery, k=k)


def test_collapsed_embeddings_are_not_told():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        gallery = (1 + 1e-7 * rng.standard_normal((100, 8))).astype(np.float32)
        lists = np.argsort(-(gallery[:40] @ gallery.T), axis=1)[:, :10]
        assert not advice(index_recall, lists, gallery[:40], gallery)
        assert not advice(index_recall, lists, np.ones((40, 8)), np.ones((100, 8)))


def test_a_gallery_that_can_be_read_once_is_not_looked_at_for_shifts_and_diagnose_says_so():
    problem = Searched(3)
    given = {"retrieved": problem.nearest[:, :5] + 1, "query": problem.query}
    answers = {answer.name: answer for answer in diagnose(None, given | {"gallery": iter([problem.gallery[:, :]])})}
    assert answers["shifted_positions"].state == "not looked at: no gallery that can be read again"
    found = diagnose(None, given | {"gallery": np.concatenate([problem.gallery] * 2)}).found
    assert [answer.name for answer in found] == ["shifted_positions"]


def test_files_are_read_again(tmp_path):
    problem = Searched(4)
    np.savez(tmp_path / "gallery.npz", embeddings=problem.gallery, identities=problem.gallery_identities)
    files = read_samples(tmp_path / "gallery.npz")
    lists = np.where(problem.nearest < 399, problem.nearest + 1, -1)[:, :5]
    assert len(advice(index_recall, lists, problem.query, files, k=5, similarity="euclidean")) == 1
