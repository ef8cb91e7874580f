"""Detections in the forms of other tools: the line in the message converts the file to the right number."""

import csv
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from reid_torchmetrics.command import main
from tests.writers.problems import detections, mean_average_precision

TRUTH, FOUND = detections()
NUMBERS = TRUTH.class_ids


def data_set(side):
    rows = [(image, box) for image, boxes in side.boxes.items() for box in boxes]
    return {
        "images": [{"id": number, "file_name": f"{image}.jpg"} for image, number in side.image_ids.items()],
        "categories": [{"id": number, "name": name} for name, number in NUMBERS.items()],
        "annotations": [
            {"image_id": side.image_ids[image], "category_id": NUMBERS[box.label], "bbox": box[1:5]}
            | {"area": box.width * box.height}
            for image, box in rows
        ],
    }


def ultralytics(image):
    """`Results.to_json()`, which counts classes from 0."""
    edges = ("x1", "y1", "x2", "y2")
    return [
        {"name": box.label, "class": NUMBERS[box.label] - 1, "confidence": box.score}
        | {"box": dict(zip(edges, box.corners, strict=True))}
        for box in FOUND.boxes[image]
    ]


def roboflow(image):
    """The answer of hosted inference, with centers of boxes."""
    rows = [
        {"x": box.x + box.width / 2, "y": box.y + box.height / 2, "width": box.width, "height": box.height}
        | {"confidence": box.score, "class": box.label, "class_id": NUMBERS[box.label] - 1}
        for box in FOUND.boxes[image]
    ]
    return {"time": 0.5, "image": {"width": 512, "height": 256}, "predictions": rows}


def label_studio(side, key):
    """Tasks with regions in percent of the image."""
    tasks = []
    for image, boxes in side.boxes.items():
        width, height = side.sizes[image]
        regions = []
        for box in boxes:
            value = {"x": 100 * box.x / width, "width": 100 * box.width / width, "rectanglelabels": [box.label]}
            value |= {"y": 100 * box.y / height, "height": 100 * box.height / height, "rotation": 0}
            region = {"original_width": width, "original_height": height, "type": "rectanglelabels", "value": value}
            regions.append(region if box.score is None else region | {"score": box.score})
        task = {"data": {"image": f"/data/upload/{image}.jpg"}, "annotations": [], "predictions": []}
        tasks.append(task | {key: [{"result": regions}]})
    return tasks


def supervision_rows(**named):
    """Rows of JSONSink and CSVSink, with a name under a key of the user."""
    return [
        {"x_min": box.corners[0], "y_min": box.corners[1], "x_max": box.corners[2], "y_max": box.corners[3]}
        | {"class_id": NUMBERS[box.label] - 1, "confidence": box.score, "tracker_id": "", "class_name": box.label}
        | {key: name.format(image) for key, name in named.items()}
        for image, boxes in FOUND.boxes.items()
        for box in boxes
    ]


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def in_files(of_image):
    """A function that writes a file for each image, named like it."""

    def write_files(path):
        path.with_suffix("").mkdir()
        for image in FOUND.boxes:
            write(path.with_suffix("") / f"{image}.json", of_image(image))
        return path.with_suffix("")

    return write_files


def write_table(path):
    rows = supervision_rows(image_name="{}.jpg")
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path.with_suffix(".csv")


FORMS = {
    "Ultralytics by name": lambda path: write(path, {f"{image}.jpg": ultralytics(image) for image in FOUND.boxes}),
    "Ultralytics in files": in_files(ultralytics),
    "Roboflow by name": lambda path: write(path, {f"{image}.jpg": roboflow(image) for image in FOUND.boxes}),
    "Roboflow in files": in_files(roboflow),
    "Label Studio": lambda path: write(path, label_studio(FOUND, "predictions")),
    "supervision": lambda path: write(path, supervision_rows(file_name="images/{}.jpg")),
    "supervision in a table": write_table,
}


