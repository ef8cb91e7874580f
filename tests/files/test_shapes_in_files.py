"""Masks, keypoints and rotated boxes in files: what is written is read, by the COCO API, too, and evaluates alike."""

import json
import re
from pathlib import Path

import pytest
import torch

from reid_torchmetrics import DetectionMAP
from reid_torchmetrics.tasks.rotated_boxes import rotated_corners
from tests.files.json_files import write_json
from tests.functional.detection.detection_samples import fed, is_same
from tests.pycocotools_peer import run_coco

HEIGHT, WIDTH = 30, 50
IOU_TYPES = ("segm", "keypoints", "rotated")
KEYS = {"segm": "masks", "keypoints": "keypoints", "rotated": "rotated_boxes"}


def shapes(iou_type, num, generator):
    corner = torch.randint(0, 15, (num, 2), generator=generator).double()
    size = torch.randint(3, 15, (num, 2), generator=generator).double()
    if iou_type == "rotated":
        return torch.cat([corner, size, torch.rand(num, 1, generator=generator, dtype=torch.float64)], 1)
    if iou_type == "keypoints":
        points = corner[:, None] + torch.rand(num, 17, 2, generator=generator, dtype=torch.float64) * size[:, None]
        visible = torch.randint(0, 3, (num, 17, 1), generator=generator)
        visible[::4] = 0
        return torch.cat([points, visible], 2)
    y, x = torch.arange(HEIGHT)[:, None], torch.arange(WIDTH)
    left, top, width, height = (each.view(-1, 1, 1) for each in (*corner.unbind(1), *size.unbind(1)))
    inside = (x >= left) & (x < left + width) & (y >= top) & (y < top + height)
    return inside & (torch.rand(num, HEIGHT, WIDTH, generator=generator) < 0.8)


def images(iou_type, *, num=6):
    generator = torch.Generator().manual_seed(num)
    preds, target = [], []
    for number in range(num):
        true, more = shapes(iou_type, number % 4, generator), shapes(iou_type, 3, generator)
        found = torch.cat([true, more])
        labels = torch.randint(0, 3, (len(found),), generator=generator)
        scores = torch.randint(1, 99, (len(found),), generator=generator) / 128
        preds.append({KEYS[iou_type]: found, "labels": labels, "scores": scores})
        crowds = torch.arange(len(true)) % 3 == 2
        truth = {KEYS[iou_type]: true, "labels": labels[: len(true)], "iscrowd": crowds.int(), "image_id": 90 - number}
        target.append(truth)
    return preds, target


def written(tmp_path, metric):
    metric.tm_to_coco(str(tmp_path / "images"))
    return [str(tmp_path / f"images_{side}.json") for side in ("preds", "target")]


@pytest.mark.parametrize("iou_type", IOU_TYPES)
def test_written_files_are_read_and_evaluate_alike(tmp_path, iou_type):
    preds, target = images(iou_type)
    metric = fed(DetectionMAP(iou_type=iou_type, keep_shapes=True), [*preds, *preds[:2]], [*target, *target[:2]])
    paths = written(tmp_path, metric)
    read = DetectionMAP.coco_to_tm(*paths, iou_type=iou_type)
    again = fed(DetectionMAP(box_format="xywh", iou_type=iou_type, keep_shapes=True), *read)
    assert is_same(again.results().summary(), metric.results().summary())
    assert is_same(fed(DetectionMAP(iou_type=iou_type), preds, target).results().summary(), metric.results().summary())
    contents = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    written(tmp_path, again)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == contents


def test_corners_are_written_and_read_and_evaluate_as_rotated_boxes_do(tmp_path):
    sides = images("rotated")
    cornered = [
        [each | {"rotated_boxes": rotated_corners(each["rotated_boxes"]).flatten(1)} for each in s] for s in sides
    ]
    metric = fed(DetectionMAP(iou_type="rotated", keep_shapes=True), *cornered)
    read = DetectionMAP.coco_to_tm(*written(tmp_path, metric), iou_type="rotated")
    assert [each["rotated_boxes"].tolist() for each in read[0]] == [
        each["rotated_boxes"].tolist() for each in cornered[0]
    ]
    again = fed(DetectionMAP("xywh", iou_type="rotated"), *read).results()
    assert is_same(again.summary(), metric.results().summary())
    assert again.means == pytest.approx(fed(DetectionMAP(iou_type="rotated"), *sides).results().means, abs=1e-9)


