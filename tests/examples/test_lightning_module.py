"""The whole script, at a reduced size, as its user starts it."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

import reid_torchmetrics

pytest.importorskip("lightning")
event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

example = pytest.importorskip("lightning_module")

SCRIPT = Path(__file__).parents[2] / "examples" / "lightning_module.py"
LOGGED = {"val/map", "val/minp", "val/rank_1", "val/rank_5", "val/rank_10"}
PICTURES = {"val/cmc", "val/precision_recall", "val/first_ranks", "val/hardest_queries"}


def run_script(folder: Path, *options: str) -> str:
    """Run the script with `folder` as the working directory and give what it printed."""
    package = str(Path(reid_torchmetrics.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": package, "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "agg"}
    command = [sys.executable, str(SCRIPT), *options]
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def line_of(printed: str, name: str) -> str:
    """The only line that begins with `name`."""
    (line,) = re.findall(rf"^{name}.*$", printed, re.MULTILINE)
    return line


def check_table(printed: str) -> None:
    """Look for the results, before and after training, in per cent."""
    assert re.search(r"^per cent +mAP +mINP +Rank-1 +Rank-5 +Rank-10$", printed, re.MULTILINE)
    for name in ("before training", "after training"):
        line = re.search(rf"^{name}((?: +\d+\.\d){{5}})$", printed, re.MULTILINE)
        assert line, printed
        assert all(0 <= float(value) <= 100 for value in line[1].split())
    number = r"[+-]\d+\.\d"
    outcome = rf"^Training changed mAP by {number} points, 95% interval {number} to {number}, p = [\d.e-]+: \d+ queries"
    assert re.search(outcome, printed, re.MULTILINE), printed


def check_files(folder: Path) -> None:
    """Look for the pictures and the report."""
    for name in ("cmc.png", "hardest_queries.png", "samples.png"):
        with Image.open(folder / "written" / name) as image:
            assert min(image.size) > 100
    report = (folder / "written" / "report.html").read_text(encoding="utf-8")
    assert "Differences" in report
    assert "data:image" in report
    assert "Not shown" not in report


def check_events(folder: Path) -> None:
    """Look for the numbers and pictures in the logs of TensorBoard."""
    logs = [event_accumulator.EventAccumulator(str(file)) for file in folder.glob("written/tensorboard/*/events.*")]
    tags = [log.Reload().Tags() for log in logs]
    assert LOGGED.issubset(tag for tag_lists in tags for tag in tag_lists["scalars"])
    assert {tag for tag_lists in tags for tag in tag_lists["images"]} == PICTURES
    (settings,) = folder.glob("written/tensorboard/*/hparams.yaml")
    assert "epochs: 1\n" in settings.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_the_script_runs_on_drawn_pedestrians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    options = ("--accelerator", "cpu", "--epochs", "1", "--train-identities", "8", "--test-identities", "4")
    run_here(tmp_path, monkeypatch, *options)
    check_table(capsys.readouterr().out)
    assert [path.name for path in tmp_path.iterdir()] == ["reid_example_output"]


OPTIONS = ("--epochs", "1", "--accelerator", "cpu", "--output", "written")


def test_the_script_runs_on_a_market1501_folder(
    tmp_path: Path, market_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    before = sorted(market_folder.rglob("*"))
    run_here(folder, monkeypatch, "--market1501", str(market_folder), *OPTIONS)  # another process would import all anew
    check_table(capsys.readouterr().out)
    check_files(folder)
    check_events(folder)
    assert [path.name for path in folder.iterdir()] == ["written"]
    assert sorted(market_folder.rglob("*")) == before
    assert {*tmp_path.iterdir()} <= {market_folder, folder}


@pytest.mark.nightly
def test_two_processes_validate_as_one_does(
    tmp_path: Path, market_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    offline(monkeypatch, tmp_path / "home")
    before, logs_to = sorted(market_folder.rglob("*")), ["--wandb"] if find_spec("wandb") else []
    one, two = folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    options = ("--market1501", str(market_folder), *OPTIONS)
    run_here(one, monkeypatch, *options)
    printed = [capsys.readouterr().out, run_script(two, *options, "--devices", "2", *logs_to)]
    check_table(printed[1])
    check_files(two)
    assert [path.name for path in two.iterdir()] == ["written"]
    assert sorted(market_folder.rglob("*")) == before
    assert {*tmp_path.iterdir()} <= {market_folder, *folders, tmp_path / "home"}
    # There are 9 queries: a sampler repeats one, so that each process has 5. One of both prints and writes.
    assert len({line_of(text, "before training") for text in printed}) == 1
    assert printed[1].count("per cent") == 1
    if logs_to:
        check_offline_run(two)
    else:
        check_events(two)


def run_here(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    """Run the script in this process, with `folder` as the working directory."""
    monkeypatch.chdir(folder)
    for name in ("PL_GLOBAL_SEED", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "0")  # as before, when the test is over
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
    example.main()


def offline(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Let W&B know of no account, and find nothing in the home folder."""
    for name in ("WANDB_API_KEY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")  # whatever the script finds


def check_offline_run(folder: Path) -> None:
    """Look for the pictures in the files of W&B."""
    assert not list(folder.rglob("events.*"))
    (run,) = folder.glob("written/wandb/offline-run-*")
    assert list(run.glob("*.wandb"))
    for name in ("cmc", "hardest_queries"):
        assert len(list(run.glob(f"files/media/images/val/{name}_*.png"))) == 2  # before training and after an epoch
