# ruff: noqa: E501 - a message stays on one line, to be searched for
"""Several labels for each sample: every entry point against a loop over queries, gallery items and labels."""

import math
import re
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics import ReIDMetrics, evaluate, evaluate_scores
from reid_torchmetrics.functional.retrieval import find_relevance
from reid_torchmetrics.functional.retrieval.ranking import TIE_POLICIES
from tests.reference import several_labels as reference
from tests.strategies import TIES

K = 3
REPORTS = ("map", f"ndcg_{K}", f"acg_{K}", "rank_1")
LOOSE = {"abs": 1e-12, "nan_ok": True}
GAINS = ("linear", "exponential")
ACCEPTED = "one number for each sample, [N], or bools or 0 and 1 for each sample and label, [N, labels]"


@st.composite
def problems(draw, *, most_gallery=14, levels=3):
    """Codes of few values, so that scores tie, and labels of which some samples have none."""
    random = Random(draw(st.integers(0, 2**32 - 1)))  # noqa: S311 - nothing is to be kept secret
    num_queries, num_gallery = draw(st.integers(1, 5)), draw(st.integers(0, most_gallery))
    num_labels = draw(st.sampled_from([2, 3, 24, 63, 64, 65, 130]))
    share = draw(st.sampled_from([0.0, 0.02, 0.3, 0.9]))
    sizes = num_queries, num_gallery
    step = draw(st.sampled_from([1.0, 0.5]))  # products of the latter are no whole numbers
    codes = [[[step * random.randint(0, levels) for _ in range(3)] for _ in range(size)] for size in sizes]
    labels = [[[random.random() < share for _ in range(num_labels)] for _ in range(size)] for size in sizes]
    cameras = [[random.randint(0, 1) for _ in range(size)] for size in sizes]
    return Problem(
        *(np.array(side).reshape(-1, 3) for side in codes),
        *(np.array(side, dtype=bool).reshape(-1, num_labels) for side in labels),
        *cameras,
    )


class Problem:
    def __init__(self, query, gallery, query_labels, gallery_labels, query_cameras, gallery_cameras):
        self.query, self.gallery = query, gallery
        self.query_labels, self.gallery_labels = query_labels, gallery_labels
        self.query_cameras, self.gallery_cameras = query_cameras, gallery_cameras
        self.scores = query @ gallery.T

    @property
    def cameras(self):
        return self.query_cameras, self.gallery_cameras

    def expected(self, ties, gain="linear", *, rule="keep", own=None):
        lists = [
            reference.listed(
                scores,
                labels,
                self.gallery_labels,
                ties=ties,
                query_camera=camera,
                gallery_cameras=self.gallery_cameras,
                same_camera=rule,
                own_place=-1 if own is None else own[query],
            ).grades
            for query, (scores, labels, camera) in enumerate(
                zip(self.scores.tolist(), self.query_labels, self.query_cameras, strict=True)
            )
        ]
        return [values_of(grades, gain) for grades in lists]


def values_of(grades, gain):
    first = float(grades[0] > 0) if any(grades) else math.nan
    numbers = (
        reference.average_precision(grades),
        reference.normalized_dcg(grades, K, gain),
        reference.average_cumulative_gain(grades, K),
        first,
    )
    return dict(zip(REPORTS, numbers, strict=True))


def check(results, expected):
    for name in REPORTS:
        assert results.per_query[name].tolist() == pytest.approx([values[name] for values in expected], **LOOSE), name


