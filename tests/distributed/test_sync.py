"""TorchMetrics' ways of synchronizing keep their meaning, and none of them moves or copies the samples."""

import copy
import gc
import pickle
import weakref
from unittest import mock

import pytest
import torch
from torch import distributed
from torchmetrics.utilities.distributed import gather_all_tensors

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from tests.metrics.reid.samples import batches, fed, reference_of

GIVEN = batches(num_queries=20, num_gallery=90)


def mean_ap(given) -> float:
    return float(torch.tensor(reference_of(given).average_precision["rectangle"]).nanmean())


def alone(given) -> float:
    return float(fed(ReIDMeanAP(sync_on_compute=False), given).compute())


def computes_alone(process: int, size: int) -> tuple[float, float]:
    own = GIVEN[process::size]
    return float(fed(ReIDMeanAP(sync_on_compute=False), own).compute()), alone(own)


def test_without_sync_on_compute_every_process_evaluates_its_own_samples(processes):
    outcomes = processes.run(2, computes_alone)
    assert all(value == expected for value, expected in outcomes)
    assert outcomes[0] != outcomes[1]


def every_way(process: int, size: int) -> dict[str, float]:
    own = GIVEN[process::size]
    metric = fed(ReIDMeanAP(sync_on_compute=False), own)
    with metric.sync_context():
        values = {"sync_context": float(metric.compute())}
        metric.sync()  # TorchMetrics' compute undoes the synchronization
    metric.reset()
    fed(metric, own).sync()
    assert metric._is_synced
    values["sync"] = float(metric.compute())
    assert not metric._is_synced
    metric.reset()
    fed(metric, own).sync()
    metric.unsync()
    assert float(metric.compute()) == alone(own)
    return values


def test_manual_synchronization_combines_the_processes_until_it_is_undone(processes):
    for values in processes.run(2, every_way):
        assert values == pytest.approx(dict.fromkeys(values, mean_ap(GIVEN)), abs=1e-6)


def accumulates(process: int, size: int) -> list[float]:
    metric, values = ReIDMeanAP(), []
    for first in (0, 6, 9):
        metric.update(**GIVEN[process + first])
        metric.update(**GIVEN[process + first + size])
        values.append(float(metric.compute()))
        assert metric.compute() == values[-1]
    return values


def test_a_metric_goes_on_accumulating_after_compute(processes):
    order = [0, 2, 1, 3], [6, 8, 7, 9], [9, 11, 10, 12]
    seen = [GIVEN[0], GIVEN[1], *GIVEN[2:4]]
    values = processes.run(2, accumulates)
    assert values[0] == values[1]
    for value, added in zip(values[0], ([], order[1], order[2]), strict=True):
        seen = seen + [GIVEN[number] for number in added]
        assert value == pytest.approx(mean_ap(seen), abs=1e-6)


def grows_unevenly(process: int, size: int) -> list[float]:
    """Between two computes only process 0 gets a batch; TorchMetrics' process 1 would go on with the value at hand."""
    metric = fed(ReIDMeanAP(compute_with_cache=False), GIVEN[process:-1:size])
    values = [float(metric.compute())]
    fed(metric, GIVEN[-1:] if process == 0 else [])
    return [*values, float(metric.compute())]


def test_without_a_cache_processes_that_got_nothing_compute_with_the_others(processes):
    expected = [mean_ap(GIVEN[:-1]), mean_ap(GIVEN)]
    assert processes.run(2, grows_unevenly) == [pytest.approx(expected, abs=1e-6)] * 2


def steps(process: int, size: int) -> tuple[list[float], float]:
    metric = ReIDMeanAP(dist_sync_on_step=True)
    generator = torch.Generator().manual_seed(process)
    values = []
    for step in range(3):
        embeddings = torch.randn(10, 5, generator=generator)
        index = torch.arange(10) + 10 * (process + size * step)
        values.append(float(metric(embeddings, torch.arange(10) % 4, index=index)))
    return values, float(metric.compute())


