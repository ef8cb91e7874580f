"""Files of boxes as tools for annotations write them: a function writes a side of a problem, and returns its path."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.writers.problems import Side

Write = Callable[[Side, Path], Path]


def write_images(side: Side, folder: Path) -> None:
    """Black images of the right sizes."""
    from PIL import Image  # noqa: PLC0415

    folder.mkdir()
    for image in side.boxes:
        Image.new("L", side.sizes[image]).save(folder / f"{image}.jpg")


def _globox(side: Side) -> Any:
    from globox import Annotation, AnnotationSet, BoundingBox  # noqa: PLC0415

    annotations = []
    for image, boxes in side.boxes.items():
        rows = [
            BoundingBox(
                label=box.label,
                xmin=box.corners[0],
                ymin=box.corners[1],
                xmax=box.corners[2],
                ymax=box.corners[3],
                confidence=box.score,
            )
            for box in boxes
        ]
        annotations.append(Annotation(f"{image}.jpg", side.sizes[image], rows))
    return AnnotationSet(annotations)


def globox_coco(side: Side, folder: Path) -> Path:
    path = folder / "globox.json"
    images = {f"{image}.jpg": number for image, number in side.image_ids.items()}
    _globox(side).save_coco(path, label_to_id=side.class_ids, imageid_to_id=images)
    return path


def globox_coco_auto(side: Side, folder: Path) -> Path:
    path = folder / "globox.json"
    _globox(side).save_coco(path, auto_ids=True)
    return path


def globox_yolo(side: Side, folder: Path) -> Path:
    _globox(side).save_yolo_v5(folder / "labels", label_to_id=side.class_ids)
    return folder / "labels"


def globox_darknet(side: Side, folder: Path) -> Path:
    _globox(side).save_yolo_darknet(folder / "labels", label_to_id=side.class_ids)
    return folder / "labels"


def globox_text(side: Side, folder: Path) -> Path:
    _globox(side).save_txt(folder / "text")
    return folder / "text"


def globox_open_images(side: Side, folder: Path) -> Path:
    _globox(side).save_openimage(folder / "boxes.csv")
    return folder / "boxes.csv"


def globox_voc(side: Side, folder: Path) -> Path:
    _globox(side).save_pascal_voc(folder / "xml")
    return folder / "xml"


def globox_cvat(side: Side, folder: Path) -> Path:
    _globox(side).save_cvat(folder / "cvat.xml")
    return folder / "cvat.xml"


def globox_labelme(side: Side, folder: Path) -> Path:
    _globox(side).save_labelme(folder / "labelme")
    return folder / "labelme"


def globox_via(side: Side, folder: Path) -> Path:
    write_images(side, folder / "images")
    _globox(side).save_via_json(folder / "via.json", image_folder=folder / "images")
    return folder / "via.json"


def _labelformat(side: Side) -> Any:
    from labelformat.model import object_detection as model  # noqa: PLC0415
    from labelformat.model.bounding_box import BoundingBox  # noqa: PLC0415
    from labelformat.model.category import Category  # noqa: PLC0415
    from labelformat.model.image import Image  # noqa: PLC0415

    categories = {name: Category(number, name) for name, number in side.class_ids.items()}
    images = [Image(number, f"{name}.jpg", *side.sizes[name]) for name, number in side.image_ids.items()]
    labels = []
    for image, boxes in zip(images, side.boxes.values(), strict=True):
        rows = [
            model.SingleObjectDetection(categories[box.label], BoundingBox(*map(float, box.corners)), box.score)
            for box in boxes
        ]
        labels.append(model.ImageObjectDetection(image, rows))

    class Input(model.ObjectDetectionInput):
        @staticmethod
        def add_cli_arguments(parser: object) -> None:
            """It is called by nobody."""

        def get_categories(self) -> Any:
            return categories.values()

        def get_images(self) -> Any:
            return images

        def get_labels(self) -> Any:
            return labels

    return Input()


def labelformat_coco(side: Side, folder: Path) -> Path:
    from labelformat.formats import COCOObjectDetectionOutput  # noqa: PLC0415

    COCOObjectDetectionOutput(folder / "coco.json").save(_labelformat(side))
    return folder / "coco.json"


def labelformat_yolo(side: Side, folder: Path) -> Path:
    from labelformat.formats import YOLOv8ObjectDetectionOutput  # noqa: PLC0415

    YOLOv8ObjectDetectionOutput(folder / "data.yaml", "val").save(_labelformat(side))
    return folder / "labels"


def labelformat_kitti(side: Side, folder: Path) -> Path:
    from labelformat.formats import KittiObjectDetectionOutput  # noqa: PLC0415

    KittiObjectDetectionOutput(folder / "kitti").save(_labelformat(side))
    return folder / "kitti"


def labelformat_voc(side: Side, folder: Path) -> Path:
    from labelformat.formats import PascalVOCObjectDetectionOutput  # noqa: PLC0415

    PascalVOCObjectDetectionOutput(folder / "xml").save(_labelformat(side))
    return folder / "xml"


def _supervision(side: Side, folder: Path) -> Any:
    import supervision as sv  # noqa: PLC0415

    write_images(side, folder / "images")
    annotations = {
        str(folder / "images" / f"{image}.jpg"): _sv_detections(side, boxes) for image, boxes in side.boxes.items()
    }
    paths = list(annotations)
    return sv.DetectionDataset(classes=list(side.classes), images=paths, annotations=annotations)


def _sv_detections(side: Side, boxes: Any) -> Any:
    import supervision as sv  # noqa: PLC0415

    classes = list(side.classes)
    labels = [classes.index(box.label) for box in boxes]
    scores = None
    if any(box.score is not None for box in boxes):
        scores = np.array([box.score for box in boxes])
    return sv.Detections(
        xyxy=np.array([box.corners for box in boxes], dtype=np.float32).reshape(-1, 4),
        class_id=np.array(labels, dtype=int),
        confidence=scores,
        data={"class_name": np.array([box.label for box in boxes])},
    )


def supervision_coco(side: Side, folder: Path) -> Path:
    _supervision(side, folder).as_coco(annotations_path=str(folder / "coco.json"))
    return folder / "coco.json"


def supervision_yolo(side: Side, folder: Path) -> Path:
    _supervision(side, folder).as_yolo(
        annotations_directory_path=str(folder / "labels"), data_yaml_path=str(folder / "data.yaml")
    )
    return folder / "labels"


def supervision_voc(side: Side, folder: Path) -> Path:
    _supervision(side, folder).as_pascal_voc(annotations_directory_path=str(folder / "xml"))
    return folder / "xml"


def bdd100k(side: Side, folder: Path) -> Path:
    """Write what the data set has, by hand: its tools need packages of their own."""
    frames = []
    for image, boxes in side.boxes.items():
        labels = []
        for number, box in enumerate(boxes):
            edges = dict(zip(("x1", "y1", "x2", "y2"), box.corners, strict=True))
            label = {"id": str(number), "category": box.label, "attributes": {"occluded": False}, "box2d": edges}
            labels.append(label if box.score is None else label | {"score": box.score})
        frames.append({"name": f"{image}.jpg", "attributes": {"weather": "clear"}, "timestamp": 10000})
        if labels:
            frames[-1]["labels"] = labels
    (folder / "bdd.json").write_text(json.dumps(frames), encoding="utf-8")
    return folder / "bdd.json"


def supervision_createml(side: Side, folder: Path) -> Path:
    _supervision(side, folder).as_createml(annotations_path=str(folder / "createml.json"))
    return folder / "createml.json"


def supervision_labelme(side: Side, folder: Path) -> Path:
    _supervision(side, folder).as_labelme(annotations_directory_path=str(folder / "labelme"))
    return folder / "labelme"


def supervision_json_sink(side: Side, folder: Path) -> Path:
    import supervision as sv  # noqa: PLC0415

    with sv.JSONSink(str(folder / "sink.json")) as sink:
        for image, boxes in side.boxes.items():
            sink.append(_sv_detections(side, boxes), custom_data={"image": image})
    return folder / "sink.json"


def supervision_csv_sink(side: Side, folder: Path) -> Path:
    import supervision as sv  # noqa: PLC0415

    with sv.CSVSink(str(folder / "sink.csv")) as sink:
        for image, boxes in side.boxes.items():
            sink.append(_sv_detections(side, boxes), custom_data={"image": image})
    return folder / "sink.csv"


def kwcoco_json(side: Side, folder: Path) -> Path:
    import kwcoco  # noqa: PLC0415

    data = kwcoco.CocoDataset()
    classes = {name: data.add_category(name) for name in side.classes}
    for image, boxes in side.boxes.items():
        width, height = side.sizes[image]
        number = data.add_image(file_name=f"{image}.jpg", width=width, height=height)
        for box in boxes:
            more = {} if box.score is None else {"score": box.score}
            data.add_annotation(number, classes[box.label], bbox=list(box[1:5]), **more)
    data.dump(folder / "kwcoco.json")
    return folder / "kwcoco.json"


def _datumaro(side: Side) -> Any:
    import datumaro  # noqa: PLC0415
    from datumaro.components.media import Image  # noqa: PLC0415

    items, classes = [], list(side.classes)
    for image, boxes in side.boxes.items():
        width, height = side.sizes[image]
        rows = []
        for number, box in enumerate(boxes):
            more = {} if box.score is None else {"score": box.score}
            rows.append(
                datumaro.Bbox(*box[1:5], label=classes.index(box.label), id=number, group=number, attributes=more)
            )
        media = Image.from_numpy(np.zeros((height, width, 3), np.uint8))
        items.append(datumaro.DatasetItem(image, subset="val", media=media, annotations=rows))
    return datumaro.Dataset.from_iterable(items, categories=classes)


def datumaro_export(layout: str, place: str) -> Write:
    def write(side: Side, folder: Path) -> Path:
        more = {} if layout == "kitti" else {"save_media": False}
        _datumaro(side).export(str(folder / "set"), layout, **more)
        return folder / "set" / place

    return write


def _fiftyone(side: Side, folder: Path, exporter: Any) -> None:
    import fiftyone as fo  # noqa: PLC0415

    images = folder / "originals"
    write_images(side, images)
    with exporter:
        for image, boxes in side.boxes.items():
            width, height = side.sizes[image]
            rows = []
            for box in boxes:
                x, y, w, h = box[1:5]
                more = {} if box.score is None else {"confidence": box.score}
                rows.append(
                    fo.Detection(label=box.label, bounding_box=[x / width, y / height, w / width, h / height], **more)
                )
            metadata = fo.ImageMetadata(width=width, height=height, num_channels=3)
            exporter.export_sample(str(images / f"{image}.jpg"), fo.Detections(detections=rows), metadata=metadata)


def fiftyone_coco(side: Side, folder: Path) -> Path:
    from fiftyone.utils.coco import COCODetectionDatasetExporter  # noqa: PLC0415

    path = folder / "labels.json"
    _fiftyone(
        side,
        folder,
        COCODetectionDatasetExporter(labels_path=str(path), export_media=False, classes=list(side.classes)),
    )
    return path


def fiftyone_coco_appearance(side: Side, folder: Path) -> Path:
    from fiftyone.utils.coco import COCODetectionDatasetExporter  # noqa: PLC0415

    path = folder / "labels.json"
    _fiftyone(side, folder, COCODetectionDatasetExporter(labels_path=str(path), export_media=False))
    return path


def fiftyone_yolo(side: Side, folder: Path) -> Path:
    from fiftyone.utils.yolo import YOLOv5DatasetExporter  # noqa: PLC0415

    has_scores = any(box.score is not None for boxes in side.boxes.values() for box in boxes)
    _fiftyone(side, folder, YOLOv5DatasetExporter(export_dir=str(folder), include_confidence=has_scores))
    return folder / "labels" / "val"


def fiftyone_yolo4(side: Side, folder: Path) -> Path:
    from fiftyone.utils.yolo import YOLOv4DatasetExporter  # noqa: PLC0415

    has_scores = any(box.score is not None for boxes in side.boxes.values() for box in boxes)
    _fiftyone(side, folder, YOLOv4DatasetExporter(export_dir=str(folder), include_confidence=has_scores))
    return folder / "data"


def fiftyone_kitti(side: Side, folder: Path) -> Path:
    from fiftyone.utils.kitti import KITTIDetectionDatasetExporter  # noqa: PLC0415

    _fiftyone(side, folder, KITTIDetectionDatasetExporter(export_dir=str(folder), export_media=False))
    return folder / "labels"


def fiftyone_voc(side: Side, folder: Path) -> Path:
    from fiftyone.utils.voc import VOCDetectionDatasetExporter  # noqa: PLC0415

    _fiftyone(side, folder, VOCDetectionDatasetExporter(export_dir=str(folder), export_media=False))
    return folder / "labels"


def fiftyone_own(side: Side, folder: Path) -> Path:
    from fiftyone.utils.data import FiftyOneImageDetectionDatasetExporter  # noqa: PLC0415

    _fiftyone(side, folder, FiftyOneImageDetectionDatasetExporter(export_dir=str(folder), export_media=False))
    return folder / "labels.json"


def fiftyone_bdd(side: Side, folder: Path) -> Path:
    from fiftyone.utils.bdd import BDDDatasetExporter  # noqa: PLC0415

    _fiftyone(side, folder, BDDDatasetExporter(export_dir=str(folder), export_media=False))
    return folder / "labels.json"


def fiftyone_cvat(side: Side, folder: Path) -> Path:
    from fiftyone.utils.cvat import CVATImageDatasetExporter  # noqa: PLC0415

    _fiftyone(side, folder, CVATImageDatasetExporter(export_dir=str(folder), export_media=False))
    return folder / "labels.xml"
