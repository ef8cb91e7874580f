# ruff: noqa: E501 - a message stays on one line, to be searched for
"""Results and comparisons that could not be loaded are not saved, and the error names the part."""

import math
import re
from dataclasses import replace

import pytest
import torch

from reid_torchmetrics.functional.retrieval import evaluate_scores
from reid_torchmetrics.tasks import evaluate_lists
from tests.tasks.comparison.two_models import compared, ranked

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
WITH_RULE = evaluate_scores(SCORES, [1, 2, 7], [1, 1, 2], [0, 0, 0], [1, 2, 2], cmc_same_camera="all")
WITH_PAIRS = replace(OF_LABELS, camera_pairs={"map": OF_LABELS.by_camera_pair()})
COMPARED = compared(ranked(1, 2, 4, None), ranked(2, 1, 2, None))


def changed(results, **values):
    """With other values at some places: fields of fields, by names that `__` joins."""
    for place, value in values.items():
        name, _, rest = place.partition("__")
        before = results[name] if isinstance(results, dict) else getattr(results, name)
        if rest:
            value = changed(before, **{rest: value})  # noqa: PLW2901
        elif isinstance(before, torch.Tensor):
            value = torch.tensor(value, dtype=before.dtype)  # noqa: PLW2901
        results = {**results, name: value} if isinstance(results, dict) else replace(results, **{name: value})
    return results


@pytest.mark.parametrize("results", [OF_LABELS, OF_LISTS, DRAWN, WITH_RULE, WITH_PAIRS, COMPARED])
def test_results_of_an_evaluation_agree(results, tmp_path):
    loaded = type(results).load(results.save(tmp_path / "results.npz"))
    assert loaded.to_dict() == results.to_dict()


