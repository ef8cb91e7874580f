"""TorchMetrics' wrappers, merging and checkpoints, on several processes and from one number of processes to another."""

import io
import warnings

import pytest
import torch
from torchmetrics.wrappers import MetricTracker, MinMaxMetric

from reid_torchmetrics import ReIDCMC, ReIDMeanAP, ReIDMetrics
from tests.metrics.reid.samples import batches, fed, reference_of

GIVEN = [
    batch | {"index": torch.arange(100 * number, 100 * number + len(batch["identities"]))}
    for number, batch in enumerate(batches())
]


def mean_ap(given) -> float:
    return float(torch.tensor(reference_of(given).average_precision["rectangle"]).nanmean())


def wrapped(process: int, size: int) -> dict[str, float]:
    own = GIVEN[process::size]
    tracker, minmax = MetricTracker(ReIDMeanAP()), MinMaxMetric(ReIDMeanAP())
    epochs = []
    for part in (own[: len(own) // 2], own):
        tracker.increment()
        minmax.reset()
        fed(tracker, part)
        epochs.append(float(tracker.compute()))
    values = fed(minmax, own).compute()
    composed = (ReIDCMC() + ReIDMeanAP()) / 2
    composed.update(**own[0])
    for batch in own[1:]:
        composed.update(**batch)
    best, step = tracker.best_metric(return_step=True)
    return {
        "tracked": epochs[1],
        "all": float(tracker.compute_all()[1]),
        "best": best == max(epochs) and epochs[step] == best,
        "raw": float(values["raw"]),
        "composed": float(composed.compute()),
    }


def test_wrappers_and_composition_combine_the_processes(processes):
    reference = reference_of(GIVEN)
    outcomes = processes.run(2, wrapped)
    assert outcomes[0] == outcomes[1]
    for name in ("tracked", "all", "raw"):
        assert outcomes[0][name] == pytest.approx(mean_ap(GIVEN), abs=1e-6)
    assert outcomes[0]["best"]
    assert outcomes[0]["composed"] == pytest.approx((mean_ap(GIVEN) + reference.cmc(1)[0]) / 2, abs=1e-6)


def saves(process: int, size: int) -> bytes:
    """The checkpoint of a process in the middle of an epoch, which goes on afterwards."""
    metrics = ReIDMetrics()
    metrics.persistent(True)
    fed(metrics, GIVEN[:5][process::size])
    metrics.compute()
    file = io.BytesIO()
    torch.save(metrics.state_dict(), file)
    return file.getvalue()


def resumes(process: int, size: int, saved: list[bytes]) -> dict[str, float]:
    """Checkpoints are dealt out to the processes; one without starts empty, one with several merges them."""
    warnings.simplefilter("error")
    metrics = ReIDMetrics()
    for number, data in enumerate(saved[process::size]):
        state = torch.load(io.BytesIO(data))
        if number == 0:
            metrics.load_state_dict(state)
            continue
        other = ReIDMetrics()
        other.load_state_dict(state)
        for name, metric in metrics.items(copy_state=False):
            metric.merge_state(other[name])
    values = [float(metrics.compute()["map"]), float(fed(metrics, GIVEN[5:][process::size]).compute()["map"])]
    return dict(zip(("before", "after"), values, strict=True))


@pytest.mark.parametrize(("saving", "resuming"), [(2, 2), (2, 3), (3, 2), (3, 1), (1, 4)])
def test_an_epoch_is_resumed_on_any_number_of_processes(processes, saving, resuming):
    saved = processes.run(saving, saves)
    for values in processes.run(resuming, resumes, saved):
        assert values == pytest.approx({"before": mean_ap(GIVEN[:5]), "after": mean_ap(GIVEN)}, abs=1e-6)


def test_a_checkpoint_does_not_change_when_the_epoch_goes_on():
    metric = ReIDMeanAP()
    metric.persistent(True)
    state = fed(metric, GIVEN[:4]).state_dict()
    resumed = [ReIDMeanAP(), ReIDMeanAP()]
    for other in resumed:
        other.load_state_dict(state)
        fed(other, GIVEN[4:])
        assert float(other.compute()) == pytest.approx(mean_ap(GIVEN), abs=1e-6)
    assert len(state["embeddings"]) == 4
    resumed[0].load_state_dict(state)
    assert float(resumed[0].compute()) == pytest.approx(mean_ap(GIVEN[:4]), abs=1e-6)


def merges(process: int, size: int) -> float:
    """Every process merges what two metrics saw, with one batch that both saw."""
    metric, other = fed(ReIDMeanAP(), GIVEN[process::size]), fed(ReIDMeanAP(), GIVEN[:1])
    metric.merge_state(other)
    return float(metric.compute())


def test_samples_that_were_merged_on_several_processes_count_once(processes):
    assert processes.run(3, merges) == pytest.approx([mean_ap(GIVEN)] * 3, abs=1e-6)
