"""Worlds that note every collective, and fail at once where the processes do not take the same ones.

Each process notes the kind of a collective, where the package asks for it, and what must be alike on all processes. It
exchanges the note with the others before the collective, and once more when it has ended. So processes whose sequences
differ meet in two different notes: all of them raise `DivergedError` with both sequences, and none waits.

`run` lets threads be the processes, for functions that take a world and for metrics. `recorded` is for the processes of
`torch.distributed`.
"""

import contextlib
import functools
import inspect
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import distributed

import reid_torchmetrics
from reid_torchmetrics.command import streams
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.world import WarningLog, concluding
from reid_torchmetrics.metrics import base
from reid_torchmetrics.metrics.base import growing_states
from tests.distributed.threads import SECONDS, ThreadWorld, run_threads

PACKAGE = str(Path(reid_torchmetrics.__file__).parent)
MECHANISM = ("functional/world.py", "metrics/base/process_group.py")
"""the files that make collectives; others ask for them"""
NUM_BYTES = 512  # of a note that is sent
NUM_SHOWN = 4
GATHERS = ("all_gather_single", "all_gather_into_tensor")
COLLECTIVES = ("all_reduce", "broadcast", "all_to_all_single", "all_gather", "all_gather_object", "barrier", *GATHERS)


class Note(NamedTuple):
    """A collective as one process sees it."""

    kind: str
    place: str
    """file and function of the package"""
    form: str = ""
    """dtype and shape, where all processes must have the same"""
    is_failing: bool = False
    """whether the process tells of an error: it may be at another place than the others then"""


class DivergedError(AssertionError):
    """The processes do not take the same collectives."""


class Outcome(NamedTuple):
    """How a function ended on one process."""

    value: Any = None
    error: Exception | None = None


def outcome_of(work: Callable[[], Any]) -> Outcome:
    """How some work ends."""
    try:
        return Outcome(work())
    except Exception as error:  # noqa: BLE001 - a test looks at it
        return Outcome(error=error)


END = Note("end", "")


def place_of_caller() -> str:
    """File and function of the innermost frame of the package that does not belong to the mechanism."""
    frame = sys._getframe(1)
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        inside = path.removeprefix(PACKAGE).lstrip("/\\").replace("\\", "/")
        if path.startswith(PACKAGE) and inside not in MECHANISM:
            return f"{inside}:{name}"
        frame = frame.f_back
    return ""


def difference(notes: Sequence[Note]) -> bool:
    """Whether notes that met are those of different collectives."""
    if len({(note.kind, note.form) for note in notes}) > 1:
        return True
    is_failing = any(note.is_failing for note in notes)
    return not is_failing and len({note.place for note in notes}) > 1


def told(notes: Sequence[Note], before: Sequence[Note]) -> str:
    """What differs, and what all processes did before."""
    lines = [f"process {process}: {' '.join(map(str, note))}" for process, note in enumerate(notes)]
    lines += [f"all before: {' '.join(map(str, note))}" for note in reversed(before[-NUM_SHOWN:])]
    return "\n".join(["The processes take different collectives.", *lines])


class Meeting:
    """What the threads of one run share."""

    def __init__(self, size: int) -> None:
        self.size, self.barrier = size, threading.Barrier(size)
        self.board: list[Any] = [None] * size
        self.sequences: list[list[Note]] = [[] for _ in range(size)]
        self.diverged: str | None = None

    def exchange(self, process: int, note: Note, value: Any = None) -> list[Any]:
        """The values of all processes, if all have the same note."""
        if self.diverged is not None:
            raise DivergedError(self.diverged)
        self.board[process] = note, value
        self.barrier.wait(SECONDS)
        notes, values = zip(*self.board, strict=True)
        if difference(notes):
            self.diverged = told(notes, self.sequences[process])
        self.barrier.wait(SECONDS)
        if self.diverged is not None:
            raise DivergedError(self.diverged)
        self.sequences[process].append(note)
        return [*values]


class RecordingWorld(ThreadWorld):
    """A process that notes its collectives."""

    def __init__(self, process: int, meeting: Meeting, warning_log: WarningLog | None = None) -> None:
        super().__init__(process, meeting.size, meeting.barrier, meeting.board)
        self.meeting = meeting
        self.warning_log = WarningLog(set()) if warning_log is None else warning_log

    def _exchange(self, kind: str, value: Any, *, form: object = None, error: Exception | None = None) -> list[Any]:
        self._is_over = True  # unless the exchange returns
        note = Note(kind, place_of_caller(), "" if form is None else str(form), is_failing=error is not None)
        values = self.meeting.exchange(self.process, note, value)
        self._is_over = False
        return values


