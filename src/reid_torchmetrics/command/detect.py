"""`detect`: detections and ground truths in files, by COCO's, LVIS', Pascal VOC's, YOLO's or DOTA's rules.

The files are JSON of COCO and LVIS, and folders of Pascal VOC, YOLO and DOTA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._warnings import warn
from reid_torchmetrics.data import (
    DOTA_CLASSES,
    VOC_CLASSES,
    box_layouts,
    find_voc_classes,
    read_cartucho,
    read_dota,
    read_kitti,
    read_open_images,
    read_voc,
    yolo_files,
)
from reid_torchmetrics.files import read_images, read_keys, remedy_of_json
from reid_torchmetrics.functional.detection.evaluation import (
    EvaluatedImages,
    MatchRequest,
    match_shards,
    named_classes,
    shard_images,
)
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, Evaluator
from reid_torchmetrics.tasks.evaluators import groups_by_frequency, read_frequencies

from .images import FilesByStem, FileSizes, box_images, named_images
from .outputs import Outputs, ReportImages
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
_ALL_AREAS = {"all": (0.0, 1e10)}
_SHARES = ("yolo", "open_images")
"""layouts of files with shares of the image"""
_READERS_OF_BOXES: dict[str, Any] = {"voc": read_voc, "cartucho": read_cartucho, "kitti": read_kitti}
"""readers of boxes in pixels, by layout"""


class _DetectionFiles(NamedTuple):
    """Detections and ground truths of the same images, with the facts that their files hold beside boxes."""

    preds: Sequence[Mapping[str, Any]]
    target: Sequence[Mapping[str, Any]]
    box_format: _names.BoxFormat
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
    outputs = Outputs(arguments, prefixes)
    evaluator = EVALUATORS[_ROWS.get(arguments.evaluator, arguments.evaluator)]
    if options.pop("fixed", False):
        evaluator = EVALUATORS["lvis_fixed"]

    # All processes read the files, so that all know of an error, and each evaluates some images.
    files = _read_detection_files(arguments, evaluator, option_types, options)
    log(*files.notes)
    options |= files.options
    rule, confidence = evaluator.checked(options.get("rule"), None)
    if rule != "coco" and options.get("rec_thresholds") is not None:
        raise ValueError(
            f"`rec_thresholds` must be None with rule {rule!r}; got {sorted(options['rec_thresholds'])!r}."
        )
    # Only a report and pictures show numbers across classes, and only a report has the boxes.
    needs_boxes = arguments.report is not None
    needs_classes = needs_boxes or arguments.pictures is not None
    requests = [_match_request(evaluator, iou_type, options, across_classes=needs_classes) for iou_type in iou_types]
    with join_processes() as share:
        with share_errors(share):
            images = _shard(files, iou_types, requests, options, share)
            files = files._replace(preds=(), target=())  # they are as large as the states
            results = match_shards(
                images,
                requests,
                rule=rule,
                confidence=confidence,
                class_names=named_classes(options.get("class_names")),
                boxes=needs_boxes,
            )
        if share.process != 0:
            return 0
        return outputs.write(dict(zip(prefixes, results, strict=True)), images=files.images)


def _shard(
    files: _DetectionFiles,
    iou_types: Sequence[str],
    requests: Sequence[MatchRequest],
    options: Mapping[str, Any],
    share: Share,
) -> EvaluatedImages:
    """Return the images of all processes, of which this one packs its share."""
    grid = requests[0].grid
    evaluator = requests[0].evaluator
    counts_all = evaluator.is_federated or not evaluator.has_limits
    part = share.part_of(len(files.preds))
    images, warnings = shard_images(
        files.preds[part],
        files.target[part],
        iou_types,
        evaluator.extras,
        files.box_format,
        sigmas=options.get("sigmas"),
        invalid=options.get("invalid") or "count",
        world=share.world(),
        settings={"options": repr(options)},
        limit=None if counts_all else grid.max_detection_thresholds[-1],
        title=PROGRAM,
    )
    for text in warnings:
        warn(text)
    return images


def _match_request(
    evaluator: Evaluator, iou_type: _names.IouType, options: Mapping[str, Any], *, across_classes: bool
) -> MatchRequest:
    """Return the request for the matches of one shape.

    Raises:
        ValueError: an option with values that are not allowed.
    """
    if evaluator.is_federated:
        _checks.one_of("iou_type", iou_type, _names.LvisIouType)
    if evaluator.iou_types is not None:
        _checks.one_of("iou_type", iou_type, evaluator.iou_types)
    if evaluator.with_options is not None:
        evaluator = evaluator.with_options(evaluator, iou_type, whole_pixels=None)
    drops_invalid = options.get("invalid") == "drop"
    grid = evaluator.grid(iou_type=iou_type, drops_invalid=drops_invalid, **_grid_options(options))
    for name, count in Counter(grid.value_names).items():
        if count > 1:  # an area range called "50" has the value `map_50`, as a threshold has
            raise ValueError(f"`area_ranges` must give every value a name of its own; got {name!r} twice.")
    return MatchRequest(grid, evaluator, options.get("max_bytes")).of_results(across_classes=across_classes)


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
    box_layout = None if arguments.evaluator == "dota" else box_layouts.find_box_layout(*_paths(arguments))
    layout = _find_layout(arguments) if box_layout is None else box_layout.name
    if arguments.image_size is not None and layout not in _SHARES:
        raise ValueError("`--image-size` must be given with files of shares of the image; got other files.")
    if layout == "coco":
        return _read_json(arguments, evaluator, iou_types or ("bbox",), options)
    if iou_types is not None and len(iou_types) > 1:
        raise ValueError(f"`--iou-type` must be one type for folders; got {' '.join(iou_types)}.")
    iou_type = None if iou_types is None else iou_types[0]
    if layout == "yolo":
        return _read_shares(arguments, None, iou_type, options)
    if layout == "dota":
        _checks.one_of("iou_type", iou_type or "rotated", ("rotated",))
        class_names = options.get("class_names", DOTA_CLASSES)
        invalid = options.get("invalid", "count")
        preds, target = read_dota(arguments.ground_truths, arguments.detections, class_names, invalid=invalid)
    else:
        _checks.one_of("iou_type", iou_type or "bbox", ("bbox",))
        class_names = options.get("class_names")
        if class_names is None:
            class_names = _find_voc_names(arguments) if box_layout is None else box_layout.class_names
        if layout == "open_images":
            return _read_shares(arguments, class_names, iou_type, options)
        preds, target = _READERS_OF_BOXES[layout](*_paths(arguments), class_names)
    files = None if arguments.images is None else FilesByStem(arguments.images)
    images = named_images(files, target)
    return _DetectionFiles(preds, target, "xyxy", {"class_names": class_names}, notes=[], images=images)


def _paths(arguments: SimpleNamespace) -> tuple[str, str]:
    """Return the paths of ground truths and of detections."""
    return arguments.ground_truths, arguments.detections


def _find_layout(arguments: SimpleNamespace) -> str:
    """Return the layout of the paths: "coco", "voc", "yolo" or "dota".

    Raises:
        ValueError: a file and a folder, or folders for LVIS' evaluator.
    """
    paths = list(map(Path, _paths(arguments)))
    folders = [path for path in paths if path.is_dir()]
    if arguments.evaluator == "dota":
        return "dota"  # the reader refuses a path that is no folder
    if not folders:
        return "coco"
    if len(folders) == 1:
        (folder,) = folders
        (file,) = (path for path in paths if path != folder)
        got = f"the folder {str(folder)!r} and {str(file)!r}{remedy_of_json(file) or remedy_of_json(folder)}"
        raise ValueError(f"`ground_truths` and `detections` must both be files of JSON, or both folders; got {got}.")
    if arguments.evaluator == "lvis":
        raise ValueError("`ground_truths` must be a file of JSON for `--evaluator lvis`; got a folder.")
    for folder in paths:
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


def _read_shares(
    arguments: SimpleNamespace, class_names: Sequence[str] | None, iou_type: Any, options: Mapping[str, Any]
) -> _DetectionFiles:
    """Read files with shares of the image: of Open Images with `class_names`, or of YOLO with names in its folders."""
    # The sizes of images, as far as they are known: one for all, or by the name of each.
    sizes: Any = None
    files = None
    notes = []
    if arguments.image_size is not None:
        sizes = tuple(arguments.image_size)
        _checks.positive_ints("image_size", sizes, distinct=False)
    elif arguments.images is not None:
        files = FilesByStem(arguments.images)
        sizes = FileSizes(files)
        notes.append(f"sizes of images from {arguments.images}")

    file_options: dict[str, Any] = {}
    if sizes is None and arguments.evaluator == "coco" and "area_ranges" not in options:
        file_options["area_ranges"] = _ALL_AREAS
    if class_names is not None:
        preds, target = read_open_images(*_paths(arguments), class_names, image_sizes=sizes)
        file_options["class_names"] = class_names
    else:
        needs_names = "class_names" not in options
        folders = yolo_files.read_yolo_folders(
            *_paths(arguments), image_sizes=sizes, iou_type=iou_type, needs_names=needs_names
        )
        preds, target = folders.preds, folders.target
        notes.extend(folders.notes)
        if needs_names and folders.class_names is not None:
            file_options["class_names"] = folders.class_names
    if "area_ranges" in file_options:
        notes.append(
            "no numbers of small, medium and large objects, as sizes are shares of the image: see --image-size"
        )
    return _DetectionFiles(preds, target, "xyxy", file_options, notes, named_images(files, target))
