"""Questions about detection, on a few boxes whose numbers can be worked out by hand."""

from typing import Any

import pytest
import torch

from reid_torchmetrics import DetectionMAP, VocMAP
from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.tasks.rotated_boxes import rotated_iou
from tests.coming_from.questions import Section, message_of

DETECTION = Section("Detection")
A = [0.0, 0.0, 10.0, 10.0]
B = [20.0, 20.0, 30.0, 30.0]
C = [40.0, 40.0, 50.0, 50.0]
"""boxes that do not touch"""


def detections(
    boxes: list[list[float]], scores: list[float], labels: list[int] | None = None, key: str = "boxes"
) -> dict[str, Any]:
    """Return the detections of an image, of class 0 unless said."""
    labels = [0] * len(boxes) if labels is None else labels
    values = torch.tensor(boxes, dtype=torch.float64)
    return {key: values, "scores": torch.tensor(scores), "labels": torch.tensor(labels)}


def ground_truths(
    boxes: list[list[float]], labels: list[int] | None = None, key: str = "boxes", **further: Any
) -> dict[str, Any]:
    """Return the ground truths of an image, of class 0 unless said."""
    labels = [0] * len(boxes) if labels is None else labels
    return {key: torch.tensor(boxes, dtype=torch.float64), "labels": torch.tensor(labels), **further}


def evaluated(
    preds: list[dict[str, Any]], target: list[dict[str, Any]], metric_class: Any = DetectionMAP, **options: Any
) -> DetectionResults:
    """Return the results of images."""
    metric = metric_class(**options)
    metric.update(preds, target)
    return metric.results(across_classes=True)


def mean_ap(preds: list[dict[str, Any]], target: list[dict[str, Any]], **options: Any) -> float:
    """Return mAP."""
    return float(evaluated(preds, target, **options).means["map"])


def nothing(*, scores: bool) -> dict[str, torch.Tensor]:
    """Return an image without boxes, whose tensor has the shape [0]."""
    image = {"boxes": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64)}
    return image | ({"scores": torch.zeros(0)} if scores else {})


@DETECTION.asks(
    "Lightning-AI/torchmetrics#881",
    question="What is mAP if one image has no detections and another image has no ground truths?",
    answer="The objects in the first image are missed, and the detections in the second image are wrong: mAP is **0**.",
)
def sides_that_are_empty():
    boxes = [A, B]
    preds = [nothing(scores=True), detections(boxes, [0.3, 0.2])]
    return [mean_ap(preds, [ground_truths(boxes), nothing(scores=False)])]


@DETECTION.asks(
    "Lightning-AI/torchmetrics#1096",
    "Lightning-AI/torchmetrics#683",
    "Lightning-AI/torchmetrics#601",
    question="May `boxes` have the shape [0] in an image without objects, in all box formats?",
    answer="Yes. If ground truths exist, mAP is **0**; without any ground truth it is undefined, **-1**.",
)
def boxes_of_shape_0():
    formats = ("xyxy", "xywh", "cxcywh")
    missed = {mean_ap([nothing(scores=True)], [ground_truths([A])], box_format=form) for form in formats}
    undefined = {mean_ap([nothing(scores=True)], [nothing(scores=False)], box_format=form) for form in formats}
    return [*missed, *undefined]


@DETECTION.asks(
    "Lightning-AI/torchmetrics#1774",
    "Lightning-AI/torchmetrics#1966",
    question="Why does the order of images or boxes change mAP?",
    answer="The order decides between [equal scores](../detection/numbers.md#equal-scores). If the wrong one of two"
    " boxes comes first, mAP is **1/2**, otherwise **1**. With `image_id` the order of images does not"
    " matter.",
)
def equal_scores():
    wrong_first = mean_ap([detections([B, A], [0.9, 0.9])], [ground_truths([A])])
    right_first = mean_ap([detections([A, B], [0.9, 0.9])], [ground_truths([A])])
    preds = [detections([A], [0.9]), detections([A], [0.9])]
    target = [ground_truths([A], image_id=1), nothing(scores=False) | {"image_id": 2}]
    assert mean_ap(preds, target) == pytest.approx(1, abs=1e-12)
    assert mean_ap(preds[::-1], target[::-1]) == mean_ap(preds, target)
    return [wrong_first, right_first]


