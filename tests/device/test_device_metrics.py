"""Metrics over embeddings on a device: the values of the CPU, on the device of the metric."""

import copy
import pickle

import numpy as np
import pytest
import torch

from reid_torchmetrics import DetectionMAP, ReIDCMC, ReIDMeanAP, ReIDMetrics
from tests.device.problems import assert_as_on_the_cpu, assert_same, moved
from tests.functional.detection.detection_samples import fed as fed_boxes
from tests.functional.detection.detection_samples import images
from tests.metrics.reid.samples import batches, fed

BATCHES = batches()
DOUBLE = [batch | {"embeddings": batch["embeddings"].double()} for batch in BATCHES]
"""of which no two scores are equal"""
WHOLE = [batch | {"embeddings": batch["embeddings"].round()} for batch in DOUBLE]
"""whose scores are rounded nowhere, unless they are cosines"""


def numbered(given: list[dict]) -> list[dict]:
    """With numbers in the data set, of which the last batch repeats the first of the gallery."""
    starts = [sum(len(batch["identities"]) for batch in given[:place]) for place in range(len(given))]
    parts = [torch.arange(start, start + len(batch["identities"])) for start, batch in zip(starts, given, strict=True)]
    rows = [batch | {"index": index} for batch, index in zip(given, parts, strict=True)]
    return [*rows, rows[-2]]


def test_labels_in_arrays_and_lists_go_to_the_embeddings(device):
    def values(where):
        metric = ReIDMeanAP().to(where)
        for batch in DOUBLE:
            embeddings, ids, cameras = (batch[name] for name in ("embeddings", "identities", "cameras"))
            metric.update(moved(embeddings, where), ids.tolist(), cameras.numpy(), is_query=batch["is_query"])
        return [metric.compute(), vars(metric.nearest(3, [1, 0])), vars(metric.nearest(2, np.array([0])))]

    assert_as_on_the_cpu(device, values)


@pytest.mark.parametrize("kind", [ReIDMeanAP, DetectionMAP])
def test_all_that_a_metric_holds_is_where_its_batches_are(device, kind):
    metric = kind().to(device)
    if kind is DetectionMAP:
        fed_boxes(metric, *moved(images(51, 6, with_ids=True), device))
    else:
        fed(metric, moved(numbered(BATCHES), device))
    state = metric.metric_state.items()
    filled = {name: blocks for name, blocks in state if blocks and not name.startswith("image_name_")}
    held = {name: {block.device.type for block in blocks} for name, blocks in filled.items()}
    assert held == {name: {device} for name in held}


def test_compute_on_cpu_moves_samples_as_they_come(device):
    metrics = fed(ReIDMetrics(compute_on_cpu=True).to(device), moved(BATCHES, device))
    assert {block.device.type for block in metrics["map"].embeddings} == {"cpu"}
    assert {value.device.type for value in metrics.compute().values()} == {device}


def test_embeddings_that_are_not_finite_give_nan_there(device):
    given = copy.deepcopy(DOUBLE)
    given[1]["embeddings"][2, 0] = torch.inf
    metric = fed(ReIDMeanAP().to(device), moved(given, device))
    with pytest.warns(UserWarning, match="1 of 62 embeddings are NaN or infinite"):
        value = metric.compute()
    assert (value.device.type, bool(value.isnan())) == (device, True)


def test_nothing_gives_nan_there(device):
    for metric in (ReIDMeanAP().to(device), ReIDMetrics().to(device)):
        with pytest.warns(UserWarning, match="no sample|before the ``update``"):
            value = metric.compute()
        values = value.values() if isinstance(value, dict) else [value]
        assert {(each.device.type, bool(each.isnan())) for each in values} == {(device, True)}


def test_samples_move_with_the_metric(device):
    expected = fed(ReIDMeanAP(), DOUBLE).compute()
    metric = fed(ReIDMeanAP().to(device), moved(DOUBLE, device)).cpu()
    assert torch.equal(metric.compute(), expected)
    assert_same(fed(ReIDMeanAP(), DOUBLE).to(device).compute(), expected, device)


def test_two_metrics_that_are_fed_one_batch_have_their_own_values(device):
    def values(where):
        metrics = [ReIDMeanAP().to(where), ReIDCMC().to(where)]
        for batch in moved(DOUBLE, where):
            view = batch | {"embeddings": torch.stack([batch["embeddings"]] * 2, 1)[:, 0]}
            for metric in metrics:
                metric.update(**view)
        return [metric.compute() for metric in metrics]

    assert_as_on_the_cpu(device, values)


def test_a_learned_similarity_is_probed_there(device):
    scale = torch.ones((), dtype=torch.float64)

    def scaled(query, gallery):
        return scale.to(query.device) * (query @ gallery.T)

    def values(where):
        scale.fill_(1)
        metric = fed(ReIDMeanAP(similarity=scaled).to(where), moved(WHOLE, where))
        first = metric.compute()
        scale.fill_(-1)
        metric._computed = None
        return [first, metric.compute()]

    assert_as_on_the_cpu(device, values)


def test_an_update_refuses_labels_that_are_elsewhere(device):
    batch = moved(BATCHES[0], device)
    with pytest.raises(ValueError, match=r"`identities` must be on the device of its companions"):
        ReIDMeanAP().to(device).update(**batch | {"identities": batch["identities"].cpu()})


@pytest.mark.parametrize("kind", [ReIDMeanAP, DetectionMAP])
def test_a_checkpoint_of_the_cpu_is_loaded_there(device, kind):
    def metric_of(where):
        metric = kind().to(where)
        given = moved(images(51, 6), where)
        return fed_boxes(metric, *given) if kind is DetectionMAP else fed(metric, moved(DOUBLE, where))

    saved = metric_of("cpu")
    saved.persistent(mode=True)
    states = pickle.loads(pickle.dumps(saved.state_dict()))

    def value(where):
        loaded = kind().to(where)
        loaded.load_state_dict(states)
        return loaded.to(where).compute()

    assert_as_on_the_cpu(device, value)
