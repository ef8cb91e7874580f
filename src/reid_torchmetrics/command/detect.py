"""`detect`: detections and ground truths in files, by COCO's, LVIS', Pascal VOC's, YOLO's or DOTA's rules."""

from __future__ import annotations

from inspect import signature
from types import SimpleNamespace
from typing import Any

from reid_torchmetrics.metrics.detection import DetectionMAP, LvisMAP, VocMAP, YoloMAP

from .detection_files import read_detection_files
from .outputs import Outputs
from .processes import join_processes, share_errors
from .terminal import log

_METRICS: dict[str, Any] = {"coco": DetectionMAP, "lvis": LvisMAP, "voc": VocMAP, "yolo": YoloMAP, "dota": VocMAP}
_DEFAULTS: dict[str, Any] = {"dota": {"iou_type": ("rotated",), "rule": "voc07"}}


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Evaluate detections; return the exit status."""
    metric_class = _METRICS[arguments.evaluator]
    parameters = signature(metric_class).parameters
    unknown = options.keys() - parameters
    if unknown:
        raise ValueError(f"`{min(unknown)}` must be given with another `--evaluator`; got {arguments.evaluator!r}.")
    options = _DEFAULTS.get(arguments.evaluator, {}) | options
    option_types = options.pop("iou_type", None)
    iou_types = ("bbox",) if option_types is None else tuple(option_types)
    prefixes = [""] if len(iou_types) == 1 else [f"{iou_type}_" for iou_type in iou_types]
    outputs = Outputs(arguments, (arguments.ground_truths, arguments.detections), prefixes)

    # All processes read the files, so that all know of an error, and each evaluates some images.
    files = read_detection_files(arguments, metric_class, option_types, options)
    log(*files.notes)
    options |= files.options
    if "iou_type" in parameters:
        options["iou_type"] = iou_types[0] if len(iou_types) == 1 else iou_types
    metric = metric_class(files.box_format, **options)

    # Only a report and pictures show numbers across classes, and only a report has the boxes.
    needs_boxes = arguments.report is not None
    needs_classes = needs_boxes or arguments.pictures is not None
    with join_processes() as share:
        with share_errors(share):
            images = share.part_of(len(files.preds))
            metric.update(files.preds[images], files.target[images])
            results = {}
            for prefix, iou_type in zip(prefixes, iou_types, strict=True):
                results[prefix] = metric.results(iou_type, across_classes=needs_classes, boxes=needs_boxes)
        return outputs.write(results) if share.process == 0 else 0
