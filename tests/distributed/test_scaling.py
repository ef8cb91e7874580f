"""What docs/scaling.md says of collectives and bytes is counted over gloo and, for more processes, on threads."""

import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import distributed

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.retrieval.sharding import shared_samples
from reid_torchmetrics.functional.world import World
from reid_torchmetrics.metrics.base import DistributedWorld
from tests.distributed import threads

TEXT = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
FORMULAS = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", TEXT, flags=re.MULTILINE))
MESSAGE = 192  # bytes of a process
RECEIVED: dict[
    str, Callable[..., float]
] = {  # bytes, given process, number of processes and arguments of the collective
    "broadcast": lambda process, _, rows, src: 0 if src == process else rows.nbytes,
    "all_reduce": lambda _, size, buffer: 2 * buffer.nbytes * (1 - 1 / size),  # by a ring
    "all_to_all_single": lambda process, _, rows, __, num, ___: rows.nbytes * (1 - num[process] / max(1, sum(num))),
    "all_gather_single": lambda _, __, gathered, own: gathered.nbytes - own.nbytes,
}
RECEIVED["all_gather_into_tensor"] = RECEIVED["all_gather_single"]  # its name before PyTorch 2.13
SIZES = (
    {"Q": 48, "G": 400, "D": 16, "T": 1, "B": 1},
    {"Q": 1200, "G": 4800, "D": 8, "T": 2, "B": 2},
)  # a tile has 1,008 queries at most

Costs = list[tuple[int, float]]
"""collectives of `compute`, and bytes that they bring, for each of `SIZES` without and with `index`"""


