"""Compares all numbers with those of another revision: `python -m tests.same_numbers REVISION [KIND ...]`.

Not a part of the test suite. Problems of each kind are drawn by this checkout and solved with the package of both, that
of this one with its uncommitted changes. Numbers are compared to the bit, errors by their type and text. It writes the
problems that differ, with the seed, the options, the names of the numbers and both values, and a table; it exits with 1
if anything differs. `--seed N --problems 1` repeats a problem.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import differences
from .checkouts import ROOT, checkout, read, start
from .kinds import KINDS


def main(arguments: list[str] | None = None) -> int:
    """Compare the problems of all kinds, and return the status."""
    parser = argparse.ArgumentParser(prog="python -m tests.same_numbers", description=__doc__)
    parser.add_argument("revision", help="revision of git that is compared with this checkout")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"kinds of problems: {', '.join(KINDS)} [all]")
    parser.add_argument("--problems", type=int, default=2000, metavar="N", help="problems of each kind [2000]")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the first problem [0]")
    parser.add_argument("--list", type=int, default=5, metavar="N", help="problems of each kind to describe [5]")
    parser.add_argument("--numbers", type=int, default=5, metavar="N", help="numbers of each problem to show [5]")
    asked = parser.parse_args(arguments)
    unknown = [kind for kind in asked.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"unknown kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
    began = time.perf_counter()
    kinds = asked.kinds or list(KINDS)
    seeds = range(asked.seed, asked.seed + asked.problems)
    with checkout(asked.revision) as earlier:
        summaries = compare(earlier, kinds, seeds, most_problems=asked.list, most_numbers=asked.numbers)
    lines = ["", differences.HEADER, *(summary.line() for summary in summaries)]
    for summary in summaries:
        lines += [f"{summary.kind}: {count:,} differ in {name}" for name, count in summary.names.most_common(20)]
    lines.append(f"{time.perf_counter() - began:.0f} s")
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(summary.num_different for summary in summaries))


def compare(
    earlier: Path, kinds: Sequence[str], seeds: range, *, most_problems: int, most_numbers: int
) -> list[differences.Summary]:
    """Solve the problems of all kinds in both checkouts, describe those that differ, and count."""
    summaries = {kind: differences.Summary(kind) for kind in kinds}
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(start(folder, kinds, seeds)) for folder in (earlier, ROOT)]
        for before, now in zip(*map(read, processes), strict=True):
            summary = summaries[now.kind]
            if before.digest != now.digest:
                raise SystemExit(f"The problem {now.kind} --seed {now.seed} was not drawn alike for both checkouts.")
            different = differences.differing_names(before.values, now.values)
            summary.count(before.values, now.values, different)
            if different and summary.num_different <= most_problems:
                values = (before.values, now.values)
                text = differences.description(now.kind, now.seed, now.facts, values, different, most_numbers)
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
    return list(summaries.values())


if __name__ == "__main__":
    sys.exit(main())
