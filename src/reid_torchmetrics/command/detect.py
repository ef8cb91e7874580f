"""`detect`: detections and ground truths in files, by COCO's, LVIS', Pascal VOC's, YOLO's or DOTA's rules.

The files are JSON of COCO and LVIS, and folders of Pascal VOC, YOLO and DOTA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from reid_torchmetrics import _checks
from reid_torchmetrics._files import read_keys
from reid_torchmetrics.data import (
    DOTA_CLASSES,
    VOC_CLASSES,
    find_voc_classes,
    read_dota,
    read_voc,
    read_yolo,
    read_yolo_names,
)
from reid_torchmetrics.files import read_images
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS
from reid_torchmetrics.metrics.detection import DetectionMAP
from reid_torchmetrics.tasks.metrics import LvisMAP, VocMAP, YoloMAP

from .images import FilesByStem, FileSizes, ReportImages, box_images, named_images
from .outputs import Outputs
from .processes import join_processes, share_errors
from .terminal import log

_METRICS: dict[str, Any] = {"coco": DetectionMAP, "lvis": LvisMAP, "voc": VocMAP, "yolo": YoloMAP, "dota": VocMAP}
_DEFAULTS: dict[str, Any] = {"dota": {"iou_type": ("rotated",), "rule": "voc07"}}
_YOLO_NAME_FILES = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")
_NUM_PARENTS = 3  # folders above the labels in which names of classes may lie, such as `data/labels/val`
_ALL_AREAS = {"all": (0.0, 1e10)}


class _DetectionFiles(NamedTuple):
    """Detections and ground truths of the same images, with the facts that their files hold beside boxes."""

    preds: Sequence[Mapping[str, Any]]
    target: Sequence[Mapping[str, Any]]
    box_format: str
    options: dict[str, Any]
    """options of the metric that the files decide, such as names of classes"""
    notes: list[str]
    """guesses, as lines for the user"""
    images: ReportImages = ReportImages()
    """the images for the report"""


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
    files = _read_detection_files(arguments, metric_class, option_types, options)
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
        return outputs.write(results, images=files.images) if share.process == 0 else 0


def _read_detection_files(
    arguments: SimpleNamespace, metric_class: Any, iou_types: Sequence[str] | None, options: dict[str, Any]
) -> _DetectionFiles:
    """Read ground truths and detections by the reader of their files.

    Args:
        arguments: the paths `ground_truths`, `detections` and `images`, `evaluator`, `unknown_categories`,
            `detection_areas` and `image_size`.
        metric_class: the metric of the evaluator.
        iou_types: the shapes in the command line; None if it has none.
        options: the options of the metric in the command line.

    Raises:
        OSError: a path that does not exist, or cannot be read.
        ValueError: a file and a folder, an option that the files do not take, or contents that cannot be read; the
            message names the file.
    """
    layout = _find_layout(arguments)
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
        class_names = options.get("class_names", DOTA_CLASSES)
        invalid = options.get("invalid", "count")
        preds, target = read_dota(arguments.ground_truths, arguments.detections, class_names, invalid=invalid)
    else:
        _checks.one_of("iou_type", iou_type or "bbox", ("bbox",))
        class_names = options.get("class_names") or _find_voc_names(arguments)
        preds, target = read_voc(arguments.ground_truths, arguments.detections, class_names)
    files = None if arguments.images is None else FilesByStem(arguments.images)
    images = _find_images(files, target)
    return _DetectionFiles(preds, target, "xyxy", {"class_names": class_names}, notes=[], images=images)


def _find_images(files: FilesByStem | None, target: Sequence[dict[str, Any]]) -> ReportImages:
    """Return the images of ground truths that are named by the files without suffix; none without a folder."""
    if files is None:
        return ReportImages()
    return named_images(files, [image["image_id"] for image in target])


def _find_layout(arguments: SimpleNamespace) -> str:
    """Return the layout of the paths: "coco", "voc", "yolo" or "dota".

    Raises:
        ValueError: a file and a folder, or folders for LVIS' evaluator.
    """
    paths = {"ground_truths": Path(arguments.ground_truths), "detections": Path(arguments.detections)}
    folders = [name for name, path in paths.items() if path.is_dir()]
    if arguments.evaluator == "dota":
        return "dota"  # the reader refuses a path that is no folder
    if not folders:
        return "coco"
    if len(folders) == 1:
        folder = paths.pop(folders[0])
        (file,) = paths.values()
        got = f"the folder {str(folder)!r} and {str(file)!r}"
        raise ValueError(f"`ground_truths` and `detections` must both be files of JSON, or both folders; got {got}.")
    if arguments.evaluator == "lvis":
        raise ValueError("`ground_truths` must be a file of JSON for `--evaluator lvis`; got a folder.")
    for folder in paths.values():
        if any(file.suffix.lower() == ".xml" for file in folder.iterdir()):
            return "voc"
    return "yolo"


def _read_json(
    arguments: SimpleNamespace, metric_class: Any, iou_types: Sequence[str], options: dict[str, Any]
) -> _DetectionFiles:
    """Read JSON of COCO or LVIS, with the names and frequencies of the categories."""
    notes: list[str] = []
    preds, target = read_images(
        EVALUATORS[metric_class._row],  # noqa: SLF001 - as in its `coco_to_tm`, without a dict for each image
        arguments.detections,
        arguments.ground_truths,
        iou_types,
        backend="pycocotools",
        invalid=options.get("invalid", "count"),
        unknown_categories=arguments.unknown_categories,
        detection_areas=arguments.detection_areas,
        guesses=notes,
    )
    file_options: dict[str, Any] = {}
    if metric_class is LvisMAP:
        file_options["frequencies"] = LvisMAP.read_frequencies(arguments.ground_truths)
    images = ReportImages()
    if "class_names" not in options or arguments.images is not None:
        data_set = read_keys(arguments.ground_truths, ("categories", "images"))
        if "class_names" not in options:
            file_options["class_names"] = _distinct_names(data_set["categories"] or []) or None
        if arguments.images is not None:
            images = box_images(arguments.images, data_set["images"])
    return _DetectionFiles(preds, target, "xywh", file_options, notes, images)


def _distinct_names(categories: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Return the names of categories by their ids; a name of several categories is followed by the id."""
    names = {int(row["id"]): row["name"] for row in categories if row.get("name") is not None}
    counts = Counter(names.values())
    for category, name in names.items():
        if counts[name] > 1:
            names[category] = f"{name} ({category})"
    return names


