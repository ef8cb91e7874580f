"""COCO's files: what is written is read by the COCO API, and what is read gives its numbers."""

import json

import pytest
import torch
from pycocotools import mask as coco_masks

from reid_torchmetrics.metrics.detection.detection_map import DetectionMAP
from tests.coming_from.coco_files import stats_of
from tests.files.json_files import write_json
from tests.functional.detection.detection_samples import fed, images, is_same, named
from tests.functional.detection.mask_samples import compressed


def numbers_of_pycocotools(name: str, *, uses_categories: bool = True) -> list[float]:
    return stats_of(f"{name}_preds.json", f"{name}_target.json", "bbox", {"useCats": int(uses_categories)})


@pytest.mark.parametrize("with_ids", [True, False])
@pytest.mark.parametrize("box_format", ["xyxy", "cxcywh"])
def test_the_files_give_the_same_numbers_in_pycocotools_and_when_they_are_read(tmp_path, with_ids, box_format):
    preds, target = images(41, 20, with_ids=with_ids)
    metric = fed(DetectionMAP(box_format=box_format), preds, target)
    name = str(tmp_path / "images")
    metric.tm_to_coco(name)
    expected = [float(value) for value in metric.results().summary().values()]
    names = [*metric.results().summary()]
    order = [names.index(each) for each in ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")]
    assert numbers_of_pycocotools(name) == pytest.approx(
        [expected[place] for place in order] + expected[6:], rel=0, abs=1e-12
    )
    read = DetectionMAP.coco_to_tm(f"{name}_preds.json", f"{name}_target.json")
    again = fed(DetectionMAP(box_format="xywh"), *read).results().summary()
    assert [float(value) for value in again.values()] == pytest.approx(expected, rel=0, abs=1e-12)
    assert [item["image_id"] for item in read[1]] == [item.get("image_id", place) for place, item in enumerate(target)]


def test_an_image_that_came_twice_is_written_once(tmp_path):
    preds, target = images(42, 6, with_ids=True)
    metric = fed(DetectionMAP(), [*preds, *preds[:2]], [*target, *target[:2]])
    metric.tm_to_coco(str(tmp_path / "images"))
    assert numbers_of_pycocotools(str(tmp_path / "images"))[0] == pytest.approx(
        float(metric.results().summary()["map"])
    )


def test_images_with_names_are_written_with_numbers_and_the_names_beside_them(tmp_path):
    preds, target = images(41, 12, with_ids=True)
    target = named(target, ["ü.jpg", *"lkjihgfedcb"])
    metric = fed(DetectionMAP(), [*preds, *preds[:2]], [*target, *target[:2]])
    name = str(tmp_path / "images")
    metric.tm_to_coco(name)
    numbers = {each: number for number, each in enumerate([*"bcdefghijkl", "ü.jpg"])}
    listed = json.loads((tmp_path / "images_target.json").read_text(encoding="utf-8"))["images"]
    assert listed == [{"id": numbers[item["image_id"]], "file_name": item["image_id"]} for item in target]
    assert numbers_of_pycocotools(name)[0] == pytest.approx(float(metric.results().summary()["map"]), rel=0, abs=1e-12)
    _, read = DetectionMAP.coco_to_tm(f"{name}_preds.json", f"{name}_target.json")
    assert [item["image_id"] for item in read] == [numbers[item["image_id"]] for item in target]


def test_ids_that_are_strings_are_read(tmp_path):
    preds, target = images(43, 12, with_ids=True)
    metric = fed(DetectionMAP(), preds, target)
    metric.tm_to_coco(str(tmp_path / "images"))
    paths = [tmp_path / f"images_{side}.json" for side in ("preds", "target")]
    results, data_set = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    for row in [*results, *data_set["annotations"]]:
        row["image_id"] = f"{row['image_id']:04d}.jpg"
    data_set["images"] = [{"id": f"{image['id']:04d}.jpg"} for image in data_set["images"]]
    read = DetectionMAP.coco_to_tm(*write_json(tmp_path, images_preds=results, images_target=data_set))
    assert [item["image_id"] for item in read[1]] == [f"{item['image_id']:04d}.jpg" for item in target]
    again = fed(DetectionMAP(box_format="xywh"), *read)
    assert is_same(again.results().summary(), metric.results().summary())
    assert again.results().image_ids == sorted(item["image_id"] for item in read[1])
    assert numbers_of_pycocotools(str(tmp_path / "images"))[0] == pytest.approx(
        float(metric.results().summary()["map"]), rel=0, abs=1e-12
    )
    results[0]["image_id"] = "other.jpg"
    with pytest.raises(
        ValueError, match=r'in images of the data set only; got "other\.jpg" as `image_id` in `results\[0\]` '
    ):
        DetectionMAP.coco_to_tm(*write_json(tmp_path, images_preds=results, images_target=data_set))


def test_an_image_without_ground_truth_is_read(tmp_path):
    box = [0.125, 0.1, 4.0, 4.0]
    truth = {
        "images": [{"id": 8}, {"id": 5}],
        "annotations": [{"id": 1, "image_id": 5, "category_id": 2, "bbox": box}],
        "categories": [{"id": 2}],
    }
    results = [
        {"image_id": 8, "category_id": 2, "bbox": box, "score": 0.9},
        {"image_id": 5, "category_id": 2, "bbox": box, "score": 0.8},
    ]
    paths = write_json(tmp_path, results=results, truth=truth)
    preds, target = DetectionMAP().coco_to_tm(*paths, iou_type=("bbox",), backend="faster_coco_eval")
    assert [item["image_id"] for item in target] == [8, 5]
    assert target[0]["boxes"].shape == (0, 4)
    assert preds[0]["boxes"].tolist() == [box]
    assert preds[0]["scores"].dtype == torch.float64
    assert target[1]["iscrowd"].tolist() == target[1]["area"].tolist() == [0]
    value = fed(DetectionMAP(box_format="xywh"), preds, target).compute()
    assert value["map"] == pytest.approx(0.5)  # the better of two detections is wrong


MASK = torch.zeros(1, 6, 9, dtype=torch.bool)
MASK[0, 2:5, 3:7] = True
MASK[0, 4, 3:6] = False


@pytest.mark.parametrize("iou_type", ["bbox", ("bbox", "segm")])
@pytest.mark.parametrize("left_out", [{}, {"bbox": []}])
def test_results_of_masks_alone_have_the_boxes_of_their_masks(tmp_path, iou_type, left_out):
    (mask,) = compressed(MASK)
    mask = {"size": mask["size"], "counts": mask["counts"].decode()}
    polygon = [[3.0, 2.0, 7.0, 2.0, 7.0, 5.0, 3.0, 5.0]]
    results = [{"image_id": 1, "category_id": 2, "score": 0.5, "segmentation": each} for each in (mask, polygon)]
    truth = {"image_id": 1, "category_id": 2, "id": 1, "bbox": [3, 2, 4, 3], "segmentation": polygon, "area": 12}
    data_set = {"images": [{"id": 1, "height": 6, "width": 9}], "annotations": [truth], "categories": []}
    rows = [*(row | left_out for row in results), results[0] | {"bbox": [0, 0, 1, 1]}]
    paths = write_json(tmp_path, results=rows, truth=data_set)
    preds, _ = DetectionMAP.coco_to_tm(*paths, iou_type=iou_type)
    assert preds[0]["boxes"].tolist() == [*[[3, 2, 4, 3]] * 2, [0, 0, 1, 1]]
    assert coco_masks.toBbox(mask).tolist() == [3, 2, 4, 3]
    data_set["annotations"] = [{"image_id": 1, "category_id": 2, "segmentation": polygon}]
    write_json(tmp_path, truth=data_set)
    with pytest.raises(ValueError, match="must have `bbox` in every row of `annotations`; got the keys"):
        DetectionMAP.coco_to_tm(*paths, iou_type=iou_type)


def sorted_by_label(items):
    """Images whose boxes are in the order of their labels."""
    orders = [item["labels"].argsort(stable=True) for item in items]
    return [
        {key: value[order] if isinstance(value, torch.Tensor) else value for key, value in item.items()}
        for item, order in zip(items, orders, strict=True)
    ]


def test_micro_is_what_pycocotools_gives_without_categories(tmp_path):
    """Among equal scores of an image it puts the boxes of lower categories first; here they are in that order."""
    metric = fed(DetectionMAP(average="micro"), *map(sorted_by_label, images(0, 20, with_ids=True)))
    metric.tm_to_coco(str(tmp_path / "images"))
    found = metric.results().summary()
    expected = numbers_of_pycocotools(str(tmp_path / "images"), uses_categories=False)
    assert [float(value) for value in found.values()] == pytest.approx(expected, rel=0, abs=1e-12)
    macro = numbers_of_pycocotools(str(tmp_path / "images"))
    assert abs(macro[0] - expected[0]) > 1e-3


def test_images_without_any_box_are_written(tmp_path):
    empty = {"boxes": torch.tensor([]), "scores": torch.tensor([]), "labels": torch.tensor([])}
    metric = DetectionMAP()
    metric.update([empty], [empty])
    metric.tm_to_coco(str(tmp_path / "none"))
    assert json.loads((tmp_path / "none_preds.json").read_text(encoding="utf-8")) == []
    truth = json.loads((tmp_path / "none_target.json").read_text(encoding="utf-8"))
    assert (truth["images"], truth["annotations"], truth["categories"]) == ([{"id": 0}], [], [])
