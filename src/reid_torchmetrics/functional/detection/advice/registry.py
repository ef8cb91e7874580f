"""The registry of advice on detection.

A new row is an `Advice` in `DETECTION_ADVICE`, with evidence on which it fires in `examples`; the page of advice and
the tests follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import torch
from torch import Tensor

from reid_torchmetrics.functional.advice import Advice, Values, advise
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST
from reid_torchmetrics.functional.world import WarningLog

from . import examples, objects, readings, repetitions
from .evidence import LEAST_SHARE, PIXELS, DetectionEvidence
from .notes import WHOLE_PIXELS, is_rounded

_LEAST_IMAGES = 10  # without lists of classes: those of a few images may be empty
_FEW_SMALL = 0.01  # boxes with a size below the position, where sizes are corners: boxes of negative size
_LEAST_CORNERS, _CLOSE = 20, 0.8  # different boxes, and ratios of two corners that are close to each other
_FEW, _FEW_OF_CLASSES = 0.3, 0.1  # ground truths that are found, of all and in the mean of classes
_MOST_SHOWN = 3  # labels in a text
_LEAST_ROUNDED = 0.1  # of the coordinates that are larger than a dtype holds to a pixel


def advise_on_detections(evidence: DetectionEvidence, warning_log: WarningLog) -> None:
    """Warn of what is probably not meant, after the numbers are computed."""
    advise(DETECTION_ADVICE.values(), evidence, warning_log)


def _without_lists(evidence: DetectionEvidence) -> Values | None:
    num = evidence.num_without_lists
    return {"num": num} if num >= _LEAST_IMAGES else None


def _groups_without_ground_truths(evidence: DetectionEvidence) -> Values | None:
    """Groups of classes, if ground truths are many and none of them is in a group."""
    groups = evidence.grid.class_groups
    num, labels = evidence.matches.num_positives[0], list(chain(*groups.values()))
    if not labels or int(num.sum()) < LEAST_BOXES:
        return None
    true_labels = evidence.matches.classes[num > 0].tolist()
    if not set(labels).isdisjoint(true_labels):
        return None
    names = ", ".join(f"`map_{name}`" for name, group in groups.items() if group)
    return {"names": names, "labels": _listed(sorted(labels)), "true_labels": _listed(true_labels)}


def _listed(labels: Sequence[int]) -> str:
    return ", ".join(str(label) for label in labels[:_MOST_SHOWN])


def _few_are_found(evidence: DetectionEvidence) -> bool:
    num_found, num, _ = evidence.recall
    return num >= LEAST_BOXES and num_found < _FEW * num


def _shifted_labels(evidence: DetectionEvidence) -> Values | None:
    if evidence.is_one_class or not _few_are_found(evidence) or evidence.recall.mean_of_classes >= _FEW_OF_CLASSES:
        return None
    found = evidence.remember("labels", lambda: objects.find_shifted_labels(*evidence.objects()))
    if found is None:
        return None
    names = evidence.label_names
    shown = found.pairs
    if names is not None:
        pairs = ", ".join(f"{names[label]} for {names[true]}" for label, true in shown)
    else:
        pairs = ", ".join(f"{label} for {true}" for label, true in shown)
    return {"num_right": found.num_right, "num": found.num_found, "pairs": pairs}


def _odd_shapes(evidence: DetectionEvidence, name: str) -> Values | None:
    if evidence.notes is None or evidence.many_boxes is None:
        return None
    for num_odd, num in evidence.notes.num_odd_shapes(name):
        if num >= LEAST_BOXES and 2 * num_odd > num:
            return {"num_odd": num_odd, "num": num}
    return None


def _mixed_units(evidence: DetectionEvidence) -> Values | None:
    units = evidence.units
    if set(units) != {"shares", "pixels"} or evidence.sample is None:
        return None
    if units[0] == "shares":
        return {"num": len(evidence.sample.detections), "shares": "preds", "pixels": "target"}
    return {"num": len(evidence.sample.ground_truths), "shares": "target", "pixels": "preds"}


def _sizes_of_shares(evidence: DetectionEvidence) -> Values | None:
    sample = evidence.many_boxes
    if sample is None or not evidence.has_sizes or sample.largest_area > 1:
        return None
    if evidence.units != ("shares", "shares"):
        return None
    return {"num": len(sample.detections) + len(sample.ground_truths)}


def _areas_in_shares(evidence: DetectionEvidence) -> Values | None:
    sample = evidence.many_boxes
    if sample is None or not LEAST_SHARE < sample.largest_area < 1 or evidence.units[1] != "pixels":
        return None
    return {"num": len(sample.ground_truths)}


def _corners_as_sizes(evidence: DetectionEvidence) -> Values | None:
    sample = evidence.many_boxes
    if sample is None or evidence.iou_type != "bbox" or evidence.box_format == "xyxy":
        return None
    names = []
    if _are_corners(sample.detections):
        names.append("`preds`")
    if _are_corners(sample.ground_truths):
        names.append("`target`")
    if not names:
        return None
    return {"num": min(len(sample.detections), len(sample.ground_truths)), "names": " and ".join(names)}


def _are_corners(boxes: Tensor) -> bool:
    """Whether sizes of boxes are almost never below their positions, are often close to them, and grow with them."""
    if float((boxes[:, 2:] < boxes[:, :2]).any(1).double().mean()) > _FEW_SMALL:  # as a rule
        return False
    boxes = boxes.double().unique(dim=0)
    starts, ends = boxes[:, :2], boxes[:, 2:]
    if len(boxes) < _LEAST_CORNERS or not bool(((starts > _CLOSE * ends).double().mean(0) >= 1 - _CLOSE).all()):
        return False
    # Objects of about one size can end there, too, but do not grow to the right.
    spread = torch.stack([starts, ends]) - torch.stack([starts, ends]).mean(1, keepdim=True)
    shared = spread.prod(0).sum(0)
    return bool((shared > 0.5 * spread.square().sum(1).prod(0).sqrt()).all())


def _corners_beyond_images(evidence: DetectionEvidence) -> Values | None:
    if evidence.iou_type != "bbox" or evidence.box_format == "xyxy":
        return None
    num_found, num, _ = evidence.recall
    if num_found > readings.MOST_FOUND * num:
        return None

    def find() -> list[readings.BoxesBeyondImages]:
        image_sizes = evidence.read_image_sizes()
        if image_sizes is None:
            return []
        return readings.find_corners(*evidence.objects(), evidence.box_format, image_sizes)

    sides = evidence.remember(f"corners {_hash_of_sizes(evidence)}", find)
    if not sides:
        return None
    return {
        "num_outside": sum(side.num_outside for side in sides),
        "num": sum(side.num_boxes for side in sides),
        "names": " and ".join(f"`{side.argument}`" for side in sides),
    }


def _hash_of_sizes(evidence: DetectionEvidence) -> int:
    """Return a number of the sizes of images, as these are not among what matches follow from."""
    return 0 if evidence.notes is None else hash(frozenset(evidence.notes.image_sizes.items()))


def _rounded_coordinates(evidence: DetectionEvidence) -> Values | None:
    """Detected boxes or other shapes in a dtype that does not hold their coordinates to a pixel."""
    found = [] if evidence.notes is None else evidence.notes.rounded_shapes()
    sample = evidence.sample
    if sample is not None and evidence.iou_type == "bbox" and sample.detections.dtype in WHOLE_PIXELS:
        dtype, true_dtype = sample.detections.dtype, sample.ground_truths.dtype
        if is_rounded(dtype, true_dtype):
            share = float((sample.detections.abs() > WHOLE_PIXELS[dtype]).double().mean())
            found.append(("boxes", dtype, true_dtype, share))
    for key, dtype, true_dtype, share in found:
        if share > _LEAST_ROUNDED:
            dtypes = {"dtype": _name_of(dtype), "true_dtype": _name_of(true_dtype)}
            return {"key": key, "share": f"{share:.0%}", "limit": f"{WHOLE_PIXELS[dtype]:,}", **dtypes}
    return None


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _unused_difficult(evidence: DetectionEvidence) -> Values | None:
    if evidence.notes is None or not evidence.notes.num_difficult:
        return None
    return {"num": evidence.notes.num_difficult}


def _unused_lists(evidence: DetectionEvidence) -> Values | None:
    if evidence.notes is None or evidence.notes.unused_list is None:
        return None
    return {"key": evidence.notes.unused_list}


def _forgotten_reset(evidence: DetectionEvidence) -> Values | None:
    num = evidence.count_repeated_labels()
    return {"num": num} if num else None


def _gathered_images(evidence: DetectionEvidence) -> Values | None:
    return {} if evidence.repetitions.are_gathered else None


def _padded_images(evidence: DetectionEvidence) -> Values | None:
    return {} if evidence.repetitions.are_padded else None


def _other_detections(evidence: DetectionEvidence) -> Values | None:
    num_other, num = evidence.count_other_detections()
    return {"num": num_other} if 2 * num_other > num else None


def _other_reading(evidence: DetectionEvidence, row: str) -> Values | None:
    if evidence.iou_type != "bbox" or not _few_are_found(evidence):
        return None

    def find() -> readings.BoxReading | None:
        return readings.find_reading(*evidence.objects(), evidence.box_format, evidence.read_image_sizes())

    found = evidence.remember(f"reading {_hash_of_sizes(evidence)}", find)
    if found is None or found.row != row:
        return None
    return found._asdict()


_READING = (
    "Only {num_before} of {num_ground_truths} checked ground truths are found at an overlap of 0.5, whatever their"
    " labels. With `{argument}` read as {name}, {num_found} of {num_ground_truths} ground truths are found. {remedy}"
)
_FIRES_ON_READING = (
    "Fewer than {few} of the ground truths are found, labels do not explain it, and on a sample of at most {images}"
    " images {reading} finds more than {most} of the ground truths, at least twice as many as without it, and at least"
    " twice as many as in wrong images."
)
_READING_THRESHOLDS: Mapping[str, float] = {"few": _FEW, "images": objects.MOST_IMAGES, "most": readings.MOST_FOUND}
_EXPLAINED_BY = ("labels", "mixed_units", "corners_as_sizes", "corners_beyond_images")


def _reading_row(name: str, checks: str, reading: str) -> Advice[DetectionEvidence]:
    return Advice(
        name=name,
        checks=checks,
        fires=_FIRES_ON_READING.replace("{reading}", reading),
        message=_READING,
        inputs=("iou_type", "box_format", "recall", "objects", "remember", "notes", "read_image_sizes"),
        find=lambda evidence: _other_reading(evidence, name),
        example=examples.READINGS[name],
        thresholds=_READING_THRESHOLDS,
        explained_by=_EXPLAINED_BY,
    )


_ROWS: list[Advice[DetectionEvidence]] = [
    Advice(
        name="missing_lists",
        checks="LVIS without the lists of classes of each image",
        fires="At least {least} images were given, none has a list, and some detections are of classes without ground"
        " truths in their image.",
        message="None of {num} images has `neg_category_ids` or `not_exhaustive_category_ids`: detections of classes"
        " without ground truths in their image do not count. Give the lists in `target`; `DetectionMAP` is for images"
        " that are annotated in full.",
        inputs=("num_without_lists",),
        find=_without_lists,
        example=examples.missing_lists,
        thresholds={"least": _LEAST_IMAGES},
    ),
    Advice(
        name="class_groups",
        checks="groups of classes by another list of labels than that of the ground truths",
        fires="At least {least} ground truths were given, and none has a label of a group.",
        message="No ground truth has a label of {names}: these are of the labels {labels}, and ground truths have"
        " {true_labels}. Give both by the same list.",
        inputs=("grid", "matches"),
        find=_groups_without_ground_truths,
        example=examples.class_groups,
        thresholds={"least": LEAST_BOXES},
    ),
    Advice(
        name="labels",
        checks="labels of another list, such as from 0 on one side and from 1 on the other",
        fires="Fewer than {few} of the ground truths, and {few_of_classes} in the mean of classes, are found with their"
        " labels; without labels more than half are; fewer than {right} of the pairs have equal labels, and {same} of"
        " them have the usual ones, or no label is on both sides.",
        message="Only {num_right} of {num} ground truths that are found have the label of their detection; most"
        " frequent are {pairs}. Give `labels` by the same list on both sides; one may begin at 0, and the other at 1.",
        inputs=("is_one_class", "recall", "objects", "remember", "label_names"),
        find=_shifted_labels,
        example=examples.labels,
        thresholds={"few": _FEW, "few_of_classes": _FEW_OF_CLASSES, "right": objects.FEW_RIGHT, "same": objects.SAME},
    ),
    Advice(
        name="keypoints_in_shares",
        checks="keypoints as shares of the image",
        fires="At least {least} ground truths were given, and most of their labeled keypoints lie within [0, 1] and"
        " outside of their box.",
        message="Most labeled keypoints of ground truths, {num_odd} of {num}, lie within [0, 1] and outside of the box"
        " of the object: they seem to be shares of the image. Multiply them by its width and height.",
        inputs=("many_boxes", "notes"),
        find=lambda evidence: _odd_shapes(evidence, "keypoints"),
        example=examples.keypoints_in_shares,
        thresholds={"least": LEAST_BOXES},
    ),
    Advice(
        name="angles_in_degrees",
        checks="angles of rotated boxes in degrees",
        fires="At least {least} angles other than 0 were given on a side, and most of them are beyond 2 pi.",
        message="Most angles of `rotated_boxes`, {num_odd} of {num}, are beyond 2 pi: they seem to be degrees. Give"
        " radians, for instance by `torch.deg2rad`.",
        inputs=("many_boxes", "notes"),
        find=lambda evidence: _odd_shapes(evidence, "rotated"),
        example=examples.angles_in_degrees,
        thresholds={"least": LEAST_BOXES},
    ),
    Advice(
        name="soft_masks",
        checks="masks of probabilities",
        fires="At least {least} images have masks of numbers, and most of them have several values and no 0.",
        message="The masks of {num_odd} of {num} images have several values and no 0, but all that is not 0 belongs to"
        " a mask. Give bool masks, such as `masks > 0.5` of soft ones.",
        inputs=("many_boxes", "notes"),
        find=lambda evidence: _odd_shapes(evidence, "segm"),
        example=examples.soft_masks,
        thresholds={"least": LEAST_BOXES},
    ),
    Advice(
        name="mixed_units",
        checks="boxes as shares of the image on one side, in pixels on the other",
        fires="At least {least} boxes were given on each side; {most} of them lie within [0, 1] on one side, and are"
        " longer than {pixels} on the other.",
        message="Most of {num} checked boxes of `{shares}` lie within [0, 1], boxes of `{pixels}` do not: the first"
        " seem to be shares of the image, the others pixels. Multiply the shares by the image's width and height.",
        inputs=("sample", "units"),
        find=_mixed_units,
        example=examples.mixed_units,
        thresholds={"least": LEAST_BOXES, "most": MOST, "pixels": PIXELS},
    ),
    Advice(
        name="sizes_of_shares",
        checks="area ranges in square pixels for boxes that are shares of the image",
        fires="A number of an area range is asked for, at least {least} boxes were given on each side, and {most} of"
        " them lie within [0, 1] on both sides.",
        message="Most of {num} checked boxes lie within [0, 1], but area ranges are in square pixels, so `map_small`"
        ' says nothing. Give boxes in pixels, or `area_ranges={{"all": (0, 1e10)}}` for the numbers without sizes.',
        inputs=("many_boxes", "units", "has_sizes"),
        find=_sizes_of_shares,
        example=examples.sizes_of_shares,
        thresholds={"least": LEAST_BOXES, "most": MOST},
    ),
    Advice(
        name="areas_in_shares",
        checks="areas as shares of the image beside boxes in pixels",
        fires="At least {least} boxes were given on each side, {most} of those of ground truths are longer than"
        " {pixels}, and every `area` is below 1.",
        message="Every `area` of {num} checked is below 1 though boxes are in pixels: it seems to be a share of the"
        " image. Give it in square pixels, or leave it out.",
        inputs=("many_boxes", "units"),
        find=_areas_in_shares,
        example=examples.areas_in_shares,
        thresholds={"least": LEAST_BOXES, "most": MOST, "pixels": PIXELS},
        explained_by=("mixed_units",),
    ),
    Advice(
        name="corners_as_sizes",
        checks="two corners that are read as sizes",
        fires='The `box_format` is not "xyxy"; of at least {least} different boxes a side is below its position in'
        " fewer than {few}, a position is above {close} of it in a fifth, and both grow together.",
        message="Almost no width is below its x, and no height below its y, in {num} checked boxes of {names}: they"
        ' seem to be two corners that are read as sizes. Give `box_format="xyxy"`; files of COCO must hold x, y, width'
        " and height.",
        inputs=("many_boxes", "iou_type", "box_format"),
        find=_corners_as_sizes,
        example=examples.corners_as_sizes,
        thresholds={"least": _LEAST_CORNERS, "few": _FEW_SMALL, "close": _CLOSE},
    ),
    Advice(
        name="corners_beyond_images",
        checks="two corners that are read as sizes, by the edges of the images",
        fires='The `box_format` is not "xyxy", width and height of images are known, and at most {most} of the ground'
        " truths are found. On a sample of at most {images} images a side has at least {least} boxes, {some} of them"
        " leave their image, and as two corners none does.",
        message="{num_outside} of {num} checked boxes of {names} leave their image, and none does if they are two"
        ' corners. Give `box_format="xyxy"`; files of COCO must hold x, y, width and height.',
        inputs=("iou_type", "box_format", "recall", "objects", "remember", "notes", "read_image_sizes"),
        find=_corners_beyond_images,
        example=examples.corners_beyond_images,
        thresholds={
            "most": readings.MOST_FOUND,
            "images": objects.MOST_IMAGES,
            "least": LEAST_BOXES,
            "some": readings.SOME_OUTSIDE,
        },
        explained_by=("mixed_units", "corners_as_sizes"),
    ),
    Advice(
        name="rounded_coordinates",
        checks="detections in float16 or bfloat16, which hold no single pixels of a large image",
        fires="Ground truths have more bits, and more than {least} of the detected coordinates are above 2,048 in"
        " float16, or 256 in bfloat16.",
        message="Detected `{key}` are {dtype}, ground truths are {true_dtype}: {share} of the detected coordinates are"
        " above {limit}, beyond which {dtype} holds no single pixels, so even a perfect detector loses overlap."
        " Compute `{key}` in float32, for instance by `.float()` before the boxes are decoded.",
        inputs=("sample", "notes", "iou_type"),
        find=_rounded_coordinates,
        example=examples.rounded_coordinates,
        thresholds={"least": _LEAST_ROUNDED},
    ),
    Advice(
        name="unused_difficult",
        checks="`difficult` where only Pascal VOC's evaluation uses it",
        fires="A ground truth is marked as difficult, and another evaluator is used.",
        message="`difficult` marks {num} ground truths of a batch, but only Pascal VOC's evaluation uses it (`VocMAP`,"
        ' evaluator "voc"): here they count like all others. Objects that need not be found are `iscrowd` for COCO.',
        inputs=("notes",),
        find=_unused_difficult,
        example=examples.unused_difficult,
    ),
    Advice(
        name="unused_lists",
        checks="lists of classes of an image where only LVIS' evaluation uses them",
        fires="A list with entries is given, and another evaluator is used.",
        message='`{key}` is given, but only LVIS\' evaluation uses it (`LvisMAP`, evaluator "lvis"): here all classes'
        " count as annotated in all images.",
        inputs=("notes",),
        find=_unused_lists,
        example=examples.unused_lists,
    ),
    Advice(
        name="forgotten_reset",
        checks="an evaluation that begins with the images of the last one",
        fires="The batches since the last evaluation have all the ground truths of the batches before, of at least 8"
        " images without `image_id`.",
        message="The last {num} images have the labels of the {num} before; all count. Was `reset` forgotten?",
        inputs=("count_repeated_labels",),
        find=_forgotten_reset,
        example=examples.forgotten_reset,
    ),
    Advice(
        name="gathered_images",
        checks="images that several processes hold",
        fires="Two processes have the same ground truths, of at least 8 different images without `image_id`.",
        message="Several processes hold images with the same ground truths, and each counts them: they seem to have"
        " been gathered by hand, or not to be sharded at all. Give `image_id` in `target`, or give each process its own"
        " images only: `compute` combines them.",
        inputs=("repetitions",),
        find=_gathered_images,
        example=examples.gathered_images,
    ),
    Advice(
        name="padded_images",
        checks="images that a distributed sampler repeated",
        fires="All processes hold equally many images without `image_id`, and the last of one have the ground truths"
        " of the first of the first process.",
        message="A distributed sampler seems to have repeated images to make the numbers even, and they count twice:"
        " all processes hold equally many, and the last of one have the ground truths of the first of another. Give"
        " `image_id` in `target`, or use `UnpaddedDistributedSampler`.",
        inputs=("repetitions",),
        find=_padded_images,
        example=examples.padded_images,
        explained_by=("gathered_images",),
    ),
    Advice(
        name="other_detections",
        checks="images that come again with other detections",
        fires="Most images that came again with an `image_id` have other detections: sums that differ by more than"
        " {close}.",
        message="{num} images came again on their process with other detections, and do not count: of images with the"
        " same `image_id` the first counts. Was `reset` forgotten after the last evaluation, or does `image_id` begin"
        " anew in each batch? It must be the image's number or name in its data set.",
        inputs=("count_other_detections",),
        find=_other_detections,
        example=examples.other_detections,
        thresholds={"close": repetitions.CLOSE},
    ),
    _reading_row("box_format", "boxes of one side in another format", "another format of one side"),
    _reading_row("swapped_axes", "boxes with y before x", "an exchange of x and y"),
    _reading_row(
        "scale_and_offset",
        "boxes of resized, padded or cropped images",
        "another scale and offset of each axis, the same in all images,",
    ),
    _reading_row(
        "image_size",
        "boxes of images that were resized, each in another way",
        "another size of each image, where its width and height are known,",
    ),
]

DETECTION_ADVICE = {row.name: row for row in _ROWS}
"""rows by name; they are asked in this order"""
