# ruff: noqa: E501 - a message stays on one line, to be searched for
"""What draws refuse, in words."""

import math
import re

import pytest
import torch

from reid_torchmetrics.functional.retrieval.evaluation import GalleryDraw
from reid_torchmetrics.functional.retrieval.relevance.from_labels import find_relevance
from reid_torchmetrics.functional.retrieval.relevance.relevance import find_listed_relevance
from reid_torchmetrics.functional.retrieval.scores.scores import scores_from_matrix
from reid_torchmetrics.tasks.draws.drawn_galleries import expect_draws

ID = torch.tensor([1, 2])
BY_IDENTITY, LISTED = find_relevance(ID, ID), find_listed_relevance([ID[:1], ID[:1]], num_gallery=2)
SCORES, DRAW = scores_from_matrix(torch.eye(2), BY_IDENTITY), GalleryDraw(1)
NAN_SCORES = scores_from_matrix(torch.eye(2) * math.nan, BY_IDENTITY)

MESSAGES = [
    (lambda: GalleryDraw(0), ValueError, "`shots` must be at least 1; got 0."),
    (lambda: GalleryDraw(1.0), TypeError, "`shots` must be an int; got float."),
    (lambda: GalleryDraw(1, "camera"), ValueError, "`per` must be one of 'identity', 'identity_and_camera'; got 'camera'."),
    (lambda: expect_draws(SCORES, BY_IDENTITY, DRAW, ties="grouped"), ValueError, "`ties` must be one of 'pessimistic', 'optimistic', 'stable'; got 'grouped'."),
    (lambda: expect_draws(SCORES, BY_IDENTITY, DRAW, max_rank=0), ValueError, "`max_rank` must be at least 1; got 0."),
    (lambda: expect_draws(SCORES, LISTED, DRAW), ValueError, "`relevance` must come from identities, to draw galleries of them; got lists of positives."),
    (lambda: expect_draws(SCORES, BY_IDENTITY, GalleryDraw(1, "identity_and_camera")), ValueError, "`relevance` must know cameras where `per` is 'identity_and_camera'; got none."),
    (lambda: expect_draws(SCORES, BY_IDENTITY, DRAW, queries_in_draw=True), ValueError, "`queries_in_draw` must come with every query's own place in the gallery, that is leave-one-out or `self_index`; got 2 queries without."),
    (lambda: expect_draws(NAN_SCORES, BY_IDENTITY, DRAW), ValueError, "`scores` must give scores that can be ordered; got NaN."),
]  # fmt: skip


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("call", "error", "message"), MESSAGES)
def test_an_error_names_the_argument_the_rule_and_what_came(call, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()
