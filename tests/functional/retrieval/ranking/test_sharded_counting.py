"""Messages between processes: as many for many tiles as for few, with the ranks of one process."""

import pytest
import torch

from reid_torchmetrics.functional.retrieval import find_relevance, rank_positives
from reid_torchmetrics.functional.retrieval.ranking import count_sharded_ranks
from reid_torchmetrics.functional.retrieval.scores import Rows, score_rows
from tests.distributed import threads
from tests.paths import path

SIZE = 2


def sharded(max_bytes: int, ties: str, similarity="cosine"):
    """The ranks on each of two processes, and their number of collectives."""
    generator = torch.Generator().manual_seed(0)
    query, gallery = (torch.randn(number, 8, generator=generator).round() for number in (150, 3000))
    labels = torch.arange(150) % 50, torch.arange(3000) % 600

    def run(world):
        collect, number = world._all_gather, [0]

        def counted(value):
            number[0] += 1
            return collect(value)

        world._all_gather = counted
        places = torch.arange(world.process, 3000, SIZE)
        part = Rows([gallery[places]])
        scores = score_rows(world, Rows([query]), part, similarity=similarity, max_bytes=max_bytes)
        relevance = find_relevance(labels[0], labels[1][places])
        ranks, _ = count_sharded_ranks(world, scores, relevance, ties=ties, places=places)
        return ranks.rank, number[0]

    return threads.run(SIZE, run), rank_positives(query, gallery, *labels, similarity=similarity, ties=ties).rank


@pytest.mark.parametrize("ties", ["pessimistic", "stable", "expected"])
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
