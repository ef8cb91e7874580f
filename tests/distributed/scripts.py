"""Modules of this folder that are run as scripts, in a process of their own, which starts the others."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import reid_torchmetrics


def run_script(module: ModuleType, folder: Path, timeout: float) -> str:
    """Run a module with a folder for what it saves; what all its processes wrote to stderr."""
    environment = os.environ | {"PYTHONPATH": str(Path(reid_torchmetrics.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, "-m", module.__name__, str(folder)],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stderr
