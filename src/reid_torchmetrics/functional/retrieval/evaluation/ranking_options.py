"""Settings that decide the numbers of an evaluation besides the samples, and their description in words.

RankingOptions      settings of a ranking; metrics with equal options and samples share a ranking
Setup               similarity, tie policy and the kinds of labels, for results and files
describe            the convention of a reported number: its measure, the drawn galleries and the relevance
Reported            values of the reported numbers by name
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from reid_torchmetrics.functional.named_numbers import ByName
from reid_torchmetrics.functional.retrieval.measures import likely_name, parse_report
from reid_torchmetrics.functional.retrieval.relevance import (
    AGREEMENT_RULES,
    LABEL_OPTIONS,
    LABEL_RULES,
    LabelValues,
    in_one_order,
    num_labels_of,
)
from reid_torchmetrics.functional.retrieval.scores import similarity_name

from .protocol import Protocol

_SEVERAL_LABELS = "several_labels"
"""marks in the names of labels that identities are a matrix of labels"""
_RELEVANCE_FIELDS = (*LABEL_OPTIONS, "leave_one_out", "positive_lists", "junk_lists")
_DRAW_FIELDS = ("gallery_draw", "queries_in_draw", "gallery_draw_for_map")
_CALL_HIT_RATE_RECALL = ("cub200", "cars196", "sop", "inshop")
"""protocols of papers that call the hit rate Recall@k"""
_SHORTEST_CURVE = 50  # of an expectation over drawn galleries


def names_of_labels(labels: LabelValues) -> tuple[str, ...]:
    """Return the names of labels, with "several_labels" where identities are a matrix of labels."""
    if num_labels_of(labels):
        return (*labels, _SEVERAL_LABELS)
    return tuple(labels)


@dataclass(frozen=True)
class Setup:
    """Similarity, tie policy, re-ranking and the kinds of labels, JSON-safe."""

    ties: str
    similarity: str
    """its name, the name of a function, or "given scores" """
    rerank: str | None = None
    cameras: bool = False
    """whether cameras were given; without, no camera rule drops anything"""
    lists: bool = False
    """whether relevance came as lists and not as labels"""
    sequences: bool = False
    junk_pairs: bool = False
    multi_query: bool = False
    cut: bool = False
    """whether a list may lack positives, as lists were given or a detector made them"""
    groups: bool = False
    """whether groups of gallery items were ranked"""
    exchanged: bool = False
    """whether gallery items were the queries, and queries the gallery"""
    several_labels: bool = False
    """whether samples had several labels, and a positive shares at least one of them"""

    @classmethod
    def of(cls, ties: str, similarity: Any, rerank: Any, label_names: Collection[str]) -> Setup:
        """Return the setup for a similarity, a re-ranking and the names of the labels that the evaluation was given."""
        return cls(
            ties=ties,
            similarity=similarity_name(similarity),
            rerank=None if rerank is None else repr(rerank),
            cameras="cameras" in label_names,
            sequences="sequences" in label_names,
            groups="groups" in label_names,
            several_labels=_SEVERAL_LABELS in label_names,
        )

    def __str__(self) -> str:
        """Describe the setup in words; options that were not used are left out."""
        words = [f"similarity: {self.similarity}", f"ties: {self.ties}"]
        if self.rerank:
            words.append(f"re-ranked by {self.rerank}")
        if self.multi_query:
            words.append("queries pooled by identity and camera")
        if self.sequences:
            words.append("items of the query's sequence dropped")
        if self.groups:
            words.append("groups ranked by their best member")
        if self.exchanged:
            words.append("queries and gallery exchanged")
        if self.junk_pairs:
            words.append("pairs dropped by `junk_pairs`")
        return "; ".join(words)


@dataclass(frozen=True)
class RankingOptions:
    """Settings of a ranking. Metrics with equal settings and the same samples share a ranking."""

    protocol: Protocol
    """with the fields that decide relevance and draws; all others have their defaults"""
    similarity: Any
    ties: str
    rerank: Any = None
    lists: Any = None
    """the positives and junk of each query, where relevance is by lists; see `LIST_READERS`"""
    max_rank: int = 0
    """length of the CMC over drawn galleries"""
    exchanged: bool = False
    """whether gallery items are the queries, and queries the gallery"""

    @classmethod
    def of(cls, protocol: Protocol, *, is_cmc: bool = False, longest: int = 0, **settings: Any) -> RankingOptions:
        """Return the options of a ranking under a protocol, for the CMC or for other measures.

        Args:
            protocol: with all fields.
            is_cmc: whether the camera rule and the drawn galleries are those of the CMC.
            longest: the largest rank of a CMC, besides the reports of the protocol.
            settings: the fields of the options besides `protocol` and `max_rank`.
        """
        ranking_protocol = _ranking_protocol(protocol, is_cmc=is_cmc)
        max_rank = 0
        if ranking_protocol.gallery_draw is not None:
            # Expectations are computed for a long curve, so that metrics at several ranks share it.
            max_rank = max(longest, _SHORTEST_CURVE)
            for measure, k in map(parse_report, protocol.reports):
                if measure.is_cmc:
                    max_rank = max(max_rank, k)
        return cls(protocol=ranking_protocol, max_rank=max_rank, **settings)

    @property
    def needs_all_samples(self) -> bool:
        """True if a ranking cannot be put together from rankings of parts of the gallery."""
        return self.rerank is not None or self.protocol.gallery_draw is not None

    def setup(self, label_names: Collection[str]) -> Setup:
        """Return the setup for results, given the names of the labels."""
        setup = Setup.of(self.ties, self.similarity, self.rerank, label_names)
        return replace(setup, lists=self.lists is not None, exchanged=self.exchanged)

    def describe(self) -> dict[str, str]:
        """Return texts of all settings, the same on every process."""
        values = {name: getattr(self.protocol, name) for name in (*_RELEVANCE_FIELDS, *_DRAW_FIELDS)}
        for field in fields(self):
            if field.name != "protocol":
                values[field.name] = getattr(self, field.name)
        # The `repr` of a function has its address, which differs between processes.
        values["similarity"] = similarity_name(self.similarity)
        return {name: repr(value) for name, value in values.items()}


@functools.lru_cache(maxsize=64)  # a metric asks at every step, and checking a protocol takes a tenth of a millisecond
def _ranking_protocol(protocol: Protocol, *, is_cmc: bool) -> Protocol:
    """Return a protocol with only the fields that decide a ranking, those of drawn galleries only if it is drawn.

    All other fields keep their defaults, so that protocols that rank alike are equal.
    """
    protocol = protocol.for_cmc if is_cmc else protocol
    names = list(_RELEVANCE_FIELDS)
    if protocol.gallery_draw is not None and (is_cmc or protocol.gallery_draw_for_map):
        names += _DRAW_FIELDS
    fields_of_ranking = {name: getattr(protocol, name) for name in names}
    for name in ("junk_identities", *AGREEMENT_RULES):
        fields_of_ranking[name] = in_one_order(fields_of_ranking[name])
    return Protocol(name="", source="", **fields_of_ranking)


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
