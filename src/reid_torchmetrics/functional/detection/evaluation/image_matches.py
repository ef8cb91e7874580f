"""Requests for matches, and the matches of the images of one process or of all processes.

    objects -- MatchRequest.run --> matches of a process -- merge_image_matches --> matches of all processes

A process sends its matches as a list of tensors, without boxes. Metrics that hold the same images share the merged
matches and all values computed from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from reid_torchmetrics import _checks
from reid_torchmetrics._registries import Registry
from reid_torchmetrics.functional import segments
from reid_torchmetrics.functional.detection.evaluators import ClassAverages, Evaluator, own_options
from reid_torchmetrics.functional.detection.inputs import (
    CocoGrid,
    Detections,
    GroundTruths,
    distinct_labels,
    place_of_labels,
)
from reid_torchmetrics.functional.detection.matching import AreaRanges, Matches, find_pairs, merge_matches
from reid_torchmetrics.functional.result_cache import ResultCache

Group = tuple[int | str, int]
"""image, by number or name, and class"""
Result = TypeVar("Result")
Objects = TypeVar("Objects", Detections, GroundTruths)

ACROSS_CLASSES = "ObjectPairs"
"""the part with the overlaps of detections and ground truths of different classes"""
_METRIC_FIELDS = ("grid", "evaluator", "max_bytes")  # fields of a request that follow from options of the metric


class Overlaps(NamedTuple):
    """Intersection over union of every detection with every ground truth of its image and class."""

    groups: Tensor
    """number of the image, label, number of detections, number of ground truths: int64 [groups, 4]"""
    values: Tensor
    """float32, group after group, and in a group ground truth after ground truth"""

    @classmethod
    def of(cls, detections: Detections, ground_truths: GroundTruths, *, most: int, max_bytes: int | None) -> Overlaps:
        """Compute the overlaps of the `most` detections with the highest scores in each image and class."""
        # Every pair overlaps by at least 0, so the pairs of a group are a whole matrix, ground truth by ground truth.
        pairs = find_pairs(detections, ground_truths, at_least=0.0, most=most, max_bytes=max_bytes)

        # A group is an image and class with detections or ground truths.
        classes = distinct_labels(detections.labels, ground_truths.labels)
        num_classes = max(len(classes), 1)
        keys = [
            objects.images.long() * num_classes + place_of_labels(objects.labels, classes)
            for objects in (detections, ground_truths)
        ]
        groups, group_index = torch.cat(keys).unique(return_inverse=True)
        detection_groups, ground_truth_groups = group_index.split([len(keys[0]), len(keys[1])])
        num_detections = detection_groups.bincount(minlength=len(groups)).clamp(max=most)
        num_ground_truths = ground_truth_groups.bincount(minlength=len(groups))
        columns = [groups // num_classes, classes[groups % num_classes], num_detections, num_ground_truths]
        return cls(torch.stack(columns, 1), pairs.iou.float())

    @staticmethod
    def matrices(parts: Sequence[Overlaps], image_ids: Sequence[int | str], classes: Tensor) -> dict[Group, Tensor]:
        """Return a matrix [detections, ground truths] for every image and class, detections by descending score.

        Args:
            parts: the overlaps of each process.
            image_ids: id of each image, by its number.
            classes: all labels.
        """
        empty = parts[0].values[:0].view(0, 0)
        matrices = dict.fromkeys(product(image_ids, classes.tolist()), empty)
        for part in parts:
            groups = part.groups.tolist()
            sizes = [num_detections * num_ground_truths for _, _, num_detections, num_ground_truths in groups]
            for group, block in zip(groups, part.values.split(sizes), strict=True):
                image, label, num_detections, num_ground_truths = group
                matrices[image_ids[image], label] = block.view(num_ground_truths, num_detections).T
        return matrices


class MatchPart(ABC):
    """Values that a task needs of the objects of all images; a dataclass of tensors and numbers.

    Each process computes its part, sends it as a list of tensors, and merges the parts of all processes.
    """

    @classmethod
    @abstractmethod
    def of_matches(
        cls, request: Any, detections: Any, ground_truths: Any, matches: Any, is_difficult: Tensor | None
    ) -> Any:
        """Compute the part of this process, see `MatchRequest.run`."""

    @abstractmethod
    def to_tensors(self) -> list[Tensor]:
        """Return the tensors that the other processes need."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: Sequence[Tensor]) -> Any:
        """Make the part from the result of `to_tensors`."""

    @classmethod
    @abstractmethod
    def merge(cls, parts: Sequence[Any]) -> Any:
        """Merge the parts of all processes; no image is in two parts."""

    @abstractmethod
    def check(self) -> Mapping[str, Tensor]:
        """Raise unless a part from a file can be used, and return its columns with numbers of images, by name."""


