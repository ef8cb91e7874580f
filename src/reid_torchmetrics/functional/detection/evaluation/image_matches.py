"""What an evaluation asks of images, and the answer: matches of the images of one process, or of all.

    images -- MatchRequest.run --> matches of a process -- merge_image_matches --> matches of all processes

A process sends its matches as a list of tensors, without boxes. Metrics that hold the same images share the merged
matches and all that was computed from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.batches import ImageNumbering, NumberedImages
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
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_ORIGINS = ("rows", "ground_truths")  # fields of matches that are read with origins only, and sent only then
_OF_ORIGINS = ("labels_of_rows", "positives")  # fields of image matches that are known with origins only
# Fields of a request.
_DESCRIBED = ("micro", "iou_type", "with_overlaps", "with_origins", "across_classes", "localization")


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
        size = max(len(classes), 1)
        keys = [
            side.images.long() * size + place_of_labels(side.labels, classes) for side in (detections, ground_truths)
        ]
        # Groups with detections or ground truths, and how many of each.
        groups, place = torch.cat(keys).unique(return_inverse=True)
        counts = [each.bincount(minlength=len(groups)) for each in place.split([*map(len, keys)])]
        return cls(
            torch.stack([groups // size, classes[groups % size], counts[0].clamp(max=most), counts[1]], 1),
            pairs.iou.float(),
        )

    @staticmethod
    def matrices(parts: Sequence[Overlaps], image_ids: Sequence[int | str], classes: Tensor) -> dict[Group, Tensor]:
        """A matrix [detections, ground truths] for every image and class, detections by descending score.

        Args:
            parts: of all processes.
            image_ids: of each image, by its number.
            classes: all labels.
        """
        matrices = dict.fromkeys(product(image_ids, classes.tolist()), parts[0].values[:0].view(0, 0))
        for part in parts:
            groups = part.groups.tolist()
            blocks = part.values.split([num_detections * num_true for _, _, num_detections, num_true in groups])
            for (image, label, num_detections, num_true), block in zip(groups, blocks, strict=True):
                matrices[image_ids[image], label] = block.view(num_true, num_detections).T
        return matrices


@dataclass(frozen=True)
class MatchRequest:
    """How images are matched, and what an evaluation needs besides the matches."""

    grid: CocoGrid
    micro: tuple[bool, ...]
    """for each of the matches wanted: whether all labels are one class, 0"""
    max_bytes: int
    box_format: str
    """how the boxes of the images are given"""
    evaluator: Evaluator = EVALUATORS["coco"]
    options: tuple[tuple[str, Any], ...] = ()
    """of the evaluator's matching, by name: values of its fields"""
    iou_type: str = "bbox"
    with_overlaps: bool = False
    """whether the overlaps of the first matches are wanted"""
    with_origins: bool = False
    """whether to note the ground truth of each detection, the places of both in their image, and the number of ground
    truths of each image"""
    across_classes: bool = False
    """whether to pair detections and ground truths of different classes that overlap; with origins only"""
    localization: bool = False
    """whether to note the overlap of each detection with its ground truth"""

    @property
    def is_plain(self) -> bool:
        """Whether nothing of single images is wanted."""
        return not (self.with_overlaps or self.with_origins or self.across_classes)

    @property
    def sent_fields(self) -> list[str]:
        """Names of the fields of `Matches` that are sent."""
        left_out = (() if self.with_origins else _ORIGINS) + (() if self.localization else ("overlaps",))
        return [each.name for each in fields(Matches) if each.name not in left_out]

    def describe(self) -> dict[str, str]:
        """What decides the number and the form of the matches, besides the options of the metric."""
        return {name: repr(getattr(self, name)) for name in _DESCRIBED}

    def run(self, numbered: NumberedImages) -> ImageMatches:
        """Match the images of a process."""
        # Matches of the classes, of all labels as one class, or both.
        images = numbered.images
        matches = tuple(self._match(numbered, micro=micro) for micro in self.micro)
        overlaps = (self._overlaps(numbered),) if self.with_overlaps else ()
        if False in self.micro:
            labels = matches[self.micro.index(False)].classes
        else:
            labels = distinct_labels(images.detection_labels, images.ground_truth_labels)
        if not self.with_origins:
            return ImageMatches(self, labels, matches, overlaps).within_classes()
        # The ground truths that count, for the misses of each image.
        areas, crowds = images.areas_of_ground_truths(self.iou_type), images.ground_truth_crowds
        without_area = areas <= 0 if self.evaluator.is_federated else None
        bits = bits_of_areas(areas, self.grid, crowds, images.ground_truth_difficult, without_area)
        own_labels = images.ground_truth_labels
        numbers = numbered.numbers.repeat_interleave(images.ground_truth_counts)
        # Rows are counted in each image: users know an object by its place there.
        places = [segments.runs(0, each)[1] for each in (images.detection_counts, images.ground_truth_counts)]
        return ImageMatches(
            self,
            labels,
            tuple(each.with_rows(*places) for each in matches),
            overlaps,
            labels_of_rows=images.detection_labels.index_select(0, matches[0].rows).long(),
            positives=list_positives(numbers, torch.zeros_like(own_labels) if self.micro[0] else own_labels, bits),
            objects=self._objects(numbered, matches[0]) if self.across_classes else None,
        ).within_classes()

    def _match(self, numbered: NumberedImages, *, micro: bool) -> Matches:
        boxes, options = numbered.boxes(one_class=micro, iou_type=self.iou_type), dict(self.options)
        if self.evaluator.knows_difficult:
            options["is_difficult"] = numbered.images.ground_truth_difficult
        if self.evaluator.is_federated:
            options["lists"] = numbered.lists()
        keep = self.with_origins or self.localization
        matches = self.evaluator.match(*boxes, self.grid, keep_ground_truths=keep, max_bytes=self.max_bytes, **options)
        return replace(matches, overlaps=self._overlaps_of(matches, *boxes)) if self.localization else matches

    def _overlaps_of(self, matches: Matches, detections: Detections, ground_truths: GroundTruths) -> Tensor:
        """The overlap of each matched detection with its ground truth, a crowd as any other."""
        assert matches.ground_truths is not None  # noqa: S101 - they were asked for
        sides = detections.shapes, ground_truths.shapes
        if dict(self.options).get("whole_pixels"):
            sides = with_edges(sides[0], whole_pixels=True), with_edges(sides[1], whole_pixels=True)
        rows, is_taken = matches.rows[matches.columns].expand(matches.matched.shape), matches.ground_truths >= 0
        overlaps = torch.zeros(matches.matched.shape, dtype=torch.float64, device=rows.device)
        overlaps[is_taken] = sides[0].overlaps(rows[is_taken], sides[1], matches.ground_truths[is_taken])
        return overlaps

    def _overlaps(self, numbered: NumberedImages) -> Overlaps:
        boxes = numbered.boxes(one_class=self.micro[0], iou_type=self.iou_type)
        return Overlaps.of(*boxes, most=self.grid.max_detections[-1], max_bytes=self.max_bytes)

    def _objects(self, numbered: NumberedImages, matches: Matches) -> ObjectPairs:
        sides = numbered.boxes(one_class=False, iou_type=self.iou_type)
        return self.pair(*sides, matches, numbered.images.ground_truth_difficult)

    def pair(
        self, detections: Detections, ground_truths: GroundTruths, matches: Matches, is_difficult: Tensor | None
    ) -> ObjectPairs:
        """Pair matched objects of all classes, with the overlaps and the crowds that the evaluator knows."""
        # Without the detections beyond the largest limit, which were not matched.
        order = matches.rows.argsort()
        detections = detections.at(matches.rows[order])
        is_outside = matches.area_bits[order] & 1 == 0 if self.evaluator.is_federated else None
        if not self.evaluator.knows_crowds and ground_truths.is_crowd is not None:
            rows = (~ground_truths.is_crowd).nonzero()[:, 0]
            ground_truths = ground_truths.at(rows)
            is_difficult = None if is_difficult is None else is_difficult[rows]
        if dict(self.options).get("whole_pixels"):
            detections = detections.with_shapes(with_edges(detections.shapes, whole_pixels=True))
            ground_truths = ground_truths.with_shapes(with_edges(ground_truths.shapes, whole_pixels=True))
        area_range, *_ = self.grid.area_ranges.values()
        ignored: dict[str, Any] = {"is_difficult": is_difficult, "is_outside": is_outside}
        return pair_objects(detections, ground_truths, area_range=area_range, **ignored, max_bytes=self.max_bytes)


