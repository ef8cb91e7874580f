"""The first candidates of every query: those of the slow reference, in gallery order where scores are equal."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import Relevance, find_relevance, score_embeddings, scores_from_matrix
from reid_torchmetrics.functional.retrieval.ranking.nearest import Nearest, nearest
from reid_torchmetrics.functional.retrieval.relevance import find_listed_relevance
from tests.profiles import examples
from tests.reference import nearest as reference
from tests.reference.retrieval import candidates
from tests.strategies import ALL_TIES, Problem, problems

NAN, INF = math.nan, math.inf


def relevance_of(problem: Problem) -> Relevance:
    names = ("same_camera", "junk_identities", "self_index")
    return find_relevance(*problem.labels, **{name: getattr(problem, name) for name in names})


def list_nearest(problem: Problem, k: int, rows=None, max_bytes: int = 10**7, ties: str = "stable") -> Nearest:
    relevance = relevance_of(problem)
    return nearest(scores_from_matrix(problem.scores, relevance, max_bytes=max_bytes), relevance, k, rows, ties=ties)


def as_lists(found: Nearest) -> list[list[tuple[int, float, bool]]]:
    """Without the padding, which is checked."""
    lists = []
    for positions, scores, positive in zip(found.positions, found.scores, found.positive, strict=True):
        length = int((positions >= 0).sum())
        assert (positions[length:] == -1).all()
        assert scores[length:].isnan().all()
        assert not positive[length:].any()
        lists.append(list(zip(*(part[:length].tolist() for part in (positions, scores, positive)), strict=True)))
    return lists


def expected(problem: Problem, k: int, ties: str = "stable") -> list[reference.Found]:
    query_identities, gallery_identities, query_cameras, gallery_cameras = (
        None if labels is None else labels.tolist() for labels in problem.labels
    )
    lists = []
    for query, identity in enumerate(query_identities):
        found = candidates(
            identity,
            gallery_identities,
            None if query_cameras is None else query_cameras[query],
            gallery_cameras,
            same_camera=problem.same_camera,
            junk_identities=problem.junk_identities,
            self_position=-1 if problem.self_index is None else int(problem.self_index[query]),
        )
        lists.append(reference.nearest(problem.scores[query].tolist(), found, k, ties))
    return lists


@st.composite
def infinite_problems(draw) -> Problem:
    """Problems whose lowest and, perhaps, highest scores are infinite."""
    problem = draw(problems())
    problem.scores[problem.scores == 0] = -INF
    if draw(st.booleans()):
        problem.scores[problem.scores == problem.scores.max() if problem.scores.numel() else ...] = INF
    return problem


@examples(100)
@given(
    problems(ties=ALL_TIES) | infinite_problems(),
    st.sampled_from([1, 2, 5, 30]),
    st.sampled_from([1, 300, 1000, 10**7]),
)
def test_lists_are_those_of_the_slow_reference_in_tiles_of_any_size(problem, k, max_bytes):
    found = list_nearest(problem, k, max_bytes=max_bytes, ties=problem.ties)
    length = max(1, min(k, relevance_of(problem).num_kept))
    assert found.positions.shape == found.scores.shape == found.positive.shape == (len(problem.scores), length)
    assert (found.positions.dtype, found.scores.dtype) == (torch.int64, torch.float32)
    wanted = expected(problem, k, problem.ties)
    assert as_lists(found) == [each.listed for each in wanted]
    assert found.first_rank.tolist() == [each.first_rank for each in wanted]
    assert found.first_position.tolist() == [each.first_position for each in wanted]
    first = [problem.scores[row, each.first_position] for row, each in enumerate(wanted) if each.first_rank]
    assert found.first_score[found.first_rank > 0].tolist() == first
    assert found.first_score[found.first_rank == 0].isnan().all()


@examples(40)
@given(problems(), st.data(), st.sampled_from([1, 1000, 10**7]))
def test_chosen_queries_have_the_lists_that_they_have_among_all(problem, data, max_bytes):
    queries = st.integers(0, max(0, len(problem.scores) - 1))
    rows = data.draw(st.lists(queries, max_size=9 if len(problem.scores) else 0))
    found = list_nearest(problem, 3, torch.tensor(rows, dtype=torch.int64), max_bytes)
    every = expected(problem, 3)
    assert as_lists(found) == [every[row].listed for row in rows]
    assert found.first_rank.tolist() == [every[row].first_rank for row in rows]


def test_far_apart_queries_are_found_without_scoring_those_between(monkeypatch):
    embeddings, identities = torch.randn(100, 4), torch.arange(100) % 7
    relevance = find_relevance(identities, identities)
    scores = score_embeddings(embeddings, embeddings, relevance)
    every = nearest(scores, relevance, 5)
    filled, fill = [], scores.fill
    monkeypatch.setattr(scores, "fill", lambda out, rows, columns: (filled.append(rows), fill(out, rows, columns)))
    rows = torch.tensor([90, 3, 1, 3, 91])
    found = nearest(scores, relevance, 5, rows)
    assert torch.equal(found.positions, every.positions[rows])
    assert filled == [slice(1, 4), slice(90, 92)]


@pytest.mark.parametrize("max_bytes", [1, 10**7])
def test_a_candidate_that_scores_minus_infinity_is_listed_and_junk_is_not(max_bytes):
    relevance = find_listed_relevance([torch.tensor([3])], [torch.tensor([0, 2])], num_gallery=5)
    scores = scores_from_matrix(torch.tensor([[-INF, -INF, 7.0, -INF, -INF]]), relevance, max_bytes=max_bytes)
    found = nearest(scores, relevance, 4)
    assert found.positions.tolist() == [[1, 3, 4, -1]]
    assert found.scores[0, :3].tolist() == [-INF] * 3
    assert found.positive.tolist() == [[False, True, False, False]]
    assert [int(nearest(scores, relevance, k).first_rank) for k in (1, 4)] == [2, 2]  # behind the negative 1 alone


def test_scores_of_float64_are_listed_in_the_order_of_float32():
    embeddings, relevance = torch.randint(-2, 3, (40, 3)), find_relevance(torch.arange(9), torch.arange(40) % 9)
    wide, narrow = (
        nearest(score_embeddings(each[:9], each, relevance, similarity="dot", max_bytes=500), relevance, 4)
        for each in (embeddings.double(), embeddings.float())
    )
    assert torch.equal(wide.positions, narrow.positions)


def test_pairs_that_a_rule_of_the_users_drops_are_not_listed():
    relevance = find_relevance(
        torch.tensor([0, 1]), torch.tensor([0, 0, 1]), junk_pairs=lambda queries, items: queries[:, None] == items
    )
    found = nearest(scores_from_matrix(torch.tensor([[3.0, 2.0, 1.0]]).repeat(2, 1), relevance), relevance, 3)
    assert found.positions.tolist() == [[1, 2, -1], [0, 2, -1]]


@pytest.mark.parametrize("identity", [1, -1])
def test_without_queries_or_without_a_gallery_there_is_only_padding(identity):
    some, none = torch.full((2,), identity), torch.empty(0, dtype=torch.int64)
    for queries, gallery in ((none, some), (some, none), (torch.tensor([1, 2]), torch.tensor([-1, -1])), (none, none)):
        relevance = find_relevance(queries, gallery)
        found = nearest(scores_from_matrix(torch.zeros(len(queries), len(gallery)), relevance), relevance, 2)
        assert found.positions.tolist() == [[-1]] * len(queries)
        assert found.scores.isnan().all()


def test_a_k_beyond_the_gallery_lists_all_of_it_and_reserves_no_more():
    relevance = find_relevance(torch.arange(15) % 3, torch.arange(45) % 3)
    scores = scores_from_matrix(torch.rand(15, 45), relevance)
    every, beyond = nearest(scores, relevance, 45), nearest(scores, relevance, 10**15)
    assert beyond.positions.shape == (15, 45)
    assert torch.equal(beyond.positions, every.positions)


def test_a_score_that_is_nan_is_refused_unless_it_is_of_junk():
    relevance = find_listed_relevance([torch.tensor([1])], [torch.tensor([0])], num_gallery=3)
    found = nearest(scores_from_matrix(torch.tensor([[NAN, 1.0, 2.0]]), relevance), relevance, 3)
    assert found.positions.tolist() == [[2, 1, -1]]
    with pytest.raises(ValueError, match=r"^`scores` must give scores that can be ordered; got NaN\.$"):
        nearest(scores_from_matrix(torch.tensor([[0.0, 1.0, NAN]]), relevance), relevance, 1)


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(
    ("k", "rows", "kind", "message"),
    [
        (0, None, ValueError, "`k` must be at least 1; got 0."),
        (2.0, None, TypeError, "`k` must be an int; got float."),
        (1, torch.tensor([2]), ValueError, r"`queries` must lie in \[0, 2\); got values from 2 to 2."),
        (1, torch.tensor([-1, 1]), ValueError, r"`queries` must lie in \[0, 2\); got values from -1 to 1."),
        (1, [None], TypeError, "`queries` must be .* a list of numbers; got list with None, a missing value."),
    ],
)
def test_a_bad_argument_is_named(k, rows, kind, message):
    relevance = find_relevance(torch.tensor([1, 1]), torch.tensor([1, 2]))
    with pytest.raises(kind, match=f"^{message}$"):
        nearest(scores_from_matrix(torch.eye(2), relevance), relevance, k, rows)
