"""The registry of causes of wrong numbers of detection; to add one, write a `Cause` in its list."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Cause

from . import conditions, pairings, readings, units, values
from .case import DetectionCase
from .conditions import fact

_ROWS: list[Cause[DetectionCase]] = [
    Cause(
        name="missing_lists",
        checks="LVIS data without lists of classes for each image",
        fires="There are at least {LEAST_IMAGES} images, none has a list, and some detections have a class without"
        " ground truths in their image.",
        message="None of {num_without_lists} images has `neg_category_ids` or `not_exhaustive_category_ids`:"
        " detections of classes without ground truths in their image do not count. Pass the lists in `target`, or use"
        " `DetectionMAP` if all classes are annotated in all images.",
        find=fact("num_without_lists", conditions.LEAST_IMAGES),
    ),
    Cause(
        name="class_groups",
        checks="groups of classes with labels that no ground truth has",
        fires="There are at least {LEAST_BOXES} ground truths, and none has a label in a group.",
        message="No ground truth has a label of {names}: the groups have the labels {labels}, and the ground truths"
        " have {true_labels}. Use the same numbering for both.",
        find=conditions.groups_without_ground_truths,
    ),
    Cause(
        name="keypoints_in_shares",
        checks="keypoints as fractions of the image size",
        fires="There are at least {LEAST_BOXES} ground truths, and most of their labeled keypoints lie within [0, 1]"
        " and outside of their box.",
        message="Most labeled keypoints of ground truths, {num_odd} of {num}, lie within [0, 1] and outside of the box"
        " of the object: they seem to be fractions of the image size. Multiply them by width and height of the image.",
        suspect=conditions.has_many_objects,
        find=units.keypoints_in_shares,
    ),
    Cause(
        name="angles_in_degrees",
        checks="angles of rotated boxes in degrees",
        fires="In `preds` or in `target` there are at least {LEAST_BOXES} angles other than 0, and most of them are"
        " beyond 2 pi.",
        message="Most angles of `rotated_boxes`, {num_odd} of {num}, are beyond 2 pi: they seem to be degrees. Pass"
        " radians, for example with `torch.deg2rad`.",
        suspect=conditions.has_many_objects,
        find=units.angles_in_degrees,
    ),
    Cause(
        name="soft_masks",
        checks="masks that hold probabilities",
        fires="At least {LEAST_BOXES} images have numeric masks, and most of these have several values and no 0.",
        message="The masks of {num_odd} of {num} images have several values and no 0, but every pixel other than 0"
        " belongs to a mask. Pass bool masks, such as `masks > 0.5` for probabilities.",
        suspect=conditions.has_many_objects,
        find=units.soft_masks,
    ),
    Cause(
        name="mixed_units",
        checks="boxes as fractions of the image size in one of `preds` and `target`, and in pixels in the other",
        fires="`preds` and `target` have at least {LEAST_BOXES} boxes each. In one of them, {MOST} of the boxes lie"
        " within [0, 1]; in the other, both sides of {MOST} of the boxes are longer than {PIXELS}.",
        message="Most of {num} checked boxes of `{shares}` lie within [0, 1], boxes of `{pixels}` do not: the first"
        " seem to be fractions of the image size, the others pixels. Multiply the fractions by width and height of the"
        " image.",
        suspect=conditions.has_many_objects,
        find=units.mixed_units,
        explained_by=("keypoints_in_shares",),
    ),
    Cause(
        name="sizes_of_shares",
        checks="area ranges in square pixels for boxes that are fractions of the image size",
        fires="A number for an area range is requested, `preds` and `target` have at least {LEAST_BOXES} boxes each,"
        " and {MOST} of the boxes in both lie within [0, 1].",
        message="Most of {num} checked boxes lie within [0, 1], but area ranges are in square pixels, so `map_small`"
        ' has no meaning. Pass boxes in pixels, or `area_ranges={{"all": (0, 1e10)}}` to leave out such numbers.',
        suspect=conditions.has_many_objects,
        find=units.sizes_of_shares,
    ),
    Cause(
        name="corners_as_sizes",
        checks="two corners that are read as position and size",
        fires='The `box_format` is not "xyxy", and there are at least {LEAST_CORNERS} different boxes. In at most'
        " {FEW_SMALL} of the boxes the width is below x or the height below y. In a fifth of them x is above {CLOSE}"
        " of the width, in a fifth y is above {CLOSE} of the height, and sizes grow with positions.",
        message="Almost no width is below its x, and almost no height below its y, in {num} checked boxes of {names}:"
        ' they seem to be two corners that are read as position and size. Pass `box_format="xyxy"`; COCO files must'
        " hold x, y, width and height.",
        suspect=conditions.has_many_objects,
        find=units.corners_as_sizes,
    ),
    Cause(
        name="areas",
        checks="areas that contradict the boxes: placeholders, another unit or another image size",
        fires="Areas count, at least {LEAST_BOXES} ground truths have one, and one of these holds: all are equal"
        " although boxes differ by a factor of {DIFFERENT}; more than half exceed their box by a factor of {BEYOND}"
        " and a pixel in width and height; nearly all are below {TINY} of their box, or the same share below"
        " {SAME_SHARE} of it.",
        message="`area` of {num} of {total} checked ground truths {problem}: it seems to be a placeholder, or to be of"
        " another unit or image size. Pass square pixels of the image of the boxes, or leave out `area`: then width"
        " times height counts.",
        suspect=conditions.has_many_objects,
        find=values.odd_areas,
        explained_by=("keypoints_in_shares", "mixed_units", "sizes_of_shares"),
    ),
    Cause(
        name="rounded_coordinates",
        checks="coordinates that were rounded to float16 or bfloat16, in `preds` or in `target`",
        fires="More than {SOME_LARGE} of the coordinates, and at least {LEAST_LARGE} different ones, are above 2,048"
        " for float16 or 256 for bfloat16. Of these, {NEARLY_ALL} are steps of the dtype, and {SOME_BETWEEN} of the"
        " smaller coordinates lie between these steps.",
        message="`{key}` of `{argument}` were rounded to {dtype}: {share} of the coordinates are above {limit}, where"
        " {dtype} cannot represent each pixel, so even a perfect detector loses overlap. Compute `{key}` in float32,"
        ' and keep targets in float32: Lightning\'s `precision="bf16-true"` converts them, "bf16-mixed" does not.',
        suspect=conditions.has_many_objects,
        find=values.rounded_coordinates,
    ),
    Cause(
        name="copied_ground_truths",
        checks="ground truths that occur twice",
        fires="At least {LEAST_COPIES} ground truths, and {SOME} of all, occur equally often in their image, at most"
        " {MOST_TIMES} times, with the same numbers.",
        message="{num} of {total} checked ground truths are exact copies of others in their image, and each must be"
        " found: a file seems to have been appended or joined twice. Leave the copies out.",
        suspect=conditions.has_many_objects,
        find=values.copied_ground_truths,
    ),
    Cause(
        name="copied_detections",
        checks="detections that occur twice",
        fires="At least {LEAST_COPIES} detections, and {SOME} of all, occur equally often in their image, at most"
        " {MOST_TIMES} times, with the same numbers. Either scores are nearly all different, or all detections of"
        " these images are copied.",
        message="{num} of {total} checked detections are exact copies of others in their image, and count as wrong: a"
        " file seems to have been appended or joined twice. Leave the copies out.",
        suspect=conditions.has_many_objects,
        find=values.copied_detections,
    ),
    Cause(
        name="equal_scores",
        checks="one score for all detections",
        fires="At least {LEAST_BOXES} detections are right and {LEAST_BOXES} wrong, {FEW_FOUND} of the ground truths"
        " are found, and all scores are equal although boxes differ.",
        message="All {num} detections have the score {score:.4g}, so that numbers depend on their order. Pass the"
        " confidence of each detection as its score.",
        suspect=conditions.has_many_objects,
        find=values.equal_scores,
    ),
    Cause(
        name="without_extent",
        checks="ground truths without a pixel or an extent",
        fires="At least {LEAST_EMPTY} ground truths, and {SOME} of all, have an empty mask, a box without width or"
        " height, or keypoints without an extent and neither `area` nor `boxes`.",
        message="{num} of {total} checked ground truths have {problem}",
        suspect=values.has_some_ground_truths,
        find=values.without_extent,
        explained_by=("areas",),
    ),
    Cause(
        name="corners_beyond_images",
        checks="two corners that are read as position and size, so that boxes exceed their images",
        fires='The `box_format` is not "xyxy", width and height of images are known, and at most {MOST_FOUND} of the'
        " ground truths are found. In a sample of at most 256 images, `preds` or `target` has at least {LEAST_BOXES}"
        " boxes, {SOME_OUTSIDE} of them exceed their image, and none does if they are read as two corners.",
        message="{num_outside} of {num} checked boxes of {names} exceed their image, and none does if they are read as"
        ' two corners. Pass `box_format="xyxy"`; COCO files must hold x, y, width and height.',
        suspect=units.may_be_corners,
        find=units.corners_beyond_images,
        explained_by=("mixed_units", "corners_as_sizes"),
    ),
    Cause(
        name="labels",
        checks="labels in two numberings, such as from 0 in `preds` and from 1 in `target`",
        fires="Fewer than {FEW} of the ground truths are found with their labels, and fewer than {FEW_OF_CLASSES} in"
        " the mean over classes. Without labels, more than half are found, and fewer than {FEW_RIGHT} of these pairs"
        " have equal labels. Either `preds` and `target` have no label in common, or in {SAME} of the pairs each label"
        " has its most frequent partner.",
        message="Only {num_right} of {num} ground truths that are found have the label of their detection; most"
        " frequent are {pairs}. Number the classes of `preds` and `target` alike: one of them may start at 0, and the"
        " other at 1.",
        suspect=conditions.few_are_found,
        find=pairings.shifted_labels,
    ),
    Cause(
        name="other_reading",
        checks="shapes in another format or order, with y before x, or in resized or cropped images",
        fires="Fewer than half of the ground truths are found, of rotated boxes at an overlap of 0.75, and labels are"
        " not the reason. In a sample of at most 256 images, another reading finds more than {MOST_FOUND} of the"
        " ground truths: at least twice as many as before, and at least twice as many as detections from other images"
        " find. Readings are another format of boxes; the other direction of angles, exchanged sides or a corner in"
        " place of the center of rotated boxes; another order of keypoints; and for all shapes, for masks by the boxes"
        " around them, y before x, another scale and offset, and images that were resized.",
        message="Only {num_before} of {num_ground_truths} checked ground truths are found at an overlap of {overlap},"
        " regardless of labels. With `{argument}` read as {name}, {num_found} of {num_ground_truths} ground truths are"
        " found. {remedy}",
        suspect=conditions.few_are_found,
        find=readings.other_reading,
        explained_by=(
            "keypoints_in_shares",
            "angles_in_degrees",
            "mixed_units",
            "corners_as_sizes",
            "corners_beyond_images",
            "labels",
        ),
    ),
    Cause(
        name="other_images",
        checks="detections of other images, by ids of another table or in another order",
        fires="Fewer than half of the ground truths are found. Of at most 128 images, {MANY} have detections that find"
        " {FOUND} of the ground truths of another image at an overlap of {CLOSE}, each of a different one, and fewer"
        " of their own.",
        message="The detections of {num} of {total} checked images find most ground truths of another image, and few"
        " of their own: image ids of both sides seem to be of different tables, or `preds` and `target` in different"
        " orders.",
        suspect=conditions.few_are_found,
        find=pairings.other_images,
        explained_by=("mixed_units", "corners_as_sizes", "corners_beyond_images", "labels", "other_reading"),
    ),
    Cause(
        name="exchanged_labels",
        checks="classes that are exchanged, while others are right",
        fires="At least two classes with {LEAST_BOXES} ground truths have a recall below {LOST}. In a sample of"
        " images, {SAME} of the objects of each are found with the label of one other of them.",
        message="{num} of {total} ground truths of some classes are found with the label of another of them: {pairs}."
        " Number the classes of `preds` and `target` alike.",
        suspect=pairings.misses_many,
        find=pairings.exchanged_labels,
        explained_by=("labels",),
    ),
    Cause(
        name="unused_difficult",
        checks="`difficult` with an evaluator that ignores it",
        fires="A ground truth is marked as difficult, and the evaluator is not Pascal VOC's.",
        message="`difficult` marks ground truths, {num_difficult} of a batch, but only Pascal VOC's evaluation uses it"
        ' (`VocMAP`, evaluator "voc"): here they count like all others. For COCO, mark objects that need not be found'
        " by `iscrowd`.",
        find=fact("num_difficult"),
    ),
    Cause(
        name="unused_lists",
        checks="lists of classes for an image, with an evaluator that ignores them",
        fires="A list has entries, and the evaluator is not that of LVIS.",
        message='`{unused_list}` is given, but only LVIS\' evaluation uses it (`LvisMAP`, evaluator "lvis"): here all'
        " classes count as annotated in all images.",
        find=fact("unused_list"),
    ),
    Cause(
        name="forgotten_reset",
        checks="an evaluation that starts with the images of the last one",
        fires="The batches since the last evaluation repeat all the ground truths of the batches before, for at least"
        " 8 images without `image_id`.",
        message="The last {num_forgotten} images have the labels of the {num_forgotten} before; all count. Was `reset`"
        " forgotten?",
        find=fact("num_forgotten"),
    ),
    Cause(
        name="gathered_images",
        checks="the same images on several processes",
        fires="Two processes have the same ground truths, for at least 8 different images without `image_id`.",
        message="Several processes hold images with the same ground truths, and each counts them: they seem to have"
        " been gathered by hand, or not to be sharded at all. Pass `image_id` in `target`, or pass each process its"
        " own images only: `compute` combines them.",
        find=fact("are_gathered"),
    ),
    Cause(
        name="padded_images",
        checks="images that a distributed sampler repeated",
        fires="All processes hold equally many images without `image_id`, and the last images of one process have the"
        " ground truths of the first images of the first process.",
        message="A distributed sampler seems to have repeated images to make the numbers even, and they count twice:"
        " all processes hold equally many, and the last images of one have the ground truths of the first images of"
        " another. Pass `image_id` in `target`, or use `UnpaddedDistributedSampler`.",
        find=fact("are_padded"),
        explained_by=("forgotten_reset", "gathered_images"),
    ),
    Cause(
        name="other_detections",
        checks="images that come again with other detections",
        fires="Most images with a repeated `image_id` have other detections: sums of their scores or boxes differ by"
        " more than 0.1.",
        message="Images that came again on their process, {num} of {num_repeated}, have other detections, and none of"
        " the {num_repeated} counts: among images with the same `image_id`, the first one counts. Was `reset`"
        " forgotten after the last evaluation, or does `image_id` start again in each batch? It must be the number or"
        " name of the image in its data set.",
        find=conditions.other_detections,
    ),
]

DETECTION_CAUSES = {row.name: row for row in _ROWS}
"""rows by name, in the order in which they are asked"""
