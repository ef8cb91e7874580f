"""A gallery that is counted in several processes: merged, the ranks are those of one gallery in memory."""

import pickle

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from tests.stream_problems import assert_equal, counter_of, drawn, stored

NUM_WORKERS, TIMEOUT = 2, 60


def counted(process, num_processes):
    query, positives, blocks = drawn(3, 600, whole=False)
    counter = counter_of(query, positives)
    for block in blocks[process::num_processes]:
        counter.update(*block)
    return pickle.dumps(counter)


class Counted(IterableDataset):
    """The counter of each worker, once it has counted its share."""

    def __iter__(self):
        yield counted(get_worker_info().id, NUM_WORKERS)


def merged(pickled):
    counter, *others = map(pickle.loads, pickled)
    for other in others:
        counter.merge(other)
    return counter.ranks()


def test_counters_of_three_processes_merge(processes):
    assert_equal(merged(processes.run(3, counted)), stored(*drawn(3, 600, whole=False)))


def test_counters_of_the_workers_of_a_data_loader_merge():
    loader = DataLoader(Counted(), batch_size=None, num_workers=NUM_WORKERS, timeout=TIMEOUT)
    assert_equal(merged(loader), stored(*drawn(3, 600, whole=False)))
