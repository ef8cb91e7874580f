"""The matches that a metric needs, and those of the images of one process: without the boxes.

They are sent as a list of tensors, in the order of the fields of `LocalMatches` and `Matches`.

One matching for all metrics that hold the same images, and what was computed of it.

The overlaps of all boxes of an image and class, for the `ious` of the extended summary.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice, product
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.batches import ImageNumbering, Images, NumberedImages
from reid_torchmetrics.functional.detection.errors import ObjectPairs, merge_object_pairs, pair_objects
from reid_torchmetrics.functional.detection.evaluators import EVALUATORS, ClassAverages, Evaluator
from reid_torchmetrics.functional.detection.inputs import (
    CocoGrid,
    Detections,
    GroundTruths,
    distinct_labels,
    place_of_labels,
)
from reid_torchmetrics.functional.detection.matching import Matches, find_pairs, merge_matches, with_edges
from reid_torchmetrics.functional.result_cache import ResultCache

Group = tuple[int | str, int]
"""image, by number or name, and class"""


@dataclass(frozen=True)
class Overlaps:
    """Intersection over union of every detection with every ground truth of its image and class."""

    groups: Tensor
    """number of the image, label, number of detections, number of ground truths: int64 [groups, 4]"""
    values: Tensor
    """float32, group after group, and in a group ground truth after ground truth"""

    @classmethod
    def of(cls, detections: Detections, ground_truths: GroundTruths, *, most: int, max_bytes: int) -> Overlaps:
        """Of the `most` detections with the highest scores in each image and class."""
        # Every pair overlaps by at least 0, so the pairs of a group are a whole matrix, ground truth by ground truth.
        pairs = find_pairs(detections, ground_truths, at_least=0.0, most=most, max_bytes=max_bytes)
        classes = distinct_labels(detections.labels, ground_truths.labels)
        keys = [
            side.images.long() * len(classes) + place_of_labels(side.labels, classes)
            for side in (detections, ground_truths)
        ]
        groups, place = torch.cat(keys).unique(return_inverse=True)
        found, true = (each.bincount(minlength=len(groups)) for each in place.split([len(key) for key in keys]))
        size = max(len(classes), 1)
        columns = [groups // size, classes[groups % size], found.clamp(max=most), true]
        return cls(torch.stack(columns, 1), pairs.iou.float())

    @staticmethod
    def matrices(parts: Sequence[Overlaps], called: Sequence[int | str], classes: Tensor) -> dict[Group, Tensor]:
        """A matrix [detections, ground truths] for every image and class, detections by descending score.

        Args:
            parts: of all processes.
            called: what each image is called.
            classes: all labels.
        """
        none = parts[0].values[:0].view(0, 0)
        found = dict.fromkeys(product(called, classes.tolist()), none)
        for part in parts:
            groups = part.groups.tolist()
            blocks = part.values.split([num_found * num_true for _, _, num_found, num_true in groups])
            for (image, label, num_found, num_true), block in zip(groups, blocks, strict=True):
                found[called[image], label] = block.view(num_true, num_found).T
        return found


_ORIGINS = ("rows", "ground_truths")  # fields of matches that are sent with their origins only: else nothing reads them


@dataclass(frozen=True)
class LocalMatches:
    """Matches of the images of one process, or of all."""

    labels: Tensor
    """all that occur, ascending, int64"""
    matches: tuple[Matches, ...]
    """one for each entry of `MatchRequest.micro`"""
    overlaps: tuple[Overlaps, ...] = ()
    """of each process, if they are requested"""
    labels_of_rows: Tensor | None = None
    """labels of the detections of the first matches, if they are requested: their classes may be one for all"""
    images_of_positives: Tensor | None = None
    """number of the image of each ground truth that counts in the first area range, if origins are requested"""
    objects: ObjectPairs | None = None
    """of the detections of the first matches, with their own labels, if they are requested"""

    def to_tensors(self) -> list[Tensor]:
        """What the other processes need of this, and no more bytes than that."""
        tensors = [self.labels]
        for matches in self.matches:
            tensors += _sent(matches, _sent_fields(with_origins=self.labels_of_rows is not None))
        for overlaps in self.overlaps:
            tensors += [getattr(overlaps, each.name) for each in fields(Overlaps)]
        tensors += [each for each in (self.labels_of_rows, self.images_of_positives) if each is not None]
        return tensors if self.objects is None else tensors + self.objects.to_tensors()

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor], request: MatchRequest) -> LocalMatches:
        """What `to_tensors` was called on, after a request."""
        left, names = iter(tensors), _sent_fields(with_origins=request.with_origins)
        return cls(
            labels=next(left),
            matches=tuple(_received(left, names) for _ in request.micro),
            overlaps=(Overlaps(*islice(left, len(fields(Overlaps)))),) if request.with_overlaps else (),
            labels_of_rows=next(left) if request.with_origins else None,
            images_of_positives=next(left) if request.with_origins else None,
            objects=ObjectPairs.from_tensors([*left]) if request.across_classes else None,
        )


def _sent_fields(*, with_origins: bool) -> list[str]:
    """Names of the fields of `Matches` that are sent."""
    return [each.name for each in fields(Matches) if with_origins or each.name not in _ORIGINS]


def _sent(matches: Matches, names: Sequence[str]) -> list[Tensor]:
    """The fields; the class of each detection as a number for each class, as detections are in their order."""
    counts = matches.class_index.bincount(minlength=len(matches.classes))
    return [counts if name == "class_index" else getattr(matches, name) for name in names]


def _received(left: Iterator[Tensor], names: Sequence[str]) -> Matches:
    sent = dict(zip(names, islice(left, len(names)), strict=True))
    sent["class_index"] = segments.numbers(sent["class_index"], len(sent["scores"])).int()
    return Matches(**({"rows": sent["images"]} | sent))


_SAID = ("micro", "iou_type", "with_overlaps", "with_origins", "across_classes")


@dataclass(frozen=True)
class MatchRequest:
    """Which matches a metric needs of its images."""

    grid: CocoGrid
    micro: tuple[bool, ...]
    """for each of the matches wanted: whether all labels are one class, 0"""
    max_bytes: int
    box_format: str
    """how the boxes of the images are given"""
    evaluator: Evaluator = EVALUATORS["coco"]
    options: tuple[tuple[str, Any], ...] = ()
    """of the evaluator's matching, by name"""
    iou_type: str = "bbox"
    with_overlaps: bool = False
    """whether the overlaps of the first matches are wanted"""
    with_origins: bool = False
    """whether to find out which ground truth each detection took, where in their image both are, and how many ground
    truths each image has"""
    across_classes: bool = False
    """whether to find out which detections and ground truths overlap, of whatever classes; with origins only"""

    @property
    def is_plain(self) -> bool:
        """Whether nothing of single images is wanted."""
        return not (self.with_overlaps or self.with_origins or self.across_classes)

    def describe(self) -> dict[str, str]:
        """What decides the number and the form of the matches, besides the options of the metric."""
        return {name: repr(getattr(self, name)) for name in _SAID}

    def run(self, numbered: NumberedImages) -> LocalMatches:
        """Match the images of a process."""
        held = numbered.images
        matches = tuple(self._match(numbered, micro=micro) for micro in self.micro)
        overlaps = (self._overlaps(numbered),) if self.with_overlaps else ()
        if False in self.micro:
            labels = matches[self.micro.index(False)].classes
        else:
            labels = distinct_labels(held.detection_labels, held.ground_truth_labels)
        if not self.with_origins:
            return LocalMatches(labels, matches, overlaps)
        labels_of_rows = held.detection_labels.index_select(0, matches[0].rows).long()
        objects = self._objects(numbered, matches[0]) if self.across_classes else None
        matches = tuple(_in_images(each, held) for each in matches)
        return LocalMatches(labels, matches, overlaps, labels_of_rows, self._images_of_positives(numbered), objects)

    def _match(self, numbered: NumberedImages, *, micro: bool) -> Matches:
        boxes, options = numbered.boxes(one_class=micro, iou_type=self.iou_type), dict(self.options)
        if self.evaluator.knows_difficult:
            options["is_difficult"] = numbered.images.ground_truth_difficult
        options |= {"keep_ground_truths": self.with_origins, "max_bytes": self.max_bytes}
        return self.evaluator.match(*boxes, self.grid, **options)

    def _objects(self, numbered: NumberedImages, matches: Matches) -> ObjectPairs:
        detections, ground_truths = numbered.boxes(one_class=False, iou_type=self.iou_type)
        kept = detections.at(matches.rows.sort().values)
        is_difficult = numbered.images.ground_truth_difficult
        return pair_as_matched(kept, ground_truths, self, is_difficult)

    def _images_of_positives(self, numbered: NumberedImages) -> Tensor:
        least, most = next(iter(self.grid.area_ranges.values()))
        held = numbered.images
        areas = held.areas_of_ground_truths(self.iou_type)
        is_inside = (areas >= least) & (areas <= most)
        counts = is_inside & ~held.ground_truth_crowds
        if held.ground_truth_difficult is not None:
            counts &= ~held.ground_truth_difficult
        return numbered.numbers.repeat_interleave(held.ground_truth_counts)[counts]

    def _overlaps(self, numbered: NumberedImages) -> Overlaps:
        boxes = numbered.boxes(one_class=self.micro[0], iou_type=self.iou_type)
        return Overlaps.of(*boxes, most=self.grid.max_detections[-1], max_bytes=self.max_bytes)


