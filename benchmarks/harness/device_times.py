"""Times and waits on a device, measured as the device sees them; on the CPU by the clock."""

from __future__ import annotations

import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch


class Device:
    """The device that is measured: a GPU, or the CPU for a trial of the measurements themselves."""

    def __init__(self, *, is_trial: bool) -> None:
        self.is_trial = is_trial
        self.name = "cpu" if is_trial else "cuda"
        self.title = "trial on the CPU" if is_trial else torch.cuda.get_device_name()

    def finish(self) -> None:
        """Wait until all is done."""
        if not self.is_trial:
            torch.cuda.synchronize()

    def milliseconds(self, work: Callable[[], object], repeats: int = 15) -> float:
        """Median of single runs, after two that do not count."""
        repeats = 1 if self.is_trial else repeats
        return statistics.median([self._once(work) for _ in range(repeats + 2)][2:])

    def _once(self, work: Callable[[], object]) -> float:
        self.finish()
        if self.is_trial:
            start = time.perf_counter()
            work()
            return 1e3 * (time.perf_counter() - start)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def seconds(self, work: Callable[[], object]) -> float:
        """Of one run, by the clock, until the device is done."""
        self.finish()
        start = time.perf_counter()
        work()
        self.finish()
        return time.perf_counter() - start

    def peak_bytes(self, work: Callable[[], object]) -> int:
        """The most that is allocated beside what was there before; 0 in a trial."""
        if self.is_trial:
            work()
            return 0
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before

    def waits(self, work: Callable[[], object]) -> Counter[str]:
        """How often the host waits for the device, by where; none in a trial."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            if not self.is_trial:
                torch.cuda.set_sync_debug_mode("warn")
            try:
                work()
            finally:
                if not self.is_trial:
                    torch.cuda.set_sync_debug_mode("default")
        waits = (each for each in said if "called a synchronizing CUDA operation" in str(each.message))
        where = (f"{Path(each.filename).name}:{each.lineno}" for each in waits)
        return Counter(where)

    def num_kernels(self, work: Callable[[], object]) -> int:
        """How many kernels are launched; 0 in a trial."""
        if self.is_trial:
            work()
            return 0
        from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415 - starts the profiler's library

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            work()
        return sum(event.count for event in seen.key_averages() if "LaunchKernel" in event.key)
