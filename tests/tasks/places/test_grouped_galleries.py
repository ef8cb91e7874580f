"""Groups of gallery items: the score of a group is that of its best member, whatever the order, tiles and labels."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import GalleryDraw, Protocol, evaluate, evaluate_scores
from reid_torchmetrics.tasks import KReciprocal
from tests.profiles import each_row, examples
from tests.reference.groups import best_members, members, scores_of_groups
from tests.strategies import ALL_TIES, SIMILARITIES_OF_ALL, problems

BYTES = st.sampled_from([1, 100, 1000, 1 << 20])


@st.composite
def grouped(draw):
    """A problem, and one to three groups for each identity and camera of its gallery."""
    problem = replace(draw(problems(ties=ALL_TIES)), self_index=None)
    identities, cameras = problem.gallery_identities, problem.gallery_cameras
    cameras = torch.zeros_like(identities) if cameras is None else cameras
    number = torch.randint(0, 3, identities.shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    return problem, 100 * identities + 10 * cameras + number


def by_hand(problem, groups):
    """The problem of groups, with their maxima."""
    first = torch.tensor([each[0] for each in members(groups.tolist())], dtype=torch.int64)
    scores = torch.from_numpy(scores_of_groups(problem.scores.numpy(), groups.tolist()))
    cameras = problem.gallery_cameras
    return replace(
        problem,
        scores=scores,
        gallery_identities=problem.gallery_identities[first],
        gallery_cameras=None if cameras is None else cameras[first],
    )


def results_of(problem, **options):
    decisive = {name: value for name, value in problem.options.items() if name != "self_index"}
    return evaluate_scores(problem.scores, *problem.labels, **decisive, **options)


def assert_same_ranks(results, expected):
    for name in ("rank", "num_positives", "num_candidates"):
        assert torch.equal(getattr(results.ranks, name), getattr(expected.ranks, name))
    assert (results.ranks.tied is None) == (expected.ranks.tied is None)
    np.testing.assert_array_equal([*results.means.values()], [*expected.means.values()])


@examples(40)
@given(grouped(), BYTES)
def test_the_numbers_are_those_of_the_maxima_to_the_bit(given, max_bytes):
    problem, groups = given
    maxima = by_hand(problem, groups)
    results = results_of(problem, gallery_groups=groups, max_bytes=max_bytes)
    assert_same_ranks(results, results_of(maxima))
    assert results.num_candidates.tolist() == maxima.reference().num_candidates


@examples(25)
@given(grouped(), BYTES)
def test_a_list_shows_the_best_member_of_each_group(given, max_bytes):
    problem, groups = given
    results = results_of(problem, gallery_groups=groups, max_bytes=max_bytes)
    lists, maxima = results.nearest(5), by_hand(problem, groups)
    best = torch.tensor(best_members(problem.scores.numpy(), groups.tolist())).reshape(maxima.scores.shape)
    expected = results_of(maxima).nearest(5)
    np.testing.assert_array_equal(lists.scores, expected.scores)
    assert torch.equal(lists.identities, expected.identities)
    for index, of_groups in (
        (lists.index, expected.index),
        (lists.first_positive_index[:, None], expected.first_positive_index[:, None]),
    ):
        is_listed = of_groups >= 0
        wanted = best.gather(1, of_groups.clamp(min=0))[is_listed] if best.numel() else best.flatten()
        assert index[is_listed].tolist() == wanted.tolist()
        assert bool((index[~is_listed] == -1).all())
    some = torch.arange(len(problem.query_identities)).flip(0)[:3]
    assert torch.equal(results.nearest(5, some).index, lists.select(some).index)


@each_row("similarity", [*SIMILARITIES_OF_ALL, lambda query, gallery: query @ gallery.T])
@pytest.mark.parametrize("max_bytes", [600, 1 << 28])
def test_groups_of_embeddings_are_those_of_their_scores(similarity, max_bytes):
    generator = torch.Generator().manual_seed(3)
    query, gallery = (torch.randint(0, 2, (size, 16), generator=generator) * 2.0 - 1 for size in (5, 40))
    identities = torch.arange(40) // 4 % 6
    labels, groups = (torch.arange(5) % 6, identities), torch.arange(40) // 4
    results = evaluate(query, gallery, *labels, gallery_groups=groups, similarity=similarity, max_bytes=max_bytes)
    expected = evaluate_scores(query @ gallery.T, *labels, gallery_groups=groups)
    assert_same_ranks(results, expected)
    assert torch.equal(results.nearest(4).index, expected.nearest(4).index)


def test_the_position_of_the_best_member_decides_where_members_lie_apart():
    # The first query's best member of group 5 is at 0, the second's at 100; both queries are at 0.
    results = evaluate_scores(
        torch.tensor([[0.9, 0.2, 0.5], [0.2, 0.9, 0.5]]),
        query_positions=[0.0, 0.0],
        gallery_positions=[0.0, 100.0, 0.0],
        gallery_groups=[5, 5, 6],
        radius=25.0,
    )
    assert results.num_positives.tolist() == [2, 1]
    assert results.first_rank.tolist() == [1, 2]
    assert results.nearest(1).is_positive.tolist() == [[True], [False]]


def near_groups(scores, groups, is_near, ties):
    """Which groups are positives of a query: by definition, from the members with the largest score."""
    found = {}
    for group in members(groups):
        best = [item for item in group if scores[item] == max(scores[each] for each in group)]
        near = [is_near[item] for item in best]
        found[groups[group[0]]] = {"optimistic": any(near), "stable": near[0]}.get(ties, all(near))
    return found


@examples(40)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1, max_size=9),
    st.sampled_from(ALL_TIES),
    BYTES,
)
def test_the_tie_policy_decides_between_equal_best_members(items, ties, max_bytes):
    groups, scores, is_near = ([*column] for column in zip(*items, strict=True))
    expected = near_groups(scores, groups, is_near, ties)
    results = evaluate_scores(
        torch.tensor([scores]).float(),
        query_positions=[0.0],
        gallery_positions=[0.0 if near else 100.0 for near in is_near],
        gallery_groups=groups,
        radius=25.0,
        ties=ties,
        max_bytes=max_bytes,
    )
    lists = results.nearest(9)
    listed = [groups[item] for item in lists.index[0].tolist() if item >= 0]
    judged = dict(zip(listed, lists.is_positive[0].tolist(), strict=False))
    assert judged == expected
    assert results.num_positives.tolist() == [sum(expected.values())]


@each_row("ties", ALL_TIES)
@pytest.mark.slow
def test_equal_members_at_other_positions_come_in_any_order(ties):
    embeddings, positions = (
        torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]]),
        torch.tensor([0.0, 100.0, 100.0, 3.0]).double(),
    )
    groups, values = torch.tensor([5, 5, 6, 7]), set()
    for order in itertools.permutations(range(4)):
        metrics = ReIDMetrics(protocol="tokyo247", ties=ties)
        metrics.update(embeddings[:1], positions=torch.zeros(1).double(), index=torch.tensor([9]), is_query=True)
        for item in order:
            row = torch.tensor([item])
            metrics.update(embeddings[row], positions=positions[row], index=row, groups=groups[row], is_query=False)
        values.add(str(metrics.compute()))
    assert len(values) == 1


def test_cameras_that_are_searched_are_those_of_groups():
    scores, labels = torch.tensor([[0.9, 0.1, 0.5]]), ([1], [1, 1, 1], [0], [1, 1, 2])
    results = evaluate_scores(scores, *labels, gallery_groups=[7, 7, 8], search_cameras=(2,))
    assert results.num_positives.tolist() == [1]
    assert results.nearest(3).index.tolist() == [[2]]
    pairs = evaluate_scores(scores, *labels, gallery_groups=[7, 7, 8]).by_camera_pair("rank_1")
    assert pairs.mean.tolist() == [[1.0, 1.0]]


def test_printed_results_say_that_groups_were_ranked():
    results = evaluate_scores(torch.rand(2, 3), [1, 2], [1, 1, 2], gallery_groups=[4, 4, 5])
    assert "groups ranked by their best member" in str(results)
    assert results.to_dict()["setup"]["groups"] is True


CALLED = {"scores": torch.rand(2, 3), "query_identities": [1, 2], "gallery_identities": [1, 1, 2]}
GROUPS = {"gallery_groups": [4, 4, 5]}
ON_ITEMS = (
    "`gallery_groups` must come without `junk_pairs`, `self_index`, `ground_truth`, `rerank`, `gallery_draw`, which act"
    " on items; got "
)
REFUSED = [
    (
        {"gallery_groups": [4, 5, 5]},
        "`gallery_groups` must have members of one identity each; got group 5 with 1 and 2.",
    ),
    (
        GROUPS | {"query_cameras": [0, 0], "gallery_cameras": [1, 2, 2]},
        "`gallery_groups` must have members of one camera each; got group 4 with 1 and 2.",
    ),
    (
        GROUPS | {"query_positions": [0.0, 0.0], "gallery_positions": [1.0, 2.0, 2.0]},
        "`gallery_groups` must have members of one position each; got group 4 with [1.0] and [2.0].",
    ),
    ({"gallery_groups": [4, 5]}, "`gallery_groups` must have shape [3]; got [2]."),
    (GROUPS | {"gallery_identities": [1, 2]}, "`gallery_groups` must have shape [2]; got [3]."),
    (GROUPS | {"self_index": [0, 1]}, f"{ON_ITEMS}`self_index`."),
    (GROUPS | {"junk_pairs": torch.outer}, f"{ON_ITEMS}`junk_pairs`."),
    (GROUPS | {"gallery_draw": GalleryDraw()}, f"{ON_ITEMS}`gallery_draw`."),
    (
        {"protocol": "veri776_image_to_track"},
        "`gallery_groups` must be given under protocol 'veri776_image_to_track'; got none.",
    ),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
@pytest.mark.filterwarnings("ignore:.*no cameras")
def test_options_without_a_meaning_are_refused_by_name(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        evaluate_scores(**(CALLED | change))


def test_groups_are_of_the_gallery_and_without_reranking_lists_or_leave_one_out():
    items, labels = torch.rand(3, 4), {"query_identities": [1, 1, 2], "gallery_identities": [1, 1, 2]}
    with pytest.raises(ValueError, match=r"without .*; got `rerank`"):
        evaluate(items, items, **labels, **GROUPS, rerank=KReciprocal(k1=2, k2=1))
    with pytest.raises(ValueError, match=r"^`gallery_groups` must come with `gallery`; got it without"):
        evaluate(items, query_identities=[1, 1, 2], **GROUPS)
    with pytest.raises(ValueError, match=r"^`ground_truth` must come without labels; got `gallery_groups` too"):
        evaluate(items[:1], items, ground_truth=[{"ok": [0]}], **GROUPS)
    with pytest.raises(ValueError, match="query_groups"):
        evaluate(items, items, **labels, query_groups=[1, 2, 3])
    with pytest.raises(ValueError, match=r"^`gallery_groups` must hold integers, or whole numbers .*; got 0.5"):
        evaluate(items, items, **labels, gallery_groups=torch.full((3,), 0.5))
    with pytest.raises(TypeError, match="needs_groups"):
        Protocol("own", "me", needs_groups="yes")
