"""`detect --images` draws boxes into the images in a report, of every layout of files."""

import json

import numpy as np
import pytest

from tests.report.pages import read

PIL = pytest.importorskip("PIL.Image")
NUM_IMAGES = 4
SIZE = (60, 40)
VOC_OBJECT = (
    "<object><name>cat</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"
)


def gray_of(image: int) -> int:
    return 20 * image + 10


def paint(folder, name_of):
    """Write an image with a gray for each number."""
    for image in range(NUM_IMAGES):
        path = folder / "images" / name_of(image)
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.new("L", SIZE, gray_of(image)).save(path)


def coco(folder, name_of="{:04d}.jpg".format, key="file_name"):
    """A cat in each image, which is found in the first one only."""
    paint(folder, name_of)
    prefix = "http://images.cocodataset.org/" if key == "coco_url" else ""
    images = [
        {"id": 7 + image, key: f"{prefix}{name_of(image)}", "width": SIZE[0], "height": SIZE[1]}
        for image in range(NUM_IMAGES)
    ]
    box = {"category_id": 1, "bbox": [10, 10, 30, 20], "area": 600, "iscrowd": 0}
    objects = [box | {"id": 1 + image, "image_id": 7 + image} for image in range(NUM_IMAGES)]
    truth = {"images": images, "annotations": objects, "categories": [{"id": 1, "name": "cat"}]}
    (folder / "gt.json").write_text(json.dumps(truth), encoding="utf-8")
    (folder / "dt.json").write_text(json.dumps([objects[0] | {"score": 0.9}]), encoding="utf-8")
    return ["gt.json", "dt.json"]


def coco_in_folders(folder):
    return coco(folder, "val/{:04d}.jpg".format)


def coco_with_addresses(folder):
    """Files as LVIS names them."""
    return coco(folder, "val2017/{:04d}.jpg".format, "coco_url")


def yolo(folder):
    paint(folder, "{:04d}.jpg".format)
    for name in ("labels", "results"):
        (folder / name).mkdir()
    line = f"0 {25 / 60} {20 / 40} {30 / 60} {20 / 40}"
    for image in range(NUM_IMAGES):
        (folder / "labels" / f"{image:04d}.txt").write_text(f"{line}\n", encoding="utf-8")
    (folder / "results" / "0000.txt").write_text(f"{line} 0.9\n", encoding="utf-8")
    return ["labels", "results"]


def voc(folder):
    paint(folder, "{:04d}.png".format)
    for name in ("annotations", "results"):
        (folder / name).mkdir()
    for image in range(NUM_IMAGES):
        text = f"<annotation>{VOC_OBJECT.format(10, 10, 40, 30)}</annotation>"
        (folder / "annotations" / f"{image:04d}.xml").write_text(text, encoding="utf-8")
    (folder / "results" / "comp4_det_val_cat.txt").write_text("0000 0.9 10 10 40 30\n", encoding="utf-8")
    return ["annotations", "results"]


def dota(folder):
    paint(folder, "P{:04d}.png".format)
    for name in ("labelTxt", "results"):
        (folder / name).mkdir()
    corners = "10 10 40 10 40 30 10 30"
    for image in range(NUM_IMAGES):
        (folder / "labelTxt" / f"P{image:04d}.txt").write_text(f"{corners} plane 0\n", encoding="utf-8")
    (folder / "results" / "Task1_plane.txt").write_text(f"P0000 0.9 {corners}\n", encoding="utf-8")
    return ["labelTxt", "results", "--evaluator", "dota"]


