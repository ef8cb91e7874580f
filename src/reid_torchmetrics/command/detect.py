"""`detect`: detections and ground truths in files, by COCO's, LVIS', Pascal VOC's, YOLO's or DOTA's rules.

The files are JSON of COCO and LVIS, and folders of Pascal VOC, YOLO and DOTA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._files import read_keys
from reid_torchmetrics._warnings import warn
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
from reid_torchmetrics.functional.detection.batches import empty_states, pack_images, text_of_many, text_of_warning
from reid_torchmetrics.functional.detection.evaluation import (
    DetectionResults,
    EvaluatedImages,
    MatchRequest,
    ShardedImages,
    make_results,
    named_classes,
)
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator
from reid_torchmetrics.functional.detection.inputs import shape_types
from reid_torchmetrics.functional.made import images_given, results_made
from reid_torchmetrics.tasks.evaluators import groups_by_frequency, read_frequencies

from .images import FilesByStem, FileSizes, ReportImages, box_images, named_images
from .outputs import Outputs
from .processes import Share, join_processes, share_errors
from .terminal import PROGRAM, log

_SHARED = ("iou_thresholds", "class_names", "invalid", "max_bytes")
EVALUATOR_OPTIONS: dict[str, tuple[str, ...]] = {
    "coco": (
        *_SHARED,
        *("iou_type", "rec_thresholds", "max_detection_thresholds", "average", "area_ranges", "rule"),
        *("thresholds", "sigmas"),
    ),
    "lvis": (*_SHARED, "iou_type", "fixed", "max_detections"),
    "voc": (*_SHARED, "iou_type", "rule"),
    "yolo": (*_SHARED, "rule"),
    "dota": (*_SHARED, "iou_type", "rule"),
}
"""options by evaluator"""
_ROWS = {"yolo": "ultralytics", "dota": "voc"}
"""rows of `EVALUATORS` with another name"""
_DEFAULTS: dict[str, Any] = {"dota": {"iou_type": ("rotated",), "rule": "voc07"}}
_GRID_OPTIONS = (
    *("iou_thresholds", "rec_thresholds", "max_detection_thresholds", "area_ranges", "class_groups"),
    *("thresholds", "sigmas", "average"),
)
_CPU = torch.device("cpu")
_YOLO_NAME_FILES = ("data.yaml", "dataset.yaml", "classes.txt", "obj.names")
_NUM_PARENTS = 3  # folders above the labels in which names of classes may lie, such as `data/labels/val`
_ALL_AREAS = {"all": (0.0, 1e10)}


class _DetectionFiles(NamedTuple):
    """Detections and ground truths of the same images, with the facts that their files hold beside boxes."""

    preds: Sequence[Mapping[str, Any]]
    target: Sequence[Mapping[str, Any]]
    box_format: str
    options: dict[str, Any]
    """options of the evaluation that the files decide, such as names of classes"""
    notes: list[str]
    """guesses, as lines for the user"""
    images: ReportImages = ReportImages()
    """the images for the report"""


def run(arguments: SimpleNamespace, options: dict[str, Any]) -> int:
    """Evaluate detections; return the exit status."""
    unknown = options.keys() - EVALUATOR_OPTIONS[arguments.evaluator]
    if unknown:
        raise ValueError(f"`{min(unknown)}` must be given with another `--evaluator`; got {arguments.evaluator!r}.")
    options = _DEFAULTS.get(arguments.evaluator, {}) | options
    option_types = options.pop("iou_type", None)
    iou_types = ("bbox",) if option_types is None else tuple(option_types)
    prefixes = [""] if len(iou_types) == 1 else [f"{iou_type}_" for iou_type in iou_types]
    outputs = Outputs(arguments, (arguments.ground_truths, arguments.detections), prefixes)
    evaluator = EVALUATORS[_ROWS.get(arguments.evaluator, arguments.evaluator)]
    if options.pop("fixed", False):
        evaluator = EVALUATORS["lvis_fixed"]

    # All processes read the files, so that all know of an error, and each evaluates some images.
    files = _read_detection_files(arguments, evaluator, option_types, options)
    log(*files.notes)
    options |= files.options
    # Only a report and pictures show numbers across classes, and only a report has the boxes.
    needs_boxes = arguments.report is not None
    needs_classes = needs_boxes or arguments.pictures is not None
    requests = []
    for iou_type in iou_types:
        request = _match_request(evaluator, iou_type, options)
        requests.append(request.of_results(across_classes=needs_classes))
    with join_processes() as share:
        with share_errors(share):
            results = _evaluate(files, share, requests, options, has_boxes=needs_boxes)
        if share.process != 0:
            return 0
        return outputs.write(dict(zip(prefixes, results, strict=True)), images=files.images)


def _match_request(evaluator: Evaluator, iou_type: _names.IouType, options: Mapping[str, Any]) -> MatchRequest:
    """Return the request for the matches of one shape.

    Raises:
        ValueError: an option with values that are not allowed.
    """
    grid_options = _grid_options(options)
    rule, _ = evaluator.checked(options.get("rule"), None)
    if rule != "coco" and "rec_thresholds" in grid_options:
        got = grid_options["rec_thresholds"]
        raise ValueError(f"`rec_thresholds` must be None with rule {rule!r}; got {got!r}.")
    if evaluator.is_federated:
        _checks.one_of("iou_type", iou_type, _names.LvisIouType)
    if evaluator.iou_types is not None:
        _checks.one_of("iou_type", iou_type, evaluator.iou_types)
    if evaluator.with_options is not None:
        evaluator = evaluator.with_options(evaluator, iou_type, whole_pixels=None)
    grid = evaluator.grid(iou_type=iou_type, drops_invalid=options.get("invalid") == "drop", **grid_options)
    for name, count in Counter(grid.value_names).items():
        if count > 1:  # an area range called "50" has the value `map_50`, as a threshold has
            raise ValueError(f"`area_ranges` must give every value a name of its own; got {name!r} twice.")
    return MatchRequest(grid, evaluator, options.get("max_bytes"))


def _grid_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the grid of precision and recall; thresholds and limits may come in any order."""
    grid_options = {name: options[name] for name in _GRID_OPTIONS if options.get(name) is not None}
    for name in ("rec_thresholds", "max_detection_thresholds"):
        if name in grid_options:
            grid_options[name] = sorted(grid_options[name])
    limits = grid_options.get("max_detection_thresholds", (1, 10, 100))
    if len(limits) not in (1, 3):
        raise ValueError(f"`max_detection_thresholds` must hold 3 numbers or 1; got {limits!r}.")
    if options.get("max_detections") is not None:
        _checks.positive_int("max_detections", options["max_detections"])
        grid_options["max_detection_thresholds"] = (options["max_detections"],)
    return grid_options