REFUSED = [
    (changed(OF_LABELS, counts__junk=2), "`counts` must be those of the ranks; got "),
    (changed(OF_LABELS, counts__junk=-1), "`counts` must be those of the ranks; got "),
    (changed(OF_LABELS, counts__same_camera_only=2), "`counts` must be those of the ranks; got "),
    (replace(DRAWN, protocol=OF_LABELS.protocol), "`drawn` must be there if the protocol draws galleries, and only then; got some."),
    (replace(DRAWN, drawn=None), "`drawn` must be there if the protocol draws galleries, and only then; got none."),
    (changed(DRAWN, drawn__average_precision=[NAN, 1, 1, 1]), "`drawn.average_precision` must be NaN where it is undefined, and nowhere else; got other values."),
    (changed(DRAWN, drawn__inverse_negative_penalty=[2, 1, 1, 1]), "`drawn.inverse_negative_penalty` must lie in [0, 1]; got other values."),
    (changed(DRAWN, drawn__weight=[0.5, 0.5, NAN, 0.5]), "`drawn.weight` must be NaN where it is undefined, and nowhere else; got other values."),
    (replace(DRAWN, cmc=torch.ones(60, dtype=torch.float64)), "`drawn.cmc` must have at least 60 ranks; got 50."),
    (replace(OF_LABELS, ranks_for_cmc=OF_LABELS.ranks), "`ranks_for_cmc` must be there if the CMC has a camera rule of its own; got some."),
    (replace(OF_LABELS, protocol=OF_LABELS.protocol.with_options({"cmc_same_camera": "all"})), "`ranks_for_cmc` must be there if the CMC has a camera rule of its own; got none."),
    (replace(WITH_RULE, ranks_for_cmc=OF_LISTS.ranks), "`ranks_for_cmc.num_positives` must have shape [3]; got [2]."),
    (replace(OF_LISTS, query_names=("q",)), "`query_names` must have one row for each label; got 1 rows for 2 labels."),
    (replace(OF_LABELS, label_names={"weather": {1: "rain"}}), "`label_names` must be one of "),
    (changed(OF_LISTS, rank_lists__query=[1, 0]), "`rank_lists.query` must fit the results; got other values."),
    (changed(OF_LISTS, rank_lists__scores=[[-1, NAN], [-1, NAN]]), "`rank_lists.scores` must fit the results; got other values."),
    (changed(OF_LISTS, rank_lists__is_positive=[[False, True], [False, True]]), "`rank_lists.is_positive` must fit the results; got other values."),
    (changed(OF_LISTS, rank_lists__first_positive_rank=[2, 1]), "`rank_lists.first_positive_rank` must fit the results; got other values."),
    (changed(OF_LISTS, rank_lists__first_positive_index=[-1, -1]), "`rank_lists.first_positive_index` must fit the results; got other values."),
    (changed(OF_LISTS, rank_lists__first_positive_score=[-2, -1]), "`rank_lists.first_positive_score` must fit the results; got other values."),
    (changed(OF_LISTS, rank_lists__index=[[3, 0], [0, -1]]), "`rank_lists.index` must lie in [-1, 3); got values from -1 to 3."),
    (changed(OF_LISTS, rank_lists__index=[[-2, 0], [0, -1]]), "`rank_lists.index` must lie in [-1, 3); got values from -2 to 0."),
    (changed(OF_LISTS, rank_lists__first_positive_index=[3, -1]), "`rank_lists.first_positive_index` must lie in [-1, 3); got values from -1 to 3."),
    (changed(WITH_PAIRS, camera_pairs__map__num_valid=[[4, 0]]), "`camera_pairs.map.num_valid` must lie in [0, 4); got values from 0 to 4."),
    (changed(WITH_PAIRS, camera_pairs__map__num_valid=[[-1, 0]]), "`camera_pairs.map.num_valid` must lie in [0, 4); got values from -1 to 0."),
    (changed(WITH_PAIRS, camera_pairs__map__num_valid=[[0, 0]]), "`camera_pairs.map.mean` must be NaN where it is undefined, and nowhere else; got other values."),
    (replace(COMPARED, num_valid=5), "`num_valid` must lie in [0, 4]; got 5."),
    (replace(COMPARED, num_valid=-1), "`num_valid` must lie in [0, 4]; got -1."),
    (replace(COMPARED, conventions={"map": "of all"}), "`conventions` must be those of all differences; got map."),
    (replace(COMPARED, level=1.5), "`level` must lie in [0, 1]; got 1.5."),
    (changed(COMPARED, gained=[4]), "`gained` must lie in [0, 4); got values from 4 to 4."),
    (changed(COMPARED, lost=[-1]), "`lost` must lie in [0, 4); got values from -1 to -1."),
    *((changed(COMPARED, **{f"differences__map__{name}": value for name, value in changes.items()}), "`differences.map` must have p-values from 0 to 1, and ends in order; got ") for changes in ({"p_value": 1.1}, {"p_value": -0.1}, {"p_holm": -0.1}, {"low": 0.4, "high": 0.3}, {"num_worse": -1})),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.usefixtures("unannotated")
@pytest.mark.parametrize(("results", "message"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_results_that_do_not_agree_are_not_saved(results, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        results.save(tmp_path / "results.npz")


def test_queries_that_are_gained_or_lost_ascend(tmp_path):
    for name in ("gained", "lost"):
        for queries in ([1, 0], [2, 2], [0, 2, 1], [0, 1, 1]):
            numbers = {name: torch.tensor(queries), f"{name}_index": torch.tensor(queries)}
            message = f"`{name}` must ascend; got {queries}."
            with pytest.raises(ValueError, match=re.escape(message)):
                replace(COMPARED, **numbers).save(tmp_path / "results.npz")


def test_numbers_that_were_replaced_by_hand_are_those_of_the_ranks_in_a_file(tmp_path):
    other = changed(OF_LABELS, per_query__map=[0.25, 0.25, NAN])
    assert other["map"] == 0.25
    assert type(other).load(other.save(tmp_path / "results.npz"))["map"] == OF_LABELS["map"]


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
    found = changed(COMPARED, **{f"differences__map__{name}": value for name, value in changes.items()})
    assert type(found).load(found.save(tmp_path / "results.npz")).to_dict() == found.to_dict()
