"""The whole script, at a reduced size, as its user starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import reid_torchmetrics

pytest.importorskip("lightning")
event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

SCRIPT = Path(__file__).parents[2] / "examples" / "lightning_module.py"
LOGGED = {"val/map", "val/minp", "val/rank_1", "val/rank_5", "val/rank_10"}
PICTURES = {"val/cmc", "val/precision_recall", "val/first_ranks", "val/hardest_queries"}


def run_script(folder: Path, *options: str) -> str:
    """Run the script with `folder` as the working directory and give what it printed."""
    package = str(Path(reid_torchmetrics.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": package, "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "agg"}
    command = [sys.executable, str(SCRIPT), "--epochs", "1", "--accelerator", "cpu", "--output", "written", *options]
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def line_of(printed: str, name: str) -> str:
    """The only line that begins with `name`."""
    (line,) = re.findall(rf"^{name}.*$", printed, re.MULTILINE)
    return line


def check_table(printed: str) -> None:
    """Look for the results, before and after training, in per cent."""
    assert re.search(r"^per cent +mAP +mINP +rank-1 +rank-5 +rank-10$", printed, re.MULTILINE)
    for name in ("before training", "after training"):
        line = re.search(rf"^{name}((?: +\d+\.\d){{5}})$", printed, re.MULTILINE)
        assert line, printed
        assert all(0 <= float(value) <= 100 for value in line[1].split())
    number = r"[+-]\d+\.\d"
    outcome = rf"^Training changed mAP by {number} points, 95% interval {number} to {number}, p = [\d.e-]+: \d+ queries"
    assert re.search(outcome, printed, re.MULTILINE), printed


def check_files(folder: Path) -> None:
    """Look for the pictures and the logs, and for anything written where it was not asked for."""
    for name in ("cmc.png", "hardest_queries.png", "samples.png"):
        with Image.open(folder / "written" / name) as image:
            assert min(image.size) > 100
    report = (folder / "written" / "report.html").read_text(encoding="utf-8")
    assert "Two models" in report
    assert "data:image" in report
    assert "Not shown" not in report
    logs = [event_accumulator.EventAccumulator(str(file)) for file in folder.glob("written/tensorboard/*/events.*")]
    tags = [log.Reload().Tags() for log in logs]
    assert LOGGED.issubset(tag for tag_lists in tags for tag in tag_lists["scalars"])
    assert {tag for tag_lists in tags for tag in tag_lists["images"]} == PICTURES


def test_the_script_runs_on_drawn_pedestrians(tmp_path: Path) -> None:
    printed = run_script(tmp_path, "--train-identities", "16", "--test-identities", "8")
    check_table(printed)
    check_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["written"]


@pytest.fixture(scope="module")
def run_of_one_process(tmp_path_factory: pytest.TempPathFactory, shared_market_folder: Path) -> tuple[Path, str]:
    """Where the script was run on the folder, and what it printed."""
    folder = tmp_path_factory.mktemp("one")
    return folder, run_script(folder, "--market1501", str(shared_market_folder), "--devices", "1")


def test_the_script_runs_on_a_market1501_folder(shared_market_folder: Path, request: pytest.FixtureRequest) -> None:
    before = sorted(shared_market_folder.parent.rglob("*"))
    folder, printed = request.getfixturevalue("run_of_one_process")
    check_table(printed)
    check_files(folder)
    assert [path.name for path in folder.iterdir()] == ["written"]
    assert sorted(shared_market_folder.parent.rglob("*")) == before


def test_two_processes_validate_as_one_does_and_one_of_them_prints_and_writes(
    tmp_path: Path, shared_market_folder: Path, run_of_one_process: tuple[Path, str]
) -> None:
    # There are 9 queries: a sampler repeats one, so that each process has 5.
    _, one = run_of_one_process
    two = run_script(tmp_path, "--market1501", str(shared_market_folder), "--devices", "2")
    assert line_of(two, "before training") == line_of(one, "before training")
    check_table(two)
    check_files(tmp_path)
    assert two.count("per cent") == 1
    assert [path.name for path in tmp_path.glob("written/tensorboard/*")] == ["version_0"]
