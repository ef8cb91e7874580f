"""What one process of a command cannot do is an error on all processes, and none waits."""

from unittest import mock

import numpy as np
import pytest

from reid_torchmetrics.command.sample_sets import SampleSets
from tests.command import conftest


def with_a_broken_disk(process, size, folder, words):
    """What the command leaves where only the last process cannot read its rows."""
    if process < size - 1:
        return conftest.called(process, size, folder, words)
    with mock.patch.object(SampleSets, "batches", side_effect=OSError("the disk is broken")):
        return conftest.called(process, size, folder, words)


@pytest.mark.parametrize("command", ["evaluate", "duplicates"])
def test_a_file_that_one_process_cannot_read_ends_both(processes, tmp_path, command):
    rows = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    labels = {"identities": np.arange(8) % 2, "cameras": np.arange(8) % 3}
    for name in ("query", "gallery"):
        np.savez(tmp_path / f"{name}.npz", embeddings=rows, **labels)
    words = [command, "query.npz", "gallery.npz"]
    for said in processes.run(2, with_a_broken_disk, tmp_path, words):
        assert said.status == 1
        assert "the disk is broken" in said.err
