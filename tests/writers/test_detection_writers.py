"""`detect` on files that other tools wrote: the number of the definition, or an error that names the cause.

The packages and their versions are in the group `writers` of pyproject.toml; `nox -s writers` installs them.
"""

import importlib.metadata
import json
import re
from unittest import mock

import pytest

from reid_torchmetrics.command import main
from reid_torchmetrics.files.foreign_annotations import CONVERSIONS
from tests.writers import annotation_tools as tools
from tests.writers import detections, detectors
from tests.writers.problems import Side, distance_to_thresholds, mean_average_precision
from tests.writers.problems import detections as problem

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("default")]

CLASSES_BY_NAME = ("apple", "mug", "zebra")


def without_the_first_class(side: Side) -> Side:
    boxes = {image: [box for box in rows if box.label != "zebra"] for image, rows in side.boxes.items()}
    return Side(boxes, side.sizes, CLASSES_BY_NAME[:2])


def without_empty_images(side: Side) -> Side:
    return Side({image: rows for image, rows in side.boxes.items() if rows}, side.sizes)


ARRANGEMENTS = {
    "the same numbers": ("", lambda found: found),
    "classes in another order": ("classes", lambda found: found.numbered(classes=CLASSES_BY_NAME)),
    "classes from 0": ("classes images", lambda found: found.numbered(first=0)),
    "images in another order": ("images", lambda found: found.numbered(images=sorted(found.boxes, reverse=True))),
    "images without detections left out": ("images", without_empty_images),
    "a class without detections left out": ("classes", without_the_first_class),
}
"""what the numbers of the detections differ in from those of the ground truths, and how they do"""


@pytest.fixture(autouse=True)
def _versions():
    """Ultralytics asks for the version of torchvision, which it needs for images alone."""
    version = importlib.metadata.version
    with mock.patch("importlib.metadata.version", lambda name: "0.28.0" if name == "torchvision" else version(name)):
        yield


@pytest.fixture
def detect(capsys):
    """The command: its mAP, and what it said."""

    def call(ground_truths, found):
        capsys.readouterr()
        status = main(["detect", str(ground_truths), str(found), "--json", "-"])
        output = capsys.readouterr()
        number = json.loads(output.out)["numbers"]["map"]["value"] if status == 0 else None
        return number, output.err

    return call


def written(write, side, folder):
    folder.mkdir()
    return write(side, folder)


def test_the_problem_has_one_number_in_every_format():
    truth, found = problem()
    scores = [box.score for boxes in found.boxes.values() for box in boxes]
    assert len({*scores}) == len(scores)
    assert distance_to_thresholds(truth, found) > 0.005
    assert {box.label for boxes in found.boxes.values() for box in boxes} == {*truth.classes}


def pairs_of_files():
    """Writers and arrangements, without those of which nothing in the files tells, and one of each refusal."""
    for name, writer in detections.WRITERS.items():
        for arrangement, (differing, _) in ARRANGEMENTS.items():
            is_told = {*differing.split()}.isdisjoint(writer.unnamed)
            if is_told and not (writer.refusal and differing):
                yield name, arrangement


@pytest.mark.parametrize(("name", "arrangement"), [*pairs_of_files()])
def test_files_of_a_tool_have_the_number_of_the_definition_or_a_named_error(name, arrangement, detect, tmp_path):
    writer = detections.WRITERS[name]
    _, arrange = ARRANGEMENTS[arrangement]
    truth, found = problem()
    found = arrange(found)
    paths = [
        written(writer.ground_truths, truth, tmp_path / "truth"),
        written(writer.detections, found, tmp_path / "found"),
    ]
    number, said = detect(*paths)
    if writer.refusal:
        assert number is None
        assert writer.refusal in said
    else:
        assert number == pytest.approx(mean_average_precision(truth, found), abs=1e-6), said


@pytest.mark.parametrize("write", [tools.globox_coco_auto, tools.kwcoco_json, tools.fiftyone_coco])
@pytest.mark.parametrize("side", ["images", "classes"])
def test_an_unknown_name_is_told_with_those_of_both_sides(side, write, detect, tmp_path):
    truth, found = problem()
    if side == "images":
        truth = without_empty_images(truth)
        names = ("shot_07.jpg", "shot_00.jpg")
    else:
        others = {image: [box._replace(label="lynx") for box in boxes] for image, boxes in found.boxes.items()}
        found = Side(others, found.sizes, ("lynx",))
        names = ("lynx", "zebra")
    number, said = detect(written(write, truth, tmp_path / "truth"), written(write, found, tmp_path / "found"))
    assert number is None
    assert all(name in said for name in names)


@pytest.mark.parametrize(
    ("form", "write"),
    [
        ("CVAT", tools.globox_cvat),
        ("VIA", tools.globox_via),
        ("CreateML", tools.supervision_createml),
        ("LabelMe", tools.globox_labelme),
        ("datumaro", detections.WRITERS["datumaro: its own"].ground_truths),
    ],
)
def test_the_line_in_the_message_converts_the_file(form, write, detect, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth, found = problem()
    path = written(write, truth, tmp_path / "truth")
    detected = written(tools.globox_coco_auto, found, tmp_path / "found")
    _, said = detect(path, path)
    line = re.search(r"by `(.*?)`", said)[1]
    assert form == "LabelMe" or line in CONVERSIONS[form]
    package = line.partition(".")[0]
    folder = {"LabelMe": path, "datumaro": tmp_path / "truth/set"}.get(form, tmp_path / "truth/images")
    exec(line, {package: importlib.import_module(package), "path": str(path), "folder": str(folder)})  # noqa: S102
    (converted,) = [*tmp_path.glob("coco.json"), *tmp_path.glob("coco/annotations/*.json")]
    number, _ = detect(converted, detected)
    assert number == pytest.approx(mean_average_precision(truth, found), abs=1e-6)


def test_the_line_in_the_message_converts_both_files_of_bdd100k(detect, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth, found = problem()
    paths = [written(tools.bdd100k, side, tmp_path / name) for name, side in (("truth", truth), ("found", found))]
    converted = []
    for path in paths:
        _, said = detect(path, path)
        line = re.search(r"of BDD100K; .* by `(.*?)`", said)[1]
        with path.open(encoding="utf-8") as file:
            exec(line, {"globox": importlib.import_module("globox"), "json": json, "file": file})  # noqa: S102
        converted.append((tmp_path / "coco.json").rename(path.with_name("coco.json")))
    number, _ = detect(*converted)
    assert number == pytest.approx(mean_average_precision(truth, found), abs=1e-6)


def test_detections_that_were_appended_are_told(detect, tmp_path):
    truth, found = problem()
    path = written(detectors.ultralytics_text, found, tmp_path / "found")
    detectors.ultralytics_text(found, tmp_path / "found")  # as a second run into the same folder does
    number, said = detect(written(detectors.yolo_labels, truth, tmp_path / "truth"), path)
    assert number < mean_average_precision(truth, found)
    assert "exact copies of others in their image" in said
