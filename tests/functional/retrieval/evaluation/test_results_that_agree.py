# ruff: noqa: E501 - a message stays on one line, to be searched for
"""Results and comparisons whose parts do not agree with each other are not saved, and the error names the part."""

import math
import re
from dataclasses import replace

import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate_lists, evaluate_scores
from tests.functional.retrieval.evaluation.two_models import compared, ranked

NAN = math.nan
SCORES = torch.tensor([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4], [0.3, 0.2, 0.1]])
OF_LABELS = evaluate_scores(
    SCORES, [1, 2, 7], [1, 1, 2], [0, 0, 0], [1, 2, 2], reports=("map", "mean_rank")
)  # 7 is nowhere
OF_LISTS = evaluate_lists(
    {"q": ["a", "b"], "r": ["b"]}, {"q": {"b": 2, "c": 0}, "r": {"a": 1}}, reports=("map", "bpref")
)
DRAWN = evaluate_scores(
    torch.eye(4) + SCORES[0, 0], [1, 1, 2, 2], [1, 1, 2, 2], self_index=torch.arange(4), protocol="vehicleid"
)
COMPARED = compared(ranked(1, 2, 4, None), ranked(2, 1, 2, None))


def of_queries(results, name, *values):
    """With other values for the queries."""
    dtype = getattr(results, name).dtype
    return replace(results, **{name: torch.tensor(values, dtype=dtype)})


def with_values(results, name, *values):
    return replace(results, values={**results.values, name: torch.tensor(values, dtype=torch.float64)})


def with_counts(results, **changes):
    return replace(results, counts=replace(results.counts, **changes))


def with_judged(**changes):
    judged = OF_LISTS.ranks.judged
    changes = {name: torch.tensor(values, dtype=getattr(judged, name).dtype) for name, values in changes.items()}
    return replace(OF_LISTS, ranks=replace(OF_LISTS.ranks, judged=replace(judged, **changes)))


def with_lists(**changes):
    lists = OF_LISTS.rank_lists
    changes = {name: torch.tensor(values, dtype=getattr(lists, name).dtype) for name, values in changes.items()}
    return replace(OF_LISTS, rank_lists=replace(lists, **changes))


def with_pairs(**changes):
    pairs = OF_LABELS.by_camera_pair()
    return replace(
        OF_LABELS,
        camera_pairs={"map": replace(pairs, **{name: torch.tensor(values) for name, values in changes.items()})},
    )


def with_difference(**changes):
    return replace(COMPARED, differences={"map": replace(COMPARED.differences["map"], **changes)})


@pytest.mark.parametrize("results", [OF_LABELS, OF_LISTS, DRAWN, COMPARED])
def test_what_is_evaluated_agrees(results, tmp_path):
    loaded = type(results).load(results.save(tmp_path / "results.npz"))
    assert loaded.to_dict() == results.to_dict()


