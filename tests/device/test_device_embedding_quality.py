"""The quality of embeddings on a device: the numbers of the CPU, and no wait in an update that needs none."""

from reid_torchmetrics import EmbeddingQuality
from tests.device import simulated_device
from tests.device.problems import moved
from tests.device.waiting import waits_of
from tests.tasks.metrics.test_embedding_quality import MEASURES, drawn, fed


def test_sums_move_with_the_metric_unless_there_is_no_float64(simulated, monkeypatch):
    metrics = fed(EmbeddingQuality(), drawn(3))
    assert metrics.to(simulated).moments[0].device.type == simulated
    metrics.to("cpu")
    monkeypatch.setattr(simulated_device, "has_float64", False)
    assert metrics.to(simulated).moments[0].device.type == "cpu"


def test_an_update_waits_for_nothing(simulated):
    metrics = EmbeddingQuality((*MEASURES[:4], "uniformity")).to(simulated)
    given = moved(drawn(3)[0].float(), simulated)
    metrics.update(given)
    assert not waits_of(simulated, lambda: metrics.update(given))
