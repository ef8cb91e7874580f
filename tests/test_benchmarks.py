"""Benchmarks are not run here, but for the trial of the one for GPUs, which are seldom at hand; all can be loaded."""

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(*command):
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join([str(BENCHMARKS), *sys.path])}
    environment.pop("RECORD", None)
    given = [sys.executable, *map(str, command)]
    finished = subprocess.run(given, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_the_parts_of_the_gpu_benchmark_run_on_a_cpu():
    assert "\ndetection: " in run(BENCHMARKS / "gpu.py")


def test_every_benchmark_finds_what_it_imports():
    load = "import runpy, sys; [runpy.run_path(path, run_name='loaded') for path in sys.argv[1:]]"
    run("-c", load, *sorted(BENCHMARKS.glob("*.py")))
