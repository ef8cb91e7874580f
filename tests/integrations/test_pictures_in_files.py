"""Pictures of loggers that take none, and of runs without a logger: PNG files."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from reid_torchmetrics.integrations import log_picture
from tests.integrations.clients import PIXELS, STEP, new_figure, pixels_in

pytestmark = pytest.mark.usefixtures("own_folder")
loggers = pytest.importorskip("lightning.pytorch.loggers")


def test_a_logger_that_takes_no_pictures_finds_a_file_in_its_folder(tmp_path):
    logger = loggers.CSVLogger(tmp_path / "logs", name="run", version=3)
    log_picture(logger, "val/nearest", PIXELS, STEP, default_root_dir=tmp_path / "elsewhere")
    (path,) = tmp_path.rglob("*.png")
    assert path.relative_to(tmp_path).as_posix() == "logs/run/version_3/pictures/val/nearest_step_000012.png"
    assert pixels_in(path).tolist() == PIXELS.tolist()


@pytest.mark.parametrize(
    ("logger", "folder"),
    [
        (SimpleNamespace(log_dir="logged", save_dir="saved"), "logged"),
        (SimpleNamespace(log_dir=None, save_dir=Path("saved")), "saved"),
        (SimpleNamespace(log_dir=None, save_dir=None), "default"),
        (SimpleNamespace(), "default"),
        (None, "default"),
        ([], "default"),
    ],
)
def test_the_folder_is_the_first_that_there_is(logger, folder):
    log_picture(logger, "nearest", PIXELS, STEP, default_root_dir="default")
    assert [path.as_posix() for path in Path().rglob("*.png")] == [f"{folder}/pictures/nearest_step_000012.png"]


def test_without_a_logger_the_file_is_in_the_current_directory(tmp_path):
    log_picture(None, "cmc", new_figure(), 0)
    assert pixels_in(tmp_path / "pictures" / "cmc_step_000000.png").shape == (200, 300, 3)


def test_a_folder_may_be_in_an_object_store():
    fsspec = pytest.importorskip("fsspec")
    log_picture(SimpleNamespace(log_dir="memory://run"), "val/nearest", PIXELS, STEP)
    with fsspec.open("memory://run/pictures/val/nearest_step_000012.png") as file:
        assert pixels_in(file).tolist() == PIXELS.tolist()
    assert [*Path().iterdir()] == []


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("val/cmc", "val/cmc_step_000012.png"),
        ("/a//b/", "a/b_step_000012.png"),
        ("AP@0.5 (ü)", "AP@0.5 (ü)_step_000012.png"),
        ("a:b", "a%3Ab_step_000012.png"),
        ("a%3Ab", "a%253Ab_step_000012.png"),
        ("../../a", "%2E%2E/%2E%2E/a_step_000012.png"),
        (".", "%2E_step_000012.png"),
        ("x./y ", "x%2E/y%20_step_000012.png"),
        ("CON/nul.a/com1 .b/console", "%43ON/%6Eul.a/%63om1 .b/console_step_000012.png"),
        ("a\ud800", "a%D800_step_000012.png"),
        ("a" * 200, f"{'a' * 200}_step_000012.png"),
        ('a\\b?*"<>|\n', "a%5Cb%3F%2A%22%3C%3E%7C%0A_step_000012.png"),
    ],
)
def test_a_file_has_a_name_that_every_file_system_takes(name, file):
    log_picture(None, name, PIXELS, STEP)
    assert [path.relative_to("pictures").as_posix() for path in Path("pictures").rglob("*.png")] == [file]


def test_long_names_have_files_of_their_own():
    names = [f"{letter * 300}/{letter * 300}{end}" for letter in "aü" for end in "12"]
    for name in names:
        log_picture(None, name, PIXELS, 10**6)
    assert len([*Path("pictures").rglob("*.png")]) == 4


PICTURES = [PIXELS[::-1], torch.from_numpy(PIXELS).transpose(0, 1)]
PICTURES += [Image.fromarray(PIXELS).convert(mode) for mode in ("RGB", "RGBA", "L")]


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_may_be_a_view_or_an_image_of_pillow(picture):
    log_picture(None, "a", picture, STEP)
    pixels = np.asarray(picture.convert("RGB") if isinstance(picture, Image.Image) else picture)
    assert pixels_in("pictures/a_step_000012.png").tolist() == pixels.tolist()


def test_steps_have_files_of_their_own_and_a_step_is_overwritten():
    for step in (1, 2, 10_000_000, 2):
        log_picture(None, "a", PIXELS, step)
    assert sorted(path.name for path in Path("pictures").iterdir()) == [
        "a_step_000001.png",
        "a_step_000002.png",
        "a_step_10000000.png",
    ]