@DETECTION.asks(
    "Lightning-AI/torchmetrics#1644",
    question="Why is `mar_1` below 1 if detections equal the ground truths?",
    answer="`mar_1` counts one detection per image and class. With three objects it is **1/3**, and `mar_10` is **1**.",
)
def recall_with_one_detection():
    boxes = [A, B, C]
    means = evaluated([detections(boxes, [0.9, 0.8, 0.7])], [ground_truths(boxes)]).means
    return [float(means["mar_1"]), float(means["mar_10"])]


@DETECTION.asks(
    "Lightning-AI/torchmetrics#3120",
    "Lightning-AI/torchmetrics#1938",
    question="How do I get precision, recall and F1 at one confidence?",
    answer="`results.best_f1()` has them at the confidence with the best F1. If detections at 0.9, 0.5 and 0.3 are"
    " right, wrong and right, and there are two objects, this confidence is **0.3**, with precision **2/3**,"
    " recall **1** and F1 **4/5**.",
)
def best_confidence():
    best = evaluated([detections([A, C, B], [0.9, 0.5, 0.3])], [ground_truths([A, B])]).best_f1()
    return [float(values[0, 0]) for values in (best.confidence, best.precision, best.recall, best.f1)]


@DETECTION.asks(
    "ultralytics/yolov5#493",
    "ultralytics/yolov5#8123",
    "ultralytics/ultralytics#8985",
    "roboflow/rf-detr#395",
    question="Why is mAP lower after detections below a confidence are removed?",
    answer="Some of the removed detections had found objects. Two right detections at 0.9 and 0.2 give mAP **1**."
    " Without the second one, recall ends at 1/2, and mAP is **51/101**.",
)
def detections_cut_at_a_confidence():
    target = [ground_truths([A, B])]
    return [mean_ap([detections([A, B], [0.9, 0.2])], target), mean_ap([detections([A], [0.9])], target)]


@DETECTION.asks(
    "sgrvinod/a-PyTorch-Tutorial-to-Object-Detection#55",
    question="Is the mean over all classes of a data set, or over those that occur?",
    answer="The mean is over the classes with ground truths. If the objects of one of two such classes are found,"
    " mAP is **1/2**.",
)
def mean_over_classes_that_occur():
    return [mean_ap([detections([A], [0.9], [1])], [ground_truths([A, B], [1, 5])], metric_class=VocMAP)]


@DETECTION.asks(
    "voxel51/fiftyone#5695",
    question="How are boxes evaluated regardless of their class?",
    answer='Pass `average="micro"`. If three boxes are found, and one of them has the correct class, mAP is'
    ' **1/3**, and with `average="micro"` it is **1**.',
)
def boxes_regardless_of_class():
    preds = [detections([A], [0.9], [2 - image]) for image in range(3)]
    target = [ground_truths([A], [image]) for image in range(3)]
    return [mean_ap(preds, target), mean_ap(preds, target, average="micro")]


@DETECTION.asks(
    "roboflow/rf-detr#85",
    "roboflow/rf-detr#961",
    "obss/sahi#273",
    question="The boxes look right, but mAP is 0. What is wrong?",
    answer="Often the labels of either the detections or the ground truths are counted from 1. Then mAP is **0**,"
    " and a warning says: **Only 0 of 40 ground truths that are found have the label of their detection**.",
)
def labels_that_are_shifted():
    metric = DetectionMAP()
    for image in range(20):
        boxes = [[float(image), 10.0, 60.0 + image, 90.0], [100.0, 30.0 + image, 180.0, 90.0 + image]]
        metric.update([detections(boxes, [0.9, 0.8], [1, 2])], [ground_truths(boxes, [0, 1])])
    with pytest.warns(UserWarning, match="label") as caught:
        value = float(metric.compute()["map"])
    return [value, str(caught[0].message)]


@DETECTION.asks(
    "open-mmlab/mmdetection#4166",
    question="Why is mAP -1 although objects are found?",
    answer="No ground truth counts; in this example all of them are larger than the range `all`. **-1** means"
    " undefined.",
)
def objects_beyond_the_area_range():
    return [mean_ap([detections([A], [0.9])], [ground_truths([A])], area_ranges={"all": (0, 50)})]


