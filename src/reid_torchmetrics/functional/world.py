"""The processes that share a problem, as this layer sees them: a contract, and the world of one process.

What crosses processes is written once, against `World`, and is handed the world that it runs in: `ALONE`, or that of
`torch.distributed`, which is made outside of this layer.

A collective that only some processes reach hangs the others. So number and shape of the collectives depend only on
sizes that all processes have agreed on, and between two collectives nothing can fail outside of `guarded`,
`guarded_all_gather` or the `fill` of `all_reduce_sum`, which raise on every process what is raised on one. Buffers are
reserved there, too.

What all processes must ask for alike, and the words for it where they do not.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
    members: tuple[int, ...]
    """what tells these processes from others; nothing where there is one"""
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

    def texts(self, text: str) -> list[str]:
        """Texts of all processes, one of each."""


class Alone:
    """One process, which has nobody to talk to."""

    size, process, device = 1, 0, torch.device("cpu")
    members: tuple[int, ...] = ()

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

    def texts(self, text: str) -> list[str]:
        """Return the text."""
        return [text]

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


@dataclass(frozen=True)
class Settings:
    """Which metric was asked for what, as text that is the same in every process."""

    metric: str
    """the class"""
    method: str
    """that was called"""
    options: Mapping[str, str]
    """what decides the value, by the names that users know"""
    implied: Mapping[str, str]
    """what follows from options and samples: it is named where nothing else differs"""


def meet(
    world: World,
    look: Callable[[], tuple[Result, Sequence[int]]],
    describe: Callable[[], Settings],
) -> tuple[Result, list[list[int]]]:
    """Begin to compute: do local work, learn some numbers that come of it on all processes, and compare the settings.

    It is the first that processes hear of each other, and of one shape whatever they were asked for.

    Raises:
        DistributedMetricError: the work failed on some process, or settings differ.
    """
    if isinstance(world, Alone):
        return world.guarded_all_gather(look)

    def work() -> tuple[tuple[Result, str], list[int]]:
        done, numbers = look()
        text = json.dumps(asdict(describe()), sort_keys=True)
        return (done, text), [_digest(text), *numbers]

    (done, text), table = world.guarded_all_gather(work)
    if len({digest for digest, *_ in table}) > 1:
        raise _difference([Settings(**json.loads(each)) for each in world.texts(text)])
    return done, [row[1:] for row in table]


def _difference(settings: Sequence[Settings]) -> DistributedMetricError:
    # What users see first: another class, then another protocol, then options, then what follows from them.
    called = [f"`{each.metric}.{each.method}`" for each in settings]
    if len(set(called)) > 1:
        return disagreement("call the same method of the same class", called)
    options = [each.options for each in settings]
    # Where protocols differ, so do the options that follow from them.
    protocols = [{name: value for name, value in each.items() if name == "protocol"} for each in options]
    for values in (protocols, options, [each.implied for each in settings]):
        names = [name for name in sorted(set().union(*values)) if len({each.get(name) for each in values}) > 1]
        if names:
            return _difference_of(names, values)
    raise AssertionError  # the digests differ


def _difference_of(names: Sequence[str], values: Sequence[Mapping[str, str]]) -> DistributedMetricError:
    if len(names) == 1:
        return differing(f"`{names[0]}`", [each.get(names[0]) for each in values])
    listed = [", ".join(f"{name}={each.get(name)}" for name in names) for each in values]
    return differing(" and ".join(f"`{name}`" for name in names), listed)


def _digest(text: str) -> int:
    """A number that stands for a text when processes compare theirs."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
