"""The tests of an inner ring pass where the outer rings are deleted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.absent_rings import PACKAGE, RINGS

ROOT = Path(__file__).parents[1]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("deleted", "tests"),
    [(RINGS, ("functional", "metrics")), (RINGS[1:], ("functional", "metrics", "tasks"))],
    ids=["tasks and tools", "tools"],
)
def test_inner_rings_pass_their_tests_without_the_outer_ones(deleted, tests, tmp_path):
    for name in ("src", "tests", "docs", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    for ring in deleted:
        shutil.rmtree(tmp_path / "src" / PACKAGE / ring)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "TEST_PROFILE": "suite"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/{name}" for name in tests)]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:]
