"""`detect`: detections and ground truths in files, by COCO's, LVIS', Pascal VOC's, YOLO's or DOTA's rules.

The files are JSON of COCO and LVIS, and folders of Pascal VOC, YOLO and DOTA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from reid_torchmetrics import _checks
from reid_torchmetrics._files import read_json
from reid_torchmetrics.data import (
    DOTA_CLASSES,
    VOC_CLASSES,
    find_voc_classes,
    read_dota,
    read_voc,
    read_yolo,
    read_yolo_names,
)
from reid_torchmetrics.metrics.detection import DetectionMAP, LvisMAP, VocMAP, YoloMAP

from .outputs import Outputs
from .processes import joined, telling_errors
from .terminal import say

_METRICS: dict[str, Any] = {"coco": DetectionMAP, "lvis": LvisMAP, "voc": VocMAP, "yolo": YoloMAP, "dota": VocMAP}
_DEFAULTS: dict[str, Any] = {"dota": {"iou_type": ("rotated",), "rule": "voc07"}}
_YOLO_NAME_FILES = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")
_NUM_PARENTS = 3  # folders above the labels in which names of classes may lie, such as `data/labels/val`
_ALL_AREAS = {"all": (0.0, 1e10)}


class _DetectionFiles(NamedTuple):
    """What `detect` has read."""

    preds: list[dict[str, Any]]
    target: list[dict[str, Any]]
    box_format: str
    options: dict[str, Any]
    """options of the metric that the files decide, such as names of classes"""
    notes: list[str]
    """what was guessed, a line each"""


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Evaluate detections; return the exit status."""
    metric_class = _METRICS[arguments.evaluator]
    parameters = signature(metric_class).parameters
    unknown = options.keys() - parameters
    if unknown:
        raise ValueError(f"`{min(unknown)}` must be given with another `--evaluator`; got {arguments.evaluator!r}.")
    options = _DEFAULTS.get(arguments.evaluator, {}) | options
    asked_types = options.pop("iou_type", None)
    iou_types = ("bbox",) if asked_types is None else tuple(asked_types)
    prefixes = [f"{iou_type}_" for iou_type in iou_types] if len(iou_types) > 1 else [""]
    outputs = Outputs(arguments, (arguments.ground_truths, arguments.detections), prefixes)
    # All processes read the files, so that all know of an error, and each evaluates some images.
    files = _read_detection_files(arguments, metric_class, asked_types, options)
    say(*files.notes)
    options |= files.options
    if "iou_type" in parameters:
        options["iou_type"] = iou_types[0] if len(iou_types) == 1 else iou_types
    metric = metric_class(files.box_format, **options)
    # Only a report and pictures show what lies across classes, and only a report has the boxes.
    has_boxes = arguments.report is not None
    shown = {"across_classes": has_boxes or arguments.pictures is not None, "boxes": has_boxes}
    with joined() as share:
        with telling_errors(share):
            images = share.of(len(files.preds))
            metric.update(files.preds[images], files.target[images])
            results = {}
            for prefix, iou_type in zip(prefixes, iou_types, strict=True):
                results[prefix] = metric.results(iou_type, **shown)
        return outputs.write(results) if share.process == 0 else 0


def _read_detection_files(
    arguments: SimpleNamespace, metric_class: Any, iou_types: Sequence[str] | None, options: dict[str, Any]
) -> _DetectionFiles:
    """Read ground truths and detections by the reader of their files.

    Args:
        arguments: the paths `ground_truths` and `detections`, `evaluator`, `unknown_categories` and `image_size`.
        metric_class: the metric of the evaluator.
        iou_types: the shapes that were asked for; None if nothing was.
        options: the options of the metric that were given.

    Raises:
        OSError: a path that does not exist, or cannot be read.
        ValueError: a file and a folder, an option that the files do not take, or contents that cannot be read; the
            message names the file.
    """
    layout = _layout(arguments)
    if arguments.image_size is not None and layout != "yolo":
        raise ValueError("`--image-size` must be given with folders of YOLO's files only; got other files.")
    if layout == "coco":
        return _read_json(arguments, metric_class, iou_types or ("bbox",), options)
    if iou_types is not None and len(iou_types) > 1:
        raise ValueError(f"`--iou-type` must be one type for folders; got {' '.join(iou_types)}.")
    iou_type = None if iou_types is None else iou_types[0]
    if layout == "yolo":
        return _read_yolo(arguments, iou_type, options)
    if layout == "dota":
        _checks.one_of("iou_type", iou_type or "rotated", ("rotated",))
        names = options.get("class_names", DOTA_CLASSES)
        invalid = options.get("invalid", "count")
        preds, target = read_dota(arguments.ground_truths, arguments.detections, names, invalid=invalid)
    else:
        _checks.one_of("iou_type", iou_type or "bbox", ("bbox",))
        names = options.get("class_names") or _voc_names(arguments)
        preds, target = read_voc(arguments.ground_truths, arguments.detections, names)
    return _DetectionFiles(preds, target, "xyxy", {"class_names": names}, [])