def pair_as_matched(
    detections: Detections, ground_truths: GroundTruths, request: MatchRequest, is_difficult: Tensor | None
) -> ObjectPairs:
    """Pair objects of all classes, with the overlaps and the crowds that the evaluator of a request knows."""
    if not request.evaluator.knows_crowds and ground_truths.is_crowd is not None:
        rows = (~ground_truths.is_crowd).nonzero()[:, 0]
        ground_truths = ground_truths.at(rows)
        is_difficult = None if is_difficult is None else is_difficult[rows]
    if dict(request.options).get("whole_pixels"):
        detections = detections.with_shapes(with_edges(detections.shapes, whole_pixels=True))
        ground_truths = ground_truths.with_shapes(with_edges(ground_truths.shapes, whole_pixels=True))
    area_range, max_bytes = next(iter(request.grid.area_ranges.values())), request.max_bytes
    return pair_objects(
        detections, ground_truths, area_range=area_range, is_difficult=is_difficult, max_bytes=max_bytes
    )


def merge_local_matches(parts: Sequence[LocalMatches]) -> LocalMatches:
    """What one process would match with the images of all processes."""
    if len(parts) == 1:
        return parts[0]
    merged = [_merge(matches) for matches in zip(*(part.matches for part in parts), strict=True)]
    listed = [part.labels_of_rows for part in parts if part.labels_of_rows is not None]
    positives = [part.images_of_positives for part in parts if part.images_of_positives is not None]
    objects = [part.objects for part in parts if part.objects is not None]
    return LocalMatches(
        labels=distinct_labels(*(part.labels for part in parts)),
        matches=tuple(matches for matches, _ in merged),
        overlaps=tuple(each for part in parts for each in part.overlaps),
        labels_of_rows=torch.cat(listed).index_select(0, merged[0][1]) if listed else None,
        images_of_positives=torch.cat(positives) if positives else None,
        objects=merge_object_pairs(objects) if objects else None,
    )


