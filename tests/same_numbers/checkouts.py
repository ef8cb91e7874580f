"""The two checkouts, and a process that solves problems with the package of each."""

import io
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .answers import Values

ROOT = Path(__file__).resolve().parents[2]


class Solved(NamedTuple):
    """The values of a problem and what identifies it."""

    kind: str
    seed: int
    digest: str
    """hash of the problem, which must be the same for both checkouts"""
    facts: dict[str, object]
    values: Values


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Unpack the `src` of a revision into a temporary folder, and yield that folder."""
    git = shutil.which("git") or "git"
    archive = subprocess.run([git, "archive", revision, "src"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise SystemExit(archive.stderr.decode().strip())
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


def start(folder: Path, kinds: Sequence[str], seeds: range) -> subprocess.Popen[bytes]:
    """Start a process that draws the problems of this checkout and solves them with the package in `folder`/src."""
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    words = ["-m", "tests.same_numbers.worker", str(folder / "src"), str(seeds.start), str(seeds.stop)]
    return subprocess.Popen([sys.executable, *words, *kinds], cwd=ROOT, env=environment, stdout=subprocess.PIPE)


def read(process: subprocess.Popen[bytes]) -> Iterator[Solved]:
    """Yield the problems in the order of their kinds and seeds, as they are solved."""
    assert process.stdout is not None
    while True:
        try:
            solved = pickle.load(process.stdout)
        except EOFError:
            break
        yield Solved(*solved)
    if process.wait():
        raise SystemExit(f"A process ended with status {process.returncode}.")
