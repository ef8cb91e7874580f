"""`ignore` in COCO's files, which COCO's evaluation overwrites, gets one warning at each entry point."""

import warnings

import pytest

from reid_torchmetrics import DetectionMAP, LvisMAP, VocMAP, YoloMAP
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.command import main
from reid_torchmetrics.functional.detection import evaluate_images
from tests.diagnosis.contract import told_by
from tests.files.json_files import write_json

POINTS = [5, 5, 2, 20, 5, 2, 20, 25, 2]


def data_set_of(changes, num_images=2):
    """Each image has two faces, the second of which has some changes."""
    annotations = []
    for image in range(1, num_images + 1):
        for change in ({}, changes):
            row = {"id": len(annotations) + 1, "image_id": image, "category_id": 1, "iscrowd": 0, "area": 900}
            annotations.append(row | {"bbox": [5, 5, 30, 30], "keypoints": POINTS, "num_keypoints": 3} | change)
    images = [{"id": image, "neg_category_ids": [], "not_exhaustive_category_ids": []} for image in (1, 2)]
    return {"images": images, "categories": [{"id": 1, "name": "face"}], "annotations": annotations}


RESULTS = [{"image_id": 1, "category_id": 1, "bbox": [5, 5, 30, 30], "score": 0.9, "keypoints": POINTS}]


def by_metric(kind):
    def read(paths, iou_type):
        metric = kind()
        metric.update(*kind.coco_to_tm(*paths, iou_type=iou_type))
        metric.compute()

    return read


def by_function(paths, iou_type):
    evaluate_images(*DetectionMAP.coco_to_tm(*paths, iou_type=iou_type))


def by_command(paths, iou_type):
    sigmas = [] if iou_type == "bbox" else ["--sigmas", "0.1", "0.1", "0.1"]
    main(["detect", paths[1], paths[0], "--iou-type", iou_type, *sigmas])


def by_cocoeval(paths, iou_type):
    truth = COCO(paths[1])
    evaluation = COCOeval(truth, truth.loadRes(paths[0]), iou_type)
    evaluation.params.kpt_oks_sigmas = [0.1] * 3
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()


ENTRY_POINTS = {kind.__name__: by_metric(kind) for kind in (DetectionMAP, VocMAP, YoloMAP)}
ENTRY_POINTS |= {"function": by_function, "command": by_command, "COCOeval": by_cocoeval}
CHANGES = {
    "ignored": ({"ignore": 1}, True),
    "ignored, as a bool": ({"ignore": True}, True),
    "no flag is 1": ({"ignore": 0}, False),
    "without the key": ({}, False),
    "a crowd": ({"ignore": 1, "iscrowd": 1}, False),
    "in words": ({"ignore": "no"}, False),
}


def warnings_of(entry_point, tmp_path, data_set, iou_type="bbox"):
    paths = write_json(tmp_path, results=RESULTS, data_set=data_set)
    return told_by(lambda: ENTRY_POINTS[entry_point](paths, iou_type))


@pytest.mark.parametrize(
    ("change", "entry_point"),
    [*((change, "DetectionMAP") for change in CHANGES), *(("ignored", name) for name in ENTRY_POINTS)],
)
def test_ignored_annotations_get_one_warning_unless_they_are_ignored_anyway(change, entry_point, tmp_path, capsys):
    changes, is_warned_of = CHANGES[change]
    texts = warnings_of(entry_point, tmp_path, data_set_of(changes))
    if entry_point == "command":
        texts = [line for line in capsys.readouterr().err.splitlines() if "ignore" in line]
    assert ["`ignore` marks 2 annotations that count all the same" in text for text in texts] == [True] * is_warned_of


def test_objects_without_a_labeled_keypoint_are_ignored_anyway(tmp_path):
    data_set = data_set_of({"ignore": 1, "num_keypoints": 0, "keypoints": [0] * 9})
    assert warnings_of("COCOeval", tmp_path, data_set, "keypoints") == []
    assert len(warnings_of("COCOeval", tmp_path, data_set)) == 1


def test_objects_of_an_unknown_number_of_keypoints_count_although_ignored(tmp_path):
    data_set = data_set_of({"ignore": 1, "keypoints": [0] * 9})
    for row in data_set["annotations"]:
        del row["num_keypoints"]
    _, target = DetectionMAP.coco_to_tm(*write_json(tmp_path, results=RESULTS, data_set=data_set), "keypoints")
    assert target[0]["ignore"].tolist() == [False, True]
    assert target[0]["num_keypoints"].tolist() == [3, 0]


def test_lvis_reads_the_flag(tmp_path):
    paths = write_json(tmp_path, results=RESULTS, data_set=data_set_of({"ignore": 1}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, target = LvisMAP.coco_to_tm(*paths)
    assert target[0]["iscrowd"].tolist() == [0, 1]