def bits_of_areas(areas: Tensor, grid: CocoGrid, *excluded: Tensor | None) -> Tensor:
    """The area ranges that each ground truth counts in, one bit each, given masks of others that never count."""
    bits = torch.zeros_like(areas, dtype=torch.int64)
    for number, (least, most) in enumerate(grid.area_ranges.values()):
        bits |= ~((areas < least) | (areas > most)) * (1 << number)
    for mask in excluded:
        bits = bits if mask is None else bits.masked_fill(mask, 0)
    return bits


def list_positives(images: Tensor, labels: Tensor, bits: Tensor) -> Tensor:
    """Image, label and area ranges of each ground truth that counts in some range, int64 [positives, 3]."""
    return torch.stack([each.long() for each in (images, labels, bits)], dim=1)[bits > 0]


@dataclass(frozen=True)
class ImageMatches:
    """The matches of the images of one process, or of all; they are shared, so they must not be written to."""

    request: MatchRequest
    labels: Tensor
    """all that occur, ascending, int64"""
    matches: tuple[Matches, ...]
    """one for each entry of `MatchRequest.micro`"""
    overlaps: tuple[Overlaps, ...] = ()
    """of each process, if they are requested"""
    labels_of_rows: Tensor | None = None
    """labels of the detections of the first matches, if origins are requested: their classes may be one for all"""
    positives: Tensor | None = None
    """see `list_positives`, if origins are requested; images by number"""
    objects: ObjectPairs | None = None
    """of the detections of the first matches, with their own labels, if they are requested"""
    numbering: ImageNumbering | None = None
    """of the images of all processes; None for a part, and for a plain request: it holds the images"""
    num_without_lists: int = 0
    """number of the images of all processes, if no image has the lists of classes that some detections need"""
    _values: dict[Hashable, Any] = field(default_factory=dict)

    def to_tensors(self) -> list[Tensor]:
        """The tensors that the other processes need, in the order of the fields."""
        tensors = [self.labels]
        for matches in self.matches:
            # Detections are sorted by class, so a number for each class says the class of each detection.
            counts = matches.class_index.bincount(minlength=len(matches.classes))
            names = self.request.sent_fields
            tensors += [counts if name == "class_index" else getattr(matches, name) for name in names]
        for overlaps in self.overlaps:
            tensors += [overlaps.groups, overlaps.values]
        tensors += [each for each in (self.labels_of_rows, self.positives) if each is not None]
        return tensors if self.objects is None else tensors + self.objects.to_tensors()

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor], request: MatchRequest) -> ImageMatches:
        """The inverse of `to_tensors`."""
        rest, names = deque(tensors), request.sent_fields

        def received() -> Matches:
            values = {name: rest.popleft() for name in names}
            values["class_index"] = segments.numbers(values["class_index"], len(values["scores"])).int()
            return Matches(**({"rows": values["images"]} | values))

        return cls(
            request,
            labels=rest.popleft(),
            matches=tuple(received() for _ in request.micro),
            overlaps=(Overlaps(rest.popleft(), rest.popleft()),) if request.with_overlaps else (),
            labels_of_rows=rest.popleft() if request.with_origins else None,
            positives=rest.popleft() if request.with_origins else None,
            objects=ObjectPairs.from_tensors([*rest]) if request.across_classes else None,
        )

    def within_classes(self) -> ImageMatches:
        """The same without the detections of each class beyond its limit in all images, if there is such a limit."""
        if self.request.grid.limited != "class":
            return self
        most = max(self.request.grid.max_detections)
        matches = tuple(each.first_of_classes(most) for each in self.matches)
        labels = None if self.labels_of_rows is None else matches[0].classes[matches[0].class_index.long()]
        return replace(self, matches=matches, labels_of_rows=labels)

    def averages(self, rule: str, number: int = 0, confidence: float | None = None) -> ClassAverages:
        """The numbers of every class, of the matches of a number."""
        return self.once(_averages, rule, number, confidence)

    def once(
        self,
        compute: Callable[Concatenate[ImageMatches, Arguments], Result],
        *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """The value of a function of these matches and of its other arguments, computed once."""
        name = (compute, args, *sorted(options.items()))
        if name not in self._values:
            self._values[name] = compute(self, *args, **options)
        value: Result = self._values[name]
        return value


def _averages(images: ImageMatches, rule: str, number: int, confidence: float | None) -> ClassAverages:
    request = images.request
    return request.evaluator.average(images.matches[number], request.grid, rule=rule, confidence=confidence)


def merge_image_matches(parts: Sequence[ImageMatches]) -> ImageMatches:
    """The matches of the images of all processes."""
    first = parts[0]
    if len(parts) == 1:
        return first
    # An image is on one process, so everything but the order of detections is joined end to end.
    merged = [_merge(matches) for matches in zip(*(part.matches for part in parts), strict=True)]
    joined: dict[str, Any] = {}
    if first.request.with_origins:
        joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in _OF_ORIGINS}
        # Detections in the order of the merged matches.
        joined["labels_of_rows"] = joined["labels_of_rows"].index_select(0, merged[0][1])
    objects = [part.objects for part in parts if part.objects is not None]
    return ImageMatches(
        first.request,
        labels=distinct_labels(*(part.labels for part in parts)),
        matches=tuple(matches for matches, _ in merged),
        overlaps=tuple(each for part in parts for each in part.overlaps),
        objects=merge_object_pairs(objects) if objects else None,
        **joined,
    ).within_classes()


def _merge(parts: Sequence[Matches]) -> tuple[Matches, Tensor]:
    """Merged matches, and the place of each detection in the parts laid end to end."""
    rows = torch.cat([part.rows for part in parts])
    places = torch.arange(len(rows), device=rows.device).split([len(part.rows) for part in parts])
    merged = merge_matches([replace(part, rows=place) for part, place in zip(parts, places, strict=True)])
    return replace(merged, rows=rows.index_select(0, merged.rows)), merged.rows


matchings: ResultCache[ImageMatches] = ResultCache("detection_counts")