def check_fractions(name: str, values: Tensor) -> None:
    """Raise unless all values are in [0, 1], except for rounding."""
    if not bool(((values >= 0) & (values <= 1 + 1e-9)).all()):
        raise ValueError(f"`{name}` must lie in [0, 1]; got {values.min()} to {values.max()}.")


MATCH_PARTS: Registry[type[MatchPart]] = Registry("MATCH_PARTS", {})
"""the classes of parts by name, as in files of results"""


class Origins(NamedTuple):
    """The users' labels of detections, and the ground truths that count."""

    labels: Int[Tensor, " detections"]
    """labels of the matched detections, also if one class stands for all"""
    positives: Int[Tensor, "positives 3"]
    """ground truths that count in some area range: number of the image, label, and the ranges, bit 0 for the first"""


@dataclass(frozen=True)
class MatchRequest:
    """Options of the matching of images, and what to compute besides the matches."""

    grid: CocoGrid
    evaluator: Evaluator
    """with the options of its matching"""
    max_bytes: int | None
    with_overlaps: bool = False
    """whether to compute all overlaps"""
    with_origins: bool = False
    """whether to note the ground truth of each detection, the places of both in their image, and `Origins`"""
    across_classes: bool = False
    """whether to pair detections and ground truths of different classes that overlap"""
    localization: bool = False
    """whether to note the overlap of each detection with its ground truth"""

    def of_results(self, *, across_classes: bool = False, localization: bool = False) -> MatchRequest:
        """Return the request for results with the same matches."""
        _checks.boolean("across_classes", across_classes)
        _checks.boolean("localization", localization)
        return replace(self, with_origins=True, across_classes=across_classes, localization=localization)

    @property
    def iou_type(self) -> str:
        """The shapes to match; "bbox" also stands for packed shapes of a user."""
        return self.grid.iou_type or "bbox"

    @property
    def micro(self) -> bool:
        """Whether all labels are one class, 0."""
        return self.grid.average == "micro"

    @property
    def is_aggregate_only(self) -> bool:
        """Whether nothing about single images is requested."""
        return not (self.with_overlaps or self.with_origins)

    @property
    def sent_fields(self) -> list[str]:
        """Names of the fields of `Matches` that are sent."""
        omitted = [] if self.with_origins else ["rows", "ground_truths"]  # they are read only with origins
        if not self.localization:
            omitted.append("overlaps")
        return [field.name for field in fields(Matches) if field.name not in omitted]

    def settings_text(self) -> dict[str, str]:
        """Return the settings that decide the number and form of the matches, besides the options of the metric."""
        settings = {"iou_type": repr(self.iou_type)}
        for name, value in vars(self).items():
            if name not in _METRIC_FIELDS:
                settings[name] = repr(value)
        return settings

    def run(
        self,
        detections: Detections,
        ground_truths: GroundTruths,
        *,
        classes: _checks.Integers | Tensor | None = None,
        **options: Any,
    ) -> ImageMatches:
        """Match the objects of a process.

        Args:
            detections: detections in all images of the process.
            ground_truths: ground truths in all images of the process.
            classes: labels to match, for COCO's evaluator; None for all labels.
            options: options of the evaluator's `match` from `EXTRAS`, such as `is_difficult`.
        """
        # With "micro" the matching sees one class, while users see their own labels.
        to_match = (detections, ground_truths)
        if self.micro:
            to_match = (detections.as_one_class(), ground_truths.as_one_class())
        is_difficult: Bool[Tensor, " ground_truths"] | None = options.get("is_difficult")
        if classes is not None:
            options["classes"] = classes
        matches = self.evaluator.match(
            *to_match,
            self.grid,
            keep_ground_truths=self.with_origins or self.localization,
            max_bytes=self.max_bytes,
            **own_options(self.evaluator),
            **options,
        )
        if self.localization:
            matches = replace(matches, overlaps=self._overlaps_of(matches, *to_match))
        labels = distinct_labels(detections.labels, ground_truths.labels) if self.micro else matches.classes
        answer = ImageMatches(self, labels, matches)
        if self.with_overlaps:
            most = self.grid.max_detection_thresholds[-1]
            answer = replace(answer, overlaps=(Overlaps.of(*to_match, most=most, max_bytes=self.max_bytes),))

        if not self.with_origins:
            return answer.within_classes()

        # Users identify an object by its place in its image.
        places = segments.ranks(detections.images)
        true_places = segments.ranks(ground_truths.images)
        excluded = [is_difficult]
        if classes is not None:
            excluded.append(~torch.isin(ground_truths.labels.long(), matches.classes))
        origins = Origins(
            labels=detections.labels.index_select(0, matches.rows).long(),
            positives=self._positives(to_match[1], excluded),
        )
        answer = replace(answer, matches=matches.with_rows(places, true_places), origins=origins)
        if self.across_classes:
            part = MATCH_PARTS[ACROSS_CLASSES].of_matches(self, detections, ground_truths, matches, is_difficult)
            answer = replace(answer, objects=part)
        return answer.within_classes()

    def _overlaps_of(self, matches: Matches, detections: Detections, ground_truths: GroundTruths) -> Tensor:
        """Return the overlap of each matched detection with its ground truth; crowds count like other ground truths."""
        assert matches.ground_truths is not None  # noqa: S101 - they were requested
        shapes = self.with_edges(detections).shapes
        true_shapes = self.with_edges(ground_truths).shapes
        is_matched = matches.ground_truths >= 0
        rows = matches.rows[matches.columns].expand(matches.matched.shape)
        overlaps = torch.zeros(matches.matched.shape, dtype=torch.float64, device=rows.device)
        overlaps[is_matched] = shapes.overlaps(rows[is_matched], true_shapes, matches.ground_truths[is_matched])
        return overlaps

    def _positives(self, ground_truths: GroundTruths, excluded: Sequence[Tensor | None]) -> Tensor:
        """Return `Origins.positives`: no crowds, none of the masks in `excluded`, and for LVIS none without area."""
        areas = ground_truths.range_areas()
        ranges = AreaRanges.of(tuple(self.grid.area_ranges.values()), areas.device)
        bits = ranges.bits(areas).long()
        masks = [ground_truths.is_crowd, *excluded]
        if self.evaluator.is_federated:
            masks.append(areas <= 0)
        for mask in masks:
            if mask is not None:
                bits = bits.masked_fill(mask, 0)
        columns = [ground_truths.images.long(), ground_truths.labels.long(), bits]
        return torch.stack(columns, dim=1)[bits > 0]

    def with_edges(self, objects: Objects) -> Objects:
        """Return the objects with the edges that the evaluator counts."""
        if self.evaluator.with_edges is None:
            return objects
        return objects.with_columns(boxes=self.evaluator.with_edges(self.evaluator, objects.shapes))


