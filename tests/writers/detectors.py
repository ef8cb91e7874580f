"""Files of boxes as tools for detectors write them: a function writes a side of a problem, and returns its path."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.writers.annotation_tools import write_images
from tests.writers.problems import Side


def _sahi(side: Side) -> Any:
    from sahi.utils.coco import Coco, CocoAnnotation, CocoCategory, CocoImage, CocoPrediction  # noqa: PLC0415

    coco = Coco()
    for name, number in side.class_ids.items():
        coco.add_category(CocoCategory(id=number, name=name))
    for image, boxes in side.boxes.items():
        width, height = side.sizes[image]
        coco_image = CocoImage(f"{image}.jpg", height, width, id=side.image_ids[image])
        for box in boxes:
            words = {"bbox": list(box[1:5]), "category_id": side.class_ids[box.label], "category_name": box.label}
            if box.score is None:
                coco_image.add_annotation(CocoAnnotation(**words))
            else:
                coco_image.add_prediction(CocoPrediction(**words, score=box.score))
        coco.add_image(coco_image)
    return coco


def _write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def sahi_coco(side: Side, folder: Path) -> Path:
    return _write(folder / "coco.json", _sahi(side).json)


def sahi_yolo(side: Side, folder: Path) -> Path:
    """Labels beside the images, and `data.yml` above them."""
    write_images(side, folder / "images")
    coco = _sahi(side)
    coco.image_dir = str(folder / "images")
    coco.export_as_yolo(output_dir=str(folder / "yolo"), train_split_rate=0.0)
    return folder / "yolo" / "val"


def sahi_yolo_from_zero(side: Side, folder: Path) -> Path:
    """The same of categories that are numbered from 0, as YOLO's classes are."""
    return sahi_yolo(side.numbered(first=0), folder)


def sahi_predictions(side: Side, folder: Path) -> Path:
    return _write(folder / "predictions.json", _sahi(side).prediction_array)


def sahi_results(side: Side, folder: Path) -> Path:
    """As `predict` does: a result for each image."""
    from sahi.prediction import ObjectPrediction, PredictionResult  # noqa: PLC0415

    rows = []
    for image, boxes in side.boxes.items():
        width, height = side.sizes[image]
        predictions = [
            ObjectPrediction(
                bbox=list(box.corners),
                category_id=side.class_ids[box.label],
                category_name=box.label,
                score=box.score,
                full_shape=[height, width],
            )
            for box in boxes
        ]
        result = PredictionResult(predictions, np.zeros((height, width, 3), np.uint8))
        rows += result.to_coco_predictions(image_id=side.image_ids[image])
    return _write(folder / "result.json", rows)


def _ultralytics_results(side: Side) -> Any:
    import torch  # noqa: PLC0415
    from ultralytics.engine.results import Results  # noqa: PLC0415

    names = dict(enumerate(side.classes))
    numbers = {name: number for number, name in names.items()}
    for image, boxes in side.boxes.items():
        width, height = side.sizes[image]
        rows = [[*box.corners, box.score, numbers[box.label]] for box in boxes]
        yield (
            image,
            Results(
                np.zeros((height, width, 3), np.uint8), f"{image}.jpg", names, boxes=torch.tensor(rows).reshape(-1, 6)
            ),
        )


def ultralytics_text(side: Side, folder: Path) -> Path:
    for image, result in _ultralytics_results(side):
        result.save_txt(folder / "labels" / f"{image}.txt", save_conf=True)
    return folder / "labels"


def ultralytics_text_bare(side: Side, folder: Path) -> Path:
    for image, result in _ultralytics_results(side):
        result.save_txt(folder / "labels" / f"{image}.txt")
    return folder / "labels"


def ultralytics_json(side: Side, folder: Path) -> Path:
    """The list of all images that `to_json` gives."""
    return _write(folder / "results.json", [json.loads(result.to_json()) for _, result in _ultralytics_results(side)])


def ultralytics_validation(side: Side, folder: Path) -> Path:
    """`predictions.json` of the validation with `save_json=True`."""
    from types import SimpleNamespace  # noqa: PLC0415

    import torch  # noqa: PLC0415
    from ultralytics.models.yolo.detect.val import DetectionValidator  # noqa: PLC0415

    validator = SimpleNamespace(jdict=[], class_map=list(range(1, len(side.classes) + 1)))
    classes = list(side.classes)
    for image, boxes in side.boxes.items():
        found = {
            "bboxes": torch.tensor([box.corners for box in boxes], dtype=torch.float32).reshape(-1, 4),
            "conf": torch.tensor([box.score for box in boxes]),
            "cls": torch.tensor([classes.index(box.label) for box in boxes]),
        }
        DetectionValidator.pred_to_json(validator, found, {"im_file": f"/images/{image}.jpg"})
    return _write(folder / "predictions.json", validator.jdict)


def yolo_labels(side: Side, folder: Path) -> Path:
    """Labels as Ultralytics reads them, with data.yaml above: it has no writer of its own for these."""
    labels = folder / "labels"
    labels.mkdir()
    numbers = {name: number for number, name in enumerate(side.classes)}
    for image, boxes in side.boxes.items():
        width, height = side.sizes[image]
        lines = []
        for box in boxes:
            center = (box.x + box.width / 2) / width, (box.y + box.height / 2) / height
            lines.append(f"{numbers[box.label]} {center[0]} {center[1]} {box.width / width} {box.height / height}")
        (labels / f"{image}.txt").write_text("\n".join(lines), encoding="utf-8")
    names = "\n".join(f"  {number}: {name}" for name, number in numbers.items())
    (folder / "data.yaml").write_text(f"path: .\nval: images\nnames:\n{names}\n", encoding="utf-8")
    return labels