def _evaluate(
    files: _DetectionFiles,
    share: Share,
    requests: Sequence[MatchRequest],
    options: Mapping[str, Any],
    *,
    has_boxes: bool,
) -> list[DetectionResults]:
    """Return the results for each request, the same on all processes, of which each matches some of the images."""
    evaluator = requests[0].evaluator
    shapes = shape_types([request.iou_type for request in requests], options.get("sigmas"))
    images = share.part_of(len(files.preds))
    batch = pack_images(
        files.preds[images],
        files.target[images],
        shapes,
        files.box_format,
        _CPU,
        has_boxes=any(request.iou_type == "bbox" for request in requests),
        invalid=options.get("invalid") or "count",
        extras=evaluator.extras,
    )
    limit = requests[0].grid.max_detection_thresholds[-1]
    if evaluator.has_limits and not evaluator.is_federated and batch.most_detections > limit:
        warn(text_of_many(limit))
    if batch.num_dropped or batch.num_invalid:
        warn(text_of_warning(batch.num_dropped, batch.num_invalid, shapes))

    states = {name: [batch.states.get(name, empty)] for name, empty in empty_states(shapes, evaluator.extras).items()}
    sharded = ShardedImages(
        share.world(), states, _CPU, files.box_format, PROGRAM, lambda: {"options": repr(options)}, evaluator.extras
    )
    given: dict[str, Any] = {}
    if batch.given is not None:
        images_given(given, batch.given)
    rule, confidence = evaluator.checked(options.get("rule"), None)
    class_names = named_classes(options.get("class_names"))
    results = []
    for request in requests:
        matches = sharded.match(request)
        boxes = sharded.boxes_of()[0] if has_boxes else None
        results.append(make_results(matches, rule, confidence, class_names=class_names, boxes=boxes))
        results_made(matches, EvaluatedImages(sharded, given), sharded.world)
    return results


def _read_detection_files(
    arguments: SimpleNamespace, evaluator: Evaluator, iou_types: Sequence[str] | None, options: dict[str, Any]
) -> _DetectionFiles:
    """Read ground truths and detections by the reader of their files.

    Args:
        arguments: the paths `ground_truths`, `detections` and `images`, `evaluator`, `unknown_categories`,
            `detection_areas` and `image_size`.
        evaluator: the row of `EVALUATORS`.
        iou_types: the shapes in the command line; None if it has none.
        options: the options of the evaluation in the command line.

    Raises:
        OSError: a path that does not exist, or cannot be read.
        ValueError: a file and a folder, an option that the files do not take, or contents that cannot be read; the
            message names the file.
    """
    layout = _find_layout(arguments)
    if arguments.image_size is not None and layout != "yolo":
        raise ValueError("`--image-size` must be given with folders of YOLO's files only; got other files.")
    if layout == "coco":
        return _read_json(arguments, evaluator, iou_types or ("bbox",), options)
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
    arguments: SimpleNamespace, evaluator: Evaluator, iou_types: Sequence[str], options: dict[str, Any]
) -> _DetectionFiles:
    """Read JSON of COCO or LVIS, with the names and frequencies of the categories."""
    notes: list[str] = []
    preds, target = read_images(
        evaluator,
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
    if evaluator.is_federated:
        file_options["class_groups"] = groups_by_frequency(read_frequencies(arguments.ground_truths))
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