@given(
    problems(),
    st.sampled_from(TIES),
    st.sampled_from(GAINS),
    st.sampled_from(["keep", "same_identity", "all"]),
    st.sampled_from([None, 1, 200]),
)
def test_numbers_are_those_of_the_loop_under_every_order_and_camera_rule(problem, ties, gain, rule, max_bytes):
    options = {
        "protocol": "market1501",
        "same_camera": rule,
        "reports": REPORTS,
        "gain": gain,
        "ties": ties,
        "max_bytes": max_bytes,
    }
    expected = problem.expected(ties, gain, rule=rule)
    labels = torch.from_numpy(problem.query_labels), torch.from_numpy(problem.gallery_labels)
    embeddings = torch.from_numpy(problem.query).float(), torch.from_numpy(problem.gallery).float()
    check(evaluate(*embeddings, *labels, *problem.cameras, similarity="dot", **options), expected)
    check(evaluate_scores(problem.scores, *labels, *problem.cameras, **options), expected)


@given(problems(most_gallery=6, levels=1), st.sampled_from(GAINS), st.sampled_from([None, 1]))
def test_expected_numbers_are_means_over_all_orders_of_equal_scores(problem, gain, max_bytes):
    results = evaluate_scores(
        problem.scores, problem.query_labels, problem.gallery_labels,
        reports=REPORTS, gain=gain, ties="expected", max_bytes=max_bytes,
    )  # fmt: skip
    for query, scores in enumerate(problem.scores.tolist()):
        grades = [reference.num_shared(problem.query_labels[query], labels) for labels in problem.gallery_labels]
        orders = [values_of(order, gain) for order in reference.all_orders(scores, grades)]
        for name in REPORTS:
            mean = sum(values[name] for values in orders) / len(orders)
            assert float(results.per_query[name][query]) == pytest.approx(mean, **LOOSE), name


def test_the_own_item_of_a_query_without_a_label_is_no_candidate():
    labels, places = [[0, 0], [1, 0], [1, 1]], [0, 1, 2]
    for codes in (torch.eye(3), torch.eye(3) / 3):
        results = evaluate(codes, codes, labels, labels, self_index=places, protocol="hashing")
        assert results.num_candidates.tolist() == [2, 2, 2]
        assert (results.counts.valid, results.counts.not_in_gallery) == (2, 1)


def test_one_label_of_each_sample_is_an_identity():
    generator = torch.Generator().manual_seed(0)
    identities = [torch.randint(0, 5, (size,), generator=generator) for size in (6, 30)]
    embeddings = [torch.randn(size, 4, generator=generator) for size in (6, 30)]
    one_hot = [torch.nn.functional.one_hot(each, 5) for each in identities]
    for ties in TIE_POLICIES:
        options = {"ties": ties, "reports": ("map", "minp", "rank_1", "precision_10", "ndcg_10")}
        several = evaluate(*embeddings, *one_hot, **options)
        single = evaluate(*embeddings, *identities, **options)
        assert several.means == pytest.approx(single.means, abs=1e-12)
        assert several.ranks.rank.tolist() == single.ranks.rank.tolist()


@pytest.mark.parametrize(
    "kind",
    [
        lambda rows: rows,
        np.array,
        torch.tensor,
        lambda rows: np.array(rows, dtype=np.float32),
        lambda rows: torch.tensor(rows).bool(),
        lambda rows: [torch.tensor(row) for row in rows],
        lambda rows: [np.array(row) for row in rows],
    ],
)
@pytest.mark.usefixtures("unannotated")
def test_matrices_come_as_lists_arrays_and_tensors(kind):
    found = find_relevance(kind([[1, 0, 1], [0, 0, 0]]), kind([[0, 1, 1], [0, 1, 0], [1, 0, 1], [0, 0, 0]]))
    tile = found.tile(slice(0, 2))
    assert tile.columns[0].tolist() == [0, 2]
    assert tile.grades.tolist() == [[1, 2], [0, 0]]
    assert tile.num_positives.tolist() == [2, 0]
    assert tile.num_candidates.tolist() == [4, 4]


