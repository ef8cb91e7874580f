"""Compares all numbers with those of another revision: `python -m tests.same_numbers REVISION [KIND ...]`.

Not a part of the test suite. Problems of each kind are drawn by this checkout and solved with the package of both, that
of this one with its uncommitted changes. Numbers are compared to the bit, texts such as tables of results by their
characters, and errors by their type and text. It describes the first problems that differ, with the seed, the options,
the names of the values and both values, and writes a table. It exits with 1 if anything differs. `--seed N` and
`--problems 1` repeat a problem. `--numbers-only` compares no texts, and errors by their type alone.
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
    parser.add_argument("--values", type=int, default=5, metavar="N", help="values of each problem to describe [5]")
    parser.add_argument("--numbers-only", action="store_true", help="compare no texts, and errors by their type alone")
    asked = parser.parse_args(arguments)
    unknown = [kind for kind in asked.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"unknown kind {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
    began = time.perf_counter()
    kinds = asked.kinds or list(KINDS)
    seeds = range(asked.seed, asked.seed + asked.problems)
    with checkout(asked.revision) as earlier:
        summaries = compare(
            earlier, kinds, seeds, most_problems=asked.list, most_values=asked.values, numbers_only=asked.numbers_only
        )
    lines = ["", differences.HEADER, *(summary.line() for summary in summaries)]
    for summary in summaries:
        lines += [f"{summary.kind}: {count:,} differ in {name}" for name, count in summary.names.most_common(20)]
    lines.append(f"{time.perf_counter() - began:.0f} s")
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(summary.num_different for summary in summaries))


def compare(
    earlier: Path,
    kinds: Sequence[str],
    seeds: range,
    *,
    most_problems: int,
    most_values: int,
    numbers_only: bool = False,
) -> list[differences.Summary]:
    """Solve the problems of all kinds in both checkouts, describe those that differ, and count."""
    summaries = {kind: differences.Summary(kind) for kind in kinds}
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(start(folder, kinds, seeds)) for folder in (earlier, ROOT)]
        for before, now in zip(*map(read, processes), strict=True):
            summary = summaries[now.kind]
            if before.digest != now.digest:
                raise SystemExit(f"The problem {now.kind} --seed {now.seed} was not drawn alike for both checkouts.")
            values = before.values, now.values
            if numbers_only:
                values = differences.numbers_of(before.values), differences.numbers_of(now.values)
            different = differences.differing_names(*values)
            summary.count(*values, different)
            if different and summary.num_different <= most_problems:
                text = differences.description(now.kind, now.seed, now.facts, values, different, most_values)
                sys.stdout.write(text + "\n")
                sys.stdout.flush()
    return list(summaries.values())


if __name__ == "__main__":
    sys.exit(main())