@dataclass(frozen=True)
class ImageMatches:
    """The matches of the images of one process, or of all; they are shared, so they must not be written to."""

    request: MatchRequest
    labels: Tensor
    """all labels that occur, ascending, int64"""
    matches: Matches
    overlaps: tuple[Overlaps, ...] = ()
    """overlaps of each process, if requested"""
    origins: Origins | None = None
    """if requested"""
    objects: MatchPart | None = None
    """pairs across classes, with the matched detections and the users' labels, if requested"""
    ids: Tensor | None = None
    """the `image_id` of each image of all processes, by number; None for a part, and for aggregates only"""
    names: tuple[str, ...] | None = None
    """names of the images by number, if they have names"""
    num_repeated: int = 0
    """number of images of this process that do not count, because an image with their `image_id` came before"""
    num_extra_rows: Sequence[int] = ()
    """numbers of rows of all processes in the states of `EXTRAS` that the evaluation uses"""
    fingerprints: Sequence[Tensor] = ()
    """fingerprints of the ground truths of each image, by process; none for images with ids, or one process"""
    _values: dict[Hashable, Any] = field(default_factory=dict)

    def to_tensors(self) -> list[Tensor]:
        """Return the tensors that the other processes need, in the order of the fields."""
        columns = {name: getattr(self.matches, name) for name in self.request.sent_fields}
        # Detections are sorted by class, so the number of detections in each class determines the class of each one.
        columns["class_index"] = self.matches.class_index.bincount(minlength=len(self.matches.classes))
        tensors = [self.labels, *columns.values()]
        for part in self.overlaps:
            tensors += part
        if self.origins is not None:
            tensors += self.origins
        if self.objects is not None:
            tensors += self.objects.to_tensors()
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Sequence[Tensor], request: MatchRequest) -> ImageMatches:
        """Return the matches from the tensors of `to_tensors`: its inverse."""
        rest = deque(tensors)
        labels = rest.popleft()
        columns = {name: rest.popleft() for name in request.sent_fields}
        columns["class_index"] = segments.numbers(columns["class_index"], len(columns["scores"])).int()
        columns.setdefault("rows", columns["images"])
        image_matches = cls(request, labels, Matches(**columns))
        if request.with_overlaps:
            image_matches = replace(image_matches, overlaps=(Overlaps(rest.popleft(), rest.popleft()),))
        if request.with_origins:
            image_matches = replace(image_matches, origins=Origins(rest.popleft(), rest.popleft()))
        if request.across_classes:
            part = MATCH_PARTS[ACROSS_CLASSES].from_tensors(list(rest))
            image_matches = replace(image_matches, objects=part)
        return image_matches

    def within_classes(self) -> ImageMatches:
        """Leave out the detections beyond the limit per class in all images, if there is such a limit."""
        grid = self.request.grid
        if grid.limited != "class":
            return self
        matches = self.matches.first_of_classes(max(grid.max_detection_thresholds))
        origins = self.origins
        if origins is not None:
            origins = origins._replace(labels=matches.classes[matches.class_index.long()])
        return replace(self, matches=matches, origins=origins)

    def averages(self, rule: str, confidence: float | None = None) -> ClassAverages:
        """Return the numbers of every class."""
        request = self.request

        def average() -> ClassAverages:
            return request.evaluator.average(self.matches, request.grid, rule=rule, confidence=confidence)

        return self.remember(("averages", rule, confidence), average)

    def once(self, compute: Callable[..., Result], *args: Hashable, **options: Hashable) -> Result:
        """Return the value of a function of the matches and of further arguments; it is computed once."""
        return self.remember((compute, args, *options.items()), lambda: compute(self.matches, *args, **options))

    def remember(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return the value under a key; compute it first if there is none. It may depend on images and request only."""
        if key not in self._values:
            self._values[key] = compute()
        value: Result = self._values[key]
        return value


def merge_image_matches(parts: Sequence[ImageMatches]) -> ImageMatches:
    """Merge the matches of several processes."""
    if len(parts) == 1:
        return parts[0]

    # Each image is on one process, so only the order of detections changes: number them through, then merge.
    rows = torch.cat([part.matches.rows for part in parts])
    numbers = torch.arange(len(rows), device=rows.device).split([len(part.matches.rows) for part in parts])
    numbered = [replace(part.matches, rows=number) for part, number in zip(parts, numbers, strict=True)]
    matches = merge_matches(numbered)

    overlaps: list[Overlaps] = []
    for part in parts:
        overlaps += part.overlaps
    all_origins = [part.origins for part in parts if part.origins is not None]
    objects = [part.objects for part in parts if part.objects is not None]
    origins = None
    if all_origins:
        labels = torch.cat([part.labels for part in all_origins])
        positives = torch.cat([part.positives for part in all_origins])
        origins = Origins(labels.index_select(0, matches.rows), positives)
    return ImageMatches(
        parts[0].request,
        labels=distinct_labels(*(part.labels for part in parts)),
        matches=replace(matches, rows=rows.index_select(0, matches.rows)),
        overlaps=tuple(overlaps),
        origins=origins,
        objects=MATCH_PARTS[ACROSS_CLASSES].merge(objects) if objects else None,
    ).within_classes()


matchings: ResultCache[ImageMatches] = ResultCache("detection_counts")
