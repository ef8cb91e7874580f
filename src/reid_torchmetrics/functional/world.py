"""The processes that share a problem, as this layer sees them.

Code for several processes is written once, against `World`, and is handed the world that it runs in: `ALONE`, or the
world of `torch.distributed`, made outside of this layer.

A collective that only some processes reach hangs the others. So number and shape of the collectives depend only on
options and sizes that all processes have agreed on, never on what one process holds, and between two collectives
nothing can fail outside of `guarded`, `guarded_all_gather` or the `fill` of `all_reduce_sum`, which raise an error of
one process on every process. Buffers are reserved there, too.

A computation begins by `meet`: processes compare what they were asked for.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import NamedTuple, TypeVar, final

import torch
from torch import Tensor

from reid_torchmetrics._warnings import warn

Result = TypeVar("Result")

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
"""dtypes, exchanged by their number in this list"""


class DistributedMetricError(RuntimeError):
    """Raised on every process when some process failed, with the processes and their messages."""


class WarningLog:
    """Topics that were warned about: a metric warns once about each topic, a function in each of its calls."""

    def __init__(self, topics: set[str] | None = None) -> None:
        """Take the topics that a metric has warned about; None for a function."""
        self.topics = topics

    def has(self, topic: str) -> bool:
        """Return whether the metric has warned about the topic."""
        return self.topics is not None and topic in self.topics

    def warn_once(self, topic: str, text: str, category: type[Warning] = UserWarning) -> None:
        """Warn, unless the metric has warned about the topic before."""
        if self.has(topic):
            return
        if self.topics is not None:
            self.topics.add(topic)
        warn(text, category)


class World(ABC):
    """The processes that share a problem; all of them make the same calls in the same order."""

    size: int
    """number of processes"""
    process: int
    """the number of this one"""
    members: tuple[int, ...]
    """numbers of these processes, to tell them from other groups; empty for one process"""
    device: torch.device
    """device of the tensors that are exchanged, settled by the first message"""
    warning_log: WarningLog

    @abstractmethod
    def all_gather(self, values: Tensor, gathered: Tensor) -> None:
        """Fill `gathered`, [size, *shape], with the values of every process, all of one shape and dtype."""

    @abstractmethod
    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], object]) -> Tensor:
        """Let `fill` write to `buffer[1:]`, and return the sum over the processes; an error of `fill` is guarded."""

    @abstractmethod
    def broadcast(self, rows: Tensor, source: int) -> None:
        """Fill `rows`, a contiguous tensor, with the rows of the process `source`."""

    @abstractmethod
    def all_to_all(self, rows: Tensor, received: Tensor, num_sent: Sequence[int], num_received: Sequence[int]) -> None:
        """Send the first `num_sent[0]` rows to process 0, the next to process 1, ..., and fill `received` likewise."""

    def guarded(self, work: Callable[[], Result]) -> Result:
        """Do local work; its error is raised on every process."""
        return self.guarded_all_gather(lambda: (work(), ()))[0]

    @abstractmethod
    def guarded_all_gather(self, work: Callable[[], tuple[Result, Sequence[int]]]) -> tuple[Result, list[list[int]]]:
        """Do local work, and gather the few numbers that it returns, equally many on each process."""

    @abstractmethod
    def texts(self, text: str) -> list[str]:
        """Gather one text of each process."""

    @abstractmethod
    def conclude(self, error: Exception | None) -> None:
        """Tell the others that all work is done, or raise an error of one process on all."""


@final
class Alone(World):
    """The world of one process: collectives are copies."""

    size, process, device = 1, 0, torch.device("cpu")
    members: tuple[int, ...] = ()

    def __init__(self, warning_log: WarningLog | None = None) -> None:
        """Take what a metric has heard; None for a function."""
        self.warning_log = WarningLog() if warning_log is None else warning_log

    def all_gather(self, values: Tensor, gathered: Tensor) -> None:
        """Copy the values."""
        gathered[0].copy_(values)

    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], object]) -> Tensor:
        """Fill the buffer."""
        fill(buffer[1:])
        return buffer[1:]

    def broadcast(self, rows: Tensor, source: int) -> None:
        """Do nothing: the rows are there."""

    def all_to_all(self, rows: Tensor, received: Tensor, num_sent: Sequence[int], num_received: Sequence[int]) -> None:
        """Copy the rows."""
        received.copy_(rows)

    def guarded_all_gather(self, work: Callable[[], tuple[Result, Sequence[int]]]) -> tuple[Result, list[list[int]]]:
        """Do the work, and return its own numbers."""
        done, numbers = work()
        return done, [list(numbers)]

    def texts(self, text: str) -> list[str]:
        """Return the text."""
        return [text]

    def conclude(self, error: Exception | None) -> None:
        """Do nothing: the caller learns of an error anyway."""


ALONE = Alone()


def all_gather_values(world: World, work: Callable[[], Tensor]) -> Tensor:
    """Do local work, and gather the values of one shape that it returns: [size, *shape] on the world's device."""
    sent, gathered = _prepared(world, work, world.size)
    world.all_gather(sent, gathered)
    return gathered


def all_to_all_values(world: World, work: Callable[[], Tensor]) -> Tensor:
    """Do local work, and exchange the values that it returns, [size, *shape]: the i-th of each process go to i."""
    sent, received = _prepared(world, work)
    if sent.numel():
        world.all_to_all(sent, received, [1] * world.size, [1] * world.size)
    return received


