"""Optional keys of `target` that are misspelled are errors in every evaluation; keys of the user's own are none."""

import re
import warnings

import pytest
import torch

from reid_torchmetrics import DetectionMAP, DetectionMetrics, LvisMAP, VocMAP, YoloMAP
from reid_torchmetrics.functional.detection import evaluate_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS

BOXES = torch.tensor([[0.0, 0.0, 8.0, 8.0], [10.0, 0.0, 18.0, 8.0]])
LABELS = torch.tensor([1, 1])
DETECTION = {"boxes": BOXES, "scores": torch.tensor([0.9, 0.8]), "labels": LABELS}
GROUND_TRUTH = {"boxes": BOXES, "labels": LABELS}
KEYPOINTS = {"keypoints": torch.rand(2, 17, 3) * 8, "labels": LABELS}


def by_metric(make):
    def evaluate(preds, target):
        metric = make()
        metric.update(preds, target)
        metric.compute()

    return evaluate


def by_function(evaluator):
    return lambda preds, target: evaluate_images(preds, target, evaluator=evaluator)


def confusion(preds, target):
    evaluate_images(preds, target, across_classes=True).confusion_matrix()


DOORS = {kind.__name__: by_metric(kind) for kind in (DetectionMAP, VocMAP, YoloMAP, LvisMAP)}
DOORS["DetectionMetrics"] = by_metric(lambda: DetectionMetrics(("map",)))
DOORS["confusion matrix"] = confusion
DOORS |= {name: by_function(name) for name in EVALUATORS}

MISSPELLED = {
    "is_crowd": "iscrowd",
    "isCrowd": "iscrowd",
    "iscrowds": "iscrowd",
    "crowd": "iscrowd",
    "crowds": "iscrowd",
    "is_group_of": "iscrowd",
    "areas": "area",
    "Area": "area",
    "image_ids": "image_id",
    "imageId": "image_id",
    "img_id": "image_id",
    "image": "image_id",
    "difficults": "difficult",
    "is_difficult": "difficult",
    "difficulties": "difficult",
    "num_keypoint": "num_keypoints",
    "numKeypoints": "num_keypoints",
    "neg_category_id": "neg_category_ids",
    "neg_cat_ids": "neg_category_ids",
    "not_exhaustive_category_id": "not_exhaustive_category_ids",
}
FREE = {
    "orig_size": torch.tensor([480, 640]),
    "size": torch.tensor([480, 640]),
    "image_path": "a.jpg",
    "img_path": "a.jpg",
    "file_name": "a.jpg",
    "boxes_ignore": torch.zeros(0, 4),
    "labels_ignore": torch.zeros(0),
    "attributes": [{}, {}],
    "id": 5,
    "ids": [5, 6],
    "masks": None,
    "class_labels": LABELS,
    "image": torch.zeros(3, 4, 4),
    "img_shape": (4, 4),
    "image_size": (4, 4),
    "image_idx": 3,
    "image_info": {},
    "height": 4,
    "width": 4,
    "category_ids": [1],
    "names": ["a", "b"],
    "track_ids": [1, 2],
    "truncated": [0, 0],
    "occluded": [0, 0],
    "difficulty_level": 2,
    "scores": torch.ones(2),
    "segmentation": [],
    "visible_area_ratio": 0.5,
    7: "seven",
    ("a", 1): None,
}


@pytest.mark.parametrize("door", DOORS)
def test_a_misspelled_optional_key_is_an_error_that_names_what_it_may_stand_for(door):
    value = [0, 1]
    for key, wanted in MISSPELLED.items():
        item = GROUND_TRUTH | {key: 5 if wanted == "image_id" else value}
        message = f"`target[1]` must have keys that are known; got `{key}`, which may be `{wanted}`."
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            DOORS[door]([DETECTION] * 2, [GROUND_TRUTH, item])


@pytest.mark.parametrize("door", DOORS)
def test_a_flag_of_ignored_objects_is_the_one_that_the_evaluation_uses(door):
    wanted = "difficult" if door in ("VocMAP", "voc") else "iscrowd"
    for key in ("ignore", "ignored", "is_ignored"):
        with pytest.raises(ValueError, match=f"got `{key}`, which may be `{wanted}`"):
            DOORS[door]([DETECTION], [GROUND_TRUTH | {key: [0, 1]}])


@pytest.mark.parametrize("door", DOORS)
def test_keys_of_the_users_own_are_left_alone(door):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*`neg_category_ids`")
        DOORS[door]([DETECTION], [GROUND_TRUTH | FREE])
        # Another word for a key that is there is left alone, too.
        DOORS[door]([DETECTION], [GROUND_TRUTH | {"iscrowd": [0, 0], "ignore": [0, 0], "image_id": 3, "image": "a"}])


def test_boxes_that_keypoints_use_if_they_are_there_are_an_optional_key():
    preds = KEYPOINTS | {"scores": torch.tensor([0.9, 0.8])}
    for key in ("bbox", "box", "bboxes", "Boxes"):
        with pytest.raises(ValueError, match=f"got `{key}`, which may be `boxes`"):
            DetectionMAP(iou_type="keypoints").update([preds], [KEYPOINTS | {key: BOXES}])
    DetectionMAP().update([DETECTION], [GROUND_TRUTH | {"bbox": BOXES}])


@pytest.mark.parametrize(
    ("argument", "wanted", "key"),
    [
        ("preds", "scores", "score"),
        ("preds", "scores", "confidences"),
        ("preds", "labels", "classes"),
        ("preds", "boxes", "bboxes"),
        ("target", "labels", "class_labels"),
        ("target", "boxes", "bbox"),
    ],
)
@pytest.mark.parametrize("door", DOORS)
def test_a_missing_key_is_named_with_what_may_be_meant(door, argument, wanted, key):
    dicts = {"preds": DETECTION, "target": GROUND_TRUTH}
    item = dict(dicts[argument])
    item[key] = item.pop(wanted)
    dicts[argument] = item
    more = ", beside which the boxes of DETR's targets are .*" if key == "class_labels" else ""
    with pytest.raises(ValueError, match=f"to contain the `{wanted}` key; got .*; `{key}` may be meant{more}\\.$"):
        DOORS[door]([dicts["preds"]], [dicts["target"]])
