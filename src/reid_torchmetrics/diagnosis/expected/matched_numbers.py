"""Numbers of detection under other conventions: from matches, or from objects that are matched again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from reid_torchmetrics import _checks
from reid_torchmetrics.diagnosis.causes import NotHeldError
from reid_torchmetrics.functional.detection import DetectionResults
from reid_torchmetrics.functional.detection.batches import EXTRAS, ImageNumbering
from reid_torchmetrics.functional.detection.evaluation import (
    EvaluatedImages,
    EvaluatedObjects,
    ImageMatches,
    MatchRequest,
)
from reid_torchmetrics.functional.detection.evaluators import (
    AT_THRESHOLDS,
    EVALUATORS,
    ClassAverages,
    Evaluator,
    own_options,
)
from reid_torchmetrics.functional.detection.inputs import THRESHOLDS, CocoGrid
from reid_torchmetrics.functional.detection.matching import Matches
from reid_torchmetrics.functional.world import World
from reid_torchmetrics.tasks.operating_points import at_confidence

from .detection_changes import AVERAGE_CHANGES, INPUT_CHANGES, LEAST_SCORE, MatchedObjects
from .known import ABOVE_THRESHOLDS, DETECTION_CHANGES
from .match_measures import MATCH_MEASURES, MatchMeasure
from .rows import NO_OPTION, Numbers

_GRID = ("iou_thresholds", "rec_thresholds", "max_detection_thresholds", "area_ranges", "average")
_OF_ALL_EVALUATORS = {"iou_thresholds", "average"}
_MAPPINGS = {"area_ranges", "class_groups"}
_NONE_BY_DEFAULT = {*_GRID, "class_groups"} - {"average"}
_IN_ALL_RANGES = {"evaluator", "thresholds", "average"}
"""options under which numbers by size are asked for, too"""
_MOST_IN_PAIRS = 50_000  # detections; many pairs of changes need other matches
_HEADLINES = ("map", "map_50", "map_75")
"""the numbers under single changes, unless the user reports or asks for another; all conventions give further ones"""


class MatchedNumbers(Numbers):
    """Numbers from matches, and from the objects where this process has all of them."""

    changes = DETECTION_CHANGES

    def __init__(self, results: Any, samples: Any, world: World) -> None:
        """Take the matches under the user's options, and what they were computed from."""
        is_alone = world.size == 1  # others have a part of the images
        self._samples = samples if is_alone else None
        self._lacks = "images" if is_alone else "all images on one process"
        self.images = _image_matches(results, samples)
        self.tries_pairs = len(self.images.matches.scores) <= _MOST_IN_PAIRS
        request = self.images.request
        self.evaluator = request.evaluator
        self.grid = request.grid
        self.rule, self.confidence = _averaging_of(results, samples)
        self._matches: dict[Any, Matches] = {(*_match_key(request), ()): self.images.matches}
        self._images: dict[Any, ImageMatches] = {}
        self._values: dict[Any, dict[str, float]] = {}
        headlines = [*_HEADLINES, *(f"mar_{limit}" for limit in self.grid.max_detection_thresholds)]
        names = getattr(samples, "value_names", None) or headlines
        self.reports = tuple(name for name in names if name in self._numbers({}))

    @cached_property
    def objects(self) -> MatchedObjects | None:
        """The objects, where this process has all of them and they can be matched again."""
        objects = _objects_of(self._samples, self.images)
        if objects is None or self.evaluator.has_difficult or self.evaluator.is_federated:
            return objects
        labels = self.images.labels
        return objects if self.grid.average == "micro" else objects.of_classes(labels)

    def check_report(self, name: str) -> None:
        """Raise unless there is a number with a name."""
        _checks.one_of("measure", name, (*self._numbers({}), *MATCH_MEASURES))

    def other_reports(self) -> Iterator[Any]:
        """Yield the user's further numbers, those at other thresholds, and precision, recall and F1."""
        yield from self._numbers({})
        yield from MATCH_MEASURES.values()

    def differing(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that differ from the user's and have an effect on these objects."""
        differing: dict[str, Any] = {}
        for name, value in options.items():
            if value == self._own(name):
                continue
            if name == "max_detection_thresholds" and self._keep_as_many(value):
                continue
            change = INPUT_CHANGES.get(name)
            if change is None or self.objects is None or change.has_effect(self.objects, value):
                differing[name] = value
        if "evaluator" in differing:  # whose defaults are in the place of the user's options
            differing.update({name: value for name, value in options.items() if name not in INPUT_CHANGES})
        return differing

    def _keep_as_many(self, limits: Sequence[int]) -> bool:
        """Return whether the limits differ from the user's beyond the most detections of an image and class only."""
        objects = self.objects
        if objects is None or not self.evaluator.has_limits:
            return False
        own = self.grid.max_detection_thresholds
        most = objects.most_detections
        return [min(limit, most) for limit in limits] == [min(limit, most) for limit in own]

    def _own(self, name: str) -> Any:
        """Return the user's value of an option; None for what is no option."""
        if name == "thresholds":
            own = (self.grid.iou_thresholds, self.grid.rec_thresholds)
            names = [name for name, thresholds in THRESHOLDS.items() if tuple(map(tuple, own)) == thresholds]
            return names[0] if names else None
        return self._own_settings.get(name, (None, None))[0]

    def value(self, report: Any, options: Mapping[str, Any]) -> float:
        """Return a number under other options; NaN if there is none."""
        if isinstance(report, MatchMeasure):
            return report.value(self._matched(options).once(at_confidence, -math.inf))  # of all detections
        is_sized = any(report.endswith(f"_{name}") for name in (*self.grid.area_ranges, *self.grid.class_groups))
        if not is_sized:
            options = {name: value for name, value in options.items() if name != "area"}
            if options and options.keys().isdisjoint(_IN_ALL_RANGES):  # other ranges take time
                options["area_ranges"] = tuple(self.grid.area_ranges.items())[:1]
        numbers = self._numbers(options)
        if report not in numbers:
            raise ValueError(f"`measure` must be a number of the evaluator; got {report!r}.")
        return numbers[report]

    def _numbers(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return all numbers by name under other options."""
        key = tuple(sorted(options.items()))
        if key not in self._values:
            averages = self._averaged(options)
            means = averages.headline.nanmean(1).tolist()
            thresholds = averages.grid.iou_thresholds
            at_thresholds = {f"map_{round(100 * at)}": mean for at, mean in zip(thresholds, means, strict=True)}
            numbers = dict(zip(averages.value_names, averages.numbers().tolist(), strict=True))
            known = {name: value for name, value in numbers.items() if value != -1}
            self._values[key] = at_thresholds | known
        return self._values[key]

    def _averaged(self, options: Mapping[str, Any]) -> ClassAverages:
        """Return the averages of every class under other options, once for all options with the same effect."""
        images = self._matched(options)
        evaluator = images.request.evaluator
        rule, confidence = self._rule_and_confidence(options, evaluator)
        _checks.one_of("rule", rule, evaluator.rules)
        averages = images.averages(rule, confidence)
        for name, change in AVERAGE_CHANGES.items():
            if name in options:
                averages = change(images.matches, averages, options[name])
        return averages

    def _rule_and_confidence(self, options: Mapping[str, Any], evaluator: Evaluator) -> tuple[Any, float | None]:
        """Return the user's, or with another evaluator its own ones, unless the options have them."""
        is_own = "evaluator" not in options
        rule = options.get("rule", self.rule if is_own else evaluator.rule)
        if not evaluator.reports_confidence:
            return rule, None
        confidence = options.get("confidence", self.confidence if is_own else None)
        return rule, evaluator.confidence if confidence is None else confidence

    def _matched(self, options: Mapping[str, Any]) -> ImageMatches:
        """Match under other options, once for all with the same effect; leave out detections below the least score."""
        request = MatchRequest(self._grid(options), self._evaluator(options), self.images.request.max_bytes)
        changes = tuple((name, options[name]) for name in INPUT_CHANGES if name in options)
        least_score = options.get(LEAST_SCORE)
        key: tuple[Any, ...] = (*_match_key(request), changes)
        if key not in self._matches:
            in_all_ranges = replace(request, grid=replace(request.grid, area_ranges=self.grid.area_ranges))
            matches = self._matches.get((*_match_key(in_all_ranges), changes))
            if matches is not None:
                self._matches[key] = _in_first_range(matches)
            elif changes or request.evaluator.title != EVALUATORS["coco"].title:
                self._matches[key] = self._match_again(request, changes)
            else:
                self._match_all_thresholds(request)
        matches = self._matches[key]
        if least_score is not None:
            key = (*key, least_score)
            if key not in self._matches:
                self._matches[key] = _above(matches, least_score)
            matches = self._matches[key]
        key = (*key, tuple(request.grid.rec_thresholds))
        return self._images.setdefault(key, ImageMatches(request, matches.classes, matches))

    def _match_all_thresholds(self, request: MatchRequest) -> None:
        """Match at the thresholds of a request and all known ones at once, which takes little longer."""
        usual = [thresholds for thresholds, _ in THRESHOLDS.values()]
        sets = {tuple(thresholds) for thresholds in (request.grid.iou_thresholds, *usual, ABOVE_THRESHOLDS)}
        union = sorted(set().union(*sets))
        matches = self._match_again(replace(request, grid=replace(request.grid, iou_thresholds=union)), ())
        for thresholds in sets:
            places = list(map(union.index, thresholds))
            request = replace(request, grid=replace(request.grid, iou_thresholds=thresholds))
            columns = matches.map_columns(lambda values, places=places: values[:, places])  # type: ignore[misc]
            self._matches.setdefault((*_match_key(request), ()), columns)

    def _match_again(self, request: MatchRequest, changes: Sequence[tuple[str, Any]]) -> Matches:
        if self.objects is None:
            raise NotHeldError(self._lacks)
        objects = self.objects
        for name, value in changes:
            objects = INPUT_CHANGES[name].change(objects, value)
        extras: dict[str, Any] = {}
        if request.evaluator.has_difficult:
            extras["is_difficult"] = objects.is_difficult
        if request.evaluator.is_federated:
            if objects.lists is None:
                raise ValueError("`evaluator` must be one without lists of classes, which only LVIS' metric holds.")
            extras["lists"] = objects.lists
        return request.run(objects.detections, objects.ground_truths, **extras).matches

    def _evaluator(self, options: Mapping[str, Any]) -> Evaluator:
        evaluator = EVALUATORS[options["evaluator"]] if "evaluator" in options else self.evaluator
        iou_type = self.images.request.iou_type
        if evaluator.iou_types is not None:
            _checks.one_of("iou_type", iou_type, evaluator.iou_types)
        whole_pixels = options.get("whole_pixels", getattr(self.evaluator, "whole_pixels", None))
        if evaluator.with_options is None:
            return evaluator
        configured: Evaluator = evaluator.with_options(evaluator, iou_type, whole_pixels=whole_pixels)
        return configured

    def _grid(self, options: Mapping[str, Any]) -> CocoGrid:
        changes = {name: options[name] for name in _GRID if name in options}
        if "area_ranges" in changes:
            changes["area_ranges"] = dict(changes["area_ranges"])
        if "evaluator" in options:
            evaluator = EVALUATORS[options["evaluator"]]
            kept = {name: getattr(self.grid, name) for name in ("sigmas", "drops_invalid", "class_groups")}
            if evaluator.has_limits:
                kept["thresholds"] = options.get("thresholds")
            else:
                changes = {name: value for name, value in changes.items() if name in _OF_ALL_EVALUATORS}
            iou_thresholds = changes.pop(
                "iou_thresholds", None if "thresholds" in options else self.grid.iou_thresholds
            )
            iou_type: Any = self.images.request.iou_type
            return evaluator.grid(iou_thresholds, iou_type=iou_type, **kept, **changes)
        if "thresholds" in options:
            thresholds = dict(zip(("iou_thresholds", "rec_thresholds"), THRESHOLDS[options["thresholds"]], strict=True))
            changes = thresholds | changes
        return replace(self.grid, **changes)

    def call(self, report: Any, options: Mapping[str, Any]) -> str:
        """Return the line that computes a number here; `...` stands for the user's arguments."""
        if not {*INPUT_CHANGES, *AVERAGE_CHANGES, LEAST_SCORE}.isdisjoint(options):
            return NO_OPTION
        arguments = self._arguments(options)
        grid = self._grid(options)
        function = "DetectionMAP({}).results()"
        if grid.average == "macro":
            function = "evaluate_images({})"
            arguments.pop("average", None)
        elif "evaluator" in arguments or _name_of(self.evaluator) != "coco":
            return NO_OPTION
        results = function.format(", ".join(["...", *(f"{name}={value!r}" for name, value in arguments.items())]))
        if isinstance(report, MatchMeasure):
            return f"points = {results}.at_confidence(-math.inf); {report.call}"
        place = _place_of_threshold(report, grid)
        if place is not None and AT_THRESHOLDS.get(report) not in grid.iou_thresholds:
            return f"{results}.averages.headline[{place}].nanmean()"
        return f"{results}[{report!r}]"

    def _arguments(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that change the user's evaluation into another one; None for those to leave out."""
        arguments: dict[str, Any] = {}
        for name, (value, default) in self._settings(options).items():
            own_value, own_default = self._own_settings[name]
            if value == (default if own_value == own_default else own_value):
                continue
            if name in _NONE_BY_DEFAULT and value == default:
                arguments[name] = None
            else:
                arguments[name] = dict(value) if name in _MAPPINGS and value else value
        return arguments

    @cached_property
    def _own_settings(self) -> dict[str, tuple[Any, Any]]:
        return self._settings({})

    def _settings(self, options: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Return all options of an evaluation with the defaults of its evaluator; None for what it does not have."""
        evaluator: Any = self._evaluator(options)
        grid = self._grid(options)
        iou_type: Any = self.images.request.iou_type
        rule, confidence = self._rule_and_confidence(options, evaluator)
        settings = {
            "evaluator": (options.get("evaluator", _name_of(self.evaluator)), "coco"),
            "rule": (rule, evaluator.rule),
            "confidence": (confidence, evaluator.confidence),
            "thresholds": (None, None),
            "whole_pixels": (None, None),
        }
        if evaluator.with_options is not None:
            usual_evaluator = evaluator.with_options(evaluator, iou_type, whole_pixels=None)
            settings["whole_pixels"] = (evaluator.whole_pixels, usual_evaluator.whole_pixels)
        is_rounded = _own_value(grid, "rec_thresholds") == THRESHOLDS["torchmetrics"][1]
        thresholds: Any = "torchmetrics" if is_rounded else "coco"
        if evaluator.has_limits:
            settings["thresholds"] = (thresholds, "coco")
        usual = evaluator.grid(iou_type=iou_type, thresholds=thresholds)
        for name in (*_GRID, "class_groups"):
            is_known = evaluator.has_limits or name in _OF_ALL_EVALUATORS
            if name == "rec_thresholds" and options and rule != "coco":
                is_known = False  # without an effect, and not taken by `DetectionMAP`
            settings[name] = (_own_value(grid, name), _own_value(usual, name)) if is_known else (None, None)
        return settings


def _place_of_threshold(report: Any, grid: CocoGrid) -> int | None:
    """Return the place of the threshold of a number such as "map_55"; None for other numbers."""
    match = re.fullmatch(r"map_(\d+)", str(report))
    percents = [round(100 * threshold) for threshold in grid.iou_thresholds]
    return percents.index(int(match[1])) if match else None


def _own_value(grid: CocoGrid, name: str) -> Any:
    """Return an option of a grid, as tuples if it has several values."""
    value = getattr(grid, name)
    if isinstance(value, str):
        return value
    return tuple(value.items()) if name in _MAPPINGS else tuple(value)


def _name_of(evaluator: Evaluator) -> str | None:
    return next((name for name, row in EVALUATORS.items() if row.title == evaluator.title), None)


def _match_key(request: MatchRequest) -> tuple[str, str]:
    """Return a text of the options that decide matches, and one of the evaluator."""
    thresholds = tuple(request.grid.iou_thresholds)
    grid = replace(request.grid, iou_thresholds=thresholds, rec_thresholds=(0.0,), class_groups={})
    return repr(grid), f"{request.evaluator.title} {own_options(request.evaluator)}"


def _image_matches(results: Any, samples: Any) -> ImageMatches:
    """Return the matches with the options of the evaluation."""
    if isinstance(results, ImageMatches):
        return results
    if isinstance(results, DetectionResults):
        matches, grid, evaluator = results.matches, results.averages.grid, results.evaluator
        name = _name_of(evaluator)
        if name is not None:
            evaluator = replace(EVALUATORS[name], **own_options(evaluator))
        return ImageMatches(MatchRequest(grid, evaluator, None), matches.classes, matches)
    return ImageMatches(MatchRequest(samples.grid, EVALUATORS["coco"], None), results.classes, results)


def _averaging_of(results: Any, samples: Any) -> tuple[str, float | None]:
    """Return the user's rule of average precision, and the confidence of precision and recall."""
    texts = samples.sharded.options() if isinstance(samples, EvaluatedImages) else {}
    if "rule" in texts:  # metrics with other rules may share the matches
        confidence = texts.get("confidence", "None")
        return texts["rule"].strip("'"), None if confidence == "None" else float(confidence)
    if isinstance(results, DetectionResults):
        return results.averages.rule, results.averages.confidence
    computed = list(results._values.values()) if isinstance(results, ImageMatches) else []  # noqa: SLF001
    for averages in computed:
        if isinstance(averages, ClassAverages):
            return averages.rule, averages.confidence
    return "coco", None


def _objects_of(samples: Any, images: ImageMatches) -> MatchedObjects | None:
    """Return the objects that samples hold, None if they hold none."""
    if isinstance(samples, EvaluatedObjects):
        objects = MatchedObjects(samples.detections, samples.ground_truths)
        num_positives = int((~objects.is_crowd).sum())
        # Flags of difficult objects are not held.
        if images.request.evaluator.has_difficult and int(images.matches.num_positives[0].sum()) < num_positives:
            return None
        return objects
    if not isinstance(samples, EvaluatedImages):
        return None
    sharded = samples.sharded
    all_images = sharded.images()
    numbered = ImageNumbering.alone(all_images).number(all_images, 0)
    options: dict[str, Any] = {}
    for extra in sharded.extras:
        options |= EXTRAS[extra].options(numbered)
    return MatchedObjects(*numbered.boxes(images.request.iou_type), sharded.box_format, **options)


def _above(matches: Matches, least_score: float) -> Matches:
    """Return the matches of the detections from a score on; those of better ones do not depend on the others."""
    limits = matches.limits
    most = int(limits.max()) if len(limits) else 0
    beyond = torch.where(matches.scores >= least_score, limits, most + 1)
    return replace(matches, limits=beyond).within(most)


def _in_first_range(matches: Matches) -> Matches:
    """Return the matches in the first area range, without a copy."""
    return matches.map_columns(lambda values: values[:1], num_positives=matches.num_positives[:1])
