"""A gallery that is counted in several processes: the ranks are those of one gallery in memory."""

import pickle

import pytest
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from tests.stream_problems import assert_equal, counter_of, drawn, stored

NUM_WORKERS, TIMEOUT = 2, 60


def counted(process, num_processes):
    """What a process counts, by a counter of its own."""
    query, positives, blocks = drawn(3, 600, whole=False)
    counter, each = counter_of(query, positives), [*enumerate(blocks)][process::num_processes]
    return pickle.dumps(sum(counter.count(*block, key=key) for key, block in each))


class Counted(IterableDataset):
    """What each worker counts of its share, by a counter of all."""

    def __init__(self, counter, blocks):
        self.counter, self.blocks = counter, [*enumerate(blocks)]

    def __iter__(self):
        for key, block in self.blocks[get_worker_info().id :: NUM_WORKERS]:
            yield self.counter.count(*block, key=key)


def test_processes_with_a_counter_of_their_own_add_up(processes):
    query, positives, blocks = drawn(3, 600, whole=False)
    counts = sum(map(pickle.loads, processes.run(3, counted)))
    assert counts.keys == {*range(len(blocks))}
    assert_equal(counter_of(query, positives).ranks(counts), stored(query, positives, blocks))


def test_workers_of_a_data_loader_share_a_counter():
    query, positives, blocks = drawn(3, 600, whole=False)
    counter = counter_of(query, positives)
    loader = DataLoader(Counted(counter, blocks), batch_size=None, num_workers=NUM_WORKERS, timeout=TIMEOUT)
    parts = [*loader]
    assert_equal(counter.ranks(sum(parts)), stored(query, positives, blocks))
    with pytest.raises(ValueError, match="`other` must have no key in common"):
        sum([*parts, *loader])