def costs(process: int, size: int, count: Callable[[ReIDMeanAP], tuple[int, float]]) -> Costs:
    found = []
    for sizes in SIZES:
        for numbered in (False, True):
            total = sizes["Q"] + sizes["G"]
            own = torch.arange(process, total, size)
            rows = torch.randn(total, sizes["D"], generator=torch.Generator().manual_seed(0))[own]
            metric = ReIDMeanAP()
            metric.update(rows, own % (total // 4), is_query=own < sizes["Q"], index=own if numbered else None)
            found.append(count(metric))
    return found


def over_gloo(process: int, size: int) -> Costs:
    calls: list[float] = []

    def counted(name: str, collective: Callable, *args: object, group: object, **options: int) -> object:
        calls.append(RECEIVED[name](process, size, *args, **options))
        return collective(*args, group=group, **options)

    def count(metric: ReIDMeanAP) -> tuple[int, float]:
        calls.clear()
        metric.compute()
        return len(calls), sum(calls)

    DistributedWorld(None, torch.device("cpu")).guarded(int)  # a group's first message has one before it
    with pytest.MonkeyPatch.context() as patched:
        for name in RECEIVED:
            if hasattr(distributed, name):
                patched.setattr(distributed, name, partial(counted, name, getattr(distributed, name)))
        return costs(process, size, count)


class Counted(World):
    """A world that counts what it hands on to another; as there, each method is one collective."""

    def __init__(self, world: World) -> None:
        self.size, self.process, self.members, self.device = world.size, world.process, world.members, world.device
        self._world, self.calls, self.warning_log = world, [], world.warning_log

    def _hand_on(self, method: str, received: float, *args: object) -> object:
        self.calls.append(received)
        return getattr(self._world, method)(*args)

    def _count(self, name: str, *args: object) -> float:
        return RECEIVED[name](self.process, self.size, *args)

    def all_gather(self, values, gathered):
        return self._hand_on("all_gather", self._count("all_gather_single", gathered, values), values, gathered)

    def all_reduce_sum(self, buffer, fill):
        return self._hand_on("all_reduce_sum", self._count("all_reduce", buffer), buffer, fill)

    def broadcast(self, rows, source):
        if rows.numel():
            self._hand_on("broadcast", self._count("broadcast", rows, source), rows, source)

    def all_to_all(self, *args):
        rows, received, num_sent, num_received = args
        return self._hand_on(
            "all_to_all", self._count("all_to_all_single", received, rows, num_received, num_sent), *args
        )

    def guarded(self, work):
        return self._hand_on("guarded", MESSAGE * (self.size - 1), work)

    def guarded_all_gather(self, work):
        return self._hand_on("guarded_all_gather", MESSAGE * (self.size - 1), work)

    def conclude(self, error):
        return self._hand_on("conclude", MESSAGE * (self.size - 1), error)

    def texts(self, text):
        return self._world.texts(text)


def on_threads(world: threads.ThreadWorld) -> Costs:
    def count(metric: ReIDMeanAP) -> tuple[int, float]:
        metric._processes = counted = Counted(world)
        type(metric).compute(metric)  # not its wrapper, which looks for a process group
        counted.conclude(None)  # as the wrapper does
        return len(counted.calls), sum(counted.calls)

    return costs(world.process, world.size, count)


def of_formulas(what: str, *, numbered: bool, in_blocks: bool, **sizes: float) -> float:
    """What a row of the model says, with those for `index` and for queries in blocks where they are."""
    sizes |= {"R": math.ceil(sizes["Q"] * sizes["W"] / 2**22), "L": 2 + numbered}
    rows = [what, *[f"{what} with `index`"] * numbered, *[f"{what} in blocks"] * in_blocks]
    return sum(eval(FORMULAS[row], {}, sizes) for row in rows)  # noqa: S307 - the docs are ours


def assert_as_in_the_docs(found: list[Costs], *, in_blocks: bool = False) -> None:
    for number, of_processes in enumerate(zip(*found, strict=True)):
        # Each identity has four samples, of which one is a query if any is.
        sizes, numbered = SIZES[number // 2], bool(number % 2)
        if in_blocks and not numbered:  # in their order of processes, a block is on some of them
            continue
        asked = partial(of_formulas, numbered=numbered, in_blocks=in_blocks, **sizes, W=len(found), P=3 * sizes["Q"])
        assert {calls for calls, _ in of_processes} == {asked("collectives")}
        mean = sum(received for _, received in of_processes) / len(found)
        assert mean == pytest.approx(asked("received, bytes"), rel=0.03 if numbered else 0.005)  # hashes deal unevenly


def test_processes_send_what_the_docs_say(processes):
    assert_as_in_the_docs(processes.run(2, over_gloo))


@pytest.mark.parametrize("size", [2, 4, 8])
def test_collectives_and_bytes_grow_as_the_docs_say(size):
    assert_as_in_the_docs(threads.run(size, on_threads))


def test_queries_in_blocks_cost_what_the_docs_say(monkeypatch):
    monkeypatch.setattr(shared_samples, "bytes_within", lambda *_: 1)  # a block is a tile
    assert_as_in_the_docs(threads.run(4, on_threads), in_blocks=True)


def test_a_billion_items_in_a_stream_cost_what_the_formulas_say():
    workers, of_each = 1000, {"Q": 10**6, "P": 10**7, "D": 512, "S": 20, "B": 50_000, "F": 120e9}

    def said(row: str) -> float:
        return eval(FORMULAS[row], {}, of_each)  # noqa: S307 - the docs are ours

    operations, counter = workers * said("operations of a stream"), said("bytes of a counter") / 1e9
    for text in (
        f"{operations:.1e} operations".replace("e+", "e"),
        f"{workers * said('CPU seconds of a stream') / 3600:,.0f} core hours",
        f"{operations / 40e12 / 3600:.1f} hours of products",
        f"a counter of {counter:.1f} GB",
        f"reads {said('bytes read of a stream') / 1e9:.1f} GB",
        f"needs {said('bytes of memory of a stream') / 1e9:.1f} GB more",
        f"returns {said('bytes of its counts') / 1e6:.0f} MB",
    ):
        assert text in " ".join(TEXT.split())
