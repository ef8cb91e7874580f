"""The processes that share a problem, as this layer sees them: a contract, and the world of one process.

What crosses processes is written once, against `World`, and is handed the world that it runs in: `ALONE`, or that of
`torch.distributed`, which is made outside of this layer.

A collective that only some processes reach hangs the others. So number and shape of the collectives depend only on
sizes that all processes have agreed on, and between two collectives nothing can fail outside of `guarded`,
`guarded_all_gather` or the `fill` of `all_reduce_sum`, which raise on every process what is raised on one. Buffers are
reserved there, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

Result = TypeVar("Result")

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
"""dtypes that processes tell each other by their number in this list"""


class DistributedMetricError(RuntimeError):
    """Raised on every process when some process failed, with the processes and their messages."""


@runtime_checkable
class World(Protocol):
    """The processes that share a problem; all of them make the same calls in the same order."""

    size: int
    """number of processes"""
    process: int
    """the number of this one"""
    device: torch.device
    """where tensors that are exchanged must lie"""

    def all_gather(self, values: Tensor, gathered: Tensor) -> None:
        """Fill `gathered`, [size, *shape], with the values of every process, all of one shape and dtype."""

    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], None]) -> Tensor:
        """Let `fill` write to `buffer[1:]`, and return the sum over the processes; an error of `fill` is guarded."""

    def broadcast(self, rows: Tensor, source: int) -> None:
        """Fill `rows`, which must be contiguous, with those of the process `source`."""

    def guarded(self, work: Callable[[], Result]) -> Result:
        """Do local work; its error is raised on every process."""

    def guarded_all_gather(self, work: Callable[[], tuple[Result, Sequence[int]]]) -> tuple[Result, list[list[int]]]:
        """Do local work, and learn the few numbers that come of it on every process, equally many on each."""


class Alone:
    """One process, which has nobody to talk to."""

    size, process, device = 1, 0, torch.device("cpu")

    def all_gather(self, values: Tensor, gathered: Tensor) -> None:
        """Copy the values."""
        gathered[0].copy_(values)

    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], None]) -> Tensor:
        """Fill the buffer."""
        fill(buffer[1:])
        return buffer[1:]

    def broadcast(self, rows: Tensor, source: int) -> None:
        """Nothing: the rows are there."""

    def guarded(self, work: Callable[[], Result]) -> Result:
        """Do the work."""
        return work()

    def guarded_all_gather(self, work: Callable[[], tuple[Result, Sequence[int]]]) -> tuple[Result, list[list[int]]]:
        """Do the work, and return its own numbers."""
        done, numbers = work()
        return done, [list(numbers)]

    def conclude(self, error: Exception | None) -> None:
        """Nothing: whoever computes learns of an error anyway."""


ALONE = Alone()


def all_gather_values(world: World, values: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Values of all processes, [size, *shape], on the world's device; they have one shape on all, and take a dtype."""

    def prepare() -> tuple[Tensor, Tensor]:
        own = values.to(device=world.device, dtype=dtype).contiguous()
        # In some versions of PyTorch gloo's threads are not in inference mode with their caller, and may not write to
        # its tensors: https://github.com/pytorch/pytorch/issues/126032.
        with torch.inference_mode(mode=False):
            return own, own.new_empty((world.size, *own.shape))

    own, gathered = world.guarded(prepare)
    world.all_gather(own, gathered)
    return gathered


def all_gather_rows(world: World, rows: Tensor, sizes: Sequence[int]) -> None:
    """Fill in the rows of the other processes; `sizes` are the numbers of rows of each, in order, own rows are there.

    One broadcast from each process, into a slice: nothing is padded and nothing is copied.
    """
    for source, part in enumerate(rows.split(list(sizes))):
        world.broadcast(part, source)


_said: set[str] = set()
"""what `warn_once` has warned about"""


def warn_once(world: World, about: str, text: str, is_so: Callable[[], bool] = lambda: True) -> None:
    """Warn on process 0, unless it has warned `about` the same before, or finds that it is not so; all must call."""

    def say() -> None:
        if world.process == 0 and about not in _said and is_so():
            _said.add(about)
            warnings.warn(text, stacklevel=2)

    world.guarded(say)  # a warning may be an error


def differing(what: str, values: Sequence[object]) -> DistributedMetricError:
    """The error to raise on all processes when they do not have the same; each must know the values of all."""
    return disagreement(f"have the same {what}", values)


def disagreement(rule: str, values: Sequence[object]) -> DistributedMetricError:
    """The error to raise on all processes when they do not follow a rule; each must know the values of all."""
    listed = "; ".join(f"process {process}: {value}" for process, value in enumerate(values))
    return DistributedMetricError(f"All processes must {rule}; got {listed}.")
