"""Files of a small problem, and the command called in this process, or in two."""

import contextlib
import io
import os
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from torch import distributed

from reid_torchmetrics.command import main
from reid_torchmetrics.command.options import COMMANDS
from tests.command.spoken_words import foreign_words


class Output(NamedTuple):
    """What the command left."""

    status: int
    out: str
    err: str


@pytest.fixture
def reported(monkeypatch):
    """The options of the report, which is not written."""
    options = {}

    def write_report(results, _path, **options_of_report):
        options.update(options_of_report, results=results)

    monkeypatch.setattr("reid_torchmetrics.report.write_report", write_report)
    return options


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """The command, called in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    show = warnings.showwarning

    def call(*words):
        capsys.readouterr()
        try:
            status = main([*map(str, words)])
        except SystemExit as end:
            status = end.code
        finally:
            warnings.showwarning = show
        output = Output(status, *capsys.readouterr())
        if words and words[0] in COMMANDS:  # no message has words of Python
            assert foreign_words(words[0], output.err) == []
        return output

    return call


@pytest.fixture
def two_processes(processes, tmp_path):
    """The command on two processes, as torchrun starts them: what each left."""
    return lambda *words: processes.run(2, called, tmp_path, [*map(str, words)])


def called(process, size, folder, words):
    """What the command leaves on a process of a group that is there already."""
    out, err, show, before = io.StringIO(), io.StringIO(), warnings.showwarning, Path.cwd()
    os.chdir(folder)
    group = mock.patch.multiple(distributed, init_process_group=mock.DEFAULT, destroy_process_group=mock.DEFAULT)
    torchrun = mock.patch.dict(os.environ, WORLD_SIZE=str(size))
    try:
        with torchrun, group, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(words)
    finally:
        os.chdir(before)
        warnings.showwarning = show
    return Output(status, out.getvalue(), err.getvalue())


class Problem(NamedTuple):
    """Queries and a gallery."""

    query: np.ndarray
    gallery: np.ndarray
    query_identities: np.ndarray
    gallery_identities: np.ndarray
    query_cameras: np.ndarray
    gallery_cameras: np.ndarray

    def side(self, name):
        """Embeddings and labels of a side, by the names that torchreid's scripts use."""
        parts = (name, f"{name}_identities", f"{name}_cameras")
        return dict(zip(("feat", "pids", "camids"), (getattr(self, part) for part in parts), strict=True))


@pytest.fixture(scope="session")
def problem():
    random = np.random.default_rng(0)
    centers = random.standard_normal((9, 8))
    identities, cameras = (random.integers(low, high, 62) for low, high in ((-1, 8), (0, 3)))
    embeddings = (centers[identities] + random.standard_normal((62, 8))).astype(np.float32)
    return Problem(*(part for each in (embeddings, identities, cameras) for part in (each[:12], each[12:])))


@pytest.fixture
def files(problem, tmp_path):
    """`query.npz` and `gallery.npz`."""
    for name in ("query", "gallery"):
        np.savez(tmp_path / f"{name}.npz", **problem.side(name))
    return "query.npz", "gallery.npz"
