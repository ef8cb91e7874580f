"""A process group for the tests of this room."""

import pytest
from torch import distributed


@pytest.fixture
def process_group(tmp_path):
    """A process group of this process alone."""
    distributed.init_process_group("gloo", init_method=(tmp_path / "store").as_uri(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()