@DETECTION.asks(
    "Cartucho/mAP#27",
    question="Two tools disagree on a box whose overlap is exactly 1/2. Which of them is right?",
    answer="They count pixels differently. With whole pixels, as in Pascal VOC, the overlap is 1,800 of 3,600, which"
    " reaches the threshold, and mAP is **1**. With `whole_pixels=False` it is 1,715 of 3,479, and mAP is **0**.",
)
def overlap_at_the_threshold():
    sides = [detections([[49.0, 325, 84, 374]], [0.9])], [ground_truths([[13.0, 325, 84, 374]])]
    return [mean_ap(*sides, metric_class=VocMAP, whole_pixels=whole_pixels) for whole_pixels in (True, False)]


@DETECTION.asks(
    "Cartucho/mAP#148",
    question="What happens if the top and bottom of a ground truth are swapped?",
    answer="An error names the image, the size and the row: **`target[0]['boxes']` must have a width and height of"
    " at least 0; got 10 x -15 in row 0, if `box_format` is right.**",
)
def exchanged_edges():
    upside_down = ground_truths([[10.0, 40.0, 20.0, 25.0]])
    return [message_of(lambda: mean_ap([detections([A], [0.9])], [upside_down]))]


@DETECTION.asks(
    "rafaelpadilla/Object-Detection-Metrics#51",
    question="Can detections without scores be evaluated?",
    answer="No. Average precision needs an order, so the error asks the dicts to **contain the `scores` key**.",
)
def detections_without_scores():
    without = detections([A], [0.9])
    del without["scores"]
    return [message_of(lambda: mean_ap([without], [ground_truths([A])]))]


@DETECTION.asks(
    "rafaelpadilla/review_object_detection_metrics#48",
    question="Do difficult objects count as missed?",
    answer="Not in `VocMAP` with the key `difficult`. If one object is found and a difficult one is not, mAP is"
    " **1**. Without the key it is **1/2**.",
)
def difficult_objects():
    preds = [detections([A], [0.9])]
    is_difficult = torch.tensor([False, True])
    with_flags = mean_ap(preds, [ground_truths([A, B], difficult=is_difficult)], metric_class=VocMAP)
    return [with_flags, mean_ap(preds, [ground_truths([A, B])], metric_class=VocMAP)]


@DETECTION.asks(
    "xingyizhou/CenterNet#92",
    "open-mmlab/OpenPCDet#603",
    question="How do I mark regions that should be ignored, such as KITTI's DontCare?",
    answer="Use `iscrowd`. A detection inside the region is then ignored, and mAP is **1**. If the region is left"
    " out, the detection is wrong; because it has a higher score than the right one, mAP is **1/2**.",
)
def regions_that_do_not_matter():
    region, inside = [20.0, 20.0, 60.0, 60.0], [22.0, 22.0, 30.0, 30.0]
    preds = [detections([A, inside], [0.5, 0.9])]
    marked = mean_ap(preds, [ground_truths([A, region], iscrowd=torch.tensor([0, 1]))])
    return [marked, mean_ap(preds, [ground_truths([A])])]


@DETECTION.asks(
    "ultralytics/ultralytics#18136",
    "ultralytics/ultralytics#7910",
    "open-mmlab/mmdetection#7049",
    question="May masks be run lengths, as in result files?",
    answer="Yes, compressed or not. If a mask of 24 pixels is found exactly, mAP is **1**. If 18 of its pixels are"
    " found, the overlap 3/4 passes the thresholds 0.50 to 0.75, and mAP is **6/10**.",
)
def masks_as_run_lengths():
    label = torch.tensor([0])
    target = [{"masks": [{"size": [4, 6], "counts": [0, 24]}], "labels": label}]
    masks = {"size": [4, 6], "counts": [0, 24]}, {"size": [4, 6], "counts": [0, 18, 6]}
    scores = torch.tensor([0.9])
    preds = [[{"masks": [mask], "scores": scores, "labels": label}] for mask in masks]
    return [mean_ap(images, target, iou_type="segm") for images in preds]


def person(**further: Any) -> dict[str, Any]:
    """Return a person of area 3,500 with six labeled keypoints, without a box."""
    points = [[50.0 + 10 * place, 60.0 + 5 * place, 2.0] for place in range(6)]
    return {"keypoints": torch.tensor([points], dtype=torch.float64), "labels": torch.tensor([1]), **further}


