"""Groups in the metrics: what `evaluate` says of the same samples, however batches and roles come."""

import pickle
import re
import warnings

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate
from tests.closeness import assert_close
from tests.metrics.reid.samples import batches, fed

GIVEN = [
    batch | ({} if batch["is_query"] else {"groups": 10 * batch["identities"] + batch["cameras"]})
    for batch in batches()
]
QUERIES, GALLERY = ([batch for batch in GIVEN if batch["is_query"] is role] for role in (True, False))
X, ID = torch.eye(3), torch.arange(3)


def joined(name, side):
    return torch.cat([batch[name] for batch in side])


NAMES = ("embeddings", "identities", "cameras")
PARTS = [joined(name, side) for name in NAMES for side in (QUERIES, GALLERY)]
EXPECTED = evaluate(*PARTS, gallery_groups=joined("groups", GALLERY))


def floats(metrics):
    return {name: float(value) for name, value in metrics.compute().items()}


def mixed():
    """Batches of queries and gallery items, in which queries have groups, too, that decide nothing."""
    batch = {name: torch.cat([joined(name, QUERIES), joined(name, GALLERY)]) for name in NAMES}
    batch["is_query"] = torch.arange(len(batch["identities"])) < len(joined("identities", QUERIES))
    batch["groups"] = torch.cat([torch.arange(int(batch["is_query"].sum())), joined("groups", GALLERY)])
    order = torch.randperm(len(batch["groups"]), generator=torch.Generator().manual_seed(1))
    return [{name: values[part] for name, values in batch.items()} for part in order.split(9)]


@pytest.mark.parametrize("given", [GIVEN, GALLERY + QUERIES, mixed()], ids=["queries_first", "gallery_first", "mixed"])
@pytest.mark.slow
def test_a_collection_computes_what_evaluate_does(given):
    metrics = fed(ReIDMetrics(), given)
    assert floats(metrics) == pytest.approx(EXPECTED.means, abs=1e-6)
    results = metrics.results(nearest=3, camera_pairs=True)
    assert results.means == pytest.approx(EXPECTED.means, abs=1e-12)
    assert results.setup == EXPECTED.setup
    # Positions in the gallery are those of its samples in the order in which they came.
    assert torch.equal(results.nearest(3).scores.sort(0).values, EXPECTED.nearest(3).scores.sort(0).values)
    pairs = results.by_camera_pair().mean, EXPECTED.by_camera_pair().mean
    assert_close(*pairs, rtol=1e-7, atol=1e-7, equal_nan=True)


def test_forward_merging_checkpoints_and_pickles_keep_the_groups():
    expected = float(fed(ReIDMeanAP(), GIVEN).compute())
    stepwise, loaded = ReIDMeanAP(), ReIDMeanAP()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a batch alone has no positives
        for batch in GIVEN:
            stepwise(**batch)
    halves = [fed(ReIDMeanAP(), part) for part in (QUERIES, GALLERY)]
    halves[0].merge_state(halves[1])
    stepwise.persistent(mode=True)
    loaded.load_state_dict(stepwise.state_dict())
    for metric in (stepwise, halves[0], loaded, pickle.loads(pickle.dumps(stepwise))):
        assert float(metric.compute()) == expected
    halves[0].reset()
    assert torch.equal(fed(halves[0], batches()).compute(), fed(ReIDMeanAP(), batches()).compute())


def test_repetitions_of_an_item_have_its_group():
    first, labels = torch.tensor([0, 1, 2]), {"identities": ID, "is_query": False}
    metric = ReIDMeanAP()
    metric.update(X, ID, is_query=True, index=first + 10)
    metric.update(X, **labels, index=first, groups=ID)
    metric.update(X, **labels, index=first, groups=ID)
    assert metric.results().num_candidates.tolist() == [3, 3, 3]
    metric.update(X, **labels, index=first, groups=ID + 1)
    with pytest.raises(ValueError, match=r"^`index` must .*; got 0 for identity 0 at group 0 and for .* at group 1"):
        metric.compute()


REFUSED = [
    ({"is_query": None}, "`groups` must come with `is_query`, as a query is no member of a group; got them without."),
    (
        {"groups": None},
        "`groups` must be given in every batch or in none; got a batch without it after batches with it.",
    ),
    ({"groups": ID[:2]}, "`groups` must have shape [3]; got [2]."),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_a_bad_batch_is_refused_and_nothing_is_stored(change, message):
    batch = {"embeddings": X, "identities": ID, "is_query": False, "groups": ID}
    metric = ReIDMeanAP()
    metric.update(**batch)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        metric.update(**(batch | change))
    assert len(metric.embeddings) == len(metric.groups) == 1
