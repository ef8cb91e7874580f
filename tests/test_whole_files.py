"""Files that take their place when they are complete: reports, and pictures of loggers that take none."""

import os
import stat
import threading
from pathlib import Path

import pytest

from reid_torchmetrics.integrations import log_picture
from reid_torchmetrics.report import write_report
from tests.integrations.clients import PIXELS
from tests.report import problems
from tests.report.conftest import empty_figures  # noqa: F401

pytestmark = pytest.mark.usefixtures("empty_figures")

PICTURE = "pictures/cmc_step_000012.png"


def write_page(folder: Path) -> Path:
    return write_report(problems.coco(), folder / "report.html")


def write_picture(folder: Path) -> Path:
    log_picture(None, "cmc", PIXELS, 12, default_root_dir=folder)
    return folder / PICTURE


def write_results(folder: Path) -> Path:
    return problems.coco().save(folder / "results.npz")


both = pytest.mark.parametrize("write", [write_page, write_picture, write_results])
posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and permissions are those of POSIX")


@posix
@both
def test_an_older_file_keeps_its_permissions(write, tmp_path):
    path = write(tmp_path)
    for mode in (0o600, 0o640, 0o400):
        path.chmod(mode)
        older = path.stat().st_ino
        write(tmp_path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert path.stat().st_ino != older
    path.unlink()
    before = os.umask(0o027)
    try:
        assert stat.S_IMODE(write(tmp_path).stat().st_mode) == 0o640
    finally:
        os.umask(before)


@posix
@both
def test_a_pipe_stays_one_and_gets_the_contents(write, tmp_path):
    path = write(tmp_path)
    expected, contents = path.read_bytes(), []
    path.unlink()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: contents.append(path.read_bytes()), daemon=True)
    reader.start()
    write(tmp_path)
    reader.join(timeout=10)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert contents == [expected]


@posix
@both
@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_leads_to_what_was_written(write, is_there, tmp_path):
    path = write(tmp_path / "own")
    expected = path.read_bytes()
    path.unlink()
    target = tmp_path / "target"
    if is_there:
        target.write_text("older", encoding="utf-8")
    path.symlink_to(target)
    write(tmp_path / "own")
    assert path.is_symlink()
    assert target.read_bytes() == expected
    assert [*path.parent.iterdir()] == [path]


@both
def test_a_disk_that_is_full_costs_no_older_file(write, tmp_path):
    resource = pytest.importorskip("resource")
    path = write(tmp_path)
    expected = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large") as failed:
            write(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert failed.value.filename == str(path)
    assert path.read_bytes() == expected
    assert [*path.parent.iterdir()] == [path]


@both
def test_a_file_in_the_place_of_a_folder_is_named(write, tmp_path):
    (tmp_path / "file").write_text("here", encoding="utf-8")
    with pytest.raises(OSError, match=r"file") as failed:
        write(tmp_path / "file")
    assert Path(failed.value.filename).is_relative_to(tmp_path / "file")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "here"


def test_a_report_to_a_folder_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("reports").mkdir()
    with pytest.raises(IsADirectoryError, match=r"^`path` must be that of a file; got the folder 'reports'\.$"):
        write_report(problems.coco(), "reports")
    assert [*Path("reports").iterdir()] == []


def test_a_name_may_be_as_long_as_a_file_system_takes(tmp_path):
    name = f"{'r' * 250}.html"
    assert write_report(problems.coco(), tmp_path / name).name == name
