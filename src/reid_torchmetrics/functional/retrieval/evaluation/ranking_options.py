"""What decides the numbers of an evaluation besides the samples, and the words for it.

RankingOptions      what a ranking is made under; metrics with equal options and samples share it
Setup               how scores were made, and what relevance was told from
describe            the convention of a reported number: the measure, the galleries that are drawn, who is relevant
Reported            what belongs to each reported number, by its name
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from reid_torchmetrics.functional.named_numbers import ByName
from reid_torchmetrics.functional.retrieval.measures import parse_report
from reid_torchmetrics.functional.retrieval.relevance import AGREEMENT_RULES, LABEL_OPTIONS, LABEL_RULES, in_one_order

from .ground_truth import ListedTruth
from .protocol import Protocol

SEVERAL_LABELS = "several_labels"
"""stands among the names of labels for identities that are a matrix of labels"""
_OF_RELEVANCE = (*LABEL_OPTIONS, "leave_one_out", "positive_lists", "junk_lists")
_OF_DRAWS = ("draw", "queries_in_draw", "draws_precision")
_CALL_HIT_RATE_RECALL = ("cub200", "cars196", "sop", "inshop")
"""protocols of papers that call the hit rate Recall@k"""
_SHORTEST_CURVE = 50  # of an expectation over drawn galleries


@dataclass(frozen=True)
class Setup:
    """How scores were made and what relevance was told from, JSON-safe."""

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
    def of(cls, ties: str, similarity: Any, rerank: Any, labels: Collection[str], **others: bool) -> Setup:
        """Say what was chosen, given the names of labels."""
        given = {name: name in labels for name in ("cameras", "sequences", "groups", SEVERAL_LABELS)}
        return cls(ties, similarity_name(similarity), None if rerank is None else repr(rerank), **given, **others)

    def __str__(self) -> str:
        """In words; what was not used is left out."""
        words = [f"similarity: {self.similarity}", f"ties: {self.ties}"]
        words += [f"re-ranked by {self.rerank}"] if self.rerank else []
        words += ["queries pooled by identity and camera"] if self.multi_query else []
        words += ["items of the query's sequence dropped"] if self.sequences else []
        words += ["groups ranked by their best member"] if self.groups else []
        words += ["queries and gallery exchanged"] if self.exchanged else []
        return "; ".join([*words, "pairs dropped by `junk_pairs`"] if self.junk_pairs else words)


def similarity_name(similarity: Any) -> str:
    """A similarity's name or, of a function, where it was defined: its address differs between processes."""
    if isinstance(similarity, str):
        return similarity
    named = similarity if hasattr(similarity, "__qualname__") else type(similarity)
    return f"{named.__module__}.{named.__qualname__}"


@dataclass(frozen=True)
class RankingOptions:
    """Metrics that hold the same samples and agree in these share a ranking."""

    protocol: Protocol
    """with the fields that decide relevance and draws; all others have their defaults"""
    similarity: Any
    ties: str
    rerank: Any = None
    lists: ListedTruth | None = None
    """the positives and junk of each query, where relevance is by lists"""
    max_rank: int = 0
    """length of the CMC over drawn galleries"""
    exchanged: bool = False
    """whether gallery items are the queries, and queries the gallery"""
    counts_ties: bool = False
    """whether ties are counted for advice, as neither the caller nor the protocol chose `ties`; ranks do not change"""

    @classmethod
    def of(cls, protocol: Protocol, *, for_cmc: bool, longest: int, **chosen: Any) -> RankingOptions:
        """Take what `protocol` says of relevance and of drawn galleries, for the CMC or for other measures."""
        # Expectations are made for a long curve; metrics at several ranks share it.
        decisive = _decisive(protocol, for_cmc=for_cmc)
        ranks = (k for measure, k in map(parse_report, protocol.reports) if measure.is_cmc)
        max_rank = 0 if decisive.draw is None else max(longest, *ranks, _SHORTEST_CURVE)
        return cls(decisive, max_rank=max_rank, **chosen)

    @property
    def needs_all_samples(self) -> bool:
        """Whether a ranking cannot be put together from rankings of parts of the gallery."""
        return self.rerank is not None or self.protocol.draw is not None

    def setup(self, labels: Collection[str]) -> Setup:
        """What decides the numbers besides the protocol, given the names of labels."""
        others = {"lists": self.lists is not None, "exchanged": self.exchanged}
        return Setup.of(self.ties, self.similarity, self.rerank, labels, **others)

    def describe(self) -> dict[str, str]:
        """Texts that are the same in every process."""
        # A `repr` is the same in every process, but for that of a function.
        values = {name: getattr(self.protocol, name) for name in (*_OF_RELEVANCE, *_OF_DRAWS)}
        values |= {field.name: getattr(self, field.name) for field in fields(self) if field.name != "protocol"}
        values["similarity"] = similarity_name(self.similarity)
        return {name: repr(value) for name, value in values.items()}


