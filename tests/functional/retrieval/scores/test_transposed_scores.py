"""Scores that lie by columns give the numbers of scores that lie by rows."""

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate_scores, find_relevance, scores_from_matrix

NUM_QUERIES, NUM_GALLERY = 600, 1100  # more than a block of each
GENERATOR = torch.Generator().manual_seed(0)
SCORES = torch.randint(-9, 9, (NUM_QUERIES, NUM_GALLERY), generator=GENERATOR).float()
QUERY_IDENTITIES = torch.arange(NUM_QUERIES) % 40
FORMS = {
    "transposed": lambda scores: scores.T.contiguous().T,
    "minus a transposed one": lambda scores: -((-scores).T.contiguous().T),
    "array in the order of Fortran": lambda scores: np.asfortranarray(scores.numpy()),
    "every second column": lambda scores: scores.repeat_interleave(2, dim=1).T.contiguous().T[:, ::2],
    "every second row": lambda scores: scores.repeat_interleave(2, dim=0).T.contiguous().T[::2],
    "float64": lambda scores: scores.double().T.contiguous().T,
    "float16": lambda scores: scores.half().T.contiguous().T,
}


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("has_junk", [False, True])
@pytest.mark.parametrize("max_bytes", [None, 100_000])
def test_the_layout_of_scores_changes_no_number(form, has_junk, max_bytes):
    gallery_identities = torch.arange(NUM_GALLERY) % 40 - int(has_junk)  # junk items are left out of the columns
    options = {"ties": "expected", "max_bytes": max_bytes}
    expected = evaluate_scores(SCORES, QUERY_IDENTITIES, gallery_identities, **options)
    found = evaluate_scores(FORMS[form](SCORES), QUERY_IDENTITIES, gallery_identities, **options)
    assert found.means == expected.means
    assert torch.equal(found.ranks.rank, expected.ranks.rank)


@pytest.mark.parametrize("rows", [slice(0, 600), slice(511, 514), slice(599, 600)])
@pytest.mark.parametrize("columns", [slice(0, 1100), slice(500, 1030), slice(3, 3)])
def test_any_tile_is_copied(rows, columns):
    relevance = find_relevance(QUERY_IDENTITIES, torch.arange(NUM_GALLERY))
    out = torch.empty(rows.stop - rows.start, columns.stop - columns.start)
    scores_from_matrix(SCORES.T.contiguous().T, relevance).fill(out, rows, columns)
    assert torch.equal(out, SCORES[rows, columns])
