"""Ranks that are asked for different things learn it, whatever it is, and can go on together."""

import itertools

import pytest

from reid_torchmetrics import DetectionMAP, ReIDCMC, ReIDMeanAP
from tests.distributed.failures import message_of
from tests.functional.detection import detection_samples
from tests.metrics.reid.samples import batches, fed
from tests.profiles import PROFILE


def metrics(process: int, size: int) -> dict[str, ReIDMeanAP | DetectionMAP]:
    given, (preds, target) = batches(), detection_samples.images(1, 6)
    return {
        "mean AP": fed(ReIDMeanAP(), given[process::size]),
        "CMC by another camera rule": fed(ReIDCMC(protocol="cuhk03_openreid"), given[process::size]),
        "detection": detection_samples.fed(DetectionMAP(), preds[process::size], target[process::size]),
    }


METHODS = ("compute", "results", "forward")
ASKED = {
    (name, method): "results" if method == "results" else "compute" for name in metrics(0, 1) for method in METHODS
}
PAIRS = [
    pair for pair in itertools.combinations(ASKED, 2) if (pair[0][0], ASKED[pair[0]]) != (pair[1][0], ASKED[pair[1]])
]
TRIED = PAIRS if PROFILE == "nightly" else PAIRS[::4]


def ask(held: dict, name: str, method: str):
    """What a process calls."""
    metric = held[name]
    if method != "forward":
        return getattr(metric, method)
    metric.dist_sync_on_step = True
    batch = detection_samples.images(2, 2) if name == "detection" else batches(seed=3)[-1]
    return lambda: metric(*batch) if name == "detection" else metric(**batch)


def asks(process: int, size: int) -> list[str]:
    said = []
    for pair in TRIED:
        held = metrics(process, size)
        said.append(message_of(ask(held, *pair[process])))
        assert message_of(held["mean AP"].compute).startswith("no error")
    return said


@pytest.mark.filterwarnings("ignore:No query can be evaluated")
def test_processes_that_are_asked_for_different_things_learn_it_and_go_on(processes):
    classes = {"mean AP": "ReIDMeanAP", "CMC by another camera rule": "ReIDCMC", "detection": "DetectionMAP"}
    first, second = processes.run(2, asks)
    assert len(PAIRS) > 20
    for pair, *said in zip(TRIED, first, second, strict=True):
        called = "; ".join(
            f"process {process}: `{classes[each[0]]}.{ASKED[each]}`" for process, each in enumerate(pair)
        )
        assert said == [f"All processes must call the same method of the same class; got {called}."] * 2, pair
