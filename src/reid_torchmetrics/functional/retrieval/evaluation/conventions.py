"""The conventions of an evaluation, in words.

describe            the convention of a reported number: its measure, the drawn galleries and the relevance
Reported            values of the reported numbers by name
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from reid_torchmetrics.functional.named_numbers import ByName
from reid_torchmetrics.functional.retrieval.measures import likely_name, parse_report
from reid_torchmetrics.functional.retrieval.relevance import LABEL_RULES

from .protocol import Protocol, Setup

_CALL_HIT_RATE_RECALL = ("cub200", "cars196", "sop", "inshop")
"""protocols of papers that call the hit rate Recall@k"""


def describe(name: str, protocol: Protocol, setup: Setup) -> str:
    """Return the convention of a reported number, in words."""
    measure, k = parse_report(name)
    is_drawn = protocol.draws(measure)
    parts = [measure.describe(protocol, k, is_drawn=is_drawn)]
    benchmark = protocol.name.partition(" with ")[0]
    if measure.name == "recall" and benchmark in _CALL_HIT_RATE_RECALL:
        parts.append(f"the papers' Recall@{k} is hit_rate_{k}")
    if is_drawn and protocol.gallery_draw is not None and protocol.gallery_draw.shots is not None:
        parts.append(f"expected over {protocol.gallery_draw}")
    if is_drawn and protocol.queries_in_draw:
        parts.append("queries weighted by their chance not to be drawn")
    parts += _describe_relevance(protocol.for_cmc if measure.is_cmc else protocol, setup)
    action = protocol.empty_target_action if measure.is_mean else "skip"
    parts.append(f"queries without a positive: {action}")
    return "; ".join(parts)


def _describe_relevance(protocol: Protocol, setup: Setup) -> list[str]:
    """Return phrases for the rules that decide relevance."""
    if setup.lists:
        positives = " and ".join(protocol.positive_lists)
        junk = " and ".join(protocol.junk_lists)
        return [f"positives: {positives}; junk: {junk}"]
    words = []
    if protocol.radius is not None:
        words.append(f"positives within {protocol.radius:g} of the query's position")
    words += _describe_cameras(protocol, setup)
    for name, meanings in LABEL_RULES.items():
        rule = getattr(protocol, name)
        if rule != "keep":
            words.append(f"{name}: {meanings[rule]}")
    if protocol.must_agree:
        words.append(f"items that differ in {' or '.join(protocol.must_agree)} dropped")
    if protocol.must_differ:
        words.append(f"items of the same {' or '.join(protocol.must_differ)} dropped")
    if setup.several_labels:
        words.append("positives share a label")
        return words
    if protocol.missing_identities == "junk":
        words.append("samples without an identity are junk")
    junk_identities = ", ".join(map(str, protocol.junk_identities)) or "none"
    words.append(f"junk identities: {junk_identities}")
    return words


def _describe_cameras(protocol: Protocol, setup: Setup) -> list[str]:
    """Return phrases for the camera rules; without cameras none applies."""
    words = [f"same camera: {protocol.same_camera}" if setup.cameras else "no cameras"]
    if setup.cameras and protocol.camera_map:
        pairs = ", ".join(f"{camera} for {other}" for camera, other in protocol.camera_map)
        words.append(f"cameras taken for others: {pairs}")
    if protocol.search_cameras is not None:
        cameras = ", ".join(map(str, protocol.search_cameras))
        words.append(f"cameras searched: {cameras}")
    return words


class Reported(ByName[Any]):
    """Values of the numbers that a protocol reports; for another measure the error says how to report it."""

    def hint(self, name: object) -> str:
        """Return the option that adds the measure, or the name that was probably meant."""
        with suppress(ValueError):
            parse_report(str(name))
            return f": `reports=(..., {name!r})` adds it"
        reported = super().hint(name)
        other = "" if reported else likely_name(name)
        return f"{other}, to be named in `reports`" if other else reported


def key_of(name: str, names: Iterable[str]) -> str:
    """Return the key that equals a name: the key of a user's measure holds its row, unlike the name."""
    keys = list(names)
    return keys[keys.index(name)]
