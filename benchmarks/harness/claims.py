"""Measure functions in turns, say whether a claim about them holds, and keep what was seen in `RESULTS.md`."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch

from .load import busy_seconds, set_threads

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
COLUMNS = ("script", "claim", "seen", "limit", "holds", "machine", "commit", "date")
MOST_OTHERS = 0.1
"""cores that other programs may keep busy while a part is measured, if its rows are to be recorded"""

_HOLDS: dict[str, bool] = {}
"""of this run, by the sentence"""
_ROWS: dict[str, tuple[str, ...]] = {}
"""of this run, what the table says beside the sentence"""


def main(*parts: Callable[[], object], more: tuple[Callable[[], object], ...] = ()) -> NoReturn:
    """Measure all parts of a script, or those of the command line; exit with 1 if a claim fails or a part raises.

    `more` are measured only when they are named. `RECORD=1` writes what was seen to the table of results, except for
    parts that raised, and for parts during which other programs kept more than `MOST_OTHERS` cores busy: their old
    rows stay.
    """
    script = sys.modules["__main__"]
    parser = argparse.ArgumentParser(description=script.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = {part.__name__: part for part in (*parts, *more)}
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(names))
    chosen = parser.parse_args().parts
    if not names.keys() >= {*chosen}:
        parser.error(f"parts are {', '.join(names)}")
    print(machine(), flush=True)
    left_out = []
    for part in [names[name] for name in chosen] or parts:
        start, others_before = time.perf_counter(), busy_seconds()
        claimed = {*_ROWS}
        try:
            part()
        except Exception:  # noqa: BLE001 - the other parts are measured all the same
            _HOLDS[part.__name__] = False
            left_out.append(part.__name__)
            traceback.print_exc()
        seconds = time.perf_counter() - start
        others = (busy_seconds() - others_before) / seconds
        print(f"{part.__name__}: {seconds:.0f} s; other programs kept {others:.2f} cores busy", flush=True)
        if others > MOST_OTHERS:
            left_out.append(part.__name__)
            for text in _ROWS.keys() - claimed:
                del _ROWS[text]
    if os.environ.get("RECORD"):
        where = machine(), commit(), str(dt.datetime.now(tz=dt.timezone.utc).date())
        rows = {text: (*row, *where) for text, row in _ROWS.items()}
        record(RESULTS, Path(str(script.__file__)).name, rows, is_all=not chosen and not left_out)
        if left_out:
            sys.exit(f"not recorded: {', '.join(left_out)}")
    sys.exit(0 if all(_HOLDS.values()) else 1)


def interleaved(
    functions: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each function in each round; the functions take turns, after one round that does not count.

    Libraries that this first round loads get as many threads as torch has.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    set_threads(torch.get_num_threads())
    for _ in range(repeats):
        for name, function in functions.items():
            start = clock()
            function()
            seconds[name].append(clock() - start)
    return seconds


def compare(text: str, own: list[float], other: list[float], limit: float, *, peer: str = "", unit: str = "s") -> None:
    """Claim the median over the rounds of one cost over the other, which may have fewer rounds."""
    medians = statistics.median(own), statistics.median(other)
    same = len(own) == len(other)
    ratio = statistics.median(a / b for a, b in zip(own, other, strict=True)) if same else medians[0] / medians[1]
    both = " over ".join(with_unit(median, unit) for median in medians)
    claim(text, ratio, limit, "times", detail=both + f" of {peer}" * bool(peer))


def claim(text: str, value: float, limit: float, unit: str = "", *, detail: str = "") -> None:
    """Print a sentence with the value seen and whether it holds.

    Raises:
        ValueError: a sentence says the same as another of the script.
    """
    if text in _HOLDS:
        raise ValueError(f"claimed twice: {text}")
    holds = _HOLDS[text] = value <= limit
    seen = with_unit(value, unit) + f" ({detail})" * bool(detail)
    print(f"{'holds' if holds else 'FAILS':>6}  {text} {seen}; limit {with_unit(limit, unit)}", flush=True)
    _ROWS[text] = seen, with_unit(limit, unit), "yes" if holds else "**no**"


def is_there(package: str) -> bool:
    """Whether it can be imported, with a message if not."""
    found = importlib.util.find_spec(package) is not None
    if not found:
        print(f"{package} is not installed (pip install --group bench)")
    return found


def with_unit(value: float, unit: str) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f} {unit}".strip() if abs(value) >= 100 else f"{value:.3g} {unit}".strip()


def record(path: Path, script: str, seen: dict[str, tuple[str, ...]], *, is_all: bool) -> None:
    """Write the rows of claims into a table, in the place of the script's rows from before: of these, or of all."""
    head, _, table = path.read_text(encoding="utf-8").partition(f"| {' | '.join(COLUMNS)} |\n")
    cells = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in table.splitlines()[1:]]
    rows = {row[:2]: row[2:] for row in cells if not (is_all and row[0] == f"`{script}`")}
    rows |= {(f"`{script}`", text): row for text, row in seen.items()}
    lines = ["| " + " | ".join(each) + " |" for each in (COLUMNS, ["---"] * len(COLUMNS))]
    lines += [f"| {' | '.join((*key, *rows[key]))} |" for key in sorted(rows)]
    path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def commit() -> str:
    """What is measured."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd=RESULTS.parent).stdout.strip()


def machine() -> str:
    """The processor, how many cores may be used, and the widest instructions that NumPy uses, such as in its sorts.

    The family and the model tell processors of one name apart: with AVX-512 some sort several times as fast as others.
    """
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))}
    processor = fields.get("model name", platform.processor())
    if "cpu family" in fields:
        processor = f"{processor} (family {fields['cpu family']}, model {fields['model']})"
    instructions = np.show_config(mode="dicts")["SIMD Extensions"]
    widest = [*instructions["baseline"], *instructions["found"]][-1]
    return f"{os.cpu_count()} cores, {processor}, NumPy with {widest}"
