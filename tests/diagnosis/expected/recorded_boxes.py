"""The recorded numbers of other evaluators of detection, and the searches of their problems."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch

from reid_torchmetrics.diagnosis.expected import Search
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes, evaluate_images
from tests.coming_from.test_ultralytics import PROBLEMS as PROBLEMS_OF_ULTRALYTICS
from tests.coming_from.test_ultralytics import RECORDED as RECORDED_OF_ULTRALYTICS
from tests.coming_from.test_ultralytics import images_of
from tests.diagnosis.expected.recorded import Number, search_in
from tests.functional.detection.evaluators.test_coco_golden import PROBLEMS, packed
from tests.golden.bad_box_cases import bad_boxes
from tests.golden.coco_cases import options, val2014
from tests.golden.federated_cases import DetectionCase, detection_cases
from tests.golden.tide_cases import tide_problems
from tests.profiles import PROFILE

IS_NIGHTLY = PROFILE == "nightly"
STATS = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
STATS += ("mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large")
CUSTOM = (*STATS[:6], "mar_2", "mar_20", *STATS[8:])
LVIS = ("AP", "AP50", "AP75", "APs", "APm", "APl", "APr", "APc", "APf", "AR", "ARs", "ARm", "ARl")
LIMITS = {"lvis_max7": 7, "fixed3": 3, "fixed20": 20}


def numbers(key: str, names: Any, values: Any, search: Callable[[], Search]) -> Iterator[Number]:
    """Numbers with their names, without those that are not defined."""
    for name, value in zip(names, np.asarray(values, dtype=float).tolist(), strict=True):
        if np.isfinite(value) and value != -1:
            yield Number(f"{key}/{name}", value, search)


@cache
def search_of_coco(name: str) -> Search:
    return search_in(evaluate_boxes, *packed(PROBLEMS[name]))


@cache
def search_of_custom() -> Search:
    return search_in(evaluate_boxes, *packed(PROBLEMS["dense_overlaps"]), **options("coco_custom"))


def of_coco() -> Iterator[Number]:
    for name, problem in PROBLEMS.items():

        def search(name: str = name) -> Search:
            return search_of_coco(name)

        yield from numbers(f"coco/{name}/pycocotools", STATS, problem.expected["coco/stats"], search)
        if "coco_custom/stats" in problem.expected:
            values = problem.expected["coco_custom/stats"]
            yield from numbers(f"coco/{name}/pycocotools/params", CUSTOM, values, search_of_custom)
        for points in ("all_point", "eleven_point"):
            table = problem.expected.get(f"voc/{points}")
            if table is not None:
                means = [np.nanmean(rows[:, 1]) if rows[:, 2].any() else np.nan for rows in table]
                yield from numbers(f"coco/{name}/padilla", [f"{points} {k}" for k in (30, 50, 75)], means, search)
    yield from numbers("val2014/100/pycocotools", STATS, val2014().stats, search_of_val2014)


@cache
def search_of_val2014() -> Search:
    return search_in(evaluate_boxes, *packed(val2014()))


def of_bad_boxes() -> Iterator[Number]:
    for case in bad_boxes():
        if case.has_nan.any():  # which pycocotools matches to any object
            continue

        @cache
        def search(case: Any = case) -> Search:
            return search_in(evaluate_images, *case.dicts())

        for name in ("pycocotools", "torchmetrics"):
            yield from numbers(f"bad_boxes/{case.name}/{name}", STATS, getattr(case, name), search)


def of_ultralytics() -> Iterator[Number]:
    for place, recorded in enumerate(RECORDED_OF_ULTRALYTICS):

        @cache
        def search(place: int = place) -> Search:
            return search_in(evaluate_images, *images_of(PROBLEMS_OF_ULTRALYTICS[place]))

        values = [*recorded["mean_results"], recorded["map75"]]
        yield from numbers(f"ultralytics/{place}/ultralytics", ("P", "R", "map50", "map", "map75"), values, search)


def of_lvis() -> Iterator[Number]:
    for case in detection_cases("lvis"):
        for name in ("lvis", "lvis_max7", "fixed", "fixed3", "fixed20"):
            outputs = case.outputs.get(name, {})
            if "results" not in outputs:
                continue

            @cache
            def search(case: DetectionCase = case, name: str = name) -> Search:
                groups: dict[str, list[int]] = {}
                for label, letter in case.frequencies.items():
                    groups.setdefault({"r": "rare", "c": "common", "f": "frequent"}[letter], []).append(label)
                limits = {"max_detection_thresholds": (LIMITS[name],)} if name in LIMITS else {}
                evaluator = "lvis_fixed" if name.startswith("fixed") else "lvis"
                options = {"evaluator": evaluator, "class_groups": groups, "box_format": "xywh", **limits}
                return search_in(evaluate_images, *case.dicts(), **options)

            yield from numbers(f"lvis/{case.name}/{name}", LVIS, outputs["results"], search)


def of_tidecv() -> Iterator[Number]:
    for problem in tide_problems():

        @cache
        def search(problem: Any = problem) -> Search:
            columns = (
                *(problem.detection_boxes, problem.detection_scores),
                *(problem.detection_labels, problem.detection_images),
            )
            true = (
                *(problem.ground_truth_boxes, problem.ground_truth_labels),
                *(problem.ground_truth_images, problem.is_crowd),
            )
            return search_in(
                evaluate_boxes, Detections(*map(torch.from_numpy, columns)), GroundTruths(*map(torch.from_numpy, true))
            )

        average_precision = problem.records["tide"].average_precision
        yield from numbers(f"tide/{problem.name}/tidecv", ["AP"], [average_precision / 100], search)


@cache
def all_numbers() -> tuple[Number, ...]:
    """All recorded numbers of detection; of some problems of each theme, but for a nightly run."""
    numbers = []
    for theme, part in ((of_coco, 1), (of_bad_boxes, 6), (of_ultralytics, 3), (of_lvis, 12), (of_tidecv, 6)):
        recorded = list(theme())
        cases = list(dict.fromkeys(number.key.split("/")[1] for number in recorded))
        kept = set(cases if IS_NIGHTLY else cases[::part])
        numbers += [number for number in recorded if number.key.split("/")[1] in kept]
    return tuple(numbers)
