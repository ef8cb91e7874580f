"""Benchmarks are not run here, but for the trial of the one for GPUs, which are seldom at hand; all can be loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RUN = """
import runpy, sys
gpu, *others = sys.argv[1:]
for path in others:
    runpy.run_path(path, run_name="loaded")
sys.argv = [gpu]
runpy.run_path(gpu, run_name="__main__")
"""


@pytest.mark.nightly
def test_every_benchmark_finds_what_it_imports_and_the_parts_of_the_gpu_benchmark_run_on_a_cpu():
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), *sys.path])}
    environment.pop("RECORD", None)
    scripts = [BENCHMARKS / "gpu.py", *sorted({*BENCHMARKS.glob("*.py")} - {BENCHMARKS / "gpu.py"})]
    command = [sys.executable, "-c", RUN, *map(str, scripts)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "\ndetection: " in finished.stdout  # the last part
