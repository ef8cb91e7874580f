"""The histogram of scores: equal to a plain loop over all pairs, in tiles of any size, exact at the edges."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance, score_embeddings, scores_from_matrix
from reid_torchmetrics.tasks import ScoreHistogram, score_histogram
from tests.functional.retrieval.ranking.test_nearest import relevance_of
from tests.profiles import examples
from tests.strategies import problems
from tests.tasks.verification.pairs import pairs_of, row


def contents(found: ScoreHistogram) -> tuple[list[float], list[int], list[int]]:
    return found.edges.tolist(), found.num_genuine.tolist(), found.num_impostors.tolist()


def counted(values: list[float], edges: list[float]) -> list[int]:
    """How many values there are in each bin; those outside are in the outermost."""
    counts = [0] * (len(edges) - 1)
    for value in values:
        place = 0
        while place < len(counts) - 1 and value >= edges[place + 1]:
            place += 1
        counts[place] += 1
    return counts


@examples(60)
@given(
    problems(),
    st.integers(1, 7),
    st.sampled_from([None, (0.0, 2.0), (-0.5, 0.25)]),
    st.sampled_from([10**6, 64, 200, 1000]),
)
def test_counts_are_those_of_a_loop_over_all_pairs_within_any_memory(problem, bins, limits, max_bytes):
    genuine, impostors = pairs_of(problem)
    relevance = relevance_of(problem)
    scores = scores_from_matrix(problem.scores, relevance, max_bytes=max_bytes)
    edges, num_genuine, num_impostors = contents(score_histogram(scores, relevance, bins=bins, limits=limits))
    assert num_genuine == counted(genuine, edges)
    assert num_impostors == counted(impostors, edges)
    assert len(edges) == bins + 1
    if limits is not None:
        assert (edges[0], edges[-1]) == limits
    elif len({*genuine, *impostors}) > 1:
        assert (edges[0], edges[-1]) == (min(genuine + impostors), max(genuine + impostors))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edges_between_two_scores_that_a_dtype_can_hold_are_kept_to(dtype):
    # 0.1 of float32 is above, 0.7 of float32 below the number that is written so, and the inner edges are float64.
    values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    edges, _, impostors = contents(score_histogram(*row([], values, dtype), bins=10))
    assert impostors == counted(torch.tensor(values, dtype=dtype).tolist(), edges)


def test_equal_scores_are_in_the_middle():
    assert contents(score_histogram(*row([3], [3, 3]), bins=3)) == ([1.5, 2.5, 3.5, 4.5], [0, 1, 0], [0, 2, 0])
    assert contents(score_histogram(*row([0.5], []), bins=1)) == ([0, 1], [1], [0])


def test_a_highest_score_of_minus_zero_ends_the_bins_at_zero():
    edges, *_ = contents(score_histogram(*row([-0.0, -1.0], [-2.0]), bins=2))
    assert edges == [-2, -1, 0]
    assert math.copysign(1.0, edges[-1]) == 1.0


def test_neighbors_among_floats_have_bins_without_width():
    above = math.nextafter(1.0, 2.0)
    edges, genuine, impostors = contents(score_histogram(*row([above], [1.0]), bins=3))
    assert edges == sorted(edges)
    assert (edges[0], edges[-1]) == (1.0, above)
    assert (genuine, impostors) == (counted([above], edges), counted([1.0], edges))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_no_pairs_give_empty_bins_from_0_to_1(shape):
    relevance = find_relevance(*(torch.zeros(size, dtype=torch.int64) for size in shape))
    found = score_histogram(scores_from_matrix(torch.empty(shape), relevance), relevance, bins=2)
    assert contents(found) == ([0, 0.5, 1], [0, 0], [0, 0])


def test_embeddings_have_the_histogram_of_their_distances():
    query, gallery = torch.randint(-3, 4, (9, 5)).double(), torch.randint(-3, 4, (30, 5)).double()
    relevance = find_relevance(torch.arange(9) % 4, torch.arange(30) % 4)
    scores = score_embeddings(query, gallery, relevance, similarity="euclidean")
    distances = (query[:, None] - gallery).square().sum(-1).sqrt()
    is_genuine = torch.arange(9)[:, None] % 4 == torch.arange(30) % 4
    edges, genuine, impostors = contents(score_histogram(scores, relevance, bins=7, limits=(-15.5, 0.5)))
    assert genuine == counted((-distances[is_genuine]).tolist(), edges)
    assert impostors == counted((-distances[~is_genuine]).tolist(), edges)


@pytest.mark.parametrize("values", [([math.nan], [0, 0]), ([0], [math.nan, 0])])
@pytest.mark.parametrize("limits", [None, (0.0, 1.0)])
def test_nan_is_refused(values, limits):
    with pytest.raises(ValueError, match=r"^`scores` must give scores that can be ordered; got NaN\.$"):
        score_histogram(*row(*values), limits=limits)


BAD = [
    ({"bins": 0}, ValueError, "`bins` must be at least 1; got 0."),
    ({"bins": 2.0}, TypeError, "`bins` must be an int; got float."),
    ({"limits": 1.0}, TypeError, "`limits` must be a tuple or list of two numbers, or None; got float."),
    ({"limits": ("0", 1)}, TypeError, "`limits` must be a number; got str."),
    ({"limits": (0.0,)}, ValueError, "`limits` must be two finite numbers, the lower one first; got (0.0,)."),
    ({"limits": (1, 1)}, ValueError, "`limits` must be two finite numbers, the lower one first; got (1, 1)."),
    ({"limits": (0, math.inf)}, ValueError, "`limits` must be two finite numbers, the lower one first; got (0, inf)."),
    ({"limits": (0, math.nan)}, ValueError, "`limits` must be two finite numbers, the lower one first; got (0, nan)."),
]


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        score_histogram(*row([1.0], [0.0]), **options)


@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_infinite_scores_need_limits(infinite):
    low, high = sorted((infinite, 0.5))
    message = f"`scores` must give finite scores unless there are `limits`; got scores from {low} to {high}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        score_histogram(*row([0.5], [infinite]))
