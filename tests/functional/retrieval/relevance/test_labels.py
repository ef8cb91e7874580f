# ruff: noqa: E501 - a message stays on one line, to be searched for
"""The table of labels: names in the place of numbers, what is missing or does not fit, side by side and back."""

import re

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import find_relevance
from reid_torchmetrics.functional.retrieval.relevance import (
    LABELS,
    NO_GROUP,
    RELEVANCE_LABELS,
    pack_columns,
    relevance_labels,
    unpack_columns,
)

IDENTITIES = {"query_identities": [5, 0, -1], "gallery_identities": [0, 5, 9, -1, 5]}
TEXTS = {5: "zoe", 0: "bo", -1: "-1", 9: "anna"}
NAMES = {name: [TEXTS[number] for number in numbers] for name, numbers in IDENTITIES.items()}
CPU = torch.device("cpu")


def listed(**labels):
    """The items that are listed for each query, the items that are kept, and which queries are junk."""
    found = find_relevance(**labels)
    kept = range(found.num_gallery) if found.kept is None else found.kept.tolist()
    parts = zip(found.run_start.tolist(), found.run_length.tolist(), strict=True)
    return [[kept[place] for place in found.order[start : start + length]] for start, length in parts], found.is_junk


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda names: np.array(names, dtype=object)])
def test_names_on_both_sides_are_numbers_and_minus_one_is_junk(kind):
    items, is_junk = listed(**{name: kind(names) for name, names in NAMES.items()})
    assert items == listed(**IDENTITIES)[0] == [[1, 4], [0], []]
    assert is_junk.tolist() == [False, False, True]


@pytest.mark.parametrize("gone", [None, ""])
def test_a_side_without_any_identity_may_come_with_names(gone):
    items, _ = listed(query_identities=["a", "b"], gallery_identities=[gone, gone], missing_identities="junk")
    assert items == [[], []]
    _, is_junk = listed(query_identities=[gone, gone], gallery_identities=["a", "b"], missing_identities="junk")
    assert is_junk.tolist() == [True, True]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"query_identities": ["a", 1, "b"]}, TypeError, "`query_identities` must hold integers only, or names only; got 1 and names."),
        ({"query_identities": ["a", "", ""]}, ValueError, "`query_identities` must hold no missing value; got '' for sample 1. Pass `missing_identities='junk'` where such samples have no identity."),
        ({"query_identities": np.array(["a", "b", ""])}, ValueError, "`query_identities` must hold no missing value; got '' for sample 2. Pass `missing_identities='junk'` where such samples have no identity."),
        (NAMES | {"junk_identities": (-1, 3)}, ValueError, "`junk_identities` must list names, or -1, where identities are names; got (-1, 3)."),
        ({"query_cameras": ["a"] * 3, "gallery_cameras": ["b"] * 5, "camera_map": {3: -1}}, ValueError, "`camera_map` must list names, or -1, where cameras are names; got {3: -1}."),
        ({"query_cameras": ["a"] * 3, "gallery_cameras": ["b"] * 5, "search_cameras": [1]}, ValueError, "`search_cameras` must list names, or -1, where cameras are names; got [1]."),
        ({"query_identities": None}, ValueError, "`query_identities` and `gallery_identities` must be given unless relevance is by `radius` or by lists; got only `gallery_identities`."),
        ({"clothes": "drop_same"}, ValueError, "`query_clothes` and `gallery_clothes` must be given for `clothes` 'drop_same'; got none."),
        ({"query_clothes": [1] * 3, "gallery_clothes": [1] * 5, "clothes": "same"}, ValueError, "`clothes` must be one of 'keep', 'drop_same', 'drop_other'; got 'same'."),
        ({"gallery_sequences": [1] * 5}, ValueError, "`query_sequences` and `gallery_sequences` must be given together; got `gallery_sequences` without `query_sequences`."),
        ({"query_cameras": [1] * 4, "gallery_cameras": [1] * 5}, ValueError, "`query_cameras` must have shape [3]; got [4]."),
        ({"self_index": [1, 0, 5]}, ValueError, "`self_index` must lie in [-1, 5); got values from 0 to 5."),
        ({"self_index": [-2, 0, 3]}, ValueError, "`self_index` must lie in [-1, 5); got values from -2 to 3."),
        ({"self_index": [-1, 0, 0]}, ValueError, "`self_index` must point at gallery items with the labels of the query; got item 0 for query 2, of another identity."),
        ({"query_positions": [[0.0, 1.0]] * 3, "gallery_positions": [[0.0, 2.0]] * 5, "self_index": [1, 0, 3]}, ValueError, "`self_index` must point at gallery items with the labels of the query; got item 1 for query 0, of another position."),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("unannotated")
def test_labels_that_do_not_fit_are_named(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        find_relevance(**(IDENTITIES | options))


def test_labels_are_packed_to_the_bit_and_unpacked():
    labels = {
        "identities": torch.tensor([3, -1, 2**62]),
        "positions": torch.tensor([[0.1, -0.0], [5e6, 1e-300], [1.0, 2.0]], dtype=torch.float64),
        "cameras": torch.tensor([7, 8, 9]),
    }
    columns = pack_columns(labels, torch.tensor([2, 0]))
    assert (columns.shape, columns.dtype) == ((2, 4), torch.int64)
    for name, values in unpack_columns(columns, labels).items():
        assert torch.equal(values, labels[name][[2, 0]])
        assert values.dtype == labels[name].dtype


def test_samples_that_lack_a_label_have_an_empty_one_or_no_group():
    assert LABELS["positions"].empty(2, device=CPU).shape == (0, 2)
    assert LABELS["positions"].empty(device=CPU).shape == (0, 1)
    assert LABELS["cameras"].empty(2, device=CPU).shape == (0,)
    assert LABELS["groups"].empty(length=3, device=CPU).tolist() == [NO_GROUP] * 3


def test_some_labels_decide_on_both_sides_and_groups_on_one():
    assert LABELS.keys() - {*RELEVANCE_LABELS} == {"index"}
    labels = {"index": torch.arange(2), "groups": torch.arange(2), "cameras": torch.arange(2)}
    assert [*relevance_labels(labels, "query", "gallery")] == [*relevance_labels(labels, "query")] == ["cameras"]
    assert [*relevance_labels(labels, "gallery")] == [*relevance_labels(labels)] == ["cameras", "groups"]
