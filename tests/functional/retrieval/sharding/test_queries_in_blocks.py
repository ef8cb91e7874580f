"""Queries too many for each process are sent block by block, and nothing else changes."""

import functools
from unittest import mock

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.retrieval.evaluation import list_samples, rank_samples
from reid_torchmetrics.functional.retrieval.ranking import ranks
from reid_torchmetrics.functional.retrieval.scores import DEFAULT_MAX_BYTES, RowsInBlocks, rows
from reid_torchmetrics.functional.world import ALONE
from tests.distributed import threads
from tests.distributed.failures import message_of, out_of_memory
from tests.distributed.problems import Outcome, Problem, minus_taxi_distance
from tests.distributed.test_nearest import as_lists
from tests.metrics.reid.samples import batches, fed
from tests.paths import path

DIMENSION = 96
ROW = 4 * DIMENSION  # bytes
WHOLE = DEFAULT_MAX_BYTES


def dealt(parts, similarity="cosine", ties="stable", *, leave_one_out=True, numbered=True, max_bytes=WHOLE, **fields):
    """A problem with some samples on several processes, and the queries of `parts[1]` on no other process."""
    total = sum(parts)
    generator = torch.Generator().manual_seed(total)
    order = torch.randperm(total, generator=generator)
    seen = [part.tolist() for part in order.split(parts)]
    if numbered:  # what came to process 1 comes again on others
        seen = [[*seen[1][:5], *part] if part else part for part in seen]
    is_query = torch.zeros(total, dtype=torch.bool)
    is_query[order[parts[0] : parts[0] + parts[1]]] = True
    options = {"similarity": similarity, "same_camera": "keep", "junk_identities": (-1,), "ties": ties}
    return Problem(
        embeddings=torch.randn(total, DIMENSION, generator=generator),
        identities=torch.arange(total) % 9 - 1,
        cameras=None,
        is_query=None if leave_one_out else is_query,
        index=torch.arange(total) * 3 if numbered else None,
        seen=seen,
        options=options,
        max_bytes=max_bytes if isinstance(max_bytes, tuple) else (max_bytes,),
        batch_size=7,
        **fields,
    )


def found(make, world, max_bytes, k=4, queries=None):
    """The ranks of a process and its lists, with their scores."""
    given = make(max_bytes=max_bytes)
    metric = given.together(world.process) if world.size > 1 else given.alone()
    options, samples = metric._ranking_options(), metric._accepted_samples().samples
    ranking, _ = rank_samples(samples, options, world, max_bytes=metric.max_bytes)
    ranks = Outcome.given(metric.summarize(ranking.ranks), ranking.ranks, ranking.counts)
    return ranks, as_lists(list_samples(samples, options, world, k=k, queries=queries, max_bytes=metric.max_bytes))


@pytest.fixture
def blocks(monkeypatch):
    """The numbers of rows of the blocks that were sent, once for each process."""
    sizes = []

    def exchange(world, of_processes, *parts):
        sizes.append(sum(of_processes))
        return original(world, of_processes, *parts)

    original = rows.exchange_rows
    monkeypatch.setattr(rows, "exchange_rows", exchange)
    return sizes


CASES = {
    "leave one out": functools.partial(dealt, [12, 19, 9]),
    "a process without samples": functools.partial(dealt, [0, 23, 10], "euclidean", "pessimistic"),
    "queries of one process": functools.partial(dealt, [15, 25, 1, 9], "dot", "expected", leave_one_out=False),
    "no index": functools.partial(dealt, [30, 11], "euclidean", "grouped", numbered=False),
    "float16": functools.partial(dealt, [22, 33], "cosine", "optimistic", dtypes=(torch.float16,)),
    "mixed dtypes": functools.partial(dealt, [22, 23], "euclidean", dtypes=(torch.float64, torch.float16)),
    "a function": functools.partial(dealt, [20, 25, 10], minus_taxi_distance, "pessimistic"),
}


LESS_ON_ONE = ("leave one out", "mixed dtypes")


