"""Layouts of Cartucho and Padilla, of KITTI and of OpenImages: numbers by hand, and errors that name the line."""

import pytest

from reid_torchmetrics import DetectionMAP, VocMAP
from reid_torchmetrics.data import KITTI_CLASSES, read_cartucho, read_kitti, read_open_images

BOX = "10 20 30 60"
KITTI = "0 0 0 {} 1 1 1 0 0 0 0"


def written(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "gt", folder / "dt"


def map_50(sides, box_format="xyxy"):
    metric = DetectionMAP(box_format, metric="map_50")
    metric.update(*sides)
    return float(metric.compute())


def test_lines_of_cartucho_and_padilla_are_read(tmp_path):
    files = {
        "gt/a.txt": f"traffic light {BOX}\ncat {BOX} difficult\n",
        "gt/b.txt": "",
        "dt/a.txt": f"traffic light 0.9 {BOX}\n",
        "dt/b.txt": f"cat 0.5 {BOX}\n",
    }
    preds, target = read_cartucho(*written(tmp_path, files), ("cat", "traffic light"))
    assert [item["image_id"] for item in target] == ["a", "b"]
    assert target[0]["labels"].tolist() == [1, 0]
    assert target[0]["boxes"].tolist() == [[10, 20, 30, 60]] * 2
    assert target[0]["difficult"].tolist() == [False, True]
    assert [item["scores"].tolist() for item in preds] == [[0.9], [0.5]]
    metric = VocMAP()
    metric.update(preds, target)
    assert float(metric.compute()["map"]) == 1  # the cat is difficult, so its class has no ground truth


def test_shares_of_cartucho_become_pixels_by_the_sizes_of_images(tmp_path):
    folders = written(tmp_path, {"gt/a.txt": "cat .5 .5 .2 .4\n", "dt/a.txt": "cat .9 .5 .5 .2 .4\n"})
    for sizes in ((100, 50), {"a": (100, 50)}, {"a.jpg": (100, 50)}):
        preds, target = read_cartucho(*folders, ("cat",), image_sizes=sizes)
        assert target[0]["boxes"].tolist() == [[50, 25, 20, 20]]
        assert "difficult" not in target[0]
        assert map_50((preds, target), "cxcywh") == 1


def test_detections_on_regions_of_kitti_without_labels_do_not_count(tmp_path):
    files = {
        "gt/1.txt": f"Car {KITTI.format(BOX)}\nDontCare {KITTI.format('100 100 300 300')}\n",
        # A car and a van inside of the region, which are ignored, then the car itself.
        "dt/1.txt": f"Car {KITTI.format('120 120 160 160')} 0.9\nVan {KITTI.format('200 200 220 220')} 0.8\n"
        f"Car {KITTI.format(BOX)} 0.7\n",
    }
    preds, target = read_kitti(*written(tmp_path, files))
    assert target[0]["iscrowd"].tolist() == [0] + [1] * len(KITTI_CLASSES)
    assert sorted(target[0]["labels"].tolist()) == sorted([0, *range(len(KITTI_CLASSES))])
    assert map_50((preds, target)) == 1
    assert preds[0]["labels"].tolist() == [0, 1, 0]


HEADER = (
    "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside\n"
)


def test_tables_of_open_images_are_read(tmp_path):
    annotations = (
        f"{HEADER}a,xclick,/m/01,1,0.1,0.3,0.2,0.6,0,0,0,0,0\n"
        "b,xclick,/m/02,1,0,0.5,0,0.5,0,0,1,0,0\nb,xclick,/m/02,1,0.6,0.7,0.6,0.7,0,0,-1,0,0\n"
    )
    results = (
        "ImageID,LabelName,Score,XMin,XMax,YMin,YMax\na,/m/01,0.9,0.1,0.3,0.2,0.6\n"
        "b,/m/02,0.9,0.1,0.2,0.1,0.2\nb,/m/02,0.8,0.6,0.7,0.6,0.7\n"
    )
    paths = [tmp_path / name for name in ("gt.csv", "dt.csv")]
    for path, text in zip(paths, (annotations, results), strict=True):
        path.write_text(text, encoding="utf-8")
    preds, target = read_open_images(*paths, ("/m/01", "/m/02"))
    assert target[0]["boxes"].tolist() == [[0.1, 0.2, 0.3, 0.6]]
    assert target[1]["iscrowd"].tolist() == [1, 0]
    # The detection on the group is ignored.
    assert map_50((preds, target)) == 1
    _, target = read_open_images(*paths, ("/m/01", "/m/02"), image_sizes=(100, 10))
    assert target[0]["boxes"].tolist() == [[10, 2, 30, 6]]


@pytest.mark.parametrize(
    ("reader", "label", "result", "message"),
    [
        (
            read_cartucho,
            f"cat {BOX} x",
            f"cat .9 {BOX}",
            r"`labels` must have a class, four numbers .* got 'cat .*a\.txt:1",
        ),
        (
            read_cartucho,
            BOX,
            f"cat .9 {BOX}",
            r"`labels` must have a class, four numbers and maybe `difficult` in a line",
        ),
        (read_cartucho, f"cat {BOX}", f"cat {BOX}", r"`results` must have a class, a confidence and four numbers"),
        (read_cartucho, f"cat {BOX}", f"cat nan {BOX}", r"`results` must have a class, a confidence and four numbers"),
        (
            read_cartucho,
            f"dog {BOX}",
            f"cat .9 {BOX}",
            r"`labels` must have objects of `class_names` only; got 'dog', .*:1",
        ),
        (read_cartucho, f"cat {BOX}", f"dog .9 {BOX}", r"`results` must have objects of `class_names` only; got 'dog'"),
        (read_kitti, f"cat {BOX}", f"cat .9 {BOX}", r"`labels` must have a type, 14 numbers in a line; got 'cat"),
        (
            read_kitti,
            f"cat {KITTI.format(BOX)}",
            f"cat {KITTI.format(BOX)}",
            r"`results` must have a type, 14 numbers and a score in a line",
        ),
    ],
)
def test_a_malformed_line_is_named_with_its_file(tmp_path, reader, label, result, message):
    folders = written(tmp_path, {"gt/a.txt": label, "dt/a.txt": result})
    with pytest.raises(ValueError, match=message):
        reader(*folders, ("cat",))


@pytest.mark.parametrize(
    ("annotations", "results", "message"),
    [
        (
            "ImageID,LabelName\na,x\n",
            HEADER,
            r"`annotations` must have a column 'XMin'; got ImageID, LabelName, .*gt\.csv",
        ),
        (HEADER, "ImageID,LabelName,XMin,XMax,YMin,YMax\n", r"`results` must have a column 'Score' or 'Confidence'"),
        (
            HEADER + "a,x,/m/01,1,0.1,?,0.2,0.6,0,0,0,0,0\n",
            HEADER,
            r"`annotations` must have numbers as XMin, .*gt\.csv:2",
        ),
        (HEADER + "a,x,/m/01,1,0.1\n", HEADER, r"`annotations` must have numbers as XMin, .*gt\.csv:2"),
        (
            HEADER + "a,x,/m/01,1,0.1,0.2,0.2,0.6,0,0,0,0,0\n",
            HEADER + "b,x,/m/01,1,0.1,0.2,0.2,0.6,0,0,0,0,0\n",
            r"`results` must have an image in common with `annotations`; got 'b' first in",
        ),
        ("", HEADER, r"`annotations` must have a column 'ImageID'; got none"),
    ],
)
def test_a_malformed_table_is_named(tmp_path, annotations, results, message):
    paths = [tmp_path / name for name in ("gt.csv", "dt.csv")]
    for path, text in zip(paths, (annotations, results), strict=True):
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_open_images(*paths, ("/m/01",))


@pytest.mark.parametrize("reader", [read_cartucho, read_kitti])
def test_folders_that_do_not_belong_together_are_named(tmp_path, reader):
    line = {read_cartucho: f"Car {BOX}\n", read_kitti: f"Car {KITTI.format(BOX)}\n"}[reader]
    result = {read_cartucho: f"Car .9 {BOX}\n", read_kitti: f"Car {KITTI.format(BOX)} .9\n"}[reader]
    folders = written(tmp_path, {"gt/a.txt": line, "dt/b.txt": result})
    with pytest.raises(ValueError, match="`results` must have an image in common with `labels`; got 'b' first"):
        reader(*folders, ("Car",))
    (tmp_path / "dt" / "b.txt").unlink()
    with pytest.raises(ValueError, match=r"`results` must be a folder of \.txt files; got .* without files"):
        reader(*folders, ("Car",))
