"""The class of our figures; it imports Matplotlib, so that this module is imported when something is drawn."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from reid_torchmetrics._warnings import warn

from .glyphs import one_warning_of_glyphs


class WarningFigure(Figure):
    """A figure that warns once of the characters that its font cannot draw, and names them."""

    _last_warning = ""

    def draw(self, renderer: Any) -> None:
        """Draw the figure, as Matplotlib does when it is saved or shown."""
        with one_warning_of_glyphs(self._warn_once):
            super().draw(renderer)

    def _warn_once(self, text: str) -> None:
        # A figure may be drawn several times for one file, and is drawn again for the next.
        if text != self._last_warning:
            self._last_warning = text
            warn(text)
