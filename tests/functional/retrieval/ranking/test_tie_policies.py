"""The table of tie policies: all that decides a tie stands in one row of it."""

from unittest import mock

import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.functional.retrieval import find_relevance, scores_from_matrix
from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES, TiePolicy, count_ranks
from reid_torchmetrics.functional.retrieval.ranking.counting import negatives_above, sort_rows
from reid_torchmetrics.tasks.draws import drawn_galleries, expect_draws
from tests.closeness import assert_close
from tests.profiles import examples
from tests.strategies import Problem, problems


def count_behind(panel, positives):
    """Negatives above a positive, and those level with it that the policy "stable" leaves behind it."""
    ordered = sort_rows(panel.scores.clone(), argument=panel.argument)
    above, above_or_level = (
        negatives_above(ordered, panel.num_removed, positives.scores, or_tied=or_tied) for or_tied in (False, True)
    )
    return above + above_or_level - TIE_POLICIES["stable"].count(panel, positives)


REVERSED = TiePolicy(
    "reversed", "of equal scores the later in the gallery goes first", count_behind, by_place=torch.neg
)


def prepared(problem: Problem, max_bytes: int, *, flipped: bool):
    query_identities, gallery_identities, query_cameras, gallery_cameras = problem.labels
    if flipped:
        gallery_identities = gallery_identities.flip(0)
        gallery_cameras = None if gallery_cameras is None else gallery_cameras.flip(0)
    options = {"same_camera": problem.same_camera, "junk_identities": problem.junk_identities}
    relevance = find_relevance(query_identities, gallery_identities, query_cameras, gallery_cameras, **options)
    scores = problem.scores.flip(1) if flipped else problem.scores
    return scores_from_matrix(scores, relevance, max_bytes=max_bytes), relevance


@examples(20)
@given(problems(), st.sampled_from([64, 700, 10**7]))
def test_a_policy_that_is_added_is_one_row(problem, max_bytes):
    with (
        mock.patch.dict(TIE_POLICIES, {"reversed": REVERSED}),
        mock.patch.object(drawn_galleries, "DRAWN_TIES", ("stable", "reversed")),
    ):
        backward = prepared(problem, max_bytes, flipped=False)
        forward = prepared(problem, max_bytes, flipped=True)
        assert torch.equal(count_ranks(*backward, ties="reversed").rank, count_ranks(*forward, ties="stable").rank)
        found, wanted = (
            expect_draws(*each, GalleryDraw(1), ties=ties)
            for each, ties in ((backward, "reversed"), (forward, "stable"))
        )
        for one, other in ((found.cmc, wanted.cmc), (found.average_precision, wanted.average_precision)):
            assert_close(one, other, rtol=1e-12, equal_nan=True)


def test_a_policy_has_groups_or_an_order():
    for name, policy in TIE_POLICIES.items():
        assert policy.name == name
        assert policy.groups or not policy.averages
        assert not policy.groups or (policy.by_place is None and not policy.positives_first)
