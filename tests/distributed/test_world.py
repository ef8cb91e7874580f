"""One process, threads and the processes of a group keep one contract."""

import pytest
import torch

from reid_torchmetrics import DistributedMetricError
from reid_torchmetrics.functional.world import ALONE, SentRows, World, all_reduce_values, exchange_rows
from reid_torchmetrics.metrics.base import DistributedWorld
from tests.distributed import threads


def answers(world: World) -> list:
    """What a world answers; process p has the rows p, p, ... of which there are p + 1."""
    gathered = torch.empty(world.size, 2, dtype=torch.int64)
    world.all_gather(torch.tensor([world.process, 7]), gathered)
    total = world.all_reduce_sum(torch.empty(3), lambda out: out.fill_(world.process + 1.0))
    sizes = [process + 1 for process in range(world.size)]
    pieces = torch.full((world.process + 1, 2), float(world.process)).split(1)
    (rows,) = exchange_rows(world, sizes, SentRows(lambda: pieces, (2,), torch.float32))
    receivers = torch.arange(world.size).repeat_interleave(torch.tensor(sizes))
    sent = torch.stack([receivers, torch.full_like(receivers, world.process)], dim=1)
    received = torch.empty(world.size * (world.process + 1), 2, dtype=torch.int64)
    world.all_to_all(sent, received, sizes, [world.process + 1] * world.size)
    senders = range(world.size)
    assert received.tolist() == [[world.process, sender] for sender in senders for _ in range(world.process + 1)]
    done, table = world.guarded_all_gather(lambda: ("done", [world.process, 5]))
    sums = all_reduce_values(world, lambda: torch.tensor([world.process + 1, 2])).tolist()
    return [gathered.tolist(), total.tolist(), sums, rows[:, 0].tolist(), done, table, world.guarded(lambda: "alike")]


def wanted(size: int) -> list:
    processes = range(size)
    rows = [float(process) for process in processes for _ in range(process + 1)]
    return [
        [[process, 7] for process in processes],
        [sum(process + 1.0 for process in processes)] * 2,
        [sum(process + 1 for process in processes), 2 * size],
        rows,
        "done",
        [[process, 5] for process in processes],
        "alike",
    ]


def failures(world: World) -> list[str]:
    """What every process is told when the last one fails, before and inside of a collective."""
    is_last, said = world.process == world.size - 1, []

    def work(*_: object) -> None:
        if is_last:
            raise ValueError("no luck")

    for call in (
        lambda: world.guarded(work),
        lambda: world.all_reduce_sum(torch.empty(3), work),
        lambda: all_reduce_values(world, lambda: work() or torch.zeros(2)),
    ):
        with pytest.raises((DistributedMetricError, ValueError), match="no luck") as caught:
            call()
        said.append(str(caught.value))
    return said


def in_group(process: int, size: int) -> tuple[list, list[str]]:
    world = DistributedWorld(None, torch.device("cpu"))
    return answers(world), failures(world)


def test_one_process_is_a_world():
    assert answers(ALONE) == wanted(1)
    assert failures(ALONE) == ["no luck"] * 3


@pytest.mark.parametrize("size", [1, 2, 3])
def test_threads_are_a_world(size):
    assert threads.run(size, answers) == [wanted(size)] * size
    text = f"process {size - 1}: ValueError: no luck" if size > 1 else "no luck"  # an error of all is raised as it is
    assert threads.run(size, failures) == [[text] * 3] * size


@pytest.mark.parametrize("size", [2, 3])
def test_a_process_group_is_a_world(processes, size):
    assert processes.run(size, in_group) == [(wanted(size), [f"process {size - 1}: ValueError: no luck"] * 3)] * size


def _without_lists_of_tensors(process: int, size: int) -> list[list[int]]:
    """What one process hears while a tensor has no room to be made a list."""
    world = DistributedWorld(None, torch.device("cpu"))

    def fail(_: torch.Tensor) -> None:
        raise MemoryError

    with pytest.MonkeyPatch.context() as patched:
        if process:
            patched.setattr(torch.Tensor, "tolist", fail)
        return world.guarded_all_gather(lambda: (None, [process, -7]))[1]


def test_text_arrives_without_a_list_of_a_tensor(processes):
    assert processes.run(2, _without_lists_of_tensors) == [[[0, -7], [1, -7]]] * 2
