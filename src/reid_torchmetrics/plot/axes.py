"""New axes, in a figure that pyplot does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def new_axes() -> Axes:
    """Axes of a figure of the size that loggers show well, which need not be closed."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - a large import that evaluation does not need

    ax: Axes = Figure(figsize=(6.4, 4.2), layout="constrained").subplots()
    return ax
