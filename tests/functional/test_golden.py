"""The package against recorded outputs of other evaluators, see `tests/golden/README.md`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import chain

import pytest
import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval import (
    PositiveRanks,
    average_precision,
    cmc_curve,
    first_rank,
    inverse_negative_penalty,
    mean_over_queries,
    rank_positives_from_scores,
)
from tests.golden.cases import ERRORS, PROBLEMS, RECORDS, Record
from tests.reference.retrieval import Evaluation, evaluate

MAX_RANK = 20  # what every recorded curve was asked for
TIE_ORDERS = {
    "optimistic_pos_first": "optimistic",
    "pessimistic_neg_first": "pessimistic",
    "stable_index_order": "stable",
}


@dataclass(frozen=True)
class Peer:
    """The conventions of an evaluator in the words of the package."""

    ap_rule: str = "rectangle"
    junk_identities: tuple[int, ...] = ()
    empty_target_action: str = "skip"


PEERS = {
    "openreid": Peer(),
    "cc": Peer(),
    "torchreid": Peer(),
    "torchreid_cy": Peer(),
    "fastreid": Peer(),
    "fastreid_cy": Peer(),
    "agw": Peer(),
    "transreid": Peer(),
    "layumi": Peer(ap_rule="trapezoid", junk_identities=(-1,), empty_target_action="neg"),
    "oxford_cpp": Peer(ap_rule="trapezoid", junk_identities=(-1,)),
    "revisitop": Peer(ap_rule="trapezoid", junk_identities=(-1,)),
}


def curve(ranks: PositiveRanks, peer: Peer) -> Tensor:
    return cmc_curve(ranks, max_rank=MAX_RANK, empty_target_action=peer.empty_target_action)


def mean_precision(ranks: PositiveRanks, peer: Peer) -> Tensor:
    return mean_over_queries(precision(ranks, peer), empty_target_action=peer.empty_target_action)


def precision(ranks: PositiveRanks, peer: Peer) -> Tensor:
    return average_precision(ranks, rule=peer.ap_rule)


def mean_penalty(ranks: PositiveRanks, _: Peer) -> Tensor:
    return mean_over_queries(inverse_negative_penalty(ranks))


def first_place_from_zero(ranks: PositiveRanks, _: Peer) -> Tensor:
    return (first_rank(ranks) - 1).nan_to_num(nan=-1)


def without_nan(values: Tensor) -> Tensor:
    return values[~values.isnan()]


QUANTITIES: dict[str, Callable[[PositiveRanks, Peer], Tensor]] = {
    "cmc": curve,
    "cmc_market1501": curve,
    "cmc_separate_cams_market": curve,
    "mAP": mean_precision,
    "mINP": mean_penalty,
    "AP_per_query": precision,
    "AP_per_query_nan_if_no_positive": precision,
    "AP_valid_queries": lambda ranks, peer: without_nan(precision(ranks, peer)),
    "INP_valid_queries": lambda ranks, _: without_nan(inverse_negative_penalty(ranks)),
    "first_hit_rank0": first_place_from_zero,
}

# Every recorded array is in exactly one of these four groups; a test below counts them.
NOT_ASSERTED = {
    "openreid/cmc_allshots": "the package has no all-shots CMC",
    "openreid/cmc_separate_cams_allshots": "the package has no all-shots CMC",
    "revisitop/mP_at_k": "the package has no precision at a cutoff",
    "revisitop/P_at_k_per_query": "the package has no precision at a cutoff",
}
CYTHON_CURVES = [key for key in RECORDS if key.endswith("_cy/cmc")]
ZERO_FOR_NOTHING = ["a11_6q40g_allsamecam/layumi/mAP", "a11_6q40g_allsamecam/layumi/cmc"]


def quantity_name(record: Record) -> str:
    return record.output.partition("/")[2].removesuffix("_safe")


PLAIN = [
    key
    for key, record in RECORDS.items()
    if quantity_name(record) in QUANTITIES and key not in {*CYTHON_CURVES, *ZERO_FOR_NOTHING}
]
RAGGED = [key for key, error in ERRORS.items() if error.error == "ValueError"]
NOTHING_VALID = [key for key, error in ERRORS.items() if error.case == "a11_6q40g_allsamecam"]


@cache
def ranks_of(
    name: str,
    junk_identities: tuple[int, ...] = (),
    same_camera: str = "same_identity",
    ties: str = "pessimistic",
) -> PositiveRanks:
    return rank_positives_from_scores(
        *inputs_of(name), same_camera=same_camera, junk_identities=junk_identities, ties=ties
    )


@cache
def reference_of(
    name: str,
    junk_identities: tuple[int, ...] = (),
    same_camera: str = "same_identity",
    ties: str = "pessimistic",
) -> Evaluation:
    return evaluate(*inputs_of(name), same_camera=same_camera, junk_identities=junk_identities, ties=ties)


def inputs_of(name: str) -> list[Tensor]:
    problem = PROBLEMS[name]
    labels = [
        problem.query_identities,
        problem.gallery_identities,
        problem.query_cameras,
        problem.gallery_cameras,
    ]
    return [-torch.from_numpy(problem.distances), *map(torch.from_numpy, labels)]


def ours(record: Record) -> Tensor:
    peer = PEERS[record.output.partition("/")[0]]
    ranks = ranks_of(
        record.problem,
        (-1,) if record.variant == "dropjunk" else peer.junk_identities,
        "all" if "separate_cams" in record.output else "same_identity",
        TIE_ORDERS.get(record.variant, "pessimistic"),
    )
    return QUANTITIES[quantity_name(record)](ranks, peer)


def assert_equal(actual: Tensor, record: Record) -> None:
    """Compare with a record; a recorded curve may be shorter than ours, never longer."""
    expected = torch.from_numpy(record.value).to(torch.float64)
    actual = actual[: len(expected)] if "cmc" in record.output else actual
    torch.testing.assert_close(actual.to(torch.float64), expected, rtol=0, atol=record.tolerance, equal_nan=True)


def is_rising(values: Tensor) -> bool:
    return bool((values.diff() >= 0).all())


def test_every_recorded_array_is_asserted_once_or_left_out_with_a_reason() -> None:
    left_out = [key for key, record in RECORDS.items() if record.output in NOT_ASSERTED]
    groups = [*PLAIN, *CYTHON_CURVES, *ZERO_FOR_NOTHING, *left_out]
    assert sorted(groups) == sorted(RECORDS)
    assert (len(PLAIN), len(CYTHON_CURVES), len(left_out)) == (574, 46, 92)
    assert sorted([*RAGGED, *NOTHING_VALID]) == sorted(ERRORS)
    assert (len(RAGGED), len(NOTHING_VALID)) == (8, 14)


@pytest.mark.parametrize("key", PLAIN)
def test_equals_the_recorded_output(key: str) -> None:
    assert_equal(ours(RECORDS[key]), RECORDS[key])


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic", "stable"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_ranks_are_those_of_the_slow_reference(name: str, ties: str) -> None:
    for junk_identities, same_camera in [((), "same_identity"), ((-1,), "all"), ((-1,), "keep")]:
        ranks = ranks_of(name, junk_identities, same_camera, ties)
        expected = reference_of(name, junk_identities, same_camera, ties)
        assert ranks.rank.tolist() == list(chain.from_iterable(expected.ranks))
        assert ranks.num_positives.tolist() == [len(of_query) for of_query in expected.ranks]
        assert ranks.num_candidates.tolist() == expected.num_candidates


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic", "stable"])
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("b")])
def test_ties_across_the_panels_of_a_small_memory_fall_the_same_way(name: str, ties: str) -> None:
    ranks = rank_positives_from_scores(*inputs_of(name), ties=ties, max_bytes=4000)
    assert torch.equal(ranks.rank, ranks_of(name, (-1,), ties=ties).rank)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("a")])
def test_without_ties_every_tie_policy_gives_the_same_ranks(name: str) -> None:
    pessimistic = ranks_of(name)
    for ties in ("optimistic", "stable"):
        assert torch.equal(ranks_of(name, ties=ties).rank, pessimistic.rank)


def test_on_eight_distance_levels_the_tie_policy_moves_map_from_a_fifth_to_three_fifths() -> None:
    rounded = {
        ties: round(float(mean_precision(ranks_of("b01_ties8", ties=ties), Peer())), 3)
        for ties in ("pessimistic", "stable", "optimistic")
    }
    assert rounded == {"pessimistic": 0.195, "stable": 0.311, "optimistic": 0.624}


@pytest.mark.parametrize("key", CYTHON_CURVES)
def test_equals_the_cython_curve_as_far_as_every_query_has_candidates(key: str) -> None:
    record = RECORDS[key]
    junk_identities = (-1,) if record.variant == "dropjunk" else ()
    ranks = ranks_of(record.problem, junk_identities)
    shortest = int(ranks.num_candidates[ranks.num_positives > 0].min())
    sound = Record(record.case, record.output, record.value[:shortest], record.about)
    assert_equal(ours(record), sound)
    assert is_rising(ours(record))


@pytest.mark.parametrize("peer", ["torchreid_cy", "fastreid_cy"])
def test_the_curve_stays_right_where_cython_shows_values_of_earlier_queries(peer: str) -> None:
    # First positives at ranks 5, 1, 1, 1 of 7, 7, 8, 8 candidates: at rank 8 two queries, at rank 9 all of them show
    # what the shared buffer held before.
    record = RECORDS[f"a03_4q9g/{peer}/cmc"]
    expected = [0.75] * 4 + [1.0] * 16
    assert ours(record).tolist() == expected == reference_of("a03_4q9g").cmc(MAX_RANK)
    assert record.value.tolist() == [*expected[:7], 0.5, 0.0]


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_order_of_queries_does_not_matter_where_cython_gave_two_curves(order: list[int]) -> None:
    # One query keeps two items and has its positive at rank 2, the other keeps five and has it at rank 5. The Cython
    # curves were [0, .5, 0, 0, 1] and [0, .5, 0, 0, .5].
    scores = torch.tensor([[0.9, 0.8, 0.3, 0.2, 0.1], [0.1, 0.8, 0.3, 0.2, 0.9]])[order]
    query_identities, gallery_identities = torch.tensor([1, 9])[order], torch.tensor([9, 1, 1, 1, 1])
    query_cameras, gallery_cameras = torch.tensor([1, 1]), torch.tensor([2, 2, 1, 1, 1])
    ranks = rank_positives_from_scores(scores, query_identities, gallery_identities, query_cameras, gallery_cameras)
    assert cmc_curve(ranks, max_rank=5).tolist() == [0.0, 0.5, 0.5, 0.5, 1.0]


@pytest.mark.parametrize("key", RAGGED)
def test_the_curve_is_whole_where_a_peer_fails_on_lists_of_unequal_length(key: str) -> None:
    error = ERRORS[key]
    assert "inhomogeneous shape" in error.message
    actual = curve(ranks_of(error.case), Peer())
    assert is_rising(actual)
    assert actual.tolist() == pytest.approx(reference_of(error.case).cmc(MAX_RANK), abs=1e-12)
    assert_equal(actual, RECORDS[f"{error.case}/openreid/cmc_market1501"])


@pytest.mark.parametrize("key", NOTHING_VALID)
def test_the_answer_is_nan_where_a_peer_raises_because_no_query_has_a_positive(key: str) -> None:
    error = ERRORS[key]
    assert error.error in {"RuntimeError", "AssertionError", "ZeroDivisionError"}
    peer = PEERS[error.peer]
    same_camera = "all" if error.options.get("separate_camera_set") else "same_identity"
    ranks = ranks_of(error.case, peer.junk_identities, same_camera)
    assert mean_precision(ranks, peer).isnan()
    assert mean_penalty(ranks, peer).isnan()
    assert curve(ranks, peer).isnan().all()


@pytest.mark.parametrize("key", ZERO_FOR_NOTHING)
def test_the_answer_is_nan_where_layumi_says_zero_because_no_query_has_a_positive(key: str) -> None:
    assert not RECORDS[key].value.any()
    assert ours(RECORDS[key]).isnan().all()


def test_layumi_divides_by_all_queries_and_revisitop_by_those_with_positives() -> None:
    layumi, revisitop = (RECORDS[f"a07_60q500g_lack/{peer}/mAP"] for peer in ("layumi", "revisitop"))
    values = precision(ranks_of("a07_60q500g_lack", (-1,)), PEERS["layumi"])
    assert_equal(mean_over_queries(values, empty_target_action="neg"), layumi)
    assert_equal(mean_over_queries(values, empty_target_action="skip"), revisitop)
    assert (round(float(layumi.value), 4), round(float(revisitop.value), 4)) == (0.0901, 0.1545)
    assert float(layumi.value) * 60 == pytest.approx(float(revisitop.value) * 35)  # 25 of 60 queries lack a positive


@pytest.mark.parametrize("name", ["a06_40q300g_junk_distract", "a07_60q500g_lack", "a08_200q2000g"])
def test_evaluators_without_a_notion_of_junk_count_identity_minus_one_as_negatives(name: str) -> None:
    record = RECORDS[f"{name}/torchreid/mAP"]
    dropped = float(RECORDS[f"{name}__dropjunk/torchreid/mAP"].value)
    assert float(mean_precision(ranks_of(name), Peer())) == pytest.approx(float(record.value), abs=1e-12)
    assert float(mean_precision(ranks_of(name, (-1,)), Peer())) == pytest.approx(dropped, abs=1e-12)
    assert dropped > float(record.value)
