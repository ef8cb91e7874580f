"""Where Lightning runs in tests: in a folder of their own, without its advice."""

import sys
import warnings
from types import ModuleType

import pytest


@pytest.fixture
def quiet_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have many workers")
        warnings.filterwarnings("ignore", message=".*LeafSpec")
        yield


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """What is written without a path lies in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _litlogger(monkeypatch):
    class LitImage:
        def __init__(self, data, format="png", description=""):  # noqa: A002 - theirs
            self.data = data

    module = ModuleType("litlogger")
    module.Image = LitImage
    monkeypatch.setitem(sys.modules, "litlogger", module)
