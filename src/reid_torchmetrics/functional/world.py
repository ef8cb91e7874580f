"""Interface to the processes that share a problem.

Code for several processes is written once, with calls of a `World` that it receives: `ALONE`, or the world of
`torch.distributed`, which is made outside of this layer.

A collective that only some processes reach hangs the others. Therefore the number and the shapes of collectives depend
only on options and sizes that all processes have agreed on, never on the samples of one process. Between two
collectives nothing may fail outside of `guarded`, `guarded_all_gather` or the `fill` of `all_reduce_sum`, which raise
the error of one process on all processes. Buffers are reserved there as well.

A computation begins with `agree`, in which processes compare their settings. It ends with calls of the tool that says
why a number is probably not what the user meant. No number depends on it:

    images  --> images_given(record, batch)            --> reid_torchmetrics.diagnosis, if it is there
    samples --> samples_shared(samples, world)         --> the same
    numbers --> results_made(results, samples, world)  --> the same

All processes must call the last two, and an error there, such as a warning that the user turned into one, is raised on
all of them.

Hashes of 64 bits identify samples and images, also between processes: equal values have equal hashes, and different
values nearly never do.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar, final

import torch
from jaxtyping import Int
from torch import Tensor

from reid_torchmetrics import _extras
from reid_torchmetrics._warnings import asking, warn

Result = TypeVar("Result")

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
"""dtypes; processes send the position of a dtype in this list"""

# Of hashes.
_SHIFTS = (30, 27, 31)
_FACTORS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
_STEP = -0x61C8864680B583EB


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
        if self.note(topic):
            warn(text, category)

    def note(self, topic: str) -> bool:
        """Note a topic, and return whether it is new; a function notes nothing, and each topic is new to it.

        While `diagnose` asks, nothing is noted, and no topic is new.
        """
        if self.has(topic) or asking.get() is not None:
            return False
        if self.topics is not None:
            self.topics.add(topic)
        return True


class World(ABC):
    """The processes that share a problem; all of them make the same calls in the same order."""

    size: int
    """number of processes"""
    process: int
    """number of this process"""
    members: tuple[int, ...]
    """global numbers of the processes, which identify the group; empty for one process"""
    device: torch.device
    """device of the tensors that are exchanged; the first message determines it"""
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
        """Do local work, and raise its error on every process."""
        return self.guarded_all_gather(lambda: (work(), ()))[0]

    @abstractmethod
    def guarded_all_gather(self, work: Callable[[], tuple[Result, Sequence[int]]]) -> tuple[Result, list[list[int]]]:
        """Do local work, and gather the few numbers that it returns, equally many on each process."""

    @abstractmethod
    def texts(self, text: str) -> list[str]:
        """Gather a text from each process."""

    @abstractmethod
    def conclude(self, error: Exception | None) -> None:
        """End a computation: raise an error of one process on all processes."""


@final
class Alone(World):
    """The world of one process: collectives are copies."""

    size, process, device = 1, 0, torch.device("cpu")
    members: tuple[int, ...] = ()

    def __init__(self, warning_log: WarningLog | None = None) -> None:
        """Take the topics that a metric has warned about; None for a function."""
        self.warning_log = WarningLog() if warning_log is None else warning_log

    def all_gather(self, values: Tensor, gathered: Tensor) -> None:
        """Copy the values."""
        gathered[0].copy_(values)

    def all_reduce_sum(self, buffer: Tensor, fill: Callable[[Tensor], object]) -> Tensor:
        """Fill the buffer."""
        fill(buffer[1:])
        return buffer[1:]

    def broadcast(self, rows: Tensor, source: int) -> None:
        """Do nothing, because the rows are there."""

    def all_to_all(self, rows: Tensor, received: Tensor, num_sent: Sequence[int], num_received: Sequence[int]) -> None:
        """Copy the rows."""
        received.copy_(rows)

    def guarded_all_gather(self, work: Callable[[], tuple[Result, Sequence[int]]]) -> tuple[Result, list[list[int]]]:
        """Do the work, and return its numbers."""
        result, numbers = work()
        return result, [list(numbers)]

    def texts(self, text: str) -> list[str]:
        """Return the text."""
        return [text]

    def conclude(self, error: Exception | None) -> None:
        """Do nothing, because the caller raises an error anyway."""


ALONE = Alone()


def all_gather_values(world: World, work: Callable[[], Tensor]) -> Tensor:
    """Do local work, and gather its values, of one shape on all processes, as [size, *shape] on the world's device."""
    sent, gathered = _prepare_exchange(world, work, num_copies=world.size)
    world.all_gather(sent, gathered)
    return gathered


