"""The evaluators' conventions in the words of the package, and our answer to what they were asked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

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
from reid_torchmetrics.functional.retrieval.measures.cutoffs import precision_at
from tests.golden.cases import PROBLEMS, Problem, Record

MAX_RANK = 20  # what every recorded curve of Market-1501's form was asked for
CUTOFFS = (1, 5, 10)  # what revisitop was asked for
TIE_ORDERS = {
    "optimistic_pos_first": "optimistic",
    "pessimistic_neg_first": "pessimistic",
    "stable_index_order": "stable",
    "reverse_index_order": "stable",  # in the gallery read backwards
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


def all_shots_curve(ranks: PositiveRanks, peer: Peer) -> Tensor:
    return cmc_curve(ranks, max_rank=MAX_RANK, mode="all_shots", empty_target_action=peer.empty_target_action)


def mean_precision(ranks: PositiveRanks, peer: Peer) -> Tensor:
    return mean_over_queries(precision(ranks, peer), empty_target_action=peer.empty_target_action)


def precision(ranks: PositiveRanks, peer: Peer) -> Tensor:
    return average_precision(ranks, rule=peer.ap_rule)


def mean_penalty(ranks: PositiveRanks, _: Peer) -> Tensor:
    return mean_over_queries(inverse_negative_penalty(ranks))


def precision_at_cutoffs(ranks: PositiveRanks, _: Peer) -> Tensor:
    return torch.stack([precision_at(ranks, k, divisor="last_positive") for k in CUTOFFS], dim=1)


def mean_precision_at_cutoffs(ranks: PositiveRanks, peer: Peer) -> Tensor:
    return torch.stack([mean_over_queries(values) for values in precision_at_cutoffs(ranks, peer).unbind(1)])


def first_place_from_zero(ranks: PositiveRanks, _: Peer) -> Tensor:
    return (first_rank(ranks) - 1).nan_to_num(nan=-1)


def without_nan(values: Tensor) -> Tensor:
    return values[~values.isnan()]


QUANTITIES: dict[str, Callable[[PositiveRanks, Peer], Tensor]] = {
    "cmc": curve,
    "cmc_market1501": curve,
    "cmc_separate_cams_market": curve,
    "cmc_allshots": all_shots_curve,
    "cmc_separate_cams_allshots": all_shots_curve,
    "mAP": mean_precision,
    "mINP": mean_penalty,
    "AP_per_query": precision,
    "AP_per_query_nan_if_no_positive": precision,
    "AP_valid_queries": lambda ranks, peer: without_nan(precision(ranks, peer)),
    "INP_valid_queries": lambda ranks, _: without_nan(inverse_negative_penalty(ranks)),
    "first_hit_rank0": first_place_from_zero,
    "mP_at_k": mean_precision_at_cutoffs,
    "P_at_k_per_query": precision_at_cutoffs,
}


def quantity_name(record: Record) -> str:
    return record.output.partition("/")[2].removesuffix("_safe")


@cache
def ranks_of(
    name: str,
    junk_identities: tuple[int, ...] = (),
    same_camera: str = "same_identity",
    ties: str = "pessimistic",
    *,
    backwards: bool = False,
) -> PositiveRanks:
    """Rank a problem of `PROBLEMS`; `backwards` reads its gallery from the last item to the first."""
    inputs = inputs_of(PROBLEMS[name])
    if backwards:
        # The last axis of scores, gallery identities and gallery cameras is the gallery.
        inputs = [values.flip(-1) if place in (0, 2, 4) else values for place, values in enumerate(inputs)]
    return rank_positives_from_scores(*inputs, same_camera=same_camera, junk_identities=junk_identities, ties=ties)


def inputs_of(problem: Problem) -> list[Tensor]:
    labels = [problem.query_identities, problem.gallery_identities, problem.query_cameras, problem.gallery_cameras]
    return [-torch.from_numpy(problem.distances), *map(torch.from_numpy, labels)]


def ours(record: Record, *, ties: str | None = None) -> Tensor:
    """Our value for a record; the tie policy is that of its variant unless `ties` says otherwise."""
    peer = PEERS[record.output.partition("/")[0]]
    ranks = ranks_of(
        record.problem,
        (-1,) if record.variant == "dropjunk" else peer.junk_identities,
        "all" if "separate_cams" in record.output else "same_identity",
        ties or TIE_ORDERS.get(record.variant, "pessimistic"),
        backwards=record.variant == "reverse_index_order",
    )
    return QUANTITIES[quantity_name(record)](ranks, peer)


def assert_equal(actual: Tensor, record: Record) -> None:
    """Compare with a record; a recorded curve may be shorter than ours, never longer."""
    expected = torch.from_numpy(record.value).to(torch.float64)
    actual = actual[: len(expected)] if "cmc" in record.output else actual
    torch.testing.assert_close(
        *(actual.to(torch.float64), expected),
        rtol=0,
        atol=record.tolerance,
        equal_nan=True,
        msg=lambda said: f"{record.case}/{record.output}: {said}",
    )


def is_cython_curve(key: str) -> bool:
    """Whether a record is a curve that is only sound as far as every query has candidates."""
    return key.endswith("_cy/cmc")


def assert_equal_where_sound(record: Record) -> None:
    """Compare a Cython curve up to the fewest candidates of a query; beyond them it shows earlier queries' values."""
    actual = ours(record)
    junk_identities = (-1,) if record.variant == "dropjunk" else ()
    ranks = ranks_of(record.problem, junk_identities)
    shortest = int(ranks.num_candidates[ranks.num_positives > 0].min())
    assert_equal(actual, Record(record.case, record.output, record.value[:shortest], record.about))
    assert is_rising(actual)


def is_rising(values: Tensor) -> bool:
    return bool((values.diff() >= 0).all())
