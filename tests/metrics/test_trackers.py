"""Every metric of the package in TorchMetrics' `MetricTracker`, without further arguments."""

import pytest
import torch
from torchmetrics import MetricTracker

import reid_torchmetrics
from reid_torchmetrics import EmbeddingQuality
from tests.metrics.reid.samples import batches

BOXES = torch.tensor([[10.0, 10.0, 50.0, 50.0]])
LABELS = torch.tensor([1])
IMAGE = [{"boxes": BOXES, "scores": torch.tensor([0.9]), "labels": LABELS}], [{"boxes": BOXES, "labels": LABELS}]
ARGUMENTS = {"ReIDMeasure": ("map",), "LvisMAP": ()}
NAMES = [name for name in reid_torchmetrics.__all__ if name.startswith("ReID")]
NAMES += ["DetectionMAP", "DetectionMetrics", "LvisMAP", "VocMAP", "YoloMAP", "EmbeddingQuality", "PairVerification"]


def update(tracker, name):
    if name == "EmbeddingQuality":
        tracker.update(torch.randn(20, 4))
    elif name == "PairVerification":
        tracker.update(torch.randn(8, 4), torch.randn(8, 4), torch.arange(8) % 2 == 0)
    elif name.startswith("ReID"):
        for batch in batches():
            tracker.update(**batch)
    else:
        tracker.update(*IMAGE)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_tracker_keeps_the_values_of_all_steps(name):
    tracker = MetricTracker(getattr(reid_torchmetrics, name)(*ARGUMENTS.get(name, ())))
    for _ in range(2):
        tracker.increment()
        update(tracker, name)
    values = tracker.compute_all()
    assert all(len(value) == 2 for value in (values.values() if isinstance(values, dict) else [values]))


def test_each_number_of_embedding_quality_says_which_way_is_better():
    assert EmbeddingQuality(("rankme", "norm_mean", "alignment")).higher_is_better == {
        "rankme": True,
        "norm_mean": None,
        "alignment": False,
    }