@functools.lru_cache(maxsize=64)  # a metric asks at every step, and checking a protocol takes a tenth of a millisecond
def _decisive(protocol: Protocol, *, for_cmc: bool) -> Protocol:
    """What of a protocol decides a ranking, for the CMC or for other measures."""
    # All other fields keep their defaults, so that protocols that rank alike are equal.
    protocol = protocol.for_cmc if for_cmc else protocol
    draws = protocol.draw is not None and (for_cmc or protocol.draws_precision)
    decisive = {name: getattr(protocol, name) for name in (*_OF_RELEVANCE, *(_OF_DRAWS if draws else ()))}
    for name in ("junk_identities", *AGREEMENT_RULES):
        decisive[name] = in_one_order(decisive[name])
    return Protocol(name="", source="", **decisive)


def describe(name: str, protocol: Protocol, setup: Setup) -> str:
    """The convention of a reported number, in words."""
    # What is measured, in which galleries, who is relevant, and what a query without positives counts.
    measure, k = parse_report(name)
    is_drawn = protocol.draws(measure)
    parts = [measure.describe(protocol, k, is_drawn=is_drawn)]
    if measure.name == "recall" and protocol.name.partition(" with ")[0] in _CALL_HIT_RATE_RECALL:
        parts.append(f"the papers' Recall@{k} is hit_rate_{k}")
    if is_drawn and protocol.draw is not None and protocol.draw.shots is not None:
        parts.append(f"expected over {protocol.draw}")
    parts += ["queries weighted by their chance not to be drawn"] if is_drawn and protocol.queries_in_draw else []
    parts += _relevance_in_words(protocol.for_cmc if measure.is_cmc else protocol, setup)
    action = protocol.empty_target_action if measure.is_mean else "skip"
    return "; ".join([*parts, f"queries without a positive: {action}"])


def _relevance_in_words(protocol: Protocol, setup: Setup) -> list[str]:
    if setup.lists:
        lists = (" and ".join(names) for names in (protocol.positive_lists, protocol.junk_lists))
        return ["positives: {}; junk: {}".format(*lists)]
    # Without cameras no rule about them applies.
    words = [] if protocol.radius is None else [f"positives within {protocol.radius:g} of the query's position"]
    words += [f"same camera: {protocol.same_camera}" if setup.cameras else "no cameras"]
    if setup.cameras and protocol.camera_map:
        words.append("cameras taken for others: " + ", ".join(f"{one} for {two}" for one, two in protocol.camera_map))
    if protocol.search_cameras is not None:
        words.append("cameras searched: " + ", ".join(map(str, protocol.search_cameras)))
    rules = ((name, getattr(protocol, name)) for name in LABEL_RULES)
    words += [f"{name}: {LABEL_RULES[name][rule]}" for name, rule in rules if rule != "keep"]
    if protocol.must_agree:
        words.append(f"items that differ in {' or '.join(protocol.must_agree)} dropped")
    if protocol.must_differ:
        words.append(f"items of the same {' or '.join(protocol.must_differ)} dropped")
    if setup.several_labels:
        return [*words, "positives share a label"]
    words += ["samples without an identity are junk"] if protocol.missing == "junk" else []
    return [*words, "junk identities: " + (", ".join(map(str, protocol.junk_identities)) or "none")]


class Reported(ByName[Any]):
    """The numbers that a protocol reports; of another measure the error says how it is reported."""

    def hint(self, name: object) -> str:
        """The option that adds the measure, or the name that was meant."""
        with suppress(ValueError):
            parse_report(str(name))
            return f": `reports=(..., {name!r})` adds it"
        return super().hint(name)