def _merge(parts: Sequence[Matches]) -> tuple[Matches, Tensor]:
    """Matches of all processes, and where their detections were in the parts laid end to end."""
    rows = torch.cat([part.rows for part in parts])
    places = torch.arange(len(rows), device=rows.device).split([len(part.rows) for part in parts])
    merged = merge_matches([replace(part, rows=place) for part, place in zip(parts, places, strict=True)])
    return replace(merged, rows=rows.index_select(0, merged.rows)), merged.rows


def _in_images(matches: Matches, images: Images) -> Matches:
    """The same with rows that are counted in each image, of detections and of ground truths."""
    rows = [segments.runs(0, counts)[1] for counts in (images.detection_counts, images.ground_truth_counts)]
    return matches.with_rows(*rows)


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Matched:
    """The matches of the images of all processes; nobody writes to them."""

    request: MatchRequest
    found: LocalMatches
    numbering: ImageNumbering | None = None
    """where it is asked for: that of all but plain requests"""
    _known: dict[Hashable, Any] = field(default_factory=dict)

    def averages(self, rule: str, number: int = 0, confidence: float | None = None) -> ClassAverages:
        """Of the matches of a number."""
        return self.once(_averages, rule, number, confidence)

    def once(
        self,
        compute: Callable[Concatenate[Matched, Arguments], Result],
        *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """What a function that reads nothing but its arguments gives of these matches; it is computed once."""
        name = (compute, args, *sorted(options.items()))
        if name not in self._known:
            self._known[name] = compute(self, *args, **options)
        known: Result = self._known[name]
        return known


def _averages(matched: Matched, rule: str, number: int, confidence: float | None) -> ClassAverages:
    request, matches = matched.request, matched.found.matches[number]
    return request.evaluator.average(matches, request.grid, rule=rule, confidence=confidence)


matchings: ResultCache[Matched] = ResultCache("detection_counts")
