"""Two models on the same queries: what they differ by is arithmetic, whatever the order of their queries."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from reid_torchmetrics import KReciprocal, ReIDMeanAP
from reid_torchmetrics.functional.detection import evaluate_boxes
from reid_torchmetrics.functional.retrieval import PROTOCOLS
from reid_torchmetrics.tasks import Difference, compare, evaluate_lists
from reid_torchmetrics.tasks.comparison import comparison
from tests.found_classes import images_of
from tests.metrics.reid.samples import needs_more
from tests.reference import comparisons
from tests.tasks.comparison.two_models import compared, evaluated, numbers_of, ranked, samples, seeded

NAN = math.nan


A, B = ranked(1, 2, 4, None), ranked(1, 1, 2, None)


def test_the_difference_is_that_of_the_means_and_queries_are_counted():
    found = compared(A, B)
    assert list(found.differences) == ["map", "minp", "rank_1", "rank_5", "rank_10"]
    average_precision, first = found.differences["map"], found.differences["rank_1"]
    # The means of 1, 1/2, 1/4 and of 1, 1, 1/2.
    assert average_precision.mean_a == pytest.approx(7 / 12)
    assert average_precision.mean_b == pytest.approx(5 / 6)
    assert average_precision.difference == pytest.approx(1 / 4)
    assert (average_precision.num_better, average_precision.num_worse, average_precision.num_equal) == (2, 0, 1)
    assert first.difference == pytest.approx(1 / 3)
    assert (first.num_better, first.num_worse, first.num_equal) == (1, 0, 2)
    assert (found.num_valid, found.num_queries) == (3, 4)


def test_queries_that_are_gained_and_lost_at_rank_1_are_listed():
    a, b = ranked(1, 2, 1, 4, None, 3), ranked(2, 1, 1, 3, None, 1)
    index = torch.arange(100, 106)
    found = compared(replace(a, query_index=index), replace(b, query_index=index))
    assert found.gained.tolist() == [1, 5]
    assert found.gained_index.tolist() == [101, 105]
    assert found.lost.tolist() == [0]
    assert found.lost_index.tolist() == [100]


@pytest.mark.parametrize("per_identity", [False, True])
def test_swapped_models_mirror_everything(per_identity):
    ranks = torch.randint(1, 12, (2, 30), generator=seeded(1)).tolist()
    identities = torch.randint(0, 9, (30,), generator=seeded(2)).tolist()
    a, b = (ranked(*each, identities=identities, reports=("map", "mean_rank", "rank_1")) for each in ranks)
    forth, back = (compared(*pair, per_identity=per_identity) for pair in ((a, b), (b, a)))
    assert forth.gained.tolist() == back.lost.tolist() != forth.lost.tolist() == back.gained.tolist()
    for name, one in forth.differences.items():
        other = back.differences[name]
        assert (one.mean_a, one.mean_b, one.p_value) == (other.mean_b, other.mean_a, other.p_value)
        ends = [one.difference, one.low, one.high]
        assert ends == pytest.approx([-other.difference, -other.high, -other.low], abs=1e-12)
        assert (one.num_better, one.num_worse, one.num_equal) == (other.num_worse, other.num_better, other.num_equal)


def test_values_that_only_rounding_tells_apart_are_equal():
    values = {name: each + 1e-16 * torch.tensor([1, 2, -1, 0]) for name, each in A.per_query.items()}
    difference = compared(A, replace(A, per_query=values)).differences["map"]
    assert (difference.difference, difference.p_value, difference.num_equal) == (0, 1, 3)


def test_a_query_that_is_found_at_last_is_better_and_two_that_are_never_found_are_equal():
    # Ranks 1, never, never against 1, 1, never.
    lists = [[1], [2], [3]]
    a, b = (evaluate_lists(each, lists, reports=("mean_rank", "map")) for each in ([[1], [9], [9]], [[1], [2], [9]]))
    found, mirrored = compared(a, b), compared(b, a)
    rank, back = found.differences["mean_rank"], mirrored.differences["mean_rank"]
    assert (rank.num_better, rank.num_worse, rank.num_equal) == (1, 0, 2)
    assert (back.num_better, back.num_worse, back.num_equal) == (0, 1, 2)
    assert (rank.mean_a, rank.mean_b) == (math.inf, math.inf)
    assert all(math.isnan(each) for each in (rank.difference, rank.low, rank.high, rank.p_value))
    assert found.differences["map"].difference == pytest.approx(1 / 3)
    assert "never" in str(found)
    assert "none: a mean is infinite" in str(found)
    measures = json.loads(json.dumps(found.to_dict(), allow_nan=False))["measures"]
    assert (measures["mean_rank"]["mean_a"], measures["mean_rank"]["mean_a_said"]) == (None, "never")
    assert "mean_a_said" not in measures["map"]


def test_anmrr_is_better_where_it_is_lower_and_a_median_is_not_compared():
    reports = ("anmrr", "median_rank")
    found = compared(*(ranked(*ranks, reports=reports) for ranks in ((5, 2, 3), (1, 4, 2))))
    assert [*found.differences] == ["anmrr"]
    difference = found.differences["anmrr"]
    assert (difference.num_better, difference.num_worse, difference.lower_is_better) == (2, 1, True)
    medians = [ranked(*ranks, reports=reports[1:]) for ranks in ((5, 2, 3), (1, 4, 2))]
    with pytest.raises(ValueError, match="`reports` must hold a mean over queries here; got median_rank"):
        compared(*medians)


@pytest.mark.sampled
@pytest.mark.parametrize("protocol", [name for name, each in PROTOCOLS.items() if not needs_more(each)])
def test_the_difference_under_every_protocol_is_that_of_the_reported_means(protocol):
    a, b = evaluated(1, protocol), evaluated(2, protocol)
    found = compared(a, b)
    for name, difference in found.differences.items():
        assert (difference.mean_a, difference.mean_b) == (a.means[name], b.means[name])
        assert difference.difference == pytest.approx(b.means[name] - a.means[name], abs=1e-12)
        assert difference.low <= difference.difference <= difference.high
    assert found.conventions == {name: a.conventions[name] for name in a.averaged}


def _without(values: Mapping[str, Tensor], queries: Tensor) -> dict[str, Tensor]:
    return {name: each.masked_fill(queries & (name != "map"), NAN) for name, each in values.items()}


def test_numbers_over_other_queries_are_compared_over_these():
    # The CMC of this protocol has a camera rule of its own, by which another query may lose all positives.
    a, b = (evaluated(seed, "cuhk03_openreid") for seed in (1, 2))
    blind = torch.arange(30) == int(a.per_query["map"].isfinite().nonzero()[0])
    a, b = (replace(each, per_query=_without(each.per_query, blind)) for each in (a, b))
    found = compared(a, b).differences
    num_valid = [each.num_better + each.num_worse + each.num_equal for each in found.values()]
    assert num_valid[1:] == [num_valid[0] - 1] * 4
    for name, difference in found.items():
        assert difference.difference == pytest.approx(b.means[name] - a.means[name], abs=1e-12)


def test_queries_in_another_order_are_matched_by_their_number():
    index, order = torch.tensor([40, 10, 30, 20, 50]), torch.tensor([3, 1, 4, 0, 2])
    ranks_a, ranks_b, identities = [2, 1, 4, 2, None], [1, 2, 2, 3, None], [1, 2, 1, 3, 9]
    a, b = (replace(ranked(*ranks, identities=identities), query_index=index) for ranks in (ranks_a, ranks_b))
    shuffled = ranked(*(ranks_b[place] for place in order), identities=[identities[place] for place in order])
    shuffled = replace(shuffled, query_index=index[order])
    expected, found = compared(a, b), compared(a, shuffled)
    for name, difference in expected.differences.items():
        assert numbers_of(found.differences[name]) == pytest.approx(numbers_of(difference), abs=1e-12)
    assert found.gained_index.tolist() == [40]
    assert found.lost.tolist() == [1]


def test_results_of_metrics_are_compared_and_models_may_differ_in_similarity_and_re_ranking():
    data = samples(1)
    found = []
    for options in ({}, {"similarity": "euclidean", "rerank": KReciprocal(k1=4, k2=2)}):
        metric = ReIDMeanAP(**options)
        for side in ("query", "gallery"):
            labels = data[f"{side}_identities"], data[f"{side}_cameras"]
            metric.update(data[side], *labels, is_query=side == "query")
        found.append(metric.results())
    both = compared(*found)
    assert (both.setup_a.similarity, both.setup_b.similarity) == ("cosine", "euclidean")
    assert "b: similarity: euclidean; ties: pessimistic; re-ranked by KReciprocal(k1=4" in repr(both)


@pytest.mark.needs("diagnosis")
def test_a_model_with_embeddings_that_are_not_finite_has_differences_of_nan():
    good, bad = ReIDMeanAP(), ReIDMeanAP()
    for metric, scale in ((good, 1), (bad, NAN)):
        for is_query in (True, False):
            metric.update(scale * torch.eye(3), torch.tensor([1, 2, 1]), is_query=is_query)
    with pytest.warns(UserWarning, match="NaN"):
        results = good.results(), bad.results()
    for pair in (results, results[::-1]):
        found = compared(*pair)
        difference = found.differences["map"]
        assert numbers_of(difference)[2:] == pytest.approx([NAN] * 4 + [0, 0, 0, False], nan_ok=True)
        assert (found.num_valid, found.num_queries) == (0, 3)
        assert len(found.gained) == len(found.lost) == 0
    # Each is itself at rank 1; the two of one identity have the other one behind a tied negative, at rank 3.
    assert compared(*results).differences["map"].mean_a == pytest.approx((5 / 6 + 1 + 5 / 6) / 3)


@pytest.mark.parametrize(
    ("ranks", "action"), [((), "skip"), ((), "neg"), ((), "error"), ((None, None), "skip"), ((None, None), "error")]
)
def test_without_a_valid_query_everything_is_nan_and_none_in_json(ranks, action):
    found = compared(ranked(*ranks, empty_target_action=action), ranked(*ranks, empty_target_action=action))
    assert numbers_of(found.differences["map"]) == pytest.approx([NAN] * 6 + [0, 0, 0, False], nan_ok=True)
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written["measures"]["map"]["p_value"] is None
    assert "n/a" in repr(found)
    assert "nan" not in repr(found)


def test_the_dict_is_json_and_holds_everything():
    written = json.loads(json.dumps(compared(A, B).to_dict(), allow_nan=False))
    assert list(written) == [
        "measures", "gained", "lost", "names", "num_queries", "num_valid", "level", "num_resamples", "num_permutations",
        "per_identity", "seed", "protocol", "setup_a", "setup_b", "cutoff", "further_comparisons",
    ]  # fmt: skip
    assert written["measures"]["map"]["difference"] == pytest.approx(1 / 4)
    assert written["measures"]["rank_1"]["convention"] == A.conventions["rank_1"]
    assert written["gained"] == {"positions": [1], "query_index": [1]}
    assert (written["protocol"]["name"], written["setup_a"]["ties"]) == ("market1501", "pessimistic")


def test_the_repr_is_a_table_with_conventions():
    same = Difference(0.5, 0.75, 0.25, -0.125, 0.5, 0.0625, 12, 3, 0, is_rank=False)
    undefined = Difference(0.5, NAN, NAN, NAN, NAN, NAN, 0, 0, 0, is_rank=False)
    found = replace(
        compared(A, B, per_identity=True),
        differences={"map": same, "rank_1": undefined},
        conventions={"map": "of all", "rank_1": "of one"},
    )
    assert repr(found).splitlines() == [
        "Comparison: b - a, protocol market1501, 3 of 4 queries valid",
        "  a: similarity: given scores; ties: pessimistic",
        "  b: similarity: given scores; ties: pessimistic",
        "  intervals: 50 bootstrap samples of identities; p: 50 sign flips of identities; seed 0",
        "               a       b    b - a        95% interval       p  better  worse  equal",
        "  map     0.5000  0.7500  +0.2500  [-0.1250, +0.5000]  0.0625      12      3      0",
        "  rank_1  0.5000     n/a      n/a                 n/a     n/a       0      0      0",
        "  right at rank 1 in b only: 1 query; in a only: 0",
        "  map     of all",
        "  rank_1  of one",
    ]

    corrected = replace(found, differences={"map": replace(same, p_holm=0.125)})
    assert repr(corrected).splitlines()[4:6] == [
        "            a       b    b - a        95% interval       p  p Holm  better  worse  equal",
        "  map  0.5000  0.7500  +0.2500  [-0.1250, +0.5000]  0.0625  0.1250      12      3      0",
    ]


def test_a_comparison_of_detectors_draws_images_and_counts_classes():
    # One image, so every draw is the same, and models that change places differ as much.
    right, wrong = ([(0.9, True)], 1), ([(0.9, False)], 1)
    classes = (right, wrong, right, wrong), (right, right, wrong, right)
    found = compared(*(evaluate_boxes(*images_of(*each)) for each in classes), num_resamples=3, num_permutations=4)
    difference = found.differences["map"]
    assert numbers_of(difference) == pytest.approx([0.5, 0.75, 0.25, 0.25, 0.25, 1, 2, 1, 1, False])
    assert difference.title == "mAP"
    assert (found.num_queries, found.num_valid, found.protocol) == (1, 1, None)
    assert len(found.gained) == 0
    assert found.to_dict()["protocol"] is None
    lines = repr(found).splitlines()
    assert lines[0] == "Comparison: b - a, 1 image"
    assert "  intervals: 3 bootstrap samples of images; p: 4 swaps of images; seed 0" in lines
    assert "  better, worse and equal: classes" in lines


def test_a_generator_that_has_drawn_before_has_no_seed_to_say():
    found = [
        compare(A, B, num_resamples=9, num_permutations=9, generator=seeded_once) for seeded_once in [seeded()] * 2
    ]
    assert [each.seed for each in found] == [0, None]
    assert "seed" not in repr(found[1])


def test_each_of_several_models_is_compared_with_the_first():
    three = {"first": A, "second": B, "third": ranked(2, 2, 1, None)}
    found = compare(three, num_resamples=50, num_permutations=50)
    assert [*found.by_name] == ["second", "third"]
    for name, pair in found.by_name.items():
        alone = compare({"first": A, name: three[name]}, num_resamples=50, num_permutations=50)
        assert pair.names == ("first", name)
        for measure, difference in pair.differences.items():
            assert numbers_of(difference) == numbers_of(alone.differences[measure])
            assert math.isnan(alone.differences[measure].p_holm)
            p_values = [each.differences[measure].p_value for each in found.by_name.values()]
            expected = comparisons.holm(p_values)[[*found.by_name].index(name)]
            assert difference.p_holm == pytest.approx(expected)
    lines = repr(found).splitlines()
    assert lines[0].startswith("Comparison: second - first, third - first, protocol market1501")
    assert [line.split()[:2] for line in lines if "p Holm" in line] == [["first", "second"], ["first", "third"]]
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written["further_comparisons"][0]["names"] == ["first", "third"]
    assert written["measures"]["map"]["p_holm"] == found.differences["map"].p_holm


@pytest.mark.parametrize(
    "p_values", [[0.01, 0.04, 0.03], [0.02, 0.02, 0.9, 0.02], [0.5], [0.9, 0.8], [0.001, 0.2, 0.2, 0.05, 1.0]]
)
def test_holm_s_correction_is_the_definition_s(p_values):
    pair = compare(A, B, num_resamples=1, num_permutations=1)
    pairs = [replace(pair, differences={"map": replace(pair.differences["map"], p_value=p)}) for p in p_values]
    found = [each.differences["map"].p_holm for each in comparison.corrected(pairs)]
    assert found == pytest.approx(comparisons.holm(p_values))


def test_an_undefined_p_value_does_not_count_in_holm_s_correction():
    pair = compare(A, B, num_resamples=1, num_permutations=1)
    pairs = [replace(pair, differences={"map": replace(pair.differences["map"], p_value=p)}) for p in (0.2, NAN, 0.1)]
    found = [each.differences["map"].p_holm for each in comparison.corrected(pairs)]
    assert found == pytest.approx([0.2, NAN, 0.2], nan_ok=True)
