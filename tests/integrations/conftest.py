"""Where Lightning runs in tests: in a folder of their own, without its advice."""

import warnings

import pytest


@pytest.fixture
def quiet_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have many workers")
        warnings.filterwarnings("ignore", message=".*LeafSpec")
        yield
