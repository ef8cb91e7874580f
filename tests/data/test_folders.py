"""Folders with a file for each image: every reader of two folders keeps the same rules."""

import inspect
import re
import warnings
from functools import partial
from pathlib import Path

import pytest

from reid_torchmetrics.data import read_cartucho, read_dota, read_kitti, read_voc, read_yolo

XML = """
<annotation><object><name>car</name>
<bndbox><xmin>10</xmin><ymin>10</ymin><xmax>20</xmax><ymax>20</ymax></bndbox></object></annotation>
"""
KITTI = "Car 0.0 0 -1.5 10 10 20 20 1.5 1.6 4.0 1.0 2.0 30.0 0.5"
CORNERS = "10 10 20 10 20 20 10 20"

read_cars = partial(read_cartucho, class_names=("car",))

READERS = {
    "voc": (read_voc, "annotations", "{}.xml", XML, "det_car.txt", "{} 0.9 10 10 20 20\n"),
    "dota": (read_dota, "annotations", "{}.txt", f"{CORNERS} plane 0\n", "Task1_plane.txt", f"{{}} 0.9 {CORNERS}\n"),
    "yolo": (read_yolo, "labels", "{}.txt", "0 0.5 0.5 0.2 0.2\n", "{}.txt", "0 0.5 0.5 0.2 0.2 0.9\n"),
    "cartucho": (read_cars, "labels", "{}.txt", "car 10 10 20 20\n", "{}.txt", "car 0.9 10 10 20 20\n"),
    "kitti": (read_kitti, "labels", "{}.txt", f"{KITTI}\n", "{}.txt", f"{KITTI} 0.9\n"),
}
"""for each format: the reader, the argument of the ground truths, their files, and the files of results"""


class Folders:
    """Two folders of a format, which are filled image by image."""

    def __init__(self, kind: str, parent: Path) -> None:
        self.read, self.argument, self.true_name, self.true_text, self.result_name, self.result_line = READERS[kind]
        self.true, self.results = parent / "true", parent / "results"
        self.true.mkdir()
        self.results.mkdir()

    def add_true(self, name: str, subfolder: str = "", suffix: str | None = None) -> None:
        path = self.true / subfolder / self.true_name.format(name)
        if suffix is not None:
            path = path.with_suffix(suffix)
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(self.true_text, encoding="utf-8")

    def add_result(self, name: str) -> None:
        path = self.results / self.result_name.format(name)
        with path.open("a", encoding="utf-8") as file:
            file.write(self.result_line.format(name))


@pytest.fixture(params=READERS)
def folders(request, tmp_path) -> Folders:
    return Folders(request.param, tmp_path)


def test_every_reader_takes_the_ground_truths_first(folders):
    assert list(inspect.signature(folders.read).parameters)[:2] == [folders.argument, "results"]


def test_an_image_in_both_folders_is_read_once(folders):
    folders.add_true("a")
    folders.add_result("a")
    preds, target = folders.read(folders.true, folders.results)
    assert [image["image_id"] for image in target] == ["a"]
    assert preds[0]["scores"].tolist() == [0.9]


def test_exchanged_folders_are_read_as_they_are_meant_with_a_warning(folders):
    for name in ("a", "b"):
        folders.add_true(name)
        folders.add_result(name)
    message = f"`{folders.argument}` and `results` were exchanged: the ground truths are read from '{folders.true}' and"
    with pytest.warns(UserWarning, match=re.escape(message)) as warned:
        preds, target = folders.read(folders.results, folders.true)
    assert len(warned) == 1
    assert [image["image_id"] for image in target] == ["a", "b"]
    assert [image["scores"].tolist() for image in preds] == [[0.9], [0.9]]


def test_folders_without_a_common_name_are_an_error_with_the_first_name_of_each(folders):
    for name in ("img2", "img1"):
        folders.add_true(name)
    for name in ("img_1", "img_2"):
        folders.add_result(name)
    with pytest.raises(ValueError, match=r"'img_1'.* first .*'img1'|'img_1', .*first annotated image is 'img1'"):
        folders.read(folders.true, folders.results)


def test_files_one_folder_deeper_are_named(folders):
    for name in ("a", "b", "c"):
        folders.add_true(name, subfolder="val")
        folders.add_result(name)
    message = (
        f"`{folders.argument}` must be a folder of .[a-z]* files; got '.*true' with 3 of them in its subfolder 'val'"
    )
    with pytest.raises(ValueError, match=message):
        folders.read(folders.true, folders.results)