@DETECTION.asks(
    "facebookresearch/detectron2#445",
    "facebookresearch/detectron2#377",
    "voxel51/fiftyone#7824",
    question="How do I evaluate people with a number of keypoints other than 17?",
    answer="Pass `sigmas`, one for each keypoint. If six keypoints with sigma 0.025 are all 2 pixels off, and the"
    " area of the person is 3,500, OKS is exp(-4 / (8 · 0.025² · 3,500)) = 0.7957, which passes 6 of 10"
    " thresholds, and mAP is **3/5**. Without `sigmas`, an error asks for **a keypoint for each sigma**.",
)
def keypoints_of_another_number():
    moved = person(scores=torch.tensor([0.9]))
    moved["keypoints"] = moved["keypoints"] + torch.tensor([2.0, 0.0, 0.0])
    target = [person(area=torch.tensor([3500.0]))]
    value = mean_ap([moved], target, iou_type="keypoints", sigmas=[0.025] * 6)
    return [value, message_of(lambda: mean_ap([moved], target, iou_type="keypoints"))]


@DETECTION.asks(
    "ultralytics/ultralytics#10246",
    question="Does a keypoint without a label count?",
    answer="No. Only keypoints with a flag above 0 count. A keypoint at -250 with flag 0 does not change the mAP of"
    " **1**.",
)
def hidden_keypoints():
    target = person(area=torch.tensor([3500.0]))
    target["keypoints"][0, 5] = torch.tensor([-250.0, -250.0, 0.0])
    return [mean_ap([person(scores=torch.tensor([0.9]))], [target], iou_type="keypoints", sigmas=[0.025] * 6)]


@DETECTION.asks(
    "lilanxiao/Rotated_IoU#13",
    "lilanxiao/Rotated_IoU#8",
    "lilanxiao/Rotated_IoU#39",
    question="What is the overlap of rotated boxes that are equal, or touch, or share 30 of 50 square pixels?",
    answer="`rotated_iou` gives **1**, **0** and **3/5**, in float64.",
)
def overlaps_of_rotated_boxes():
    parallelogram = torch.tensor([[0.0, 0, 100, 0, 200, 100, 100, 100]], dtype=torch.float64)
    first = torch.tensor([[0.0, 0, 2, 2, 0], [4, 5, 8, 10, 0]], dtype=torch.float64)
    second = torch.tensor([[0.0, 2, 2, 2, 0], [3, 4, 6, 8, 0]], dtype=torch.float64)
    touching, shared = rotated_iou(first, second).diagonal().tolist()
    return [float(rotated_iou(parallelogram, parallelogram)), touching, shared]


@DETECTION.asks(
    "open-mmlab/mmdetection#10631",
    question="Is a detection with a wrong class counted twice in the confusion matrix?",
    answer="No. An object that is detected as another class is one confusion. The sum of the matrix is **1**, and"
    " the row and column of background are empty.",
)
def confusions_counted():
    results = evaluated([detections([A], [0.9], [1])], [ground_truths([A], [0])])
    counts = results.confusion_matrix(confidence=0.25, iou_threshold=0.5).counts
    assert counts[0, 1] == counts.sum()
    return [int(counts.sum())]


@DETECTION.asks(
    "roboflow/supervision#1853",
    question="A detection with the wrong class overlaps an object more than one with the right class. Which of them"
    " is matched?",
    answer='With `rule="supervision"` the detection with the right class is matched, and **2** of 2 objects are'
    " right. With the other rules the detection that overlaps more is matched, and **1** is right. See"
    " [errors](../detection/errors.md).",
)
def which_class_is_matched():
    large, lower, far = [0.0, 0.0, 100.0, 100.0], [0.0, 0.0, 100.0, 90.0], [200.0, 0.0, 300.0, 100.0]
    preds = [detections([large, lower, far], [0.9, 0.8, 0.7], [1, 0, 1])]
    results = evaluated(preds, [ground_truths([large, far], [0, 1])])
    matrices = [
        results.confusion_matrix(confidence=0.25, iou_threshold=0.5, rule=rule) for rule in ("supervision", "coco")
    ]
    return [int(matrix.counts.diagonal().sum()) for matrix in matrices]


@DETECTION.asks(
    "dbolya/tide#13",
    question="Does an object that is detected with a wrong class count as missed?",
    answer="No, it is a classification error. If the second of two objects is right, repairing the class gains"
    " **50/101**, and repairing missed objects gains **0**.",
)
def errors_of_classification():
    preds = [detections([A], [0.9], [1]), detections([B], [0.9], [0])]
    results = evaluated(preds, [ground_truths([A], [0]), ground_truths([B], [0])])
    gains = results.error_breakdown().gains
    return [gains["classification"], gains["miss"]]
