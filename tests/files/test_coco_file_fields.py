"""Fields of COCO's files that decide what counts are read as pycocotools reads them."""

import json
from pathlib import Path
from random import Random

import pytest
import torch

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.files.json_files import write_json
from tests.functional.detection.detection_samples import fed
from tests.functional.detection.keypoint_samples import SIGMAS, coco_rows, keypoint_images
from tests.profiles import of_each
from tests.pycocotools_shapes import largest_difference, run_coco

IMAGE = [{"id": 1, "height": 300, "width": 300}]
BOX = {"image_id": 1, "category_id": 2, "bbox": [10.0, 10.0, 200.0, 200.0], "iscrowd": 0}
BOX_RESULT = {"image_id": 1, "category_id": 2, "bbox": [10.0, 10.0, 200.0, 200.0], "score": 0.5}
POINTS = {"keypoints": [10.0, 10.0, 2.0, 50.0, 20.0, 1.0, 90.0, 210.0, 2.0]}
POINTS_RESULT = BOX_RESULT | {"keypoints": [14.0, 10.0, 2.0, 50.0, 26.0, 1.0, 90.0, 200.0, 2.0]}


def written(folder: Path, results: list, annotations: list, images: list = IMAGE) -> list[str]:
    categories = [{"id": label} for label in sorted({row["category_id"] for row in annotations})]
    data_set = {"images": images, "categories": categories, "annotations": annotations}
    return write_json(folder, results=results, instances=data_set)


def summary(paths: list[str], iou_type: str = "bbox") -> dict[str, float]:
    sigmas = {"sigmas": SIGMAS} if iou_type == "keypoints" else {}
    metric = DetectionMAP(box_format="xywh", iou_type=iou_type, **sigmas)
    metric.update(*DetectionMAP.coco_to_tm(*paths, iou_type))
    return {name: float(value) for name, value in metric.results().summary().items()}


def stats_of_pycocotools(results: list, annotations: list, iou_type: str = "bbox") -> list[float]:
    sigmas = SIGMAS if iou_type == "keypoints" else None
    return run_coco(iou_type, results, annotations, images=IMAGE, labels=[2], sigmas=sigmas)[1]


def test_a_box_with_the_area_0_in_a_file_is_small(tmp_path):
    annotations = [BOX | {"area": 0}]
    found = summary(written(tmp_path, [BOX_RESULT], annotations))
    assert (found["map_small"], found["map_large"]) == (pytest.approx(1), -1)
    assert [*found.values()] == pytest.approx(stats_of_pycocotools([BOX_RESULT], annotations), abs=1e-12)


def test_a_box_without_an_area_in_a_file_has_its_width_times_its_height(tmp_path):
    found = summary(written(tmp_path, [BOX_RESULT], [BOX]))
    assert (found["map_small"], found["map_large"]) == (-1, pytest.approx(1))


def test_an_area_of_0_in_a_dict_of_update_is_not_given():
    target = {"boxes": torch.tensor([BOX["bbox"]]), "labels": torch.tensor([2]), "area": torch.tensor([0.0])}
    found = {"boxes": target["boxes"], "labels": target["labels"], "scores": torch.tensor([0.5])}
    metric = fed(DetectionMAP(box_format="xywh"), [found], [target])
    assert metric.compute()["map_large"] == 1


@pytest.mark.parametrize(
    ("columns", "result", "value"),
    [
        (POINTS | {"area": 0, "num_keypoints": 3}, POINTS_RESULT, 0),  # they have to be exact
        (POINTS | {"area": 0, "num_keypoints": 3}, BOX_RESULT | POINTS, 1),
        (POINTS | {"area": 40000, "num_keypoints": 0}, POINTS_RESULT, -1),  # the object is ignored
        # It counts though none is labeled: all lie in the box, three times as wide and high.
        ({"keypoints": [0.0] * 9, "area": 40000, "num_keypoints": 1}, POINTS_RESULT, 1),
    ],
)
def test_the_area_and_the_number_of_keypoints_are_those_of_the_file(tmp_path, columns, result, value):
    found = summary(written(tmp_path, [result], [BOX | columns]), "keypoints")
    theirs = stats_of_pycocotools([result], [BOX | columns], "keypoints")
    assert found["map"] == pytest.approx(value) == pytest.approx(theirs[0])