def test_a_folder_with_other_files_says_what_is_there(folders):
    folders.add_result("a")
    for name in ("a.jpg", "b.jpg", "c.json"):
        (folders.true / name).touch()
    with pytest.raises(ValueError, match=rf"`{folders.argument}` must be .* with 2 \.jpg, 1 \.json\.$"):
        folders.read(folders.true, folders.results)


@pytest.mark.parametrize(("suffix", "note"), [(".xml", "documents of Pascal VOC"), (".json", "of LabelMe")])
def test_documents_of_other_tools_in_the_place_of_texts_are_told(folders, suffix, note):
    folders.add_true("a")
    (folders.results / f"a{suffix}").write_text('{"shapes": [], "imagePath": "a.jpg"}', encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"`results` must be a folder of \.txt files; got .* with 1 {suffix}[;,] {note}"
    ):
        folders.read(folders.true, folders.results)


@pytest.mark.parametrize("side", ["true", "results", "both"])
def test_a_folder_without_files_is_an_error(folders, side):
    if side == "results":
        folders.add_true("a")
    if side == "true":
        folders.add_result("a")
    argument = "results" if side == "results" else folders.argument
    with pytest.raises(ValueError, match=rf"`{argument}` must be a folder of .* without files\.$"):
        folders.read(folders.true, folders.results)


def test_a_suffix_in_capital_letters_is_read(folders):
    folders.add_true("a", suffix=Path(folders.true_name).suffix.upper())
    folders.add_result("a")
    assert len(folders.read(folders.true, folders.results)[1][0]["labels"]) == 1


def test_two_files_of_one_image_are_named(folders):
    for suffix in (".txt", ".xml"):
        if folders.true_name.endswith(suffix):
            folders.add_true("a")
            folders.add_true("a", suffix=suffix.upper())
    folders.add_result("a")
    if len(list(folders.true.iterdir())) == 1:
        pytest.skip("The disk does not tell small from capital letters.")
    with pytest.raises(ValueError, match=r"must have one file for each image; got 'a.*' and 'a.*' in "):
        folders.read(folders.true, folders.results)


def test_files_that_macos_adds_are_no_images(folders):
    folders.add_true("a")
    folders.add_result("a")
    for folder, name in ((folders.true, folders.true_name), (folders.results, folders.result_name)):
        (folder / f"._{name.format('a')}").write_bytes(b"\x00\x05\x16\x07")
    assert len(folders.read(folders.true, folders.results)[1]) == 1


def test_a_file_in_place_of_a_folder_is_named(folders):
    folders.add_true("a")
    folders.add_result("a")
    path = folders.true / folders.true_name.format("a")
    with pytest.raises(NotADirectoryError, match=re.escape(f"got the file '{path}'")):
        folders.read(path, folders.results)


def test_a_folder_that_is_not_there_is_named_before_any_exchange(folders):
    folders.add_true("a")
    for paths in (("nowhere", folders.results), (folders.true, "nowhere"), ("nowhere", folders.true)):
        with pytest.raises(FileNotFoundError, match="There is no folder 'nowhere'"):
            folders.read(*paths)


def test_a_byte_order_mark_is_no_part_of_a_name_or_a_number(folders):
    folders.add_true("a")
    folders.add_result("a")
    for path in (*folders.true.iterdir(), *folders.results.iterdir()):
        path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    preds, target = folders.read(folders.true, folders.results)
    assert [len(side[0]["labels"]) for side in (preds, target)] == [1, 1]


@pytest.mark.parametrize(("num_common", "is_told"), [(1, True), (2, True), (3, False)])
def test_of_few_common_images_a_warning_tells(num_common, is_told, tmp_path):
    folders = []
    for folder, line in (("labels", "0 .5 .5 .2 .2"), ("results", "0 .5 .5 .2 .2 .9")):
        (tmp_path / folder).mkdir()
        for number in range(6):
            name = f"{number}" if number < num_common or folder == "labels" else f"x{number}"
            (tmp_path / folder / f"{name}.txt").write_text(line, encoding="utf-8")
        folders.append(tmp_path / folder)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        read_yolo(*folders)
    message = f"images in common with `labels`; got {num_common}, without 'x{num_common}' first in"
    assert [message in str(warning.message) for warning in told] == [True] * is_told
