"""The package against recorded outputs of other evaluators, see `tests/golden/README.md`."""

from functools import cache
from itertools import chain

import pytest
import torch

from reid_torchmetrics.functional.retrieval import cmc_curve, mean_over_queries, rank_positives_from_scores
from tests.golden.cases import ERRORS, PROBLEMS, RECORDINGS, RECORDS
from tests.golden.peers import (
    MAX_RANK,
    PEERS,
    QUANTITIES,
    Peer,
    assert_equal,
    assert_equal_where_sound,
    curve,
    inputs_of,
    is_cython_curve,
    is_rising,
    mean_penalty,
    mean_precision,
    ours,
    precision,
    quantity_name,
    ranks_of,
)
from tests.reference.retrieval import Evaluation, evaluate
from tests.strategies import TIES

# Every recorded array of the theme is in exactly one of these three groups; a test below counts them.
CYTHON_CURVES = [key for key in RECORDS if is_cython_curve(key)]
ZERO_FOR_NOTHING = ["a11_6q40g_allsamecam/layumi/mAP", "a11_6q40g_allsamecam/layumi/cmc"]


PLAIN = [
    key
    for key, record in RECORDS.items()
    if quantity_name(record) in QUANTITIES and key not in {*CYTHON_CURVES, *ZERO_FOR_NOTHING}
]
RAGGED = [key for key, error in ERRORS.items() if error.error == "ValueError"]
NOTHING_VALID = [key for key, error in ERRORS.items() if error.case == "a11_6q40g_allsamecam"]


@cache
def reference_of(
    name: str, junk_identities: tuple[int, ...] = (), same_camera: str = "same_identity", ties: str = "pessimistic"
) -> Evaluation:
    return evaluate(*inputs_of(PROBLEMS[name]), same_camera=same_camera, junk_identities=junk_identities, ties=ties)


def test_every_recorded_array_is_asserted_once() -> None:
    assert sorted([*PLAIN, *CYTHON_CURVES, *ZERO_FOR_NOTHING]) == sorted(RECORDS)
    assert (len(PLAIN), len(CYTHON_CURVES), len(ZERO_FOR_NOTHING)) == (666, 46, 2)
    assert sorted([*RAGGED, *NOTHING_VALID]) == sorted(ERRORS)
    assert (len(RAGGED), len(NOTHING_VALID)) == (8, 14)


def test_no_recorded_array_is_missing() -> None:
    records = [key for recording in RECORDINGS.values() for key in recording.records]
    assert len(records) == len(set(records)) == 1663
    assert sum(len(recording.errors) for recording in RECORDINGS.values()) == 23


@pytest.mark.parametrize("peer", PEERS)
def test_equals_the_recorded_outputs(peer: str) -> None:
    for record in (RECORDS[key] for key in PLAIN if RECORDS[key].output.startswith(f"{peer}/")):
        assert_equal(ours(record), record)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_ranks_are_those_of_the_slow_reference(name: str, ties: str) -> None:
    for junk_identities, same_camera in [((), "same_identity"), ((-1,), "all"), ((-1,), "keep")]:
        ranks = ranks_of(name, junk_identities, same_camera, ties)
        expected = reference_of(name, junk_identities, same_camera, ties)
        assert ranks.rank.tolist() == list(chain.from_iterable(expected.ranks))
        assert ranks.num_positives.tolist() == [len(of_query) for of_query in expected.ranks]
        assert ranks.num_candidates.tolist() == expected.num_candidates


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("b")])
def test_ties_across_the_panels_of_a_small_memory_fall_the_same_way(name: str, ties: str) -> None:
    ranks = rank_positives_from_scores(*inputs_of(PROBLEMS[name]), ties=ties, max_bytes=4000)
    assert torch.equal(ranks.rank, ranks_of(name, (-1,), ties=ties).rank)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name.startswith("a")])
def test_without_ties_every_tie_policy_gives_the_same_ranks(name: str) -> None:
    pessimistic = ranks_of(name)
    for ties in ("optimistic", "stable"):
        assert torch.equal(ranks_of(name, ties=ties).rank, pessimistic.rank)


def test_the_tie_policy_moves_map_from_a_fifth_to_three_fifths_on_eight_distance_levels() -> None:
    rounded = {
        ties: round(float(mean_precision(ranks_of("b01_ties8", ties=ties), Peer())), 3)
        for ties in ("pessimistic", "stable", "optimistic")
    }
    assert rounded == {"pessimistic": 0.195, "stable": 0.311, "optimistic": 0.624}


@pytest.mark.parametrize("key", CYTHON_CURVES)
def test_equals_the_cython_curve_as_far_as_every_query_has_candidates(key: str) -> None:
    assert_equal_where_sound(RECORDS[key])


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
def test_the_answer_is_zero_where_layumi_says_so_because_no_query_has_a_positive(key: str) -> None:
    assert not RECORDS[key].value.any()
    assert not ours(RECORDS[key]).any()


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
