"""Characters that a font cannot draw: one warning that names them, in place of one by Matplotlib for each glyph."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from reid_torchmetrics._warnings import warn

_Missing: TypeAlias = "dict[str, set[str]]"
"""characters by the name of the font that lacks them"""

# Matplotlib before 3.9 does not name the font.
_MATPLOTLIB_WARNING = re.compile(
    r"Glyph (?P<code>\d+) .*missing from (?:current font|font\(s\) (?P<fonts>.+?))\.?", re.DOTALL
)
_MOST_NAMED = 10  # characters in a warning

_collected: ContextVar[_Missing | None] = ContextVar("_collected", default=None)


@contextmanager
def one_warning_of_glyphs(warn_user: Callable[[str], None] = warn) -> Iterator[None]:
    """Collect the characters that fonts lack while pictures are drawn, and warn of all of them at the end.

    Inside another such context only the outer one warns. It may be used as a decorator.
    """
    if _collected.get() is not None:
        yield
        return
    missing: _Missing = {}
    token = _collected.set(missing)
    try:
        with _listening_to_matplotlib(missing):
            yield
    finally:
        _collected.reset(token)
    if missing:
        warn_user(_warning_text(missing))


def note_missing_glyphs(font: str, characters: Iterable[str]) -> None:
    """Collect characters that a font lacks; outside of `one_warning_of_glyphs` warn of them."""
    missing = _collected.get()
    if missing is not None:
        missing.setdefault(font, set()).update(characters)
        return
    warn(_warning_text({font: set(characters)}))


@contextmanager
def _listening_to_matplotlib(missing: _Missing) -> Iterator[None]:
    """Collect Matplotlib's warnings of glyphs; all other warnings are shown."""
    with warnings.catch_warnings():
        show_warning = warnings.showwarning

        def collect(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
            match = _MATPLOTLIB_WARNING.fullmatch(str(message))
            if match is None:
                show_warning(message, category, *place, **options)
                return
            font = match["fonts"] or _default_font()
            missing.setdefault(font, set()).add(chr(int(match["code"])))

        warnings.showwarning = collect
        warnings.filterwarnings("always", message=r"Glyph \d+ .*missing from")
        yield


def _default_font() -> str:
    """Return the name of the font for Matplotlib's texts."""
    from matplotlib import font_manager  # noqa: PLC0415 - whoever drew a figure has imported it

    path = font_manager.findfont(font_manager.FontProperties())
    return font_manager.get_font(path).family_name


def _warning_text(missing: Mapping[str, set[str]]) -> str:
    """Return the warning about missing characters of fonts, with the next step."""
    fonts = ", ".join(sorted(missing))
    characters = sorted(set().union(*missing.values()))
    character_text = ", ".join(map(repr, characters[:_MOST_NAMED]))
    if len(characters) > _MOST_NAMED:
        character_text += f" and {len(characters) - _MOST_NAMED} other characters"
    return (
        f"The font {fonts} has no glyphs for {character_text}. Images show an empty box for each; the curves of a"
        " report hold them as text, which browsers draw with their own fonts. For figures, name a font that has the"
        ' glyphs in `matplotlib.rcParams["font.family"]` or in a matplotlibrc file, such as'
        ' ["DejaVu Sans", "Noto Sans CJK JP"].'
    )
