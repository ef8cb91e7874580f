"""Names of YOLO's classes: what is read is what stands in the file, and what is wrong in it is named."""

import re

import pytest

from reid_torchmetrics.command import main
from reid_torchmetrics.data import read_yolo, read_yolo_names


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("data.yaml", "path: x\nnames:\n  0: person\n  1: traffic light\n", {0: "person", 1: "traffic light"}),
        ("data.yaml", "nc: 2\nnames: ['cat', \"dog\"]\n", {0: "cat", 1: "dog"}),
        ("data.YML", "names: {3: a, 1: b}\n", {3: "a", 1: "b"}),
        ("data.yaml", "names: [no, on, 1e3, null, 7]\n", {0: "no", 1: "on", 2: "1e3", 3: "null", 4: "7"}),
        ("data.yaml", "\ufeffnames: [Fußgänger]\n", {0: "Fußgänger"}),
        ("classes.txt", "cat\nhot dog\n\n", {0: "cat", 1: "hot dog"}),
        ("_darknet.labels", "cat\ndog\n", {0: "cat", 1: "dog"}),
        ("obj.names", "\ufeffcat\r\ndog\r\n", {0: "cat", 1: "dog"}),
    ],
)
def test_classes_have_their_names(tmp_path, name, text, names):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert read_yolo_names(tmp_path / name) == names


RULE = "`names` must be a list of texts, or a mapping from whole numbers, from 0 on, to texts; got"
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("data.yaml", "path: x\nnc: 2\n", "must have the names of classes as `names`; got `path`, `nc`."),
        ("data.yaml", "- a\n", "as `names`; got no mapping."),
        ("data.yaml", "names: cat\n", f"{RULE} 'cat'."),
        ("data.yaml", "names: {cat: 0}\n", f"{RULE} '0' for 'cat'."),
        ("data.yaml", "names: {-1: cat}\n", f"{RULE} 'cat' for '-1'."),
        ("data.yaml", "names: [[a], b]\n", f"{RULE} 'a list' for '0'."),
        ("data.yaml", "names: []\n", "must have the name of a class; got none."),
        ("data.yaml", "names: [a\n", "the file must be a mapping in YAML; got ParserError"),
        (
            "data.yaml",
            "names: !!python/object/apply:os.system [ls]\nx: *y\n",
            "the file must be a mapping in YAML; got",
        ),
        ("data.yaml", f"{BOMB}names: [*a11]\n", f"{RULE} 'a list' for '0'."),
        ("data.yaml", f"{BOMB}names: *a11\n", f"{RULE} 'a list' for '0'."),
        ("classes.txt", "\n\n", "must have the name of a class; got none."),
        ("classes.json", "[]", "the suffix must be one of .yaml, .yml, .txt, .names, .labels; got '.json'."),
    ],
)
def test_a_wrong_value_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"{name}: .*{re.escape(message)}"):
        read_yolo_names(tmp_path / name)


@pytest.mark.filterwarnings("ignore:.*were exchanged")
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("label_names", "result_names", "expected"),
    [
        ("cat dog", "dog cat", [1, 0]),
        ("dog cat", "bird cat dog", [1, 0]),  # of classes 1 and 2
        ("cat dog", "cat dog", [0, 1]),
        ("cat dog", None, [0, 1]),
        (None, "dog cat", [0, 1]),
        (None, None, [0, 1]),
    ],
)
def test_detections_get_the_numbers_of_the_ground_truths_by_names_of_both(
    tmp_path, label_names, result_names, expected, order
):
    first = 1 if result_names == "bird cat dog" else 0
    folders = [tmp_path / "set" / "labels", tmp_path / "run" / "labels"]
    lines = "1 .5 .5 .2 .2", f"{first} .5 .5 .2 .2 .75\n{first + 1} .3 .3 .2 .2 .25"
    for folder, text, names in zip(folders, lines, (label_names, result_names), strict=True):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text(text, encoding="utf-8")
        if names is not None:
            (folder.parent / "obj.names").write_text(names.replace(" ", "\n"), encoding="utf-8")
    (detections,), (ground_truths,) = read_yolo(*folders[::order])
    assert ground_truths["labels"].tolist() == [1]
    assert detections["labels"].tolist() == expected


@pytest.mark.parametrize("file", ["data.yml", "dataset.yml", "voc.names", "_darknet.labels"])
def test_names_are_found_under_the_names_of_other_tools(tmp_path, file):
    folders = [tmp_path / "set" / "labels", tmp_path / "run" / "labels"]
    for folder, line, names in zip(folders, ("2 .5 .5 .2 .2", "0 .5 .5 .2 .2 .75"), ("abc", "cab"), strict=True):
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text(line, encoding="utf-8")
        text = f"names: [{', '.join(names)}]" if file.endswith("yml") else "\n".join(names)
        (folder.parent / file).write_text(text, encoding="utf-8")
    (detections,), _ = read_yolo(*folders)
    assert detections["labels"].tolist() == [2]
    (folders[0] / "a.txt").write_text("3 .5 .5 .2 .2", encoding="utf-8")  # as SAHI writes COCO's ids from 1
    with pytest.raises(ValueError, match=r"a name in .*, 'a', 'b', 'c' for 0 to 2, .* from 1; got '3 .*a.txt:1\.$"):
        read_yolo(*folders)


def folders_of(path, labels="0 .5 .5 .2 .2", results="0 .5 .5 .2 .2 .9"):
    folders = []
    for name, line in (("set", labels), ("run", results)):
        folder = path / name / "labels"
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text(line, encoding="utf-8")
        folders.append(folder)
    return folders


@pytest.mark.parametrize("place", [".", ".."])
def test_names_in_labels_txt_are_no_image(place, tmp_path):
    folders = folders_of(tmp_path)
    (folders[0] / place / "labels.txt").write_text("cat\ndog\n", encoding="utf-8")
    (folders[1] / place / "labels.txt").write_text("dog\ncat\n", encoding="utf-8")
    (detections,), _ = read_yolo(*folders)
    assert detections["labels"].tolist() == [1]


def test_two_detected_classes_of_one_name_are_refused(tmp_path):
    folders = folders_of(tmp_path)
    (tmp_path / "set" / "classes.txt").write_text("cat\ndog\n", encoding="utf-8")
    (tmp_path / "run" / "classes.txt").write_text("cat\ncat\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"run.classes.txt: names of classes must differ .*; got 'cat', 'cat'"):
        read_yolo(*folders)


def test_a_file_without_names_is_passed_over(tmp_path, capsys):
    folders = folders_of(tmp_path)
    for name in ("set", "run"):
        (tmp_path / name / "data.yaml").write_text("nc: 2\ntrain: images\n", encoding="utf-8")
    assert main(["detect", *map(str, folders)]) == 0
    assert "names of classes" not in capsys.readouterr().err


@pytest.mark.parametrize("lines", [{"labels": "2 .5 .5 .2 .2"}, {"results": "2 .5 .5 .2 .2 .9"}])
def test_a_class_without_a_name_is_refused_on_both_sides(lines, tmp_path, capsys):
    (tmp_path / "classes.txt").write_text("cat\ndog\n", encoding="utf-8")
    assert main(["detect", *map(str, folders_of(tmp_path, **lines))]) == 1
    said = capsys.readouterr().err
    assert "`ground_truths`" if "labels" in lines else "`detections`" in said
    assert "classes.txt, 'cat', 'dog' for 0 to 1, and are not counted from 1; got '2 .5 .5 .2 .2" in said
