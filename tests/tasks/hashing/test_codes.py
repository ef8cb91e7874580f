"""Binary codes: equal Hamming distances are equal scores, of all lengths, under all similarities that order by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reid_torchmetrics import ReIDMeanAP, ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate, rank_positives, rank_positives_from_scores
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from reid_torchmetrics.tasks import RankCounter, find_duplicates
from tests.reference import retrieval
from tests.tied_groups import of_each_positive

LENGTHS = (1, 2, 3, 8, 12, 16, 24, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 130)
FORMS = {
    "floats of 1 and -1": lambda bits: torch.from_numpy(2.0 * bits - 1).float(),
    "floats of 0 and 1": lambda bits: torch.from_numpy(bits).float(),
    "half floats": lambda bits: torch.from_numpy(2.0 * bits - 1).half(),
    "float64": lambda bits: torch.from_numpy(2.0 * bits - 1),
    "int8 of 1 and -1": lambda bits: (2 * bits - 1).astype(np.int8),
    "int64 of 0 and 1": torch.from_numpy,
    "uint8": lambda bits: bits.astype(np.uint8),
    "bool": lambda bits: bits.astype(bool),
}


def make_codes(num_bits, seed=0, num_queries=7, num_gallery=60):
    rng = np.random.default_rng(seed)
    bits = [rng.integers(0, 2, (number, num_bits)) for number in (num_queries, num_gallery)]
    bits[0][0], bits[1][0] = 1, 0  # a query of ones, and an item of zeros
    identities = [torch.from_numpy(rng.integers(0, 4, number)) for number in (num_queries, num_gallery)]
    return bits, identities


def hamming_distances(query, gallery):
    """Count the bits that differ, one pair at a time."""
    return np.array([[int(sum(a != b for a, b in zip(row, item, strict=True))) for item in gallery] for row in query])


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
    results = evaluate(*codes, *identities, similarity="hamming", protocol="hashing", k=None, ties="stable")
    lists = results.nearest(60)
    for row, (items, scores) in enumerate(zip(lists.index.tolist(), lists.scores.tolist(), strict=True)):
        order = np.argsort(distances[row], kind="stable")
        assert items == order.tolist()
        assert scores == (-distances[row][order]).tolist()


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
