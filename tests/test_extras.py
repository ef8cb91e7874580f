"""What an extra installs is asked for before any work is done, in words that can be pasted into a shell."""

import re
import sys
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics import (
    DetectionMAP,
    DetectionMetrics,
    PairVerification,
    ReIDCMC,
    ReIDMetrics,
    _extras,
    compare,
    find_duplicates,
    functional,
    tasks,
    write_report,
)
from reid_torchmetrics.command import main
from reid_torchmetrics.integrations import EvaluationPictures, log_picture
from tests.report import problems

PIXELS = np.zeros((4, 4, 3), dtype=np.uint8)
DOORS = {
    "results": ("matplotlib", "A figure needs Matplotlib", lambda results: results.plot()),
    "a metric": ("matplotlib", "A figure needs Matplotlib", lambda _: ReIDMetrics().plot()),
    "a metric with a curve": ("matplotlib", "A figure needs Matplotlib", lambda _: ReIDCMC().plot()),
    "a metric of pairs": ("matplotlib", "A figure needs Matplotlib", lambda _: PairVerification().plot()),
    "a metric of several numbers of boxes": (
        "matplotlib",
        "A figure needs Matplotlib",
        lambda _: DetectionMetrics(["map"]).plot(),
    ),
    "a metric of boxes": ("matplotlib", "A figure needs Matplotlib", lambda _: DetectionMAP().plot()),
    "a report": ("matplotlib", "A report needs Matplotlib", lambda results: write_report(results, "page.html")),
    "a report with pictures": (
        "PIL",
        "A report needs Pillow",
        lambda results: write_report(results, "page.html", pictures=lambda index: PIXELS),
    ),
    "a picture in a log": ("PIL", "A picture in a log needs Pillow", lambda _: log_picture(None, "a", PIXELS, 1)),
    "the callback": ("matplotlib", "EvaluationPictures needs Matplotlib", lambda _: EvaluationPictures()),
    "the callback, too": ("PIL", "EvaluationPictures needs Pillow", lambda _: EvaluationPictures()),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_package_that_is_missing_is_named_with_its_extra_before_any_work_is_done(door, tmp_path, monkeypatch):
    package, words, call = DOORS[door]
    results = problems.retrieval()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    for metric in (
        ReIDMetrics,
        ReIDCMC,
        PairVerification,
        DetectionMAP,
        DetectionMetrics,
    ):  # without samples `compute` is an error
        monkeypatch.setattr(metric, "compute", lambda _: pytest.fail("something was computed"))
    with pytest.raises(
        ModuleNotFoundError, match=f"^{re.escape(words)}: pip install '\\.\\[plot\\]' in a clone of the repository\\.$"
    ) as caught:
        call(results)
    assert caught.value.name == package
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("option", ["--report=page.html", "--pictures=figures"])
def test_the_command_asks_before_it_reads_the_files(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["lists", "there_are_none.txt", "there_are_none.txt", option]) == 1
    said = capsys.readouterr().err
    need = "A report or a picture needs Matplotlib: pip install '.[plot]' in a clone of the repository."
    assert said == f"reid-torchmetrics: {need}\n"


def test_the_command_says_what_it_needs_itself(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "yaml", None)
    for words in (["--config", "options.yaml"], ["--camera-map", "{3: 2}"], ["--print-config"]):
        (tmp_path / "options.yaml").write_text("k: 5", encoding="utf-8")
        assert main(["evaluate", "query.npy", *words]) == 1
        said = capsys.readouterr().err
        assert re.match(
            "reid-torchmetrics: A .* needs PyYAML: pip install '\\.\\[command\\]' in a clone of the repository\\.\n$",
            said,
        )


def test_the_command_needs_no_extra_for_words_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "ranked.run").write_text("q Q0 a 1 0.5 x\n", encoding="utf-8")
    (tmp_path / "truth.qrels").write_text("q 0 a 1\n", encoding="utf-8")
    for package in ("yaml", "jsonargparse", "argcomplete", "matplotlib"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    assert main(["lists", "ranked.run", "truth.qrels", "--k", "null", "--reports", "map", "--json", "-"]) == 0
    assert '"value": 1.0' in capsys.readouterr().out


def test_numbers_need_no_extra(monkeypatch):
    for package in ("matplotlib", "PIL", "lightning", "yaml"):
        monkeypatch.setitem(sys.modules, package, None)
    assert tasks.evaluate_lists([[1]], [[1]])["map"] == 1.0


TABLES = {
    "results of retrieval": problems.retrieval,
    "results of detection": problems.detection,
    "a comparison": lambda: compare(problems.retrieval(), problems.retrieval()),
    "duplicates": lambda: find_duplicates(np.eye(3)),
}
SOURCE = Path(_extras.__file__).parent


def test_each_class_with_a_table_for_pandas_is_tried():
    found = set()
    for package in (functional.detection, functional.retrieval, tasks):
        found |= {kind for kind in vars(package).values() if isinstance(kind, type) and hasattr(kind, "to_frame")}
    assert found == {type(make()) for make in TABLES.values()}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_for_pandas_says_how_pandas_is_installed(kind, monkeypatch):
    results = TABLES[kind]()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"^A DataFrame needs pandas: pip install pandas\.$"):
        results.to_frame()


@pytest.mark.parametrize("package", _extras._EXTRAS)
def test_an_extra_that_a_message_names_has_the_package_in_a_clone(package, monkeypatch):
    title, extra = _extras._EXTRAS[package]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        _extras.require("It", package)
    if extra is None:
        assert str(caught.value) == f"It needs {title}: pip install {package}."
    else:
        assert str(caught.value) == f"It needs {title}: pip install '.[{extra}]' in a clone of the repository."
        of_extra = [text for text in requires("reid-torchmetrics") if f'extra == "{extra}"' in text.replace("'", '"')]
        assert any(text.startswith(title.lower()) for text in of_extra)


def test_one_file_says_how_packages_are_installed():
    """So that all messages change together, once the package is on PyPI."""
    sources = [path for path in SOURCE.rglob("*.py") if "pip install" in path.read_text(encoding="utf-8")]
    assert [path.name for path in sources] == ["_extras.py"]
