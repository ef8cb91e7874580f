"""The numbers that papers report: what each is for one query, and its convention in words."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from reid_torchmetrics.functional.retrieval.draws import DrawnResults
from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.report_names import REPORTS, parse_report
from reid_torchmetrics.functional.retrieval.evaluation.setup import Setup
from reid_torchmetrics.functional.retrieval.measures import (
    average_precision,
    average_precision_at_r,
    cmc_at,
    first_rank,
    hit_rate_at,
    inverse_negative_penalty,
    normalized_dcg,
    precision_at,
    r_precision,
    recall_at,
    reciprocal_rank,
)
from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks

MEASURES: dict[str, Callable[[PositiveRanks, Protocol, int], Tensor]] = {
    "map": lambda ranks, protocol, _: average_precision(
        ranks, rule=protocol.rule, k=protocol.k, normalizer=protocol.normalizer
    ),
    "map_at_r": lambda ranks, _, __: average_precision_at_r(ranks),
    "minp": lambda ranks, _, __: inverse_negative_penalty(ranks),
    "rank_": lambda ranks, protocol, k: cmc_at(ranks, k, mode=protocol.mode),
    "hit_rate_": lambda ranks, _, k: hit_rate_at(ranks, k),
    "precision_": lambda ranks, protocol, k: precision_at(ranks, k, divisor=protocol.precision_divisor),
    "recall_": lambda ranks, _, k: recall_at(ranks, k),
    "r_precision": lambda ranks, _, __: r_precision(ranks),
    "mrr": lambda ranks, _, __: reciprocal_rank(ranks),
    "ndcg_": lambda ranks, _, k: normalized_dcg(ranks, k=k),
    "mean_rank": lambda ranks, _, __: first_rank(ranks),
}
"""for every key of `REPORTS`, one value per query from ranks, protocol and k"""


def measure(name: str, ranks: PositiveRanks, protocol: Protocol) -> Float[Tensor, " queries"]:
    """One value per query of a reported number."""
    key, k = parse_report(name)
    return MEASURES[key](ranks, protocol, k)


def measure_drawn(name: str, drawn: DrawnResults) -> Float[Tensor, " queries"]:
    """One value per query of a number in `DRAWN_REPORTS`, over drawn galleries."""
    key, k = parse_report(name)
    if key == "rank_":
        return drawn.cmc[:, k - 1]
    return {"map": drawn.average_precision, "minp": drawn.inverse_negative_penalty}[key]


def describe(name: str, protocol: Protocol, setup: Setup) -> str:
    """The convention of a reported number, in words."""
    key, k = parse_report(name)
    is_drawn = protocol.draw is not None and (key == "rank_" or protocol.draws_precision)
    depth = "all ranks" if protocol.k is None else f"the first {protocol.k}, divided by {protocol.normalizer}"
    words = REPORTS[key].format(
        rule=protocol.rule,
        mode="over identities" if is_drawn else protocol.mode,
        precision_divisor=protocol.precision_divisor,
        at=k,
        depth=depth,
    )
    parts = [words, *_draw_in_words(protocol)] if is_drawn else [words]
    parts += _relevance_in_words(protocol.for_cmc if key == "rank_" else protocol, setup)
    return "; ".join([*parts, f"queries without a positive: {protocol.empty_target_action}"])


def _draw_in_words(protocol: Protocol) -> list[str]:
    draw = protocol.draw
    words = [] if draw is None or draw.shots is None else [f"expected over {draw}"]
    return [*words, "queries weighted by their chance not to be drawn"] if protocol.queries_in_draw else words


def _relevance_in_words(protocol: Protocol, setup: Setup) -> list[str]:
    if setup.lists:
        lists = (" and ".join(names) for names in (protocol.positive_lists, protocol.junk_lists))
        return ["positives: {}; junk: {}".format(*lists)]
    words = [f"same camera: {protocol.same_camera}" if setup.cameras else "no cameras"]
    if setup.cameras and protocol.camera_map:
        words.append("cameras taken for others: " + ", ".join(f"{one} for {two}" for one, two in protocol.camera_map))
    if protocol.search_cameras is not None:
        words.append("cameras searched: " + ", ".join(map(str, protocol.search_cameras)))
    return [*words, "junk identities: " + (", ".join(map(str, protocol.junk_identities)) or "none")]
