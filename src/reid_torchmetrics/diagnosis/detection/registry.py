"""The registry of causes of wrong numbers of detection; to add one, write a `Cause` in its list."""

from __future__ import annotations

from reid_torchmetrics.diagnosis.causes import Cause
from reid_torchmetrics.functional.box_units import LEAST_BOXES, MOST
from reid_torchmetrics.functional.detection.evaluation import CLOSE_SUMS

from . import conditions, corners, given_shapes, labels, readings
from .case import PIXELS, DetectionCase
from .sampled_objects import MOST_IMAGES
from .value_rows import PAIRING_ROWS, VALUE_ROWS

_ROWS: list[Cause[DetectionCase]] = [
    Cause(
        name="missing_lists",
        checks="LVIS data without lists of classes for each image",
        fires="There are at least {least} images, none has a list, and some detections have a class without ground"
        " truths in their image.",
        message="None of {num} images has `neg_category_ids` or `not_exhaustive_category_ids`: detections of classes"
        " without ground truths in their image do not count. Pass the lists in `target`, or use `DetectionMAP` if all"
        " classes are annotated in all images.",
        suspect=conditions.lacks_lists,
        find=conditions.without_lists,
        thresholds={"least": conditions.LEAST_IMAGES},
    ),
    Cause(
        name="class_groups",
        checks="groups of classes with labels that no ground truth has",
        fires="There are at least {least} ground truths, and none has a label in a group.",
        message="No ground truth has a label of {names}: the groups have the labels {labels}, and the ground truths"
        " have {true_labels}. Use the same numbering for both.",
        suspect=conditions.has_groups,
        find=conditions.groups_without_ground_truths,
        thresholds={"least": LEAST_BOXES},
    ),
    Cause(
        name="keypoints_in_shares",
        checks="keypoints as fractions of the image size",
        fires="There are at least {least} ground truths, and most of their labeled keypoints lie within [0, 1] and"
        " outside of their box.",
        message="Most labeled keypoints of ground truths, {num_odd} of {num}, lie within [0, 1] and outside of the box"
        " of the object: they seem to be fractions of the image size. Multiply them by width and height of the image.",
        suspect=conditions.has_many_objects,
        find=given_shapes.keypoints_in_shares,
        thresholds={"least": LEAST_BOXES},
    ),
    Cause(
        name="angles_in_degrees",
        checks="angles of rotated boxes in degrees",
        fires="In `preds` or in `target` there are at least {least} angles other than 0, and most of them are beyond"
        " 2 pi.",
        message="Most angles of `rotated_boxes`, {num_odd} of {num}, are beyond 2 pi: they seem to be degrees. Pass"
        " radians, for example with `torch.deg2rad`.",
        suspect=conditions.has_many_objects,
        find=given_shapes.angles_in_degrees,
        thresholds={"least": LEAST_BOXES},
    ),
    Cause(
        name="soft_masks",
        checks="masks that hold probabilities",
        fires="At least {least} images have numeric masks, and most of these have several values and no 0.",
        message="The masks of {num_odd} of {num} images have several values and no 0, but every pixel other than 0"
        " belongs to a mask. Pass bool masks, such as `masks > 0.5` for probabilities.",
        suspect=conditions.has_many_objects,
        find=given_shapes.soft_masks,
        thresholds={"least": LEAST_BOXES},
    ),
    Cause(
        name="mixed_units",
        checks="boxes as fractions of the image size in one of `preds` and `target`, and in pixels in the other",
        fires="`preds` and `target` have at least {least} boxes each. In one of them, {most} of the boxes lie within"
        " [0, 1]; in the other, both sides of {most} of the boxes are longer than {pixels}.",
        message="Most of {num} checked boxes of `{shares}` lie within [0, 1], boxes of `{pixels}` do not: the first"
        " seem to be fractions of the image size, the others pixels. Multiply the fractions by width and height of the"
        " image.",
        suspect=conditions.has_many_objects,
        find=conditions.mixed_units,
        thresholds={"least": LEAST_BOXES, "most": MOST, "pixels": PIXELS},
        explained_by=("keypoints_in_shares",),
    ),
    Cause(
        name="sizes_of_shares",
        checks="area ranges in square pixels for boxes that are fractions of the image size",
        fires="A number for an area range is requested, `preds` and `target` have at least {least} boxes each, and"
        " {most} of the boxes in both lie within [0, 1].",
        message="Most of {num} checked boxes lie within [0, 1], but area ranges are in square pixels, so `map_small`"
        ' has no meaning. Pass boxes in pixels, or `area_ranges={{"all": (0, 1e10)}}` to leave out such numbers.',
        suspect=conditions.has_many_objects,
        find=conditions.sizes_of_shares,
        thresholds={"least": LEAST_BOXES, "most": MOST},
    ),
    Cause(
        name="corners_as_sizes",
        checks="two corners that are read as position and size",
        fires='The `box_format` is not "xyxy", and there are at least {least} different boxes. In at most {few} of the'
        " boxes the width is below x or the height below y. In a fifth of them x is above {close} of the width, in a"
        " fifth y is above {close} of the height, and sizes grow with positions.",
        message="Almost no width is below its x, and almost no height below its y, in {num} checked boxes of {names}:"
        ' they seem to be two corners that are read as position and size. Pass `box_format="xyxy"`; COCO files must'
        " hold x, y, width and height.",
        suspect=conditions.has_many_objects,
        find=corners.corners_as_sizes,
        thresholds={"least": corners.LEAST_CORNERS, "few": corners.FEW_SMALL, "close": corners.CLOSE},
    ),
    *VALUE_ROWS,
    Cause(
        name="corners_beyond_images",
        checks="two corners that are read as position and size, so that boxes exceed their images",
        fires='The `box_format` is not "xyxy", width and height of images are known, and at most {most} of the ground'
        " truths are found. In a sample of at most {images} images, `preds` or `target` has at least {least} boxes,"
        " {some} of them exceed their image, and none does if they are read as two corners.",
        message="{num_outside} of {num} checked boxes of {names} exceed their image, and none does if they are read as"
        ' two corners. Pass `box_format="xyxy"`; COCO files must hold x, y, width and height.',
        suspect=corners.may_be_corners,
        find=corners.corners_beyond_images,
        thresholds={
            "most": readings.MOST_FOUND,
            "images": MOST_IMAGES,
            "least": LEAST_BOXES,
            "some": corners.SOME_OUTSIDE,
        },
        explained_by=("mixed_units", "corners_as_sizes"),
    ),
    Cause(
        name="labels",
        checks="labels in two numberings, such as from 0 in `preds` and from 1 in `target`",
        fires="Fewer than {few} of the ground truths are found with their labels, and fewer than {few_of_classes} in"
        " the mean over classes. Without labels, more than half are found, and fewer than {right} of these pairs have"
        " equal labels. Either `preds` and `target` have no label in common, or in {same} of the pairs each label has"
        " its most frequent partner.",
        message="Only {num_right} of {num} ground truths that are found have the label of their detection; most"
        " frequent are {pairs}. Number the classes of `preds` and `target` alike: one of them may start at 0, and the"
        " other at 1.",
        suspect=conditions.few_are_found,
        find=labels.shifted_labels,
        thresholds={
            "few": labels.FEW,
            "few_of_classes": labels.FEW_OF_CLASSES,
            "right": labels.FEW_RIGHT,
            "same": labels.SAME,
        },
    ),
    Cause(
        name="other_reading",
        checks="shapes in another format or order, with y before x, or in resized or cropped images",
        fires="Fewer than {few} of the ground truths are found, of rotated boxes at an overlap of {strict}, and labels"
        " are not the reason. In a sample of at most {images} images, another reading finds more than {most} of the"
        " ground truths: at least twice as many as before, and at least twice as many as detections from other images"
        " find. Readings are another format of boxes; the other direction of angles, exchanged sides or a"
        " corner in place of the center of rotated boxes; another order of keypoints; and for all shapes, for masks by"
        " the boxes around them, y before x, another scale and offset, and images that were resized.",
        message="Only {num_before} of {num_ground_truths} checked ground truths are found at an overlap of {overlap},"
        " regardless of labels. With `{argument}` read as {name}, {num_found} of {num_ground_truths} ground truths are"
        " found. {remedy}",
        suspect=conditions.few_are_found,
        find=readings.other_reading,
        thresholds={
            "few": conditions.FEW,
            "strict": conditions.STRICT,
            "images": MOST_IMAGES,
            "most": readings.MOST_FOUND,
        },
        explained_by=(
            "keypoints_in_shares",
            "angles_in_degrees",
            "mixed_units",
            "corners_as_sizes",
            "corners_beyond_images",
            "labels",
        ),
    ),
    *PAIRING_ROWS,
    Cause(
        name="unused_difficult",
        checks="`difficult` with an evaluator that ignores it",
        fires="A ground truth is marked as difficult, and the evaluator is not Pascal VOC's.",
        message="`difficult` marks ground truths, {num} of a batch, but only Pascal VOC's evaluation uses it (`VocMAP`,"
        ' evaluator "voc"): here they count like all others. For COCO, mark objects that need not be found by'
        " `iscrowd`.",
        suspect=conditions.has_unused_difficult,
        find=conditions.unused_difficult,
    ),
    Cause(
        name="unused_lists",
        checks="lists of classes for an image, with an evaluator that ignores them",
        fires="A list has entries, and the evaluator is not that of LVIS.",
        message='`{key}` is given, but only LVIS\' evaluation uses it (`LvisMAP`, evaluator "lvis"): here all classes'
        " count as annotated in all images.",
        suspect=conditions.has_unused_list,
        find=conditions.unused_list,
    ),
    Cause(
        name="forgotten_reset",
        checks="an evaluation that starts with the images of the last one",
        fires="The batches since the last evaluation repeat all the ground truths of the batches before, for at least 8"
        " images without `image_id`.",
        message="The last {num} images have the labels of the {num} before; all count. Was `reset` forgotten?",
        suspect=conditions.repeats_labels,
        find=conditions.forgotten_reset,
    ),
    Cause(
        name="gathered_images",
        checks="the same images on several processes",
        fires="Two processes have the same ground truths, for at least 8 different images without `image_id`.",
        message="Several processes hold images with the same ground truths, and each counts them: they seem to have"
        " been gathered by hand, or not to be sharded at all. Pass `image_id` in `target`, or pass each process its own"
        " images only: `compute` combines them.",
        suspect=conditions.are_gathered,
        find=conditions.gathered_images,
    ),
    Cause(
        name="padded_images",
        checks="images that a distributed sampler repeated",
        fires="All processes hold equally many images without `image_id`, and the last images of one process have the"
        " ground truths of the first images of the first process.",
        message="A distributed sampler seems to have repeated images to make the numbers even, and they count twice:"
        " all processes hold equally many, and the last images of one have the ground truths of the first images of"
        " another. Pass `image_id` in `target`, or use `UnpaddedDistributedSampler`.",
        suspect=conditions.are_padded,
        find=conditions.padded_images,
        explained_by=("forgotten_reset", "gathered_images"),
    ),
    Cause(
        name="other_detections",
        checks="images that come again with other detections",
        fires="Most images with a repeated `image_id` have other detections: sums of their scores or boxes differ by"
        " more than {close}.",
        message="Images that came again on their process, {num} of {num_repeated}, have other detections, and none of"
        " the {num_repeated} counts: among images with the same `image_id`, the first one counts. Was `reset` forgotten"
        " after the last evaluation, or does `image_id` start again in each batch? It must be the number or name of the"
        " image in its data set.",
        suspect=conditions.has_other_detections,
        find=conditions.other_detections,
        thresholds={"close": CLOSE_SUMS},
    ),
]

DETECTION_CAUSES = {row.name: row for row in _ROWS}
"""rows by name, in the order in which they are asked"""
