"""Groups in the metrics: what `evaluate` says of the same samples, however batches and roles come."""

import pickle
import re
import warnings

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from tests.metrics.reid.samples import batches, fed

GIVEN = [
    batch | ({} if batch["is_query"] else {"groups": 10 * batch["identities"] + batch["cameras"]})
    for batch in batches()
]
QUERIES, GALLERY = ([batch for batch in GIVEN if batch["is_query"] is role] for role in (True, False))
X, ID = torch.eye(3), torch.arange(3)


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
