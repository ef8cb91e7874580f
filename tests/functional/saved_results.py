"""Results of every kind that are saved to files, and whether two results are the same."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial

import torch

from reid_torchmetrics import DetectionMAP, ReIDMetrics, VocMAP, YoloMAP, evaluate, evaluate_scores
from reid_torchmetrics.functional.detection import evaluate_boxes, evaluate_images
from reid_torchmetrics.tasks import KReciprocal, compare, evaluate_lists, evaluate_stream, index_recall, person_search
from tests.found_classes import images_of
from tests.functional.detection.detection_samples import fed, images, named, with_lists
from tests.functional.retrieval.evaluation.one_call import GALLERY, LABELS, LISTS, QUERY, SCORES
from tests.report import problems
from tests.stream_problems import counter_of, drawn
from tests.tasks.comparison import two_models
from tests.tasks.test_person_search import SCENE


def of_a_metric(gallery=GALLERY, **options):
    metric = ReIDMetrics()
    metric.update(QUERY, LABELS[0], LABELS[2], is_query=True)
    metric.update(gallery, LABELS[1], LABELS[3], is_query=False)
    return metric.results(**options)


def of_lists():
    return evaluate_scores(SCORES[:2], ground_truth=LISTS, protocol="roxford5k_medium")


def not_ranked():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return of_a_metric(GALLERY / 0)


def detections(metric, *, dtype=torch.float32, with_ids=False, class_names=None, **options):
    preds, target = images(0, with_ids=with_ids)
    if with_ids:
        target = named(target, [f"image {number}" for number in range(len(target))])
    for each in preds:
        each["scores"] = each["scores"].to(dtype)
    return fed(metric, preds, target).results(**options)


def of_a_stream():
    query, positives, blocks = drawn(3)
    counter = counter_of(query, positives)
    return evaluate_stream(counter, counter.count(*blocks[0], key=0))


def no_images():
    return DetectionMAP().results(boxes=True, across_classes=True)


TENSORS = images_of(([(0.9, True), (0.3, False)], 2), ([(0.8, True)], 1))
RETRIEVAL: dict[str, Callable] = {
    "embeddings": lambda: evaluate(QUERY, GALLERY, *LABELS),
    "no cameras": lambda: evaluate(QUERY, GALLERY, *LABELS[:2], ties="expected", rerank=KReciprocal()),
    "grouped": lambda: evaluate_scores(SCORES.round(decimals=1), *LABELS, ties="grouped"),
    "drawn": lambda: two_models.evaluated(0, "vehicleid"),
    "shots": lambda: two_models.evaluated(0, "sysu_mm01_all_single"),
    "lists": of_lists,
    "cut lists": lambda: evaluate_lists([[1, 2], [4]], [[1, 9], [5, 4]], reports=("map", "mean_rank", "median_rank")),
    "graded lists": lambda: evaluate_lists([[1, 2], [4]], [{1: 2, 9: 1, 2: 0}, {4: 3}], reports=("map", "ndcg_5")),
    "named lists": lambda: evaluate_lists({"q": ["a", "b"], "r": []}, {"q": ["b", "z"], "r": ["a"]}),
    "declared positives": lambda: evaluate_lists([[1, 2]], [[1]], num_positives=3),
    "person search": lambda: person_search(**SCENE),
    "person not found": lambda: person_search(
        **SCENE | {"embeddings": SCENE["embeddings"], "true_images": [0, 1, 5, 3]}
    ),
    "stream": of_a_stream,
    "metric": lambda: of_a_metric(nearest=5, camera_pairs=True),
    "metric alone": of_a_metric,
    "not ranked": not_ranked,
}
DETECTION: dict[str, Callable] = {
    "coco": lambda: detections(DetectionMAP(class_names=["cat", "dog"]), boxes=True, across_classes=True),
    "names": lambda: detections(DetectionMAP(), with_ids=True, boxes=True),
    "bfloat16": lambda: detections(DetectionMAP(), dtype=torch.bfloat16),
    "localization": lambda: detections(DetectionMAP(), localization=True),
    "micro": lambda: detections(DetectionMAP(average="micro", max_detection_thresholds=[1, 5, 70])),
    "voc": lambda: detections(VocMAP(), across_classes=True),
    "continuous": lambda: detections(VocMAP(whole_pixels=False)),
    "ultralytics": lambda: detections(YoloMAP(), across_classes=True),
    "yolov4": lambda: detections(YoloMAP(matching="yolov4")),
    "no images": no_images,
    "function": problems.coco,
    "tensors": lambda: evaluate_boxes(*TENSORS, across_classes=True),
    "voc of tensors": lambda: evaluate_boxes(*TENSORS, evaluator="voc"),
    "yolo of tensors": lambda: evaluate_boxes(*TENSORS, evaluator="ultralytics"),
    "lvis": lambda: evaluate_images(images(0)[0], with_lists(images(0)[1]), evaluator="lvis"),
}
COMPARISON: dict[str, Callable] = {
    "two models": lambda: two_models.compared(two_models.evaluated(0), two_models.evaluated(1), per_identity=True),
    "three models": lambda: compare(
        {name: two_models.evaluated(seed) for seed, name in enumerate("abc")}, num_resamples=50, num_permutations=50
    ),
}
INDEX: dict[str, Callable] = {"index": lambda: index_recall([[0, 1], [2, -1], [3, 3]], QUERY[:3], GALLERY, k=2)}
ALL = {**RETRIEVAL, **DETECTION, **COMPARISON, **INDEX}


def difference(one: object, other: object, place: str = "") -> str:
    """The place of the first difference of two values, in types and dtypes, too; empty if they are the same."""
    if type(one) is not type(other):
        return f"{place}: {type(one)} and {type(other)}"
    if is_dataclass(one):
        pairs = {each.name: (getattr(one, each.name), getattr(other, each.name)) for each in fields(one)}
    elif isinstance(one, Mapping):
        if [*one] != [*other]:
            return f"{place}: keys"
        pairs = {name: (one[name], other[name]) for name in one}
    elif isinstance(one, (tuple, list)):
        if len(one) != len(other):
            return f"{place}: length"
        pairs = dict(enumerate(zip(one, other, strict=True)))
    elif isinstance(one, partial):
        pairs = {name: (getattr(one, name), getattr(other, name)) for name in ("func", "args", "keywords")}
    elif isinstance(one, torch.Tensor):
        is_same = one.dtype == other.dtype and one.shape == other.shape and torch.equal(one.isnan(), other.isnan())
        return "" if is_same and torch.equal(one.nan_to_num(), other.nan_to_num()) else place
    else:
        return "" if one == other or one != one else place  # noqa: PLR0124 - NaN
    return next(filter(None, (difference(*pair, f"{place}.{name}") for name, pair in pairs.items())), "")
