"""Numbers by name where a protocol says what is reported."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

from reid_torchmetrics.functional.named_numbers import ByName
from reid_torchmetrics.functional.retrieval.measures import parse_report

Value = TypeVar("Value")


class Reported(ByName[Value]):
    """The numbers that a protocol reports; of another measure the error says how it is reported."""

    def hint(self, name: object) -> str:
        """The option that adds the measure, or the name that was meant."""
        with suppress(ValueError):
            parse_report(str(name))
            return f": `reports=(..., {name!r})` adds it"
        return super().hint(name)
