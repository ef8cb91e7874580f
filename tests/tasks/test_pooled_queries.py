"""Pooled queries: means per identity and camera, equal to the slow reference."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.evaluation import Labels
from reid_torchmetrics.functional.retrieval.scores import Rows
from reid_torchmetrics.tasks.pooled_queries import pool_queries
from tests.paths import path
from tests.profiles import examples
from tests.reference import averages


def pooled(query, identities, cameras=None, *, gallery=()):
    labels = {"identities": identities} if cameras is None else {"identities": identities, "cameras": cameras}
    rows, labels = pool_queries(Rows([query]), Labels(labels, {}), gallery)
    return rows.all(), labels.query


@examples(60)
@given(
    st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 1)), max_size=12),
    st.booleans(),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)
def test_pooled_queries_are_those_of_the_slow_reference(labels, with_cameras, dtype):
    query = torch.randint(-2, 3, (len(labels), 3)).to(dtype)
    identities, cameras = torch.tensor(labels, dtype=torch.int64).reshape(-1, 2).T
    embeddings, found = pooled(query, identities, cameras if with_cameras else None)
    keys = labels if with_cameras else [(identity,) for identity, _ in labels]
    seen, means = averages.pooled(query.double().numpy(), keys)
    assert [tuple(row) for row in torch.stack(list(found.values()), 1).tolist()] == seen
    assert list(found) == ["identities", "cameras"][: 1 + with_cameras]
    assert embeddings.dtype == torch.promote_types(dtype, torch.float32)
    assert embeddings.shape == (len(seen), 3)
    for row, mean in zip(embeddings, means, strict=True):
        assert row.double().tolist() == pytest.approx(mean.tolist(), abs=4 * torch.finfo(embeddings.dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_norms_do_not_leave_the_range_of_the_embeddings(dtype):
    query = torch.full((50, 4), torch.finfo(dtype).max, dtype=dtype)
    assert pooled(query, torch.zeros(50, dtype=torch.int64))[0].tolist() == [[0.5] * 4]


def test_a_single_image_and_labels_beyond_the_integers_of_float64_stay_what_they_are():
    identities = torch.tensor([2**53, 2**53 + 1])
    embeddings, found = pooled(torch.eye(2), identities)
    assert found["identities"].tolist() == identities.tolist()
    assert embeddings.tolist() == torch.eye(2).tolist()


def test_the_coordinates_that_are_averaged_at_a_time_change_nothing(monkeypatch):
    query, identities = torch.randn(20, 7), torch.arange(20) % 3
    whole, _ = pooled(query, identities)
    monkeypatch.setattr(*path("pooling_bytes"), 1)
    assert torch.equal(pooled(query, identities)[0], whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([torch.eye(2) / 0, torch.arange(2)], "`query` must be finite; got 2 rows .*"),
        ([torch.eye(2), torch.arange(3)], r"`query_identities` must have shape \[2\]; got \[3\]."),
        ([torch.eye(2), torch.arange(2), torch.ones(2) / 2], "`query_cameras` must hold integers, or .*"),
    ],
)
def test_a_bad_argument_is_named(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        pooled(*arguments)
