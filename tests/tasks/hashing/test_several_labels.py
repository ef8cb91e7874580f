"""Matrices of labels: bits and back, and labels in common found block by block."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.relevance import LABELS, pack_columns, unpack_columns
from reid_torchmetrics.tasks.hashing import several_labels
from tests.profiles import examples
from tests.reference.several_labels import num_shared


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(0, 4))
def test_labels_are_packed_into_words_and_unpacked(seed, num_labels, size):
    matrix = torch.rand(size, num_labels, generator=torch.Generator().manual_seed(seed)) < 0.5
    labels = {"cameras": torch.arange(size), "identities": matrix}
    columns = pack_columns(labels, slice(None))
    assert (columns.dtype, columns.shape[1]) == (torch.int64, 1 + -(-num_labels // 63))
    back = unpack_columns(columns, labels)
    assert torch.equal(back["identities"], matrix)
    assert torch.equal(back["cameras"], labels["cameras"])


@pytest.mark.parametrize("pairs", [1, 40, 1 << 21])
@pytest.mark.parametrize("least", [1, 3])
@examples(40)
@given(st.integers(0, 2**32 - 1))
def test_labels_in_common_are_counted_in_blocks_of_any_size(pairs, least, seed):
    generator = torch.Generator().manual_seed(seed)
    query, gallery = (torch.rand(size, 5, generator=generator) < 0.3 for size in (7, 23))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(several_labels, "_PAIRS_AT_A_TIME", pairs)
        patched.setattr(several_labels, "_LEAST_QUERIES", least)
        shared = several_labels.SharedLabels(query, gallery)
        expected = [[num_shared(row, item) for item in gallery] for row in query]
        assert shared.lengths().tolist() == [sum(number > 0 for number in row) for row in expected]
        for rows in (slice(0, 7), slice(2, 5), slice(3, 3)):
            items, numbers = shared.entries(rows)
            wanted = [(item, number) for row in expected[rows] for item, number in enumerate(row) if number]
            assert list(zip(items.tolist(), numbers.tolist(), strict=True)) == wanted
            assert shared.numbers(rows).tolist() == expected[rows]
        assert shared.are_shared().tolist() == [any(row[item] for row in expected) for item in range(23)]


def test_only_identities_may_be_several():
    assert [name for name, label in LABELS.items() if label.may_be_several] == ["identities"]
    with pytest.raises(ValueError, match=r"`cameras` must have shape \[N\]; got \[2, 2\]."):
        LABELS["cameras"].check("cameras", torch.eye(2).long())
