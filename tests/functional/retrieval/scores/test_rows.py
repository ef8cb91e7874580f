"""Rows of embeddings: read from blocks, measured once, and searched for what is not finite."""

import collections
import gc
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from reid_torchmetrics.functional.retrieval import rank_positives
from reid_torchmetrics.functional.retrieval.scores import Rows, RowsInBlocks
from reid_torchmetrics.tasks import RankCounter, index_recall
from tests.distributed import threads

BLOCKS = [torch.randn(rows, 48, generator=torch.Generator().manual_seed(rows)) for rows in (1, 70, 30)]


class Passes(TorchDispatchMode):
    """Counts the operations that read as many numbers as the gallery has."""

    def __init__(self, least: int) -> None:
        super().__init__()
        self.least, self.names = least, collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        is_large = any(isinstance(value, torch.Tensor) and value.numel() >= self.least for value in args)
        name = function.overloadpacket.__name__
        self.names[name] += is_large and name not in {"slice", "detach"}
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_rows_that_are_not_finite_are_found_in_blocks_and_large_ones_are_finite(dtype):
    blocks = [block.to(dtype, copy=True) for block in BLOCKS]
    blocks[0] = blocks[0].clamp(min=torch.finfo(dtype).max / 2)  # the norm is infinite, no coordinate is
    assert Rows(blocks).non_finite().tolist() == []
    for place, value in ((3, torch.nan), (9, torch.inf), (50, -torch.inf)):
        blocks[1][place, place % 48] = value
    assert Rows(blocks).non_finite().tolist() == [4, 10, 51]
    assert Rows(blocks, torch.tensor([51, 0, 7, 4])).non_finite().tolist() == [0, 3]
    assert Rows([blocks[0][:0]]).non_finite().tolist() == []


@pytest.mark.parametrize("kept", [slice(20, 60), torch.tensor([100, 3, 3, 0]), torch.arange(0)])
def test_chosen_rows_have_the_norms_of_the_rows_that_they_were_chosen_from(kept):
    every = Rows(BLOCKS)
    anew = every.select(kept).norms(torch.float32)
    every.norms(torch.float32)
    assert torch.equal(every.select(kept).norms(torch.float32), anew)


def test_rows_of_one_of_the_blocks_are_copied_unless_there_is_room_for_a_copy():
    rows, room = Rows(BLOCKS), torch.empty(100, 48)
    assert rows.read(slice(5, 20), torch.float32, room).data_ptr() == BLOCKS[1][4:].data_ptr()
    copy = rows.read(slice(5, 20), torch.float32)
    assert torch.equal(copy, BLOCKS[1][4:19])
    assert copy.data_ptr() != BLOCKS[1][4:].data_ptr()


@pytest.mark.slow
def test_embeddings_are_read_once_before_they_are_scored():
    query, gallery = (torch.randn(rows, 64) for rows in (2, 5000))
    labels = torch.arange(2), torch.arange(5000) % 7
    with Passes(gallery.numel()) as passes:
        rank_positives(query, gallery, *labels)
    assert sum(passes.names.values()) == passes.names["linalg_vector_norm"] == 1  # products take a few blocks each


def test_a_block_of_rows_of_all_processes_fits_the_memory_bound():
    # Two processes have every second of ten rows of 48 floats, 192 bytes; 700 bytes hold three rows.
    every = torch.arange(10.0)[:, None].expand(10, 48)

    def run(world):
        local = Rows([every[world.process :: 2].contiguous()])
        rows = RowsInBlocks(world, local, torch.arange(10) % 2, dtype=torch.float32, max_bytes=700)
        rows.fetch(slice(0, 1), ahead=True)
        assert torch.equal(rows.read(slice(0, 3), torch.float32), every[:3])
        with pytest.raises(IndexError, match=r"must be among those that were fetched, slice\(0, 3, None\)"):
            rows.read(slice(3, 4), torch.float32)
        rows.fetch(slice(4, 8))  # what is asked for is sent, however much it is
        return rows.read(slice(4, 8), torch.float32)

    for values in threads.run(2, run):
        assert torch.equal(values, every[4:8])


def test_a_counted_block_is_freed_at_once():
    """A cycle of references would hold the blocks of a stream until Python looks for cycles."""
    counter = RankCounter(torch.eye(3), torch.eye(3), query_identities=[0, 1, 2], positive_identities=[0, 1, 2])
    block = torch.randn(5, 3)
    is_there = weakref.ref(block)
    gc.collect()
    gc.disable()
    try:
        counter.count(block, [9] * 5, key=0)
        index_recall([[0]] * 3, torch.eye(3), iter([block]), k=1)
        del block
        assert is_there() is None
    finally:
        gc.enable()
