"""Lightning on two processes: what all of them log is what one process computes with the same weights."""

import math
import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from tests.distributed import lightning_run
from tests.distributed.scripts import run_script
from tests.integrations.pictured_module import CURVES, MAP, files, named

TIMEOUT = 150

pytestmark = pytest.mark.nightly


class Run:
    """What each process saved of a problem."""

    def __init__(self, folder: Path) -> None:
        self.processes = [torch.load(folder / f"process_{process}.pt") for process in range(2)]

    def validations(self) -> list[dict]:
        return [validation for process in self.processes for validation in process["validations"]]


class Script(NamedTuple):
    """What the script left behind, and what both processes wrote to stderr."""

    folder: Path
    runs: dict[str, Run]
    stderr: str


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Script:
    """All problems in one script, as starting it takes most of the time."""
    folder = tmp_path_factory.mktemp("lightning")
    stderr = run_script(lightning_run, folder, TIMEOUT)
    return Script(folder, {problem: Run(folder / problem) for problem in lightning_run.PROBLEMS}, stderr)


@pytest.fixture
def runs(script) -> dict[str, Run]:
    return script.runs


def of_one_process(weight: torch.Tensor, num_samples: int) -> dict[str, float]:
    """The values of all samples once, embedded with `weight`."""
    metrics = ReIDMetrics(ranks=(1, 5), prefix="val/each/")
    given = lightning_run.samples(num_samples)
    metrics.update(
        torch.nn.functional.linear(given["inputs"], weight),
        given["identities"],
        given["cameras"],
        is_query=given["is_query"],
    )
    values = {name: float(value) for name, value in metrics.compute().items()}
    return values | {"val/map": values["val/each/map"]}


def check_values(run: Run, num_samples: int) -> None:
    """Compare two epochs and a validation afterwards, on two processes."""
    assert len(run.validations()) == 2 * 3
    for validation in run.validations():
        assert validation["logged"] == pytest.approx(of_one_process(validation["weight"], num_samples), abs=1e-6)
    maps = [[validation["logged"]["val/map"] for validation in process["validations"]] for process in run.processes]
    assert maps[0] == maps[1]
    assert abs(maps[0][0] - maps[0][1]) > 1e-3  # or two epochs would test no more than one
    assert maps[0][1] == maps[0][2]


def check_checkpoint(run: Run) -> None:
    """Compare the checkpoint with what was logged when it was written."""
    by_epoch = run.processes[0]["validations"][:2]
    best = max(by_epoch, key=lambda validation: validation["logged"]["val/map"])
    for process in run.processes:
        assert process["best"]["score"] == best["logged"]["val/map"]
    weights = torch.load(run.processes[0]["best"]["path"], weights_only=False)["state_dict"]
    assert torch.equal(weights["layer.weight"], best["weight"])


def test_every_epoch_with_samplers_of_lightning_and_an_index_logs_the_values_of_one_process(runs) -> None:
    padded = runs["padded"]
    assert [validation["num_samples"] for validation in padded.validations()] == [7 + 20] * 6  # of 13 + 39
    check_values(padded, num_samples=52)


def test_without_padding_uneven_processes_log_the_values_of_one_process(runs) -> None:
    unpadded = runs["unpadded"]
    assert [validation["num_samples"] for validation in unpadded.validations()] == [26] * 3 + [25] * 3
    check_values(unpadded, num_samples=51)


@pytest.mark.parametrize("problem", lightning_run.PROBLEMS)
def test_the_best_checkpoint_is_that_of_the_highest_logged_map(problem: str, runs) -> None:
    check_checkpoint(runs[problem])


def test_nothing_warns_but_the_sanity_check_that_has_no_positives(script) -> None:
    """No advice on synchronization or on repeated samples; the sanity checks alone had nothing to rank."""
    assert not re.search("sync|count twice", script.stderr), script.stderr
    assert {*map(int, re.findall("No query can be evaluated.* of 13 queries against ([0-9]+)", script.stderr))} == {
        20,
        7,
    }  # of each metric
    for process in (process for run in script.runs.values() for process in run.processes):
        assert len(process["sanity_checks"]) == 1
        assert math.isnan(process["sanity_checks"][0])


def test_pictures_are_logged_once_and_what_fails_in_one_process_leaves_none_waiting(script) -> None:
    folder = script.folder / "pictures"
    first, second = (torch.load(folder / f"process_{process}.pt") for process in range(2))
    assert first["values"] == second["values"]
    assert first["values"]["val/map"] == pytest.approx(MAP)
    assert first["values"]["logged_in_step"] == pytest.approx(MAP)

    # Two rows of a query and its three candidates, and of the images 0 and 10.
    assert first["drawn"] == sorted([0, 1, 2, 3, 4, 2, 3, 4, 0, 1])
    assert second["drawn"] == []
    retrieval = [f"{folder}/{name}" for folder in ("val", "val/val_map", "val/other.here") for name in CURVES]
    detection = [
        *("val/confidence", "val/confusion_matrix", "val/kinds_of_errors"),
        "val/worst_images",
    ]
    assert files(folder) == named([*retrieval, *detection, "val/hardest_queries"], 0)
    assert script.stderr.count("OSError: the picture is gone") == 2  # of two metrics, in one process
    assert script.stderr.count("No picture of `unused` was logged") == 1