def all_to_all_values(world: World, work: Callable[[], Tensor]) -> Tensor:
    """Do local work, and exchange its values [size, *shape]: process i receives the i-th values of each process."""
    sent, received = _prepare_exchange(world, work)
    if sent.numel():
        one_each = [1] * world.size
        world.all_to_all(sent, received, one_each, one_each)
    return received


def _prepare_exchange(
    world: World, work: Callable[[], Tensor], *, num_copies: int | None = None
) -> tuple[Tensor, Tensor]:
    """Run `work`, move its result to the world's device, and allocate the receive buffer.

    The buffer has the shape of the result, or [num_copies, *shape].
    """

    def prepare() -> tuple[Tensor, Tensor]:
        sent = work().to(world.device).contiguous()
        shape = sent.shape if num_copies is None else (num_copies, *sent.shape)
        # In some versions of PyTorch gloo's threads are not in the inference mode of their caller, and may not write to
        # its tensors: https://github.com/pytorch/pytorch/issues/126032.
        with torch.inference_mode(mode=False):
            return sent, sent.new_empty(shape)

    return world.guarded(prepare)


def all_reduce_values(world: World, work: Callable[[], Tensor]) -> Tensor:
    """Do local work, and sum its vector over all processes; the sum is on the vector's device."""
    if world.size == 1:
        return world.guarded(work)

    def prepare() -> tuple[Tensor, Tensor]:
        values = work()
        return values, torch.empty(1 + len(values), dtype=values.dtype, device=world.device)

    values, buffer = world.guarded(prepare)
    if len(values) == 0:  # on all processes
        return values
    return world.all_reduce_sum(buffer, lambda out: out.copy_(values)).to(values.device)


@contextmanager
def concluding(world: World) -> Iterator[None]:
    """Raise an error of one process on all processes, even if it occurs after the last collective."""
    try:
        yield
    except Exception as error:
        world.conclude(error)
        raise
    world.conclude(None)


class SentRows(NamedTuple):
    """Rows that this process sends in an exchange."""

    pieces: Callable[[], Iterable[Tensor]]
    """returns the rows in pieces, so that large rows are never held twice"""
    shape: Sequence[int] = ()
    """shape of a row"""
    dtype: torch.dtype = torch.int64


