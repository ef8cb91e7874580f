"""Binary codes under the protocol of hashing, packed, in metrics, streams and duplicates."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMeanAP
from reid_torchmetrics.functional.retrieval import evaluate, rank_positives
from reid_torchmetrics.tasks import RankCounter, find_duplicates
from tests.binary_codes import FORMS, hamming_distances, make_codes


@pytest.mark.parametrize("num_bits", [8, 24, 64])
def test_packed_bits_are_unpacked(num_bits):
    (query, gallery), identities = make_codes(num_bits)
    packed = [np.packbits(bits.astype(bool), axis=1) for bits in (query, gallery)]
    expected = evaluate(query, gallery, *identities, similarity="hamming", protocol="hashing")["map"]
    found = evaluate(*packed, *identities, similarity="hamming", packed=True, protocol="hashing")["map"]
    metric = ReIDMeanAP(protocol="hashing", similarity="hamming", packed=True)
    metric.update(packed[0], identities[0], is_query=True)
    metric.update(torch.from_numpy(packed[1]), identities[1], is_query=False)
    assert found == expected
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("form", FORMS)
def test_hashing_reads_codes_of_every_form(form):
    (query, gallery), identities = make_codes(48)
    signs = FORMS["floats of 1 and -1"]
    expected = evaluate(signs(query), signs(gallery), *identities, similarity="dot", protocol="hashing")
    codes = [FORMS[form](bits) for bits in (query, gallery)]
    assert expected.setup.ties == "expected"
    assert evaluate(*codes, *identities, protocol="hashing")["map"] == expected["map"]


def test_arguments_of_the_caller_win_over_the_protocol():
    query, gallery = torch.randn(5, 8), torch.randn(30, 8)
    identities = torch.arange(5) % 3, torch.arange(30) % 3
    results = evaluate(query, gallery, *identities, protocol="hashing", similarity="cosine", ties="optimistic")
    assert (results.setup.similarity, results.setup.ties) == ("cosine", "optimistic")
    metric = ReIDMeanAP(protocol="hashing", similarity="euclidean")
    assert (metric.similarity, metric.ties) == ("euclidean", "expected")
    plain = evaluate(query, gallery, *identities)
    assert (plain.setup.similarity, plain.setup.ties) == ("cosine", "pessimistic")


def test_streams_and_duplicates_know_the_hamming_distance():
    (query, gallery), identities = make_codes(24)
    is_positive = np.arange(60) < 40
    blocks = identities[1].clone()
    blocks[40:] = 9
    expected = rank_positives(query, gallery, identities[0], blocks, similarity="hamming")
    counter = RankCounter(
        query,
        gallery[is_positive],
        query_identities=identities[0],
        positive_identities=blocks[torch.from_numpy(is_positive)],
        similarity="hamming",
    )
    counts = counter.count(gallery[~is_positive], blocks[torch.from_numpy(~is_positive)], key=0)
    assert counter.ranks(counts).rank.tolist() == expected.rank.tolist()
    distances = hamming_distances(query, gallery)
    pairs = find_duplicates(query, gallery, similarity="hamming", threshold=6.0)
    assert list(zip(pairs.query.tolist(), pairs.gallery.tolist(), strict=True)) == [
        (row, column) for row in range(7) for column in range(60) if distances[row, column] <= 6
    ]
