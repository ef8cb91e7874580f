"""What an evaluation asks of images, and the answer: matches of the images of one process, or of all.

    objects -- MatchRequest.run --> matches of a process -- merge_image_matches --> matches of all processes

A process sends its matches as a list of tensors, without boxes. Metrics that hold the same images share the merged
matches and all that was computed from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.errors import ObjectPairs, merge_object_pairs, pair_objects
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, Evaluator, VocEvaluator, match_options
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
Result = TypeVar("Result")
Objects = TypeVar("Objects", Detections, GroundTruths)

_OF_METRIC = ("grid", "evaluator", "max_bytes")  # fields of a request that follow from options of the metric
_ORIGINS = ("rows", "ground_truths")  # fields of matches that are read with origins only, and sent only then


class Overlaps(NamedTuple):
    """Intersection over union of every detection with every ground truth of its image and class."""

    groups: Tensor
    """number of the image, label, number of detections, number of ground truths: int64 [groups, 4]"""
    values: Tensor
    """float32, group after group, and in a group ground truth after ground truth"""

    @classmethod
    def of(cls, detections: Detections, ground_truths: GroundTruths, *, most: int, max_bytes: int | None) -> Overlaps:
        """Of the `most` detections with the highest scores in each image and class."""
        # Every pair overlaps by at least 0, so the pairs of a group are a whole matrix, ground truth by ground truth.
        pairs = find_pairs(detections, ground_truths, at_least=0.0, most=most, max_bytes=max_bytes)
        sides, classes = (detections, ground_truths), distinct_labels(detections.labels, ground_truths.labels)
        size = max(len(classes), 1)
        keys = [side.images.long() * size + place_of_labels(side.labels, classes) for side in sides]
        # Groups with detections or ground truths, and how many of each.
        groups, place = torch.cat(keys).unique(return_inverse=True)
        counts = [each.bincount(minlength=len(groups)) for each in place.split([*map(len, keys)])]
        columns = [groups // size, classes[groups % size], counts[0].clamp(max=most), counts[1]]
        return cls(torch.stack(columns, 1), pairs.iou.float())

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


class Origins(NamedTuple):
    """Where the detections of matches, and the misses, come from."""

    labels: Int[Tensor, " detections"]
    """of the detections of the matches, also where one class stands for all"""
    positives: Int[Tensor, "positives 3"]
    """ground truths that count in some area range: number of the image, label, and the ranges, bit 0 for the first"""


@dataclass(frozen=True)
class MatchRequest:
    """How images are matched, and what an evaluation needs besides the matches."""

    grid: CocoGrid
    evaluator: Evaluator
    """with the options of its matching"""
    max_bytes: int | None
    iou_type: str = "bbox"
    micro: bool = False
    """whether all labels are one class, 0"""
    with_classes: bool = False
    """whether the matches of the classes are wanted, too, under "micro" """
    with_overlaps: bool = False
    """whether all overlaps are wanted"""
    with_origins: bool = False
    """whether to note the ground truth of each detection, the places of both in their image, and `Origins`"""
    across_classes: bool = False
    """whether to pair detections and ground truths of different classes that overlap"""
    localization: bool = False
    """whether to note the overlap of each detection with its ground truth"""

    def of_results(self, **flags: Any) -> MatchRequest:
        """The request for the same matches and what results need, also as `across_classes` and `localization` say."""
        for name, flag in flags.items():
            _checks.boolean(name, flag)
        return replace(self, with_origins=True, **flags)

    @property
    def by_class(self) -> MatchRequest | None:
        """The request for the matches of the classes under "micro"; None if they are not wanted."""
        return replace(self, micro=False, with_classes=False, with_overlaps=False) if self.with_classes else None

    @property
    def is_plain(self) -> bool:
        """Whether nothing of single images is wanted."""
        return not (self.with_overlaps or self.with_origins)

    @property
    def sent_fields(self) -> list[str]:
        """Names of the fields of `Matches` that are sent."""
        left_out = (() if self.with_origins else _ORIGINS) + (() if self.localization else ("overlaps",))
        return [each.name for each in fields(Matches) if each.name not in left_out]

    def describe(self) -> dict[str, str]:
        """What decides the number and the form of the matches, besides the options of the metric."""
        return {name: repr(value) for name, value in vars(self).items() if name not in _OF_METRIC}

    def average(self, matches: Matches, *, rule: str, confidence: float | None) -> ClassAverages:
        """The numbers of every class."""
        return self.evaluator.average(matches, self.grid, rule=rule, confidence=confidence)

    def run(
        self,
        detections: Detections,
        ground_truths: GroundTruths,
        *,
        is_difficult: Bool[Tensor, " ground_truths"] | None = None,
        lists: Int[Tensor, "entries 3"] | None = None,
        classes: _checks.Integers | Tensor | None = None,
    ) -> ImageMatches:
        """Match the objects of a process.

        Args:
            detections: of all its images.
            ground_truths: of all its images.
            is_difficult: ground truths that need not be found, for evaluators that know such.
            lists: of absent and of partly annotated classes, see `match_federated`.
            classes: labels to match, for COCO's evaluator; None for all.
        """
        # Under "micro" matching sees one label, and users see their own.
        sides = detections, ground_truths
        if self.micro:
            sides = detections.of_one_class(), ground_truths.of_one_class()
        options: dict[str, Any] = {"keep_ground_truths": self.with_origins or self.localization}
        options |= {"max_bytes": self.max_bytes} | ({} if classes is None else {"classes": classes})
        options |= match_options(self.evaluator, is_difficult=is_difficult, lists=lists)
        matches = self.evaluator.match(*sides, self.grid, **options)
        if self.localization:
            matches = replace(matches, overlaps=self._overlaps_of(matches, *sides))
        labels = distinct_labels(detections.labels, ground_truths.labels) if self.micro else matches.classes
        most, max_bytes = self.grid.max_detection_thresholds[-1], self.max_bytes
        overlaps = (Overlaps.of(*sides, most=most, max_bytes=max_bytes),) if self.with_overlaps else ()
        if not self.with_origins:
            by_class = None if self.by_class is None else self.by_class.run(detections, ground_truths)
            return ImageMatches(self, labels, matches, overlaps, by_class=by_class).within_classes()
        # Users know an object by its place in its image.
        places = [segments.ranks(each.images) for each in (detections, ground_truths)]
        excluded = is_difficult, None if classes is None else ~torch.isin(ground_truths.labels.long(), matches.classes)
        origins = Origins(detections.labels.index_select(0, matches.rows).long(), self._positives(sides[1], *excluded))
        pairs = self._pair(detections, ground_truths, matches, is_difficult) if self.across_classes else None
        return ImageMatches(self, labels, matches.with_rows(*places), overlaps, origins, pairs).within_classes()

    def _overlaps_of(self, matches: Matches, detections: Detections, ground_truths: GroundTruths) -> Tensor:
        """The overlap of each matched detection with its ground truth, a crowd as any other."""
        assert matches.ground_truths is not None  # noqa: S101 - they were asked for
        sides = self._with_edges(detections).shapes, self._with_edges(ground_truths).shapes
        rows, is_taken = matches.rows[matches.columns].expand(matches.matched.shape), matches.ground_truths >= 0
        overlaps = torch.zeros(matches.matched.shape, dtype=torch.float64, device=rows.device)
        overlaps[is_taken] = sides[0].overlaps(rows[is_taken], sides[1], matches.ground_truths[is_taken])
        return overlaps

    def _positives(self, ground_truths: GroundTruths, *excluded: Tensor | None) -> Tensor:
        """See `Origins`: no crowds, none of the masks, and for LVIS none without area."""
        areas = (ground_truths.shapes.areas() if ground_truths.areas is None else ground_truths.areas).double()
        bits = torch.zeros_like(areas, dtype=torch.int64)
        for number, (least, most) in enumerate(self.grid.area_ranges.values()):
            bits |= ~((areas < least) | (areas > most)) * (1 << number)
        for mask in (ground_truths.is_crowd, areas <= 0 if self.evaluator.is_federated else None, *excluded):
            bits = bits if mask is None else bits.masked_fill(mask, 0)
        columns = [ground_truths.images.long(), ground_truths.labels.long(), bits]
        return torch.stack(columns, dim=1)[bits > 0]

    def _with_edges(self, objects: Objects) -> Objects:
        """The objects with the edges that the evaluator knows."""
        if isinstance(self.evaluator, VocEvaluator) and self.evaluator.whole_pixels:
            return objects.with_columns(boxes=with_edges(objects.shapes, whole_pixels=True))
        return objects

    def _pair(
        self, detections: Detections, ground_truths: GroundTruths, matches: Matches, is_difficult: Tensor | None
    ) -> ObjectPairs:
        """Pair matched objects of all classes, with the overlaps and the crowds that the evaluator knows."""
        # Without the detections beyond the largest limit, which were not matched.
        order = matches.rows.argsort()
        is_outside = matches.area_bits[order] & 1 == 0 if self.evaluator.is_federated else None
        if not self.evaluator.knows_crowds and ground_truths.is_crowd is not None:
            rows = (~ground_truths.is_crowd).nonzero()[:, 0]
            ground_truths = ground_truths.at(rows)
            is_difficult = None if is_difficult is None else is_difficult[rows]
        sides = self._with_edges(detections.at(matches.rows[order])), self._with_edges(ground_truths)
        area_range, *_ = self.grid.area_ranges.values()
        flags: dict[str, Any] = {"is_difficult": is_difficult, "is_outside": is_outside}
        return pair_objects(*sides, area_range=area_range, max_bytes=self.max_bytes, **flags)


@dataclass(frozen=True)
class ImageMatches:
    """The matches of the images of one process, or of all; they are shared, so they must not be written to."""

    request: MatchRequest
    labels: Tensor
    """all that occur, ascending, int64"""
    matches: Matches
    overlaps: tuple[Overlaps, ...] = ()
    """of each process, if they are requested"""
    origins: Origins | None = None
    """if they are requested"""
    objects: ObjectPairs | None = None
    """of the detections of the matches, with their own labels, if pairs across classes are requested"""
    by_class: ImageMatches | None = None
    """the matches of the classes, if they are requested besides these"""
    ids: Tensor | None = None
    """the `image_id` of each image, by its number, of all processes; None for a part, and for a plain request"""
    names: tuple[str, ...] | None = None
    """of the images by number, if they have names"""
    num_without_lists: int = 0
    """number of the images of all processes, if no image has the lists of classes that some detections need"""
    num_repeated: int = 0
    """number of images of this process that do not count, because an image with their `image_id` came before"""
    _values: dict[Hashable, Any] = field(default_factory=dict)

    def to_tensors(self) -> list[Tensor]:
        """The tensors that the other processes need, in the order of the fields."""
        # Detections are sorted by class, so a number for each class says the class of each detection.
        sent = {name: getattr(self.matches, name) for name in self.request.sent_fields}
        sent["class_index"] = self.matches.class_index.bincount(minlength=len(self.matches.classes))
        overlaps = [each for part in self.overlaps for each in part]
        objects = [] if self.objects is None else self.objects.to_tensors()
        by_class = [] if self.by_class is None else self.by_class.to_tensors()
        return [self.labels, *sent.values(), *overlaps, *(self.origins or ()), *objects, *by_class]

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor], request: MatchRequest) -> ImageMatches:
        """The inverse of `to_tensors`."""
        rest = deque(tensors)
        labels, received = rest.popleft(), {name: rest.popleft() for name in request.sent_fields}
        received["class_index"] = segments.numbers(received["class_index"], len(received["scores"])).int()
        return cls(
            request,
            labels=labels,
            matches=Matches(**{"rows": received["images"]} | received),
            overlaps=(Overlaps(rest.popleft(), rest.popleft()),) if request.with_overlaps else (),
            origins=Origins(rest.popleft(), rest.popleft()) if request.with_origins else None,
            objects=ObjectPairs.from_tensors([*rest]) if request.across_classes else None,
            by_class=None if request.by_class is None else cls.from_tensors(rest, request.by_class),
        )

    def within_classes(self) -> ImageMatches:
        """The same without the detections of each class beyond its limit in all images, if there is such a limit."""
        if self.request.grid.limited != "class":
            return self
        matches, origins = self.matches.first_of_classes(max(self.request.grid.max_detection_thresholds)), self.origins
        if origins is not None:
            origins = origins._replace(labels=matches.classes[matches.class_index.long()])
        return replace(self, matches=matches, origins=origins)

    def averages(self, rule: str, confidence: float | None = None) -> ClassAverages:
        """The numbers of every class."""
        return self.once(self.request.average, rule=rule, confidence=confidence)

    def once(self, compute: Callable[..., Result], *args: Hashable, **options: Hashable) -> Result:
        """The value of a function of the matches and of further arguments, computed once."""
        return self.remember((compute, args, *options.items()), lambda: compute(self.matches, *args, **options))

    def remember(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """What was computed under a key, or is computed now: what follows from the images and the request."""
        if key not in self._values:
            self._values[key] = compute()
        value: Result = self._values[key]
        return value


def merge_image_matches(parts: Sequence[ImageMatches]) -> ImageMatches:
    """The matches of the images of all processes."""
    if len(parts) == 1:
        return parts[0]
    # An image is on one process, so everything but the order of detections is joined end to end.
    rows = torch.cat([part.matches.rows for part in parts])
    places = torch.arange(len(rows), device=rows.device).split([len(part.matches.rows) for part in parts])
    matches = merge_matches([replace(part.matches, rows=place) for part, place in zip(parts, places, strict=True)])
    origins = [part.origins for part in parts if part.origins is not None]
    objects = [part.objects for part in parts if part.objects is not None]
    by_class = [part.by_class for part in parts if part.by_class is not None]
    joined = None
    if origins:
        labels, positives = map(torch.cat, zip(*origins, strict=True))
        joined = Origins(labels.index_select(0, matches.rows), positives)
    return ImageMatches(
        parts[0].request,
        labels=distinct_labels(*(part.labels for part in parts)),
        matches=replace(matches, rows=rows.index_select(0, matches.rows)),
        overlaps=tuple(each for part in parts for each in part.overlaps),
        origins=joined,
        objects=merge_object_pairs(objects) if objects else None,
        by_class=merge_image_matches(by_class) if by_class else None,
    ).within_classes()


matchings: ResultCache[ImageMatches] = ResultCache("detection_counts")
