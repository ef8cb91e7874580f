"""No metric is given the result of another one: every ordered pair of metrics on the same samples, nothing emptied.

A table has one entry for each argument of each class: other values, or why the value of the metric does not depend on
it. An argument that is added to a class must be put into it.
"""

import functools
import gc
import inspect
import itertools
import weakref
from collections.abc import Callable, Sequence

import pytest
import torch
from torchmetrics import Metric, MetricCollection

import reid_torchmetrics
from reid_torchmetrics import (
    DetectionMAP,
    DetectionMetrics,
    EmbeddingMetric,
    EmbeddingQuality,
    GalleryDraw,
    KReciprocal,
    LvisMAP,
    PairVerification,
    QueryExpansion,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
    ReIDOpenSet,
    VocMAP,
    YoloMAP,
)
from reid_torchmetrics.functional.detection.evaluation.image_matches import matchings
from reid_torchmetrics.functional.retrieval.evaluation import PROTOCOL_FIELDS
from reid_torchmetrics.metrics.base import MetricOptions
from reid_torchmetrics.metrics.reid.ranking import rankings
from tests.functional.detection.detection_samples import fed, images
from tests.metrics.reid.samples import batches, labeled
from tests.metrics.reid.samples import fed as embeddings_fed
from tests.profiles import each_row

NEUTRAL = {
    "backend": "neither is used",
    "class_names": "of results only",
    "invalid": "`update` stores other boxes, or raises",
    "keep_shapes": "for files",
    "max_bytes": "numbers do not depend on blocks",
    "packed": "`update` stores other codes",
    "postfix": "names",
    "prefix": "names",
}
"""arguments that do not decide the value, and why"""


def negative_distance(query, gallery):
    return -torch.cdist(query, gallery)


def first_coordinates(query, gallery):
    return query[:, :2] @ gallery[:, :2].T


RANKED = {
    "protocol": ["cuhk03_torchreid", "market1501_official"],
    "ground_truth": [[[20 + place, 40 + place] for place in range(6)], [[25 - place] for place in range(6)]],
    "similarity": ["dot", "euclidean", negative_distance, first_coordinates],
    "same_camera": ["keep", "all", "only"],
    "camera_map": [{1: 2}],
    "search_cameras": [(0, 1)],
    "junk_identities": [(), (0,)],
    "missing_identities": ["junk"],
    "clothes": ["drop_same", "drop_other"],
    "radius": [1.0, 2.0],
    "must_agree": [("clothes",)],
    "must_differ": [("clothes",), ("cameras",)],
    "gallery_draw": [GalleryDraw(2)],
    "ties": ["optimistic", "stable", "grouped"],
    "empty_target_action": ["neg", "pos"],
    "rerank": [KReciprocal(k1=4, k2=2), QueryExpansion(k=3)],
}
"""arguments of `EmbeddingMetric` by other values"""
DETECTED = {
    "box_format": ["xywh", "cxcywh"],
    "iou_thresholds": [[0.5, 0.75]],
    "class_metrics": [True],
    "metric": ["map"],
}
"""arguments that all metrics over boxes share"""
OPTIONS = {
    EmbeddingMetric: RANKED,
    ReIDMeanAP: {"rule": ["trapezoid"], "k": [3], "normalizer": ["attainable"]},
    ReIDMINP: {},
    ReIDCMC: {"top_k": [3], "mode": ["all_shots"]},
    ReIDCMCCurve: {"max_rank": [3], "mode": ["all_shots"]},
    ReIDMeasure: {"metric": ["mrr", "rank_2", "precision_3"]},
    ReIDOpenSet: {"fpir": [0.5], "rank": [2], "rule": ["nearest"]},
    ReIDMetrics: {
        "ranks": [(1, 3)],
        "directions": [("a", "b")],
        "protocol": ["cuhk03_torchreid"],
        "rule": ["trapezoid"],
    },
    DetectionMAP: {
        **DETECTED,
        "iou_type": ["keypoints"],
        "rec_thresholds": [[0.0, 0.5, 1.0]],
        "thresholds": ["torchmetrics"],
        "max_detection_thresholds": [[1, 2, 3]],
        "extended_summary": [True],
        "average": ["micro"],
        "area_ranges": [{"all": (0.0, 1e10), "little": (0.0, 900.0)}],
        "rule": ["voc"],
        "metric": ["map_50", "f1_50", "recall_75", "map/1"],
        "confidence": [0.3, 0.6],
        "sigmas": [[0.05] * 17],
    },
    LvisMAP: {
        **DETECTED,
        "iou_type": ["segm"],
        "fixed": [True],
        "max_detections": [2],
        "frequencies": [{1: "r", 2: "f"}],
    },
    VocMAP: {**DETECTED, "iou_type": ["rotated"], "rule": ["voc07"], "whole_pixels": [False]},
    YoloMAP: {**DETECTED, "matching": ["yolov4", "scaled_yolov4"], "rule": ["yolo", "yolov5"], "confidence": [0.5]},
    DetectionMetrics: {"values": [("f1_50",)], "classes": [(0, 1)], "class_values": [("f1_50",)], "confidence": [0.3]},
}
"""other values of each argument than the default"""
NEEDED = {
    DetectionMAP: {"confidence": {"metric": "f1_50"}, "sigmas": {"iou_type": "keypoints"}},
    DetectionMetrics: {
        None: {"values": ("map",)},
        "class_values": {"classes": (1,)},
        "confidence": {"values": ("f1_50",)},
    },
    ReIDMeasure: {None: {"metric": "r_precision"}},
}
"""arguments without which another one is refused, or without which none of the class can be made"""


