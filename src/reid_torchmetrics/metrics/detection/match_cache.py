"""One matching for all metrics that hold the same images, and what was computed of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

from reid_torchmetrics.functional.detection.evaluators import ClassAverages, average_matches
from reid_torchmetrics.metrics.base import ResultCache

from .images import ImageNumbering
from .local_matches import LocalMatches, MatchRequest

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Matched:
    """The matches of the images of all processes; nobody writes to them."""

    request: MatchRequest
    found: LocalMatches
    numbering: ImageNumbering | None = None
    """where it is asked for: that of all but plain requests"""
    _known: dict[Hashable, Any] = field(default_factory=dict)

    def averages(self, rule: str, number: int = 0) -> ClassAverages:
        """Of the matches of a number."""
        return self.once(_averages, rule, number)

    def once(
        self,
        compute: Callable[Concatenate[Matched, Arguments], Result],
        *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """What a function that reads nothing but its arguments gives of these matches; it is computed once."""
        name = (compute, args, *sorted(options.items()))
        if name not in self._known:
            self._known[name] = compute(self, *args, **options)
        known: Result = self._known[name]
        return known


def _averages(matched: Matched, rule: str, number: int) -> ClassAverages:
    return average_matches(matched.found.matches[number], matched.request.grid, rule=rule)


matchings: ResultCache[Matched] = ResultCache("detection_counts")
