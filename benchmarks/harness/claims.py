"""Measure functions in turns, say whether a claim about them holds, and keep what was seen in `RESULTS.md`."""

from __future__ import annotations

import datetime as dt
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
COLUMNS = ("script", "claim", "seen", "limit", "holds", "machine", "commit", "date")


def interleaved(
    functions: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each function in each round; the functions take turns, after one round that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for repeat in range(repeats + 1):
        for name, function in functions.items():
            start = clock()
            function()
            if repeat:
                seconds[name].append(clock() - start)
    return seconds


def median_ratio(seconds: list[float], baseline: list[float]) -> float:
    """Median over the rounds of a function's time over the baseline's."""
    return statistics.median(own / other for own, other in zip(seconds, baseline, strict=True))


def claim(text: str, value: float, limit: float) -> bool:
    """Print a claim with the value seen, and say whether it holds; `RECORD=1` writes it to the table of results."""
    holds = value <= limit
    print(f"{'holds' if holds else 'FAILS':>6}  {text}: {value:.2f} (limit {limit:g})")
    if os.environ.get("RECORD"):
        words = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
        today = str(dt.datetime.now(tz=dt.timezone.utc).date())
        seen = f"{value:.2f}", f"{limit:g}", "yes" if holds else "**no**"
        record(RESULTS, Path(sys.argv[0]).name, text, *seen, machine(), commit, today)
    return holds


def record(path: Path, script: str, text: str, *seen: str) -> None:
    """Write the row of a claim into a table, in the place of its row from before."""
    head, _, table = path.read_text(encoding="utf-8").partition(f"| {' | '.join(COLUMNS)} |\n")
    cells = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in table.splitlines()[1:]]
    rows = {row[:2]: row[2:] for row in cells} | {(f"`{script}`", text): seen}
    lines = ["| " + " | ".join(each) + " |" for each in (COLUMNS, ["---"] * len(COLUMNS))]
    lines += [f"| {' | '.join((*key, *rows[key]))} |" for key in sorted(rows)]
    path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def machine() -> str:
    """The processor, and how many cores may be used."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores, {names[0] if names else platform.processor()}"