def makers(kinds: Sequence[type]) -> dict[str, Callable[[], Metric | MetricCollection]]:
    """How every metric of the table is made, by its expression: one with the defaults, one for each other value."""
    found = {}
    for kind in kinds:
        settings: list[dict[str, object]] = [{}]
        for name, values in OPTIONS[kind].items():
            settings += [{name: value} for value in values]
        for options in settings:
            arguments = needed_arguments(kind, options) | options
            made_class = ReIDMINP if kind is EmbeddingMetric else kind
            found[f"{made_class.__name__}({arguments})"] = functools.partial(made_class, **arguments)
    return found


def needed_arguments(kind: type, options: dict[str, object]) -> dict[str, object]:
    """The arguments that a metric of a class needs besides an option."""
    needed = NEEDED.get(kind, {})
    arguments = dict(needed.get(None, {}))
    for name in options:
        arguments |= needed.get(name, {})
    return arguments


def order_with_all_pairs(names: list[str]) -> list[str]:
    """A sequence of names in which each comes after each other one, at most five places behind it.

    The names are split into threes. Each three comes twice in a row, and beside each later three:

        a b c  a b c    d e f  a b c    d e f  d e f
    """
    threes = [names[first : first + 3] for first in range(0, len(names), 3)]
    sequence = []
    for place, three in enumerate(threes):
        sequence += [*three, *three]
        for later_three in threes[place + 1 :]:
            sequence += [*later_three, *three]
    return sequence


@each_row("kind", OPTIONS)
def test_every_argument_is_in_the_table_or_changes_no_value(kind):
    in_other_rows = set(MetricOptions.__annotations__)
    if kind is not EmbeddingMetric and issubclass(kind, (EmbeddingMetric, ReIDMetrics)):
        in_other_rows.update(OPTIONS[EmbeddingMetric])
    if kind is ReIDMetrics:
        in_other_rows.update(PROTOCOL_FIELDS)  # a protocol is compared as a whole
    if kind is DetectionMetrics:
        in_other_rows.update(OPTIONS[DetectionMAP])
    parameters = set(inspect.signature(kind).parameters)
    lacking = parameters - OPTIONS[kind].keys() - NEUTRAL.keys() - in_other_rows
    assert not lacking, (
        f"{kind.__name__} has arguments without other values: add some to its row of `OPTIONS` in this file (`RANKED`"
        f" for all metrics of embeddings), or why no number depends on it to `NEUTRAL`: {sorted(lacking)}"
    )


