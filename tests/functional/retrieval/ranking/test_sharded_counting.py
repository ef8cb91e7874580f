"""A gallery in parts: ranks and lists of the slow reference, and as many messages for many tiles as for few."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance, rank_positives, scores_from_matrix
from reid_torchmetrics.functional.retrieval.ranking import count_sharded_ranks, nearest
from reid_torchmetrics.functional.retrieval.scores import Rows, score_rows
from tests.distributed import threads
from tests.functional.retrieval.ranking.test_nearest import expected, relevance_of
from tests.functional.retrieval.ranking.test_ranks import as_lists
from tests.paths import path
from tests.profiles import examples
from tests.strategies import ALL_TIES, Problem, problems

SIZE = 2


def part_of(problem: Problem, world, max_bytes: int, dtype: torch.dtype):
    """Scores and relevance of every second or third gallery item, and the places of those that are kept."""
    places = torch.arange(len(problem.gallery_identities))[world.process :: world.size].contiguous()
    own = problem.self_index
    if own is not None:
        own = (own // world.size).where((own >= 0) & (own % world.size == world.process), -1)
    query, gallery, query_cameras, gallery_cameras = problem.labels
    cameras = (None, None) if gallery_cameras is None else (query_cameras, gallery_cameras[places])
    options = {"same_camera": problem.same_camera, "junk_identities": problem.junk_identities}
    relevance = find_relevance(query, gallery[places], *cameras, self_index=own, **options)
    scores = scores_from_matrix(problem.scores[:, places].to(dtype), relevance, max_bytes=max_bytes)
    return scores, relevance, places if relevance.kept is None else places[relevance.kept]


BYTES = st.sampled_from([1, 300, 10**7])


@examples(60)
@given(problems(ties=ALL_TIES), st.integers(1, 3), BYTES)
def test_ranks_are_those_of_the_slow_reference(problem, size, max_bytes):
    def run(world):
        scores, relevance, places = part_of(problem, world, max_bytes, torch.float32)
        ranks, counts = count_sharded_ranks(world, scores, relevance, ties=problem.ties, places=places)
        return as_lists(ranks), counts

    wanted = problem.reference()
    counts = relevance_of(problem).counts(torch.tensor([len(ranks) for ranks in wanted.ranks], dtype=torch.int64))
    expected_ranks = wanted.ranks, wanted.num_candidates, wanted.tied
    assert threads.run(size, run) == [(expected_ranks, counts)] * size


@examples(60)
@given(
    problems(ties=ALL_TIES),
    st.sampled_from([1, 4, 30]),
    st.integers(1, 3),
    BYTES,
    st.sampled_from([(0, torch.float32), (0, torch.float64), (1 << 31, torch.float32)]),
)
def test_lists_are_those_of_the_slow_reference(problem, k, size, max_bytes, kind):
    first_place, dtype = kind

    def run(world):
        scores, relevance, places = part_of(problem, world, max_bytes, dtype)
        return nearest(scores, relevance, k, ties=problem.ties, world=world, places=places + first_place)

    wanted = expected(problem, k, problem.ties)
    for process, found in enumerate(threads.run(size, run)):
        length = max(1, min(k, relevance_of(problem).num_kept))
        assert found.places.shape == (len(wanted), length)
        for row, each in enumerate(wanted):
            places = [place for place, *_ in each.listed]
            padding = [-1] * (length - len(places))
            assert found.places[row].tolist() == [first_place + place for place in places] + padding
            own = [place // size if place % size == process else -1 for place in places]
            assert found.positions[row].tolist() == own + padding
            assert found.scores[row, : len(places)].tolist() == [score for _, score, _ in each.listed]
            assert found.positive[row].tolist() == [hit for *_, hit in each.listed] + [False] * len(padding)
            assert int(found.first_rank[row]) == each.first_rank
            assert int(found.first_place[row]) == (first_place + each.first_position if each.first_rank else -1)


def sharded(max_bytes: int, ties: str, similarity="cosine"):
    """The ranks on each of two processes, and their number of collectives."""
    generator = torch.Generator().manual_seed(0)
    query, gallery = (torch.randn(number, 8, generator=generator).round() for number in (150, 3000))
    labels = torch.arange(150) % 50, torch.arange(3000) % 600

    def run(world):
        exchange, number = world._exchange, [0]

        def counted(*args, **options):
            number[0] += 1
            return exchange(*args, **options)

        world._exchange = counted
        places = torch.arange(world.process, 3000, SIZE)
        part = Rows([gallery[places]])
        scores = score_rows(world, Rows([query]), part, similarity=similarity, max_bytes=max_bytes)
        relevance = find_relevance(labels[0], labels[1][places])
        ranks, _ = count_sharded_ranks(world, scores, relevance, ties=ties, places=places)
        return ranks.rank, number[0]

    return threads.run(SIZE, run), rank_positives(query, gallery, *labels, similarity=similarity, ties=ties).rank


@pytest.mark.parametrize("ties", ["stable", "expected"])
@pytest.mark.slow
def test_messages_do_not_grow_with_tiles(ties):
    (few, _), (many, expected) = sharded(1 << 30, ties), sharded(20_000, ties)
    assert {number for _, number in few} == {number for _, number in many}
    assert all(torch.equal(ranks, expected) for ranks, _ in few + many)


@pytest.mark.slow
def test_groups_of_tiles_are_bounded(monkeypatch):
    monkeypatch.setattr(*path("shared_slots"), 100)
    (few, _), (many, expected) = sharded(1 << 30, "pessimistic"), sharded(20_000, "pessimistic")
    assert few[0][1] < many[0][1]
    assert all(torch.equal(ranks, expected) for ranks, _ in many)


@pytest.mark.slow
def test_a_function_is_asked_for_whole_tiles():
    found, expected = sharded(20_000, "pessimistic", lambda query, gallery: query @ gallery.T)
    assert all(torch.equal(ranks, expected) for ranks, _ in found)