def _layout(arguments: SimpleNamespace) -> str:
    """Return the layout of the paths: "coco", "voc", "yolo" or "dota".

    Raises:
        ValueError: a file and a folder, or folders for LVIS' evaluator.
    """
    paths = {"ground_truths": Path(arguments.ground_truths), "detections": Path(arguments.detections)}
    folders = [name for name, path in paths.items() if path.is_dir()]
    if arguments.evaluator == "dota":
        return "dota"  # the reader names what is no folder
    if not folders:
        return "coco"
    if len(folders) == 1:
        (folder,) = folders
        (file,) = paths.keys() - {folder}
        got = f"the folder {str(paths[folder])!r} and {str(paths[file])!r}"
        raise ValueError(f"`ground_truths` and `detections` must both be files of JSON, or both folders; got {got}.")
    if arguments.evaluator == "lvis":
        raise ValueError("`ground_truths` must be a file of JSON for `--evaluator lvis`; got a folder.")
    has_documents = any(file.suffix.lower() == ".xml" for path in paths.values() for file in path.iterdir())
    return "voc" if has_documents else "yolo"


def _read_json(
    arguments: SimpleNamespace, metric_class: Any, iou_types: Sequence[str], options: dict[str, Any]
) -> _DetectionFiles:
    notes: list[str] = []
    preds, target = metric_class.coco_to_tm(
        arguments.detections,
        arguments.ground_truths,
        iou_types,
        invalid=options.get("invalid", "count"),
        unknown_categories=arguments.unknown_categories,
        guesses=notes,
    )
    found: dict[str, Any] = {}
    if metric_class is LvisMAP:
        found["frequencies"] = LvisMAP.frequencies_of(arguments.ground_truths)
    if "class_names" not in options:
        data_set = read_json(arguments.ground_truths)
        found["class_names"] = _distinct_names(data_set.get("categories", [])) or None
    return _DetectionFiles(preds, target, "xywh", found, notes)


def _distinct_names(categories: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Return the names of categories by their ids; to a name that several categories have the id is appended."""
    names = {int(row["id"]): row["name"] for row in categories if row.get("name") is not None}
    counts = Counter(names.values())
    return {number: f"{name} ({number})" if counts[name] > 1 else name for number, name in names.items()}


def _voc_names(arguments: SimpleNamespace) -> Sequence[str]:
    """Return the 20 classes of Pascal VOC if the annotations have no others, else their own in ascending order."""
    folders = (arguments.ground_truths, arguments.detections)  # which may have been exchanged
    names = {name for folder in folders for name in find_voc_classes(folder)}
    return VOC_CLASSES if names <= set(VOC_CLASSES) else tuple(sorted(names))


def _read_yolo(arguments: SimpleNamespace, iou_type: Any, options: dict[str, Any]) -> _DetectionFiles:
    notes: list[str] = []
    found: dict[str, Any] = {}
    size = None
    if arguments.image_size is not None:
        _checks.positive_ints("image_size", tuple(arguments.image_size), distinct=False)
        size = tuple(arguments.image_size)
    preds, target = read_yolo(arguments.ground_truths, arguments.detections, image_sizes=size, iou_type=iou_type)
    if "class_names" not in options:
        path = _find_name_file(arguments)
        if path is not None:
            found["class_names"] = read_yolo_names(path)
            notes.append(f"names of classes from {path}")
    if size is None and arguments.evaluator == "coco" and "area_ranges" not in options:
        found["area_ranges"] = _ALL_AREAS
        notes.append(
            "no numbers of small, medium and large objects, as sizes are shares of the image: see --image-size"
        )
    return _DetectionFiles(preds, target, "xyxy", found, notes)


def _find_name_file(arguments: SimpleNamespace) -> Path | None:
    """Return the first file with names of classes in the folders of labels, or above them; None if there is none."""
    for folder in (Path(arguments.ground_truths), Path(arguments.detections)):
        path = folder.resolve()
        for place in (path, *path.parents[:_NUM_PARENTS]):
            for name in _YOLO_NAME_FILES:
                if (place / name).is_file():
                    return place / name
    return None
