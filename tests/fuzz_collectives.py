"""Compares the collectives of 2 and of 3 processes: `python -m tests.fuzz_collectives [problems] [first seed]`.

Not a part of the test suite. Each problem is a metric with options, labels and a kind of result, on processes of which
some have no samples. It writes how many collectives were compared, and exits with 1 where the sequences of two
processes differ, or where some processes raise and others do not. `--gloo` takes processes in the place of threads.
"""

import argparse
import sys
import time
import warnings
from collections import Counter

import torch

from tests.distributed import recording
from tests.distributed.processes import Processes
from tests.distributed.scenarios import scenario

SIZES = (2, 3)
AT_ONCE = 50  # problems of processes, which are stopped if they take longer than a test may


def by_threads(seed: int, size: int) -> tuple[int, str]:
    """The number of collectives of a problem, and how it ended."""
    drawn = scenario(seed, size)
    outcomes, notes = recording.run(
        size, lambda world: drawn.outcome(world.process, world, distributed_available_fn=recording.is_shared)
    )
    return len(notes), ended([None if each.error is None else type(each.error).__name__ for each in outcomes])


def ended(errors: list[str | None]) -> str:
    """How all processes ended; raises if some raised and others did not."""
    if None in errors and set(errors) != {None}:
        raise recording.DivergedError(f"Some processes raise and others do not: {errors}.")
    return "returned" if None in errors else "raised"


def on_process(process: int, size: int, seeds: range) -> list[tuple[int, str | None]]:
    """The number of collectives of each problem on a process of a group, and the error."""
    from torch import distributed  # noqa: PLC0415

    from reid_torchmetrics.metrics.base import DistributedWorld  # noqa: PLC0415

    warnings.simplefilter("ignore")
    told = []
    for seed in seeds:
        drawn, error = scenario(seed, size), None
        with recording.recorded() as notes:
            try:
                drawn.outcome(process, DistributedWorld(None, torch.device("cpu")))
            except recording.DivergedError as diverged:
                raise recording.DivergedError(f"seed {seed}: {diverged}") from None
            except Exception as caught:  # noqa: BLE001 - compared
                error = type(caught).__name__
        told.append((len(notes), error))
    distributed.barrier()
    return told


def by_processes(processes: Processes, seeds: range, size: int) -> list[tuple[int, str]]:
    """The same for problems on processes of a group."""
    told = processes.run(size, on_process, seeds)
    return [(rows[0][0], ended([error for _, error in rows])) for rows in zip(*told, strict=True)]


def compared(size: int, seeds: range, *, on_gloo: bool) -> tuple[str, bool]:
    """What was compared on so many processes, and whether all is equal."""
    counts, failed, total, start = Counter(), [], 0, time.perf_counter()
    if on_gloo:
        processes = Processes()
        parts = [seeds[first : first + AT_ONCE] for first in range(0, len(seeds), AT_ONCE)]
    for seed in parts if on_gloo else seeds:
        try:
            rows = by_processes(processes, seed, size) if on_gloo else [by_threads(seed, size)]
        except AssertionError as error:
            failed.append(f"seed {seed}, {size} processes: {error}")
            continue
        total += sum(number for number, _ in rows)
        counts.update(end for _, end in rows)
    if on_gloo:
        processes.stop()
    seconds = time.perf_counter() - start
    lines = [f"{size} processes: {len(seeds):,} problems in {seconds:.0f} s, {total:,} collectives, {dict(counts)}"]
    return "\n".join([*lines, f"different: {len(failed)}", *failed[:20], ""]), not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="?", type=int, default=500)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("--gloo", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    are_equal = True
    for size in SIZES:
        seeds = range(options.first, options.first + options.problems)
        text, is_equal = compared(size, seeds, on_gloo=options.gloo)
        sys.stdout.write(text)
        sys.stdout.flush()
        are_equal &= is_equal
    return int(not are_equal)


if __name__ == "__main__":
    sys.exit(main())
