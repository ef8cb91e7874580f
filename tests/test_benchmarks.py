"""The measurements for machines that are seldom at hand run on any: their trials."""

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_the_steps_of_the_gpu_benchmark_run_on_a_cpu():
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--trial"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "| numbers that differ | none |" in finished.stdout  # of the last step
