"""Two processes whose metrics are on a device, in a group whose backend takes tensors of the CPU."""

import pytest

from reid_torchmetrics import DetectionMAP, ReIDMetrics
from tests.device import simulated_device
from tests.device.problems import assert_same, moved
from tests.metrics.detection.detection_samples import fed as fed_boxes
from tests.metrics.detection.detection_samples import images
from tests.metrics.reid.samples import batches, fed


def samples() -> list[dict]:
    """Whole numbers, whose scores are rounded nowhere."""
    return [batch | {"embeddings": batch["embeddings"].round().double()} for batch in batches()]


def ranks(process: int, size: int, device: str, *, num_holders: int = 2, **options: object) -> object:
    """Each process has every other batch, or the first has all."""
    metrics = ReIDMetrics(similarity="dot", **options).to(device)
    fed(metrics, moved(samples()[process::num_holders] if process < num_holders else [], device))
    values = metrics.compute()
    results = metrics.results(nearest=3, camera_pairs=True)
    assert {value.device.type for value in values.values()} == {device}
    work = device if simulated_device.has_float64 else "cpu"
    assert (results.cmc.device.type, results.nearest(3).index.device.type) == (work, work)
    return (
        moved(values, "cpu"),
        results.means,
        results.nearest(3).index.tolist(),
        results.by_camera_pair().mean.tolist(),
    )


@pytest.mark.parametrize("ties", ["pessimistic", "stable", "expected"])
def test_two_processes_rank_what_is_on_their_devices(device, processes, ties):
    found, expected = (processes.run(2, _Asked(ranks, ties=ties), where) for where in (device, "cpu"))
    assert_same(found, expected, "cpu")


def test_a_process_without_samples_ranks_what_is_on_the_device_of_the_other(device, processes):
    asked = _Asked(ranks, num_holders=1)
    found, expected = (processes.run(2, asked, where) for where in (device, "cpu"))
    assert_same(found, expected, "cpu")


def boxes(process: int, size: int, device: str) -> object:
    preds, target = moved(images(51, 9, with_ids=True), device)
    metric = fed_boxes(DetectionMAP().to(device), preds[process::size], target[process::size])
    values, worst = metric.compute(), metric.results().worst_images(2).image
    assert {value.device.type for value in values.values()} == {device}
    found, true = metric.boxes_of(worst)
    assert found[0]["boxes"].device.type == (device if simulated_device.has_float64 else "cpu")
    return moved((values, worst, found, true), "cpu")


def test_two_processes_match_what_is_on_their_devices(device, processes):
    found, expected = (processes.run(2, _Asked(boxes), where) for where in (device, "cpu"))
    assert_same(found, expected, "cpu")


class _Asked:
    """A function with options, which can be sent to a process, and the mode of the simulated device."""

    def __init__(self, function, **options: object) -> None:
        self.function, self.options, self.has_float64 = function, options, simulated_device.has_float64

    def __call__(self, process: int, size: int, device: str) -> object:
        if device == "sim":
            simulated_device.install()
        simulated_device.has_float64 = self.has_float64
        return self.function(process, size, device, **self.options)