REFUSED = [
    (with_counts(OF_LABELS, junk=1), "`counts` must be those of the ranks; got "),
    (with_counts(OF_LABELS, junk=2, not_in_gallery=-1), "`counts` must be those of the ranks; got "),
    (with_counts(OF_LABELS, valid=3, not_in_gallery=0), "`counts` must be those of the ranks; got "),
    (with_values(OF_LABELS, "map", 1.0 + 1e-8, 1 / 3, NAN), "`values.map` must lie in [0, 1] where it is defined; got other values."),
    (with_values(OF_LABELS, "map", -1e-8, 1 / 3, NAN), "`values.map` must lie in [0, 1] where it is defined; got other values."),
    (with_values(OF_LABELS, "mean_rank", 0.9, 3, NAN), "`values.mean_rank` must lie in [1, inf] where it is defined; got other values."),
    (with_values(OF_LABELS, "map", 0.5, 1 / 3, NAN), "`values.map` must be what matches or ranks give; got other values."),
    (with_values(OF_LISTS, "bpref", 1.5, 0.0), "`values.bpref` must lie in [-inf, 1] where it is defined; got other values."),
    (of_queries(OF_LABELS, "first_rank", 0, 3, NAN), "`first_rank` must lie in [1, inf] where it is defined; got other values."),
    (of_queries(OF_LABELS, "average_precision", 2, 1, NAN), "`average_precision` must lie in [0, 1] where it is defined; got other values."),
    (of_queries(OF_LABELS, "inverse_negative_penalty", 2, 1, NAN), "`inverse_negative_penalty` must lie in [0, 1] where it is defined; got other values."),
    (of_queries(OF_LABELS, "num_candidates", 3, 3, 2), "`num_candidates` must be what matches or ranks give; got other values."),
    (replace(OF_LABELS, cmc=OF_LABELS.cmc + 1), "`cmc` must lie in [0, 1] where it is defined; got other values."),
    (with_values(DRAWN, "map", NAN, 1, 1, 1), "`values.map` must lie in [0, 1] where it is defined; got other values."),
    (of_queries(DRAWN, "weight", 0.5, 0.5, NAN, 0.5), "`weight` must lie in [0, 1] where it is defined; got other values."),
    (replace(OF_LISTS, query_names=("q",)), "`query_names` must have one row for each label; got 1 rows for 2 labels."),
    (with_judged(grade=[0.0, 1.0]), "`judged.grade` must be finite and above 0; got other values."),
    (with_judged(grade=[math.inf, 1.0]), "`judged.grade` must be finite and above 0; got other values."),
    (with_judged(num_before=[-1, 0]), "`judged.num_before` must lie in [0, "),
    (with_judged(num_negatives=[-1, 0]), "`judged.num_negatives` must lie in [0, "),
    (with_lists(query=[1, 0]), "`rank_lists.query` must fit the results; got other values."),
    (with_lists(scores=[[-1, NAN], [-1, NAN]]), "`rank_lists.scores` must fit the results; got other values."),
    (with_lists(is_positive=[[False, True], [False, True]]), "`rank_lists.is_positive` must fit the results; got other values."),
    (with_lists(first_positive_rank=[2, 1]), "`rank_lists.first_positive_rank` must fit the results; got other values."),
    (with_lists(first_positive_index=[-1, -1]), "`rank_lists.first_positive_index` must fit the results; got other values."),
    (with_lists(first_positive_score=[-2, -1]), "`rank_lists.first_positive_score` must fit the results; got other values."),
    (with_lists(index=[[3, 0], [0, -1]]), "`rank_lists.index` must lie in [-1, 3); got values from -1 to 3."),
    (with_lists(index=[[-2, 0], [0, -1]]), "`rank_lists.index` must lie in [-1, 3); got values from -2 to 0."),
    (with_lists(first_positive_index=[3, -1]), "`rank_lists.first_positive_index` must lie in [-1, 3); got values from -1 to 3."),
    (with_pairs(num_valid=[[4, 0]]), "`num_valid` must lie in [0, 4); got values from 0 to 4."),
    (with_pairs(num_valid=[[-1, 0]]), "`num_valid` must lie in [0, 4); got values from -1 to 0."),
    (with_pairs(num_valid=[[0, 0]]), "`camera_pairs.map.mean` must lie in [0, 1] where it is defined; got other values."),
    (replace(COMPARED, num_valid=5), "`num_valid` must lie in [0, 4]; got 5."),
    (replace(COMPARED, num_valid=-1), "`num_valid` must lie in [0, 4]; got -1."),
    (replace(COMPARED, conventions={"map": "of all"}), "`conventions` must be those of all differences; got map."),
    (replace(COMPARED, level=1.5), "`level` must lie in [0, 1]; got 1.5."),
    (replace(COMPARED, gained=torch.tensor([4])), "`gained` must lie in [0, 4); got values from 4 to 4."),
    (replace(COMPARED, lost=torch.tensor([-1])), "`lost` must lie in [0, 4); got values from -1 to -1."),
    (replace(COMPARED, gained=torch.tensor([1, 1]), gained_index=torch.tensor([1, 1])), "`gained` must ascend; got [1, 1]."),
    *((with_difference(**changes), "`differences.map` must have p-values from 0 to 1, and ends in order; got ") for changes in ({"p_value": 1.1}, {"p_value": -0.1}, {"p_holm": -0.1}, {"low": 0.4, "high": 0.3}, {"num_worse": -1})),
]  # fmt: skip


@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("results", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_does_not_agree_is_not_saved(results, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        results.save(tmp_path / "results.npz")


@pytest.mark.parametrize(
    "changes",
    [
        {"p_value": 1.0},
        {"p_value": 0.0, "p_holm": 1.0},
        {"low": 0.3, "high": 0.3},
        {"p_value": NAN, "low": NAN, "high": NAN},
    ],
)
def test_numbers_at_the_ends_of_their_range_are_saved(changes, tmp_path):
    found = with_difference(**changes)
    assert type(found).load(found.save(tmp_path / "results.npz")).to_dict() == found.to_dict()
