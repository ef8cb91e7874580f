"""Two processes whose metrics are on a device, in a group whose backend takes tensors of the CPU."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import distributed

from reid_torchmetrics import DetectionMAP, ReIDMetrics
from tests.device import simulated_device
from tests.device.calls import is_simulated
from tests.device.problems import assert_same, moved
from tests.functional.detection.detection_samples import fed as fed_boxes
from tests.functional.detection.detection_samples import images
from tests.metrics.reid.samples import batches, fed


def samples(*, numbered: bool) -> list[dict]:
    """Whole numbers, whose scores are rounded nowhere; `numbered` samples have an index."""
    given = [batch | {"embeddings": batch["embeddings"].round().double()} for batch in batches()]
    for number, batch in enumerate(given if numbered else []):
        batch["index"] = torch.arange(len(batch["identities"])) + 100 * number
    return given


def ranks(
    process: int, size: int, device: str, *, num_holders: int = 2, numbered: bool = False, **options: object
) -> object:
    """Each process has every other batch, or the first has all."""
    metrics = ReIDMetrics(similarity="dot", **options).to(device)
    fed(metrics, moved(samples(numbered=numbered)[process::num_holders] if process < num_holders else [], device))
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


IN_BLOCKS = {"ties": "stable", "numbered": True, "max_bytes": 500}  # a few queries at a time


@pytest.mark.parametrize("options", [{"ties": "pessimistic"}, IN_BLOCKS, {"ties": "expected"}], ids=str)
def test_two_processes_rank_what_is_on_their_devices(device, processes, options):
    found, expected = (processes.run(2, _Asked(ranks, **options), where) for where in (device, "cpu"))
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


COLLECTIVES = ("broadcast", "all_reduce", "all_to_all_single", "all_gather_single", "all_gather_into_tensor")


def over_two_backends(
    process: int, size: int, devices: tuple[str, str], work: Callable[..., object]
) -> tuple[object, set[str]]:
    """What some work finds in a group with a backend for the device, too, and the collectives that went over that."""
    seen = set()

    def over_either(name: str, collective: Callable, *args: object, **options: object) -> object:
        (kind,) = {each.device.type for each in args if isinstance(each, torch.Tensor)}
        seen.update([name] if kind == "sim" else [])
        return collective(*(each.raw if is_simulated(each) else each for each in args), **options)

    simulated_device.install()
    simulated_device.has_float64 = True  # processes are used again
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(distributed, "get_backend_config", lambda _: "cpu:gloo,sim:fast")
        for name in COLLECTIVES:
            if hasattr(distributed, name):
                patched.setattr(distributed, name, partial(over_either, name, getattr(distributed, name)))
        return work(process, size, devices[process]), seen


@pytest.mark.parametrize("work", [partial(ranks, numbered=True), boxes], ids=["ranks", "boxes"])
def test_payload_goes_over_the_backend_of_the_device_where_all_have_their_samples_there(simulated, processes, work):
    expected = processes.run(2, work, "cpu")
    for devices in ((simulated, simulated), (simulated, "cpu")):
        found, seen = zip(*processes.run(2, over_two_backends, devices, work), strict=True)
        assert_same([*found], expected, "cpu")
        assert seen[0] == seen[1]
        assert ("broadcast" in seen[0]) == ("cpu" not in devices)
        assert ("all_to_all_single" in seen[0]) == ("cpu" not in devices and work is not boxes)


class _Asked:
    """A function with options, which can be sent to a process, and the mode of the simulated device."""

    def __init__(self, function, **options: object) -> None:
        self.function, self.options, self.has_float64 = function, options, simulated_device.has_float64

    def __call__(self, process: int, size: int, device: str) -> object:
        if device == "sim":
            simulated_device.install()
        simulated_device.has_float64 = self.has_float64
        return self.function(process, size, device, **self.options)
