"""Near duplicates: all pairs of a plain loop, to the bit, in tiles of any size, and the groups that they connect."""

import re
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES, EmbeddingScores, Rows, Scores
from reid_torchmetrics.tasks import Duplicates, find_duplicates
from tests.profiles import each_row, examples
from tests.reference import duplicates as reference
from tests.reference.retrieval import similarity as exact
from tests.strategies import SIMILARITIES_OF_ALL

THRESHOLDS = {"cosine": 0.9, "euclidean": 1.5, "dot": 9.0}


def minus_city_block(query: torch.Tensor, gallery: torch.Tensor) -> torch.Tensor:
    return -(query[:, None] - gallery).abs().sum(2)


def drawn(number: int, dtype: torch.dtype = torch.float32, *, seed: int = 0) -> torch.Tensor:
    """Embeddings with near copies of some of them, and exact ones."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(number, 8, generator=generator)
    copied = torch.randint(number, (number // 2,), generator=generator)
    noise = 0.3 * torch.randn(len(copied), 8, generator=generator)
    noise[::3] = 0
    embeddings[: len(copied)] = embeddings[copied] + noise
    return embeddings.to(dtype)


def whole(query: torch.Tensor, gallery: torch.Tensor, similarity: object) -> list[list[float]]:
    """The scores of the library, all at once."""
    scores = EmbeddingScores(Rows([query]), Rows([gallery]), similarity=similarity, max_bytes=10**9)
    found = scores.all()
    scores.to_comparable(found, slice(0, len(query)))
    return found.tolist()


def listed(found: Duplicates) -> list[tuple[int, int, float]]:
    return [*zip(found.query.tolist(), found.gallery.tolist(), found.score.tolist(), strict=True)]


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.sampled
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("max_bytes", [None, 1, 20_000])
@pytest.mark.parametrize("dtype", DTYPES)
@each_row("similarity", [*SIMILARITIES_OF_ALL, minus_city_block])
def test_pairs_are_those_of_a_loop_to_the_bit(similarity, dtype, max_bytes, within):
    threshold = THRESHOLDS.get(similarity, -2.0)
    query, gallery = drawn(12 if max_bytes == 1 else 60, dtype), drawn(15, dtype, seed=1)
    gallery[:12] = query[:12]
    items = query if within else gallery
    found = find_duplicates(
        query, None if within else gallery, threshold=threshold, similarity=similarity, max_bytes=max_bytes
    )
    least = -threshold if similarity == "euclidean" else threshold
    expected = reference.pairs(whole(query, items, similarity), torch.tensor(least).float().item(), within=within)
    assert listed(found) == expected
    assert len(found) == len(expected) > 0
    assert found.query.dtype == found.gallery.dtype == torch.int64
    assert found.score.dtype == torch.promote_types(torch.float32, dtype)


@given(st.integers(0, 12), st.integers(0, 12), st.sampled_from(SIMILARITIES_OF_ALL), st.integers(-3, 6), st.data())
@examples(100)
def test_pairs_of_small_integers_are_those_of_the_definition(num_queries, num_gallery, similarity, threshold, data):
    row = st.lists(st.integers(-2, 2), min_size=3, max_size=3)
    query, gallery = (
        torch.tensor(data.draw(st.lists(row, min_size=size, max_size=size))).double().view(size, 3)
        for size in (num_queries, num_gallery)
    )
    # No cosine, distance or product of small integers is near these, so that no rounding decides.
    threshold = {"cosine": threshold / 7 - 0.01, "euclidean": abs(threshold) + 0.1, "dot": float(threshold)}[similarity]
    least = -threshold if similarity == "euclidean" else threshold
    scores = exact(query, gallery, similarity) if num_queries and num_gallery else [[]] * num_queries
    found = find_duplicates(query, gallery, threshold=threshold, similarity=similarity)
    assert listed(found) == [
        (row, column, pytest.approx(score, abs=1e-12))
        for row, column, score in reference.pairs(scores, least, within=False)
    ]
    inside = find_duplicates(query, threshold=threshold, similarity=similarity)
    assert [pair[:2] for pair in listed(inside)] == [
        pair[:2] for pair in reference.pairs(exact(query, query, similarity) if num_queries else [], least, within=True)
    ]


def test_the_least_score_is_a_pair_and_the_next_below_is_none():
    points = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    assert len(find_duplicates(points, threshold=5.0, similarity="euclidean")) == 1
    assert len(find_duplicates(points, threshold=4.999, similarity="euclidean")) == 0
    assert len(find_duplicates(points, torch.tensor([[1.0, 1.0]]), threshold=7.0, similarity="dot")) == 1
    assert len(find_duplicates(points, torch.tensor([[1.0, 1.0]]), threshold=7.001, similarity="dot")) == 0


@pytest.mark.parametrize("bits", [64, 100, 128, 256])
def test_products_of_perceptual_hashes_count_the_bits_that_differ(bits):
    generator = torch.Generator().manual_seed(bits)
    hashes = torch.rand(40, bits, generator=generator) < 0.5
    hashes[20:] = hashes[:20] ^ (torch.arange(bits) < torch.arange(20)[:, None])
    distances = [[int((one ^ other).sum()) for other in hashes] for one in hashes]
    for most in (0, 4, 9, 10):
        minus = [[-distance for distance in row] for row in distances]
        expected = [(row, item) for row, item, _ in reference.pairs(minus, -most, within=True)]
        found = find_duplicates(2.0 * hashes - 1, threshold=float(bits - 2 * most), similarity="dot")
        assert [pair[:2] for pair in listed(found)] == expected
        # With a power of four bits the norm has no rounding.
        if bits in (64, 256):
            found = find_duplicates(2.0 * hashes - 1, threshold=1 - 2 * most / bits)
            assert [pair[:2] for pair in listed(found)] == expected
    assert sorted(distances[row][row + 20] for row in range(20)) == [*range(20)]


def test_within_one_set_tiles_below_the_diagonal_are_not_multiplied():
    filled, fill = [], EmbeddingScores.fill

    def counted(self: Scores, out: torch.Tensor, rows: slice, columns: slice) -> None:
        filled.append((rows, columns))
        fill(self, out, rows, columns)

    embeddings = drawn(1000)
    with mock.patch.object(EmbeddingScores, "fill", counted):
        find_duplicates(embeddings, max_bytes=200_000)
        inside, filled[:] = filled[:], []
        find_duplicates(embeddings, embeddings, max_bytes=200_000)
    assert len(inside) > 20
    assert sorted({*map(str, filled)} - {*map(str, inside)}) == sorted(
        str((rows, columns)) for rows, columns in filled if columns.stop <= rows.start + 1
    )
    assert 0.5 < len(inside) / len(filled) < 0.65


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] < pair[1]), unique=True))
@examples(100)
def test_groups_are_what_pairs_connect(pairs):
    pairs = sorted(pairs)
    query, gallery = (torch.tensor([pair[side] for pair in pairs], dtype=torch.int64) for side in (0, 1))
    inside = Duplicates(query, gallery, torch.ones(len(pairs)), True, "cosine", 0.95, 10)
    assert {frozenset(members.tolist()) for members, _ in inside.groups()} == reference.groups(pairs)
    assert all(len(others) == 0 for _, others in inside.groups())
    across = Duplicates(query, gallery, torch.ones(len(pairs)), False, "cosine", 0.95, 10).groups()
    named = [[*(("query", each) for each in a.tolist()), *(("item", each) for each in b.tolist())] for a, b in across]
    assert {*map(frozenset, named)} == reference.groups((("query", a), ("item", b)) for a, b in pairs)
    assert [int(members[0]) for members, _ in across] == sorted(int(members[0]) for members, _ in across)


def test_a_frame_has_the_group_of_each_pair():
    pytest.importorskip("pandas")
    embeddings = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    frame = find_duplicates(embeddings).to_frame()
    assert [*frame] == ["query", "gallery", "score", "group"]
    assert frame.to_numpy().tolist() == [[0, 3, 1, 0], [0, 5, 1, 0], [1, 4, 1, 1], [3, 5, 1, 0]]
    groups = find_duplicates(embeddings).groups()
    assert [members.tolist() for members, _ in groups] == [[0, 3, 5], [1, 4]]


SUMMARIES = [
    ({}, "1 pair of cosine 0.95 or more: 1 of 2 queries has"),
    ({"similarity": "dot", "threshold": 0}, "2 pairs of dot product 0 or more: 2 of 2 queries have"),
    (
        {"similarity": "euclidean", "threshold": 0.5},
        "1 pair of Euclidean distance 0.5 or less: 1 of 2 queries has",
    ),
    ({"similarity": "hamming", "threshold": 0}, "1 pair of Hamming distance 0 or less: 1 of 2 queries has"),
]


@pytest.mark.parametrize(("options", "expected"), SUMMARIES)
def test_the_summary_has_the_threshold_and_counts_queries(options, expected):
    query = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert find_duplicates(query, query.flip(0)[:1], **options).summary == f"{expected} a near copy"


@pytest.mark.parametrize("name", SIMILARITIES)
def test_words_and_columns_are_both_of_distances_or_of_scores(name):
    pytest.importorskip("pandas")
    found = find_duplicates(torch.tensor([[1.0], [-1.0], [1.0]]), threshold=0.5, similarity=name)
    is_distance = "distance 0.5 or less" in found.summary
    title = "distance" if is_distance else "score"
    copy = 0 if is_distance else 1
    assert found.to_frame()[title].tolist() == [copy]
    _, head, row = str(found).splitlines()
    assert head.split() == ["query", "gallery", title]
    assert row.split() == ["0", "2", f"{copy:.4f}"]


def test_nothing_has_no_duplicates():
    none, some = torch.empty(0, 4), torch.ones(3, 4)
    for sides in ((none,), (none, none), (none, some), (some, none), (some[:1],)):
        found = find_duplicates(*sides)
        assert len(found) == 0
        assert found.groups() == []


SOME, BAD = torch.ones(3, 2), torch.tensor([[1.0, 1.0], [torch.nan, 0.0]])
WRONG = [
    (lambda: find_duplicates(BAD), ValueError, "`query` must be finite; got 1 rows with NaN or infinity, first [1]."),
    (lambda: find_duplicates(SOME, BAD), ValueError, "`gallery` must be finite; got 1 rows"),
    (
        lambda: find_duplicates(SOME, SOME[:, :1]),
        ValueError,
        "`query` and `gallery` must have the same embedding dimension; got 2",
    ),
    (lambda: find_duplicates(SOME[0]), ValueError, "`query` must have shape [N, D]; got [2]."),
    (
        lambda: find_duplicates(SOME.long()),
        TypeError,
        "`query` must have a floating point dtype of 16 to 64 bits; got torch.int64.",
    ),
    (lambda: find_duplicates(SOME, threshold="1"), TypeError, "`threshold` must be a number; got str."),
    (
        lambda: find_duplicates(SOME, threshold=1.01),
        ValueError,
        "`threshold` must lie in [-1, 1] under 'cosine'; got 1.01.",
    ),
    (
        lambda: find_duplicates(SOME, threshold=-1, similarity="euclidean"),
        ValueError,
        "`threshold` must lie in [0, inf] under 'euclidean'; got -1.",
    ),
    (lambda: find_duplicates(SOME, threshold=np.nan, similarity="dot"), ValueError, "`threshold` must lie in [-inf"),
    (lambda: find_duplicates(SOME, similarity="cos"), ValueError, "`similarity` must be one of 'cosine', 'eu"),
    (lambda: find_duplicates(SOME, max_bytes=0), ValueError, "`max_bytes` must be at least 1; got 0."),
    (
        lambda: find_duplicates(SOME, similarity=lambda a, b: a @ b.T * torch.nan),
        ValueError,
        "`similarity` must give scores that can be ordered; got NaN.",
    ),
]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("call", "kind", "said"), WRONG)
def test_a_wrong_value_is_named(call, kind, said):
    with pytest.raises(kind, match=re.escape(said)):
        call()