OPTIONS = {"bbox": {}, "keypoints": {"sigmas": SIGMAS}}


@pytest.mark.parametrize("iou_type", OPTIONS)
@pytest.mark.parametrize("seed", of_each(range(20), suite=8))
@pytest.mark.slow
def test_arrays_are_those_of_pycocotools_whatever_the_fields_say(tmp_path, seed, iou_type):
    """An ignored object that is no crowd takes one detection, by the overlap of its labeled keypoints."""
    random = Random(seed)  # noqa: S311
    results, annotations, images = coco_rows(*keypoint_images(seed, 12))
    if iou_type == "bbox":
        results = [row | {"bbox": random.choice(annotations)["bbox"]} for row in results]
    for row in annotations:
        row["area"] = random.choice((0, row["area"], row["area"]))
        row["num_keypoints"] = random.choice((0, 1, row["num_keypoints"]))
    paths = written(tmp_path, results, annotations, images)
    metric = DetectionMAP("xywh", iou_type, **OPTIONS[iou_type])
    metric.update(*DetectionMAP.coco_to_tm(*paths, iou_type))
    labels = sorted({row["category_id"] for row in (*annotations, *results)})
    limits = metric.max_detection_thresholds
    theirs, _ = run_coco(
        iou_type, results, annotations, images=images, labels=labels, limits=limits, **OPTIONS[iou_type]
    )
    assert largest_difference(metric.results().coco, theirs) <= 1e-12


def test_an_area_of_0_is_written_as_it_was_read(tmp_path):
    paths = written(tmp_path, [BOX_RESULT], [BOX | {"area": 0}, BOX | {"area": 5.5}, BOX])
    metric = fed(DetectionMAP(box_format="xywh"), *DetectionMAP.coco_to_tm(*paths))
    metric.tm_to_coco(str(tmp_path / "again"))
    rows = json.loads((tmp_path / "again_target.json").read_text(encoding="utf-8"))["annotations"]
    assert [row["area"] for row in rows] == [0, 5.5, 40000]
    again = summary([str(tmp_path / f"again_{side}.json") for side in ("preds", "target")])
    assert again == summary(paths)


def test_a_negative_area_in_a_file_is_named(tmp_path):
    paths = written(tmp_path, [BOX_RESULT], [BOX | {"area": -3}])
    rule = r"instances\.json` must have a number of at least 0 as `area`; got -3 in `annotations\[0\]` \(image 1\)\.$"
    with pytest.raises(ValueError, match=rule):
        DetectionMAP.coco_to_tm(*paths)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([None], TypeError, r"`target\[0\]\['num_keypoints'\]` must be a tensor; got list\."),
        (torch.tensor([3, 3]), ValueError, r"`target\[0\]\['num_keypoints'\]` must have shape \[1\], one for each box"),
        (torch.tensor([3.0]), TypeError, r"`target\[0\]\['num_keypoints'\]` must have an integer or bool dtype"),
    ],
)
def test_a_wrong_num_keypoints_is_named_and_not_stored(value, error, message):
    points = torch.tensor(POINTS["keypoints"]).view(1, 3, 3)
    found = {"keypoints": points, "scores": torch.tensor([0.5]), "labels": torch.tensor([2])}
    target = {"keypoints": points, "labels": torch.tensor([2]), "num_keypoints": value}
    metric = DetectionMAP(iou_type="keypoints", sigmas=SIGMAS)
    with pytest.raises(error, match=message):
        metric.update([found], [target])
    assert not metric.detection_counts


def test_num_keypoints_leaves_with_objects_that_are_dropped():
    points = torch.tensor(POINTS["keypoints"]).view(1, 3, 3)
    found = {"keypoints": points, "scores": torch.tensor([0.5]), "labels": torch.tensor([2])}
    target = {
        "keypoints": torch.cat([points * torch.nan, points, points]),
        "labels": torch.tensor([2, 2, 2]),
        "num_keypoints": torch.tensor([0, 3, 0]),
    }
    metric = DetectionMAP(iou_type="keypoints", sigmas=SIGMAS, invalid="drop")
    with pytest.warns(UserWarning, match="Dropped 1 objects"):
        metric.update([found], [target])
    assert metric.compute()["map"] == 1
