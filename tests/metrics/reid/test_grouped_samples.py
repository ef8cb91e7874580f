"""Groups in the metrics: what `evaluate` says of the same samples, however batches and roles come."""

import re

import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from tests.metrics.held_samples import check_held_samples
from tests.metrics.reid.samples import batches, fed, mixed

GIVEN = [
    batch | ({} if batch["is_query"] else {"groups": 10 * batch["identities"] + batch["cameras"]})
    for batch in batches()
]
QUERIES, GALLERY = ([batch for batch in GIVEN if batch["is_query"] is role] for role in (True, False))
X, ID = torch.eye(3), torch.arange(3)


def test_groups_are_held_until_a_reset():
    given = [{"groups": torch.zeros_like(batch["identities"]), **batch} for batch in GIVEN]  # of queries, any
    check_held_samples(ReIDMeanAP, mixed(given), torch.equal)
    metric = fed(ReIDMeanAP(), GIVEN)
    metric.reset()
    assert torch.equal(fed(metric, batches()).compute(), fed(ReIDMeanAP(), batches()).compute())


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
