"""Binary codes: equal Hamming distances are equal scores, of all lengths, under all similarities that order by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import Protocol, evaluate, rank_positives, rank_positives_from_scores
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from tests.binary_codes import FORMS, hamming_distances, make_codes
from tests.reference import retrieval
from tests.tied_groups import of_each_positive

LENGTHS = (1, 2, 3, 8, 12, 16, 24, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 130)
HAMMING = Protocol("codes", "none", same_camera="keep", similarity="hamming", ties="stable")


def ranks_of(ranks):
    groups = [] if ranks.tied is None else of_each_positive(ranks).tolist()
    return ranks.rank.tolist(), ranks.num_positives.tolist(), groups


@pytest.mark.sampled
@pytest.mark.parametrize("num_bits", LENGTHS)
def test_codes_rank_as_integer_distances_do(num_bits):
    (query, gallery), identities = make_codes(num_bits, seed=num_bits)
    distances = torch.from_numpy(-hamming_distances(query, gallery).astype(float))
    signs = FORMS["floats of 1 and -1"]
    divided = [signs(bits) / num_bits**0.5 for bits in (query, gallery)]
    for ties in TIE_POLICIES:
        expected = ranks_of(rank_positives_from_scores(distances, *identities, ties=ties))
        if ties not in retrieval.GROUPING_TIES:
            loop = retrieval.evaluate(distances.numpy(), *(each.tolist() for each in identities), ties=ties)
            assert expected[0] == sum(loop.ranks, [])
        for similarity in ("cosine", "dot", "euclidean", "hamming"):
            found = rank_positives(signs(query), signs(gallery), *identities, ties=ties, similarity=similarity)
            assert ranks_of(found) == expected, (ties, similarity)
        # Codes that were divided by their norm, on either side.
        for pair in (divided, (signs(query), divided[1]), (divided[0], signs(gallery))):
            assert ranks_of(rank_positives(*pair, *identities, ties=ties)) == expected, ties


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_bits", [1, 24, 33])
def test_codes_of_every_form_have_their_hamming_distance(num_bits, form):
    (query, gallery), identities = make_codes(num_bits)
    distances = hamming_distances(query, gallery)
    codes = [FORMS[form](bits) for bits in (query, gallery)]
    results = evaluate(*codes, *identities, protocol=HAMMING)
    lists = results.nearest(60)
    for row, (items, scores) in enumerate(zip(lists.index.tolist(), lists.scores.tolist(), strict=True)):
        order = np.argsort(distances[row], kind="stable")
        assert items == order.tolist()
        assert scores == (-distances[row][order]).tolist()


MESSAGES = [
    (
        torch.randn(3, 4),
        "`query` must hold codes of 0 and 1, or of 1 and -1; got .*: embeddings that are no codes need",
    ),
    (torch.tensor([[0, 1, -1]]), "got 0, 1 and -1: embeddings that are no codes need"),
    (torch.tensor([[7, 255]], dtype=torch.uint8), "got 7: bits that are packed into bytes need `packed=True`"),
    (torch.zeros(3, dtype=torch.int8), r"`query` must have shape \[N, bits\]; got \[3\]"),
]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("value", "message"), MESSAGES)
def test_values_that_are_no_codes_are_refused(value, message):
    with pytest.raises(ValueError, match=message):
        evaluate(value, torch.zeros(2, 3), [0], [0, 1], similarity="hamming")


def test_packed_bits_need_bytes_and_the_hamming_distance():
    with pytest.raises(ValueError, match="`packed` must come with `similarity='hamming'`; got 'cosine'"):
        evaluate(torch.zeros(2, 3), torch.zeros(2, 3), [0, 1], [0, 1], packed=True)
    with pytest.raises(TypeError, match="`query` must have dtype uint8 where `packed` is True"):
        evaluate(torch.ones(2, 3).long(), torch.zeros(2, 3), [0, 1], [0, 1], packed=True, similarity="hamming")
    with pytest.raises(ValueError, match="`packed` must come with"):
        ReIDMetrics(packed=True)
