"""Rows of boxes: every reader names the file and the line of any word that does not fit."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from reid_torchmetrics.data import read_cartucho, read_dota, read_kitti, read_open_images, read_voc

SPACE = "1.5 1.6 4.0 1.0 2.0 30.0 0.5"
HEADER = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf"
RESULT_HEADER = "ImageID,LabelName,XMin,XMax,YMin,YMax,Score"


class Layout(NamedTuple):
    """A format, by good lines of it."""

    read: object
    label: str
    result: str
    words: Sequence[int]
    """positions of the class and of the numbers that are read, in `label`"""
    result_words: Sequence[int]
    separator: str = " "


LAYOUTS = {
    "cartucho": Layout(read_cartucho, "Car 10 10 20 20", "Car 0.9 10 10 20 20", range(5), range(6)),
    "kitti": Layout(
        read_kitti,
        f"Car 0 0 -1.5 10 10 20 20 {SPACE}",
        f"Car 0 0 -1.5 10 10 20 20 {SPACE} 0.9",
        words=(0, *range(4, 8)),
        result_words=(0, *range(4, 8), 15),
    ),
    "open_images": Layout(
        read_open_images, "a,Car,0,1,0,1,0", "a,Car,0,1,0,1,0.9", range(1, 7), range(1, 7), separator=","
    ),
}
JUNK = ("?", "nan", "inf", "-inf", "1e999", "0x1", "10;", "None", "Difficult", "\N{SNOWMAN}")


def read(layout: Layout, folder: Path, label: str, result: str) -> tuple[list, list]:
    """Read a file of two lines on each side; the second ones are given."""
    true, detected = folder / "true", folder / "results"
    labels, results = [layout.label, label], [layout.result, result]
    if layout.separator == " ":
        true.mkdir(exist_ok=True)
        detected.mkdir(exist_ok=True)
        (true / "a.txt").write_text("\n".join(labels), encoding="utf-8")
        (detected / "a.txt").write_text("\n".join(results), encoding="utf-8")
    else:
        true.write_text("\n".join([HEADER, *labels]), encoding="utf-8")
        detected.write_text("\n".join([RESULT_HEADER, *results]), encoding="utf-8")
    return layout.read(true, detected, ("Car",))


@pytest.fixture(params=LAYOUTS)
def layout(request) -> Layout:
    return LAYOUTS[request.param]


def place_of_second_line(layout: Layout, folder: Path, side: str) -> str:
    return f"{folder / side / 'a.txt'}:2" if layout.separator == " " else f"{folder / side}:3"


def test_good_lines_are_read(layout, tmp_path):
    preds, target = read(layout, tmp_path, layout.label, layout.result)
    assert preds[0]["boxes"].tolist() == target[0]["boxes"].tolist()
    assert preds[0]["scores"].tolist() == [0.9, 0.9]


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("side", ["true", "results"])
def test_a_word_that_does_not_fit_is_named_with_file_and_line(layout, tmp_path, side, junk):
    line = layout.label if side == "true" else layout.result
    positions = layout.words if side == "true" else layout.result_words
    for position in positions:
        words = line.split(layout.separator)
        words[position] = junk
        changed = layout.separator.join(words)
        label, result = (changed, layout.result) if side == "true" else (layout.label, changed)
        with pytest.raises(ValueError, match=r"^`[a-z]+` must have ") as raised:
            read(layout, tmp_path, label, result)
        assert str(raised.value).endswith(f", {place_of_second_line(layout, tmp_path, side)}.")


@pytest.mark.parametrize("side", ["true", "results"])
def test_a_line_without_one_of_its_words_is_named_with_file_and_line(layout, tmp_path, side):
    line = layout.label if side == "true" else layout.result
    words = line.split(layout.separator)
    for position in range(len(words)):
        changed = layout.separator.join(words[:position] + words[position + 1 :])
        label, result = (changed, layout.result) if side == "true" else (layout.label, changed)
        with pytest.raises(ValueError, match=r"^`[a-z]+` must have ") as raised:
            read(layout, tmp_path, label, result)
        assert str(raised.value).endswith(f", {place_of_second_line(layout, tmp_path, side)}.")


@pytest.mark.parametrize("read", [read_cartucho, read_dota, read_kitti, read_open_images, read_voc])
def test_a_class_has_one_label(read, tmp_path):
    with pytest.raises(ValueError, match=r"must give every class a name of its own; got 'Car' twice\.$"):
        read(tmp_path, tmp_path, ("Car", "Bus", "Car"))
    with pytest.raises(TypeError, match=r"`class_names` must be a list or tuple of names; got 'Car'\.$"):
        read(tmp_path, tmp_path, "Car")
