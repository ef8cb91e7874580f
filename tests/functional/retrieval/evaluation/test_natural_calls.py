"""Calls as users of metric learning write them: embeddings and their labels, each searched among the others."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import evaluate

EMBEDDINGS = torch.randn(12, 4)
LABELS = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
FORMS = {
    "list": LABELS,
    "tuple": tuple(LABELS),
    "tensor": torch.tensor(LABELS),
    "int32": torch.tensor(LABELS, dtype=torch.int32),
    "array": np.array(LABELS),
    "names": [f"class {label}" for label in LABELS],
    "array of names": np.array([f"class {label}" for label in LABELS]),
}


@pytest.mark.parametrize("protocol", ["market1501", "sop", "cub200"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore:.*no cameras")
def test_embeddings_and_labels_are_leave_one_out(form, protocol):
    expected = evaluate(EMBEDDINGS, query_identities=LABELS, protocol=protocol)
    found = evaluate(EMBEDDINGS, FORMS[form], protocol=protocol)
    assert found.means == expected.means
    assert found.counts == expected.counts


def test_labels_beside_identities_are_no_gallery():
    with pytest.raises(TypeError, match="`gallery` must have a floating point dtype"):
        evaluate(EMBEDDINGS, torch.tensor(LABELS), query_identities=LABELS)


@pytest.mark.usefixtures("unannotated")
def test_a_row_of_floats_is_no_labels():
    with pytest.raises(ValueError, match=r"`gallery` must have shape \[N, D\]; got \[12\]"):
        evaluate(EMBEDDINGS, torch.tensor(LABELS).float(), query_identities=LABELS)


@pytest.mark.parametrize("protocol", ["cub200", "cars196", "sop", "inshop"])
def test_recall_of_papers_is_said_to_be_the_hit_rate(protocol):
    gallery = {} if protocol != "inshop" else {"gallery": torch.randn(12, 4), "gallery_identities": LABELS}
    reports = ("recall_1", "hit_rate_1")
    results = evaluate(EMBEDDINGS, query_identities=LABELS, protocol=protocol, reports=reports, **gallery)
    assert "the papers' Recall@1 is hit_rate_1" in results.conventions["recall_1"]
    assert "Recall@1" not in results.conventions["hit_rate_1"]


POSITIONS = {"query_positions": [[0.0, 0.0], [9.0, 9.0]], "gallery_positions": [[0.0, 0.0], [9.0, 9.0], [5.0, 5.0]]}


@pytest.mark.parametrize("truth", [{"ground_truth": [[0], [1]]}, {**POSITIONS, "radius": 1.0}])
def test_codes_of_integers_beside_floats_are_a_gallery_where_there_is_other_truth(truth):
    query, gallery = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), torch.tensor([[0, 1, 1], [1, 0, 0], [1, 1, 0]])
    assert evaluate(query, gallery, similarity="hamming", reports=("map",), **truth).means == {"map": 1.0}
