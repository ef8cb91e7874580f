"""Rows that read facts about the images, or the labels of finished matches."""

from __future__ import annotations

from itertools import chain

from reid_torchmetrics.diagnosis.causes import Values
from reid_torchmetrics.diagnosis.signs import LEAST_BOXES

from .case import DetectionCase, cause

LEAST_IMAGES = 10
"""images without lists of classes: the lists of a few may be empty"""
_MAX_LABELS = 3  # in a text


@cause(
    message="None of {num_without_lists} images has `neg_category_ids` or `not_exhaustive_category_ids`:"
    " detections of classes without ground truths in their image do not count. Pass the lists in `target`, or use"
    " `DetectionMAP` if all classes are annotated in all images.",
)
def missing_lists(case: DetectionCase) -> Values | None:
    """Look for LVIS data without lists of classes for each image.

    There are at least {LEAST_IMAGES} images, none has a list, and some detections have a class without ground truths in
    their image.
    """
    num = case.images.num_without_lists
    return {"num_without_lists": num} if num >= LEAST_IMAGES else None


@cause(
    message="No ground truth has a label of {names}: the groups have the labels {labels}, and the ground truths"
    " have {true_labels}. Use the same numbering for both.",
)
def class_groups(case: DetectionCase) -> Values | None:
    """Look for groups of classes with labels that no ground truth has.

    There are at least {LEAST_BOXES} ground truths, and none has a label in a group.
    """
    groups = case.grid.class_groups
    if not groups or case.recall.num_ground_truths < LEAST_BOXES:
        return None
    labels = sorted(chain(*groups.values()))
    true_labels = case.matches.classes[case.matches.num_positives[0] > 0].tolist()
    if not labels or not set(labels).isdisjoint(true_labels):
        return None
    names = ", ".join(f"`map_{name}`" for name, group in groups.items() if group)
    return {"names": names, "labels": labels[:_MAX_LABELS], "true_labels": true_labels[:_MAX_LABELS]}


@cause(
    message="`difficult` marks ground truths, {num_difficult} of a batch, but only Pascal VOC's evaluation uses it"
    ' (`VocMAP`, evaluator "voc"): here they count like all others. For COCO, mark objects that need not be found'
    " by `iscrowd`.",
)
def unused_difficult(case: DetectionCase) -> Values | None:
    """Look for `difficult` with an evaluator that ignores it.

    A ground truth is marked as difficult, and the evaluator is not Pascal VOC's.
    """
    num = case.images.num_difficult
    return {"num_difficult": num} if num else None


@cause(
    message='`{unused_list}` is given, but only LVIS\' evaluation uses it (`LvisMAP`, evaluator "lvis"): here all'
    " classes count as annotated in all images.",
)
def unused_lists(case: DetectionCase) -> Values | None:
    """Look for lists of classes for an image, with an evaluator that ignores them.

    A list has entries, and the evaluator is not that of LVIS.
    """
    return {"unused_list": case.images.unused_list} if case.images.unused_list else None


@cause(
    message="`ignore` marks {num} annotations that count all the same, as in pycocotools, which overwrites it. For"
    " COCO, mark objects that need not be found by `iscrowd`.",
)
def unused_ignore(case: DetectionCase) -> Values | None:
    """Look for `ignore` in annotations, which COCO's evaluation overwrites.

    An annotation is marked by `ignore`, and neither a crowd nor without labeled keypoints.
    """
    return {"num": f"{case.images.num_ignored:,}"} if case.images.num_ignored else None


@cause(
    message="The last {num} images have the labels of the {num} before; all count. Was `reset` forgotten?",
)
def forgotten_reset(case: DetectionCase) -> Values | None:
    """Look for an evaluation that starts with the images of the last one.

    The batches since the last evaluation repeat all the ground truths of the batches before, for at least 8 images
    without `image_id`.
    """
    num = case.images.num_forgotten
    return {"num": num} if num else None


@cause(
    message="Several processes hold images with the same ground truths, and each counts them: they seem to have been"
    " gathered by hand, or not to be sharded at all. Pass `image_id` in `target`, or pass each process its own images"
    " only: `compute` combines them.",
)
def gathered_images(case: DetectionCase) -> Values | None:
    """Look for the same images on several processes.

    Two processes have the same ground truths, for at least 8 different images without `image_id`.
    """
    return {} if case.images.are_gathered else None


@cause(
    message="A distributed sampler seems to have repeated images to make the numbers even, and they count twice: all"
    " processes hold equally many, and the last images of one have the ground truths of the first images of another."
    " Pass `image_id` in `target`, or use `UnpaddedDistributedSampler`.",
    explained_by=("forgotten_reset", "gathered_images"),
)
def padded_images(case: DetectionCase) -> Values | None:
    """Look for images that a distributed sampler repeated.

    All processes hold equally many images without `image_id`, and the last images of one process have the ground truths
    of the first images of the first process.
    """
    return {} if case.images.are_padded else None


@cause(
    message="Images that came again on their process, {num} of {num_repeated}, have other detections, and none of"
    " the {num_repeated} counts: among images with the same `image_id`, the first one counts. Was `reset`"
    " forgotten after the last evaluation, or does `image_id` start again in each batch? It must be the number or"
    " name of the image in its data set.",
)
def other_detections(case: DetectionCase) -> Values | None:
    """Look for images that come again with other detections.

    Most images with a repeated `image_id` have other detections: sums of their scores or boxes differ by more than 0.1.
    """
    num, num_repeated = case.images.num_other_detections, case.images.num_repeated
    return {"num": num, "num_repeated": num_repeated} if 2 * num > num_repeated else None
