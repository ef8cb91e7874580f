"""`detect` on folders of Pascal VOC and YOLO, by the rules of each evaluator."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from reid_torchmetrics.command import main
from reid_torchmetrics.functional.detection import DetectionResults

# Two cats, of which one is found exactly and one by half: at 0.5 AP is 1/2, as the half has the overlap 1/2 or less.
VOC_OBJECT = (
    "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"
)


@pytest.fixture
def voc(tmp_path):
    """A cat that is found, a cat that is not, and a dog that is found; in two images."""
    annotations, results = tmp_path / "Annotations", tmp_path / "results"
    annotations.mkdir()
    results.mkdir()
    cats = VOC_OBJECT.format("cat", 1, 1, 10, 10) + VOC_OBJECT.format("cat", 51, 51, 60, 60)
    (annotations / "a.xml").write_text(f"<annotation>{cats}</annotation>", encoding="utf-8")
    dog = VOC_OBJECT.format("dog", 21, 21, 40, 40)
    (annotations / "b.xml").write_text(f"<annotation>{dog}</annotation>", encoding="utf-8")
    (results / "comp4_det_val_cat.txt").write_text("a 0.9 1 1 10 10\nb 0.3 1 1 5 5\n", encoding="utf-8")
    (results / "comp4_det_val_dog.txt").write_text("b 0.8 21 21 40 40\n", encoding="utf-8")
    return "Annotations", "results"


@pytest.fixture
def yolo(tmp_path):
    """The same objects in shares of images of 100 x 100 pixels, in the folders of Ultralytics."""
    labels, results = tmp_path / "set" / "labels" / "val", tmp_path / "runs" / "labels"
    labels.mkdir(parents=True)
    results.mkdir(parents=True)
    (tmp_path / "set" / "data.yaml").write_text("names: [cat, dog]\n", encoding="utf-8")
    (labels / "a.txt").write_text("0 .05 .05 .1 .1\n0.0 .55 .55 .1 .1\n", encoding="utf-8")
    (labels / "b.txt").write_text("1 .3 .3 .2 .2\n", encoding="utf-8")
    (results / "a.txt").write_text("0 .05 .05 .1 .1 .9\n", encoding="utf-8")
    (results / "b.txt").write_text("1 .3 .3 .2 .2 .8\n0 .03 .03 .04 .04 .3\n", encoding="utf-8")
    return "set/labels/val", "runs/labels"


def numbers(outcome):
    assert outcome.status == 0, outcome.err
    return {name: number["value"] for name, number in json.loads(outcome.out)["numbers"].items()}


# The AP of the cat is 1/2 by the area under the curve, 51 of 101 recalls by COCO's rule, 6 of 11 by VOC 2007's.
@pytest.mark.parametrize("folders", ["voc", "yolo"])
@pytest.mark.parametrize(
    ("words", "cat"),
    [
        (["--evaluator", "voc"], 1 / 2),
        (["--evaluator", "voc", "--rule", "voc07"], 6 / 11),
        (["--evaluator", "coco"], 51 / 101),
        (["--evaluator", "yolo", "--rule", "voc"], 1 / 2),
    ],
)
def test_folders_are_evaluated_by_the_rules_of_any_evaluator(command, request, folders, words, cat):
    paths = request.getfixturevalue(folders)
    found = numbers(command("detect", *paths, *words, "--json", "-"))
    name = "map_50" if "map_50" in found else "map"
    assert found[name] == pytest.approx((cat + 1) / 2, abs=1e-12)


@pytest.mark.parametrize("name", ["classes.txt", "obj.names"])
def test_a_list_of_classes_beside_the_labels_is_no_label_file(command, tmp_path, yolo, name):
    (tmp_path / "set" / "labels" / "val" / name).write_text("cat\ndog\n", encoding="utf-8")
    outcome = command("detect", *yolo, "--evaluator", "yolo", "--json", "-")
    assert numbers(outcome)["map_50"] == pytest.approx(0.75, abs=0.01)
    assert name in outcome.err


def test_sizes_of_objects_need_the_size_of_the_images(command, yolo):
    outcome = command("detect", *yolo, "--json", "-")
    assert "map_small" not in numbers(outcome)
    assert "see --image-size" in outcome.err
    outcome = command("detect", *yolo, "--image-size", "1000", "1000", "--json", "-")
    found = numbers(outcome)
    # 100 x 100 and 200 x 200 pixels: all objects are large.
    assert found["map_large"] == found["map"]
    assert "--image-size" not in outcome.err


@pytest.mark.filterwarnings("default")
def test_folders_in_the_other_order_are_read_as_they_are_meant(command, voc, yolo):
    for paths in (voc, yolo):
        outcome = command("detect", *paths[::-1], "--evaluator", "voc", "--json", "-")
        assert numbers(outcome)["map"] == 0.75
        assert "were exchanged" in outcome.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "Annotations dt.json",
            "must both be files of JSON, or both folders; got the folder 'Annotations' and 'dt.json'.",
        ),
        ("Annotations results --evaluator lvis", "must be a file of JSON for `--evaluator lvis`; got a folder."),
        ("Annotations results --iou-type segm", "`--iou-type` must be one of 'bbox'; got 'segm'."),
        ("Annotations results --iou-type bbox segm", "`--iou-type` must be one type for folders; got bbox segm."),
        (
            "Annotations results --image-size 9 9",
            "`--image-size` must be given with files of shares of the image; got other files.",
        ),
        (
            "Annotations empty --evaluator voc",
            "`detections` must be a folder of .txt files; got 'empty' without files.",
        ),
        ("empty empty --evaluator dota", "must be a folder of .txt files; got 'empty' without files."),
        ("empty empty --evaluator yolo", "must be a folder of .txt files; got 'empty' without files."),
    ],
)
def test_folders_that_do_not_fit_are_one_line(command, tmp_path, voc, words, line):
    (tmp_path / "empty").mkdir()
    (tmp_path / "dt.json").write_text("[]", encoding="utf-8")
    outcome = command("detect", *words.split())
    assert outcome.status == 1
    assert line in outcome.err
    assert outcome.err.count("\n") == 1


def with_own_names(tmp_path, names):
    """Let the detections of `yolo` have the numbers that their classes have in a file of names beside them."""
    (tmp_path / "runs" / "data.yaml").write_text(f"names: [{', '.join(names)}]\n", encoding="utf-8")
    results = tmp_path / "runs" / "labels"
    cat, dog = names.index("cat"), names.index("dog")
    (results / "a.txt").write_text(f"{cat} .05 .05 .1 .1 .9\n", encoding="utf-8")
    (results / "b.txt").write_text(f"{dog} .3 .3 .2 .2 .8\n{cat} .03 .03 .04 .04 .3\n", encoding="utf-8")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("words", [(), ("--class-names", "Katze", "Hund")])
@pytest.mark.parametrize("names", [["dog", "cat"], ["bird", "cat", "dog"]])
def test_classes_of_detections_are_found_by_names_where_both_sides_have_them(
    command, tmp_path, yolo, names, words, order
):
    with_own_names(tmp_path, names)
    outcome = command("detect", *yolo[::order], "--evaluator", "yolo", "--json", "-", "--save", "saved.npz", *words)
    assert "classes of detections by their names in" in outcome.err
    assert numbers(outcome)["map_50"] == pytest.approx(0.75, abs=0.01)
    assert DetectionResults.load(tmp_path / "saved.npz").class_names == dict(enumerate(words[1:] or ["cat", "dog"]))


def test_a_class_that_the_ground_truths_lack_is_an_error(command, tmp_path, yolo):
    with_own_names(tmp_path, ["bird", "cat", "dog"])
    (tmp_path / "set" / "data.yaml").write_text("names: [bat, dog]\n", encoding="utf-8")
    outcome = command("detect", *yolo)
    rule = "classes of detections must have names of the ground truths, 'bat', 'dog'; got 'cat' for class 1"
    assert (outcome.status, rule in outcome.err) == (1, True)


def named_boxes(layout, *, with_scores):
    """Return the lines of two images in a layout, of the objects in `voc`."""
    true_boxes = {"a": [("cat", 1, 1, 10, 10), ("cat", 51, 51, 60, 60)], "b": [("dog", 21, 21, 40, 40)]}
    found_boxes = {"a": [("cat", 1, 1, 10, 10, 0.9)], "b": [("dog", 21, 21, 40, 40, 0.8), ("cat", 1, 1, 5, 5, 0.3)]}
    files = {}
    for name, boxes in (found_boxes if with_scores else true_boxes).items():
        lines = []
        for label, left, top, right, bottom, *score in boxes:
            edges = f"{left} {top} {right} {bottom}"
            line = f"{label} {' '.join(map(str, score))} {edges}" if score else f"{label} {edges}"
            if layout == "kitti":
                line = " ".join([label, "0 0 -10", edges, "-1 -1 -1 -1000 -1000 -1000 -10", *map(str, score)])
            lines.append(f"{line}\n")
        files[name] = "".join(lines)
    return files


@pytest.mark.parametrize("layout", ["cartucho", "kitti"])
def test_folders_with_names_of_classes_in_lines_are_recognized(command, tmp_path, layout):
    for folder, with_scores in (("labels", False), ("results", True)):
        (tmp_path / folder).mkdir()
        for name, lines in named_boxes(layout, with_scores=with_scores).items():
            (tmp_path / folder / f"{name}.txt").write_text(lines, encoding="utf-8")
    found = numbers(command("detect", "labels", "results", "--evaluator", "voc", "--json", "-"))
    assert found["map_50"] == pytest.approx(0.75)


@pytest.mark.parametrize("words", [(), ("--image-size", "100", "50")])
def test_tables_of_open_images_are_recognized(command, tmp_path, words):
    header = "ImageID,LabelName,Confidence,XMin,XMax,YMin,YMax"
    (tmp_path / "truth.csv").write_text(
        f"{header},IsGroupOf\na,/m/1,1,0.1,0.2,0.1,0.2,0\nb,/m/2,1,0.5,0.9,0.5,0.9,0\n", encoding="utf-8"
    )
    (tmp_path / "found.csv").write_text(f"{header}\na,/m/1,0.9,0.1,0.2,0.1,0.2\n", encoding="utf-8")
    outcome = command("detect", "truth.csv", "found.csv", "--json", "-", *words)
    found = numbers(outcome)
    assert found["map"] == pytest.approx(0.5)
    assert ("map_small" in found) == bool(words)


def test_tables_of_open_images_may_name_their_delimiter(command, tmp_path):
    header = "ImageID;LabelName;Confidence;XMin;XMax;YMin;YMax"
    (tmp_path / "truth.csv").write_text(f"sep=;\n{header};IsGroupOf\na;/m/1;1;0.1;0.2;0.1;0.2;0\n", encoding="utf-8")
    (tmp_path / "found.csv").write_text(f"{header}\na;/m/1;0.9;0.1;0.2;0.1;0.2\n", encoding="utf-8")
    assert numbers(command("detect", "truth.csv", "found.csv", "--json", "-"))["map"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("results.pkl", "mmdet writes JSON of COCO, PREFIX.bbox.json"),
        ("instances_predictions.pth", "detectron2 writes JSON of COCO, coco_instances_results.json"),
        ("results.json.gz", "unpack it by `gunzip`"),
    ],
)
def test_files_of_other_tools_have_a_remedy(command, tmp_path, name, remedy):
    (tmp_path / "truth.json").write_text("{}", encoding="utf-8")
    (tmp_path / name).write_bytes(b"\x80")
    outcome = command("detect", "truth.json", name)
    assert outcome.status == 1
    assert remedy in outcome.err


def test_the_line_that_converts_json_of_darknet_makes_a_folder(command, tmp_path):
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.txt").write_text("1 0.5 0.5 0.25 0.25\n", encoding="utf-8")
    (tmp_path / "labels" / "b.txt").write_text("0 0.5 0.5 0.5 0.5\n", encoding="utf-8")
    place = {"center_x": 0.5, "center_y": 0.5, "width": 0.25, "height": 0.25}
    found = [{"class_id": 1, "name": "cat", "relative_coordinates": place, "confidence": 0.75}]
    images = [{"frame_id": 1, "filename": "data/a.jpg", "objects": found}]
    images.append({"frame_id": 2, "filename": "data/b.jpg", "objects": []})
    (tmp_path / "result.json").write_text(json.dumps(images), encoding="utf-8")
    (tmp_path / "truth.json").write_text('{"images": [], "annotations": []}', encoding="utf-8")
    for truth in ("labels", "truth.json"):
        line = re.search(r"of darknet; .* by `(.*)`", command("detect", truth, "result.json").err)[1]
    with (tmp_path / "result.json").open(encoding="utf-8") as file:
        exec(line, {"json": json, "Path": Path, "file": file})  # noqa: S102 - as a user would paste it
    assert numbers(command("detect", "labels", "results", "--json", "-"))["map"] == pytest.approx(0.5)


def test_the_lines_that_convert_make_results(command, tmp_path, monkeypatch):
    box = {"bbox": [1, 1, 10, 10], "image_id": 1, "category_id": 1}
    data_set = {"images": [{"id": 1}], "categories": [{"id": 1}], "annotations": [{"id": 1, "area": 100, **box}]}
    (tmp_path / "truth.json").write_text(json.dumps(data_set), encoding="utf-8")
    rows = [{"score": 0.9, **box}]
    forms = {"rows.jsonl": f"{json.dumps(rows[0])}\n", "rows.json": json.dumps({"predictions": rows})}
    forms |= {"lists.json": json.dumps([[], rows]), "by_image.json": json.dumps({"1": rows, "2": rows[:0], "3": []})}
    forms |= {"columns.json": pd.DataFrame(rows).to_json()}
    for name, text in forms.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        line = re.search(r"convert it by `(.*)`", command("detect", "truth.json", name).err)[1]
        with (tmp_path / name).open(encoding="utf-8") as file:
            known = {"json": json, "Path": Path, "pandas": pd, "path": name, "file": file}
            exec(line, known)  # noqa: S102 - the line of the message, as a user would paste it
        assert numbers(command("detect", "truth.json", "results.json", "--json", "-"))["map"] == pytest.approx(1)


@pytest.mark.parametrize("layout", ["cartucho", "open_images"])
def test_classes_of_two_spellings_are_refused(layout, tmp_path, capsys):
    for side, score, class_name in (("labels", "", "cat"), ("results", "0.9", "Cat")):
        if layout == "cartucho":
            (tmp_path / side).mkdir()
            line = f"{class_name} {score} 10 10 60 60"
            (tmp_path / side / "a.txt").write_text(line, encoding="utf-8")
        else:
            header = f"ImageID,LabelName,{'Conf,' * bool(score)}XMin,XMax,YMin,YMax"
            row = f"a,{class_name},{f'{score},' * bool(score)}0.1,0.6,0.1,0.6"
            (tmp_path / f"{side}.csv").write_text(f"{header}\n{row}\n", encoding="utf-8")
    suffix = "" if layout == "cartucho" else ".csv"
    assert main(["detect", *(str(tmp_path / f"{side}{suffix}") for side in ("labels", "results"))]) == 1
    message = "`detections` must have a class in common with the ground truths; got 'Cat' where these have 'cat'."
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("layout", ["cartucho", "open_images"])
def test_one_class_in_two_spellings_is_refused(layout, tmp_path, capsys):
    paths = []
    for side, name in (("a", "traffic_light"), ("b", "Traffic light" if layout == "open_images" else "Traffic-Light")):
        score = "" if side == "a" and layout == "cartucho" else "0.5"
        if layout == "cartucho":
            paths.append(tmp_path / side)
            paths[-1].mkdir()
            (paths[-1] / "1.txt").write_text(f"dog {score} 0 0 9 9\n{name} {score} 0 0 5 5\n", encoding="utf-8")
        else:
            paths.append(tmp_path / f"{side}.csv")
            rows = "".join(f"1,{label},{score},0,.9,0,.9,0\n" for label in ("dog", name))
            header = "ImageID,LabelName,Confidence,XMin,XMax,YMin,YMax,IsGroupOf\n"
            paths[-1].write_text(header + rows, encoding="utf-8")
    assert main(["detect", *map(str, paths)]) == 1
    assert re.search(
        r"must spell classes as the ground truths do; got 'T.*' where these have 'traf", capsys.readouterr().err
    )


LINES = {
    "yolo": ("0 .5 .5 .2 .2", "0 .5 .5 .2 .2 .9"),
    "cartucho": ("cat 0 0 9 9", "cat .9 0 0 9 9"),
    "kitti": (f"Car 0 0 0 0 0 9 9{' 0' * 7}", f"Car 0 0 0 0 0 9 9{' 0' * 7} .9"),
}


@pytest.mark.parametrize("found", LINES)
@pytest.mark.parametrize("true", LINES)
def test_images_lack_the_first_zeros_on_one_side_and_layouts_are_one(true, found, tmp_path, capsys):
    for side, name, text in (("a", "007", LINES[true][0]), ("b", "7", LINES[found][1])):
        (tmp_path / side).mkdir()
        (tmp_path / side / f"{name}.txt").write_text(text, encoding="utf-8")
    status = main(["detect", str(tmp_path / "a"), str(tmp_path / "b"), "--json", "-"])
    said = capsys.readouterr()
    if true == found:
        assert json.loads(said.out)["numbers"]["map"]["value"] == pytest.approx(1)
    else:
        assert status == 1
        assert re.search(r"must have lines of one layout; got '.*' in '.*a' and '.*' in '.*b'", said.err)
