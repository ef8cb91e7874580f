"""Calls of users with all kinds of options, and the functions in the lines that their answers print."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch

from reid_torchmetrics import DetectionMAP, ReIDMetrics, evaluate, evaluate_scores
from reid_torchmetrics.diagnosis import Evaluations, collecting
from reid_torchmetrics.diagnosis.expected import Search, search_of
from reid_torchmetrics.functional.detection import Detections, GroundTruths, evaluate_boxes, evaluate_images
from reid_torchmetrics.functional.detection.inputs import to_xywh
from reid_torchmetrics.functional.retrieval import PROTOCOLS
from reid_torchmetrics.tasks import (
    RankCounter,
    accuracy_over_folds,
    evaluate_lists,
    evaluate_stream,
    person_search,
    verify_pairs,
)


class Way:
    """A call of a user, and the functions in the lines of its answers, where `...` stands for the user's arguments."""

    def __init__(
        self, function: Callable[..., Any], *args: Any, functions: Any = (), names: Any = (), **options: Any
    ) -> None:
        self.call = partial(function, *args, **options)
        self.names: dict[str, Any] = {"math": math, "numpy": np, "torch": torch}
        for name, again in {function.__name__: function, **dict(functions)}.items():
            self.names[name] = partial(self._again, again, args, options)
        self.names.update(names)

    @staticmethod
    def _again(function: Callable[..., Any], args: Any, options: dict[str, Any], *_: object, **changes: Any) -> Any:
        options = {**options, **changes}
        if function is evaluate_images:
            options.pop("average", None)  # of the metric alone
        return function(*args, **options)

    def evaluations(self) -> Evaluations:
        evaluations = Evaluations()
        with collecting(evaluations):
            results = self.call()
            if hasattr(results, "compute"):
                results.compute()
        return evaluations

    @cached_property
    def search(self) -> Search:
        return search_of(self.evaluations())

    def number(self, line: str) -> float:
        """The number that a line computes."""
        *statements, last = line.split("; ")
        names = dict(self.names)
        exec("\n".join(statements), names)  # noqa: S102 - the line of an answer
        return float(eval(last, names))  # noqa: S307 - the same


def labels() -> dict[str, Any]:
    """Labels with queries without a positive, junk, cameras and clothes."""
    rng = np.random.default_rng(0)
    options: dict[str, Any] = {}
    for side, number, least in (("query", 20, 0), ("gallery", 60, -1)):
        options[f"{side}_identities"] = rng.integers(least, 12, number)
        options[f"{side}_cameras"] = rng.integers(0, 3, number)
        options[f"{side}_clothes"] = rng.integers(0, 2, number)
    options["query_identities"][:2] = 50
    return options


