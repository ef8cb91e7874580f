"""The convention of a reported number in words: the measure, the galleries that are drawn, and who is relevant."""

from __future__ import annotations

from reid_torchmetrics.functional.retrieval.evaluation.protocol import Protocol
from reid_torchmetrics.functional.retrieval.evaluation.setup import Setup
from reid_torchmetrics.functional.retrieval.measures import parse_report


def describe(name: str, protocol: Protocol, setup: Setup) -> str:
    """The convention of a reported number, in words."""
    measure, k = parse_report(name)
    is_drawn = protocol.draws(measure)
    words = measure.describe(protocol, k, is_drawn=is_drawn)
    parts = [words, *_draw_in_words(protocol)] if is_drawn else [words]
    parts += _relevance_in_words(protocol.for_cmc if measure.is_cmc else protocol, setup)
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