@pytest.mark.parametrize(
    ("case", "max_bytes"), [*((case, 15 * ROW) for case in CASES), *((case, (WHOLE, 22 * ROW)) for case in LESS_ON_ONE)]
)
@pytest.mark.slow
def test_blocks_change_no_rank_and_no_list(case, max_bytes, blocks):
    make = CASES[case]
    size = len(make().seen)
    wanted = found(make, ALONE, WHOLE)
    assert threads.run(size, lambda world: found(make, world, max_bytes)) == [wanted] * size
    assert len(blocks) > 2 * size


@pytest.mark.parametrize("slots", [ranks._SLOTS, 200])  # of a group of tiles
@pytest.mark.slow
def test_a_process_holds_one_block_at_a_time(slots, blocks, monkeypatch):
    monkeypatch.setattr(*path("shared_slots"), slots)
    make = functools.partial(dealt, [40, 41, 19], "cosine", "pessimistic")
    threads.run(2, lambda world: found(make, world, 16 * ROW))
    sent = blocks[::2]  # by one process
    assert max(sent) <= 16
    # All queries for the ranks, and for the lists, of which hardly any is sent twice.
    assert 162 <= sum(sent) < 1.3 * 162
    assert len(sent) <= 2 * 162 / 16


def test_only_blocks_with_the_few_queries_are_sent(blocks):
    make, queries = functools.partial(dealt, [80, 81, 39]), torch.tensor([150, 3, 4, 150])
    wanted = found(make, ALONE, WHOLE, queries=queries)
    blocks.clear()
    metric = make(max_bytes=20 * ROW)
    options = metric.together(0)._ranking_options()

    def listed(world):
        samples = metric.together(world.process)._accepted_samples().samples
        return as_lists(list_samples(samples, options, world, k=4, queries=queries, max_bytes=20 * ROW))

    assert threads.run(3, listed) == [wanted[1]] * 3
    assert sum(blocks[::3]) == 3


@pytest.mark.slow
def test_extreme_queries_on_one_process_decide_the_dtype_of_all():
    make = functools.partial(dealt, [30, 41, 19], "cosine", leave_one_out=False)

    def extreme(**options):
        given = make(**options)
        given.embeddings[given.is_query] *= 1e25
        return given

    wanted = found(extreme, ALONE, WHOLE)
    assert threads.run(3, lambda world: found(extreme, world, 10 * ROW)) == [wanted] * 3


def test_rows_that_were_not_fetched_are_no_rows():
    def read(world):
        queries = RowsInBlocks(
            world, rows.Rows([torch.ones(2, 3)]), torch.tensor([0, 1, 0, 1]), dtype=torch.float32, max_bytes=24
        )
        queries.fetch(slice(1, 2), ahead=True)
        assert len(queries.read(slice(1, 3), torch.float32)) == 2
        with pytest.raises(IndexError, match="fetched"):
            queries.read(slice(0, 2), torch.float32)

    threads.run(2, read)


def _fails(process, size):
    metric = fed(ReIDMeanAP(max_bytes=200), batches()[process::size])
    calls, messages = [], []

    def fail_later(*args):
        calls.append(args)
        if len(calls) == 3:
            raise torch.cuda.OutOfMemoryError("simulated")
        return original(*args)

    original = RowsInBlocks.read
    with mock.patch.object(RowsInBlocks, "read", fail_later) if process else mock.MagicMock():
        messages.append(message_of(metric.compute))
    received, exchange = mock.MagicMock(), rows.exchange_rows
    after = mock.patch.object(rows, "exchange_rows", lambda *args: exchange(*args) and [received])
    with after if process else mock.MagicMock(), out_of_memory(received, "to"):
        messages.append(message_of(metric.compute))
    with out_of_memory(rows, "SentRows") if process else mock.MagicMock():  # before a block is sent
        messages.append(message_of(metric.compute))
    whole = fed(ReIDMeanAP(), batches()[process::size])
    return messages, float(metric.compute()) == float(whole.compute())


def test_an_error_within_a_block_is_one_on_all_processes(processes):
    said = "process 1: OutOfMemoryError: simulated"
    assert processes.run(2, _fails) == [([said] * 3, True)] * 2
