"""Folders of readers of two folders."""

from pathlib import Path

import pytest


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    """Empty ones of the ground truths and of the results."""
    labels, results = tmp_path / "labels", tmp_path / "results"
    labels.mkdir()
    results.mkdir()
    return labels, results
