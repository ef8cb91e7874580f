"""The base class of detection metrics: `update` stores images with boxes, `compute` matches them.

A subclass requests its matches and computes its value from them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torchmetrics import Metric

from reid_torchmetrics import _checks, _names
from reid_torchmetrics._arrays import compute_device
from reid_torchmetrics._extras import require
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.detection import batches, evaluation, evaluators, inputs
from reid_torchmetrics.functional.world import images_given, results_made
from reid_torchmetrics.metrics import base

from .coco_files import CocoFiles

_NOT_SCRIPTED = ("_computed", "_forward_cache", "_shape_types", "_given")
_ARGUMENTS_WITHOUT_EFFECT = {"backend", "keep_shapes", "max_bytes"}  # they do not change the value of `compute`

Result = TypeVar("Result")


class BoxOptions(base.MetricOptions, total=False):
    """Options of all metrics of boxes."""

    class_names: Mapping[int, str] | Sequence[str] | None
    invalid: _names.InvalidAction
    max_bytes: int | None


explicit_signature = base.explicit_signature(BoxOptions, {"invalid": "count", "max_bytes": None})


class BoxMetric(base.GrowingStates, CocoFiles):
    """Base class of the metrics for detected boxes: `update` only checks a batch of images and stores it.

    With several processes, each process keeps and matches its images, and sends its matches to the other processes. The
    value is the same on all processes; all must call `compute`.
    """

    higher_is_better = True

    # A script has no type for the last value: a dict of numbers and grids.
    __jit_ignored_attributes__: ClassVar[list[str]] = [*Metric.__jit_ignored_attributes__, *_NOT_SCRIPTED]

    warn_on_many_detections = True
    """whether `update` warns about images with more detections than the largest limit"""

    _identity_state = "detection_counts"

    _collection_options: ClassVar[tuple[tuple[str, str], ...]] = ()
    """options of the collection that has this metric, as text: all processes must share them"""

    _names_collection_options: ClassVar[tuple[str, ...] | None] = None
    """names of the numbers in the collection that has this metric"""

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
        # Subclasses check their own options.
        _checks.one_of("box_format", box_format, inputs.BOX_FORMATS)
        _checks.cutoff("max_bytes", max_bytes)
        _checks.one_of("invalid", invalid, _names.InvalidAction)
        self.box_format = box_format
        self.invalid = invalid
        self.max_bytes = max_bytes
        self.num_dropped = 0
        self.num_invalid = 0
        self.class_metrics = base.python_bool("class_metrics", class_metrics)
        self.class_names = evaluation.named_classes(class_names)
        self.iou_type = inputs.checked_iou_type(iou_type)
        self.rule = ""
        # Not annotated in the class, because a script has no such types.
        self.metric: str | None = None
        self.confidence: float | None = None
        self._single: evaluation.SingleValue | None = None
        self._given: dict[str, Any] = {}
        self._notes_images = True
        shapes = inputs.shape_types(self.iou_type, sigmas)
        if shapes:  # a script of the metric has no type for this attribute
            self._shape_types = shapes
        self._add_growing_states(batches.empty_states(shapes, self._extra_keys()))

    @abstractmethod
    def _grid(self, iou_type: Any = None) -> inputs.CocoGrid:
        """Return the grid of the matches of an `iou_type`, by default of the first."""

    def _request(self, iou_type: str | None = None, **changes: Any) -> evaluation.MatchRequest:
        """Return a request for the matches of all images, by default for the first `iou_type`; `changes` are fields."""
        return evaluation.MatchRequest(
            grid=self._grid(iou_type),
            evaluator=self._evaluator(),
            max_bytes=self.max_bytes,
            **changes,
        )

    def _evaluator(self) -> evaluators.Evaluator:
        """Return the evaluator with the options of its matching."""
        return evaluators.EVALUATORS[self._row]

    def _extra_keys(self) -> tuple[str, ...]:
        """Return the keys of `target` that only this evaluator reads."""
        return evaluators.EVALUATORS[self._row].extras

    def _update_options(self) -> tuple[object, ...]:
        format_of_valid = None if self.invalid == "count" else self.box_format  # boxes are converted in `compute`
        return self.invalid, format_of_valid, self.iou_type, vars(self).get("sigmas"), self._keeps_shapes

    @base.explain_bad_call
    def update(self, preds: Sequence[Mapping[str, Any]], target: Sequence[Mapping[str, Any]]) -> None:
        """Check and store a batch of images.

        NumPy arrays and lists of numbers may take the place of tensors; they go to the device of the first tensor. An
        image without boxes has tensors without entries, of any dtype.

        Other shapes than boxes need further keys in `preds` and `target`, and `boxes` only if "bbox" is evaluated, too.
        The overlaps of these shapes are computed at once, and the shapes are dropped.

        - "segm": `masks`, bool or integers [boxes, height, width], or a list of COCO's dicts of `size` and `counts`.
        - "keypoints": `keypoints` [boxes, keypoints, 3], x, y and visibility.
        - "rotated": `rotated_boxes` [boxes, 5], center, width, height and angle in radians, or [boxes, 8] or
          [boxes, 4, 2], x and y of the four corners in clockwise or counterclockwise order. Edges must not cross.

        Args:
            preds: for each image a dict of `boxes` [detections, 4], `scores` [detections], float, and `labels`
                [detections], int. It may also have `detection_area` [detections], for the area ranges, in place of the
                area of the shape; in all images or in none.
            target: for each image a dict of `boxes` [ground truths, 4] and `labels` [ground truths], int. It may also
                have `iscrowd` [ground truths], 1 for a region with many objects and 0 otherwise; `area`
                [ground truths], for the area ranges: where it is not positive, the area of the mask counts, or width
                times height; and `image_id`, an int, a tensor with one int, or a str: the number or the name of the
                image in its data set, of one kind for all images, or None for all images. Floats that are whole numbers
                count as ints, paths as their `str`. Of images with the same `image_id` the first counts; `compute`
                raises a ValueError if their ground truths differ, because then they are not repetitions, and warns once
                if a process got them again with other detections. `orig_size`, height and width of the image, changes
                no number: by it the diagnosis recognizes boxes of resized images.

        Raises:
            TypeError: an argument of the wrong type or dtype.
            ValueError: keys, shapes, devices or values that do not fit; nothing of the batch is stored then.
        """
        # With several processes, `compute` raises the error of one process on all.
        with self._deferring_errors():
            batch = batches.pack_images(
                preds,
                target,
                self._shape_types,
                self.box_format,
                self.device,
                has_boxes="bbox" in self.iou_type,
                invalid=self.invalid,
                extras=self._extra_keys(),
                keeps=self._keeps_shapes,
            )
            states = self._current_states()
            if batch.states and states["detection_counts"]:
                batches.check_kind(batch.states, states)
            self._warn_about(batch)

        # Nothing can fail from here on: a batch is stored as a whole or not at all.
        self.num_dropped += batch.num_dropped
        self.num_invalid += batch.num_invalid
        self._append(batch.states)
        if batch.given is not None and self._notes_images:
            images_given(self._given, batch.given)

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the images of another metric with the same box format.

        Raises:
            ValueError: another `box_format`, `iou_type` or `keep_shapes`.
        """
        if not isinstance(incoming_state, BoxMetric):
            super().merge_state(incoming_state)
            return
        # Boxes are stored in the format of `update`, so both metrics must have the same one.
        _checks.one_of("box_format", incoming_state.box_format, (self.box_format,))
        if set(incoming_state.iou_type) != set(self.iou_type):
            raise ValueError(f"`iou_type` must be {self.iou_type} in both metrics; got {incoming_state.iou_type}.")
        keeps_shapes = self._keeps_shapes
        if hasattr(incoming_state, "shape_bytes") != keeps_shapes:
            raise ValueError(f"`keep_shapes` must be {keeps_shapes} in both metrics; got {not keeps_shapes}.")
        super().merge_state(incoming_state)
        self.num_dropped += incoming_state.num_dropped
        self.num_invalid += incoming_state.num_invalid

    def reset(self) -> None:
        """Forget all images and the numbers of dropped and invalid boxes."""
        if self._states_before_forward is None:  # not a reset by `forward`
            self.num_dropped = 0
            self.num_invalid = 0
            self._given.clear()
        super().reset()

    def _warn_about(self, batch: batches.Batch) -> None:
        """Warn about images with too many detections, and about boxes that were dropped or are invalid."""
        limits = vars(self).get("max_detection_thresholds")  # not every evaluator has limits
        if self.warn_on_many_detections and limits and batch.most_detections > limits[-1]:
            self._warn("many detections", batches.text_of_many(limits[-1]))
        if batch.num_dropped or batch.num_invalid:
            text = batches.text_of_warning(batch.num_dropped, batch.num_invalid, self._shape_types)
            self._warning_log().warn_once("invalid", text)

    def _match_requests(self) -> list[evaluation.MatchRequest]:
        """Return the requests for the matches of `compute`, in order."""
        return [self._request()]

    def _value(self) -> dict[str, Any] | Tensor:
        """Return the value of `compute`: one number if the metric has a `metric`, else all numbers."""
        return self._run_on_worker(self._compute_value, is_copied=True)

    def _compute_value(self) -> dict[str, Any] | Tensor:
        images = self._evaluated_images()
        matches = [images.sharded.match(request) for request in self._match_requests()]
        if self._single is None:
            value: dict[str, Any] | Tensor = self._values(matches)
        else:
            value = self._rounded(self._single.of(matches[0], rule=self.rule, confidence=self.confidence))
        if self._states_before_forward is None:  # the diagnosis does not look at single batches of `forward`
            for image_matches in matches[: len(self.iou_type)]:
                results_made(image_matches, images, images.sharded.world)
        return value

    @abstractmethod
    def _values(self, matches: Sequence[evaluation.ImageMatches]) -> dict[str, Any]:
        """Return all numbers by name, given the matches for `_match_requests`."""

    def _evaluated_images(self) -> evaluation.EvaluatedImages:
        """Return the images of all processes, with the notes of the diagnosis and the names of requested numbers."""
        names = self._names_collection_options
        if names is None and self.metric is not None:
            names = (self.metric,)
        return evaluation.EvaluatedImages(self._sharded(), self._given, names)

    def _sharded(self) -> evaluation.ShardedImages:
        states = self._copy_state_dict()
        del states["_update_key"]  # metrics with other options share the matches of equal images
        return evaluation.ShardedImages(
            world=self._world,
            states=states,
            # The device of the images, or the CPU if that device has no float64.
            device=compute_device(self._device_of_images()),
            box_format=self.box_format,
            owner=type(self).__name__,
            options=self._option_texts,
            extras=self._extra_keys(),
            accept=self._raise_deferred_error,
        )

    def _device_of_images(self) -> torch.device:
        counts = vars(self)["detection_counts"]
        return counts[-1].device if counts else self.device

    def _run_on_worker(self, work: Callable[[], Result], *, is_copied: bool = False) -> Result:
        """Run work on a thread of `workers` if images are on the CPU and there is only one process.

        A result that is copied is computed in inference mode, where every operation takes less time.
        """
        device = self._device_of_images()
        if device.type != "cpu" or (self._processes is not None and self._processes.size > 1):
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
        """Return all results in float64: numbers, curves, tables, and the ground truth of each detection.

        The results are the same on all processes; all must call this method. By default they hold neither boxes nor
        overlaps.

        Args:
            iou_type: one of the metric's types; None for the first.
            across_classes: whether the results hold the pairs of boxes, of any classes, that overlap by 0.1 or more in
                an image, 24 bytes a pair: `results.confusion_matrix()` and `results.error_breakdown()` need them.
            boxes: whether the results hold all boxes, for `results.detections()` and `results.boxes_of(images)`.
            localization: whether the results hold the overlap of each match, for `results.localization_errors()`.

        Raises:
            DistributedMetricError: see `compute`.
            TypeError: an argument of the wrong type.
            ValueError: an `iou_type` that the metric does not have.
        """

        def evaluate() -> evaluation.DetectionResults:
            if iou_type is not None:
                _checks.one_of("iou_type", iou_type, self.iou_type)
            _checks.boolean("boxes", boxes)
            request = self._request(iou_type).of_results(across_classes=across_classes, localization=localization)
            (results,) = evaluation.match_shards(
                self._evaluated_images(),
                [request],
                rule=self.rule,
                confidence=self.confidence,
                class_names=self.class_names,
                boxes=boxes,
            )
            return results

        with self._synced():
            return self._run_on_worker(evaluate)

    def boxes_of(self, image: evaluation.ImageIds) -> evaluation.ImageDicts:
        """Return the detections and the ground truths of some images, held by any process, for drawing.

        The dicts are the same on all processes; all must call this method, with the same images. Boxes are in the
        metric's `box_format`, rotated boxes are corners, `rotated_boxes` [objects, 8]. `draw_box_grid` takes the dicts.

        Args:
            image: int [N], the `image_id` of each image, or its number if images have no ids, such as
                `results().worst_images(9).image`; for images with names also their numbers, or a list of names.

        Raises:
            DistributedMetricError: on all processes, if one of them failed or refused a batch, or if they do not hold
                the same metric or ask for other images.
            TypeError: `image` is neither an integer tensor nor a list of names.
            ValueError: an image that was not given to `update`.
        """
        with self._synced():
            dicts: evaluation.ImageDicts = evaluation.RESULT_METHODS["boxes_of_metric"](self._sharded(), image)
            return dicts

    def _option_texts(self) -> dict[str, str]:
        """Return the options that decide the value, as text."""
        texts = {}
        for name in base.arguments_of(type(self)):
            if name not in _ARGUMENTS_WITHOUT_EFFECT:
                texts[name] = repr(getattr(self, name))
        texts.update(self._collection_options)
        return texts

    def _rounded(self, values: Tensor) -> Tensor:
        return values.to(self.device, torch.float32)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot the values that are one number, or several results over time; it needs Matplotlib."""
        require("A figure", "matplotlib")
        if val is None:
            val = self.compute()
        if isinstance(val, Sequence):
            return self._plot(list(map(self._numbers, val)), ax)
        return self._plot(self._numbers(val), ax)

    @abstractmethod
    def _numbers(self, value: Any) -> Any:
        """Return the entries of a computed value that are one number."""
