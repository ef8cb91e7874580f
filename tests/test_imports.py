"""The package in processes of their own: what an import loads, and the engine without the tools."""

import shutil
import subprocess
import sys

import pytest

from tests.test_architecture import PACKAGE, ROOT, TOOLS


def loaded_by(*statements: str) -> list[set[str]]:
    """Packages that a new process has loaded after each of some statements."""
    after_each = [f"{statement}\nprint(*sys.modules)" for statement in statements]
    script = "\n".join(["import sys", *after_each])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return [{name.partition(".")[0] for name in line.split()} for line in done.stdout.splitlines()]


LARGE = {"matplotlib", "PIL", "lightning", "pytorch_lightning", "pandas"}
# TorchMetrics itself loads matplotlib where it is installed, and so Pillow: they are forgotten, to be seen again.
TORCHMETRICS_ALONE = f"""import torchmetrics
for name in [*sys.modules]:
    if name.partition(".")[0] in {LARGE}:
        del sys.modules[name]"""


def test_importing_the_package_loads_neither_matplotlib_nor_pillow_nor_lightning_nor_pandas():
    before, *after, seen = loaded_by(
        TORCHMETRICS_ALONE, f"import {PACKAGE}", f"import {PACKAGE}.integrations", "import PIL"
    )
    for loaded in after:
        assert PACKAGE in loaded - before
        assert not loaded & LARGE
    assert seen & LARGE == {"PIL"}  # a large import would be found


ENGINE_ALONE = f"""
import torch
import {PACKAGE}
from {PACKAGE} import DetectionMAP, ReIDMetrics, evaluate
from {PACKAGE}.functional.detection import evaluate_images

samples = torch.eye(4)[[0, 1, 0, 1]], torch.tensor([0, 1, 0, 1])
metrics, results = ReIDMetrics(), evaluate(*(each[place] for each in samples for place in (slice(2), slice(2, 4))))
metrics.update(*samples, is_query=torch.arange(4) < 2)
box = {{"boxes": torch.tensor([[0.0, 0.0, 50.0, 50.0]]), "labels": torch.tensor([1])}}
images = [box | {{"scores": torch.ones(1)}}], [box]
detection = DetectionMAP()
detection.update(*images)
print({PACKAGE}.__file__)
print(results["map"], float(metrics.compute()["map"]), float(detection.compute()["map"]), sep="\\n")
print(evaluate_images(*images)["map"])
try:
    results.plot()
except ModuleNotFoundError as error:
    print(error)
"""


def test_the_engine_computes_without_the_tools(tmp_path):
    shutil.copytree(ROOT, tmp_path / PACKAGE, ignore=shutil.ignore_patterns(*TOOLS, "*.pyc.*"))
    done = subprocess.run(
        [sys.executable, "-c", ENGINE_ALONE], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    path, *numbers, missing = done.stdout.splitlines()
    assert path.startswith(str(tmp_path))
    assert [*map(float, numbers)] == pytest.approx([1.0] * 4)
    assert missing == f"No module named '{PACKAGE}.plot'"
