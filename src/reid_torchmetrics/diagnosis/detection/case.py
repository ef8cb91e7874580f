"""The input of the rows of detection: matches, facts and the first images of this process; and the rows of facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import Causes, NotHeldError, Values
from reid_torchmetrics.diagnosis.signs import LEAST_BOXES
from reid_torchmetrics.functional.detection.evaluation import ShownImages
from reid_torchmetrics.functional.detection.matching import Matches

from .given_images import ShownObjects
from .matched_images import MatchedImages
from .points import FOUND, PointSample, kind_of, sample_points

FEW = 0.5
"""fraction of all ground truths that are found"""
STRICT = 0.75
"""overlap for rotated boxes: many are found at 0.5 if only the angle differs"""
LEAST_IMAGES = 10
"""images without lists of classes: the lists of a few may be empty"""
_MAX_LABELS = 3  # in a text


class FoundCounts(NamedTuple):
    """Numbers of ground truths that are found at the first threshold, with their labels, in all area ranges."""

    num_found: int
    num_ground_truths: int
    """ground truths that count: no crowds"""


class PairedLabels(NamedTuple):
    """Labels of sampled ground truths that are found without labels, and of the detections that find them."""

    names: Sequence[object]
    """the users' names of different labels"""
    counts: Tensor
    """numbers of pairs, by the place of the ground truth's label, then of the detection's label"""


class DetectionCase:
    """Finished matches of detections, and what they were computed from.

    Suspicions read `recall`, `matches`, `grid`, the facts in `images`, and the numbers of objects; trials read the
    rest, which is computed when it is first read.
    """

    def __init__(self, results: Any, images: MatchedImages) -> None:
        """Take `ImageMatches`, `DetectionResults` or `Matches`."""
        self.images = images
        """facts about the images of all processes, such as `num_without_lists`, `value_names` and `label_names`"""
        self.matches: Matches = results if isinstance(results, Matches) else results.matches
        """matches of the images of all processes; detections beyond the largest limit are left out"""
        self.grid = images.grid
        self.iou_type = images.iou_type
        """"bbox", "segm", "keypoints" or "rotated"; "" for shapes of a user"""
        self.box_format = images.box_format
        """format of the users' boxes in `shown` and `objects`"""

    @cached_property
    def recall(self) -> FoundCounts:
        """The numbers of ground truths that are found, and of all."""
        num_found = self.matches.true_positive[0, 0].sum()
        return FoundCounts(*torch.stack([num_found, self.matches.num_positives[0].sum()]).tolist())

    @property
    def overlap_of_few(self) -> float | None:
        """The overlap at which few of many ground truths are found; None if there is none."""
        num_found, num_ground_truths = self.recall
        if num_ground_truths < LEAST_BOXES:
            return None
        if num_found < FEW * num_ground_truths:
            return FOUND
        if self.iou_type == "rotated" and STRICT in self.grid.iou_thresholds:
            is_found = self.matches.true_positive[0, self.grid.iou_thresholds.index(STRICT)]
            return STRICT if int(is_found.sum()) < FEW * num_ground_truths else None
        return None

    @cached_property
    def recall_of_classes(self) -> tuple[Tensor, Tensor]:
        """The numbers of ground truths of each class that are found, and of all."""
        true_positives = self.matches.columns[self.matches.true_positive[0, 0]]
        num_found = self.matches.class_index[true_positives].bincount(minlength=len(self.matches.classes))
        return num_found, self.matches.num_positives[0]

    @cached_property
    def shown(self) -> ShownImages:
        """The first images that this process was given, at most 256; `boxes` are in `box_format`."""
        return self.images.shown()

    @cached_property
    def objects(self) -> dict[str, ShownObjects]:
        """The objects of `shown`, by `preds` and `target`."""
        sides = {"preds": self.shown.preds, "target": self.shown.target}
        return {argument: ShownObjects.of(side, self.box_format) for argument, side in sides.items()}

    @cached_property
    def counted_ground_truths(self) -> ShownObjects:
        """The ground truths of `shown` that count, with their boxes."""
        objects = self.objects["target"]
        if "boxes" not in objects.values:
            raise NotHeldError("boxes")
        return objects.at(objects.is_counted)

    @cached_property
    def image_sizes(self) -> Tensor:
        """Width and height of the images in `shown`, [images, 2]; NaN if unknown, as users may give anything."""
        known = []
        for size in self.shown.sizes:
            known.append((math.nan, math.nan))
            with suppress(TypeError, ValueError):
                height, width = map(float, size)
                if min(height, width) > 0:
                    known[-1] = (width, height)
        return torch.tensor(known, dtype=torch.float64, device="cpu").view(-1, 2)

    @cached_property
    def points(self) -> PointSample:
        """The objects as points, without crowds, of as many images as can be compared."""
        kind = kind_of(self.iou_type, self.box_format, self.images.sigmas)
        return sample_points(self.objects["preds"], self.objects["target"], self.image_sizes, kind)

    @cached_property
    def paired_labels(self) -> PairedLabels:
        """The labels of sampled detections that find a ground truth."""
        sample = self.points
        rows, true_rows = sample.pairs_found(FOUND)
        pairs = torch.stack([sample.true.column("labels")[true_rows], sample.found.column("labels")[rows]]).long()
        labels, places = pairs.unique(return_inverse=True)
        names = self.images.label_names
        counts = (places[0] * len(labels) + places[1]).bincount(minlength=len(labels) ** 2)
        return PairedLabels(
            names=labels.tolist() if names is None else [names[label] for label in labels.tolist()],
            counts=counts.view(len(labels), len(labels)),
        )


def has_many_objects(case: DetectionCase) -> bool:
    """Return whether there are enough objects to infer their units."""
    return len(case.matches.scores) >= LEAST_BOXES <= case.recall.num_ground_truths


def few_are_found(case: DetectionCase) -> bool:
    """Return whether few of many ground truths are found."""
    return case.overlap_of_few is not None


DETECTION_CAUSES: Causes[DetectionCase] = Causes()
"""rows by name, in the order in which they are asked"""
cause = DETECTION_CAUSES.decorator


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
