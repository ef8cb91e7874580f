"""Rows of causes that the numbers of the first images show, and of classes or images that were exchanged."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Cause
from reid_torchmetrics.functional.box_units import LEAST_BOXES

from . import conditions, labels, pairings, values
from .case import DetectionCase

VALUE_ROWS: list[Cause[DetectionCase]] = [
    Cause(
        name="areas",
        checks="areas that contradict the boxes: placeholders, another unit or another image size",
        fires="Areas count, at least {least} ground truths have one, and one of these holds: all are equal although"
        " boxes differ by a factor of {different}; more than half exceed their box by a factor of {beyond} and a pixel"
        " in width and height; nearly all are below {tiny} of their box, or the same share below {same} of it.",
        message="`area` of {num} of {total} checked ground truths {problem}: it seems to be a placeholder, or to be of"
        " another unit or image size. Pass square pixels of the image of the boxes, or leave out `area`: then width"
        " times height counts.",
        suspect=conditions.has_many_objects,
        find=values.odd_areas,
        thresholds={
            "least": LEAST_BOXES,
            "different": values.DIFFERENT,
            "beyond": values.BEYOND,
            "tiny": values.TINY,
            "same": values.SAME_SHARE,
        },
        explained_by=("keypoints_in_shares", "mixed_units", "sizes_of_shares"),
    ),
    Cause(
        name="rounded_coordinates",
        checks="coordinates that were rounded to float16 or bfloat16, in `preds` or in `target`",
        fires="More than {some} of the coordinates, and at least {least} different ones, are above 2,048 for float16 or"
        " 256 for bfloat16. Of these, {most} are steps of the dtype, and {between} of the smaller coordinates lie"
        " between these steps.",
        message="`{key}` of `{argument}` were rounded to {dtype}: {share} of the coordinates are above {limit}, where"
        " {dtype} cannot represent each pixel, so even a perfect detector loses overlap. Compute `{key}` in float32,"
        ' and keep targets in float32: Lightning\'s `precision="bf16-true"` converts them, "bf16-mixed" does not.',
        suspect=conditions.has_many_objects,
        find=values.rounded_coordinates,
        thresholds={
            "some": values.SOME_LARGE,
            "least": values.LEAST_LARGE,
            "most": values.NEARLY_ALL,
            "between": values.SOME_BETWEEN,
        },
    ),
    Cause(
        name="copied_ground_truths",
        checks="ground truths that occur twice",
        fires="At least {least} ground truths, and {some} of all, equal another one of their image in all numbers.",
        message="{num} of {total} checked ground truths are exact copies of others in their image, and each must be"
        " found: a file seems to have been appended or joined twice. Leave the copies out.",
        suspect=conditions.has_many_objects,
        find=values.copied_ground_truths,
        thresholds={"least": values.LEAST_COPIES, "some": values.SOME},
    ),
    Cause(
        name="copied_detections",
        checks="detections that occur twice",
        fires="At least {least} detections, and {some} of all, occur equally often in their image, at most {times}"
        " times, with the same numbers. Either scores are nearly all different, or all detections of these images"
        " are copied.",
        message="{num} of {total} checked detections are exact copies of others in their image, and count as wrong: a"
        " file seems to have been appended or joined twice. Leave the copies out.",
        suspect=conditions.has_many_objects,
        find=values.copied_detections,
        thresholds={"least": LEAST_BOXES, "some": values.SOME, "times": values.MOST_TIMES},
    ),
    Cause(
        name="equal_scores",
        checks="one score for all detections",
        fires="At least {least} detections are right and {least} wrong, {few} of the ground truths are found, and all"
        " scores are equal although boxes differ.",
        message="All {num} detections have the score {score:.4g}, so that numbers depend on their order. Pass the"
        " confidence of each detection as its score.",
        suspect=conditions.has_many_objects,
        find=values.equal_scores,
        thresholds={"least": LEAST_BOXES, "few": values.FEW_FOUND},
    ),
    Cause(
        name="without_extent",
        checks="ground truths without a pixel or an extent",
        fires="At least {least} ground truths, and {some} of all, have an empty mask, a box without width or height, or"
        " keypoints without an extent and neither `area` nor `boxes`.",
        message="{num} of {total} checked ground truths have {problem}",
        suspect=values.has_some_ground_truths,
        find=values.without_extent,
        thresholds={"least": values.LEAST_EMPTY, "some": values.SOME},
        explained_by=("areas",),
    ),
]

PAIRING_ROWS: list[Cause[DetectionCase]] = [
    Cause(
        name="other_images",
        checks="detections of other images, by ids of another table or in another order",
        fires="Fewer than {few} of the ground truths are found. Of at most {images} images, {many} have detections that"
        " find {found} of the ground truths of another image at an overlap of {close}, each of a different one, and"
        " fewer of their own.",
        message="The detections of {num} of {total} checked images find most ground truths of another image, and few"
        " of their own: image ids of both sides seem to be of different tables, or `preds` and `target` in different"
        " orders.",
        suspect=conditions.few_are_found,
        find=pairings.other_images,
        thresholds={
            "few": conditions.FEW,
            "images": pairings.NUM_IMAGES[1],
            "many": pairings.MANY,
            "found": pairings.FOUND,
            "close": pairings.CLOSE,
        },
        explained_by=("mixed_units", "corners_as_sizes", "corners_beyond_images", "labels", "other_reading"),
    ),
    Cause(
        name="exchanged_labels",
        checks="classes that are exchanged, while others are right",
        fires="At least two classes with {least} ground truths have a recall below {lost}. In a sample of images,"
        " {same} of the objects of each are found with the label of one other of them.",
        message="{num} of {total} ground truths of some classes are found with the label of another of them: {pairs}."
        " Number the classes of `preds` and `target` alike.",
        suspect=pairings.misses_many,
        find=pairings.exchanged_labels,
        thresholds={"least": LEAST_BOXES, "lost": pairings.LOST, "same": labels.SAME},
        explained_by=("labels",),
    ),
]
