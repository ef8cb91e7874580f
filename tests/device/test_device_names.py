"""Every public function runs on a device in some test of this room."""

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
    sources = [
        path.read_text(encoding="utf-8")
        for path in Path(__file__).parent.glob("test_device_*.py")
        if path != Path(__file__)
    ]
    functions = [name for name in module.__all__ if inspect.isfunction(getattr(module, name))]
    named = set(re.findall(r"\w+", "\n".join(sources)))
    assert set(functions) - set(ABOUT_NAMES) <= named
