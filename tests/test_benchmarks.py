"""Benchmarks are not run here, but for the trials of those for machines that are seldom at hand; all can be loaded."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_the_steps_of_the_gpu_benchmark_run_on_a_cpu():
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--trial"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "| numbers that differ | none |" in finished.stdout  # of the last step


def test_every_benchmark_finds_what_it_imports():
    load = "import runpy, sys; [runpy.run_path(path, run_name='loaded') for path in sys.argv[1:]]"
    scripts = sorted(map(str, BENCHMARKS.glob("*.py")))
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); {load}", *scripts]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