@pytest.mark.parametrize(("added", "rule"), [([0.0] * 5, "in every row of an image, here 8,"), ([0.0] * 7, "")])
def test_rows_of_an_image_have_numbers_or_corners(tmp_path, added, rule):
    row = {"image_id": 7, "category_id": 1, "score": 0.5, "bbox": [0, 0, 1, 1]}
    results = [row | {"rotated_box": each} for each in ([0.0] * 8, added)]
    data_set = {"images": [{"id": 7}], "annotations": [], "categories": []}
    found, true = write_json(tmp_path, found=results, true=data_set)
    numbers = f"5 numbers or 8 {rule}".strip()
    text = f"`{found}` must have {numbers} as `rotated_box`; got {added} in `results[1]` (image 7)."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        DetectionMAP.coco_to_tm(found, true, iou_type="rotated")


@pytest.mark.parametrize("iou_type", ["segm", "keypoints"])
def test_the_files_give_the_same_numbers_in_pycocotools(tmp_path, iou_type):
    metric = fed(DetectionMAP(iou_type=iou_type, keep_shapes=True), *images(iou_type))
    results, data_set = written(tmp_path, metric)
    evaluator, _ = run_coco(data_set, results, iou_type)
    ours = metric.results().coco
    limit = slice(None) if iou_type == "segm" else slice(2, None)  # of keypoints at most 20
    for name in ("precision", "recall", "scores"):
        assert torch.equal(getattr(ours, name)[..., limit], torch.from_numpy(evaluator.eval[name]))


@pytest.mark.parametrize(
    ("iou_type", "keys"),
    [
        ("segm", {"segmentation"}),
        ("keypoints", {"keypoints"}),
        ("rotated", {"bbox", "rotated_box"}),
        (("bbox", "segm"), {"bbox", "segmentation"}),
    ],
)
def test_results_have_the_keys_that_servers_take(tmp_path, iou_type, keys):
    preds, target = images("segm" if "segm" in iou_type else iou_type)
    if "bbox" in iou_type:
        preds, target = (
            [item | {"boxes": torch.rand(len(item["labels"]), 4)} for item in side] for side in (preds, target)
        )
    metric = fed(DetectionMAP("xywh", iou_type, keep_shapes=True), preds, target)
    rows = json.loads(Path(written(tmp_path, metric)[0]).read_text(encoding="utf-8"))
    assert {frozenset(row) for row in rows} == {frozenset(keys | {"image_id", "category_id", "score"})}
    assert len(rows) == sum(len(item["labels"]) for item in preds)


def test_a_given_number_of_keypoints_is_written(tmp_path):
    preds, target = images("keypoints")
    for item in target:
        item["num_keypoints"] = torch.arange(len(item["labels"]))
    paths = written(tmp_path, fed(DetectionMAP(iou_type="keypoints", keep_shapes=True), preds, target))
    _, read = DetectionMAP.coco_to_tm(*paths, iou_type="keypoints")
    assert [item["num_keypoints"].tolist() for item in read] == [item["num_keypoints"].tolist() for item in target]


def test_only_kept_shapes_are_written_and_merged():
    preds, target = images("segm")
    metric = fed(DetectionMAP(iou_type="segm"), preds, target)
    message = r"`tm_to_coco` must be called with keep_shapes=True if iou_type is not 'bbox'; got \('segm',\)\."
    with pytest.raises(ValueError, match=message):
        metric.tm_to_coco()
    with pytest.raises(ValueError, match="`keep_shapes` must be True in both metrics; got False"):
        DetectionMAP(iou_type="segm", keep_shapes=True).merge_state(metric)
    assert not hasattr(DetectionMAP(keep_shapes=True), "shape_bytes")  # boxes are held anyway


def test_kept_masks_take_some_bytes_each(tmp_path):
    preds, target = images("segm", num=40)
    metric = fed(DetectionMAP(iou_type="segm", keep_shapes=True), preds, target)
    num = sum(len(item["labels"]) for item in (*preds, *target))
    pixels = HEIGHT * WIDTH * num
    assert 0 < sum(map(len, metric.shape_bytes)) < pixels / 2  # these are noisy: most are far smaller
