"""The base of detection metrics: `update` stores images with boxes, `compute` matches them.

A subclass makes the request for its matches, and the value of `compute` from them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torchmetrics import Metric

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import compute_device
from reid_torchmetrics._extras import require
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection import advice, batches, evaluation, evaluators, inputs
from reid_torchmetrics.metrics import base

from .coco_files import CocoFiles

_NOT_SCRIPTED = ("_computed", "_forward_cache", "_shape_types", "_notes")
_NOT_DECISIVE = {"backend", "keep_shapes", "max_bytes"}  # arguments that do not change what `compute` gives

Result = TypeVar("Result")


class BoxOptions(base.MetricOptions, total=False):
    """Options of all metrics of boxes."""

    class_names: Mapping[int, str] | Sequence[str] | None
    invalid: _names.InvalidAction
    max_bytes: int | None


explicit_signature = base.explicit_signature(BoxOptions, {"invalid": "count", "max_bytes": None})


class BoxMetric(base.GrowingStates, CocoFiles):
    """Base of the metrics of detected boxes: `update` only checks a batch of images and stores it.

    On several processes each keeps and matches the images that it was given, and tells the others which of its
    detections are right. The value is the same on all processes; all must call `compute`.
    """

    higher_is_better = True

    # A script has no type for a dict of numbers and grids, which is what was computed last.
    __jit_ignored_attributes__: ClassVar[list[str]] = [*Metric.__jit_ignored_attributes__, *_NOT_SCRIPTED]

    warn_on_many_detections = True
    """whether `update` warns of images with more detections than the largest limit"""

    _identity_state = "detection_counts"

    _collection_options: ClassVar[tuple[tuple[str, str], ...]] = ()
    """options of the collection that it is in, as text: all processes must share them"""

    _names_collection_options: ClassVar[tuple[str, ...] | None] = None
    """names of the numbers of the collection that it is in"""

    def __init__(
        self,
        box_format: _names.BoxFormat,
        *,
        class_metrics: bool,
        iou_type: str | Sequence[str] = "bbox",
        sigmas: Sequence[float] | None = None,
        class_names: Mapping[int, str] | Sequence[str] | None = None,
        invalid: _names.InvalidAction = "count",
        max_bytes: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Options of all metrics of boxes; subclasses check their own.
        _checks.one_of("box_format", box_format, inputs.BOX_FORMATS)
        _checks.cutoff("max_bytes", max_bytes)
        _checks.one_of("invalid", invalid, _names.InvalidAction)
        self.box_format, self.invalid, self.max_bytes = box_format, invalid, max_bytes
        self.num_dropped = self.num_invalid = 0
        self.class_metrics = base.python_bool("class_metrics", class_metrics)
        self.class_names = evaluation.named_classes(class_names)
        self.iou_type = inputs.checked_iou_type(iou_type)
        self.rule = ""
        # Not annotated in the class: a script would have to know these types.
        self.metric: str | None = None
        self.confidence: float | None = None
        self._single: evaluation.SingleValue | None = None
        self._notes = advice.BatchNotes()
        shapes = inputs.shape_types(self.iou_type, sigmas)
        if shapes:  # without shapes a script of the metric has no attribute to know
            self._shape_types = shapes
        self._add_growing_states(batches.empty_states([*shapes], evaluators.EVALUATORS[self._row].extras))

    @abstractmethod
    def _grid(self) -> inputs.CocoGrid:
        """The thresholds, limits and area ranges of the matches."""

    def _request(self, iou_type: str | None = None, **changes: Any) -> evaluation.MatchRequest:
        """The matches of all images, without any of single images; None for the first type of overlaps."""
        shapes = iou_type or self.iou_type[0]
        return evaluation.MatchRequest(self._grid(), self._evaluator(), self.max_bytes, shapes, **changes)

    def _evaluator(self) -> evaluators.Evaluator:
        """The evaluator with the options of its matching."""
        return evaluators.EVALUATORS[self._row]

    @base.explain_bad_call
    def update(self, preds: Sequence[Mapping[str, Any]], target: Sequence[Mapping[str, Any]]) -> None:
        """Check and store a batch of images.

        NumPy arrays and lists of numbers are taken like tensors, and go to the device of the first tensor.

        Images without boxes have tensors without entries, of any dtype. Where masks are evaluated, both sides have
        `masks`, bool or integers [boxes, height, width] or a list of COCO's dicts of `size` and `counts`; with
        "keypoints" both have `keypoints` [boxes, keypoints, 3], x, y and visibility; with "rotated" `rotated_boxes`
        [boxes, 5], center, width, height and angle in radians, or [boxes, 8] or [boxes, 4, 2], x and y of four corners
        in turn: left top, right top, right bottom, left bottom, or the other way round. Edges must not cross. Boxes
        are not needed then unless they are evaluated, too. Overlaps of the shapes are computed at once, and the shapes
        are dropped.

        Args:
            preds: for each image a dict of `boxes` [detections, 4], `scores` [detections], float, and `labels`
                [detections], int.
            target: for each image a dict of `boxes` [ground truths, 4] and `labels` [ground truths], int, and, where
                there are, `iscrowd` [ground truths], 1 for a region with many objects and 0 otherwise, `area`
                [ground truths], which decides on the area range, where it is not positive that of the mask, or width
                times height, and `image_id`, an int, a tensor of one or a str: the number or the name of the image in
                its data set, of one kind for all images, or for none. Whole floats count as ints, paths as their
                `str`, None as none. Of images with the same `image_id` the first
                counts; `compute` raises a ValueError if their ground truths differ, because then they are not
                repetitions, and warns once if a process was given them again with other detections. `orig_size`,
                height and width of the image, decides no number: with it advice knows boxes of resized images.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: keys, shapes, devices or values that do not fit; nothing of the batch is stored then.
        """
        # An error on one process of several is raised by `compute` on all.
        with self._deferring_errors():
            options: dict[str, Any] = {"invalid": self.invalid, "note": self._notes.note, "keeps": self._keeps_shapes}
            options |= {"extras": evaluators.EVALUATORS[self._row].extras, "has_boxes": "bbox" in self.iou_type}
            batch = batches.pack_images(preds, target, self._shape_types, self.box_format, self.device, **options)
            states = self._current_states()
            if batch.states and states["detection_counts"]:
                batches.check_kind(batch.states, states)
            self._warn_of(batch)
        # Nothing can fail from here on, so a batch is stored as a whole or not at all.
        self.num_dropped += batch.num_dropped
        self.num_invalid += batch.num_invalid
        self._append(batch.states)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the images of another metric with the same box format.

        Raises:
            ValueError: another `box_format`, `iou_type` or `keep_shapes`.
        """
        if not isinstance(incoming_state, BoxMetric):
            super().merge_state(incoming_state)
            return
        # Boxes are stored as they came, so both must mean the same by them.
        _checks.one_of("box_format", incoming_state.box_format, (self.box_format,))
        if {*incoming_state.iou_type} != {*self.iou_type}:
            raise ValueError(f"`iou_type` must be {self.iou_type} in both metrics; got {incoming_state.iou_type}.")
        keeps = self._keeps_shapes
        if hasattr(incoming_state, "shape_bytes") != keeps:
            raise ValueError(f"`keep_shapes` must be {keeps} in both metrics; got {not keeps}.")
        super().merge_state(incoming_state)
        self.num_dropped += incoming_state.num_dropped
        self.num_invalid += incoming_state.num_invalid

    def reset(self) -> None:
        """Forget all images, and how many boxes were dropped or invalid."""
        if self._states_before_forward is None:  # `forward` resets, too
            self.num_dropped = self.num_invalid = 0
            self._notes.reset()
        super().reset()

    def _warn_of(self, batch: batches.Batch) -> None:
        limits = vars(self).get("max_detection_thresholds")  # evaluators without limits look at all detections
        if self.warn_on_many_detections and limits and batch.most_detections > limits[-1]:
            self._warn("many detections", batches.text_of_many(limits[-1]))
        if batch.num_dropped or batch.num_invalid:
            what = "objects" if self._shape_types else "boxes"
            is_rotated = "rotated" in self.iou_type
            text = batches.text_of_warning(batch.num_dropped, batch.num_invalid, what, is_rotated=is_rotated)
            self._warning_log().warn_once("invalid", text)

    def _match_requests(self) -> list[evaluation.MatchRequest]:
        """The requests for the matches of `compute`, in order."""
        return [self._request()]

    def _value(self) -> dict[str, Any] | Tensor:
        """The value of `compute`: the single number that was asked for, or all."""

        def compute() -> dict[str, Any] | Tensor:
            matches = [self._match(request) for request in self._match_requests()]
            if self._single is None:
                value: dict[str, Any] | Tensor = self._values(matches)
            else:
                value = self._rounded(self._single.of(matches[0], rule=self.rule, confidence=self.confidence))
            self._advise(matches)
            return value

        return self._by_workers(compute, is_copied=True)

    @abstractmethod
    def _values(self, matches: Sequence[evaluation.ImageMatches]) -> dict[str, Any]:
        """All numbers by name, given the matches that were asked for."""

    def _match(
        self, request: evaluation.MatchRequest, asked: Mapping[str, str] = MappingProxyType({})
    ) -> evaluation.ImageMatches:
        """The matches of the images of all processes; see `ShardedImages.match`."""
        return self._sharded().match(request, asked)

    def _advise(self, matches: Sequence[evaluation.ImageMatches]) -> None:
        """Give advice on the images of all processes, though not on every batch of `forward`."""
        if self._states_before_forward is not None:
            return
        names = self._names_collection_options
        if names is None and self.metric is not None:
            names = (self.metric,)
        for each in matches:
            evaluation.advise_on_images(each, self._sharded(), self._notes, names)

    def _sharded(self) -> evaluation.ShardedImages:
        states, name = self._copy_state_dict(), type(self).__name__
        # The device of the images, or the CPU if it has no float64.
        device = compute_device(self._device_of_images())
        return evaluation.ShardedImages(
            self._world, states, device, self.box_format, name, self._option_texts, self._raise_deferred_error
        )

    def _device_of_images(self) -> torch.device:
        counts = vars(self)["detection_counts"]
        return counts[-1].device if counts else self.device

    def _by_workers(self, work: Callable[[], Result], *, is_copied: bool = False) -> Result:
        """Do work with images on the CPU on a thread of `workers`, if there are no other processes to talk to.

        If its result is copied, it is made in inference mode, in which every operation is shorter.
        """
        device = self._device_of_images()
        if device.type != "cpu" or self._world.size > 1:
            return work()
        with torch.inference_mode(is_copied or torch.is_inference_mode_enabled()):
            return workers.run(work, device)

    def results(
        self,
        iou_type: _names.IouType | None = None,
        *,
        across_classes: bool = False,
        boxes: bool = False,
        localization: bool = False,
    ) -> evaluation.DetectionResults:
        """All results in float64: numbers, curves, tables, and the ground truth of each detection.

        The same on all processes; all must ask. By default the results hold neither boxes nor overlaps.

        Args:
            iou_type: one of the metric's; None for the first.
            across_classes: whether they hold which boxes of an image overlap by 0.1 or more, whatever their classes,
                24 bytes a pair: `results.confusion_matrix()` and `results.error_breakdown()` are made of them.
            boxes: whether they hold all boxes, for `results.detections()` and `results.boxes_of(images)`.
            localization: whether they hold the overlap of each match, for `results.localization_errors()`.

        Raises:
            DistributedMetricError: see `compute`.
            TypeError: an argument of the wrong type.
            ValueError: an `iou_type` that is not the metric's.
        """

        def evaluate() -> evaluation.DetectionResults:
            if iou_type is not None:
                _checks.one_of("iou_type", iou_type, self.iou_type)
            _checks.boolean("boxes", boxes)
            # The matches of `compute`, and of each detection the ground truth that it took.
            request = self._request(iou_type).of_results(across_classes=across_classes, localization=localization)
            matches = self._match(request, {"boxes": repr(boxes)})
            options = {"class_names": self.class_names}
            all_boxes = self._sharded().boxes_of()[0] if boxes else None
            results = evaluation.make_results(matches, self.rule, self.confidence, boxes=all_boxes, **options)
            self._advise([matches])
            return results

        with self._synced():
            return self._by_workers(evaluate)

    def boxes_of(self, image: evaluation.Asked) -> evaluation.DictsOfSides:
        """The detections and the ground truths of some images of any process, to be drawn.

        The same on all processes; all must ask, for the same images. Boxes are in the metric's `box_format`, rotated
        ones are corners, `rotated_boxes` [objects, 8], and the dicts are input of `draw_box_grid`.

        Args:
            image: int [N], the `image_id` of each, or its number where there are none, such as
                `results().worst_images(9).image`; of images with names their numbers likewise, or a list of names.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric or ask for other images.
            TypeError: `image` is neither an integer tensor nor a list of names.
            ValueError: an image that was not given to `update`.
        """
        with self._synced():
            boxes, names = self._sharded().boxes_of(image)
            return evaluation.choose_boxes(image, boxes, names)

    def _option_texts(self) -> dict[str, str]:
        """The options that decide the value, as text."""
        arguments = base.arguments_of(type(self))
        texts = {name: repr(getattr(self, name)) for name in arguments if name not in _NOT_DECISIVE}
        return texts | dict(self._collection_options)

    def _rounded(self, values: Tensor) -> Tensor:
        return values.to(self.device, torch.float32)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the values that are one number, or several results over time; it needs Matplotlib."""
        require("A figure", "matplotlib")
        val = self.compute() if val is None else val
        return self._plot([*map(self._numbers, val)] if isinstance(val, Sequence) else self._numbers(val), ax)

    @abstractmethod
    def _numbers(self, value: Any) -> Any:
        """The entries of a computed value that are one number."""
