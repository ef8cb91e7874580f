"""The cores that other programs keep busy, and the threads of this one's libraries."""

from __future__ import annotations

import os
from pathlib import Path

import torch


def busy_seconds() -> float:
    """Seconds of all cores that other programs have used, or that the host of a virtual machine has taken; on Linux.

    A process that this one started counts as this one's when it has ended and was waited for. Elsewhere it is 0.
    """
    about = Path("/proc/stat")
    if not about.exists():
        return 0.0
    first, *_ = about.read_text(encoding="utf-8").splitlines()
    user, nice, system, _, _, interrupts, soft_interrupts, stolen, *_ = map(int, first.split()[1:])
    all_programs = (user + nice + system + interrupts + soft_interrupts + stolen) / os.sysconf("SC_CLK_TCK")
    return all_programs - sum(os.times()[:4])


def set_threads(number: int) -> None:
    """Give torch, and the BLAS and OpenMP of all libraries that are loaded, so many threads.

    OpenBLAS, which NumPy multiplies with, otherwise spins on all cores, and its time counts as a peer's.
    """
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - the benchmark of GPUs does without

    torch.set_num_threads(number)
    threadpool_limits(number)