def exchange_rows(world: World, sizes: Sequence[int], *parts: SentRows) -> list[Tensor]:
    """Return the rows of all processes, in the order of the processes, for each part.

    Each process allocates memory for all rows, writes its own rows, and receives the others by one broadcast from each
    process into a slice. Nothing is padded or copied.

    Args:
        world: the processes.
        sizes: number of rows of each process.
        parts: rows that this process sends.
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
        for source, rows in enumerate(buffer.split(list(sizes))):
            world.broadcast(rows, source)
    return buffers


def warn_once(world: World, topic: str, text: str, condition: Callable[[], bool] = lambda: True) -> None:
    """Warn on process 0 if its `condition` holds, once for each topic; all processes must call this function."""

    def warn_here() -> None:
        if world.process == 0 and condition():
            world.warning_log.warn_once(topic, text)

    world.guarded(warn_here)  # users may turn warnings into errors


def differing(quantity: str, values: Sequence[object]) -> DistributedMetricError:
    """Return the error for values that differ between processes; all processes must know all values and raise it."""
    return disagreement(f"have the same {quantity}", values)


def disagreement(rule: str, values: Sequence[object]) -> DistributedMetricError:
    """Return the error for processes that break a rule; all processes must know all values and raise it."""
    by_process = "; ".join(f"process {process}: {value}" for process, value in enumerate(values))
    return DistributedMetricError(f"All processes must {rule}; got {by_process}.")


@dataclass(frozen=True)
class Settings:
    """Description of a method call of a metric, as text that can be compared between processes."""

    metric: str
    """name of the class"""
    method: str
    options: Mapping[str, str]
    """options that change the value, by the names that users know"""
    implied: Mapping[str, str]
    """derived values; the error names them only if all options agree"""


def agree(
    world: World, work: Callable[[], tuple[Result, Sequence[int]]], describe: Callable[[], Settings]
) -> tuple[Result, list[list[int]]]:
    """Begin a computation: do local work, gather the numbers that it returns, and compare the settings.

    This is the first message between the processes. It has the same shape for all settings.

    Returns:
        The result of the work, and the numbers of all processes.

    Raises:
        DistributedMetricError: the work failed on some process, or settings differ.
    """
    if not world.members:
        return world.guarded_all_gather(work)

    def work_and_describe() -> tuple[tuple[Result, str], list[int]]:
        result, numbers = work()
        text = json.dumps(asdict(describe()), sort_keys=True)
        # Processes compare a hash of 56 bits instead of the text.
        digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
        return (result, text), [digest, *numbers]

    (result, text), table = world.guarded_all_gather(work_and_describe)
    digests = {row[0] for row in table}
    if len(digests) > 1:
        texts = world.texts(text)
        raise _difference([Settings(**json.loads(other)) for other in texts])
    return result, [row[1:] for row in table]


def _difference(settings: Sequence[Settings]) -> DistributedMetricError:
    """Return the error for settings that differ; it names what users see first: class, protocol, options, the rest."""
    methods = [f"`{setting.metric}.{setting.method}`" for setting in settings]
    if len(set(methods)) > 1:
        return disagreement("call the same method of the same class", methods)
    options = [setting.options for setting in settings]
    # Protocols that differ also differ in the options that they set.
    protocols = [{"protocol": values["protocol"]} if "protocol" in values else {} for values in options]
    implied = [setting.implied for setting in settings]
    for values_by_process in (protocols, options, implied):
        names = _names_of_differences(values_by_process)
        if len(names) == 1:
            name = names[0]
            return differing(f"`{name}`", [values.get(name) for values in values_by_process])
        if names:
            quantities = " and ".join(f"`{name}`" for name in names)
            return differing(quantities, [_in_words(values, names) for values in values_by_process])
    raise AssertionError  # the digests differ


def _in_words(values: Mapping[str, str], names: Sequence[str]) -> str:
    """Return some values of a process with their names."""
    return ", ".join(f"{name}={values.get(name)}" for name in names)


def _names_of_differences(values_by_process: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the sorted names of values that differ between processes."""
    all_names = sorted(set().union(*values_by_process))
    return [name for name in all_names if len({values.get(name) for values in values_by_process}) > 1]


def samples_shared(samples: Any, world: World) -> Any:
    """Compare the samples of all processes before they are ranked; return what was found, for `results_made`."""
    if _extras.diagnosis is None:
        return None
    return _extras.diagnosis().compare_shards(samples, world)


def results_made(results: Any, samples: Any, world: World = ALONE) -> None:
    """Look at results, and at what they were computed from, and let the first process warn."""
    if _extras.diagnosis is not None:
        _extras.diagnosis().look(results, samples, world)


def images_given(record: dict[str, Any], batch: Any) -> None:
    """Let the tool note in a record what it needs of a batch of images, beyond what numbers need."""
    if _extras.diagnosis is not None:
        _extras.diagnosis().note_images(record, batch)


def mixed(values: Int[Tensor, "*shape"], further: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Hash pairs of numbers; every bit depends on all bits (Steele et al., "Fast splittable generators", 2014)."""
    values = (values + _STEP) ^ further
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        values = (values ^ (values >> shift)) * factor
    return values ^ (values >> _SHIFTS[-1])


def hash_in_order(values: Int[Tensor, "*shape last"]) -> Int[Tensor, "*shape"]:
    """Hash numbers along the last axis; numbers in another order have another hash."""
    places = torch.arange(values.shape[-1], device=values.device)
    return (values * mixed(places, places)).sum(-1)


def owners(world: World, numbers: Int[Tensor, " numbers"]) -> Int[Tensor, " numbers"]:
    """Return the process that owns each number; it depends on the number alone, and is balanced over the processes."""
    return mixed(torch.zeros_like(numbers), numbers) % world.size
