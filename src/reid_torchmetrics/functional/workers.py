"""Our own threads, each of which computes alone: parts of some work, for which nobody has to wait in between.

Where several threads of torch share an operation, all wait for the slowest of them at its end. Beside other processes
that want the cores one of them nearly always waits for a core, and a ranking has thousands of operations. So what is
done on the CPU is done here: a thread takes a part, does all of its operations by itself, and takes the next part.

Whoever shares out work does parts, too, and waits only for parts that somebody has begun, never for a free thread. So
many callers, or a part that shares out work itself, cannot block each other, as long as no part waits for another one.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Generic, TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")

_IS_COUNTED_BY_THREAD = "ATen parallel backend: OpenMP" in torch.__config__.parallel_info()
"""whether `torch.set_num_threads` speaks for the calling thread, and for threads that begin to use torch later"""


class _Place(threading.local):
    """What a thread knows of its work; all that is said here is that of threads that are not ours."""

    is_ours = False
    num_threads = 1
    """how many share what is shared out here"""
    is_unwanted: threading.Event
    """set when the caller no longer waits"""


_place = _Place()
_CPU = torch.device("cpu")


def run(work: Callable[[], Result], device: torch.device, *, inside: bool = False) -> Result:
    """Do work on the CPU on one of our threads; what it shares out goes to as many of them as torch has here.

    It sees whether gradients and inference mode are on where it is called from, but not autocast. `inside` does it on
    the calling thread, as work wants that calls functions of the user. On another device the calling thread does all.
    """
    if device.type != "cpu":
        return _undivided(work)
    num_threads = torch.get_num_threads()
    if inside or _place.is_ours or num_threads == 1:
        return work()
    is_unwanted = threading.Event()
    done = _crew.submit(_placed(work, num_threads, is_unwanted), num_threads)
    try:
        return done.result()
    except BaseException:
        is_unwanted.set()  # after an interrupt by the keyboard the work must end, too
        raise


def share(work: Callable[[Part], Result], parts: Sequence[Part], *, most: int | None = None) -> list[Result]:
    """Do work on all parts, by all threads that are free; results in the order of the parts.

    Where `most` parts may be done at a time, which is fewer than there are threads, each shares out what it can.

    Raises:
        Exception: what the first of the parts that fail raises; no other is begun then.
    """
    if not _place.is_ours and len(parts) > 1 and torch.get_num_threads() > 1:
        return run(lambda: share(work, parts, most=most), _CPU)
    num_threads = _place.num_threads
    num_at_a_time = min(num_threads, len(parts), num_threads if most is None else most)
    if num_at_a_time < 2:
        return [work(part) for part in parts]
    sharing = _Sharing(work, parts)
    take = _placed(sharing.take, num_threads // num_at_a_time, _place.is_unwanted)
    helpers = [_crew.submit(take, num_threads) for _ in range(num_at_a_time - 1)]
    take()
    _place.num_threads = num_threads
    futures.wait([helper for helper in helpers if not helper.cancel()])
    return sharing.outcome()


def _undivided(work: Callable[[], Result]) -> Result:
    """Do work on the calling thread, and all that it shares out."""
    before = _place.is_ours, _place.num_threads
    _place.is_ours, _place.num_threads = True, 1
    try:
        return work()
    finally:
        _place.is_ours, _place.num_threads = before


class _Sharing(Generic[Part, Result]):
    """Parts that are left to do, and what came of the others."""

    def __init__(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> None:
        self._work = work
        self._left = deque(enumerate(parts))
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}

    def take(self) -> None:
        """Do parts until none is left."""
        while not _place.is_unwanted.is_set():
            try:
                number, part = self._left.popleft()
            except IndexError:
                return
            try:
                self._results[number] = self._work(part)
            except BaseException as error:  # noqa: BLE001 - raised by `outcome`
                self._errors[number] = error
                self._left.clear()

    def outcome(self) -> list[Result]:
        """The results, or the error of the first part that failed."""
        if self._errors:
            raise self._errors[min(self._errors)]
        if _place.is_unwanted.is_set():
            raise futures.CancelledError
        return [self._results[number] for number in range(len(self._results))]


def _placed(work: Callable[[], Result], num_threads: int, is_unwanted: threading.Event) -> Callable[[], Result]:
    """Work as one of our threads has to do it for the thread that calls this."""
    is_inference, wants_grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    def placed() -> Result:
        _place.is_ours, _place.num_threads, _place.is_unwanted = True, num_threads, is_unwanted
        with torch.inference_mode(is_inference), torch.set_grad_enabled(wants_grad):
            return work()

    return placed


class _Crew:
    """As many threads as were ever asked for at a time; a forked process begins with none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: futures.ThreadPoolExecutor | None = None
        self._size = 0

    def submit(self, work: Callable[[], Result], num_threads: int) -> futures.Future[Result]:
        """Let one of at least so many threads do work."""
        with self._lock:
            if self._pool is None or self._size < num_threads:
                if self._pool is not None:
                    self._pool.shutdown(wait=False)  # what was submitted is done
                self._pool, self._size = _pool(num_threads), num_threads
            return self._pool.submit(work)


def _pool(size: int) -> futures.ThreadPoolExecutor:
    """Threads of which each counts one thread of torch, whatever is set elsewhere."""
    pool = futures.ThreadPoolExecutor(size, thread_name_prefix="reid_torchmetrics")
    all_there = threading.Barrier(size)

    def use_one_thread(_: int) -> None:
        torch.get_num_threads()  # a thread that was not asked before would forget what it is told
        if _IS_COUNTED_BY_THREAD:
            torch.set_num_threads(1)
        all_there.wait()

    def begin() -> None:
        # What a thread sets holds for itself and for all that begin later. This one is new, so it knows what held for
        # those, and sets it again.
        num_threads = torch.get_num_threads()
        list(pool.map(use_one_thread, range(size)))
        if _IS_COUNTED_BY_THREAD:
            torch.set_num_threads(num_threads)

    beginning = threading.Thread(target=begin)
    beginning.start()
    beginning.join()
    return pool


_crew = _Crew()


def _begin_anew() -> None:
    """Forget the threads of the parent process, which a fork does not copy."""
    global _crew  # noqa: PLW0603
    _crew = _Crew()
    vars(_place).clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_begin_anew)
