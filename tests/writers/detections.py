"""The tools and layouts whose files of boxes are read."""

from typing import NamedTuple

from tests.writers import annotation_tools as tools
from tests.writers import detectors
from tests.writers.annotation_tools import Write


class Writer(NamedTuple):
    """How a tool writes both sides."""

    ground_truths: Write
    detections: Write
    unnamed: tuple[str, ...] = ()
    """"classes" or "images" if a file has their numbers alone, which must be those of the other file"""
    refusal: str = ""
    """the error, for a form that cannot be evaluated"""


_NO_CONFIDENCE = "must have a class, a box or polygon and a confidence in a line; got"
_NO_SCORES = "a data set whose annotations have no `score`"
_DOCUMENTS = "documents of Pascal VOC are ground truths, without scores"


def _both(write: Write, refusal: str = "") -> Writer:
    return Writer(write, write, refusal=refusal)


WRITERS = {
    "globox: COCO": _both(tools.globox_coco),
    "globox: COCO, automatic ids": _both(tools.globox_coco_auto),
    "globox: YOLO": Writer(tools.globox_yolo, tools.globox_yolo, ("classes",)),
    "globox: darknet": Writer(
        tools.globox_yolo, tools.globox_darknet, refusal="must have the confidence behind the box"
    ),
    "globox: text": _both(tools.globox_text),
    "globox: Open Images": _both(tools.globox_open_images),
    "globox: VOC": _both(tools.globox_voc, _DOCUMENTS),
    "globox: CVAT": _both(tools.globox_cvat, "got '.xml': of CVAT; convert it by `globox"),
    "globox: LabelMe": _both(tools.globox_labelme, "of LabelMe; convert it by `globox"),
    "globox: VIA": _both(tools.globox_via, "of VIA; convert it by `globox"),
    "labelformat: COCO": _both(tools.labelformat_coco),
    "labelformat: YOLO": _both(tools.labelformat_yolo, _NO_CONFIDENCE),
    "labelformat: KITTI": _both(tools.labelformat_kitti, "rotation_y score'; got '"),
    "labelformat: VOC": _both(tools.labelformat_voc, _DOCUMENTS),
    "supervision: COCO": _both(tools.supervision_coco, _NO_SCORES),
    "supervision: YOLO": _both(tools.supervision_yolo, _NO_CONFIDENCE),
    "supervision: VOC": _both(tools.supervision_voc, _DOCUMENTS),
    "supervision: CreateML": _both(tools.supervision_createml, "of CreateML; convert it by `supervision"),
    "supervision: LabelMe": _both(tools.supervision_labelme, "of LabelMe; convert it by `globox"),
    "supervision: JSONSink": Writer(
        tools.supervision_coco,
        tools.supervision_json_sink,
        refusal=", of supervision; convert it by `",
    ),
    "supervision: CSVSink": Writer(
        tools.supervision_coco,
        tools.supervision_csv_sink,
        refusal="of JSON; got '.csv', of supervision; convert it by `",
    ),
    "kwcoco": _both(tools.kwcoco_json),
    "SAHI: YOLO from 1": Writer(
        detectors.sahi_yolo, tools.fiftyone_yolo, refusal="`ground_truths` must have classes that have a name in"
    ),
    "SAHI: YOLO from 0": Writer(detectors.sahi_yolo_from_zero, tools.fiftyone_yolo),
    "SAHI: predictions": Writer(detectors.sahi_coco, detectors.sahi_predictions, ("classes", "images")),
    "SAHI: results": Writer(detectors.sahi_coco, detectors.sahi_results, ("images",)),
    "SAHI: data set": _both(detectors.sahi_coco, _NO_SCORES),
    "datumaro: COCO": _both(tools.datumaro_export("coco_instances", "annotations/instances_val.json")),
    "datumaro: YOLO": _both(tools.datumaro_export("yolo", "obj_val_data"), _NO_CONFIDENCE),
    "datumaro: KITTI": _both(tools.datumaro_export("kitti", "val/label_2")),
    "datumaro: VOC": _both(tools.datumaro_export("voc", "Annotations"), _DOCUMENTS),
    "datumaro: Open Images": _both(tools.datumaro_export("open_images", "annotations/val-annotations-bbox.csv")),
    "datumaro: its own": _both(tools.datumaro_export("datumaro", "annotations/val.json"), "of datumaro; convert it by"),
    "datumaro: MOT": _both(
        tools.datumaro_export("mot_seq_gt", "gt/gt.txt"), "got '.txt': of MOT; tracks are evaluated"
    ),
    "datumaro: CVAT": _both(tools.datumaro_export("cvat", "val.xml"), "got '.xml': of CVAT; convert it by `globox"),
    "FiftyOne: COCO": _both(tools.fiftyone_coco),
    "FiftyOne: COCO by first appearance": _both(tools.fiftyone_coco_appearance),
    "FiftyOne: YOLOv5": _both(tools.fiftyone_yolo),
    "FiftyOne: YOLOv4": _both(tools.fiftyone_yolo4),
    "FiftyOne: KITTI": _both(tools.fiftyone_kitti),
    "FiftyOne: VOC": _both(tools.fiftyone_voc, _DOCUMENTS),
    "FiftyOne: its own": _both(tools.fiftyone_own, "of FiftyOne; export it as `fiftyone.types.COCODetectionDataset`"),
    "FiftyOne: BDD100K": _both(tools.fiftyone_bdd, "of BDD100K; convert it by `globox"),
    "FiftyOne: CVAT": _both(tools.fiftyone_cvat, "got '.xml': of CVAT; convert it by `globox"),
    "Ultralytics: text": Writer(detectors.yolo_labels, detectors.ultralytics_text, ("classes",)),
    "Ultralytics: text without confidences": Writer(
        detectors.yolo_labels, detectors.ultralytics_text_bare, refusal=_NO_CONFIDENCE
    ),
    "Ultralytics: JSON": Writer(
        detectors.sahi_coco, detectors.ultralytics_json, refusal='must hold a list of objects; got [[{"name": '
    ),
    "Ultralytics: validation": Writer(detectors.sahi_coco, detectors.ultralytics_validation, ("classes",)),
}
"""by what the tools call their layouts"""
