"""No metric is given the result of another one: every ordered pair of metrics on the same samples, nothing emptied.

A table has one entry for each argument of each class: other values, or why the value of the metric does not depend on
it. An argument that is added to a class must be put into it.
"""

import collections
import functools
import gc
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator

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


def makers(kinds) -> dict[str, Callable[[], Metric | MetricCollection]]:
    """How every metric of the table is made, by an expression: one with the defaults, one for each other value."""
    found = {}
    for kind in kinds:
        needed = NEEDED.get(kind, {})
        chosen = [{}] + [{name: value} for name, values in OPTIONS[kind].items() for value in values]
        for options in chosen:
            given = needed.get(None, {}) | needed.get(next(iter(options), ""), {}) | options
            made = ReIDMINP if kind is EmbeddingMetric else kind
            found[f"{made.__name__}({given})"] = functools.partial(made, **given)
    return found


def each_behind_each(names: list[str]) -> Iterator[str]:
    """A sequence of names in which each comes after each other one, at most five places behind it."""
    threes = [names[first : first + 3] for first in range(0, len(names), 3)]
    for place, three in enumerate(threes):
        yield from (*three, *three)
        for others in threes[place + 1 :]:
            yield from (*others, *three)


@each_row("kind", OPTIONS)
def test_every_argument_is_in_the_table_or_changes_no_value(kind):
    elsewhere = {*MetricOptions.__annotations__}
    if kind is not EmbeddingMetric and issubclass(kind, (EmbeddingMetric, ReIDMetrics)):
        elsewhere |= {*OPTIONS[EmbeddingMetric]}
    if kind is ReIDMetrics:
        elsewhere |= {*PROTOCOL_FIELDS}  # a protocol is compared as a whole
    if kind is DetectionMetrics:
        elsewhere |= {*OPTIONS[DetectionMAP]}
    lacking = {*inspect.signature(kind).parameters} - {*OPTIONS[kind], *NEUTRAL} - elsewhere
    assert not lacking, (
        f"{kind.__name__} has arguments without other values: add some to its row of `OPTIONS` in this file (`RANKED`"
        f" for all metrics of embeddings), or why no number depends on it to `NEUTRAL`: {sorted(lacking)}"
    )


def test_every_metric_class_is_in_the_table():
    exported = {getattr(reid_torchmetrics, name) for name in reid_torchmetrics.__all__}
    exported -= {PairVerification, EmbeddingQuality}  # they share no result
    assert {*OPTIONS} == {
        each for each in exported if isinstance(each, type) and issubclass(each, (Metric, MetricCollection))
    }


def boxes_and_keypoints() -> list[dict]:
    """Images whose dicts have both, masks and rotated boxes; keypoints lie around the centers of the boxes."""
    preds, target = images(5, 4)
    for each in (*preds, *target):
        centers = (each["boxes"][:, :2] + each["boxes"][:, 2:]) / 2
        points = centers[:, None] + torch.arange(17.0)[:, None] * torch.tensor([0.5, 0.25])
        each["keypoints"] = torch.cat([points, torch.full((len(points), 17, 1), 2.0)], -1)
        each["rotated_boxes"] = torch.cat([centers, each["boxes"][:, 2:] - each["boxes"][:, :2], centers[:, :1] % 3], 1)
        each["masks"] = torch.arange(36).view(1, 6, 6) % (each["labels"] + 2)[:, None, None] == 0
    return [{"preds": preds, "target": target}]


def bits(value: object) -> object:
    """What is equal if every bit is: NaN is equal to itself."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.numpy().tobytes()
    return {name: bits(each) for name, each in value.items()} if isinstance(value, dict) else repr(value)


@pytest.mark.parametrize("of_embeddings", [True, False], ids=["embeddings", "boxes"])
@pytest.mark.filterwarnings("ignore:Encountered more than")
@pytest.mark.slow
def test_behind_any_other_metric_of_the_same_samples_a_value_is_its_own(of_embeddings):
    kinds = [kind for kind in OPTIONS if kind.__name__.startswith(("ReID", "Emb")) == of_embeddings]
    given, make = labeled(batches(6, 20)) if of_embeddings else boxes_and_keypoints(), makers(kinds)

    metrics, expected = {name: make[name]() for name in make}, {}
    if of_embeddings:
        given[0]["identities"][0] = 99  # a query without a mate
    for name, metric in metrics.items():
        for batch in given:
            metric.update(**batch)
        for each in metric.modules():
            each.compute_with_cache = False  # of TorchMetrics, which keeps a metric's value
        expected[name] = bits(metric.compute())
        matchings.clear()
        rankings.clear()
    behind = collections.deque(maxlen=5)
    wrong = []
    for name in each_behind_each([*make]):
        if bits(metrics[name].compute()) != expected[name]:
            wrong.append((*behind, name))
        behind.append(name)
    assert wrong == []


def test_each_name_comes_behind_each_other_one_while_its_result_is_kept():
    for count in range(2, 12):
        sequence, behind = [*each_behind_each([*map(str, range(count))])], set()
        for place, name in enumerate(sequence):
            behind.update((other, name) for other in sequence[max(0, place - 5) : place])
        assert behind >= {*itertools.permutations(map(str, range(count)), 2)}


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
