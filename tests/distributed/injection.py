"""Errors at any step of what one process does: at the entry of each function of the package, one after the other.

Only what happens inside of `concluding` counts: before that a process does not know the others, and after it all of
them have ended. The functions of the mechanism itself, `functional/world.py` and `metrics/base/process_group.py`, are
left out, but not the work that they are given.
"""

import contextlib
import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tests.distributed import recording
from tests.distributed.recording import MECHANISM, PACKAGE, DivergedError, RecordingWorld, is_shared
from tests.distributed.scenarios import Scenario

WORKS = {"work", "prepare", "say", "<lambda>"}
"""functions of `functional/world.py` that are done inside of `guarded`"""
UNGUARDED = {"functional/retrieval/ranking/ranks.py:rank", "functional/retrieval/ranking/ranks.py:results"}
"""calls between two collectives: nothing can fail but Python's own call"""


def _counts(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    if not path.startswith(PACKAGE):
        return False
    inside = path.removeprefix(PACKAGE).lstrip("/\\").replace("\\", "/")
    name = frame.f_code.co_name
    if inside in MECHANISM:
        return inside == MECHANISM[0] and name in WORKS
    return f"{inside}:{name}" not in UNGUARDED


class Injector:
    """Counts the functions of the package that this thread enters, and raises an error at one of them."""

    def __init__(self, step: int | None = None, error: Callable[[], BaseException] = MemoryError) -> None:
        """Take the number of the function at which to raise, from 0; None only counts."""
        self.num_steps, self._step, self._error = 0, step, error
        self.place = ""
        """where the error was raised"""

    def __enter__(self) -> None:
        gc.disable()  # a generator that an earlier problem left behind must not be closed here: its error would be lost
        sys.setprofile(self._enter)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not recording.is_concluding() or not _counts(frame):
            return
        if self.num_steps == self._step:
            self.place = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_code.co_name}"
            sys.setprofile(None)
            raise self._error()
        self.num_steps += 1


def num_steps(drawn: Scenario, size: int, victim: int) -> int:
    """How many functions a process enters while it asks; 0 if all processes raise anyway.

    Raises:
        ValueError: the metric does not take its options or samples.
        TypeError: a function does not have an argument that it is given.
    """
    counting = Injector()
    (*_, (outcome, _)) = _asked_twice(drawn, size, victim, counting)
    if isinstance(outcome.error, TypeError):
        raise outcome.error
    return counting.num_steps if outcome.error is None else 0


def fail(drawn: Scenario, size: int, victim: int, step: int, error: Callable[[], BaseException]) -> str:
    """Let a process fail at a step of what it asks for; where, if all processes raise or none does.

    A step may not be reached, because caches are used, or be in a generator that nobody waits for: nothing fails then.

    Raises:
        DivergedError: processes take different collectives, some raise and others do not, or the metrics do not work
            afterwards.
    """
    injector = Injector(step, error)
    ends = _asked_twice(drawn, size, victim, injector)
    errors = [first.error for first, _ in ends]
    if len({each is None for each in errors}) > 1:
        raise DivergedError(f"At {injector.place} some processes raise and others do not: {errors!r}.")
    afterwards = [second.error for _, second in ends]
    if any(each is not None for each in afterwards):
        raise DivergedError(f"After an error at {injector.place} the metric does not work: {afterwards!r}.")
    return injector.place


def _asked_twice(
    drawn: Scenario, size: int, victim: int, injector: Injector
) -> list[tuple[recording.Outcome, recording.Outcome]]:
    """How each process ends, the victim inside of the injector, and how it ends when all ask again."""

    def ask(world: RecordingWorld) -> tuple[recording.Outcome, recording.Outcome]:
        metric = drawn.make(distributed_available_fn=is_shared)
        drawn.feed(metric, world.process)
        with injector if world.process == victim else contextlib.nullcontext():
            first = recording.outcome_of(lambda: drawn.ask(metric, world))
        return first, recording.outcome_of(lambda: drawn.ask(metric, world))

    try:
        outcomes, _ = recording.run(size, ask)
    except DivergedError as error:
        raise DivergedError(f"At {injector.place}: {error}") from None
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes]
