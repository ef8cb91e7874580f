"""Files of a small problem, and the command called in this process."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest

from reid_torchmetrics.command import main


class Said(NamedTuple):
    """What the command left."""

    status: int
    out: str
    err: str


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
        return Said(status, *capsys.readouterr())

    return call


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