def _find_voc_names(arguments: SimpleNamespace) -> Sequence[str]:
    """Return the 20 classes of Pascal VOC if the annotations have no others, else all of them in ascending order."""
    # The user may have exchanged both folders.
    names = {*find_voc_classes(arguments.ground_truths), *find_voc_classes(arguments.detections)}
    return VOC_CLASSES if names <= set(VOC_CLASSES) else tuple(sorted(names))


def _read_yolo(arguments: SimpleNamespace, iou_type: Any, options: dict[str, Any]) -> _DetectionFiles:
    """Read folders of YOLO's files, with the names of classes in or above the folders."""
    notes: list[str] = []
    file_options: dict[str, Any] = {}
    files = None
    size: Any = None
    if arguments.image_size is not None:
        size = tuple(arguments.image_size)
        _checks.positive_ints("image_size", size, distinct=False)
    elif arguments.images is not None:
        files = FilesByStem(arguments.images)
        size = FileSizes(files)
        notes.append(f"sizes of images from {arguments.images}")
    preds, target = read_yolo(arguments.ground_truths, arguments.detections, image_sizes=size, iou_type=iou_type)
    if "class_names" not in options:
        path = _find_name_file(arguments)
        if path is not None:
            file_options["class_names"] = read_yolo_names(path)
            notes.append(f"names of classes from {path}")
    if size is None and arguments.evaluator == "coco" and "area_ranges" not in options:
        file_options["area_ranges"] = _ALL_AREAS
        notes.append(
            "no numbers of small, medium and large objects, as sizes are shares of the image: see --image-size"
        )
    return _DetectionFiles(preds, target, "xyxy", file_options, notes, _find_images(files, target))


def _find_name_file(arguments: SimpleNamespace) -> Path | None:
    """Return the first file with names of classes in the folders of labels, or above them; None if there is none."""
    for argument in (arguments.ground_truths, arguments.detections):
        label_folder = Path(argument).resolve()
        for folder in (label_folder, *label_folder.parents[:_NUM_PARENTS]):
            for name in _YOLO_NAME_FILES:
                if (folder / name).is_file():
                    return folder / name
    return None