def test_every_metric_class_is_in_the_table():
    exported = {getattr(reid_torchmetrics, name) for name in reid_torchmetrics.__all__}
    exported -= {PairVerification, EmbeddingQuality}  # they share no result
    classes = {value for value in exported if isinstance(value, type)}
    assert set(OPTIONS) == {kind for kind in classes if issubclass(kind, (Metric, MetricCollection))}


def batches_of_embeddings() -> list[dict]:
    """Batches in which one query has no mate."""
    labeled_batches = labeled(batches(6, 20))
    labeled_batches[0]["identities"][0] = 99
    return labeled_batches


def batches_of_boxes() -> list[dict]:
    """Images whose dicts have boxes, keypoints around their centers, masks and rotated boxes."""
    preds, target = images(5, 4)
    for image in (*preds, *target):
        boxes = image["boxes"]
        centers = (boxes[:, :2] + boxes[:, 2:]) / 2
        points = centers[:, None] + torch.arange(17.0)[:, None] * torch.tensor([0.5, 0.25])
        is_visible = torch.full((len(points), 17, 1), 2.0)
        image["keypoints"] = torch.cat([points, is_visible], -1)
        image["rotated_boxes"] = torch.cat([centers, boxes[:, 2:] - boxes[:, :2], centers[:, :1] % 3], 1)
        image["masks"] = torch.arange(36).view(1, 6, 6) % (image["labels"] + 2)[:, None, None] == 0
    return [{"preds": preds, "target": target}]


def bits(value: object) -> object:
    """What is equal if every bit is: NaN is equal to itself."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.numpy().tobytes()
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    return repr(value)


def value_alone(metric: Metric | MetricCollection) -> object:
    """The bits of a value that is computed while nothing of another metric is kept."""
    matchings.clear()
    rankings.clear()
    return bits(metric.compute())


@pytest.mark.parametrize("of_embeddings", [True, False], ids=["embeddings", "boxes"])
@pytest.mark.filterwarnings("ignore:Encountered more than")
@pytest.mark.slow
def test_a_value_is_the_same_after_any_other_metric_of_the_same_samples(of_embeddings):
    kinds = [kind for kind in OPTIONS if kind.__name__.startswith(("ReID", "Emb")) == of_embeddings]
    samples = batches_of_embeddings() if of_embeddings else batches_of_boxes()
    metrics = {name: make() for name, make in makers(kinds).items()}
    for metric in metrics.values():
        for batch in samples:
            metric.update(**batch)
        for module in metric.modules():
            module.compute_with_cache = False  # of TorchMetrics, which keeps a metric's value
    expected = {name: value_alone(metric) for name, metric in metrics.items()}

    names = order_with_all_pairs(list(metrics))
    wrong = []
    for place, name in enumerate(names):
        if bits(metrics[name].compute()) != expected[name]:
            wrong.append(names[max(0, place - 5) : place + 1])
    assert wrong == []


@pytest.mark.parametrize("num_names", range(2, 12))
def test_each_name_comes_at_most_five_places_behind_each_other_one(num_names):
    names = [str(number) for number in range(num_names)]
    sequence = order_with_all_pairs(names)
    pairs = set()
    for place, name in enumerate(sequence):
        pairs.update((earlier, name) for earlier in sequence[max(0, place - 5) : place])
    assert pairs >= set(itertools.permutations(names, 2))


@pytest.mark.parametrize("of_embeddings", [True, False], ids=["embeddings", "boxes"])
def test_newer_samples_let_go_what_is_kept_of_a_metric_that_is_gone(of_embeddings):
    def computed(seed: int) -> None:
        if of_embeddings:
            embeddings_fed(ReIDMeanAP(), batches(seed=seed)).compute()
        else:
            fed(DetectionMAP(), *images(seed)).compute()

    cache = rankings if of_embeddings else matchings
    gc.disable()  # metrics are reference cycles, which live until a collection
    try:
        computed(1)
        older = weakref.ref(cache._results[0][1].result)
        computed(2)
        assert older() is None
    finally:
        gc.enable()