_here = threading.local()


def _world_of_thread(_group: object, _device: torch.device, warning_log: WarningLog | None = None) -> RecordingWorld:
    return RecordingWorld(_here.process, _here.meeting, warning_log)


@contextlib.contextmanager
def _noting_concluding(world: RecordingWorld) -> Iterator[None]:
    with concluding(world):
        _here.depth = getattr(_here, "depth", 0) + 1
        try:
            yield
        finally:
            _here.depth -= 1


def is_concluding() -> bool:
    """Whether this thread's errors are told to the others, by `concluding`."""
    return getattr(_here, "depth", 0) > 0


@contextlib.contextmanager
def threads_as_processes() -> Iterator[None]:
    """Let metrics and the command find the world of their thread in the place of a process group."""
    with contextlib.ExitStack() as patched:
        for module in (growing_states, base):  # a share of the rows takes it from the face of the room
            patched.enter_context(mock.patch.object(module, "DistributedWorld", _world_of_thread))
        for module in (growing_states, streams, sys.modules[inspect.unwrap(evaluate_images).__module__]):
            patched.enter_context(mock.patch.object(module, "concluding", _noting_concluding))
        yield


def run(size: int, function: Callable[[RecordingWorld], Any]) -> tuple[list[Outcome], list[Note]]:
    """How `function` ends on each of so many processes, and the collectives that all of them took.

    Metrics that `function` makes need `distributed_available_fn=is_shared` to share their samples.

    Raises:
        DivergedError: the processes took different collectives.
    """
    meeting = Meeting(size)

    def work(process: int) -> Outcome:
        _here.process, _here.meeting = process, meeting
        outcome = outcome_of(lambda: function(RecordingWorld(process, meeting)))
        with contextlib.suppress(DivergedError):
            meeting.exchange(process, END)
        return outcome

    with threads_as_processes():
        outcomes = run_threads([functools.partial(work, process) for process in range(size)])
    if meeting.diverged is not None:
        ends = [f"process {process} ended with {outcome.error!r}" for process, outcome in enumerate(outcomes)]
        raise DivergedError("\n".join([meeting.diverged, *ends]))
    return outcomes, meeting.sequences[0]


def process_of_thread() -> int:
    """The number of the process that this thread is."""
    return _here.process


def is_shared() -> bool:
    """Whether there are other processes: always."""
    return True


@contextlib.contextmanager
def recorded() -> Iterator[list[Note]]:
    """Note and compare the collectives of `torch.distributed` in the default group, on all of its processes.

    Raises:
        DivergedError: the processes took different collectives, or one ended before another.
    """
    notes: list[Note] = []
    gather = next(getattr(distributed, name) for name in GATHERS if hasattr(distributed, name))

    def compare(note: Note) -> None:
        data = json.dumps(note).encode().ljust(NUM_BYTES)
        assert len(data) == NUM_BYTES
        row = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        table = row.new_empty(distributed.get_world_size() * NUM_BYTES)
        gather(table, row)
        received = [Note(*json.loads(part.numpy().tobytes())) for part in table.split(NUM_BYTES)]
        if difference(received):
            raise DivergedError(told(received, notes))
        notes.append(note)

    def noting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def collective(*args: Any, **options: Any) -> Any:
            names = _names_of_callers()
            kind = "message" if "send" in names else name
            form = str([(each.dtype, *each.shape) for each in args if isinstance(each, torch.Tensor)])
            has_form = name in {"all_reduce", "broadcast", *GATHERS}
            is_failing = "raise_everywhere" in names
            compare(Note(kind, place_of_caller(), form if has_form else "", is_failing))
            return original(*args, **options)

        return collective

    with contextlib.ExitStack() as patched:
        for name in COLLECTIVES:
            if hasattr(distributed, name):
                collective = noting(name, getattr(distributed, name))
                patched.enter_context(mock.patch.object(distributed, name, collective))
        try:
            yield notes
        except DivergedError:
            raise
        except Exception:
            compare(END)
            raise
        compare(END)


def _names_of_callers() -> set[str]:
    """Names of the functions of the mechanism that are being called."""
    names, frame = set(), sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith("process_group.py"):
            names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names
