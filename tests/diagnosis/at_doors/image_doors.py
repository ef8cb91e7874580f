"""Every entry point of detection: metrics, functions, pycocotools' classes and the command."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics import DetectionMAP, DetectionMetrics, LvisMAP, VocMAP, YoloMAP
from reid_torchmetrics.coco import COCO, COCOeval
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes, evaluate_images
from reid_torchmetrics.functional.detection.inputs import to_xywh
from tests.diagnosis.at_doors.doors import Data, run_command, updated

ABSENT = {"neg_category_ids": [], "not_exhaustive_category_ids": []}
SHAPES = {"bbox": "boxes", "segm": "masks", "keypoints": "keypoints", "rotated": "rotated_boxes"}
Images = list[dict[str, Any]]


def shape_of(data: Data) -> str:
    return data.get("iou_type", "bbox")


def format_of(data: Data) -> str:
    return data.get("box_format", "xyxy")


def with_lists(data: Data) -> Images:
    """The ground truths with the lists of LVIS, where they lack them."""
    listed = {"neg_category_ids": sorted({int(label) for item in data["preds"] for label in item["labels"]})}
    if data.get("without_lists"):
        listed = {}
    return [{**ABSENT, **listed, **item} if listed else item for item in data["target"]]


def options_of(data: Data) -> Data:
    """The options of metrics."""
    return {name: data[name] for name in ("box_format", "iou_type") if name in data}


def by_metric(kind: Callable[..., Any], method: str = "compute", **options: Any) -> Callable[[Data], object]:
    """A metric that gets three batches, and whose method is called twice."""

    def call(data: Data) -> None:
        metric = kind(**options_of(data), **options, **data.get("options", {}))
        target = with_lists(data) if kind is LvisMAP else data["target"]
        step = max(1, len(target) // 3)
        for start in range(0, len(target), step):
            metric.update(data["preds"][start : start + step], target[start : start + step])
        for _ in range(2):
            getattr(metric, method)()

    return call


def by_function(evaluator: str) -> Callable[[Data], object]:
    def call(data: Data) -> None:
        target = with_lists(data) if "lvis" in evaluator else data["target"]
        options = options_of(data) | data.get("options", {})
        evaluate_images(data["preds"], target, evaluator=evaluator, **options)

    return call


def packed(items: Images, box_format: str) -> dict[str, Tensor]:
    counts = torch.tensor([len(item["labels"]) for item in items])
    columns = {name: torch.cat([item[name] for item in items]) for name in ("boxes", "labels")}
    columns["boxes"] = to_xywh(columns["boxes"], box_format)
    return columns | {"images": torch.arange(len(items)).repeat_interleave(counts)}


def by_objects(evaluator: str) -> Callable[[Data], object]:
    def call(data: Data) -> None:
        scores = torch.cat([item["scores"] for item in data["preds"]])
        detections = Detections(scores=scores, **packed(data["preds"], format_of(data)))
        truth = packed(data["target"], format_of(data))
        if "area" in data["target"][0]:
            truth["areas"] = torch.cat([item["area"] for item in data["target"]])
        evaluate_boxes(detections, GroundTruths(**truth), evaluator=evaluator)

    return call


def rows_of(items: Images, ids: Sequence[int], data: Data) -> list[dict[str, Any]]:
    """Rows of COCO's files."""
    rows = []
    for item, image in zip(items, ids, strict=True):
        shapes = item[SHAPES[shape_of(data)]].double()
        boxes = to_xywh(item["boxes"].double(), format_of(data)) if "boxes" in item else None
        for place, label in enumerate(item["labels"].tolist()):
            row = {"image_id": image, "category_id": label}
            if shape_of(data) == "keypoints":
                row["keypoints"] = shapes[place].flatten().tolist()
                row["num_keypoints"] = int((shapes[place, :, 2] > 0).sum())
            if boxes is not None:
                row["bbox"] = boxes[place].tolist()
            for column, key in (("scores", "score"), ("area", "area"), ("iscrowd", "iscrowd")):
                if column in item:
                    row[key] = item[column][place].item()
            rows.append(row)
    return rows