TWO = [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"query_identities": [[0, 2], [1]]}, ValueError, f"`query_identities` must have {ACCEPTED}; got lists of unequal lengths; write True for label l of sample n into the cell [n, l] of a matrix of False."),
        ({"query_identities": [{0, 2}, {1}]}, ValueError, f"`query_identities` must have {ACCEPTED}; got sets; write True for label l of sample n into the cell [n, l] of a matrix of False."),
        ({"query_identities": [[0, 2], [1, 1]]}, ValueError, f"`query_identities` must have {ACCEPTED}; got 2 in a matrix [2, 2]."),
        ({"query_identities": torch.zeros(2, 0)}, ValueError, "`query_identities` must have shape [N], or [N, 1 label or more]; got [2, 0]."),
        ({"query_identities": [[1], [0]]}, ValueError, "`query_identities` must have shape [N] for one identity of each sample, or bools for a single label; got torch.int64 of shape [2, 1], so write `[:, 0]` or `== 1` behind it."),
        ({"query_identities": torch.zeros(2, 2, dtype=torch.complex64)}, TypeError, f"`query_identities` must have {ACCEPTED}; got torch.complex64."),
        ({"gallery_identities": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}, ValueError, "`gallery_identities` must have the labels of `query_identities`; got a matrix of 3 labels for a matrix of 2 labels."),
        ({"gallery_identities": [1, 2, 3]}, ValueError, "`gallery_identities` must have the labels of `query_identities`; got one number for each sample for a matrix of 2 labels."),
        ({"junk_identities": (-1, 0)}, ValueError, "`junk_identities` must list nothing but -1 where `identities` are a matrix of labels, as samples have no identity of their own; got (-1, 0)."),
        ({"self_index": [0, 1]}, ValueError, "`self_index` must point at gallery items with the labels of the query; got item 1 for query 1, of another identity."),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("unannotated")
def test_matrices_that_do_not_fit_are_refused(options, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        find_relevance(**({"query_identities": TWO, "gallery_identities": [[1, 0], [1, 1], [0, 0]]} | options))


def test_batches_must_have_the_labels_of_earlier_ones():
    metric = ReIDMetrics()
    metric.update(torch.eye(2), torch.eye(2).bool(), is_query=True)
    for labels, came in (
        (torch.zeros(2, 3).bool(), "a matrix of 3 labels"),
        (torch.tensor([0, 1]), "one number for each sample"),
    ):
        with pytest.raises(
            ValueError,
            match=f"^`identities` must have the labels of earlier batches; got {came} for a matrix of 2 labels.$",
        ):
            metric.update(torch.eye(2), labels, is_query=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multi_query": True}, "`multi_query` needs `query_identities` and a `gallery`, no labels but identities and cameras, and no `self_index`; got a matrix of labels as `query_identities`."),
        ({"protocol": "cuhk03_openreid"}, "`gallery_draw` must come with one identity for each sample, to draw galleries of identities; got a matrix of labels."),
        ({"junk_identities": (3,)}, "`junk_identities` must list nothing but -1 where `identities` are a matrix of labels, as samples have no identity of their own; got (3,)."),
    ],
)  # fmt: skip
def test_options_that_need_one_identity_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        evaluate(torch.eye(2), torch.eye(2), TWO, TWO, [0, 1], [1, 0], **options)


def test_results_say_how_positives_were_told_and_are_saved(tmp_path):
    results = evaluate(
        torch.eye(3),
        torch.eye(3),
        [[1, 0], [0, 1], [0, 0]],
        [[1, 1], [0, 1], [1, 0]],
        protocol="hashing",
        reports=["map", "ndcg_2", "acg_2"],
        ties="expected",
    )
    assert "positives share a label" in results.conventions["map"]
    assert results.query_identities is None
    assert (results.counts.valid, results.counts.not_in_gallery) == (2, 1)
    results.save(tmp_path / "results.zip")
    loaded = type(results).load(tmp_path / "results.zip")
    assert loaded.means == results.means
    assert loaded.ranks.judged.grade.tolist() == results.ranks.judged.grade.tolist()
    with pytest.raises(ValueError, match="`query_identities` must have been given"):
        results.by_identity()
