"""Tests of what gets no warning at all."""

import warnings

import pytest


@pytest.fixture
def every_warning_is_an_error():
    """Also those that the suite ignores."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