def coco_files(data: Data) -> dict[str, Any]:
    """A data set and results of COCO."""
    ids = [item.get("image_id", number) for number, item in enumerate(data["target"], 1)]
    truth = []
    for number, row in enumerate(rows_of(data["target"], ids, data), 1):
        width, height = row["bbox"][2:]
        truth.append({"area": width * height, "iscrowd": 0, "id": number} | row)
    images = []
    for image, item in zip(ids, data["target"], strict=True):
        height, width = item.get("orig_size", (2000, 2000))
        images.append({"id": image, "height": int(height), "width": int(width)})
    labels = {row["category_id"] for row in truth}
    categories = [{"id": label, "name": f"class {label}"} for label in sorted(labels)]
    if shape_of(data) == "keypoints":
        categories = [category | {"keypoints": list(map(str, range(17)))} for category in categories]
    found = rows_of(
        data["preds"], [item.get("image_id", image) for item, image in zip(data["preds"], ids, strict=True)], data
    )
    return {"truth.json": {"images": images, "annotations": truth, "categories": categories}, "found.json": found}


def by_coco(data: Data) -> None:
    files = coco_files(data)
    data_set = COCO()
    data_set.dataset = files["truth.json"]
    data_set.createIndex()
    with warnings.catch_warnings():  # `loadRes` names unknown categories, which the diagnosis explains
        warnings.filterwarnings("ignore", ".*must have results in categories of the data set")
        results = data_set.loadRes(files["found.json"])
    evaluation = COCOeval(data_set, results, shape_of(data))
    evaluation.evaluate()
    for _ in range(2):
        evaluation.accumulate()


def by_command(data: Data) -> None:
    words = ("--iou-type", shape_of(data), "--unknown-categories", "drop")
    run_command("detect", coco_files(data), "truth.json", "found.json", *words)


OF_IMAGES: dict[str, Callable[[Data], object]] = {
    "DetectionMAP.compute": by_metric(DetectionMAP),
    "DetectionMAP.results": by_metric(DetectionMAP, "results"),
    "DetectionMetrics.compute": by_metric(DetectionMetrics),
    "VocMAP.compute": by_metric(VocMAP),
    "YoloMAP.compute": by_metric(YoloMAP),
    "LvisMAP.compute": by_metric(LvisMAP),
    "evaluate_images, coco": by_function("coco"),
    "evaluate_images, lvis": by_function("lvis"),
    "evaluate_images, voc": by_function("voc"),
    "evaluate_images, ultralytics": by_function("ultralytics"),
    "evaluate_boxes, coco": by_objects("coco"),
    "evaluate_boxes, voc": by_objects("voc"),
    "COCOeval": by_coco,
    "command detect": by_command,
}
"""images of any shape"""
SHAPES_OF = {
    name: {"bbox", "segm", "keypoints", "rotated"}
    for name in ("DetectionMAP", "DetectionMetrics", "evaluate_images, coco")
}
SHAPES_OF |= {"LvisMAP": {"bbox", "segm"}, "evaluate_images, lvis": {"bbox", "segm"}}
SHAPES_OF |= {"VocMAP": {"bbox", "rotated"}, "evaluate_images, voc": {"bbox", "rotated"}}
SHAPES_OF |= {"COCOeval": {"bbox", "keypoints"}, "command detect": {"bbox", "keypoints"}}


def takes(door: str, data: Data) -> bool:
    """Whether an entry point takes the shape of some images; ground truths of COCO have a box each."""
    if door in ("COCOeval", "command detect") and shape_of(data) == "keypoints" and "boxes" not in data["target"][0]:
        return False
    return shape_of(data) in SHAPES_OF.get(door.partition(".")[0], {"bbox"})


OF_IMAGE_BATCHES: dict[str, Callable[[Data], object]] = {
    f"{kind.__name__}.{method}": updated(kind, method)
    for kind in (DetectionMAP, DetectionMetrics, VocMAP, YoloMAP)
    for method in ("compute", "results")
}
"""batches of images"""
