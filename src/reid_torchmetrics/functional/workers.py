"""A thread pool with workers that each run independent parts of a computation.

If several threads of torch share an operation, all wait for the slowest of them at its end. If other processes need the
cores as well, one thread nearly always waits for a core, and a ranking has thousands of operations. So here a thread
takes a part, does all of its operations by itself, and takes the next part.

A thread that shares out work does parts, too, and waits only for parts that have begun, never for a free thread. So
many callers, or a part that shares out work itself, cannot block each other, as long as no part waits for another one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from contextvars import copy_context
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")

_IS_COUNTED_BY_THREAD = "ATen parallel backend: OpenMP" in torch.__config__.parallel_info()
"""whether `torch.set_num_threads` affects only the calling thread, and threads that begin to use torch later"""


class _Place(threading.local):
    """State of a thread; the defaults are for threads outside of the pool."""

    is_ours = False
    """whether the thread runs a part"""
    num_threads = 1
    """number of threads for work that is shared out on this thread"""
    is_unwanted = threading.Event()
    """set when the caller no longer waits"""


_place = _Place()
_CPU = torch.device("cpu")


def run(work: Callable[[], Result], device: torch.device, *, inside: bool = False) -> Result:
    """Do work on a thread of the pool, so that it can share out parts to as many threads as torch uses.

    The work sees the caller's context variables, gradient and inference mode, but not its autocast. `inside` keeps it
    on the calling thread, for work that calls functions of the user. For a device other than the CPU the calling thread
    does all.
    """
    if device.type != "cpu":
        work_here = _placed(work, 1, _place.is_unwanted)  # with one thread parts stay on this thread
        return work_here()
    num_threads = torch.get_num_threads()
    if inside or _place.is_ours or num_threads == 1:
        return work()
    is_unwanted = threading.Event()
    future = _pool.submit(_placed(work, num_threads, is_unwanted))
    try:
        return future.result()
    except BaseException:
        is_unwanted.set()  # after a KeyboardInterrupt the work must end, too
        raise


def share(work: Callable[[Part], Result], parts: Sequence[Part], *, most: int | None = None) -> list[Result]:
    """Do work on all parts by all free threads; return the results in the order of the parts.

    `most` limits the number of parts at a time. If it is less than the number of threads, each part may share out work,
    too; 1 leaves all parts to the calling thread.

    Raises:
        Exception: the error of the first part that fails; then no other part is begun.
    """
    if not _place.is_ours and len(parts) > 1 and most != 1 and torch.get_num_threads() > 1:
        return run(lambda: share(work, parts, most=most), _CPU)
    num_threads = _place.num_threads
    num_at_a_time = min(num_threads, len(parts))
    if most is not None:
        num_at_a_time = min(num_at_a_time, most)
    if num_at_a_time < 2:
        return [work(part) for part in parts]
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}
    numbered = enumerate(parts)  # shared by all threads: each takes the next part

    def take() -> None:
        for number, part in numbered:
            if errors or _place.is_unwanted.is_set():
                return
            try:
                results[number] = work(part)
            except BaseException as error:  # noqa: BLE001 - raised below
                errors[number] = error

    take_here = _placed(take, num_threads // num_at_a_time, _place.is_unwanted)
    helpers = [_pool.submit(take_here) for _ in range(num_at_a_time - 1)]
    take_here()
    futures.wait([helper for helper in helpers if not helper.cancel()])
    if errors:
        raise errors[min(errors)]
    if _place.is_unwanted.is_set():
        raise futures.CancelledError
    return [results[number] for number in range(len(parts))]


def _placed(work: Callable[[], Result], num_threads: int, is_unwanted: threading.Event) -> Callable[[], Result]:
    """Wrap work so that it runs in the caller's context and gradient modes, and shares out to `num_threads` threads."""
    context = copy_context()
    is_inference = torch.is_inference_mode_enabled()
    wants_grad = torch.is_grad_enabled()

    def placed() -> Result:
        before = _place.is_ours, _place.num_threads, _place.is_unwanted
        _place.is_ours, _place.num_threads, _place.is_unwanted = True, num_threads, is_unwanted
        try:
            with torch.inference_mode(is_inference), torch.set_grad_enabled(wants_grad):
                return context.copy().run(work)  # threads cannot share a context
        finally:
            _place.is_ours, _place.num_threads, _place.is_unwanted = before

    return placed


def _use_one_thread(beginning: threading.Lock) -> None:
    """Let a new thread of the pool use one thread of torch, without a change for other threads."""
    if not _IS_COUNTED_BY_THREAD:
        return
    with beginning:
        # A setting holds for its thread and for all threads that begin later. This thread is new, so it knows the
        # setting for later threads, and another new one restores it.
        num_threads = torch.get_num_threads()  # must come first: otherwise the thread would forget the setting
        torch.set_num_threads(1)
        restoring = threading.Thread(target=torch.set_num_threads, args=(num_threads,))
        restoring.start()
        restoring.join()


def _begin_anew() -> None:
    """Create a new pool, also after a fork, which does not copy threads; its threads start when they are needed."""
    global _pool  # noqa: PLW0603
    _pool = futures.ThreadPoolExecutor(os.cpu_count(), "reid_torchmetrics", _use_one_thread, (threading.Lock(),))
    vars(_place).clear()


_pool: futures.ThreadPoolExecutor
_begin_anew()
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_begin_anew)
