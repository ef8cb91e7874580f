"""Numbers of retrieval under other conventions: from ranks, or from samples that are ranked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from reid_torchmetrics.diagnosis.causes import NotHeldError, held
from reid_torchmetrics.functional import workers
from reid_torchmetrics.functional.retrieval import measures
from reid_torchmetrics.functional.retrieval.evaluation import (
    PROTOCOL_FIELDS,
    Embeddings,
    EvaluatedProblem,
    Labels,
    Matrix,
    Protocol,
    RankedSamples,
    Ranking,
    RetrievalProblem,
)
from reid_torchmetrics.functional.retrieval.scores import bytes_within
from reid_torchmetrics.functional.world import ALONE, World

from .known import RETRIEVAL_CHANGES
from .rows import CUTOFFS, NO_OPTION, Numbers

_RANKED_AGAIN = ("ties", "similarity", "self_index", "same_camera", "clothes", "junk_identities")
"""the options that need other ranks"""
_AVERAGE = "average"
"""the option "identities": the mean over identities of the mean over the queries of each"""
_MISSING = "missing_queries"
"""the option "skip" of `evaluate_lists`: queries without a list are left out"""
_CMC_CUTOFFS = (1, 5, 10, 20)


class RankedNumbers(Numbers):
    """Numbers from the ranks of positives, and from the samples where there are any."""

    changes = RETRIEVAL_CHANGES

    lacks = "samples that can be ranked again"

    def __init__(self, ranking: Ranking, samples: RankedSamples, world: World) -> None:
        """Take the ranking under the user's options, and what it was computed from."""
        if world.size > 1:  # this process has a part of the samples
            samples = replace(samples, find_problem=None)
            self.lacks = "all samples on one process"
        self.samples = samples
        self.protocol = samples.protocol
        self.reports = tuple(self.protocol.reports)
        self.cutoffs = () if self.protocol.k is None else (self.protocol.k,)
        self.ranking = ranking
        self._rankings: dict[Any, Ranking] = {}
        self._sources: dict[str, Embeddings | Matrix] = {}
        if self.protocol.gallery_draw is None or ranking.drawn is not None:
            self._rankings[()] = ranking

    @cached_property
    def problem(self) -> RetrievalProblem | None:
        """The samples, where this process has all of them and they can be ranked again."""
        samples = self.samples
        if samples.options is None or samples.options.rerank is not None or samples.find_problem is None:
            return None
        return samples.find_problem()

    @property
    def labels(self) -> Labels:
        """Labels of the samples."""
        return held("samples", self.problem).labels

    def check_report(self, name: str) -> None:
        """Raise unless there is a measure with a name."""
        measures.parse_report(name, argument="measure")

    def other_reports(self) -> Iterator[str]:
        """Yield the names of all measures that are shares, at the cutoffs of evaluators."""
        for row in measures.MEASURES.values():
            if not row.is_share:
                continue
            if not row.takes_k:
                yield row.name
            else:
                cutoffs = _CMC_CUTOFFS if row.is_cmc else CUTOFFS
                yield from (f"{row.name}_{k}" for k in cutoffs)

    def differing(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that differ from the user's and have an effect on these samples."""
        return {name: value for name, value in options.items() if self._has_effect(name, value)}

    def _has_effect(self, name: str, value: Any) -> bool:
        is_same = name in PROTOCOL_FIELDS and value == getattr(self.protocol, name)
        if is_same and not (name == "same_camera" and self.protocol.cmc_same_camera):
            return False
        if name in _RANKED_AGAIN and self.problem is None:
            return True  # a number that needs samples raises
        has_effect = _EFFECTS.get(name)
        return has_effect is None or has_effect(self, value)

    @property
    def ties(self) -> str:
        """The user's tie policy."""
        return self.protocol.ties_or(None) if self.samples.options is None else self.samples.options.ties

    @cached_property
    def has_ties(self) -> bool:
        """Whether the order of equal scores decides some rank."""
        ranks = [self._rank({"ties": ties}).ranks.rank for ties in ("pessimistic", "optimistic")]
        return not torch.equal(*ranks)

    def value(self, report: Any, options: Mapping[str, Any]) -> float:
        """Return the mean of a number under other options."""
        if isinstance(report, measures.Measure):
            report = measures.OwnName(report)
        row, k = measures.parse_report(report)
        protocol = self._protocol(options)
        ranking_options = {name: value for name, value in options.items() if name in _RANKED_AGAIN}
        if row.is_cmc and protocol.cmc_same_camera is not None:
            ranking_options["same_camera"] = protocol.cmc_same_camera
        ranking = self._rank(ranking_options)
        weight = None
        if protocol.draws(row):
            drawn = held("drawn galleries", ranking.drawn)
            if row.is_cmc and k > drawn.cmc.shape[1]:
                raise NotHeldError("longer curves of drawn galleries")
            values = measures.measure_drawn(report, drawn)
            weight = drawn.weight if protocol.queries_in_draw else None
        else:
            values = measures.measure(report, ranking.ranks, protocol)
        if _MISSING in options:
            values = values[ranking.ranks.num_candidates > 0]
        action = ranking.counts.counting(protocol.empty_target_action)
        if _AVERAGE in options:
            identities: Tensor = held("identities", ranking.query_identities)
            return float(measures.mean_over_identities(values, identities, empty_target_action=action))
        return float(row.average(values, empty_target_action=action, weight=weight))

    def _protocol(self, options: Mapping[str, Any]) -> Protocol:
        return self.protocol.with_options({name: options[name] for name in options if name in PROTOCOL_FIELDS})

    def _rank(self, options: Mapping[str, Any]) -> Ranking:
        """Rank under other options, once for each."""
        options = {name: value for name, value in options.items() if (name, value) != ("ties", self.ties)}
        key = tuple(sorted(options.items()))
        if key not in self._rankings:
            self._rankings[key] = self._rank_again(options)
        return self._rankings[key]

    def _rank_again(self, options: Mapping[str, Any]) -> Ranking:
        problem = held(self.lacks, self.problem)
        source, labels = self._source(problem.source, options), problem.labels
        if "self_index" in options:
            own_positions = torch.arange(source.shape[0], device=source.device)
            labels = replace(labels, self_index=None if options["self_index"] is None else own_positions)
        problem = replace(problem, source=source, labels=labels)
        protocol = replace(self._protocol(options), cmc_same_camera=None)
        _, ranking = EvaluatedProblem(problem, protocol, options.get("ties", self.ties), max(_CMC_CUTOFFS)).rank()
        return ranking

    def _source(self, source: Embeddings | Matrix, options: Mapping[str, Any]) -> Embeddings | Matrix:
        """Return all scores by a similarity, computed once if they fit; otherwise the embeddings."""
        similarity = options.get("similarity", source.similarity)
        if isinstance(source, Matrix) or callable(similarity):
            return source
        if similarity not in self._sources:
            source = replace(source, similarity=similarity)
            scores = source.scores_of(None, ALONE)
            num_bytes = scores.num_queries * scores.num_gallery * scores.dtype.itemsize
            if num_bytes <= bytes_within(source.max_bytes, source.device):
                source = Matrix(workers.run(scores.all, source.device), source.max_bytes)
            self._sources[similarity] = source
        return self._sources[similarity]

    def is_share(self, report: Any) -> bool:
        """Return whether a number is a share of 1."""
        row = report if isinstance(report, measures.Measure) else measures.parse_report(report)[0]
        return bool(row.is_share)

    def title(self, report: Any) -> str:
        """Return the title of a number."""
        return report.name if isinstance(report, measures.Measure) else measures.title_of(report)

    def call(self, report: Any, options: Mapping[str, Any]) -> str:
        """Return the line that computes a number here."""
        if isinstance(report, measures.Measure):
            return f"{NO_OPTION}: {report.words}"
        if "self_index" in options and not self._takes_self_index:
            return NO_OPTION
        arguments = [f"{name}={value!r}" for name, value in options.items() if name not in (_AVERAGE, "self_index")]
        if "self_index" in options:
            arguments.append(f"self_index={options['self_index']}")
        if report not in self.reports:
            arguments.append(f"reports=({report!r},)")
        means = ".mean_over_identities()" if _AVERAGE in options else ""
        return f"{self._results(arguments)}{means}[{report!r}]"

    @property
    def _takes_self_index(self) -> bool:
        """Whether the user's function has the argument, and a gallery beside the queries."""
        labels = self.labels
        is_one_side = all(labels.gallery.get(name) is values for name, values in labels.query.items())
        return not self.samples.has_updates and not is_one_side

    def _results(self, arguments: Sequence[str]) -> str:
        """Return the call of the user's function with further arguments; `...` stands for the user's own."""
        samples = self.samples
        texts = ", ".join(["...", *arguments])
        if samples.has_updates:
            return f"ReIDMetrics({texts}).results()"
        if samples.sampled is not None:
            changed = ", ".join(["protocol", *arguments])
            return f"evaluate_stream(..., protocol=replace({changed}))"
        if samples.boxes:
            return f"person_search({texts})"
        if samples.matrix is not None:
            return f"evaluate_scores({texts})"
        are_lists = samples.find_problem is None and samples.has_lists
        return f"evaluate_lists({texts})" if are_lists else f"evaluate({texts})"


def _has_junk(numbers: RankedNumbers, _: Any) -> bool:
    sides = (numbers.labels.query, numbers.labels.gallery)
    return any(bool((side["identities"] == -1).any()) for side in sides if "identities" in side)


def _is_other_self_index(numbers: RankedNumbers, value: Any) -> bool:
    labels = numbers.labels
    is_own = labels.self_index is not None
    if is_own or value is None:
        return is_own and value is None
    # Queries and gallery must have the same labels, in one order.
    num_queries, num_gallery = held("samples", numbers.problem).source.shape
    are_equal = [torch.equal(values, labels.gallery[name]) for name, values in labels.query.items()]
    return num_queries == num_gallery and bool(are_equal) and all(are_equal)


def _is_other_similarity(numbers: RankedNumbers, value: Any) -> bool:
    source = held("samples", numbers.problem).source
    return isinstance(source, Embeddings) and value != source.similarity


_EFFECTS: dict[str, Callable[[RankedNumbers, Any], bool]] = {
    _AVERAGE: lambda numbers, _: numbers.ranking.query_identities is not None,
    _MISSING: lambda numbers, _: (
        numbers.samples.find_problem is None and bool((numbers.ranking.ranks.num_candidates == 0).any())
    ),
    "empty_target_action": lambda numbers, _: numbers.ranking.counts.valid < numbers.ranking.counts.total,
    "ties": lambda numbers, value: value != numbers.ties and numbers.has_ties,
    "similarity": _is_other_similarity,
    "self_index": _is_other_self_index,
    "same_camera": lambda numbers, _: "cameras" in numbers.labels.query,
    "clothes": lambda numbers, _: "clothes" in numbers.labels.query,
    "junk_identities": _has_junk,
}
"""whether another value of an option has an effect on the samples"""