def test_dist_sync_on_step_evaluates_the_batches_of_all_processes(processes):
    outcomes = processes.run(2, steps)
    assert outcomes[0] == outcomes[1]
    generators = [torch.Generator().manual_seed(process) for process in range(2)]
    whole = ReIDMeanAP()
    for value in outcomes[0][0]:
        embeddings = torch.cat([torch.randn(10, 5, generator=generator) for generator in generators])
        assert value == pytest.approx(float(whole(embeddings, torch.arange(20) % 10 % 4)), abs=1e-6)
    assert outcomes[0][1] == pytest.approx(float(whole.compute()), abs=1e-6)


def in_halves(process: int, size: int) -> float:
    groups = [distributed.new_group([0, 2]), distributed.new_group([1, 3])]
    metric = ReIDMeanAP(process_group=groups[process % 2])
    return float(fed(metric, GIVEN[process // 2 :: 2] if process % 2 else GIVEN[process // 2 : 9 : 2]).compute())


def test_a_process_group_evaluates_the_samples_of_its_own_processes(processes):
    values = processes.run(4, in_halves)
    assert values == pytest.approx([mean_ap(GIVEN[:9]), mean_ap(GIVEN)] * 2, abs=1e-6)


def whole_then_half(process: int, size: int) -> list[float]:
    half = distributed.new_group([0, 1])
    metrics = [ReIDMeanAP(), ReIDMeanAP(process_group=half)]
    for batch in GIVEN[process::size]:
        for metric in metrics:
            metric.update(**batch)
    return [float(metric.compute()) for metric in (metrics if process < 2 else metrics[:1])]


def test_a_ranking_of_more_processes_is_not_taken_for_that_of_some(processes):
    values = processes.run(3, whole_then_half)
    expected = [mean_ap(GIVEN), mean_ap([batch for process in range(2) for batch in GIVEN[process::3]])]
    assert values == [pytest.approx(expected, abs=1e-6)] * 2 + [pytest.approx(expected[:1], abs=1e-6)]


def doubled(values: torch.Tensor, group: object) -> list[torch.Tensor]:
    """A user's own way to gather: as if another process held the same."""
    assert group is None
    return [values, values]


def counted_gather(values: torch.Tensor, group: object) -> list[torch.Tensor]:
    counted_gather.calls += 1
    return gather_all_tensors(values, group)


def gathers(process: int, size: int) -> tuple[float, int, float]:
    counted_gather.calls = 0
    metric = fed(ReIDMeanAP(dist_sync_fn=counted_gather), GIVEN[process::size] if process else [])
    lists = {name: id(getattr(metric, name)) for name in metric._defaults}
    value = float(metric.compute())
    assert lists == {name: id(getattr(metric, name)) for name in metric._defaults}
    return value, counted_gather.calls, alone(GIVEN[process::size] if process else [])


def test_a_dist_sync_fn_of_the_users_gathers_the_samples(processes):
    outcomes = processes.run(3, gathers)
    expected = mean_ap([batch for process in (1, 2) for batch in GIVEN[process::3]])
    assert [value for value, _, _ in outcomes] == pytest.approx([expected] * 3, abs=1e-6)
    num_states = len(ReIDMeanAP()._defaults) - 1  # without `_update_key`, which has no values
    assert [calls for _, calls, _ in outcomes] == [num_states] * 3


def test_a_dist_sync_fn_needs_no_process_group():
    metric = ReIDMeanAP(dist_sync_fn=doubled, distributed_available_fn=lambda: True)
    for batch in GIVEN:
        metric.update(**batch, index=torch.arange(len(batch["identities"])) + 100 * id(batch))
    assert float(metric.compute()) == pytest.approx(mean_ap(GIVEN), abs=1e-6)
    assert len(metric.embeddings) == len(GIVEN)


@pytest.mark.filterwarnings("ignore:.* come twice")  # as `doubled` means it
def test_a_dist_sync_fn_that_fails_leaves_the_samples():
    failing = mock.Mock(side_effect=[[torch.ones(1, 6)], ConnectionError("lost")])
    metric = fed(ReIDMeanAP(dist_sync_fn=failing, distributed_available_fn=lambda: True), GIVEN)
    with pytest.raises(ConnectionError):
        metric.compute()
    metric.dist_sync_fn = doubled
    assert len(metric.embeddings) == len(GIVEN)
    assert float(metric.compute()) > 0


def on_the_cpu(process: int, size: int) -> float:
    return float(fed(ReIDMeanAP(compute_on_cpu=True), GIVEN[process::size]).compute())


def test_compute_on_cpu_combines_processes(processes):
    assert processes.run(2, on_the_cpu) == pytest.approx([mean_ap(GIVEN)] * 2, abs=1e-6)


def copies(process: int, size: int) -> tuple[bool, float]:
    """Whether the metric holds the very same tensors and lists after compute, which copied no embeddings."""
    metric = fed(ReIDMeanAP(), GIVEN[process::size])
    lists = [getattr(metric, name) for name in metric._defaults]
    tensors = [id(block) for block in metric.embeddings]
    with mock.patch.object(torch.Tensor, "clone", side_effect=AssertionError("cloned")):
        metric.sync()
        metric.unsync()
    value = float(metric.compute())
    same = all(getattr(metric, name) is held for name, held in zip(metric._defaults, lists, strict=True))
    return same and tensors == [id(block) for block in metric.embeddings], value


def test_synchronizing_copies_nothing(processes):
    assert processes.run(2, copies) == [(True, pytest.approx(mean_ap(GIVEN), abs=1e-6))] * 2


def copied_after_compute(process: int, size: int) -> list[float]:
    metrics = fed(ReIDMetrics(), GIVEN[process::size])
    values = [float(metrics.compute()["map"])]
    for other in (pickle.loads(pickle.dumps(metrics)), copy.deepcopy(metrics), metrics.clone()):
        fed(other, GIVEN[:1])
        other.reset()
        values.append(float(fed(other, GIVEN[process::size]).compute()["map"]))
    return values


def test_metrics_are_pickled_and_cloned_after_they_were_synchronized(processes):
    for values in processes.run(2, copied_after_compute):
        assert values == pytest.approx([mean_ap(GIVEN)] * 4, abs=1e-6)


def forgets(process: int, size: int) -> list[bool]:
    """Whether samples are gone after a reset that follows a synchronized step, a reset while synced, a failed sync."""
    gone = []
    for way in ("step", "reset", "fail"):
        metric = ReIDMeanAP(dist_sync_on_step=way == "step", sync_on_compute=way != "step")
        embeddings = torch.randn(8, 4)
        (metric if way == "step" else metric.update)(embeddings, torch.arange(8) % 3)
        if way == "reset":
            metric.sync()
        if way == "fail":
            metric.dist_sync_fn = mock.Mock(side_effect=ConnectionError)
            with pytest.raises(ConnectionError):
                metric.compute()
            metric.dist_sync_fn = None
        if way == "step":
            assert float(metric.compute()) == float(metric.clone().compute())  # on this process alone
            pickle.loads(pickle.dumps(metric))
        alive = weakref.ref(embeddings)
        del embeddings
        metric.reset()
        gc.collect()
        gone.append(alive() is None)
        assert metric._world.size == 1
    return gone


def test_samples_are_gone_after_a_reset(processes):
    assert processes.run(2, forgets) == [[True] * 3] * 2


def begins_in_inference_mode(process: int, size: int) -> list[float]:
    with torch.inference_mode():
        values = [float(fed(ReIDMeanAP(), GIVEN[process::size]).compute())]
    return [*values, float(fed(ReIDMeanAP(), GIVEN[process::size]).compute())]


def test_a_group_that_first_talked_in_inference_mode_goes_on_outside(processes):
    for first, second in processes.run(2, begins_in_inference_mode):
        assert first == second
