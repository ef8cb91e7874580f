"""Every public function runs on a device in some test of this room, or in the problems and calls that it draws on."""

import inspect
import re
from pathlib import Path

import pytest

import reid_torchmetrics
from reid_torchmetrics import plot
from reid_torchmetrics.functional import detection, retrieval

ABOUT_NAMES = ("find_protocol", "picture_at", "progress")  # they see no tensor


@pytest.mark.parametrize("module", [reid_torchmetrics, retrieval, detection, plot])
def test_every_public_function_is_run_on_a_device(module):
    here = Path(__file__)
    paths = [path for path in here.parent.glob("test_device_*.py") if path != here]
    paths += [*(here.parents[1] / "same_numbers").glob("*.py"), here.parents[1] / "public_calls.py"]
    sources = [path.read_text(encoding="utf-8") for path in paths]
    functions = [name for name in module.__all__ if inspect.isfunction(getattr(module, name))]
    named = set(re.findall(r"\w+", "\n".join(sources)))
    assert set(functions) - set(ABOUT_NAMES) <= named