def _prepared(world: World, work: Callable[[], Tensor], *copies: int) -> tuple[Tensor, Tensor]:
    """What local work returns, on the world's device, and memory for what is received: as much, or copies of that."""

    def prepare() -> tuple[Tensor, Tensor]:
        sent = work().to(world.device).contiguous()
        # In some versions of PyTorch gloo's threads are not in inference mode with their caller, and may not write to
        # its tensors: https://github.com/pytorch/pytorch/issues/126032.
        with torch.inference_mode(mode=False):
            return sent, sent.new_empty((*copies, *sent.shape))

    return world.guarded(prepare)


def all_reduce_values(world: World, work: Callable[[], Tensor]) -> Tensor:
    """Do local work, and sum the vector that it returns over all processes; on the vector's device."""
    if world.size == 1:
        return world.guarded(work)

    def prepare() -> tuple[Tensor, Tensor]:
        values = work()
        return values, torch.empty(1 + len(values), dtype=values.dtype, device=world.device)

    values, buffer = world.guarded(prepare)
    if not len(values):  # nothing of any process: no message
        return values
    return world.all_reduce_sum(buffer, lambda out: out.copy_(values)).to(values.device)


@contextmanager
def concluding(world: World) -> Iterator[None]:
    """Raise an error of one process on all, also an error behind the last collective."""
    try:
        yield
    except Exception as error:
        world.conclude(error)
        raise
    world.conclude(None)


class SentRows(NamedTuple):
    """The rows that this process sends in an exchange."""

    pieces: Callable[[], Iterable[Tensor]]
    """one after another, so that no second copy of large rows is made"""
    shape: Sequence[int] = ()
    """of a row"""
    dtype: torch.dtype = torch.int64


def exchange_rows(world: World, sizes: Sequence[int], *parts: SentRows) -> list[Tensor]:
    """The rows of all processes, in their order, of each part; `sizes` are the numbers of rows of the processes.

    Each process reserves room for the rows of all, writes its own, and is sent the others by one broadcast from each
    process, into a slice: nothing is padded and nothing is copied.
    """

    def prepare() -> list[Tensor]:
        buffers = []
        for part in parts:
            buffer = torch.empty((sum(sizes), *part.shape), dtype=part.dtype, device=world.device)
            filled = sum(sizes[: world.process])
            for piece in part.pieces():
                buffer[filled : filled + len(piece)] = piece
                filled += len(piece)
            buffers.append(buffer)
        return buffers

    buffers = world.guarded(prepare)
    for buffer in buffers:
        for source, rows in enumerate(buffer.split([*sizes])):
            world.broadcast(rows, source)
    return buffers


def warn_once(world: World, about: str, text: str, is_so: Callable[[], bool] = lambda: True) -> None:
    """Warn on process 0 where `is_so`, once for each topic; all processes must call."""

    def say() -> None:
        if world.process == 0 and is_so():
            world.warning_log.warn_once(about, text)

    world.guarded(say)  # a warning may be an error


def differing(what: str, values: Sequence[object]) -> DistributedMetricError:
    """The error to raise on all processes when their values differ; each must know the values of all."""
    return disagreement(f"have the same {what}", values)


def disagreement(rule: str, values: Sequence[object]) -> DistributedMetricError:
    """The error to raise on all processes when they do not follow a rule; each must know the values of all."""
    listed = "; ".join(f"process {process}: {value}" for process, value in enumerate(values))
    return DistributedMetricError(f"All processes must {rule}; got {listed}.")


@dataclass(frozen=True)
class Settings:
    """The call of a metric, as text that is the same in every process."""

    metric: str
    """name of the class"""
    method: str
    options: Mapping[str, str]
    """options of the value, by the names that users know"""
    implied: Mapping[str, str]
    """derived values; named in the error only if all options agree"""


def meet(
    world: World, look: Callable[[], tuple[Result, Sequence[int]]], describe: Callable[[], Settings]
) -> tuple[Result, list[list[int]]]:
    """Begin a computation: do local work, gather the numbers that it returns, and compare the settings.

    It is the first message between the processes, of one shape for all settings.

    Raises:
        DistributedMetricError: the work failed on some process, or settings differ.
    """
    if not world.members:
        return world.guarded_all_gather(look)

    def work() -> tuple[tuple[Result, str], list[int]]:
        done, numbers = look()
        text = json.dumps(asdict(describe()), sort_keys=True)
        # A hash of 56 bits: processes compare them in place of the texts.
        digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
        return (done, text), [digest, *numbers]

    (done, text), table = world.guarded_all_gather(work)
    if len({digest for digest, *_ in table}) > 1:
        raise _difference([Settings(**json.loads(each)) for each in world.texts(text)])
    return done, [row[1:] for row in table]


def _difference(settings: Sequence[Settings]) -> DistributedMetricError:
    # In the order in which users see them: class, protocol, options, derived values.
    called = [f"`{each.metric}.{each.method}`" for each in settings]
    if len(set(called)) > 1:
        return disagreement("call the same method of the same class", called)
    options = [each.options for each in settings]
    # If protocols differ, so do the options that they decide.
    protocols = [{name: value for name, value in each.items() if name == "protocol"} for each in options]
    for values in (protocols, options, [each.implied for each in settings]):
        names = [name for name in sorted(set().union(*values)) if len({each.get(name) for each in values}) > 1]
        if len(names) == 1:
            return differing(f"`{names[0]}`", [each.get(names[0]) for each in values])
        if names:
            listed = [", ".join(f"{name}={each.get(name)}" for name in names) for each in values]
            return differing(" and ".join(f"`{name}`" for name in names), listed)
    raise AssertionError  # the digests differ
