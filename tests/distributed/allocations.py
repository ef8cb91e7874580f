"""Lets one allocation after the other fail on one of two processes: `python -m tests.distributed.allocations`.

The script tries every allocation, which takes minutes, and prints how many calls were tried and how many of them raised
on both processes; where one hangs, it raises. The test suite tries one at every line of the metrics between any two
collectives.
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from operator import methodcaller
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch
from torch import distributed
from torch.utils._python_dispatch import TorchDispatchMode

from reid_torchmetrics import DetectionMAP, ReIDMeanAP
from reid_torchmetrics.functional.detection.evaluation import image_matches
from reid_torchmetrics.functional.detection.evaluation.image_matches import matchings
from reid_torchmetrics.metrics.base import process_group
from reid_torchmetrics.metrics.reid.ranking import rankings
from tests.distributed import processes
from tests.functional.detection import detection_samples
from tests.metrics.reid.samples import batches, fed

IN_PLACE = {"copy_", "fill_", "zero_"}  # write to memory that is there, and take none themselves
METRICS = str(Path(process_group.__file__).parents[1]), str(Path(image_matches.__file__).parent)


class Allocations(TorchDispatchMode):
    """Lets the n-th operation that takes memory fail, and without n notes where each of them is asked for.

    What the collectives themselves take is torch's; it is not seen here.
    """

    def __init__(self, failing: int | None = None) -> None:
        super().__init__()
        self.failing = failing
        self.count = self.num_collectives = 0
        self.places: list[tuple[int, str, int]] = []

    @property
    def has_failed(self) -> bool:
        """Whether there was an n-th allocation."""
        return self.failing is not None and self.count >= self.failing

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.num_collectives += func.namespace == "c10d"
        if takes_memory(func):
            self.count += 1
            if self.count == self.failing:
                raise torch.cuda.OutOfMemoryError("simulated")
            if self.failing is None:
                self.places.append((self.num_collectives, *line_of_metrics(sys._getframe())))
        return func(*args, **(kwargs or {}))

    def numbers(self, *, every: bool) -> list[int]:
        """The numbers of all allocations, or of the first at each line between two collectives; and of none."""
        first = {place: number for number, place in reversed([*enumerate(self.places, 1)])}
        return [*(range(1, self.count + 1) if every else sorted(first.values())), self.count + 1]


def takes_memory(func) -> bool:
    """Whether an operation gives a tensor of its own, or works in place and may need room for it."""
    if func.namespace == "c10d":
        return False
    if func._schema.is_mutable:
        return func._schema.name.rpartition("::")[2] not in IN_PLACE
    return any(each.alias_info is None and "Tensor" in str(each.type) for each in func._schema.returns)


def line_of_metrics(frame: FrameType | None) -> tuple[str, int]:
    """The innermost line of the metrics, or of the road that they give their images to, that is being executed."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(METRICS):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def re_identification(process: int, size: int, metric: ReIDMeanAP, *, index: bool) -> ReIDMeanAP:
    """A query and three gallery items a process."""
    given = batches(num_queries=2, num_gallery=6, size=1)
    if index:
        for number, batch in enumerate(given):
            batch["index"] = torch.tensor([number])
    return fed(metric, given[process::size])


def detection(process: int, size: int) -> DetectionMAP:
    given = detection_samples.images(1, 2, num_levels=4, with_ids=True)
    return detection_samples.fed(DetectionMAP(), *(side[process::size] for side in given))


COMPUTE, RESULTS, NEAREST = methodcaller("compute"), methodcaller("results"), methodcaller("nearest", 2)
CASES: dict[str, tuple[Callable, Callable]] = {
    "mean AP in two tiles": (lambda *of: re_identification(*of, ReIDMeanAP(max_bytes=200), index=False), COMPUTE),
    "mean AP with index": (lambda *of: re_identification(*of, ReIDMeanAP(), index=True), COMPUTE),
    "mean AP of stable ties": (lambda *of: re_identification(*of, ReIDMeanAP(ties="stable"), index=True), COMPUTE),
    "results of mean AP": (lambda *of: re_identification(*of, ReIDMeanAP(), index=True), RESULTS),
    "rank lists": (lambda *of: re_identification(*of, ReIDMeanAP(max_bytes=600), index=True), NEAREST),
    "detection": (detection, COMPUTE),
    "results of detection": (detection, RESULTS),
}


class Outcome(NamedTuple):
    """What became of one call."""

    num_raised: int
    """processes"""
    num_failed: int
    """processes; 0 where no allocation was left to fail"""
    message: str


def fail(process: int, size: int, case: str, failing: int, every: bool) -> list[Outcome]:
    """What becomes of a call while one allocation after the other fails on the process `failing`, and at last none."""
    make, ask = CASES[case]
    metric, survey = make(process, size), Allocations()
    seen = [call(metric, ask, survey)]
    numbers = iter(survey.numbers(every=every))
    while len(seen) == 1 or seen[-1].num_failed:
        seen.append(call(metric, ask, Allocations(next(numbers)) if process == failing else nullcontext()))
    return seen[1:]


def call(metric: ReIDMeanAP | DetectionMAP, ask: Callable, allocations: Allocations | nullcontext) -> Outcome:
    """Ask a metric as if for the first time in this group; all processes are in step afterwards."""
    rankings.clear()
    matchings.clear()
    process_group._messages_of_groups.clear()
    metric._computed, message = None, ""
    try:
        with allocations:
            ask(metric)
    except (RuntimeError, ValueError) as error:
        message = f"{type(error).__name__}: {error}"
    assert not metric._is_synced
    told = torch.tensor([message != "", isinstance(allocations, Allocations) and allocations.has_failed]).int()
    distributed.all_reduce(told)
    return Outcome(*told.tolist(), message)


def main() -> None:
    """Try all of them, on either process."""
    processes.TIMEOUT = 3600
    pool = processes.Processes()
    for case in CASES:
        for failing in range(2):
            *tried, last = pool.run(2, fail, case, failing, True)[failing]
            assert not last.message
            raised = sum(outcome.num_raised == 2 for outcome in tried)
            print(f"{case}, process {failing}: {len(tried)} calls, {raised} raised on both processes")  # noqa: T201
    pool.stop()


if __name__ == "__main__":
    main()
