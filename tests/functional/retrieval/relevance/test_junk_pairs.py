"""Pairs that a user drops: by a mask of all pairs, or by a function, of torch or of NumPy."""

import numpy as np
import pytest
import torch

from reid_torchmetrics import evaluate, evaluate_scores
from tests.reference import retrieval as reference

NUM_QUERIES, NUM_GALLERY = 6, 30
RNG = np.random.default_rng(0)
QUERY, GALLERY = torch.randn(NUM_QUERIES, 4), torch.randn(NUM_GALLERY, 4)
IDENTITIES = [RNG.integers(-1, 3, number) for number in (NUM_QUERIES, NUM_GALLERY)]
JUNK = RNG.random((NUM_QUERIES, NUM_GALLERY)) < 0.3

FORMS = {
    "array": JUNK,
    "tensor": torch.from_numpy(JUNK),
    "function of tensors": lambda queries, items: torch.from_numpy(JUNK)[queries][:, items],
    "function of arrays": lambda queries, items: JUNK[queries.numpy()][:, items.numpy()],
}


def expected_map():
    """The mean by a loop over queries, without the pairs that are junk."""
    scores = (QUERY.double() @ GALLERY.double().T).numpy()
    values = []
    for row in range(NUM_QUERIES):
        kept = [column for column in range(NUM_GALLERY) if not JUNK[row, column] and IDENTITIES[1][column] != -1]
        hits = [IDENTITIES[1][column] == IDENTITIES[0][row] for column in sorted(kept, key=lambda c: -scores[row, c])]
        values.append(reference.average_precision(hits))
    return np.nanmean(values)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("max_bytes", [None, 400])
def test_pairs_are_dropped_by_every_form(form, max_bytes):
    options = {"junk_pairs": FORMS[form], "max_bytes": max_bytes}
    found = evaluate(QUERY, GALLERY, *IDENTITIES, similarity="dot", **options)
    assert found["map"] == pytest.approx(expected_map(), abs=1e-12)
    of_scores = evaluate_scores(QUERY @ GALLERY.T, *IDENTITIES, **options)
    assert of_scores["map"] == pytest.approx(expected_map(), abs=1e-12)
    truth = IDENTITIES[0][:, None] == IDENTITIES[1]
    of_truth = evaluate(QUERY, GALLERY, ground_truth=truth, similarity="dot", junk_pairs=JUNK | (IDENTITIES[1] == -1))
    assert of_truth["map"] == pytest.approx(expected_map(), abs=1e-12)


REFUSED = [
    (JUNK[:, :3], ValueError, r"`junk_pairs` must have shape \[6, 30\], queries by gallery items; got \[6, 3\]"),
    (
        JUNK.astype(int),
        TypeError,
        r"`junk_pairs` must be a bool mask \[6, 30\], or a function that returns one; got torch.int64",
    ),
    ("mask", TypeError, r"`junk_pairs` must be a function, a bool mask \[6, 30\] or None; got str"),
]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("junk", "kind", "message"), REFUSED)
def test_other_values_are_refused(junk, kind, message):
    identities = IDENTITIES[0], np.where(np.arange(NUM_GALLERY) < 2, -1, 1)
    with pytest.raises(kind, match=message):
        evaluate(QUERY, GALLERY, *identities, junk_pairs=junk)
