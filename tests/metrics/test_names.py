"""What users see of a metric: its names besides those of TorchMetrics, and the options in its `repr`."""

import pytest
import torch
from torchmetrics import Metric, MetricCollection

from reid_torchmetrics import (
    DetectionMAP,
    DetectionMetrics,
    EmbeddingMetric,
    EmbeddingQuality,
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


def test_a_metric_does_not_show_its_dtype_or_what_it_holds():
    metric = ReIDMINP().set_dtype(torch.float64)
    metric.update(torch.eye(2), torch.tensor([1, 1]))
    assert repr(metric) == f"ReIDMINP({IN_EVERY_REPR})"
