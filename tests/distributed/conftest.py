"""Processes that the tests of this folder share."""

from collections.abc import Iterator

import pytest

from tests.distributed.processes import Processes


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    pool = Processes()
    yield pool
    pool.stop()
