"""The recorded numbers of other evaluators of detection, and the searches of their problems."""

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reid_torchmetrics.diagnosis.expected import Search
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes, evaluate_images
from tests.coming_from.test_ultralytics import PROBLEMS as PROBLEMS_OF_ULTRALYTICS
from tests.coming_from.test_ultralytics import RECORDED as RECORDED_OF_ULTRALYTICS
from tests.coming_from.test_ultralytics import images_of
from tests.diagnosis.expected.recorded import Number, search_in
from tests.golden.bad_box_cases import bad_boxes
from tests.golden.coco_cases import FOLDER, Problem, RealProblem, options, problems, val2014
from tests.golden.federated_cases import DetectionCase, detection_cases
from tests.golden.tide_cases import tide_problems
from tests.profiles import PROFILE

IS_NIGHTLY = PROFILE == "nightly"
PROBLEMS = problems()
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


def packed(problem: Problem | RealProblem) -> tuple[Detections, GroundTruths]:
    """The recorded arrays as they are, float32 or float64."""
    of_detections = (getattr(problem, f"detection_{name}") for name in ("boxes", "scores", "labels", "images"))
    of_truths = (getattr(problem, f"ground_truth_{name}") for name in ("boxes", "labels", "images"))
    crowds_and_areas = (problem.is_crowd, problem.areas)
    return (
        Detections(*map(torch.from_numpy, of_detections)),
        GroundTruths(*map(torch.from_numpy, (*of_truths, *crowds_and_areas))),
    )


@cache
def search_of_coco(name: str) -> Search:
    return search_in(evaluate_boxes, *packed(PROBLEMS[name]))


@cache
def search_of_padilla(name: str) -> Search:
    return search_in(evaluate_boxes, *packed(PROBLEMS[name]), **options("voc"))


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
                names = [f"{points} {k}" for k in (30, 50, 75)]
                yield from numbers(f"coco/{name}/padilla", names, means, partial(search_of_padilla, name))
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
def box_peers() -> tuple[dict[str, dict[str, NDArray[Any]]], dict[str, dict[str, float]]]:
    """The problems of `box_peers.npz` by name, and the numbers by problem and evaluator."""
    problems: dict[str, dict[str, NDArray[Any]]] = {}
    with np.load(FOLDER / "box_peers.npz") as arrays:
        for key, values in arrays.items():
            problem, _, name = key.partition("/")
            problems.setdefault(problem, {})[name] = values
    return problems, json.loads((FOLDER / "box_peers.json").read_text(encoding="utf-8"))


def images_of_peers(
    problem: dict[str, NDArray[Any]], num_images: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What `update` takes, image by image."""
    preds, target = [], []
    found, true = problem["detections"], problem["ground_truths"]
    for image in range(num_images):
        rows, of_truths = found[:, 0] == image, true[:, 0] == image
        columns = {"boxes": found[rows, 2:], "labels": found[rows, 1].astype(int), "scores": problem["scores"][rows]}
        preds.append({name: torch.from_numpy(values) for name, values in columns.items()})
        columns = {"boxes": true[of_truths, 2:], "labels": true[of_truths, 1].astype(int)}
        columns |= {"iscrowd": problem["is_crowd"][of_truths], "difficult": problem["is_difficult"][of_truths]}
        target.append({name: torch.from_numpy(values) for name, values in columns.items()})
    return preds, target


@cache
def search_of_peers(name: str, evaluator: str, num_images: int) -> Search:
    return search_in(evaluate_images, *images_of_peers(box_peers()[0][name], num_images), evaluator=evaluator)


def of_peers() -> Iterator[Number]:
    for key, values in box_peers()[1].items():
        name, _, peer = key.partition("/")
        if name == "ties" and peer in UNSTABLE:
            continue
        evaluator = "voc" if peer == "voc_eval" else "coco"  # which keeps the flags of difficult objects
        num_images = 1 if peer == "mapcalc" else 8

        def search(name: str = name, evaluator: str = evaluator, num_images: int = num_images) -> Search:
            return search_of_peers(name, evaluator, num_images)

        yield from numbers(f"peers/{key}", values, [*values.values()], search)


UNSTABLE = ("ultralytics", "scaled_yolov4", "voc_eval", "kwcoco", "mean_average_precision")
"""evaluators with an unstable sort, which decides between equal scores"""


@cache
def all_numbers() -> tuple[Number, ...]:
    """All recorded numbers of detection; of some problems of each theme, but for a nightly run."""
    parts = {of_coco: 5, of_peers: 2, of_bad_boxes: 12, of_ultralytics: 4, of_lvis: 18, of_tidecv: 16}
    numbers: list[Number] = []
    for theme, part in parts.items():
        recorded = list(theme())
        cases = list(dict.fromkeys(number.key.split("/")[1] for number in recorded))
        kept = set(cases if IS_NIGHTLY else cases[::part])
        numbers += [number for number in recorded if number.key.split("/")[1] in kept]
    return tuple(numbers)