LAYOUTS = [coco, coco_in_folders, coco_with_addresses, yolo, voc, dota]
WORDS = ["--report", "page.html", "--images", "images"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_picture_of_an_image_is_its_file_and_boxes_are_in_its_pixels(command, tmp_path, reported, layout):
    output = command("detect", *layout(tmp_path), *WORDS)
    assert output.status == 0, output.err
    results = reported["results"]
    ids = list(results.image_names or results.images.tolist())
    for number, image in enumerate(ids):
        assert np.asarray(reported["pictures"][image]).mean() == pytest.approx(gray_of(number), abs=1)
        if reported["image_names"] is not None:
            assert reported["image_names"][image].endswith(f"{number:04d}.jpg")
    _, (target,) = results.boxes_of(ids[:1])
    (box,) = next(iter(target.values())).tolist()
    expected = [10, 10, 30, 20] if reported["box_format"] == "xywh" else [10, 10, 40, 30]
    if layout is dota:
        expected = [10, 10, 40, 10, 40, 30, 10, 30]
    assert box == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("layout", [coco, yolo, dota])
def test_the_page_has_the_worst_images_with_their_boxes(command, tmp_path, layout):
    output = command("detect", *layout(tmp_path), *WORDS)
    assert output.status == 0, output.err
    section = read(tmp_path / "page.html").one("section", id="images")
    titles = [item.one("p").text for item in section.all("li")]
    assert len(section.all("img")) == len(titles) == NUM_IMAGES - 1
    first = {coco: "Image 8, 0001.jpg", yolo: "Image 0001", dota: "Image P0001"}[layout]
    assert titles[0] == first


def test_masks_and_boxes_share_the_images(command, tmp_path, reported):
    words = coco(tmp_path)
    truth = json.loads((tmp_path / "gt.json").read_text(encoding="utf-8"))
    for row in truth["annotations"]:
        row["segmentation"] = [[10, 10, 40, 10, 40, 30, 10, 30]]
    (tmp_path / "gt.json").write_text(json.dumps(truth), encoding="utf-8")
    found = [truth["annotations"][0] | {"score": 0.9}]
    (tmp_path / "dt.json").write_text(json.dumps(found), encoding="utf-8")
    output = command("detect", *words, "--iou-type", "bbox", "segm", *WORDS)
    assert output.status == 0, output.err
    assert np.asarray(reported["pictures"][8]).mean() == pytest.approx(gray_of(1), abs=1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_missing_file_is_an_error_with_its_name(command, tmp_path, reported, layout):
    words = layout(tmp_path)
    (path,) = (tmp_path / "images").rglob("*0002.*")
    path.unlink()
    output = command("detect", *words, *WORDS)
    assert output.status == 1
    assert "images: there must be " in output.err
    assert path.stem in output.err
    assert not reported


def test_a_name_outside_of_the_folder_is_an_error(command, tmp_path, reported):
    words = coco(tmp_path)
    text = (tmp_path / "gt.json").read_text(encoding="utf-8")
    (tmp_path / "gt.json").write_text(text.replace('"0002.jpg"', '"../gt.json"'), encoding="utf-8")
    output = command("detect", *words, *WORDS)
    assert output.status == 1
    assert "images: names of images must not lead outside of the folder; got '../gt.json'." in output.err


def test_an_image_without_a_name_is_an_error(command, tmp_path, reported):
    words = coco(tmp_path)
    text = (tmp_path / "gt.json").read_text(encoding="utf-8")
    (tmp_path / "gt.json").write_text(text.replace('"file_name": "0002.jpg", ', ""), encoding="utf-8")
    output = command("detect", *words, *WORDS)
    assert output.status == 1
    assert "`--images` must come with a `file_name` of each image; got None of images[2]." in output.err


def test_two_files_of_one_name_are_an_error(command, tmp_path, reported):
    words = voc(tmp_path)
    PIL.new("L", SIZE).save(tmp_path / "images" / "0002.jpg")
    output = command("detect", *words, *WORDS)
    assert output.status == 1
    assert "there must be one image for each name; got 0002.jpg and 0002.png for '0002'." in output.err


def test_a_file_without_a_size_is_an_error(command, tmp_path, reported):
    words = yolo(tmp_path)
    (tmp_path / "images" / "0002.jpg").write_bytes(b"no image")
    output = command("detect", *words, *WORDS)
    assert output.status == 1
    assert "0002.jpg: must be an image that Pillow reads; got cannot identify" in output.err


def test_sizes_come_once(command, tmp_path, reported):
    output = command("detect", *yolo(tmp_path), *WORDS, "--image-size", "60", "40")
    assert output.status == 2
    assert "`--images` must come without `--image-size`, as the images have their sizes; got both" in output.err