@pytest.fixture
def detect(tmp_path, monkeypatch, capsys):
    """The command: its mAP, and what it said."""
    monkeypatch.chdir(tmp_path)

    def call(*paths):
        status = main(["detect", *map(str, paths), "--json", "-"])
        output = capsys.readouterr()
        return (json.loads(output.out)["numbers"]["map"]["value"] if status == 0 else None), output.err

    return call


def converted(message, path):
    """Run the line of the message on the file, or on the folder of files; return the file that it writes."""
    known = {"json": json, "Path": Path, "pandas": pd, "path": str(path), "folder": str(path)}
    line = re.search(r"convert it by `(.*)`", message)[1]
    if "globox" in line:
        known["globox"] = pytest.importorskip("globox")
    if path.is_file():
        known["file"] = path.open(encoding="utf-8")
    exec(line, known)  # noqa: S102 - as a user would paste it
    if "file" in known:
        known["file"].close()
    (result,) = [*Path().glob("results.json"), *Path().glob("coco.json")]
    return result


@pytest.mark.parametrize("name", FORMS)
def test_the_line_in_the_message_converts_detections_of_other_tools(name, detect):
    truth = write(Path("truth.json"), data_set(TRUTH))
    path = FORMS[name](Path("found.json"))
    number, said = detect(truth, path)
    assert number is None
    assert f", of {name.split(' by')[0].split(' in')[0]}" in said
    number, said = detect(truth, converted(said, path))
    assert number == pytest.approx(mean_average_precision(TRUTH, FOUND), abs=1e-6), said


def test_annotations_of_label_studio_become_a_data_set(detect):
    found = write(Path("found.json"), [row | {"score": 0.5} for row in data_set(FOUND)["annotations"]])
    truth = write(Path("truth.json"), label_studio(TRUTH, "annotations"))
    _, said = detect(truth, found)
    assert len(json.loads(converted(said, truth).read_text(encoding="utf-8"))["annotations"]) == len(
        data_set(TRUTH)["annotations"]
    )
    _, said = detect(write(truth, [{"image": "/data/shot.jpg", "label": [], "annotation_id": 1}]), found)
    assert ", of JSON-MIN of Label Studio; export it as COCO" in said


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ([ultralytics(image) for image in FOUND.boxes], "of Ultralytics; images have no names; write a dict"),
        ([roboflow(image) for image in FOUND.boxes], "of Roboflow; images have no names; write a dict"),
        (supervision_rows(frame="{}"), "of supervision; call `sink.append(detections, {'image': name})`"),
    ],
)
def test_detections_without_the_names_of_their_images_are_refused_with_what_gives_them(content, remedy, detect):
    _, said = detect(write(Path("truth.json"), data_set(TRUTH)), write(Path("found.json"), content))
    assert remedy in said


@pytest.mark.parametrize(
    "content",
    [[None, 5], [5, supervision_rows()[0]], [[]], [[None]], {"a": None}, {"a": {"predictions": 3}}, [{}], 7, "a"],
)
def test_contents_of_no_form_are_refused_without_a_line(content, detect):
    number, said = detect(write(Path("truth.json"), data_set(TRUTH)), write(Path("found.json"), content))
    assert number is None
    assert "`found.json` must h" in said
    assert "convert" not in said


def test_corners_of_rotated_boxes_become_the_boxes_around_them(detect):
    corners = dict(zip(("x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4"), (5, 0, 9, 4, 5, 8, 1, 4), strict=True))
    row = {"name": "zebra", "class": 0, "confidence": 0.5, "box": corners}
    path = write(Path("found.json"), {"shot_00.jpg": [row]})
    _, said = detect(write(Path("truth.json"), data_set(TRUTH)), path)
    (result,) = json.loads(converted(said, path).read_text(encoding="utf-8"))
    assert result["bbox"] == [1, 0, 8, 8]
    assert result["rotated_box"] == list(corners.values())
