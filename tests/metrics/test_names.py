"""What users see of a metric: its names besides those of TorchMetrics, and the options in its `repr`."""

import pytest
import torch
from torchmetrics import Metric, MetricCollection

from reid_torchmetrics import (
    DetectionMAP,
    DetectionMetrics,
    EmbeddingMetric,
    EmbeddingQuality,
    KReciprocal,
    LvisMAP,
    ReIDCMC,
    ReIDCMCCurve,
    ReIDMeanAP,
    ReIDMeasure,
    ReIDMetrics,
    ReIDMINP,
    VocMAP,
    YoloMAP,
)
from reid_torchmetrics.functional.retrieval.relevance import LABELS


class Plain(Metric):
    """As little as a metric can be."""

    def update(self) -> None: ...

    def compute(self) -> None: ...


class Own(EmbeddingMetric):
    """A user's own measure."""

    def summarize(self, ranks):
        return ranks.rank.double().mean()


OPTIONS = {"protocol", "ground_truth", "similarity", "packed", "ties", "rerank", "max_bytes", "empty_target_action"}
STATES = {"embeddings", "roles", "label_names", *LABELS}
METHODS = {"nearest", "duplicates", "results", "summarize", "summarize_drawn", "per_query", "measure"}
OF_EMBEDDINGS = OPTIONS | STATES | METHODS
OF_BOXES = {
    *("box_format", "iou_type", "iou_thresholds", "rec_thresholds", "max_detection_thresholds", "class_metrics"),
    *("extended_summary", "average", "area_ranges", "rule", "metric", "confidence", "max_bytes", "sigmas"),
    *("thresholds", "keep_shapes", "backend"),
    *("class_names", "warn_on_many_detections", "invalid", "num_dropped", "num_invalid"),
    *("detection_boxes", "detection_scores", "detection_labels", "detection_counts", "detection_areas"),
    *("image_ids", "image_name_bytes", "image_name_lengths"),
    *("ground_truth_boxes", "ground_truth_labels", "ground_truth_crowds", "ground_truth_areas", "ground_truth_counts"),
    *("boxes_of", "results", "tm_to_coco", "coco_to_tm"),
}
COCOS_OWN = {
    *("rec_thresholds", "max_detection_thresholds", "extended_summary", "average", "area_ranges", "rule"),
    *("sigmas", "keep_shapes", "thresholds", "backend"),
}
LVIS = " iou_type=('bbox',), iou"
LISTED = ("listed_labels", "listed_counts")
OF_EVALUATORS = OF_BOXES - COCOS_OWN | {"VALUES", "rule"}
NAMES = [
    (ReIDMeanAP, OF_EMBEDDINGS),
    (ReIDMINP, OF_EMBEDDINGS),
    (ReIDCMC, OF_EMBEDDINGS | {"top_k"}),
    (ReIDCMCCurve, OF_EMBEDDINGS | {"max_rank"}),
    (lambda: ReIDMeasure("rank_5"), OF_EMBEDDINGS | {"metric"}),
    (Own, OF_EMBEDDINGS),
    (EmbeddingQuality, {"measures", "moments", "identity_sums", "embeddings"}),
    (DetectionMAP, OF_BOXES),
    (VocMAP, OF_EVALUATORS | {"whole_pixels", "ground_truth_difficult"}),
    (LvisMAP, OF_EVALUATORS | {"fixed", "max_detections", "frequencies", "read_frequencies", *LISTED}),
    (YoloMAP, OF_EVALUATORS | {"matching"}),
]


def public(value: object) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


@pytest.mark.parametrize(("make", "names"), NAMES)
def test_a_metric_has_no_names_besides_those_of_torchmetrics_but_for_what_users_call(make, names):
    assert public(make()) - public(Plain()) == names


def test_a_collection_has_rank_lists_and_results_besides_the_names_of_torchmetrics():
    metrics = ReIDMetrics()
    assert public(metrics) - public(MetricCollection([])) == {"nearest", "duplicates", "results", *metrics}


def test_a_collection_of_detection_has_results_and_boxes_besides():
    metrics = DetectionMetrics()
    names = {"boxes_of", "results", "num_dropped", "num_invalid", *metrics}
    assert public(metrics) - public(MetricCollection([])) == names


IN_EVERY_REPR = "protocol='market1501', similarity='cosine', ties='pessimistic'"
BOXES = "box_format='xyxy', max_detection_thresholds=[1, 10, 100], average='macro', rule='coco', metric=None"
OF_VOC = "iou_type=('bbox',), rule='voc', whole_pixels=True"
AT_HALF, BOTH = "box_format='xyxy', iou_thresholds=[0.5]", "matching='ultralytics', rule='ultralytics'"
CHOSEN = [
    (ReIDCMC(5, compute_on_cpu=True), f"ReIDCMC(top_k=5, {IN_EVERY_REPR}, compute_on_cpu=True)"),
    (ReIDMINP(max_bytes=9, sync_on_compute=False), f"ReIDMINP({IN_EVERY_REPR}, max_bytes=9, sync_on_compute=False)"),
    (Own(rerank=KReciprocal(k1=4)), f"Own({IN_EVERY_REPR}, rerank={KReciprocal(k1=4)!r})"),
    (EmbeddingQuality(["rankme"]), "EmbeddingQuality(measures=('rankme',))"),
    (DetectionMAP(), f"DetectionMAP({BOXES})"),
    (
        DetectionMAP(iou_thresholds=[0.5], class_metrics=True),
        f"DetectionMAP({BOXES}, iou_thresholds=[0.5], class_metrics=True)",
    ),
    (
        DetectionMAP(rec_thresholds=[0.0, 1.0], extended_summary=True, max_bytes=9),
        f"DetectionMAP({BOXES}, rec_thresholds=[0.0, 1.0], extended_summary=True, max_bytes=9)",
    ),
    (VocMAP(max_bytes=9), f"VocMAP({AT_HALF}, {OF_VOC}, class_metrics=False, metric=None, max_bytes=9)"),
    (
        LvisMAP(iou_thresholds=(0.5,), frequencies={1: "r"}),
        f"LvisMAP({AT_HALF.replace(' iou', LVIS)}, fixed=False, max_detections=None, class_metrics=False, metric=None)",
    ),
    (
        YoloMAP(iou_thresholds=(0.5,), metric="f1"),
        f"YoloMAP({AT_HALF}, {BOTH}, confidence=None, class_metrics=False, metric='f1')",
    ),
    (
        DetectionMAP(metric="f1_50", confidence=0.5),
        f"DetectionMAP({BOXES.replace('None', repr('f1_50'))}, confidence=0.5)",
    ),
    (DetectionMAP(area_ranges={"all": (0, 100)}), f"DetectionMAP({BOXES}, area_ranges={{'all': (0.0, 100.0)}})"),
]


@pytest.mark.parametrize(("metric", "text"), CHOSEN)
def test_a_metric_shows_every_option_that_is_not_the_default(metric, text):
    assert repr(metric) == text


def test_a_metric_does_not_show_its_dtype_or_what_it_holds():
    metric = ReIDMINP().set_dtype(torch.float64)
    metric.update(torch.eye(2), torch.tensor([1, 1]))
    assert repr(metric) == f"ReIDMINP({IN_EVERY_REPR})"
