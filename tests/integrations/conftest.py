"""Where Lightning runs in tests: in a folder of their own, without its advice."""

import sys
import warnings
from types import ModuleType

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from tests.integrations.clients import ClearMLLogger


@pytest.fixture
def quiet_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have many workers")
        warnings.filterwarnings("ignore", message=".*LeafSpec")
        yield


@pytest.fixture
def drawn_figures():
    """For tests that look at figures, which else stay empty."""


@pytest.fixture
def blank_figures(request, monkeypatch):
    """Figures stay empty, for tests of which there are: to draw them takes most of the time."""
    if "drawn_figures" not in request.fixturenames:
        monkeypatch.setattr(FigureCanvasAgg, "draw", FigureCanvasAgg.get_renderer)


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """What is written without a path lies in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _packages(monkeypatch):
    """Stand-ins of the packages of loggers, each with its class of images."""

    class DataImage:
        def __init__(self, data, format="png", description="", caption=None):  # noqa: A002 - theirs
            self.data = data

    for name in ("litlogger", "wandb", "swanlab", "trackio", "clearml"):
        module = ModuleType(name)
        module.Image, module.Logger = DataImage, ClearMLLogger
        monkeypatch.setitem(sys.modules, name, module)