def embeddings(number: int, seed: int) -> torch.Tensor:
    """Embeddings of a few places, so that many scores are equal."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 3, (number, 3), generator=generator).double() + 0.5


LABELS = labels()
QUERY_IDENTITIES, GALLERY_IDENTITIES = (LABELS[f"{side}_identities"] for side in ("query", "gallery"))
QUERY, GALLERY = embeddings(20, 0), embeddings(60, 1)
DISTANCES = torch.cdist(QUERY, GALLERY)
LISTS = {f"q{query}": items[:15] for query, items in enumerate(DISTANCES.argsort(1).tolist())}
POSITIVES = {f"q{query}": [query, query + 3, query + 30] for query in range(24)}
CUT = {"k": 7, "rule": "trapezoid", "empty_target_action": "neg"}


def metric(**options: Any) -> ReIDMetrics:
    filled = ReIDMetrics(**options)
    for side, values in (("query", QUERY), ("gallery", GALLERY)):
        numbers = {name: torch.from_numpy(LABELS[f"{side}_{name}"]) for name in ("identities", "cameras", "clothes")}
        filled.update(values, **numbers, is_query=side == "query")
    return filled


def stream(**options: Any) -> Any:
    is_right = np.isin(GALLERY_IDENTITIES, QUERY_IDENTITIES)
    counter = RankCounter(QUERY, GALLERY[is_right], QUERY_IDENTITIES, GALLERY_IDENTITIES[is_right])
    return evaluate_stream(counter, counter.count(GALLERY[~is_right], GALLERY_IDENTITIES[~is_right], key=0), **options)


def persons(**options: Any) -> Any:
    """Persons in scenes, of whom every other box is true."""
    rng = np.random.default_rng(0)
    boxes = np.array([[10 * (box % 4), 0, 10 * (box % 4) + 9, 20] for box in range(40)], dtype=float)
    is_true = slice(None, None, 2)
    images = np.arange(40) // 4
    query_labels = {"query_identities": np.arange(6) % 4, "query_images": np.arange(6)}
    true = {"true_boxes": boxes[is_true], "true_images": images[is_true], "true_identities": np.arange(20) % 5}
    return person_search(
        rng.random((6, 4)), rng.random((40, 4)), boxes, images=images, **query_labels, **true, **options
    )


OF_METRIC = {"functions": {"ReIDMetrics": metric}}
RETRIEVAL: dict[str, Callable[[], Way]] = {
    "embeddings": partial(Way, evaluate, QUERY, GALLERY, **LABELS),
    "embeddings with options": partial(
        Way, evaluate, QUERY, GALLERY, **LABELS, similarity="euclidean", ties="stable", **CUT
    ),
    "leave one out": partial(
        Way, evaluate, GALLERY, query_identities=GALLERY_IDENTITIES, reports=("map_at_r", "precision_3")
    ),
    "same samples": partial(
        *(Way, evaluate, GALLERY, GALLERY, GALLERY_IDENTITIES, GALLERY_IDENTITIES),
        names={"query": GALLERY},
        rule="interpolated_11",
    ),
    "scores": partial(Way, evaluate_scores, -DISTANCES, **LABELS, protocol="market1501_official"),
    "distances": partial(
        Way, evaluate_scores, distances=DISTANCES, **LABELS, ties="optimistic", reports=("ndcg_5", "mrr")
    ),
    "drawn galleries": partial(Way, evaluate, QUERY, GALLERY, **LABELS, protocol="cuhk03_torchreid"),
    "lists": partial(Way, evaluate_lists, LISTS, POSITIVES),
    "lists with options": partial(Way, evaluate_lists, LISTS, POSITIVES, normalizer="attainable", reports=("map_3",)),
    "metric": partial(Way, metric, **OF_METRIC),
    "metric with options": partial(Way, metric, **OF_METRIC, similarity="euclidean", same_camera="all", **CUT),
    "stream": lambda: Way(
        *(stream,),
        functions={"evaluate_stream": stream},
        names={"protocol": PROTOCOLS["market1501"], "replace": replace},
    ),
    "persons": partial(Way, persons, functions={"person_search": persons}, reports=("map", "rank_3")),
}


def images(*, is_difficult: bool = False) -> tuple[list[Any], list[Any]]:
    """Images with classes that are only detected, crowds, areas of masks, equal scores and many detections."""
    generator = torch.Generator().manual_seed(0)
    preds, target = [], []
    for image in range(6):
        corners = 90 * torch.rand(6, 2, generator=generator, dtype=torch.float64)
        sizes = 10 + 40 * torch.rand(6, 2, generator=generator, dtype=torch.float64)
        true = torch.cat([corners, corners + sizes], 1).round()
        classes = torch.arange(6) % 3
        flags = {"iscrowd": (torch.arange(6) == image).long(), "area": sizes.prod(1) * 0.6}
        if is_difficult:
            flags = {"difficult": torch.arange(6) == image}
        target.append({"boxes": true, "labels": classes, **flags})

        rows = torch.randint(6, (30,), generator=generator)
        found = true[rows] + (6 * torch.randn(30, 4, generator=generator, dtype=torch.float64)).round()
        found[:, 2:] = torch.maximum(found[:, 2:], found[:, :2] + 1)
        is_right = torch.rand(30, generator=generator) < 0.8
        found_classes = torch.where(is_right, classes[rows], torch.randint(5, (30,), generator=generator))
        scores = torch.randint(1, 20, (30,), generator=generator) / 20
        preds.append({"boxes": found, "scores": scores, "labels": found_classes})
    return preds, target


def in_centers(dicts: list[Any]) -> list[Any]:
    """Images with boxes as center, width and height."""
    changed = []
    for image in dicts:
        corner, size = to_xywh(image["boxes"], "xyxy").split(2, 1)
        changed.append(image | {"boxes": torch.cat([corner + size / 2, size], 1)})
    return changed


def packed(preds: list[Any], target: list[Any]) -> tuple[Detections, GroundTruths]:
    """The columns of images."""
    columns: list[dict[str, Any]] = []
    for dicts in (preds, target):
        side = {name: torch.cat([image[name] for image in dicts]) for name in dicts[0]}
        side["boxes"] = to_xywh(side["boxes"], "xyxy")
        sizes = torch.tensor([len(image["labels"]) for image in dicts])
        columns.append(side | {"images": torch.arange(len(dicts)).repeat_interleave(sizes)})
    found, true = columns
    true["is_crowd"], true["areas"] = true.pop("iscrowd").bool(), true.pop("area")
    return Detections(**found), GroundTruths(**true)


def filled(*args: Any, **options: Any) -> DetectionMAP:
    boxes = DetectionMAP(**options)
    boxes.update(*args)
    return boxes


IMAGES = images()
FUNCTIONS = {"functions": {"evaluate_images": evaluate_images, "DetectionMAP": filled}}
CHANGED: dict[str, Any] = {
    "iou_thresholds": (0.3, 0.5, 0.55),
    "max_detection_thresholds": (1, 5, 12),
    "area_ranges": {"all": (0.0, 1e10), "small": (0.0, 900.0), "large": (900.0, 1e10)},
}
RECALLS = (0.0, 0.25, 0.5, 0.75, 1.0)
OF_BOXES = {
    "functions": {
        "evaluate_images": lambda *_, **options: evaluate_images(*IMAGES, **options),
        "DetectionMAP": lambda *_, **options: filled(*IMAGES, **options),
    }
}
DETECTION: dict[str, Callable[[], Way]] = {
    "images": partial(Way, evaluate_images, *IMAGES, **FUNCTIONS),
    "images with options": partial(
        Way, evaluate_images, *IMAGES, **FUNCTIONS, **CHANGED, rec_thresholds=RECALLS, rule="voc"
    ),
    "centers": partial(
        *(Way, evaluate_images, *map(in_centers, IMAGES)), **FUNCTIONS, box_format="cxcywh", thresholds="torchmetrics"
    ),
    "limits": partial(Way, evaluate_images, *IMAGES, **FUNCTIONS, max_detection_thresholds=(1, 10, 300)),
    "voc": partial(
        *(Way, evaluate_images, *images(is_difficult=True)),
        **FUNCTIONS,
        evaluator="voc",
        rule="voc07",
        whole_pixels=False,
        iou_thresholds=(0.4, 0.75),
    ),
    "yolo": partial(Way, evaluate_images, *IMAGES, **FUNCTIONS, evaluator="ultralytics", rule="yolov5", confidence=0.3),
    "scaled yolo": partial(Way, evaluate_images, *IMAGES, **FUNCTIONS, evaluator="scaled_yolov4"),
    "lvis": partial(
        *(Way, evaluate_images, IMAGES[0], [image | {"neg_category_ids": [3]} for image in IMAGES[1]]),
        **FUNCTIONS,
        evaluator="lvis",
        max_detection_thresholds=(25,),
        class_groups={"rare": [0, 2]},
    ),
    "metric": partial(Way, filled, *IMAGES, **FUNCTIONS, **CHANGED),
    "micro": partial(Way, filled, *IMAGES, **FUNCTIONS, average="micro", max_detection_thresholds=[4]),
    "packed": lambda: Way(evaluate_boxes, *packed(*IMAGES), **OF_BOXES, **CHANGED, rec_thresholds=RECALLS),
}


def pairs() -> tuple[Any, Any]:
    """Scores with many equal ones, and whether both items have the same identity."""
    rng = np.random.default_rng(0)
    same = rng.random(60) < 0.4
    return (rng.integers(0, 12, 60) + 4 * same) / 10, same


SCORES, SAME = pairs()
OF_PAIRS = {"verify_pairs": verify_pairs, "accuracy_over_folds": accuracy_over_folds, "same": SAME}
BY_DISTANCE = {"distances": 2 - SCORES, "same": SAME}
PAIRS: dict[str, Callable[[], Way]] = {
    "scores of pairs": partial(Way, verify_pairs, SCORES, SAME, names={**OF_PAIRS, "scores": SCORES}),
    "distances of pairs": partial(Way, verify_pairs, None, **BY_DISTANCE, names=OF_PAIRS | BY_DISTANCE),
    "folds": partial(Way, accuracy_over_folds, **BY_DISTANCE, folds=5, step=0.1, names=OF_PAIRS | BY_DISTANCE),
}


@cache
def ways() -> dict[str, Way]:
    """All ways by kind and name."""
    kinds = {"retrieval": RETRIEVAL, "detection": DETECTION, "pairs": PAIRS}
    return {f"{kind}: {name}": make() for kind, rows in kinds.items() for name, make in rows.items()}
