"""Pooled queries: means per identity and camera, equal to the slow reference."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.tasks.pooled_queries import pool_queries
from tests.paths import path
from tests.profiles import examples
from tests.reference import averages


@examples(60)
@given(
    st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 1)), max_size=12),
    st.booleans(),
    st.booleans(),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
)
def test_pooled_queries_are_those_of_the_slow_reference(labels, with_cameras, normalize, dtype):
    query = torch.randint(-2, 3, (len(labels), 3)).to(dtype)
    identities, cameras = torch.tensor(labels, dtype=torch.int64).reshape(-1, 2).T
    found = pool_queries(query, identities, cameras if with_cameras else None, normalize=normalize)
    keys = labels if with_cameras else [(identity,) for identity, _ in labels]
    seen, means = averages.pooled(query.double().numpy(), keys, normalize=normalize)
    assert found.identities.tolist() == [key[0] for key in seen]
    assert (found.cameras is not None) == with_cameras
    assert found.cameras is None or found.cameras.tolist() == [key[1] for key in seen]
    assert found.members.tolist() == [seen.index(key) for key in keys]
    assert found.embeddings.dtype == dtype
    assert found.embeddings.shape == (len(seen), 3)
    for row, mean in zip(found.embeddings, means, strict=True):
        assert row.double().tolist() == pytest.approx(mean.tolist(), abs=4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sums_do_not_leave_the_range_of_the_embeddings(dtype):
    query = torch.full((50, 4), torch.finfo(dtype).max, dtype=dtype)
    found = pool_queries(query, torch.zeros(50, dtype=torch.int64), normalize=False)
    assert found.embeddings.tolist() == query[:1].tolist()
    assert pool_queries(query, torch.zeros(50, dtype=torch.int64)).embeddings.tolist() == [[0.5] * 4]


def test_a_single_image_and_labels_beyond_the_integers_of_float64_stay_what_they_are():
    identities = torch.tensor([2**53, 2**53 + 1])
    found = pool_queries(torch.eye(2), identities)
    assert found.identities.tolist() == identities.tolist()
    assert found.embeddings.tolist() == torch.eye(2).tolist()


def test_the_coordinates_that_are_averaged_at_a_time_change_nothing(monkeypatch):
    query, identities = torch.randn(20, 7), torch.arange(20) % 3
    whole = pool_queries(query, identities)
    monkeypatch.setattr(*path("pooling_bytes"), 1)
    assert torch.equal(pool_queries(query, identities).embeddings, whole.embeddings)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ([torch.eye(2).long(), [0, 1]], TypeError, "`query` must have a floating point dtype of 16 to 64 bits; .*"),
        ([torch.eye(2) / 0, torch.arange(2)], ValueError, "`query` must be finite; got 2 rows .*"),
        ([torch.eye(2), torch.arange(3)], ValueError, r"`query_identities` must have shape \[2\]; got \[3\]."),
        ([torch.eye(2), torch.arange(2), torch.ones(2) / 2], ValueError, "`query_cameras` must hold integers, or .*"),
    ],
)
def test_a_bad_argument_is_named(arguments, kind, message):
    with pytest.raises(kind, match=f"^{message}$"):
        pool_queries(*arguments)
