"""Pictures of an evaluation on two processes: the first one logs them, once, and both have the same numbers."""

import pytest
import torch

from tests.distributed import pictures_run
from tests.distributed.scripts import run_script
from tests.integrations.pictured_module import CURVES, MAP, files, named

TIMEOUT = 90


def test_pictures_are_logged_once_and_what_fails_in_one_process_leaves_none_waiting(tmp_path):
    stderr = run_script(pictures_run, tmp_path, TIMEOUT)
    first, second = (torch.load(tmp_path / f"process_{process}.pt") for process in range(2))
    assert first["values"] == second["values"]
    assert first["values"]["val/map"] == pytest.approx(MAP)
    assert first["values"]["logged_in_step"] == pytest.approx(MAP)

    # Two rows of a query and its three candidates, and of the images 0 and 10.
    assert first["drawn"] == sorted([0, 1, 2, 3, 4, 2, 3, 4, 0, 1])
    assert second["drawn"] == []
    retrieval = [f"{folder}/{name}" for folder in ("val", "val/val_map", "val/other.here") for name in CURVES]
    detection = [
        *("val/confidence", "val/confusion_counts", "val/confusion_matrix", "val/kinds_of_errors"),
        "val/worst_images",
    ]
    assert files(tmp_path) == named([*retrieval, *detection, "val/hardest_queries"], 0)
    assert stderr.count("OSError: the picture is gone") == 2  # of two metrics, in one process
    assert stderr.count("No picture of `unused` was logged") == 1
