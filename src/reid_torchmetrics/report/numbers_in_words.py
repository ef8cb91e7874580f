"""Numbers as the page shows them."""

from __future__ import annotations

import math

from reid_torchmetrics.functional.retrieval.measures import parse_report

UNDEFINED = "undefined"


def percent(value: float) -> str:
    """A share in percent, without the sign."""
    return UNDEFINED if math.isnan(value) else f"{100 * value:.2f}"


def of_measure(name: str, value: float) -> str:
    """The value of a reported number: a rank, or a share in percent, without the sign."""
    return rank(value) if parse_report(name)[0].is_rank else percent(value)


def rank(value: float) -> str:
    """A rank, or a mean or median of ranks and other counts."""
    return UNDEFINED if math.isnan(value) else f"{value:,.2f}".removesuffix(".00")


def heading(name: str) -> str:
    """A reported number and its unit."""
    return name if parse_report(name)[0].is_rank else f"{name} (%)"


def thousands(number: int) -> str:
    """A count."""
    return f"{number:,}"
