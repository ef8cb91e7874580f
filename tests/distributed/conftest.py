"""Processes that the tests of this folder share."""

from collections.abc import Iterator

import pytest

from tests.distributed.ranks import Ranks


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    pool = Ranks()
    yield pool
    pool.stop()
